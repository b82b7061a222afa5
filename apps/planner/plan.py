"""What a planner proposes: ordered moves for one snapshot, and how good they are. Facts only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Goal(StrEnum):
    FREE_NODES = "free-nodes"
    UNLOCK = "unlock"
    MIG = "mig"
    LOWER_MEMORY = "lower-memory"


@dataclass(frozen=True, slots=True)
class Move:
    """One pod's eviction and its new placement.

    order: 1-based; every prefix of the moves leaves a state in which all pods fit. wave: 1-based;
    moves of one wave may run in parallel. gpus: whole GPUs it holds (0 for a CPU pod).
    cost: seconds of interrupted work x GPUs, weighted. reason, risk: one sentence each;
    risk_level: low | medium | high. stage: 1-based; all targets of a stage have room before its first
    eviction, and a later stage may use room that an earlier one makes. Plans that are executed have one.
    """

    order: int
    wave: int
    pod_uid: str
    pod: str
    source: str
    target: str
    gpus: int
    cost: float
    reason: str
    risk: str = ""
    risk_level: str = "low"
    workload_uid: str = ""
    source_uid: str = ""
    target_uid: str = ""
    stage: int = 1


@dataclass(frozen=True, slots=True)
class HandOver:
    """Room that is freed for a pending pod: it may start on `node` when the moves are done."""

    pod_uid: str
    pod: str
    node: str
    node_uid: str = ""


@dataclass(frozen=True, slots=True)
class Waiver:
    """Somebody's word that one protected pod may be moved all the same, as a part of the plan that moves it.

    protections: the sentences that are lifted, as they stand among what protects the pod. by: who asked.
    """

    pod_uid: str
    pod: str
    protections: tuple[str, ...]
    reason: str
    by: str


@dataclass(frozen=True, slots=True)
class Reconfiguration:
    """One GPU that is cut anew by MIG, when nobody uses it any more.

    order: 1-based. after_moves: the plan's moves drain it first; else nobody uses it now and moved
    pods may land on it. gpu: its UUID, or its index where no UUID is known. before, after: instances
    by profile; before is empty where the present ones are not known per GPU. whole_node: the node is
    drained and relaid as a whole, because which GPU is used by whom, or cut how, is not known.
    """

    order: int
    node: str
    gpu: str
    index: int
    before: Mapping[str, int]
    after: Mapping[str, int]
    reason: str
    model: str = ""
    after_moves: bool = False
    whole_node: bool = False
    needs_confirmation: bool = False
    node_uid: str = ""


@dataclass(frozen=True, slots=True)
class NamedLayout:
    """A configuration of mig-parted that these nodes need and that has no name in the cluster yet.

    name: made from its digest. line: "name: [...]", YAML in flow style, to stand under mig-configs.
    """

    name: str
    line: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Preemption:
    """One running pod that gives way to a more important one and gets no new place.

    order: 1-based, after all moves. gpus: whole GPUs it holds. priority: its own. cost: as of a move.
    lost_seconds: running time that is lost, since its last checkpoint (has_checkpoint) or its start. gang:
    key of its gang, whose minimum stays. budget: what the disruption budgets over it still allow, in words.
    """

    order: int
    pod_uid: str
    pod: str
    node: str
    gpus: int
    priority: int
    cost: float
    reason: str
    workload_uid: str = ""
    node_uid: str = ""
    lost_seconds: float = 0.0
    has_checkpoint: bool = False
    gang: str = ""
    budget: str = ""


@dataclass(frozen=True, slots=True)
class Lowering:
    """The pods of one owner, none of which runs, ask for less GPU memory from then on.

    workload: key "namespace/name" of its first pod that waits. owner: "namespace/name" of the object whose
    template is changed. pods, pod_uids: those that wait. resource: by which it is asked, "" where it is
    stated in MiB; before, after: amounts of that (MiB without one). renews: the owner makes no new pods by
    itself, so those that wait are evicted. starts: pods that could start then, without a move, on `nodes`.
    """

    order: int
    workload: str
    owner_kind: str
    owner: str
    owner_uid: str
    pods: tuple[str, ...]
    pod_uids: tuple[str, ...]
    resource: str
    before: int
    after: int
    before_mib: int
    after_mib: int
    renews: bool
    starts: int
    nodes: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Alternative:
    """The next best way to the same end, as a sum: nodes it would use, moves, preemptions, cost as of a
    plan. sentence: what it is and why it came second."""

    nodes: tuple[str, ...]
    moves: int
    preemptions: int
    cost: float
    sentence: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """What the planner would not do, and why, in a sentence."""

    pod: str
    reason: str


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan for one snapshot.

    freed_nodes: names of nodes that become wholly free and were not before (for unlock: those
    made free and then given to the gang). unlocked: keys of the pending pods that can start.
    lower_bound: for free-nodes an upper bound on the number of freed nodes, for mig the fewest
    reconfigurations, else the fewest moves that could possibly do it. gap: see spec; 0 when proven optimal.
    layouts: configurations of mig-parted that are added before a node is cut by them.
    """

    goal: Goal
    moves: tuple[Move, ...] = ()
    freed_nodes: tuple[str, ...] = ()
    unlocked: tuple[str, ...] = ()
    unlocked_gpus: int = 0
    hand_overs: tuple[HandOver, ...] = ()
    reconfigurations: tuple[Reconfiguration, ...] = ()
    cost: float = 0.0
    lower_bound: float = 0.0
    gap: float = 0.0
    proven_optimal: bool = False
    relaxed: tuple[str, ...] = ()
    refused: tuple[Refusal, ...] = ()
    sentence: str = ""
    measures: Mapping[str, float] = field(default_factory=dict)
    waivers: tuple[Waiver, ...] = ()
    preemptions: tuple[Preemption, ...] = ()
    runner_up: Alternative | None = None
    layouts: tuple[NamedLayout, ...] = ()
    lowerings: tuple[Lowering, ...] = ()
