"""What waits for MIG instances, as wants of the program, and who starts once the layouts are chosen.

Not in here: the choice (choosing), which node takes a pod (seating).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from apps.planner.inventory import Pod
from apps.planner.mig.blocks import Choice, Want
from apps.planner.mig.catalogue import MODELS
from apps.planner.mig.facts import MigFacts
from apps.planner.mig.nodes import asked_profiles
from apps.planner.mig.seating import Seating

Waiting = Mapping[str, tuple[Pod, ...]]
"""Pods that start together, by the key of their workload, in the order of the queue."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """wants: pods alike are one; rank follows priority; gangs stay whole. positions: by pod, the want of each
    profile that it asks for."""

    wants: tuple[Want, ...]
    positions: Mapping[str, tuple[int, ...]]


def list_wants(facts: MigFacts, waiting: Waiting) -> Wanted:
    priorities = sorted({pod.priority for pods in waiting.values() for pod in pods}, reverse=True)
    ranks = {priority: rank for rank, priority in enumerate(priorities)}
    slices = {name: one.compute_slices for model in MODELS.values() for name, one in model.by_name.items()}
    numbers: Counter[tuple[int, str, frozenset[str], str]] = Counter()
    asked: dict[str, list[tuple[int, str, frozenset[str], str]]] = defaultdict(list)
    for key, pods in waiting.items():
        bundle = key if count_instances(pods) > 1 else ""
        for pod in pods:
            for profile, number in asked_profiles(pod).items():
                kind = (ranks[pod.priority], profile, facts.allowed_groups(pod), bundle)
                numbers[kind] += number
                asked[pod.uid].append(kind)
    kinds = sorted(numbers, key=lambda kind: (kind[0], kind[1], sorted(kind[2]), kind[3]))
    at = {kind: position for position, kind in enumerate(kinds)}
    return Wanted(
        tuple(
            Want((profile, groups), numbers[rank, profile, groups, bundle], rank, slices[profile], bundle)
            for rank, profile, groups, bundle in kinds
        ),
        {uid: tuple(at[kind] for kind in kinds) for uid, kinds in asked.items()},
    )


def start_all(
    facts: MigFacts, waiting: Waiting, wanted: Wanted, choice: Choice, seating: Seating
) -> list[str]:
    """Keys of what starts, in the order of the queue. First everybody where the program puts those like it,
    pods with several instances before the others; then whoever finds room by himself, by priority."""
    quotas: dict[str, Sequence[Counter[str]]] = {
        uid: [choice.places.setdefault(at, Counter()) for at in positions]
        for uid, positions in wanted.positions.items()
    }
    begun: set[str] = set()
    by_need = sorted(
        waiting,
        key=lambda key: (
            -max(count_instances([pod]) for pod in waiting[key]),
            -waiting[key][0].priority,
            -count_instances(waiting[key]),
        ),
    )
    begun.update(key for key in by_need if seating.start(waiting[key], quotas))
    by_rank = sorted(
        (key for key in waiting if key not in begun),
        key=lambda key: (
            -waiting[key][0].priority,
            min(len(facts.allowed_groups(pod)) for pod in waiting[key]),
            -count_instances(waiting[key]),
        ),
    )
    begun.update(key for key in by_rank if seating.start(waiting[key]))
    return [key for key in waiting if key in begun]


def count_instances(pods: Sequence[Pod]) -> int:
    return sum(sum(asked_profiles(pod).values()) for pod in pods)
