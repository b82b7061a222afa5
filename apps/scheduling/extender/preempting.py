"""Preempt: of the nodes where the scheduler would sacrifice pods, those where we let it. Pure.

Left out: nodes where a protected pod would go, or one whose GPURequest is not preemptible; where the pod
would still not fit once they are gone (its links or its GPURequest, say); and nodes that are kept for others.
Nodes where a disruption budget would be broken, or a gang torn apart, remain only if there are no others. The
victims are the scheduler's: none is added or spared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from apps.planner.fitting import wish_reasons
from apps.planner.gpu_wishes import request_among
from apps.planner.inventory import Pod
from apps.planner.resources import demand_of
from apps.scheduling.extender.picture import Picture
from apps.scheduling.extender.rules import refuse
from apps.scheduling.extender.wire import Victims

ROUGHER = "a disruption budget or a gang would be broken there, and not elsewhere"


def choose_victims(
    picture: Picture,
    pod: Pod,
    victims: Mapping[str, Victims],
    kept: Mapping[str, str],
    *,
    spare_drifted: bool = True,
) -> tuple[dict[str, Victims], dict[str, str]]:
    """(accepted nodes, why others are not). kept: nodes that are kept for others."""
    accepted: dict[str, Victims] = {}
    gentle: set[str] = set()
    refused: dict[str, str] = {}
    for name, one in victims.items():
        why = kept.get(name) or _why_not(picture, pod, name, one, spare_drifted)
        if why:
            refused[name] = why
            continue
        accepted[name] = one
        if not one.violations and not _tears_gang(picture, one.uids):
            gentle.add(name)
    if gentle:
        for name in [name for name in accepted if name not in gentle]:
            del accepted[name]
            refused[name] = ROUGHER
    return accepted, refused


def _why_not(picture: Picture, pod: Pod, name: str, victims: Victims, spare_drifted: bool) -> str:
    gone = [picture.pods.get(uid) for uid in victims.uids]
    if any(one is None for one in gone):
        return "a victim is not known to the extender yet"
    protected = next((one for one in gone if one is not None and one.protections), None)
    if protected is not None:
        return f"{protected.key} is protected: {protected.protections[0]}"
    firm = next((one for one in gone if one is not None and _is_firm(picture, one)), None)
    if firm is not None:
        return f"{firm.key} is not preemptible: its GPURequest says so"
    room = picture.room_without(name, (*victims.uids, pod.uid))
    if room is None:
        return "the node is not known to the extender yet"
    demand = demand_of(pod, picture.gpu_names)
    unmet = tuple(wish_reasons(picture.wish(pod), picture.nodes[name]))
    refusal = refuse(pod, demand, room, spare_drifted=spare_drifted, unmet=unmet)
    return f"even without them: {refusal.words}" if refusal else ""


def _is_firm(picture: Picture, pod: Pod) -> bool:
    stated = request_among(picture.gpu_requests, pod)
    return stated is not None and stated.preemptible is False


def _tears_gang(picture: Picture, uids: Iterable[str]) -> bool:
    """Whether a gang that runs would fall below its least members."""
    leaving = Counter(picture.pods[uid].gang for uid in uids if uid in picture.pods)
    for key, number in leaving.items():
        gang = picture.gangs.get(key) if key else None
        if gang is None or gang.min_members <= 1:
            continue
        running = sum(1 for one in picture.members(key) if one.is_holding and not one.terminating)
        if running - number < gang.min_members:
            return True
    return False
