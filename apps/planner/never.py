"""What can never run here as the cluster stands: not even with every node empty, open and Ready.

Told apart from what waits, since no move, no end of another pod and no uncordoning helps it: only another
request, or another node. Conservative: what is not known (links, memory, a MIG table) is never a "never".
Not in here: whether a node takes it now (fitting), the sentences of what waits (waiting_words).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from apps.planner.fitting import Fitting
from apps.planner.inventory import LinkClass, Node, Pod
from apps.planner.mig.most import count_instances
from apps.planner.mig.nodes import MIG_PREFIX, asked_profiles
from apps.planner.naming import PRODUCT_LABELS, shown_model
from apps.planner.never_gang import find_gang_bound
from apps.planner.resources import Demand, scale_text
from apps.planner.selectors import matches_labels, node_matches_terms, untolerated_taints
from apps.planner.snapshot import Snapshot
from apps.planner.topology import knows_every_link, largest_group
from apps.planner.waiting_words import TOO_LARGE
from apps.planner.workload import names_of_model, spec_of

PASSING_TAINTS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Taints that Kubernetes itself puts on a node for its state, and takes off again."""
MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class Never:
    """code: as of what waits. sentence: what is asked, and what there is."""

    code: str
    sentence: str


@dataclass(frozen=True, slots=True)
class _Question:
    """One pod's shape against nodes that are left; `is_fewer`: others were ruled out before."""

    pod: Pod
    demand: Demand
    nodes: Sequence[Node]
    is_fewer: bool

    @property
    def among(self) -> str:
        return " that it may use" if self.is_fewer else ""


Check = Callable[[_Question], tuple[list[Node], Never | None]]


class NeverTable:
    """One exemplar of all nodes that no pod could tell apart while they are empty."""

    def __init__(self, fitting: Fitting) -> None:
        self.fitting = fitting
        self.snapshot: Snapshot = fitting.snapshot
        kinds: dict[tuple[object, ...], list[Node]] = {}
        for name in sorted(self.snapshot.nodes):
            node = self.snapshot.nodes[name]
            kinds.setdefault(_looks_of(fitting, node), []).append(node)
        self._exemplars = [nodes[0] for nodes in kinds.values()]
        self._counts = {nodes[0].name: len(nodes) for nodes in kinds.values()}
        self._known: dict[tuple[object, ...], tuple[list[Node], Never | None]] = {}

    def judge(self, key: str, pods: Sequence[Pod]) -> Never | None:
        """None for whatever could run some day; the first of its members that can't run speaks for a gang."""
        if not self._exemplars:
            return None
        homes: list[tuple[Pod, list[Node]]] = []
        for pod in pods:
            nodes, never = self._judge_pod(pod)
            if never is not None:
                return never
            homes.append((pod, nodes))
        if len(pods) < 2:
            return None
        gang = self.snapshot.gangs.get(key)
        needed = gang.min_members - self.snapshot.running_members[key] if gang else len(pods)
        said = find_gang_bound(self.fitting.rooms, homes, self._counts, needed)
        return Never("gang-too-large", said) if said else None

    def _judge_pod(self, pod: Pod) -> tuple[list[Node], Never | None]:
        demand = self.fitting.rooms.demand(pod)
        shape = (demand, self.fitting.signature(pod))
        if shape not in self._known:
            self._known[shape] = self._ask(pod, demand)
        return self._known[shape]

    def _ask(self, pod: Pod, demand: Demand) -> tuple[list[Node], Never | None]:
        left = self._exemplars
        for check in CHECKS:
            question = _Question(pod, demand, left, len(left) < len(self._exemplars))
            left, never = check(question)
            if never is not None:
                return [], never
        return left, None


def _looks_of(fitting: Fitting, node: Node) -> tuple[object, ...]:
    room = fitting.rooms.by_node[node.name]
    return (
        fitting.node_kind(node.name),
        tuple(sorted((name, _offered(node, name)) for name in {*node.allocatable, *node.capacity})),
        (node.gpu_resource, node.model, node.shares_per_gpu, node.mig_strategy, room.by_device),
        tuple(node.labels.get(label, "") for label in (*PRODUCT_LABELS, "nvidia.com/mig.capable")),
        tuple(gpu.memory_mib for gpu in node.gpus),
        node.topology.links if node.topology else None,
    )


def _offered(node: Node, resource: str) -> int:
    """Broken devices stand in the capacity, and can be mended."""
    return max(node.allocatable.get(resource, 0), node.capacity.get(resource, 0))


def _check_model(question: _Question) -> tuple[list[Node], Never | None]:
    wanted = spec_of(question.pod)
    left = [node for node in question.nodes if wanted.allows_any(names_of_model(node))]
    if left or not wanted.models:
        return left, None
    models = sorted({shown_model(node.model) for node in question.nodes if node.model})
    there = f"the cluster has {_name(models)}" if models else "no node tells a model"
    asked = " or ".join(shown_model(model) for model in wanted.models.split("|"))
    return left, Never("no-such-model", f"No node has the GPU model {asked} that it asks for; {there}.")


def _check_selector(question: _Question) -> tuple[list[Node], Never | None]:
    wanted = question.pod.node_selector
    left = [node for node in question.nodes if matches_labels(wanted, node.labels)]
    if left:
        return left, None
    lone = [
        f"{key}={value}"
        for key, value in sorted(wanted.items())
        if all(node.labels.get(key) != value for node in question.nodes)
    ]
    if lone:
        said = f"No node{question.among} has the label {_name(lone)} that its selector asks for."
    else:
        labels = _name([f"{key}={value}" for key, value in sorted(wanted.items())])
        said = f"No node{question.among} has all the labels that its selector asks for: {labels}."
    return left, Never("node-selector", said)


