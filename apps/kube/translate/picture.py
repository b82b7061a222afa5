"""Puts the translated objects together into one snapshot.

A `Translator` remembers what it translated, by UID and resourceVersion, so an update of a large
cluster costs what has changed. `build_snapshot` is the same for objects seen only once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from apps.kube.gateway import (
    ALL_POD_GROUPS,
    BUDGETS,
    CLAIMS,
    DAEMONSETS,
    DEPLOYMENTS,
    JOBS,
    KOORDINATOR_DEVICES,
    NAMESPACES,
    NATIVE_WORKLOADS,
    NODES,
    PODS,
    REPLICASETS,
    STATEFULSETS,
    VOLUMES,
    Kind,
)
from apps.kube.translate.book_keeping import BookKeeper
from apps.kube.translate.groups import (
    Renamed,
    read_native_workload,
    read_pod_group,
    tell_apart,
    with_unseen_gangs,
)
from apps.kube.translate.holders import Holders, Sighting
from apps.kube.translate.linked import Linker
from apps.kube.translate.nodes import ReadNode, read_node
from apps.kube.translate.odd import OddNodes
from apps.kube.translate.pods import Surroundings, read_pod
from apps.kube.translate.protections import MOVABLE, PROTECT
from apps.kube.translate.queues import read_queue_facts
from apps.kube.translate.reservations import with_lone_placeholders
from apps.kube.translate.single import Scenery
from apps.kube.translate.sliced_nodes import SlicedNodes
from apps.kube.translate.surroundings import GANG, Around, Ties, read_ties, surroundings_of
from apps.kube.translate.unreadable import (
    UNREADABLE,
    Raw,
    name_of,
    opened,
    place_of,
    stamp_of,
    unreadable_node,
    unreadable_pod,
)
from apps.kube.translate.values import brief, child, clean
from apps.kube.translate.volumes import bound_volume, claimed_volume
from apps.kube.translate.workloads import read_budget, read_workload, update_with_parents
from apps.planner.inventory import DisruptionBudget, Gang, Node, Pod, Workload
from apps.planner.snapshot import Snapshot

Objects = Mapping[Kind, Iterable[Raw]]
WORKLOAD_KINDS = {
    REPLICASETS: "ReplicaSet",
    DEPLOYMENTS: "Deployment",
    STATEFULSETS: "StatefulSet",
    DAEMONSETS: "DaemonSet",
    JOBS: "Job",
}


def build_snapshot(cluster: str, objects: Objects, taken_at: float, problems: Iterable[str] = ()) -> Snapshot:
    """objects: API objects by kind; a kind that is missing could not be read, an empty one has none."""
    return Translator().build(cluster, objects, taken_at=taken_at, problems=problems)


@dataclass(frozen=True, slots=True)
class _SeenPod:
    revision: str
    ties: Ties
    surroundings: Surroundings
    pod: Pod


class Translator:
    """Remembers the objects of its last snapshot. scenery: what was around them. Not safe to share between
    threads."""

    def __init__(self) -> None:
        self._nodes: dict[str, tuple[str, ReadNode]] = {}
        self._pods: dict[str, _SeenPod] = {}
        self._others: dict[tuple[str, str], tuple[str, Any]] = {}
        self._known_others = self._others
        self._linker = Linker()
        self._holders = Holders()
        self._sliced = SlicedNodes()
        self._keeper = BookKeeper()
        self._odd = OddNodes()
        self._lone: dict[str, tuple[Pod, Pod]] = {}
        self.scenery = Scenery()

    def build(
        self,
        cluster: str,
        objects: Objects,
        *,
        taken_at: float,
        problems: Iterable[str] = (),
        sightings: Mapping[str, Sequence[Sighting]] | None = None,
    ) -> Snapshot:
        """sightings: what exporters' labels say of who holds what, by the name of the node."""
        said = list(problems)
        self._known_others, self._others = self._others, {}
        workloads, job_gangs = self._read_workloads(objects, said)
        groups, renamed = self._read_groups(objects, said)
        book = self._keeper.keep(objects, self._remembered, said)
        around = self._read_around(objects, workloads, job_gangs, said)
        around = replace(around, renamed=renamed, book=book)
        pods = with_lone_placeholders(self._read_pods(objects.get(PODS, ()), around, said), self._lone)
        nodes = self._sliced.add(self._read_nodes(objects.get(NODES, ()), taken_at, said), book.nodes)
        nodes = self._linker.link(nodes, objects.get(KOORDINATOR_DEVICES, ()), book.nodes)
        facts = read_queue_facts(objects, self._remembered, said)
        self.scenery = Scenery(around, book.nodes, self._linker.told, nodes)
        return Snapshot(
            cluster=cluster,
            taken_at=taken_at,
            nodes=self._odd.mark(self._holders.settle(nodes, pods, sightings or {})),
            pods=pods,
            workloads=self._with_unseen_owners(workloads, pods),
            budgets={budget.uid: budget for budget in self._read_budgets(objects, said)},
            gangs=with_unseen_gangs(groups, pods, workloads),
            **facts.as_fields(),
            problems=tuple(said),
        )

    def _read_workloads(
        self, objects: Objects, said: list[str]
    ) -> tuple[dict[str, Workload], frozenset[str]]:
        """By uid; and the uids of Jobs whose own annotation makes their pods a gang."""
        found: dict[str, Workload] = {}
        gangs: set[str] = set()
        for kind, name in WORKLOAD_KINDS.items():
            for raw in objects.get(kind, ()):
                read = self._remembered(name, raw, lambda raw, name=name: read_owner(raw, name), said)
                if read is not None and read[0].uid:
                    found[read[0].uid] = read[0]
                    if read[1]:
                        gangs.add(read[0].uid)
        return update_with_parents(found), frozenset(gangs)

    def _read_around(
        self,
        objects: Objects,
        workloads: Mapping[str, Workload],
        job_gangs: frozenset[str],
        said: list[str],
    ) -> Around:
        def read_all(kind: Kind, name: str, read: Any) -> list[Any]:
            return [self._remembered(name, raw, read, said) for raw in objects.get(kind, ())]

        pinned = None
        if CLAIMS in objects and VOLUMES in objects:
            bound = dict(filter(None, read_all(VOLUMES, "volume", bound_volume)))
            claims = filter(None, read_all(CLAIMS, "claim", claimed_volume))
            pinned = {claim: bound[volume] for claim, volume in claims if volume in bound}
        spaces = [opened(raw) for raw in objects.get(NAMESPACES, ())]
        protected, offered = (
            frozenset(filter(None, (_namespace_saying(raw, key) for raw in spaces)))
            for key in (PROTECT, MOVABLE)
        )
        return Around(protected, offered, workloads, pinned, job_gangs)

    def _read_budgets(self, objects: Objects, said: list[str]) -> list[DisruptionBudget]:
        read = (self._remembered("budget", raw, read_budget, said) for raw in objects.get(BUDGETS, ()))
        return [budget for budget in read if budget is not None]

    def _remembered(self, kind: str, raw: Raw, read: Any, said: list[str]) -> Any:
        uid, revision = stamp_of(raw)
        known = self._known_others.get((kind, uid))
        if known is not None and uid and known[0] == revision != "":
            self._others[(kind, uid)] = known
            return known[1]
        raw = opened(raw)
        try:
            found = read(raw)
        except UNREADABLE as error:
            said.append(f"The {kind} {name_of(raw)} cannot be read ({type(error).__name__}).")
            return None
        self._others[(kind, uid)] = (revision, found)
        return found

    def _read_pods(self, raws: Iterable[Raw], around: Around, said: list[str]) -> dict[str, Pod]:
        seen: dict[str, _SeenPod] = {}
        pods: dict[str, Pod] = {}
        for raw in raws:
            uid, revision = stamp_of(raw)
            known = self._pods.get(uid)
            if known is not None and (known.pod.namespace, known.pod.name) != place_of(raw):
                known = None  # two pods with one UID
            try:
                found = _read_pod_again(known, raw, revision, around)
            except UNREADABLE as error:
                spoiled = opened(raw)
                said.append(f"The pod {name_of(spoiled)} cannot be read ({type(error).__name__}).")
                pod = unreadable_pod(spoiled)
                pods[pod.uid] = pod
                continue
            pod = found.pod if found.pod.uid else replace(found.pod, uid=found.pod.key)
            if pod.uid in pods and pods[pod.uid].key != pod.key:
                said.append(f"The pods {brief(pods[pod.uid].key)} and {brief(pod.key)} have one UID.")
                pod = replace(pod, uid=f"{pod.uid} {pod.key}")
            pods[pod.uid] = pod
            seen[pod.uid] = found
        self._pods = seen
        return pods

    def _read_nodes(self, raws: Iterable[Raw], taken_at: float, said: list[str]) -> dict[str, Node]:
        seen: dict[str, tuple[str, ReadNode]] = {}
        nodes: dict[str, Node] = {}
        for raw in raws:
            uid, revision = stamp_of(raw)
            known = self._nodes.get(uid)
            if known and uid and known[0] == revision != "" and not _is_over(known[1].valid_until, taken_at):
                read = known[1]
            else:
                read = _read_node_safely(opened(raw), taken_at, said)
            if not _can_be_asked_for(read.node.name):
                said.append(f"A node is left out: {brief(read.node.name)!r} is no name of a node.")
                continue
            if read.node.name in nodes:
                said.append(f"The node {brief(read.node.name)} is there twice; the last one is shown.")
            nodes[read.node.name] = read.node
            seen[uid] = (revision, read)
        self._nodes = seen
        return {name: nodes[name] for name in sorted(nodes)}

    def _read_groups(self, objects: Objects, said: list[str]) -> tuple[dict[str, Gang], Renamed]:
        read = [
            self._remembered(kind.group, raw, lambda raw, kind=kind: read_pod_group(raw, kind), said)
            for kind in ALL_POD_GROUPS
            for raw in objects.get(kind, ())
        ]
        for raw in objects.get(NATIVE_WORKLOADS, ()):
            read += self._remembered("workload of Kubernetes", raw, read_native_workload, said) or ()
        return tell_apart(gang for gang in read if gang is not None)

    def _with_unseen_owners(
        self, workloads: dict[str, Workload], pods: Mapping[str, Pod]
    ) -> dict[str, Workload]:
        """Owners of kinds that are not read are still shown by the name that the pods' references give."""
        unseen: dict[str, Workload] = {}
        for uid, seen in self._pods.items():
            kind, name, owner_uid = seen.ties.owner
            if owner_uid and owner_uid not in workloads and owner_uid not in unseen and uid in pods:
                unseen[owner_uid] = Workload(owner_uid, kind, seen.ties.namespace, name, display=name)
        return {**workloads, **unseen}


