"""FGD's measure as the paper defines it, node by node and spec by spec: slow, and nothing shared."""

from __future__ import annotations

from collections import Counter

from apps.planner.room import Room
from apps.planner.workload import Workload


def lost_by_cause(room: Room, workload: Workload) -> Counter[str]:
    """Sum over specs of count x F_n(m), in milli-GPU, by cause; "usable" is what is not lost."""
    names = {*(value for key, value in room.node.labels.items() if key.endswith(".product")), room.node.model}
    idle = sum(room.gpu_left)
    found: Counter[str] = Counter()
    for spec, count in workload.specs:
        enough = [left for left in room.gpu_left if left >= spec.milli]
        has_gpu, has_cpu = len(enough) >= spec.gpus, room.left["cpu"] >= spec.cpu
        if spec.gpus == 0:
            found["cpu_only"] += count * idle
        elif spec.models and not names & set(spec.models.split("|")):
            found["model_not_allowed"] += count * idle
        elif has_gpu and has_cpu:
            found["usable"] += count * sum(enough)
            found["lacks_gpu"] += count * (idle - sum(enough))
        else:
            cause = "lacks_both" if not has_gpu and not has_cpu else "lacks_cpu" if has_gpu else "lacks_gpu"
            found[cause] += count * idle
    return found


def least_lost(room: Room, workload: Workload) -> int:
    """What no spec can use, in milli-GPU."""
    idle = sum(room.gpu_left)
    each = [lost_by_cause(room, Workload(((spec, 1),)))["usable"] for spec, _ in workload.specs]
    return idle - max(each, default=0)
