"""What a plan foresees in GPU-hours. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from apps.planner.costs import DEFAULT_COSTS, HOUR, lost_seconds
from apps.planner.inventory import Pod
from apps.planner.ledger_devices import part_of_profile
from apps.planner.mig.nodes import asked_profiles
from apps.planner.plan import Move, Plan, Preemption
from apps.planner.resources import asks_gpu, demand_of
from apps.planner.snapshot import Snapshot

WINDOW_SECONDS = 24 * HOUR
"""For so long after its end an execution is followed."""


@dataclass(frozen=True, slots=True)
class Foreseen:
    """lost: work since the last checkpoint and a restart, of every pod that leaves; not weighted as a move's
    price is. won: at most, if all that the plan unlocks runs for the whole window; None where it unlocks
    nothing by name."""

    lost: float
    won: float | None


def foresee(plan: Plan, before: Snapshot) -> Foreseen:
    """before: the picture that the plan was made from."""
    lost = sum(
        gpus_of(pod) * (lost_seconds(before, pod) + restart_seconds(pod))
        for pod in leaving_pods(plan, before)
    )
    gpus = plan.unlocked_gpus or _gpus_unlocked(plan, before)
    won = round(gpus * WINDOW_SECONDS / HOUR, 3) if plan.unlocked else None
    return Foreseen(round(lost / HOUR, 3), won)


def _gpus_unlocked(plan: Plan, before: Snapshot) -> float:
    """For a plan of MIG layouts, which counts pods: the parts of GPUs that those ask for."""
    named = set(plan.unlocked)
    return sum(gpus_of(pod) for pod in before.pods.values() if pod.key in named and pod.is_pending)


def leaving_pods(plan: Plan, before: Snapshot) -> list[Pod]:
    """Those that move, then those that give way."""
    both: list[Move | Preemption] = [*plan.moves, *plan.preemptions]
    return [before.pods[one.pod_uid] for one in both if one.pod_uid in before.pods]


def restart_seconds(pod: Pod) -> float:
    return DEFAULT_COSTS.gpu_restart_seconds if asks_gpu(pod) else DEFAULT_COSTS.cpu_restart_seconds


def gpus_of(pod: Pod) -> float:
    """GPUs that it holds; of a shared one its share, of a MIG instance its part of the compute slices."""
    instances = asked_profiles(pod).items()
    milli = sum(count * part_of_profile(profile, None) for profile, count in instances)
    return (demand_of(pod).gpu_milli + float(milli)) / 1000
