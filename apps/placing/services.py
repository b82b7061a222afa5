"""Every change of the rows: an admin's edit of the policy, the extender's signs of life, its verdicts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec
from django.db import connection, transaction
from django.db.models.functions import Now

from apps.accounts.models import User
from apps.accounts.rights import Action
from apps.accounts.services import authorize, denials_recorded
from apps.audit import services as audit
from apps.clusters import notices
from apps.clusters.models import Cluster
from apps.placing.models import ExtenderBeat, PlacementPolicy, Verdict
from apps.placing.rules import checked_placement

MOST_VERDICTS = 100_000
"""Of one cluster: a day and more of an ordinary cluster, a quarter of an hour of a storm."""
KEPT_FOR = timedelta(days=14)
TYPED = {
    **{"verb": "text", "at": "timestamptz", "pod_uid": "text", "pod_key": "text", "scoring": "text"},
    **{
        "picture_age_seconds": "float8",
        "offered": "int",
        "fitting": "int",
        "refused": "jsonb",
        "top": "jsonb",
    },
    **{"node": "text", "note": "text"},
}
KEEP = (
    f"INSERT INTO {Verdict._meta.db_table} (cluster_id, {', '.join(TYPED)})"
    f" SELECT %s, {', '.join(TYPED)} FROM jsonb_to_recordset(%s::jsonb)"
    f" AS told({', '.join(f'{name} {kind}' for name, kind in TYPED.items())})"
)
NUL = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")
"""A letter that PostgreSQL keeps in no text, as JSON has it; not a backslash of the text before u0000."""
PlacementCheck = Callable[[PlacementPolicy], None]
"""Called with the locked row: raises if it is no longer what the caller looked at."""


@denials_recorded()
def change_placement_policy(
    *, actor: User, cluster: Cluster, wishes: Mapping[str, Any], check: PlacementCheck | None = None
) -> PlacementPolicy:
    """Set these values; the others stay. For admins of the cluster. Raises InvalidPlacement, Denied."""
    authorize(actor, Action.ADMINISTER, cluster)
    values = checked_placement(wishes)
    with transaction.atomic(durable=True):
        policy = _lock(cluster, check)
        changed = {name: value for name, value in values.items() if getattr(policy, name) != value}
        if changed:
            before = {name: getattr(policy, name) for name in changed}
            detail = {"before": before, "after": changed}
            _write(policy, actor, changed, action="placement_policy.changed", detail=detail)
    return policy


@denials_recorded()
@transaction.atomic(durable=True)
def renew_address(*, actor: User, cluster: Cluster, check: PlacementCheck | None = None) -> PlacementPolicy:
    """A new secret in the extender's address: what is asked at the old one is refused within seconds, so the
    scheduler's configuration must be pasted anew. For admins of the cluster."""
    authorize(actor, Action.ADMINISTER, cluster)
    policy = _lock(cluster, check)
    values = {"address_number": policy.address_number + 1}
    _write(policy, actor, values, action="placement_policy.address_renewed", detail={})
    return policy


def _lock(cluster: Cluster, check: PlacementCheck | None) -> PlacementPolicy:
    PlacementPolicy.objects.get_or_create(cluster=cluster)
    rows = PlacementPolicy.objects.select_for_update(no_key=True, of=("self",))
    policy = rows.select_related("cluster", "changed_by").get(cluster=cluster)
    if check is not None:
        check(policy)
    return policy


def _write(
    policy: PlacementPolicy, actor: User, values: Mapping[str, Any], *, action: str, detail: dict[str, Any]
) -> None:
    for name, value in {**values, "changed_at": Now(), "changed_by": actor}.items():
        setattr(policy, name, value)
    policy.version += 1
    policy.save()
    policy.refresh_from_db()
    told = {"version": policy.version, **detail}
    audit.record(actor=actor, action=action, subject=policy, cluster=policy.cluster.name, detail=told)
    notices.publish_on_commit(policy.cluster.name, "policy", {"version": policy.version})


def note_beat(*, cluster_id: int, **facts: Any) -> None:
    """The extender lives. facts: columns of ExtenderBeat; `beat_at` is now, by the database's clock: whoever
    relies on it compares it with nothing else."""
    ExtenderBeat.objects.update_or_create(cluster_id=cluster_id, defaults={**facts, "beat_at": Now()})


def keep_verdicts(*, cluster_id: int, verdicts: Sequence[Mapping[str, Any]]) -> None:
    """verdicts: all columns of Verdict by name, oldest first. One statement with one parameter: the server
    takes it apart, since whoever writes shares its interpreter with an extender that must answer."""
    told = NUL.sub(rb"\1", msgspec.json.encode(verdicts)).decode()
    with connection.cursor() as cursor:
        cursor.execute(KEEP, [cluster_id, told])


def drop_old_verdicts(*, cluster_id: int, now: datetime, most: int = MOST_VERDICTS) -> int:
    """Those past the number or the age that is kept. Returns how many went."""
    rows = Verdict.objects.filter(cluster_id=cluster_id)
    gone, _ = rows.filter(at__lt=now - KEPT_FOR).delete()
    oldest_kept = rows.order_by("-id").values_list("id", flat=True)[most - 1 : most].first()
    if oldest_kept is not None:
        too_many, _ = rows.filter(id__lt=oldest_kept).delete()
        gone += too_many
    return gone
