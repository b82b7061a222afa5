"""Waivers as people ask for them: a pod of the newest snapshot by name, and why. Reads no rows.

What comes out names the pod's UID and each protection in words, and becomes a part of the plan's version, so
that the digest which is approved binds it. An edit computes another version, whose approval is anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from apps.planner.plan import Plan as PlannerPlan
from apps.planner.plan import Waiver
from apps.planner.plan_json import waiver_from_dict
from apps.planner.snapshot import Snapshot
from apps.planner.waiving import is_waivable, protections_of
from apps.plans.errors import InvalidRequest

MOST_WAIVERS = 50
MOST_PODS = 500
LONGEST_REASON = 300


def named_waivers(snapshot: Snapshot, wishes: Sequence[Mapping[str, Any]], by: str) -> list[dict[str, Any]]:
    """As a plan's request keeps them. wishes: {"pod": "namespace/name", "reason"}, or {"gang", …} for all
    of its members at once.

    Raises InvalidRequest: no such pod, one that needs no waiver, one that no waiver can help.
    """
    if len(wishes) > MOST_WAIVERS:
        raise InvalidRequest(f"{len(wishes)} waivers are too many for one plan: name at most {MOST_WAIVERS}")
    by_key = {pod.key: pod for pod in snapshot.pods.values() if pod.is_holding and not pod.terminating}
    found: dict[str, Waiver] = {}
    for wish in _each_pod(snapshot, wishes):
        key, reason = str(wish.get("pod", "")), " ".join(str(wish.get("reason", "")).split())
        if not reason or not reason.isprintable() or len(reason) > LONGEST_REASON:
            raise InvalidRequest(
                f"say in one line of at most {LONGEST_REASON} characters why {key[:80]!r} may be moved"
            )
        pod = by_key.get(key)
        if pod is None:
            raise InvalidRequest(
                f"no pod {key[:80]!r} runs in the newest snapshot: a waiver names one that does"
            )
        protections = protections_of(pod)
        lasting = [one for one in protections if not is_waivable(one)]
        if lasting:
            raise InvalidRequest(f"no waiver can let {key} be moved: {lasting[0]}")
        if not protections:
            raise InvalidRequest(f"nothing protects {key}: leave its waiver out")
        found[pod.uid] = Waiver(pod.uid, key, protections, reason, by)
    return [{**asdict(one), "protections": list(one.protections)} for one in found.values()]


def _each_pod(snapshot: Snapshot, wishes: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """A gang's wish as one for each member that runs. Raises InvalidRequest."""
    found: list[Mapping[str, Any]] = []
    for wish in wishes:
        gang = str(wish.get("gang", ""))
        if not gang:
            found.append(wish)
            continue
        members = sorted(
            pod.key
            for pod in snapshot.pods.values()
            if pod.gang == gang and pod.is_holding and not pod.terminating
        )
        if not members:
            raise InvalidRequest(
                f"no gang {gang[:80]!r} runs in the newest snapshot: a waiver names one that does"
            )
        found += [{**wish, "pod": key} for key in members]
    if len(found) > MOST_PODS:
        raise InvalidRequest(f"the waivers name {len(found)} pods: name at most {MOST_PODS} in one plan")
    return found


def waivers_of(request: Mapping[str, Any]) -> tuple[Waiver, ...]:
    """Those that a plan's request keeps."""
    return tuple(waiver_from_dict(one) for one in request.get("waivers") or ())


def with_used_waivers(found: PlannerPlan, asked: Iterable[Waiver]) -> PlannerPlan:
    """The plan with the waivers that its moves need, and no other: nobody is asked to sign for what does not
    happen."""
    moved = {move.pod_uid for move in found.moves}
    return replace(found, waivers=tuple(one for one in asked if one.pod_uid in moved))
