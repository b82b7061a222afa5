"""Why a pod cannot run on a node: kube-scheduler's rules and ours, each with its reason.

The words of `Reason` are what people read and what counts per node are kept under.
Not in here: whether a running pod may leave its node (movability).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from apps.planner.affinity import interpod_reasons, uses_neighbours
from apps.planner.company import TermIndex
from apps.planner.gpu_wishes import has_memory, is_memory_known, is_model, request_of, saved_on
from apps.planner.inventory import LinkClass, Node, NodeTerm, Pod, Tie
from apps.planner.mig.nodes import MIG_PREFIX
from apps.planner.movability import DEFAULT_SCHEDULER
from apps.planner.resources import Demand, scale_text
from apps.planner.rooms import Room, Rooms
from apps.planner.selectors import matches_labels, node_matches_terms, untolerated_taints
from apps.planner.topology import knows_every_link


class Reason(StrEnum):
    """Normalised reasons, in the order in which they are asked."""

    NOT_READY = "node is not Ready"
    STALE = "node's facts are stale"
    DRIFT = "node shows less than it did"
    CORDONED = "node is cordoned"
    SELECTOR = "node selector does not match"
    AFFINITY = "node affinity does not match"
    TAINT = "taint not tolerated"
    SCHEDULER = "pod belongs to another scheduler"
    VOLUME = "its volume is bound to another node or zone"
    SAVED_WORK = "saved work is restored on GPUs of the same model only"
    CLAIMS = "devices by resource claims: only the scheduler can match them"
    NO_SUCH_GPU = "node has no such GPUs"
    GPU = "too few free GPUs"
    GPU_MEMORY = "too little memory left on its GPUs"
    GPU_MEMORY_UNKNOWN = "memory of its GPUs is not known"
    UNREGISTERED = "its GPUs are not registered with the share scheduler (HAMi)"
    MIG = "too few free MIG instances of its profile"
    CPU = "too little CPU"
    MEMORY = "too little memory"
    STORAGE = "too little ephemeral storage"
    PODS = "too many pods on the node"
    OTHER = "too little of another resource"
    PORT = "host port is taken"
    LINK = "no group of GPUs with the wanted link"
    LINK_UNKNOWN = "link unknown: no GPU topology metadata"
    HOLDERS_UNKNOWN = "link unknown: which GPUs are taken is not known"
    POD_AFFINITY = "pod affinity not satisfied"
    POD_ANTI_AFFINITY = "pod anti-affinity"
    SPREAD = "topology spread"


RESOURCE_REASONS = {
    "cpu": Reason.CPU,
    "memory": Reason.MEMORY,
    "ephemeral-storage": Reason.STORAGE,
    "pods": Reason.PODS,
}


def reason_of(resource: str) -> Reason:
    """The reason that a shortage of this resource is told as."""
    if resource.startswith(MIG_PREFIX):
        return Reason.MIG
    return RESOURCE_REASONS.get(resource, Reason.OTHER)


class Fitting:
    """Asks the rules against one mutable `Rooms`; what never changes is remembered."""

    def __init__(self, rooms: Rooms) -> None:
        self.rooms = rooms
        self.snapshot = rooms.snapshot
        pods = self.snapshot.pods.values()
        self._label_keys = _keys_asked(pods)
        self._by_model = bool(self.snapshot.gpu_requests) or any(Tie.SAVED_WORK in pod.ties for pod in pods)
        self._by_name = any(term.fields for pod in pods for term in _terms_of(pod))
        self._node_kinds = {name: self._kind(node) for name, node in self.snapshot.nodes.items()}
        self._signatures: dict[str, tuple[object, ...]] = {}
        self._static: dict[tuple[object, ...], tuple[Reason, ...]] = {}
        self._shy_terms = TermIndex()
        for pod in pods:
            for term in pod.pod_anti_affinity:
                self._shy_terms.add(pod.namespace, term)
        self._shunned: dict[str, tuple[int, ...]] = {}

    def static_reasons(self, pod: Pod, node: Node) -> tuple[Reason, ...]:
        """Reasons that no move can change."""
        key = (self.signature(pod), self._node_kinds[node.name])
        known = self._static.get(key)
        if known is None:
            wished = wish_reasons(self._wish(pod), node)
            saved = [Reason.SAVED_WORK] if saved_on(self.snapshot, pod) not in (None, node.model) else []
            known = self._static[key] = tuple(dict.fromkeys((*_static_reasons(pod, node), *wished, *saved)))
        return known

    def signature(self, pod: Pod) -> tuple[object, ...]:
        """Equal for pods with the same wishes about nodes."""
        known = self._signatures.get(pod.uid)
        if known is None:
            known = self._signatures[pod.uid] = (
                tuple(sorted(pod.node_selector.items())),
                pod.node_terms,
                pod.tolerations,
                pod.volumes_pin_node and pod.node_name,
                pod.volume_terms,
                pod.scheduler,
                Tie.PLANNED_ONLY in pod.ties,
                bool(pod.claims or pod.claim_wishes),
                self._wish(pod),
                saved_on(self.snapshot, pod),
            )
        return known

    def _wish(self, pod: Pod) -> tuple[str, int] | None:
        """(model, MiB of each GPU) that its GPURequest asks for."""
        found = request_of(self.snapshot, pod)
        return (found.model, found.memory_mib or 0) if found is not None else None

    def reasons(self, pod: Pod, node: Node) -> tuple[Reason, ...]:
        """Every reason why the pod cannot run there now; none at all when it can."""
        return (*self.static_reasons(pod, node), *self.passing_reasons(pod, node))

    def passing_reasons(self, pod: Pod, node: Node) -> tuple[Reason, ...]:
        """Reasons that lie in who is where now."""
        neighbours = interpod_words(self.rooms, pod, node) if self.needs_neighbours(pod) else ()
        return (*room_reasons(self.rooms, pod, node), *neighbours)

    def can_run(self, pod: Pod, node_name: str) -> bool:
        """The same answer as `not reasons(...)`, cheapest question first."""
        node = self.snapshot.nodes[node_name]
        if not self.rooms.fits(pod, node_name) or self.static_reasons(pod, node):
            return False
        return not self.needs_neighbours(pod) or not interpod_reasons(self.rooms, pod, node)

    def needs_neighbours(self, pod: Pod) -> bool:
        """Whether any rule between pods, its own or another's against it, could speak of it."""
        return uses_neighbours(pod) or bool(self.shunned_by(pod))

    def shunned_by(self, pod: Pod) -> tuple[int, ...]:
        """Numbers of the anti-affinity terms of any pods that speak of this one."""
        known = self._shunned.get(pod.uid)
        if known is None:
            terms = self._shy_terms
            found = [terms.number(*owned) for owned in terms.speaking_of(pod)]
            known = self._shunned[pod.uid] = tuple(found)
        return known

    def node_kind(self, node_name: str) -> tuple[object, ...]:
        """Equal for nodes between which no pod's wishes can tell."""
        return self._node_kinds[node_name]

    def _kind(self, node: Node) -> tuple[object, ...]:
        return (
            node.name if self._by_name else "",
            (node.model, tuple(gpu.memory_mib for gpu in node.gpus)) if self._by_model else "",
            tuple((key, node.labels[key]) for key in self._label_keys if key in node.labels),
            node.taints,
            node.unschedulable,
            node.ready,
            node.stale_since is not None,
            bool(node.drift),
        )


