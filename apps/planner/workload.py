"""The target workload: which pod specs are wanted, and how often.

As in FGD: the most popular specs, CPU-only pods included, until they cover 95 % of the pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from apps.planner.inventory import Node, Pod
from apps.planner.naming import PRODUCT_LABELS
from apps.planner.resources import demand_of
from apps.planner.snapshot import Snapshot

FIXED_OWNERS = ("DaemonSet", "Node")
COVER_PERCENT = 95


@dataclass(frozen=True, slots=True, order=True)
class Spec:
    """A pod's shape as FGD sees it. milli: of each GPU; gpus 0 is a CPU-only pod.

    models: allowed product names joined by "|" as the pod names them, "" allows every model.
    """

    cpu: int
    milli: int
    gpus: int
    models: str = ""

    def allows(self, node: Node) -> bool:
        return self.allows_any(names_of_model(node))

    def allows_any(self, names: frozenset[str]) -> bool:
        """names: all that one node's model goes by."""
        return not self.models or any(model in names for model in self.models.split("|"))


@dataclass(frozen=True, slots=True)
class Workload:
    """Specs with the number of pods that ask for each, most popular first."""

    specs: tuple[tuple[Spec, int], ...]

    @property
    def weight_total(self) -> int:
        return sum(count for _, count in self.specs)


def names_of_model(node: Node) -> frozenset[str]:
    """What the model of its GPUs goes by: as its labels say, and without any sharing suffix."""
    told = [node.labels[label] for label in PRODUCT_LABELS if label in node.labels]
    return frozenset((*told, node.model))


def spec_of(pod: Pod) -> Spec:
    demand = demand_of(pod)
    return Spec(
        cpu=pod.requests.get("cpu", 0),
        milli=demand.milli,
        gpus=demand.gpus,
        models=_allowed_models(pod) if demand.gpus else "",
    )


def choose_workload(pods: Iterable[Pod]) -> Workload:
    """The shortest prefix of the popularity order that covers 95 % of the pods."""
    return most_popular(count_specs(pods))


def most_popular(counts: Mapping[Spec, int]) -> Workload:
    """As choose_workload, from pods already counted by spec."""
    ordered = sorted(counts.items(), key=lambda entry: (entry[1], entry[0]), reverse=True)
    wanted = sum(counts.values()) * COVER_PERCENT
    chosen: list[tuple[Spec, int]] = []
    covered = 0
    for spec, count in ordered:
        if covered * 100 >= wanted:
            break
        chosen.append((spec, count))
        covered += count
    return Workload(tuple(chosen))


def count_specs(pods: Iterable[Pod]) -> Counter[Spec]:
    """Pods with the same wishes have the same spec, so it is worked out once for all of them."""
    alike = Counter[tuple[object, ...]]()
    examples: dict[tuple[object, ...], Pod] = {}
    for pod in pods:
        wishes: tuple[object, ...] = (
            tuple(pod.requests.items()),
            pod.gpu_milli,
            tuple(pod.node_selector.items()),
            pod.node_terms,
        )
        alike[wishes] += 1
        examples.setdefault(wishes, pod)
    counts = Counter[Spec]()
    for kind, number in alike.items():
        counts[spec_of(examples[kind])] += number
    return counts


def live_workload(snapshot: Snapshot) -> Workload:
    """What the cluster itself runs and waits for. Pods that come with a node are no demand."""
    return choose_workload(wanted_pods(snapshot))


def requests_in(snapshot: Snapshot) -> Iterator[tuple[Pod, float]]:
    """Pods that somebody asked for, finished ones too, with the moment they were asked for (epoch seconds).

    Neither what comes with a node nor what a migration of ours created again is a request.
    """
    for pod in snapshot.pods.values():
        if not (pod.hold or pod.steering or pod.reservation or pod.owner_kind in FIXED_OWNERS):
            yield pod, min(pod.created_at or snapshot.taken_at, snapshot.taken_at)


def wanted_pods(snapshot: Snapshot) -> tuple[Pod, ...]:
    return tuple(
        pod
        for uid, pod in sorted(snapshot.pods.items())
        if (pod.is_holding or pod.is_pending) and not pod.hold and pod.owner_kind not in FIXED_OWNERS
    )


def _allowed_models(pod: Pod) -> str:
    direct = [pod.node_selector[label] for label in PRODUCT_LABELS if label in pod.node_selector]
    if direct:
        return direct[0]
    found: list[str] = []
    for term in pod.node_terms:
        named = [part for part in term.labels if part.key in PRODUCT_LABELS and part.operator == "In"]
        if not named:
            return ""
        found.extend(named[0].values)
    return "|".join(found)
