"""Whether a pod that is about to be evicted still is the one that was approved. Pure."""

from __future__ import annotations

from typing import Any

from apps.executions.sightings import node_of, owner_uid
from apps.executions.spare import requests_of

Json = dict[str, Any]


def what_changed(params: Json, pod: Json, *, most_priority: int | None = None) -> str:
    """A sentence if it is not. params: of the step. most_priority: the rank above which it may not be."""
    if node_of(pod) != params["source"]:
        return (
            f"Pod {params['pod']} is on {node_of(pod) or 'no node'}, not on {params['source']} as approved."
        )
    if owner_uid(pod) != params["workload_uid"]:
        return f"Pod {params['pod']} belongs to another owner than when the plan was approved."
    priority = int((pod.get("spec") or {}).get("priority") or 0)
    if most_priority is not None and priority > most_priority:
        return f"Pod {params['pod']} has a higher priority than when the plan was approved."
    wanted = {key: amount for key, amount in requests_of(pod).items() if amount}
    if wanted != {key: amount for key, amount in params["requests"].items() if amount}:
        return f"Pod {params['pod']} asks for other resources than when the plan was approved."
    return ""
