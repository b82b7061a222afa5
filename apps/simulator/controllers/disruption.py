"""The disruption controller: keeps the status of PodDisruptionBudgets true.

The eviction subresource spends `disruptionsAllowed` and notes the pod in `disruptedPods`; this
program counts again. Not here: the decision on an eviction (the API server's).
"""

from __future__ import annotations

import math
from typing import Any

from apps.simulator.client import BUDGETS, DEPLOYMENTS, PODS, REPLICA_SETS, STATEFUL_SETS
from apps.simulator.controllers.controller import Context, Controller
from apps.simulator.controllers.informers import Change
from apps.simulator.controllers.objects import (
    controller_of,
    is_ready,
    is_terminal,
    is_terminating,
    key_of,
    labels_of,
    make_condition,
    uid_of,
    with_condition,
)
from apps.simulator.controllers.pace import seconds_since
from apps.simulator.controllers.selectors import matches_selector

Json = dict[str, Any]

_SCALABLE = {each.kind: each for each in (REPLICA_SETS, STATEFUL_SETS)}
_DISRUPTED_SECONDS = 120.0


class NoScale(Exception):
    """A pod's controller has no scale subresource, so its share can't be counted."""


class DisruptionController(Controller):
    name = "disruption"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.budgets = context.informers.store(BUDGETS)
        self.pods = context.informers.store(PODS)
        self._deployments = context.informers.store(DEPLOYMENTS)
        self._scalable = {kind: context.informers.store(each) for kind, each in _SCALABLE.items()}

    async def run(self) -> None:
        self.budgets.subscribe(self._on_budget)
        self.pods.subscribe(self._on_pod)
        for store in self._scalable.values():
            store.subscribe(self._on_owner)
        await super().run()

    def _on_budget(self, change: Change) -> None:
        if change.kind != "DELETED":
            self.enqueue(key_of(change.object))

    def _on_pod(self, change: Change) -> None:
        for pod in (change.object, change.before):
            if pod:
                self._enqueue_matching(pod["metadata"]["namespace"], labels_of(pod))

    def _on_owner(self, change: Change) -> None:
        replicas = [(each or {}).get("spec", {}).get("replicas") for each in (change.before, change.object)]
        if replicas[0] != replicas[1]:
            template = change.object["spec"]["template"].get("metadata") or {}
            self._enqueue_matching(change.object["metadata"]["namespace"], template.get("labels") or {})

    def _enqueue_matching(self, namespace: str, labels: dict[str, str]) -> None:
        for budget in self.budgets.select("namespace", namespace):
            if matches_selector(budget["spec"].get("selector"), labels):
                self.enqueue(key_of(budget))

    async def sync(self, key: str) -> None:
        budget = self.budgets.get(key)
        if budget is None or is_terminating(budget):
            return
        selector = budget["spec"].get("selector")
        pods = [
            pod
            for pod in self.pods.select("namespace", budget["metadata"]["namespace"])
            if matches_selector(selector, labels_of(pod)) and not is_terminal(pod)
        ]
        try:
            expected, desired = self._expect(budget, pods)
        except NoScale as error:
            await self._write_failure(budget, str(error))
            return
        disrupted = self._still_disrupted(budget, pods)
        healthy = sum(
            1
            for pod in pods
            if not is_terminating(pod) and pod["metadata"]["name"] not in disrupted and is_ready(pod)
        )
        allowed = max(0, healthy - desired) if expected > 0 else 0
        await self._write(budget, expected, desired, healthy, allowed, disrupted)

    def _expect(self, budget: Json, pods: list[Json]) -> tuple[int, int]:
        """(expectedPods, desiredHealthy)."""
        spec = budget["spec"]
        if spec.get("maxUnavailable") is not None:
            expected = self._expected_scale(pods)
            return expected, max(0, expected - _share(spec["maxUnavailable"], expected))
        minimum = spec.get("minAvailable", 1)
        if isinstance(minimum, int):
            return len(pods), minimum
        expected = self._expected_scale(pods)
        return expected, _share(minimum, expected)

    def _expected_scale(self, pods: list[Json]) -> int:
        """The sum of the wanted replicas of all controllers; bare pods count nothing."""
        scales: dict[str, int] = {}
        for pod in pods:
            owner = controller_of(pod)
            if owner is None:
                continue
            if owner["kind"] not in self._scalable:
                resource = f"{owner['kind'].lower()}s.{owner['apiVersion'].partition('/')[0]}"
                raise NoScale(f"{resource} does not implement the scale subresource")
            known = self._scalable[owner["kind"]].by_uid.get(owner["uid"])
            if known is None:
                continue
            parent = controller_of(known)
            top = self._deployments.by_uid.get(parent["uid"]) if parent else None
            top = top or known
            scales[uid_of(top)] = top["spec"].get("replicas", 1)
        return sum(scales.values())

    def _still_disrupted(self, budget: Json, pods: list[Json]) -> dict[str, str]:
        """Evicted pods whose deletion the watch does not show yet."""
        names = {pod["metadata"]["name"] for pod in pods if not is_terminating(pod)}
        noted = (budget.get("status") or {}).get("disruptedPods") or {}
        limit = self.pace.seconds(_DISRUPTED_SECONDS)
        left = {name: when for name, when in noted.items() if name in names and seconds_since(when) < limit}
        if left:
            self.enqueue(key_of(budget), after=max(1.0, limit / 4))
        return left

    async def _write(
        self, budget: Json, expected: int, desired: int, healthy: int, allowed: int, disrupted: dict[str, str]
    ) -> None:
        known = budget.get("status") or {}
        generation = budget["metadata"].get("generation", 1)
        condition = make_condition(
            "DisruptionAllowed",
            "True" if allowed else "False",
            "SufficientPods" if allowed else "InsufficientPods",
        )
        condition |= {"message": "", "observedGeneration": generation}
        status: Json = {
            "observedGeneration": generation,
            "disruptionsAllowed": allowed,
            "currentHealthy": healthy,
            "desiredHealthy": desired,
            "expectedPods": expected,
            "conditions": with_condition(known.get("conditions"), condition),
        }
        gone = {name: None for name in known.get("disruptedPods") or {} if name not in disrupted}
        same = all(known.get(name) == value for name, value in status.items())
        if gone:
            status["disruptedPods"] = gone
        if gone or not same:
            await self._patch(budget, status)

    async def _write_failure(self, budget: Json, message: str) -> None:
        """As the real one: no budget, and no observedGeneration, so evictions wait for ever."""
        known = budget.get("status") or {}
        condition = make_condition("DisruptionAllowed", "False", "SyncFailed", message)
        conditions = with_condition(known.get("conditions"), condition)
        if known.get("conditions") != conditions or known.get("disruptionsAllowed"):
            await self._patch(budget, {"disruptionsAllowed": 0, "conditions": conditions})

    async def _patch(self, budget: Json, status: Json) -> None:
        """With the revision: an eviction may have spent from the budget in between."""
        meta = budget["metadata"]
        body = {"metadata": {"resourceVersion": meta["resourceVersion"]}, "status": status}
        await self.client.patch(BUDGETS, meta["namespace"], meta["name"], body, subresource="status")


def _share(value: int | str, whole: int) -> int:
    """Percentages are rounded up, for both kinds of limit."""
    if isinstance(value, int):
        return value
    return math.ceil(whole * int(value.rstrip("%")) / 100)
