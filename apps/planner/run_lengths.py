"""How long pods run, and when those that run now will end: by what they say, by earlier runs of their kind,
or by a deadline that ends them at the latest. Not in here: what starts then (expected_start), kept history.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from apps.planner.inventory import Pod
from apps.planner.mig.nodes import asked_profiles
from apps.planner.plain import say_duration
from apps.planner.resources import demand_of
from apps.planner.snapshot import Snapshot

LEAST_RUNS = 3
"""So many earlier runs are needed before their median is believed."""
MOST_RUNS = 200
ENDLESS_OWNERS = ("ReplicaSet", "Deployment", "StatefulSet", "DaemonSet", "Node", "ReplicationController")
Runs = Mapping[str, tuple[float, ...]]
"""By kind of run (`kind_of_run`): lengths in seconds, sorted."""


@dataclass(frozen=True, slots=True)
class End:
    """at: epoch seconds. is_latest: by a deadline, it may well end sooner."""

    at: float
    words: str
    is_latest: bool = False


def kind_of_run(snapshot: Snapshot, pod: Pod) -> str:
    """Pods of one owner and one shape: "ml/train, 8 GPUs". Numbers at the end of a bare pod's name, or of a
    Job's, are of its turn and not of its kind."""
    name = snapshot.workload_name(pod).rstrip("0123456789").rstrip("-_.") or snapshot.workload_name(pod)
    return f"{pod.namespace}/{name}, {shape_of_pod(pod)}"


def shape_of_pod(pod: Pod) -> str:
    """ "8 GPUs, nvlink", "0.5 of 1 GPU", "2 x 1g.10gb"; "" for a pod without devices."""
    demand, words = demand_of(pod), []
    if demand.gpus:
        share = f"{demand.milli / 1000:g} of " if demand.milli < 1000 else ""
        words.append(f"{share}{demand.gpus} GPU{'' if demand.gpus == 1 else 's'}")
    words += [f"{number} x {profile}" for profile, number in sorted(asked_profiles(pod).items())]
    words += list(pod.claim_wishes)
    if demand.link:
        words.append(str(demand.link))
    return ", ".join(words)


def runs_in(snapshot: Snapshot) -> dict[str, tuple[float, ...]]:
    """Of the finished pods that the cluster still shows; failed ones tell nothing of the length."""
    found: dict[str, list[float]] = defaultdict(list)
    for pod in snapshot.pods.values():
        begun = _begun(pod)
        if pod.phase == "Succeeded" and pod.finished_at is not None and begun is not None:
            found[kind_of_run(snapshot, pod)].append(max(0.0, pod.finished_at - begun))
    return {kind: _thin_out(lengths) for kind, lengths in found.items()}


def joined(parts: Iterable[Runs]) -> dict[str, tuple[float, ...]]:
    found: dict[str, list[float]] = defaultdict(list)
    for part in parts:
        for kind, lengths in part.items():
            found[kind].extend(lengths)
    return {kind: _thin_out(lengths) for kind, lengths in found.items()}


def _thin_out(lengths: Sequence[float]) -> tuple[float, ...]:
    """Sorted; of very many every second or third and so on, so that short and long ones keep their parts."""
    ordered = sorted(lengths)
    return tuple(ordered[:: max(1, -(-len(ordered) // MOST_RUNS))])


def find_end(snapshot: Snapshot, pod: Pod, runs: Runs) -> End | None:
    """When a running pod ends; None where nothing tells it. Terminating pods end within their grace."""
    begun, now = _begun(pod), snapshot.taken_at
    if pod.terminating:
        return End(now + pod.grace_seconds, "it is being ended", is_latest=True)
    if begun is None:
        return None
    if pod.expected_seconds is not None:
        at = (pod.ready_at or begun) + pod.expected_seconds
        return End(at, "as its annotation says") if at > now else None
    length = expected_length(snapshot, pod, runs, at_least=now - begun)
    if length is not None:
        seconds, words = length
        return End(begun + seconds, words)
    if pod.most_seconds is not None:
        at = (pod.started_at or begun) + pod.most_seconds
        return End(max(at, now), "by its deadline at the latest", is_latest=True)
    return None


def expected_length(
    snapshot: Snapshot, pod: Pod, runs: Runs, at_least: float = 0.0
) -> tuple[float, str] | None:
    """The median of the earlier runs of its kind that lasted longer than `at_least` seconds, and words."""
    if pod.owner_kind in ENDLESS_OWNERS:
        return None
    longer = [length for length in runs.get(kind_of_run(snapshot, pod), ()) if length > at_least]
    if len(longer) < LEAST_RUNS:
        return None
    middle = median(longer)
    return middle, f"the median of {len(longer)} earlier runs ({say_duration(middle)})"


def known_length(snapshot: Snapshot, pod: Pod, runs: Runs) -> float | None:
    """Of a pod that has not begun, in seconds from its place on; None where nothing tells it."""
    if pod.expected_seconds is not None:
        return float(pod.expected_seconds)
    length = expected_length(snapshot, pod, runs)
    if length is not None:
        return length[0]
    return float(pod.most_seconds) if pod.most_seconds is not None else None


def _begun(pod: Pod) -> float | None:
    return pod.scheduled_at if pod.scheduled_at is not None else pod.started_at
