"""Which changes of a cluster an execution follows while it is carried out, and which of them wake its runner.

A cluster of a thousand nodes changes many times a second; a runner that waits for a replacement looks again
only where one of the execution's own nodes, owners, pods or namespaces is meant.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.conf import settings

from apps.clusters.models import Cluster
from apps.executions.cluster_switch import SwitchSight
from apps.executions.console_lease import ConsoleSight
from apps.executions.models import Step
from apps.executions.proving.scheduler_lease import SchedulerSight
from apps.kube.gateway import (
    BUDGETS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    REPLICASETS,
    STATEFULSETS,
    WEBHOOKS,
    Kind,
)
from apps.kube.kubernetes_gateway import KubernetesGateway
from apps.kube.live_view import LiveObject, LiveView, by_namespace, by_node, by_owner

FOLLOWED = (PODS, NODES, BUDGETS, WEBHOOKS, NAMESPACES, PRIORITY_CLASSES)
BY_NAMESPACE = (JOBS, POD_GROUPS, REPLICASETS, STATEFULSETS, DEPLOYMENTS)


class Interests:
    """The nodes, owners and namespaces of an execution's steps, filled once the steps are known."""

    def __init__(self, console_namespace: str) -> None:
        self._marks = {by_namespace(console_namespace)}
        self._nodes: set[str] = set()

    def add_steps(self, steps: Iterable[Step]) -> None:
        for step in steps:
            params = step.params
            names = {params[key] for key in ("node", "source", "target") if params.get(key)}
            self._nodes |= names
            self._marks |= {by_node(name) for name in names}
            if params.get("workload_uid"):
                self._marks.add(by_owner(params["workload_uid"]))
            self._marks |= {by_namespace(name) for name in params.get("namespaces", ())}

    def are_met_by(self, kind: Kind, found: LiveObject | None) -> bool:
        if found is None or kind not in (PODS, NODES):
            return True
        if kind == NODES:
            return found.name in self._nodes
        return not self._marks.isdisjoint(found.marks)


@dataclass
class Sight:
    """What a runner sees of the cluster during one visit. A new visit begins with a new one."""

    gateway: KubernetesGateway
    view: LiveView
    interests: Interests
    switch: SwitchSight
    console: ConsoleSight
    scheduler: SchedulerSight

    def follow(self, steps: Sequence[Step]) -> None:
        self.interests.add_steps(steps)

    def wait(self, seconds: float) -> None:
        """Until something of the execution's own changes in the cluster, at most so long: what changes in the
        database (a person's decision, a freeze window) is looked for at that pace."""
        self.view.wait(seconds)

    def close(self) -> None:
        self.view.stop()
        self.switch.stop()
        self.gateway.close()
        self.view.join()
        self.switch.join()


def open_sight(cluster: Cluster, gateway: KubernetesGateway) -> Sight:
    """Nothing is asked of the cluster before the first look. gateway: closed with it."""
    interests = Interests(settings.STEERING_NAMESPACE)
    view = LiveView(
        gateway, kinds=(*FOLLOWED, *BY_NAMESPACE), namespaced=BY_NAMESPACE, wakes=interests.are_met_by
    )
    switch, console = SwitchSight(gateway, view.wake), ConsoleSight(cluster, gateway)
    return Sight(gateway, view, interests, switch, console, SchedulerSight(gateway))
