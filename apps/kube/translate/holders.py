"""Settles which pod holds which device of a node, from all sources that tell it.

For each pod the best source present counts: the allocation of its claims, then what its scheduler wrote on
it, then the node agent, then an exporter's labels. A pod that is gone or finished holds nothing, whatever an
annotation still says; a placeholder of a share scheduler is no load. Sources that contradict each other are
told among the node's warnings, with both sources and both pods.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from apps.kube.translate.placing import Places
from apps.kube.translate.reservations import SHARE_GROUP
from apps.planner.inventory import HeldDevice, Holding, Node, Pod, Source
from apps.planner.ledger_rows import SOURCE_WORDS

ORDER = tuple(Source)
MOST_SENTENCES = 5


@dataclass(frozen=True, slots=True)
class Sighting:
    """A workload pod that an exporter names beside a device, by names: exporters know no UIDs."""

    namespace: str
    pod: str
    device: str
    container: str = ""
    observed_at: float | None = None


def settle_holders(node: Node, pods: Iterable[Pod], sightings: Sequence[Sighting] = ()) -> Node:
    """The node with its holdings and what its sources disagree about.

    node: with the node agent's own word in `holdings`, None without one. pods: those that hold resources on
    the node; pods of which no source could tell a device may be missing.
    """
    guests = {pod.uid: pod for pod in pods}
    told = _Told(node, guests)
    told.take_from_pods()
    told.take_from_agent()
    told.take_from_exporter(sightings)
    told.follow_placeholders()
    loads = [pod for pod in guests.values() if not (pod.hold or pod.reservation)]
    of_pods = (one for pod in sorted(loads, key=lambda pod: pod.uid) for one in told.best_of(pod))
    holdings = (*of_pods, *told.kept())
    sentences = [*told.problems, *_contradictions(told), *_disagreeing_pods(told)]
    if node.holdings is None and not holdings and not sentences:
        return node
    if holdings == node.holdings and not sentences:
        return node
    is_told = node.holdings is not None or bool(holdings)
    return replace(
        node,
        holdings=holdings if is_told else None,
        warnings=(*node.warnings, *_brief(sentences)),
    )


class Holders:
    """Remembers what it settled: a node stays whose facts, telling pods and sightings are the same."""

    def __init__(self) -> None:
        self._settled: dict[str, tuple[Node, tuple[object, ...], Node]] = {}

    def settle(
        self,
        nodes: Mapping[str, Node],
        pods: Mapping[str, Pod],
        sightings: Mapping[str, Sequence[Sighting]],
    ) -> dict[str, Node]:
        """nodes by name, pods by uid; sightings by the name of the node."""
        telling = _by_node(pods.values() if sightings else filter(tells_devices, pods.values()))
        kept: dict[str, tuple[Node, tuple[object, ...], Node]] = {}
        found = dict(nodes)
        for name, node in nodes.items():
            here = telling.get(name, ())
            if node.holdings is None and not here and not node.kept:
                continue
            named = (pods.get(one.pod_uid) for one in node.holdings or ())
            alive = (pod for pod in named if pod is not None and pod.is_holding and pod.node_name == name)
            guests = {pod.uid: pod for pod in (*here, *alive)}
            seen = sightings.get(name, ())
            key = (*guests.values(), *seen)
            known = self._settled.get(name)
            if known is None or known[0] is not node or not _are_same(known[1], key):
                known = (node, key, settle_holders(node, guests.values(), seen))
            kept[name] = known
            found[name] = known[2]
        self._settled = kept
        return found


def tells_devices(pod: Pod) -> bool:
    """Whether it says itself, or through its placeholder, which device it holds."""
    return bool(pod.devices) or pod.reservation or SHARE_GROUP in pod.labels


def _by_node(pods: Iterable[Pod]) -> dict[str, list[Pod]]:
    found: dict[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        if pod.node_name and pod.is_holding:
            found[pod.node_name].append(pod)
    return found


def _are_same(some: Sequence[object], others: Sequence[object]) -> bool:
    return len(some) == len(others) and all(one is other for one, other in zip(some, others, strict=True))


class _Told:
    """by_pod: pod uid -> source -> holdings."""

    def __init__(self, node: Node, guests: Mapping[str, Pod]) -> None:
        self.node, self.guests = node, guests
        self.places = Places(node)
        self.by_pod: dict[str, dict[Source, list[Holding]]] = defaultdict(lambda: defaultdict(list))
        self.problems: list[str] = []

    def take_from_pods(self) -> None:
        for pod in self.guests.values():
            for held in pod.devices:
                found = self.places.find(held)
                if found is None:
                    self._say_missing(pod, held)
                else:
                    self._add(self._holding(pod, held, found))

    def _holding(self, pod: Pod, held: HeldDevice, found: tuple[str, int | None, int | None]) -> Holding:
        device, milli, memory = found
        return Holding(pod.uid, device, milli or 0, memory, held.container, held.source)

    def kept(self) -> Iterator[Holding]:
        """By claims that no pod uses."""
        for held in self.node.kept:
            found = self.places.find(held)
            if found is not None:
                device, milli, memory = found
                yield Holding("", device, milli or 0, memory, source=held.source, kept_by=held.claim)

    def _say_missing(self, pod: Pod, held: HeldDevice) -> None:
        number = f"number {held.index}" if held.index is not None else ""
        name = held.uuid or number or held.part or "without a name"
        who = SOURCE_WORDS[held.source]
        why = (
            "this node has no such device"
            if self.places.has_uuids
            else "the UUIDs of its devices are not told"
        )
        self.problems.append(f"{who} gives {pod.key} the device {name}, but {why}: where it is, is unknown")

    def take_from_agent(self) -> None:
        """Those of pods that are gone are left out: they hold nothing."""
        for holding in self.node.holdings or ():
            if holding.pod_uid in self.guests:
                seen = holding.observed_at
                seen = self.node.holdings_observed_at if seen is None else seen
                self._add(holding if holding.observed_at == seen else replace(holding, observed_at=seen))

    def take_from_exporter(self, sightings: Sequence[Sighting]) -> None:
        if not sightings:
            return
        by_name = {(pod.namespace, pod.name): pod.uid for pod in self.guests.values()}
        for seen in sightings:
            uid, device = by_name.get((seen.namespace, seen.pod)), self.places.key_of(seen.device)
            if uid is not None and device is not None:
                pod = self.guests[uid]
                if (seen.observed_at or 0.0) < (pod.started_at or pod.created_at):
                    continue  # of the pod before it, which had the same name
                self._add(
                    Holding(
                        uid,
                        device,
                        pod.gpu_milli,
                        pod.gpu_memory_mib,
                        seen.container,
                        Source.EXPORTER,
                        seen.observed_at,
                    )
                )

    def follow_placeholders(self) -> None:
        """A share sits where the placeholder of its group sits."""
        where: dict[str, Holding | None] = {}
        for pod in self.guests.values():
            group = pod.labels.get(SHARE_GROUP)
            if pod.reservation and group:
                kept = self.best_of(pod)
                where[group] = kept[0] if kept else where.get(group)
        for pod in self.guests.values():
            seat = where.get(pod.labels.get(SHARE_GROUP, ""))
            if seat is not None and not pod.reservation and not self.best_of(pod):
                share = replace(
                    seat, pod_uid=pod.uid, milli=pod.gpu_milli, memory_mib=pod.gpu_memory_mib, container=""
                )
                self._add(share)

    def _add(self, holding: Holding) -> None:
        self.by_pod[holding.pod_uid][holding.source].append(holding)

    def best_of(self, pod: Pod) -> list[Holding]:
        """By the best source for each kind of device: one may tell of the GPUs, another of the NPUs."""
        told = self.by_pod.get(pod.uid)
        if not told:
            return []
        if len(told) == 1:
            return next(iter(told.values()))
        found: list[Holding] = []
        covered: set[str] = set()
        for source in ORDER:
            fresh = [one for one in told.get(source, ()) if self.places.kind_of(one.device) not in covered]
            covered |= {self.places.kind_of(one.device) for one in fresh}
            found += fresh
        return found

    def sources_on(self) -> Mapping[str, Mapping[Source, set[str]]]:
        """Device -> source -> the pods it names there, placeholders aside."""
        found: dict[str, dict[Source, set[str]]] = defaultdict(lambda: defaultdict(set))
        for uid, told in self.by_pod.items():
            if self.guests[uid].reservation or self.guests[uid].hold:
                continue
            for source, holdings in told.items():
                for one in holdings:
                    found[one.device][source].add(uid)
        return found


def _contradictions(told: _Told) -> Iterator[str]:
    sources = {source for one in told.by_pod.values() for source in one}
    if len(sources) < 2:
        return
    for device, by_source in sorted(told.sources_on().items()):
        ordered = [source for source in ORDER if source in by_source]
        for better, worse in ((a, b) for at, a in enumerate(ordered) for b in ordered[at + 1 :]):
            here, there = by_source[better] - by_source[worse], by_source[worse] - by_source[better]
            if there and (here or _is_whole(told, device, by_source[better])):
                one = min(told.guests[uid].key for uid in here or by_source[better])
                other = min(told.guests[uid].key for uid in there)
                yield (
                    f"{SOURCE_WORDS[better]} says that {one} holds {told.places.name_of(device)}, "
                    f"{SOURCE_WORDS[worse]} says {other}: {SOURCE_WORDS[better]} is believed"
                )


def _disagreeing_pods(told: _Told) -> Iterator[str]:
    """One pod, on different devices by different sources."""
    for uid, by_source in sorted(told.by_pod.items(), key=lambda pair: told.guests[pair[0]].key):
        ordered = [source for source in ORDER if source in by_source]
        for better, worse in zip(ordered, ordered[1:], strict=False):
            first, second = ({one.device for one in by_source[source]} for source in (better, worse))
            kinds = {told.places.kind_of(device) for device in first}
            second = {device for device in second if told.places.kind_of(device) in kinds}
            if second and not first & second:
                yield (
                    f"{SOURCE_WORDS[better]} says that {told.guests[uid].key} holds {_names(told, first)}, "
                    f"{SOURCE_WORDS[worse]} says {_names(told, second)}: {SOURCE_WORDS[better]} is believed"
                )


def _names(told: _Told, devices: set[str]) -> str:
    return ", ".join(sorted(told.places.name_of(device) for device in devices))


def _is_whole(told: _Told, device: str, uids: set[str]) -> bool:
    if told.node.shares_per_gpu > 1:
        return False
    return any(
        one.device == device and one.milli >= 1000
        for uid in uids
        for holdings in told.by_pod[uid].values()
        for one in holdings
    )


def _brief(sentences: Sequence[str]) -> list[str]:
    unique = list(dict.fromkeys(sentences))
    rest = len(unique) - MOST_SENTENCES
    return [*unique[:MOST_SENTENCES], *([f"{rest} more like these"] if rest > 0 else [])]
