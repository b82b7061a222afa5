"""Reads what a cluster's preflight needs and puts its lines together. Changes nothing in the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from apps.clusters import queries as clusters
from apps.clusters.mig_manager import MigManager, read_manager
from apps.clusters.models import Cluster
from apps.executions.cluster_preflight.consoles import is_about_lease, judge_lease_rights
from apps.executions.cluster_preflight.kill_switch import is_about_switch, judge_switch
from apps.executions.cluster_preflight.lines import Line
from apps.executions.cluster_preflight.movers import judge_movers
from apps.executions.cluster_preflight.rights import (
    Right,
    find_missing,
    judge_rights,
    may_evict,
    named_rights,
)
from apps.executions.cluster_preflight.schedulers import judge_others, judge_pools
from apps.executions.cluster_preflight.sources import judge_budgets, judge_metrics, judge_mig
from apps.executions.cluster_preflight.steering import Way, find_way, judge_steering
from apps.executions.cluster_preflight.versions import judge_version
from apps.executions.cluster_switch import Seen, look_through
from apps.executions.other_schedulers.settings import OtherSchedulers, Program, read_programs, read_settings
from apps.kube.errors import Forbidden, NotFound
from apps.kube.gateway import CRON_JOBS, DAEMONSETS, DEPLOYMENTS, Gateway
from apps.kube.own_rights import OwnRights
from apps.planner.snapshot import Snapshot
from apps.telemetry import queries as telemetry

PROGRAMS = ((DEPLOYMENTS, "Deployment"), (DAEMONSETS, "DaemonSet"), (CRON_JOBS, "CronJob"))


@dataclass(frozen=True)
class Sight:
    """What was read. manager: None where no node can be cut. unread: kinds of programs that are hidden."""

    version: str
    picture: Snapshot | None
    programs: tuple[Program, ...]
    unread: tuple[str, ...]
    settings: OtherSchedulers
    steering: Way
    manager: MigManager | None
    rights: tuple[Right, ...]
    missing: tuple[Right, ...]
    measured: tuple[bool, str] = field(default=(False, ""))
    switch: Seen = field(default=Seen())


@dataclass(frozen=True, slots=True)
class Examined:
    """may_evict: the credential may do more than read."""

    version: str
    lines: tuple[Line, ...]
    may_evict: bool


def examine_cluster(cluster: Cluster, gateway: Gateway) -> Examined:
    """Raises KubeError where the cluster does not answer."""
    seen = take_sight(cluster, gateway)
    return Examined(seen.version, tuple(judge_cluster(seen)), may_evict(seen.missing))


def take_sight(cluster: Cluster, gateway: Gateway) -> Sight:
    row = clusters.latest_snapshot(cluster)
    picture = clusters.open_snapshot(row) if row is not None else None
    programs, unread = _read_programs(gateway)
    rights, allowed = named_rights(), OwnRights(gateway)
    source = telemetry.source_of(cluster)
    return Sight(
        version=gateway.version(),
        picture=picture,
        programs=tuple(programs),
        unread=tuple(unread),
        settings=read_settings(gateway, programs),
        steering=find_way(gateway, allowed),
        manager=_read_manager(gateway, picture),
        rights=tuple(rights),
        missing=tuple(find_missing(rights, allowed.may)),
        measured=(source is not None, source.error if source is not None else ""),
        switch=look_through(gateway),
    )


def _read_programs(gateway: Gateway) -> tuple[list[Program], list[str]]:
    programs: list[Program] = []
    unread = []
    for kind, word in PROGRAMS:
        try:
            programs += read_programs(gateway, kind, word)
        except Forbidden:
            unread.append(kind.plural)
        except NotFound:
            continue  # not served, so there are none
    return programs, unread


def _read_manager(gateway: Gateway, picture: Snapshot | None) -> MigManager | None:
    nodes = picture.nodes.values() if picture is not None else ()
    if not any(node.labels.get("nvidia.com/mig.capable") == "true" for node in nodes):
        return None
    return read_manager(gateway)


def judge_cluster(seen: Sight) -> Iterator[Line]:
    """Pure: the lines of a preflight, subject after subject."""
    yield from judge_version(seen.version)
    told_apart = [right for right in seen.missing if is_about_switch(right) or is_about_lease(right)]
    yield from judge_rights(seen.rights, [right for right in seen.missing if right not in told_apart])
    yield from judge_switch(seen.missing, seen.switch)
    yield from judge_lease_rights(seen.missing)
    yield from judge_steering(seen.steering)
    yield from judge_pools(seen.picture)
    yield from judge_others(seen.settings)
    yield from judge_mig(seen.picture, seen.manager)
    yield from judge_movers(seen.programs, seen.picture, seen.unread)
    yield from judge_budgets(seen.picture)
    yield from judge_metrics(*seen.measured)
