"""The kill switch that stands in a cluster itself: ConfigMap `kill-switch` in our namespace.

Whoever has kubectl can stop us with it, also where this console cannot be reached.

What was last seen of it stands in the row (`ClusterSafety`), so that a start and a page need not ask. Runners
look before each new effect (`watched.Sight.switch`), a timer looks for everybody else. It is never written.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from django.conf import settings
from django.db import transaction

from apps.audit import services as audit
from apps.clusters.errors import ConnectionFailed
from apps.clusters.gateways import open_gateway
from apps.clusters.models import Cluster
from apps.clusters.notices import publish_on_commit
from apps.executions import ledger
from apps.executions.models import ClusterSafety
from apps.kube.errors import Forbidden, KubeError, Unauthorized
from apps.kube.gateway import CONFIG_MAPS, Gateway, Json
from apps.kube.object_watch import ObjectWatch
from apps.plans.policies import CLUSTER_SWITCH, SWITCH_UNREAD, Ban

NAME = "kill-switch"
TICK_SECONDS = 5.0
"""How old the last sign of life of its watch may be before a new effect; then the server is asked."""
PATIENCE_SECONDS = 30.0
"""Nothing is sent while it cannot be read; what lasts so long pauses the executions of the cluster, too."""
LONGEST_REASON = 200


@dataclass(frozen=True, slots=True)
class Seen:
    """error: why it cannot be read, "" where it could. is_refused: the server said that we may not.
    is_lasting: nobody has known anything for a while."""

    is_on: bool = False
    reason: str = ""
    error: str = ""
    is_refused: bool = False
    is_lasting: bool = True


class SwitchSight:
    """What a runner sees of it during one visit. wake: ends the runner's sleep when it changes."""

    def __init__(self, gateway: Gateway, wake: Callable[[], None]) -> None:
        self._watch = ObjectWatch(
            gateway, CONFIG_MAPS, NAME, namespace=settings.STEERING_NAMESPACE, on_change=wake
        )

    def look(self) -> Seen:
        try:
            return read_switch(self._watch.read(max_age=TICK_SECONDS))
        except KubeError as error:
            lasts = time.monotonic() - self._watch.known_at > PATIENCE_SECONDS
            return _unread(error, lasts=lasts)

    def stop(self) -> None:
        self._watch.stop()

    def join(self) -> None:
        self._watch.join()


def read_switch(found: Json | None) -> Seen:
    """Pure. Whatever it says but `stop: "false"` stops: nobody should die of a misspelt word."""
    if found is None:
        return Seen()
    data = found.get("data") or {}
    if str(data.get("stop", "")).strip().lower() == "false":
        return Seen()
    return Seen(is_on=True, reason=" ".join(str(data.get("reason", "")).split())[:LONGEST_REASON])


def _unread(error: KubeError, *, lasts: bool) -> Seen:
    is_refused = isinstance(error, Forbidden | Unauthorized)
    return Seen(error=str(error), is_refused=is_refused, is_lasting=lasts or is_refused)


def ban_of_switch(cluster: Cluster) -> Ban | None:
    """What the cluster's own switch has against new effects, by what was last seen of it."""
    return ban_by(ClusterSafety.objects.filter(cluster=cluster).first(), cluster.name)


def ban_by(row: ClusterSafety | None, name: str) -> Ban | None:
    if row is None:
        return None
    if row.switch_since is not None:
        why = row.switch_reason or "no reason given"
        return Ban(
            CLUSTER_SWITCH,
            f"The kill switch in {name} itself (ConfigMap {settings.STEERING_NAMESPACE}/{NAME}) is on, seen "
            f"since {row.switch_since:%Y-%m-%d %H:%M} UTC: {why}",
            f"paused by the kill switch in the cluster ({why})",
        )
    if row.switch_error:
        return Ban(
            SWITCH_UNREAD,
            f"The kill switch in {name} could be read before and cannot be read now, so nothing new is "
            f"begun: {row.switch_error}",
            f"paused: the kill switch in the cluster cannot be read any more ({row.switch_error})",
        )
    return None


def why_unread(cluster: Cluster, seen: Seen) -> str:
    """Why nothing may be sent on what was seen just now; "" where it was read, or where the right to read it
    was never given."""
    if not seen.error:
        return ""
    if not seen.is_refused:
        return seen.error
    was_read = ClusterSafety.objects.filter(cluster=cluster, switch_was_read=True).exists()
    return seen.error if was_read else ""


class _Facts(NamedTuple):
    """As the fields of `ClusterSafety` are called."""

    switch_since: datetime | None
    switch_reason: str
    switch_error: str
    switch_was_read: bool


def keep(cluster: Cluster, seen: Seen) -> None:
    """Write what changed; where nothing did it is one short look at the row."""
    row = ClusterSafety.objects.filter(cluster=cluster).first() or ClusterSafety(cluster=cluster)
    if _known(row) == _facts_by(row, seen):
        return
    with transaction.atomic(durable=True):
        ClusterSafety.objects.get_or_create(cluster=cluster)
        row = ClusterSafety.objects.select_for_update(no_key=True).get(cluster=cluster)
        was_on, facts = row.switch_since is not None, _facts_by(row, seen)
        for name, value in facts._asdict().items():
            setattr(row, name, value)
        row.save(update_fields=_Facts._fields)
        if was_on != (row.switch_since is not None):
            action = "cluster.switch_seen_off" if was_on else "cluster.switch_seen_on"
            detail = {"reason": seen.reason}
            audit.record(actor=None, action=action, subject=cluster, cluster=cluster.name, detail=detail)
        publish_on_commit(cluster.name, "policy", {})


def _known(row: ClusterSafety) -> _Facts:
    return _Facts(*(getattr(row, name) for name in _Facts._fields))


def _facts_by(row: ClusterSafety, seen: Seen) -> _Facts:
    """What cannot be read is neither on nor off: that stays as it was."""
    known = _known(row)
    if seen.error:
        is_told = seen.is_lasting and row.switch_was_read
        return known._replace(switch_error=seen.error) if is_told else known
    since = (row.switch_since or ledger.database_time()) if seen.is_on else None
    return _Facts(since, seen.reason, "", True)


def look_at_switch(cluster: Cluster) -> Seen:
    """One request, for the timer: what it finds is kept."""
    try:
        gateway = open_gateway(cluster)
    except ConnectionFailed as error:
        return Seen(error=str(error), is_lasting=False)
    try:
        seen = look_through(gateway)
    finally:
        gateway.close()
    keep(cluster, seen)
    return seen


def look_through(gateway: Gateway) -> Seen:
    """One request; nothing is kept."""
    try:
        return read_switch(gateway.get_object(CONFIG_MAPS, NAME, namespace=settings.STEERING_NAMESPACE))
    except KubeError as error:
        return _unread(error, lasts=False)
