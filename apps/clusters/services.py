"""Every change of clusters and snapshots: one function, one durable transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.db.models import ManyToOneRel
from django.utils.text import slugify

from apps.accounts.rights import Action
from apps.accounts.services import authorize, denials_recorded
from apps.audit import services as audit
from apps.clusters import pictures
from apps.clusters.credentials import seal
from apps.clusters.dump_packing import PackedPicture, pack_dump
from apps.clusters.errors import (
    AlreadyRegistered,
    BadDump,
    BadKubeconfig,
    BadName,
    ConnectionFailed,
    NameTaken,
)
from apps.clusters.gateways import open_with
from apps.clusters.models import Cluster, Snapshot
from apps.clusters.notices import publish, publish_on_commit
from apps.clusters.packing import Packer
from apps.clusters.waking import wake_followers
from apps.kube import errors as kube_errors
from apps.kube import kubeconfig as kubeconfigs
from apps.planner.snapshot import Snapshot as Picture

Check = Callable[[Cluster], None]
TAKEN_WORDS = ("dumps",)  # they stand in an address where a cluster's name would
REGISTRATION_LOCK = 0x636C75737465
"""Key of the advisory lock that puts registrations in a row."""


@denials_recorded()
def register_cluster(
    *, actor: Any, name: str, kubeconfig: str, check: bool = True, allow_insecure: bool = False
) -> Cluster:
    """Add a cluster. actor None is somebody at the server's command line.

    check: connect first and pin the cluster's identity; without it the watcher pins on first contact.
    Raises Denied, BadKubeconfig, BadName, NameTaken, AlreadyRegistered or ConnectionFailed.
    """
    if actor is not None:
        authorize(actor, Action.ADMINISTER, None, subject=f"cluster {name[:63]}")
    _check_name(name)
    credentials = _read(kubeconfig, allow_insecure)
    version, uid = _contact(credentials) if check else ("", "")
    with transaction.atomic(durable=True):
        if actor is not None:
            authorize(actor, Action.ADMINISTER, None, subject=f"cluster {name}")
        _one_registration_at_a_time()
        if Cluster.objects.filter(name=name).exists():
            raise NameTaken(f"A cluster named {name!r} is registered already: choose another name.")
        _refuse_twins(uid)
        cluster = Cluster.objects.create(
            name=name,
            server=credentials.server,
            ca_certificate=credentials.ca,
            credential=seal(credentials),
            kube_system_uid=uid,
            version=version,
        )
        detail = {"server": credentials.server, "kube_system_uid": uid, "version": version}
        audit.record(actor=actor, action="cluster.registered", subject=cluster, cluster=name, detail=detail)
    return cluster


@denials_recorded()
def replace_credentials(
    *,
    actor: Any,
    cluster_id: int,
    kubeconfig: str,
    allow_insecure: bool = False,
    rebuilt: bool = False,
    check: Check | None = None,
) -> Cluster:
    """Give a registered cluster a new kubeconfig; the cluster behind it must be the same one.

    rebuilt: it was built anew under its old name, so that its new identity is pinned instead. check:
    called with the locked row, to refuse what is no longer as it was looked at.
    Raises Denied, BadKubeconfig, AlreadyRegistered or ConnectionFailed.
    """
    cluster = Cluster.objects.get(pk=cluster_id)
    if actor is not None:
        authorize(actor, Action.ADMINISTER, cluster, subject=cluster)
    if not cluster.is_live:
        raise NameTaken(f"{cluster.name!r} is a dump: connect the cluster itself under another name.")
    credentials = _read(kubeconfig, allow_insecure)
    version, uid = _contact(credentials, pinned_uid="" if rebuilt else cluster.kube_system_uid)
    with transaction.atomic(durable=True):
        _one_registration_at_a_time()
        cluster = Cluster.objects.select_for_update(no_key=True).get(pk=cluster_id)
        if actor is not None:
            authorize(actor, Action.ADMINISTER, cluster, subject=cluster)
        if check is not None:
            check(cluster)
        _refuse_twins(uid, but=cluster.pk)
        cluster.server, cluster.ca_certificate = credentials.server, credentials.ca
        cluster.credential, cluster.version, cluster.kube_system_uid = seal(credentials), version, uid
        cluster.save(update_fields=["server", "ca_certificate", "credential", "version", "kube_system_uid"])
        detail = {"server": credentials.server, "kube_system_uid": uid, "version": version}
        audit.record(
            actor=actor, action="cluster.credentials", subject=cluster, cluster=cluster.name, detail=detail
        )
    return cluster


@denials_recorded()
@transaction.atomic(durable=True)
def set_cluster_active(
    *, actor: Any, cluster_id: int, is_active: bool | None, check: Check | None = None
) -> Cluster:
    """Start or stop watching a cluster (None: neither). Its rows stay. check: as in `replace_credentials`."""
    cluster = Cluster.objects.select_for_update(no_key=True).get(pk=cluster_id)
    if actor is not None:
        authorize(actor, Action.ADMINISTER, cluster, subject=cluster)
    if check is not None:
        check(cluster)
    if is_active is not None and cluster.is_active != is_active:
        cluster.is_active = is_active
        cluster.save(update_fields=["is_active"])
        action = "cluster.activated" if is_active else "cluster.deactivated"
        audit.record(actor=actor, action=action, subject=cluster, cluster=cluster.name)
    return cluster


@denials_recorded()
def register_dump(*, actor: Any, name: str, paths: Sequence[tuple[str, Path]]) -> Cluster:
    """Look at a cluster through a dump that kubectl wrote, without any connection to it.

    paths: (what the file is called, where it lies), read together. Under the name of an earlier dump it
    becomes that one's newest snapshot. actor None: somebody at the command line.
    Raises Denied, BadDump, BadName or NameTaken.
    """
    if actor is not None:
        authorize(actor, Action.ADMINISTER, None, subject=f"cluster {name[:63]}")
    _check_name(name)
    if not paths:
        raise BadDump("no file was given: choose the ones that kubectl wrote")
    if Cluster.objects.filter(name=name, source=Cluster.Source.API).exists():
        raise NameTaken(f"{name!r} is a connected cluster: give the dump a name of its own.")
    packed = pack_dump(paths)
    with transaction.atomic(durable=True):
        if actor is not None:
            authorize(actor, Action.ADMINISTER, None, subject=f"cluster {name}")
        _one_registration_at_a_time()
        cluster, is_new = Cluster.objects.get_or_create(name=name, defaults={"source": Cluster.Source.DUMP})
        if cluster.is_live:
            raise NameTaken(f"{name!r} is a connected cluster: give the dump a name of its own.")
        row = record_packed(cluster_id=cluster.pk, packed=packed)
        detail = {"files": [told for told, _ in paths], "digest": packed.digest, "snapshot": row.pk}
        action = "cluster.registered" if is_new else "cluster.dumped"
        audit.record(actor=actor, action=action, subject=cluster, cluster=name, detail=detail)
    cluster.refresh_from_db()
    return cluster


def record_snapshot(
    *,
    cluster_id: int,
    snapshot: Picture,
    packer: Packer | None = None,
    problems: Sequence[dict[str, str]] = (),
) -> Snapshot:
    """Keep a picture. The same facts as the newest row only move that row's time on.

    packer: of a watch, which has packed the picture before this one.
    """
    packer = packer or Packer()
    packed = PackedPicture(
        taken_at=snapshot.taken_at,
        digest=packer.digest(snapshot),
        summary=pictures.summarise(snapshot),
        body=packer.pack(snapshot),
    )
    return record_packed(cluster_id=cluster_id, packed=packed, problems=problems)


def record_packed(
    *, cluster_id: int, packed: PackedPicture, problems: Sequence[dict[str, str]] = ()
) -> Snapshot:
    """The same for a picture that another program packed. The newest upload of a dump is the newest row,
    however old the dump is."""
    digest, summary = packed.digest, packed.summary
    taken_at = datetime.fromtimestamp(packed.taken_at, UTC)
    with transaction.atomic():
        cluster = Cluster.objects.select_for_update(no_key=True).get(pk=cluster_id)
        row = Snapshot.objects.defer("body").filter(cluster=cluster).order_by("-id").first()
        if row is not None and row.digest == digest:
            row.taken_at = max(row.taken_at, taken_at)
            row.save(update_fields=["taken_at"])
        elif row is None or row.taken_at <= taken_at or not cluster.is_live:
            row = Snapshot.objects.create(
                cluster=cluster, taken_at=taken_at, digest=digest, body=packed.body, summary=summary
            )
            # Told without the lists of nodes, which have no bound; the row has them.
            told = {name: value for name, value in summary.items() if name not in ("drifted", "maintained")}
            data = {"id": row.pk, "taken_at": taken_at.isoformat(), "summary": told}
            publish_on_commit(cluster.name, "snapshot", data)
            transaction.on_commit(wake_followers, robust=True)
        cluster.watched_at = max(cluster.watched_at or taken_at, taken_at)
        cluster.watch_error, cluster.problems = "", list(problems)
        cluster.save(update_fields=["watched_at", "watch_error", "problems"])
    return row


def note_heartbeat(*, cluster_id: int, cluster_name: str, snapshot_id: int, fresh_at: float) -> None:
    """The newest picture still holds: two cheap updates, no new row."""
    moment = datetime.fromtimestamp(fresh_at, UTC)
    Snapshot.objects.filter(pk=snapshot_id, taken_at__lt=moment).update(taken_at=moment)
    Cluster.objects.filter(pk=cluster_id).update(watched_at=moment, watch_error="")
    publish(cluster_name, "heartbeat", {"id": snapshot_id, "taken_at": moment.isoformat()})


def note_watch_error(
    *, cluster_id: int, cluster_name: str, error: str, problems: Sequence[dict[str, str]] = ()
) -> None:
    """Why there is no fresh picture, for people to read."""
    Cluster.objects.filter(pk=cluster_id).update(watch_error=error[:2000], problems=list(problems))
    publish(cluster_name, "heartbeat", {"error": error[:500]})


def pin_cluster(*, cluster_id: int, uid: str, version: str) -> None:
    """Remember who answered first; a cluster that is pinned already stays so."""
    Cluster.objects.filter(pk=cluster_id, kube_system_uid="").update(kube_system_uid=uid)
    Cluster.objects.filter(pk=cluster_id).exclude(version=version[:40]).update(version=version[:40])


def prune_snapshots(*, cluster_id: int) -> int:
    """Drop the pictures past SNAPSHOTS_KEPT, except those that something (a plan) refers to."""
    rows = Snapshot.objects.filter(cluster_id=cluster_id)
    kept_ids = list(rows.order_by("-id").values_list("id", flat=True)[: settings.SNAPSHOTS_KEPT])
    if len(kept_ids) < settings.SNAPSHOTS_KEPT:
        return 0
    old = rows.filter(id__lt=kept_ids[-1])
    for relation in Snapshot._meta.get_fields(include_hidden=True):
        if isinstance(relation, ManyToOneRel):
            # Later stages point here; they are found through the model, never imported.
            referring: Any = relation.related_model
            name = relation.field.name
            old = old.exclude(pk__in=referring._base_manager.exclude(**{name: None}).values(name))
    try:
        with transaction.atomic():
            return old.only("id").delete()[0]
    except IntegrityError:
        return 0  # a plan began to refer to one of them at this moment: next time


def _check_name(name: str) -> None:
    if not name or len(name) > 63 or slugify(name) != name:
        raise BadName(f"{name[:80]!r} is no name for a cluster: use lower-case letters, digits and dashes.")
    if name in TAKEN_WORDS:
        raise BadName(f"{name!r} is a word of the console's own addresses: choose another name.")


def _read(text: str, allow_insecure: bool) -> kubeconfigs.Credentials:
    try:
        return kubeconfigs.read_kubeconfig(text, allow_insecure=allow_insecure)
    except kubeconfigs.BadKubeconfig as error:
        raise BadKubeconfig(str(error)) from error


def _contact(credentials: kubeconfigs.Credentials, *, pinned_uid: str = "") -> tuple[str, str]:
    """(version, UID of kube-system) of the cluster that answers."""
    try:
        gateway = open_with(credentials, pinned_uid=pinned_uid)
        try:
            gateway.prove_identity()
            return gateway.version()[:40], gateway.cluster_uid()
        finally:
            gateway.close()
    except kube_errors.KubeError as error:
        raise ConnectionFailed(str(error)) from error


def _refuse_twins(uid: str, *, but: int | None = None) -> None:
    """Two registrations of one cluster would plan against each other."""
    twins = Cluster.objects.filter(kube_system_uid=uid).exclude(pk=but or 0)
    twin = twins.first() if uid else None
    if twin is not None:
        raise AlreadyRegistered(
            f"This cluster is registered already, as {twin.name!r}: replace its credentials instead."
        )


def _one_registration_at_a_time() -> None:
    """Until the end of the transaction, so that what is looked up first still holds when it is written."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [REGISTRATION_LOCK])
