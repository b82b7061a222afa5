"""What of a dump concerns several objects at once: pods that are over, ghosts, nodes unlike their kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apps.kube.translate.annotations import HOLDERS
from apps.kube.translate.ghosts import find_ghosts
from apps.planner.finished import group_finished
from apps.planner.odd_links import find_odd_links
from apps.planner.snapshot import Snapshot

MOST_GROUPS = 200


def find_oddities(snapshot: Snapshot, annotations: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """annotations: of the nodes, by name. Keys stand in the answer only where there is something to say."""
    finished = group_finished(snapshot)
    ghosts = [
        {"node": name, "uid": one.uid, "devices": list(one.devices)}
        for name, told in annotations.items()
        if HOLDERS in told and name in snapshot.nodes
        for one in find_ghosts(told[HOLDERS], {pod.uid for pod in snapshot.pods_on(name)})
    ]
    odd = find_odd_links(snapshot.nodes.values())
    answer: dict[str, Any] = {}
    if finished:
        answer["finished"] = [
            {
                "namespace": one.namespace,
                "owner": one.owner or None,
                "phase": one.phase,
                "count": one.count,
                "nodes": one.nodes,
                "example": one.example,
            }
            for one in finished[:MOST_GROUPS]
        ]
    if ghosts:
        answer["ghosts"] = ghosts
    if odd:
        answer["odd_links"] = [{"node": name, "why": why} for name, why in sorted(odd.items())]
    return answer
