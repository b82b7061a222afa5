"""Which schedulers place the pods of each pool, and the settings of theirs that decide what a move costs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from apps.executions.cluster_preflight.lines import Line, Standing
from apps.executions.other_schedulers.durations import tell_seconds
from apps.executions.other_schedulers.settings import RIGHTS_FILE, Kai, Kueue, OtherSchedulers, Volcano
from apps.planner.resources import asks_gpu
from apps.planner.snapshot import Snapshot
from apps.planner.systems import DEFAULT_SCHEDULER, systems_of

POOLS, OTHERS = "Schedulers", "Other schedulers"
NO_ADAPTER = "Its pods are planned and shown only: no adapter that lands them was proved."
MOST_POOLS = 40


def judge_pools(picture: Snapshot | None) -> Iterator[Line]:
    """A line for each pool: by whose scheduler its pods with GPUs were placed."""
    if picture is None:
        yield Line(
            POOLS, Standing.UNKNOWN, "No picture of the cluster is known yet.", "", "Wait for its watcher."
        )
        return
    pools = _pools(picture)
    for pool in sorted(pools)[:MOST_POOLS]:
        yield _judge_pool(pool, *pools[pool])
    if len(pools) > MOST_POOLS:
        yield Line(POOLS, Standing.TOLD, f"{len(pools) - MOST_POOLS} more pools are not listed here.")


def _pools(picture: Snapshot) -> dict[str, tuple[Counter[str], Counter[str]]]:
    """pool -> (pods by scheduler, pods by each other system that has a say)."""
    found: dict[str, tuple[Counter[str], Counter[str]]] = defaultdict(lambda: (Counter(), Counter()))
    for name, pods in picture.pods_by_node.items():
        node = picture.nodes.get(name)
        for pod in pods if node is not None else ():
            if asks_gpu(pod) and node is not None:
                schedulers, systems = found[node.pool]
                schedulers[pod.scheduler] += 1
                systems.update(str(system) for system in systems_of(picture, pod))
    return found


def _judge_pool(pool: str, schedulers: Counter[str], systems: Counter[str]) -> Line:
    name = f"Pool {pool}" if pool else "Nodes without a pool"
    told = ", ".join(f"{count} by {scheduler}" for scheduler, count in schedulers.most_common(5))
    found = f"{name}: {sum(schedulers.values())} pods with GPUs, {told}."
    if not systems:
        return Line(POOLS, Standing.OK, found, "kube-scheduler: its pods can be moved.")
    mine = schedulers[DEFAULT_SCHEDULER]
    named = ", ".join(f"{count} of {system}" for system, count in systems.most_common())
    means = f"Planned only: {named}." + (f" {mine} are placed by kube-scheduler." if mine else "")
    return Line(POOLS, Standing.PLANNED_ONLY, found, means)


def judge_others(settings: OtherSchedulers) -> Iterator[Line]:
    present = [
        settings.kai.is_present,
        settings.kueue.is_present,
        settings.volcano.is_present,
        settings.koordinator,
    ]
    if not any(present):
        yield Line(OTHERS, Standing.OK, "No KAI, Kueue, Volcano or Koordinator was found.")
    if settings.kai.is_present:
        yield from _judge_kai(settings.kai)
    if settings.kueue.is_present:
        yield from _judge_kueue(settings.kueue)
    if settings.volcano.is_present:
        yield from _judge_volcano(settings.volcano)
    if settings.koordinator:
        yield Line(OTHERS, Standing.PLANNED_ONLY, "Koordinator is there.", NO_ADAPTER)


def _judge_kai(kai: Kai) -> Iterator[Line]:
    grace = (
        f"evicts the rest of a gang {tell_seconds(kai.grace_seconds)} after it fell below its minimum"
        if kai.grace_seconds >= 0
        else "leaves gangs below their minimum alone"
    )
    yield Line(
        OTHERS, Standing.PLANNED_ONLY, f"KAI is there and {grace} ({kai.grace_from}).",
        f"A member whose replacement takes longer would cost the whole gang. {NO_ADAPTER}",
    )  # fmt: skip
    if kai.consolidates:
        yield Line(
            OTHERS, Standing.WARNING, "KAI's own consolidation is on.",
            "It moves pods by plain deletes, past disruption budgets, also while a plan of ours is carried "
            "out: plans on its nodes go stale.",
            "Switch it off in the SchedulingShard (spec.actions.consolidation.enabled: false) where this "
            "console is to plan.",
        )  # fmt: skip
    yield from _unread(kai.unread)


def _judge_kueue(kueue: Kueue) -> Iterator[Line]:
    if kueue.unread:
        yield from _unread(kueue.unread)
        return
    if kueue.recovery_seconds is None:
        yield Line(
            OTHERS, Standing.PLANNED_ONLY, "Kueue is there; no waitForPodsReady.recoveryTimeout is set.",
            f"A workload that loses a pod is not requeued for it. {NO_ADAPTER}",
        )  # fmt: skip
        return
    yield Line(
        OTHERS, Standing.PLANNED_ONLY,
        f"Kueue is there with waitForPodsReady.recoveryTimeout {tell_seconds(kueue.recovery_seconds)}.",
        f"It suspends and requeues a whole workload whose pods are not Ready again by then. {NO_ADAPTER} "
        "Pods that its topology-aware scheduling placed move only through their Workload.",
    )  # fmt: skip


def _judge_volcano(volcano: Volcano) -> Iterator[Line]:
    yield from _unread(volcano.unread)
    jobs = list((volcano.jobs or {}).values())
    restarting = sorted(f"{one.namespace}/{one.name}" for one in jobs if one.answers)
    if restarting:
        named = ", ".join(restarting[:5]) + (" …" if len(restarting) > 5 else "")
        yield Line(
            OTHERS, Standing.PLANNED_ONLY,
            f"Volcano is there; {len(restarting)} of {len(jobs)} jobs answer an evicted pod by a restart or "
            f"an end: {named}.",
            f"One eviction there costs the whole job. {NO_ADAPTER}",
        )  # fmt: skip
    elif volcano.jobs is not None:
        yield Line(
            OTHERS, Standing.PLANNED_ONLY,
            f"Volcano is there; none of {len(jobs)} jobs restarts for an evicted pod.", NO_ADAPTER,
        )  # fmt: skip


def _unread(sentences: tuple[str, ...]) -> Iterator[Line]:
    for sentence in sentences:
        yield Line(
            OTHERS, Standing.UNKNOWN, sentence, "What is not known is not taken for harmless.",
            f"kubectl apply -f {RIGHTS_FILE}",
        )  # fmt: skip