def _read_pod_again(known: _SeenPod | None, raw: Raw, revision: str, around: Around) -> _SeenPod:
    if known is not None and known.revision == revision != "":
        surroundings = surroundings_of(known.ties, around)
        if known.surroundings == surroundings:
            return known
        return _SeenPod(revision, known.ties, surroundings, read_pod(opened(raw), surroundings))
    whole = opened(raw)
    ties = read_ties(whole)
    surroundings = surroundings_of(ties, around)
    return _SeenPod(revision, ties, surroundings, read_pod(whole, surroundings))


def _read_node_safely(raw: Mapping[str, Any], taken_at: float, said: list[str]) -> ReadNode:
    try:
        return read_node(raw, taken_at=taken_at)
    except UNREADABLE as error:
        said.append(f"The node {name_of(raw)} cannot be read ({type(error).__name__}).")
        return ReadNode(unreadable_node(raw, taken_at))


def _can_be_asked_for(name: str) -> bool:
    """Whether an address can end in it. No API server takes another name, but a dump may hold one."""
    return name not in ("", ".", "..") and "/" not in name


def read_owner(raw: Mapping[str, Any], kind: str) -> tuple[Workload, bool]:
    """The workload, and whether its own annotation makes its pods a gang."""
    is_gang = kind == "Job" and child(raw, "metadata", "annotations").get(GANG) == "true"
    return read_workload(raw, kind), is_gang


def _namespace_saying(raw: Mapping[str, Any], key: str) -> str:
    """Its name if its annotation of that key is true."""
    is_said = child(raw, "metadata", "annotations").get(key) == "true"
    return clean(child(raw, "metadata").get("name"), 253) if is_said else ""


def _is_over(valid_until: float | None, taken_at: float) -> bool:
    return valid_until is not None and taken_at >= valid_until