def why_not(rooms: Rooms, pod: Pod, node: Node) -> list[str]:
    """Reasons against one pod on one node; use `Fitting` for many."""
    return [str(reason) for reason in Fitting(rooms).reasons(pod, node)]


def explain_reason(reason: Reason, rooms: Rooms, pod: Pod, node: Node) -> str:
    """The reason with this node's own numbers and names, as a sentence."""
    room, demand = rooms.by_node[node.name], rooms.demand(pod)
    if reason is Reason.TAINT:
        taint = untolerated_taints(pod, node.taints)[0]
        words = f"{taint.key}={taint.value}:{taint.effect}"
        return f"{node.name} has the taint {words}, which {pod.name} does not tolerate."
    if reason is Reason.GPU:
        return f"{pod.name} wants {demand.gpus} GPUs, {node.name} has {room.free_gpus} free."
    for name, amount in demand.resources:
        left = room.left.get(name, 0)
        if left < amount and reason_of(name) is reason:
            want, have = scale_text(amount, name), scale_text(max(left, 0), name)
            return f"{pod.name} wants {want} of {name}, {node.name} has {have} left."
    return f"{pod.name} cannot run on {node.name}: {reason}."


def room_reasons(rooms: Rooms, pod: Pod, node: Node) -> list[Reason]:
    return reasons_of(rooms.by_node[node.name], rooms.demand(pod), pod)


