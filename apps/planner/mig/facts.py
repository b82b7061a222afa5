"""A snapshot as blocks of GPUs and wants: what can be relaid, who must move first, who waits.

Whatever is not known narrows what may be done: without holders a node is drained whole, without
a table or with facts that disagree it is left alone, and a warning says so.
Not in here: the choice (choosing), which pod goes where (planning).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

from apps.planner.costs import CostPolicy, disruption_cost
from apps.planner.fitting import Fitting
from apps.planner.inventory import Gpu, Node, Pod, Tie
from apps.planner.mig.blocks import Block, CutGpu, Shape
from apps.planner.mig.catalogue import UnknownModel, find_model
from apps.planner.mig.layouts import Counts
from apps.planner.mig.models import MigModel
from apps.planner.mig.nodes import (
    WHOLE_GPU,
    asked_profiles,
    is_guessed,
    is_mig_node,
    offered_profiles,
    why_left_alone,
)
from apps.planner.mig.rooms_on_demand import RoomsOnDemand
from apps.planner.movability import MovabilityRules
from apps.planner.resources import asks_gpu
from apps.planner.rooms import is_open_node
from apps.planner.snapshot import Snapshot


@dataclass(slots=True)
class Seat:
    """A block with its names: the node, the GPUs by position, the pods that use them."""

    block: Block
    node: Node
    positions: tuple[int, ...]
    pods: tuple[Pod, ...] = ()
    whole_node: bool = False


@dataclass(slots=True)
class MigFacts:
    """seats by block key. warnings: what was left out, and why."""

    snapshot: Snapshot
    policy: CostPolicy
    rooms: RoomsOnDemand = field(init=False)
    fitting: Fitting = field(init=False)
    rules: MovabilityRules = field(init=False)
    seats: dict[str, Seat] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    groups: dict[str, str] = field(default_factory=dict)
    _allowed: dict[tuple[object, ...], frozenset[str]] = field(default_factory=dict)
    _samples: dict[str, Node] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rooms = RoomsOnDemand(self.snapshot)
        self.fitting = Fitting(self.rooms)
        self.rules = MovabilityRules(self.snapshot)
        usable = [(node, model) for node, model in self._usable_nodes()]
        for node, _ in usable:
            kind = repr(self.fitting.node_kind(node.name))
            self.groups[node.name] = kind
            self._samples.setdefault(kind, node)
        for node, model in usable:
            for seat in NodeReading(self, node, model).seats():
                self.seats[seat.block.key] = seat

    def allowed_groups(self, pod: Pod) -> frozenset[str]:
        """Kinds of nodes that the pod's fixed wishes allow."""
        signature = self.fitting.signature(pod)
        if signature not in self._allowed:
            self._allowed[signature] = frozenset(
                kind for kind, node in self._samples.items() if not self.fitting.static_reasons(pod, node)
            )
        return self._allowed[signature]

    def shape_of(self, pod: Pod) -> Shape | None:
        """None for a pod that asks for more than one instance, or for GPUs beside it."""
        asked = asked_profiles(pod)
        if sum(asked.values()) != 1 or pod.requests.get(WHOLE_GPU, 0):
            return None
        return (next(iter(asked)), self.allowed_groups(pod))

    def may_drain(self, block: Block) -> bool:
        """Whether all of the block's pods may leave."""
        return all(self.rules.judge(pod).movable for pod in self.seats[block.key].pods)

    def drain_cost(self, block: Block) -> float:
        return sum(self.cost(pod, block.gpus[0].model) for pod in self.seats[block.key].pods)

    def cost(self, pod: Pod, model: MigModel) -> float:
        """Like any move's, by the share of the GPU's compute slices."""
        slices = sum(
            number * model.by_name[name].compute_slices
            for name, number in asked_profiles(pod).items()
            if name in model.by_name
        )
        as_whole = disruption_cost(self.snapshot, replace(pod, requests={WHOLE_GPU: 1}), self.policy)
        return round(as_whole * slices / model.compute_slices, 3)

    def _usable_nodes(self) -> Iterable[tuple[Node, MigModel]]:
        unknown: Counter[str] = Counter()
        for name in sorted(self.snapshot.nodes):
            node = self.snapshot.nodes[name]
            if not is_mig_node(node) or not is_open_node(node):
                continue
            reason = why_left_alone(node)
            if reason:
                self.warnings.append(f"{name} is left as it is: {reason}")
                continue
            try:
                yield node, find_model(node.model, next((gpu.memory_mib for gpu in node.gpus), None))
            except UnknownModel as error:
                unknown[str(error)] += 1
        self.warnings += [
            f"{'A node is' if number == 1 else f'{number} nodes are'} left as they are: {reason}"
            for reason, number in sorted(unknown.items())
        ]


def idle_gpus(snapshot: Snapshot) -> frozenset[tuple[str, int]]:
    """(node, index) of the GPUs that can be relaid at once, because nobody can be on them."""
    seats = MigFacts(snapshot, CostPolicy()).seats.values()
    return frozenset(
        (seat.node.name, seat.node.gpus[at].index)
        for seat in seats
        if not seat.pods and not seat.block.fixed
        for at in seat.positions
    )


