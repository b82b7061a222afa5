"""A look at a node that is being relaid: its labels, what it offers, who uses its GPUs. Changes nothing.

Who uses a GPU is asked by a consistent LIST (no resourceVersion), so after our cordon it is the truth.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings

from apps.clusters.mig_manager import find_manager, why_config_changed
from apps.executions.context import Context
from apps.executions.mig_labels import MigLabels, read_mig_labels
from apps.executions.mig_preflight import would_be_hit
from apps.executions.models import Step
from apps.executions.sightings import is_cordoned_by, uid, unschedulable
from apps.executions.states import StepKind
from apps.kube.gateway import DAEMONSETS, NODES, PODS
from apps.kube.translate import build_snapshot
from apps.planner.inventory import Pod
from apps.planner.resources import asks_gpu
from apps.planner.snapshot import Snapshot
from apps.planner.verification_mig import find_users

Json = dict[str, Any]


@dataclass(frozen=True)
class Limits:
    """Seconds: see the settings of the same names."""

    settle: float
    mismatch: float
    reboot: float
    long: float


@dataclass(frozen=True)
class Facts:
    """node: None if it is gone. labels: of it. was_ours: whether this execution set the cordon.

    users: pods that hold a GPU to be relaid (or may), or that would end with the whole node; newcomers: pods
    with GPUs that came after the preflight, both by name. leaving: whether all of the users are on their way
    out. config_changed: why the named configuration is another now, "". overtime: seconds past the step's
    deadline, 0 before.
    """

    node: Json | None
    labels: MigLabels
    now: datetime
    limits: Limits
    is_cordoned: bool = False
    is_ours: bool = False
    was_ours: bool = True
    users: tuple[str, ...] = ()
    leaving: bool = False
    newcomers: tuple[str, ...] = ()
    config_changed: str = ""
    overtime: float = 0.0

    @property
    def is_kept(self) -> bool:
        """Still behind the cordon that was there when the step began."""
        return self.is_cordoned and (self.is_ours or not self.was_ours)


def look_at_node(context: Context, step: Step) -> Facts:
    params = step.params
    node = context.gateway.get_object(NODES, params["node"])
    limits = read_limits()
    if node is None or uid(node) != params["node_uid"]:
        return Facts(None, read_mig_labels({}), context.now, limits)
    on_node = f"spec.nodeName={params['node']}"
    raw = context.gateway.list_objects(PODS, field_selector=on_node, fresh=True)
    picture = build_snapshot("", {NODES: [node], PODS: raw}, context.now.timestamp())
    labels = read_mig_labels(node)
    users = find_users_of(picture, params)
    could_be_sent = _could_be_sent(step, labels)
    if could_be_sent:
        users += [pod for pod in _whole_node_victims(context, picture, params) if pod not in users]
    there = [pod for pod in picture.pods_on(params["node"]) if asks_gpu(pod) and not pod.hold]
    deadline = step.deadline_at
    return Facts(
        node,
        labels,
        context.now,
        limits,
        is_cordoned=unschedulable(node),
        is_ours=is_cordoned_by(node, context.execution.pk, context.mark),
        was_ours=_was_cordoned_by_us(context, params),
        users=tuple(sorted(pod.key for pod in users)),
        leaving=all(pod.terminating for pod in users),
        newcomers=tuple(sorted(pod.key for pod in there if pod.uid not in params["known"])),
        config_changed=why_config_changed(context.gateway.get_object, params) if could_be_sent else "",
        overtime=max((context.now - deadline).total_seconds(), 0.0) if deadline else 0.0,
    )


def _could_be_sent(step: Step, labels: MigLabels) -> bool:
    """For the first time; or again, where nobody knows whether it went out or the node was repaired."""
    is_first = "relabel" not in step.observed.get("sent", [])
    return is_first or labels.config == step.params["previous"]


def find_users_of(picture: Snapshot, params: Json) -> list[Pod]:
    """Pods that hold a GPU to be relaid, or of which nobody knows that they do not. Terminating ones hold."""
    node = picture.nodes[params["node"]]
    pods = {pod.uid: pod for pod in picture.pods_on(node.name)}
    if params["is_whole_node"]:
        return [pod for pod in pods.values() if asks_gpu(pod) and not pod.hold]
    gpus = [gpu for gpu in node.gpus if gpu.index in params["gpus"]]
    if len(gpus) < len(params["gpus"]):
        return [pod for pod in pods.values() if asks_gpu(pod) and not pod.hold]
    named: Iterable[str] = {user for gpu in gpus for user in find_users(picture, node, gpu)}
    return [pods[user] for user in named if user in pods]


def _whole_node_victims(context: Context, picture: Snapshot, params: Json) -> list[Pod]:
    """Who would end with the node, if mig-manager reboots it or stops its clients: asked anew, because the
    flags may have been set, and a pod without a GPU may have come, since the preflight."""
    daemonsets = context.gateway.list_objects(DAEMONSETS, namespace=settings.MIG_MANAGER_NAMESPACE)
    manager = find_manager(daemonsets)
    if not manager.flags:
        return []
    return [pod for pod in picture.pods_on(params["node"]) if would_be_hit(pod, manager)]


def read_limits() -> Limits:
    return Limits(
        settle=settings.EXECUTION_MIG_SETTLE_SECONDS,
        mismatch=settings.EXECUTION_MIG_MISMATCH_SECONDS,
        reboot=settings.EXECUTION_MIG_REBOOT_SECONDS,
        long=settings.EXECUTION_MIG_LONG_SECONDS,
    )


def _was_cordoned_by_us(context: Context, params: Json) -> bool:
    cordons = [s for s in context.steps if s.kind == StepKind.CORDON_NODE]
    mine = [s for s in cordons if s.params["node_uid"] == params["node_uid"]]
    return any(s.observed.get("seen", {}).get("cordoned") for s in mine)
