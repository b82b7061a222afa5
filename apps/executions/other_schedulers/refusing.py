"""Why a pod in which KAI, Volcano, Koordinator, Kueue or another scheduler has a say is not moved.

Such pods may be planned and shown. They are refused at review and before an execution begins, with what that
system would do to the rest of the workload, until an adapter is proved against it. Touches nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from apps.executions.other_schedulers.durations import read_duration, tell_seconds
from apps.executions.other_schedulers.settings import OtherSchedulers, read_settings
from apps.executions.other_schedulers.starting import Seen, Start, read_seen, start_of
from apps.kube.errors import Forbidden, NotFound
from apps.kube.gateway import KAI_POD_GROUPS, PODS, Gateway
from apps.kube.translate.values import child, clean
from apps.planner.costs import lost_seconds
from apps.planner.inventory import Pod
from apps.planner.plan import Plan
from apps.planner.resources import demand_of
from apps.planner.snapshot import Snapshot
from apps.planner.systems import System, systems_of

HOUR = 3600.0
KUEUE_TOPOLOGY = "Kueue's topology-aware scheduling"
VOLCANO_JOB, VOLCANO_TASK = "volcano.sh/job-name", "volcano.sh/task-spec"


@dataclass(frozen=True, slots=True)
class Situation:
    """What is judged with. leaving: UIDs of all pods that the plan evicts. graces: staleness grace of KAI's
    groups that name one, by gang. starts: by pod UID."""

    picture: Snapshot
    leaving: Collection[str]
    settings: OtherSchedulers
    graces: Mapping[str, float]
    starts: Mapping[str, Start]


def refuse_others(plan: Plan, picture: Snapshot, gateway: Gateway) -> dict[str, str]:
    """A sentence for each such pod of the plan, by UID. No request where the plan has none of them.
    Raises KubeError where the cluster does not answer."""
    leaving = [*(move.pod_uid for move in plan.moves), *(one.pod_uid for one in plan.preemptions)]
    pods = [picture.pods[uid] for uid in leaving if uid in picture.pods]
    others = [pod for pod in pods if systems_of(picture, pod)]
    if not others:
        return {}
    seen = _see_pods(gateway, {pod.namespace for pod in others})
    situation = Situation(
        picture,
        frozenset(leaving),
        read_settings(gateway),
        _read_graces(gateway, {pod.namespace for pod in others}),
        {pod.uid: start_of(pod.uid, seen) for pod in others},
    )
    return {pod.uid: refuse(pod, situation) for pod in others}


def refuse(pod: Pod, situation: Situation) -> str:
    """Pure: what each system that has a say would do, and that none of them can be steered yet."""
    told = []
    systems = systems_of(situation.picture, pod)
    for system in systems:
        judge = JUDGES.get(system)
        told.append(judge(pod, situation) if judge is not None else "")
    named = " and ".join(_name_of(system, pod) for system in systems)
    told.append(f"Planned only: no hold of ours is proved under {named}, so nothing is evicted.")
    return " ".join(sentence for sentence in told if sentence)


def _name_of(system: System, pod: Pod) -> str:
    return f"the scheduler {pod.scheduler}" if system is System.OTHER else str(system)


def _members(pod: Pod, situation: Situation) -> list[Pod]:
    return [
        one
        for one in situation.picture.pods.values()
        if one.gang == pod.gang and one.is_holding and not one.terminating
    ]


def _judge_kai(pod: Pod, situation: Situation) -> str:
    floor, members = _gang_floor(pod, situation), _members(pod, situation)
    if not floor or _moves_whole(members, situation):
        return floor
    gang, below = situation.picture.gangs[pod.gang], floor.removesuffix(".")
    kai, start = situation.settings.kai, situation.starts.get(pod.uid, Start())
    grace = situation.graces.get(gang.key, kai.grace_seconds)
    source = "its PodGroup" if gang.key in situation.graces else kai.grace_from
    if grace < 0:
        return f"{below}; KAI leaves a gang below its minimum alone ({source})."
    rule = f"{below}; KAI evicts the rest after a staleness grace of {tell_seconds(grace)} ({source})"
    if start.seconds is None:
        return (
            f"{rule}, and how long its replacement takes to start is not known: all {len(members)} may die."
        )
    if grace < start.seconds:
        shorter = f"{tell_seconds(grace)} < {tell_seconds(start.seconds)} {start.words}"
        return f"{rule}: {shorter}: all {len(members)} would die. {_price(members, situation)}."
    longer = f"{tell_seconds(grace)} >= {tell_seconds(start.seconds)} {start.words}"
    return f"{rule}: {longer}, so they would live if it lands at once."


def _moves_whole(members: Collection[Pod], situation: Situation) -> bool:
    return len(members) > 1 and all(one.uid in situation.leaving for one in members)


def _price(members: list[Pod], situation: Situation) -> str:
    """Every member restarts, and what ran since its last checkpoint is lost."""
    picture = situation.picture
    hours = sum(lost_seconds(picture, one) * demand_of(one).gpu_milli / 1000 for one in members) / HOUR
    return f"Its price is {len(members)} restarts and about {hours:.1f} GPU-hours of running time"


def _judge_volcano(pod: Pod, situation: Situation) -> str:
    volcano, name = situation.settings.volcano, pod.labels.get(VOLCANO_JOB, "")
    if not name:
        return _gang_floor(pod, situation)
    if volcano.jobs is None:
        why = " ".join(volcano.unread) or "its jobs cannot be read"
        return f"What its Volcano job {pod.namespace}/{name} does about an evicted pod is not known: {why}."
    job = volcano.jobs.get((pod.namespace, name))
    if job is None:
        return f"Its Volcano job {pod.namespace}/{name} is gone."
    answer = job.answer_for(pod.labels.get(VOLCANO_TASK, ""))
    if not answer:
        return _gang_floor(pod, situation)
    what = "restart" if answer.startswith("Restart") else "end"
    return (
        f"Its Volcano job {pod.namespace}/{name} answers PodEvicted with {answer}: all {job.pods} of its "
        f"pods would {what}."
    )


def _gang_floor(pod: Pod, situation: Situation) -> str:
    """What its gang loses: nothing where enough members stay."""
    gang = situation.picture.gangs.get(pod.gang)
    if gang is None:
        return ""
    members = _members(pod, situation)
    if _moves_whole(members, situation):
        return f"Gang {gang.key} moves as a whole. {_price(members, situation)}."
    left = len(members) - sum(one.uid in situation.leaving for one in members)
    if left >= gang.min_members:
        return ""
    return f"Gang {gang.key} needs {gang.min_members} members and would have {left}."


def _judge_kueue(pod: Pod, situation: Situation) -> str:
    if any(KUEUE_TOPOLOGY in reason for reason in pod.protections):
        return f"{KUEUE_TOPOLOGY} placed it: it moves only through its Workload."
    kueue, start = situation.settings.kueue, situation.starts.get(pod.uid, Start())
    if kueue.unread:
        return " ".join(kueue.unread)
    if kueue.recovery_seconds is None:
        return ""
    limit = tell_seconds(kueue.recovery_seconds)
    rule = (
        "Kueue suspends and requeues its whole workload if its pods are not all Ready again within "
        f"{limit} (waitForPodsReady.recoveryTimeout)"
    )
    if start.seconds is None:
        return f"{rule}, and how long its replacement takes to start is not known."
    if kueue.recovery_seconds < start.seconds:
        return f"{rule}: {limit} < {tell_seconds(start.seconds)} {start.words}: all of it would be requeued."
    return f"{rule}; its start takes {tell_seconds(start.seconds)}."


JUDGES = {
    System.KAI: _judge_kai,
    System.VOLCANO: _judge_volcano,
    System.KOORDINATOR: _gang_floor,
    System.KUEUE: _judge_kueue,
}


def _see_pods(gateway: Gateway, namespaces: Collection[str]) -> list[Seen]:
    return [
        read_seen(raw)
        for namespace in sorted(namespaces)
        for raw in gateway.list_objects(PODS, namespace=namespace).objects
    ]


def _read_graces(gateway: Gateway, namespaces: Collection[str]) -> dict[str, float]:
    """Of KAI's groups that name a staleness grace of their own."""
    found = {}
    for namespace in sorted(namespaces):
        try:
            groups = gateway.list_objects(KAI_POD_GROUPS, namespace=namespace).objects
        except (NotFound, Forbidden):
            return {}
        for raw in groups:
            seconds = read_duration(child(raw, "spec").get("stalenessGracePeriod"))
            if seconds is not None:
                found[f"{namespace}/{clean(child(raw, 'metadata').get('name'), 253)}"] = seconds
    return found