class NodeReading:
    """Takes one node apart into blocks."""

    def __init__(self, facts: MigFacts, node: Node, model: MigModel) -> None:
        self.facts, self.node, self.model = facts, node, model
        guests = [pod for pod in facts.snapshot.pods_on(node.name) if not pod.hold]
        self.pods = [pod for pod in guests if asks_gpu(pod)]
        self.has_strangers = any(Tie.CLAIMS in pod.ties for pod in guests)
        self.offered = offered_profiles(node)
        self.has_layouts = any(gpu.instances for gpu in node.gpus) or not self.offered
        self.holders = self._read_holders()

    def seats(self) -> list[Seat]:
        starts_known = all(one.start_slice is not None for gpu in self.node.gpus for one in gpu.instances)
        if self.has_layouts and (starts_known or len(self.node.gpus) == 1) and self.holders is not None:
            return [self._gpu_seat(at) for at, gpu in enumerate(self.node.gpus) if self._is_open(at, gpu)]
        missing = (
            "instances lie" if not self.has_layouts else "start slices are cut" if not starts_known else ""
        )
        what = f"where its {missing} is not known" if missing else "who holds which instance is not known"
        self.facts.warnings.append(f"{self.node.name} can only be relaid when it is drained whole: {what}.")
        return [self._node_seat()]

    def _is_open(self, at: int, gpu: Gpu) -> bool:
        """Not broken, and not held as a whole GPU."""
        assert self.holders is not None
        held_whole = any(not asked_profiles(pod) for pod in self.holders[at])
        return gpu.healthy and not held_whole and (bool(gpu.instances) or not self._in_doubt)

    @cached_property
    def _in_doubt(self) -> bool:
        """A GPU without instances that nobody offers: withheld for a reason that is not known."""
        whole = sum(1 for gpu in self.node.gpus if gpu.healthy and not gpu.instances)
        return self.node.allocatable.get(WHOLE_GPU, 0) < whole

    def _read_holders(self) -> list[list[Pod]] | None:
        """The pods on each GPU by position, or None if that is not known for every pod."""
        found: list[list[Pod]] = [[] for _ in self.node.gpus]
        if len(found) == 1:
            return [list(self.pods)]
        by_device = {gpu.uuid: at for at, gpu in enumerate(self.node.gpus) if gpu.uuid}
        by_device |= {
            one.uuid: at for at, gpu in enumerate(self.node.gpus) for one in gpu.instances if one.uuid
        }
        held: dict[str, list[int]] = defaultdict(list)
        for holding in self.node.holdings or ():
            if holding.device in by_device:
                held[holding.pod_uid].append(by_device[holding.device])
        for pod in self.pods:
            wanted = sum(asked_profiles(pod).values()) + pod.requests.get(WHOLE_GPU, 0)
            if not wanted or len(held[pod.uid]) != wanted:
                return None
            for at in set(held[pod.uid]):
                found[at].append(pod)
        return found

    def _is_held_by_stranger(self, positions: tuple[int, ...]) -> bool:
        """Whether somebody holds a GPU without asking for one in his requests: it stays as it is."""
        if self.has_strangers:
            return True
        strange = self._strange_devices
        gpus = [self.node.gpus[at] for at in positions] if strange else []
        return any(
            uuid in strange for gpu in gpus for uuid in (gpu.uuid, *(one.uuid for one in gpu.instances))
        )

    @cached_property
    def _strange_devices(self) -> frozenset[str]:
        known = {pod.uid for pod in self.pods}
        return frozenset(one.device for one in self.node.holdings or () if one.pod_uid not in known)

    def _gpu_seat(self, at: int) -> Seat:
        assert self.holders is not None
        gpu = self.node.gpus[at]
        counts = _count_profiles(tuple(one.profile for one in gpu.instances))
        if is_guessed(self.node):
            counts = tuple(sorted(self.offered.items()))  # the capacity keeps numbers of earlier layouts
        key = f"{self.node.name}/{at:03}"
        return self._seat(
            key, (at,), (_cut_gpu(self.model, counts),), counts, self.holders[at], together=False
        )

    def _node_seat(self) -> Seat:
        positions = tuple(range(len(self.node.gpus)))
        per_gpu: list[Counts] = [
            _count_profiles(tuple(one.profile for one in gpu.instances)) for gpu in self.node.gpus
        ]
        gpus = tuple(_cut_gpu(self.model, counts) for counts in per_gpu)
        if not self.has_layouts:
            gpus = tuple(CutGpu(self.model) for _ in positions)
        offered = tuple(sorted(self.offered.items()))
        return self._seat(
            self.node.name, positions, gpus, offered, self.pods, together=not self.has_layouts, whole=True
        )

    def _seat(
        self,
        key: str,
        positions: tuple[int, ...],
        gpus: tuple[CutGpu, ...],
        offered: Counts,
        pods: Sequence[Pod],
        *,
        together: bool,
        whole: bool = False,
    ) -> Seat:
        used: dict[Shape, int] = {}
        fixed = any(not self.node.gpus[at].healthy for at in positions)
        fixed = fixed or self._is_held_by_stranger(positions)
        for pod in pods:
            shape = self.facts.shape_of(pod)
            if shape is None:
                fixed = True
            if shape is not None:
                used[shape] = used.get(shape, 0) + 1
            else:
                for profile, number in asked_profiles(pod).items():
                    nowhere = (profile, frozenset[str]())
                    used[nowhere] = used.get(nowhere, 0) + number
        block = Block(
            key=key,
            group=self.facts.groups[self.node.name],
            gpus=gpus,
            offered=offered,
            used=tuple(sorted(used.items(), key=lambda one: (one[0][0], sorted(one[0][1])))),
            fixed=fixed,
            together=together,
            site=self.node.name,
        )
        return Seat(block, self.node, positions, tuple(pods), whole)


@lru_cache(maxsize=4096)
def _count_profiles(profiles: tuple[str, ...]) -> Counts:
    return tuple(sorted(Counter(profiles).items()))


@lru_cache(maxsize=4096)
def _cut_gpu(model: MigModel, counts: Counts) -> CutGpu:
    table = model.by_name
    cut = sum(number * table[name].memory_slices for name, number in counts if name in table)
    return CutGpu(model, counts, max(model.axis - cut, 0), whole=not counts)
