"""Programs beside this console that move pods, drain nodes or take them away: what they mean for a plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from apps.executions.cluster_preflight.lines import Line, Standing
from apps.executions.other_schedulers.settings import Program
from apps.planner.snapshot import Snapshot

SUBJECT = "Other movers"
UPGRADE_LABEL = "nvidia.com/gpu-driver-upgrade-state"
GRANTED_BY = {"cronjobs": "trust.yaml"}
"""The file that grants reading programs of this kind, where it is not the reader's own."""
QUIET_UPGRADES = ("", "upgrade-done", "unknown")


@dataclass(frozen=True, slots=True)
class Mover:
    """words: parts of a program's name or image that tell it."""

    name: str
    words: tuple[str, ...]
    means: str
    action: str


MOVERS = (
    Mover(
        "The descheduler", ("descheduler",),
        "It evicts pods by rules of its own, also ones that a plan has just moved.",
        "Exclude the namespaces that plans move, or give it and this console different times (freeze "
        "windows).",
    ),
    Mover(
        "Karpenter", ("karpenter",),
        "It consolidates and replaces nodes: a freed node may be taken away before the workload that "
        "waits gets it.",
        "Annotate NodePools with GPUs so that they are not disrupted (a disruption budget of 0) while "
        "plans run.",
    ),
    Mover(
        "The cluster-autoscaler", ("cluster-autoscaler",),
        "It takes away nodes that are little used, which is what a plan leaves behind.",
        "Annotate GPU nodes with cluster-autoscaler.kubernetes.io/scale-down-disabled=true.",
    ),
    Mover(
        "kured", ("kured",),
        "It drains and reboots nodes. An execution pauses while it does so on one of its nodes.",
        "Give it a time window of its own, and a freeze window here.",
    ),
    Mover(
        "The vertical pod autoscaler's updater", ("vpa-updater",),
        "It evicts pods to give them other requests: their plans go stale.",
        "Set updateMode Off or Initial for workloads with GPUs.",
    ),
    Mover(
        "The node maintenance operator", ("node-maintenance-operator", "medik8s"),
        "It cordons and drains nodes by itself. An execution pauses where it does so on one of its nodes.",
        "Tell this console by a freeze window when nodes are maintained.",
    ),
)  # fmt: skip


def judge_movers(
    programs: Iterable[Program], picture: Snapshot | None, unread: Iterable[str]
) -> Iterator[Line]:
    """unread: kinds of programs that could not be read."""
    known = list(programs)
    lines = [*_programs(known), *_driver_upgrades(known, picture)]
    yield from lines
    hidden = list(unread)
    if hidden:
        files = sorted({GRANTED_BY.get(one, "reader.yaml") for one in hidden})
        yield Line(
            SUBJECT, Standing.UNKNOWN, f"The {' and '.join(hidden)} of the cluster cannot be read.",
            "Who else moves pods is not known.",
            " ".join(["kubectl apply", *(f"-f deploy/rbac/{file}" for file in files)]),
        )  # fmt: skip
    elif not lines:
        yield Line(
            SUBJECT, Standing.OK, "No program that moves pods or takes nodes away was found.",
            "One that a cloud runs outside of the cluster is not seen.",
        )  # fmt: skip


def _programs(programs: list[Program]) -> Iterator[Line]:
    for mover in MOVERS:
        found = next((one for one in programs if _is_one(one, mover)), None)
        if found is not None:
            where = f"{found.kind} {found.namespace}/{found.name}"
            yield Line(
                SUBJECT, Standing.WARNING, f"{mover.name} is there: {where}.", mover.means, mover.action
            )


def _is_one(program: Program, mover: Mover) -> bool:
    texts = (program.name, *(image.rpartition("/")[2] for image in program.images))
    return any(word in text for word in mover.words for text in texts)


def _driver_upgrades(programs: list[Program], picture: Snapshot | None) -> Iterator[Line]:
    labels: Mapping[str, str] = {
        node.name: node.labels.get(UPGRADE_LABEL, "") for node in (picture.nodes.values() if picture else ())
    }
    if not any(labels.values()):
        return
    busy = sorted(name for name, state in labels.items() if state not in QUIET_UPGRADES)
    found = "The driver upgrade controller of the GPU operator looks after nodes"
    now = f"; under way on {', '.join(busy[:5])}." if busy else "; none is being upgraded now."
    yield Line(
        SUBJECT, Standing.WARNING if busy else Standing.TOLD, found + now,
        "It cordons, drains and reboots nodes. An execution pauses while it works on one of its nodes.",
        "Start no plan on these nodes before it is done." if busy else "",
    )  # fmt: skip