def reasons_of(room: Room, demand: Demand, pod: Pod) -> list[Reason]:
    """What one node's room lacks for the pod; none where it has room."""
    node = room.node
    found: list[Reason] = []
    for name in room.shortages(demand):
        if name == "gpu":
            found.append(Reason.GPU if demand.gpu_resource == node.gpu_resource else Reason.NO_SUCH_GPU)
        elif name == "gpu memory":
            found.append(_memory_reason(pod, node))
        elif name.startswith("port "):
            found.append(Reason.PORT)
        else:
            found.append(reason_of(name))
    if demand.gpus and demand.link not in (None, LinkClass.NODE) and not room.has_group(demand):
        found.append(_link_reason(room))
    return list(dict.fromkeys(found))


def _memory_reason(pod: Pod, node: Node) -> Reason:
    if any(gpu.memory_mib is not None for gpu in node.gpus):
        return Reason.GPU_MEMORY
    # Who asks for units of a card beside its memory asks HAMi, which knows only what its plugin registered.
    is_hamis = pod.requests.get(node.gpu_resource, 0) > 0
    return Reason.UNREGISTERED if is_hamis and node.shares_per_gpu <= 1 else Reason.GPU_MEMORY_UNKNOWN


def interpod_words(rooms: Rooms, pod: Pod, node: Node) -> list[Reason]:
    words = {
        "affinity": Reason.POD_AFFINITY,
        "anti-affinity": Reason.POD_ANTI_AFFINITY,
        "spread": Reason.SPREAD,
    }
    return [words[word] for word in interpod_reasons(rooms, pod, node)]


def _link_reason(room: Room) -> Reason:
    if not knows_every_link(room.node):
        return Reason.LINK_UNKNOWN
    return Reason.LINK if room.located else Reason.HOLDERS_UNKNOWN


def wish_reasons(wish: tuple[str, int] | None, node: Node) -> Iterable[Reason]:
    """What of a GPURequest (model, MiB of each GPU) the node's GPUs are not."""
    model, memory_mib = wish or ("", 0)
    if not is_model(node, model) or (memory_mib and not node.gpus):
        yield Reason.NO_SUCH_GPU
    elif not has_memory(node, memory_mib):
        yield Reason.GPU_MEMORY if is_memory_known(node) else Reason.GPU_MEMORY_UNKNOWN


def _reasons_anywhere(pod: Pod) -> Iterable[Reason]:
    """What lies in the pod, whatever the node is like."""
    if pod.scheduler != DEFAULT_SCHEDULER and Tie.PLANNED_ONLY not in pod.ties:
        yield Reason.SCHEDULER
    if pod.claims or pod.claim_wishes:
        yield Reason.CLAIMS


def _static_reasons(pod: Pod, node: Node) -> Iterable[Reason]:
    if not node.ready:
        yield Reason.NOT_READY
    elif node.stale_since is not None:
        yield Reason.STALE
    if node.drift and pod.node_name not in ("", node.name):
        # kube-scheduler knows of no drift and may start a waiting pod there; we move nobody onto it.
        yield Reason.DRIFT
    if node.unschedulable:
        yield Reason.CORDONED
    if not matches_labels(pod.node_selector, node.labels):
        yield Reason.SELECTOR
    if not node_matches_terms(node, pod.node_terms):
        yield Reason.AFFINITY
    if untolerated_taints(pod, node.taints):
        yield Reason.TAINT
    yield from _reasons_anywhere(pod)
    if not _is_in_reach(pod, node):
        yield Reason.VOLUME


def _is_in_reach(pod: Pod, node: Node) -> bool:
    """Of its bound volumes. A running pod stays where they are: they may be bound to that very node."""
    if pod.node_name:
        return not pod.volumes_pin_node or pod.node_name == node.name
    return all(node_matches_terms(node, terms) for terms in pod.volume_terms)


def _terms_of(pod: Pod) -> Iterable[NodeTerm]:
    yield from pod.node_terms
    for terms in pod.volume_terms:
        yield from terms


def _keys_asked(pods: Iterable[Pod]) -> tuple[str, ...]:
    """The node labels that any pod's selector or affinity reads."""
    keys = {key for pod in pods for key in pod.node_selector}
    keys.update(part.key for pod in pods for term in _terms_of(pod) for part in term.labels)
    return tuple(sorted(keys))
