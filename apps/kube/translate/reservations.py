"""Placeholders of share schedulers that stand alone.

KAI keeps a device for a group of shares by a placeholder pod; the shares count themselves, so the placeholder
is no load. One without any share to be seen keeps its device all the same: it then counts as what it asked
for, one whole device, else a full node would look free.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from apps.planner.inventory import Pod

SHARE_GROUP = "runai-gpu-group"
"""Label by which KAI's placeholder and the fractions on its device are known to belong together."""
KEPT = {"nvidia.com/gpu": 1}


def with_lone_placeholders(pods: Mapping[str, Pod], known: dict[str, tuple[Pod, Pod]]) -> dict[str, Pod]:
    """By uid. known: what was made of them before, so that what is unchanged stays the same object."""
    keeping = [pod for pod in pods.values() if pod.reservation and pod.is_holding]
    if not keeping:
        known.clear()
        return dict(pods)
    groups = _shared_groups(pods.values())
    found, made = dict(pods), {}
    for pod in keeping:
        group = pod.labels.get(SHARE_GROUP, "")
        shares = groups.get(pod.node_name, set())
        if group in shares or "" in shares or (not group and shares):
            continue
        before = known.get(pod.uid)
        lone = before[1] if before is not None and before[0] is pod else _as_load(pod)
        made[pod.uid] = (pod, lone)
        found[pod.uid] = lone
    known.clear()
    known.update(made)
    return found


def _as_load(pod: Pod) -> Pod:
    return replace(pod, reservation=False, requests={**pod.requests, **KEPT})


def _shared_groups(pods: Iterable[Pod]) -> dict[str, set[str]]:
    """By node: the groups whose shares stand there, "" for a share that names none."""
    found: dict[str, set[str]] = {}
    for pod in pods:
        is_share = pod.gpu_milli < 1000 or pod.gpu_memory_mib is not None
        if is_share and pod.is_holding and not pod.reservation:
            found.setdefault(pod.node_name, set()).add(pod.labels.get(SHARE_GROUP, ""))
    return found