def _check_affinity(question: _Question) -> tuple[list[Node], Never | None]:
    left = [node for node in question.nodes if node_matches_terms(node, question.pod.node_terms)]
    said = f"No node{question.among} meets its required node affinity."
    return left, None if left else Never("node-selector", said)


def _check_taints(question: _Question) -> tuple[list[Node], Never | None]:
    lasting = {
        node.name: [
            taint
            for taint in untolerated_taints(question.pod, node.taints)
            if not taint.key.startswith(PASSING_TAINTS)
        ]
        for node in question.nodes
    }
    left = [node for node in question.nodes if not lasting[node.name]]
    if left:
        return left, None
    words = Counter(
        f"{one.key}={one.value}:{one.effect}" if one.value else f"{one.key}:{one.effect}"
        for taints in lasting.values()
        for one in taints[:1]
    )
    named = _name([word for word, _ in words.most_common()])
    return left, Never("taint", f"Every node{question.among} has a taint that it does not tolerate: {named}.")


def _check_gpus(question: _Question) -> tuple[list[Node], Never | None]:
    demand = question.demand
    if not demand.gpus:
        return list(question.nodes), None
    having = [node for node in question.nodes if node.gpu_resource == demand.gpu_resource]
    if not any(_offered(node, demand.gpu_resource) or node.gpus for node in having):
        others = sorted({node.gpu_resource for node in question.nodes if node.gpu_resource})
        there = f"they have {_name(others)}" if others else "they have no GPUs"
        said = f"No node{question.among} offers {demand.gpu_resource}; {there}."
        return [], Never("no-such-gpu", said)
    most = max(_count_gpus(node) for node in having)
    left = [node for node in having if _count_gpus(node) >= demand.gpus]
    if left:
        return left, None
    return left, Never(TOO_LARGE, f"No node{question.among} has {demand.gpus} GPUs; the largest has {most}.")


def _count_gpus(node: Node) -> int:
    return max(_offered(node, node.gpu_resource), len(node.gpus))


def _check_profiles(question: _Question) -> tuple[list[Node], Never | None]:
    left = list(question.nodes)
    for profile, number in sorted(asked_profiles(question.pod).items()):
        before, left = left, [node for node in left if count_instances(node, profile) >= number]
        if not left:
            return left, Never("no-such-profile", _say_profile(profile, number, before, question.among))
    return left, None


def _say_profile(profile: str, number: int, nodes: Sequence[Node], among: str) -> str:
    most = max(count_instances(node, profile) for node in nodes)
    if most:
        return f"No node{among} can hold {number} x {profile}; the most is {most}."
    models = sorted({shown_model(node.model) for node in nodes if node.model and node.gpus})
    there = f"not {_name(models)}" if models else "they have none"
    return f"No GPU{among} can be cut into {profile}: {there}."


def _check_memory(question: _Question) -> tuple[list[Node], Never | None]:
    wanted = question.demand.memory_mib
    if wanted is None:
        return list(question.nodes), None
    left = [
        node
        for node in question.nodes
        if not node.gpus or any(gpu.memory_mib is None or gpu.memory_mib >= wanted for gpu in node.gpus)
    ]
    if left:
        return left, None
    most = max(gpu.memory_mib or 0 for node in question.nodes for gpu in node.gpus)
    said = f"No GPU{question.among} has {wanted:,} MiB of memory; the largest has {most:,} MiB."
    return left, Never("gpu-memory", said)


def _check_link(question: _Question) -> tuple[list[Node], Never | None]:
    link, gpus = question.demand.link, question.demand.gpus
    if link in (None, LinkClass.NODE) or gpus < 2:
        return list(question.nodes), None
    assert link is not None
    groups = {
        node.name: largest_group(node, range(len(node.gpus)), link) if knows_every_link(node) else gpus
        for node in question.nodes
    }
    left = [node for node in question.nodes if groups[node.name] >= gpus]
    if left:
        return left, None
    most = max(groups.values())
    there = f"the largest group has {most}" if most > 1 else "no two GPUs of a node are"
    said = f"No node{question.among} has {gpus} GPUs tied by {link}, not even when it is empty; {there}."
    return left, Never("link", said)


def _check_host(question: _Question) -> tuple[list[Node], Never | None]:
    left = list(question.nodes)
    for name, amount in question.demand.resources:
        if name.startswith(MIG_PREFIX):
            continue  # instances can be cut anew: what a model could offer was asked before
        before, left = left, [node for node in left if _offered(node, name) >= amount]
        if not left:
            most = max(_offered(node, name) for node in before)
            asked, there = scale_text(amount, name), scale_text(most, name)
            what = {"cpu": "CPU", "ephemeral-storage": "ephemeral storage"}.get(name, name)
            said = f"No node{question.among} has {asked} of {what}, not even when it is empty; "
            return left, Never(_code_of(name), f"{said}the most is {there}.")
    return left, None


def _code_of(resource: str) -> str:
    return {"cpu": "cpu", "memory": "memory", "ephemeral-storage": "storage"}.get(resource, "other-resource")


def _name(words: Sequence[str]) -> str:
    more = f" and {len(words) - MOST_NAMED} more" if len(words) > MOST_NAMED else ""
    return ", ".join(words[:MOST_NAMED]) + more


CHECKS: tuple[Check, ...] = (
    _check_model,
    _check_selector,
    _check_affinity,
    _check_taints,
    _check_gpus,
    _check_profiles,
    _check_memory,
    _check_link,
    _check_host,
)
"""In this order the nodes are ruled out; the check that leaves none says why."""
