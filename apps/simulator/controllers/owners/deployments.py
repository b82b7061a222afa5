"""The Deployment controller: one ReplicaSet per template, rolled from the old to the new."""

from __future__ import annotations

import math
from copy import deepcopy
from typing import Any

from apps.simulator.client import DEPLOYMENTS, REPLICA_SETS, ApiError
from apps.simulator.controllers.controller import Context, Controller
from apps.simulator.controllers.informers import Change
from apps.simulator.controllers.objects import (
    annotations_of,
    controller_of,
    is_terminating,
    key_of,
    make_condition,
    reference_to,
    uid_of,
    with_condition,
)
from apps.simulator.controllers.owners.pod_owner import hash_template

Json = dict[str, Any]

_HASH = "pod-template-hash"
_REVISION = "deployment.kubernetes.io/revision"


class Deployments(Controller):
    name = "deployment"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.deployments = context.informers.store(DEPLOYMENTS)
        self.sets = context.informers.store(REPLICA_SETS)

    async def run(self) -> None:
        self.deployments.subscribe(lambda change: self.enqueue(key_of(change.object)))
        self.sets.subscribe(self._on_set)
        await super().run()

    def _on_set(self, change: Change) -> None:
        owner = controller_of(change.object)
        if owner and owner["kind"] == "Deployment":
            self.enqueue(f"{change.object['metadata']['namespace']}/{owner['name']}")

    async def sync(self, key: str) -> None:
        deployment = self.deployments.get(key)
        if deployment is None or is_terminating(deployment):
            return
        sets = self.sets.select("owner", uid_of(deployment))
        current = next((each for each in sets if _same_template(deployment, each)), None)
        old = [each for each in sets if each is not current]
        if current is None:
            current = await self._create_set(deployment, sets)
        if current is not None and not deployment["spec"].get("paused"):
            await self._roll(deployment, current, old)
        await self._count(deployment, current, sets)

    async def _create_set(self, deployment: Json, sets: list[Json]) -> Json | None:
        spec, meta = deployment["spec"], deployment["metadata"]
        mark = hash_template(spec["template"], (deployment.get("status") or {}).get("collisionCount", 0))
        template = deepcopy(spec["template"])
        template.setdefault("metadata", {}).setdefault("labels", {})[_HASH] = mark
        selector = deepcopy(spec["selector"])
        selector.setdefault("matchLabels", {})[_HASH] = mark
        revision = max((int(annotations_of(each).get(_REVISION, 0)) for each in sets), default=0) + 1
        body = {
            "metadata": {
                "name": f"{meta['name']}-{mark}",
                "namespace": meta["namespace"],
                "labels": template["metadata"]["labels"],
                "annotations": {_REVISION: str(revision)},
                "ownerReferences": [reference_to(deployment, DEPLOYMENTS)],
            },
            "spec": {
                "replicas": 0 if sets else spec.get("replicas", 1),
                "selector": selector,
                "template": template,
                "minReadySeconds": spec.get("minReadySeconds", 0),
            },
        }
        try:
            return await self.client.create(REPLICA_SETS, meta["namespace"], body)
        except ApiError as error:
            if error.status != 409:
                raise
            return None

    async def _roll(self, deployment: Json, current: Json, old: list[Json]) -> None:
        wanted = deployment["spec"].get("replicas", 1)
        surge, missing = _margins(deployment, wanted)
        olds = [each for each in old if each["spec"].get("replicas", 1)]
        if not olds:
            await self._set_replicas(current, wanted)
            return
        recreate = (deployment["spec"].get("strategy") or {}).get("type") == "Recreate"
        if recreate:
            for each in olds:
                await self._set_replicas(each, 0)
            return
        total = sum(each["spec"].get("replicas", 1) for each in [current, *olds])
        room = max(0, wanted + surge - total)
        await self._set_replicas(current, min(wanted, current["spec"].get("replicas", 0) + room))
        available = sum((each.get("status") or {}).get("availableReplicas", 0) for each in [current, *olds])
        spare = available - (wanted - missing)
        for each in olds:
            have = each["spec"].get("replicas", 1)
            unavailable = have - (each.get("status") or {}).get("availableReplicas", 0)
            drop = min(have, max(0, spare) + unavailable)
            if drop > 0:
                await self._set_replicas(each, have - drop)
                spare -= drop - unavailable

    async def _set_replicas(self, each: Json, replicas: int) -> None:
        if each["spec"].get("replicas", 1) != replicas:
            meta = each["metadata"]
            await self.client.patch(
                REPLICA_SETS, meta["namespace"], meta["name"], {"spec": {"replicas": replicas}}
            )

    async def _count(self, deployment: Json, current: Json | None, sets: list[Json]) -> None:
        wanted = deployment["spec"].get("replicas", 1)
        counts = {
            name: sum((each.get("status") or {}).get(name) or 0 for each in sets)
            for name in ("replicas", "readyReplicas", "availableReplicas")
        }
        _, missing = _margins(deployment, wanted)
        enough = counts["availableReplicas"] >= wanted - missing
        updated = ((current or {}).get("status") or {}).get("replicas") or 0
        known = (deployment.get("status") or {}).get("conditions") or []
        available = make_condition(
            "Available",
            "True" if enough else "False",
            "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
            f"Deployment {'has' if enough else 'does not have'} minimum availability.",
        )
        done = updated == wanted == counts["availableReplicas"] == counts["replicas"]
        reason = "NewReplicaSetAvailable" if done else "ReplicaSetUpdated"
        progressing = make_condition("Progressing", "True", reason, "ReplicaSet is progressing.")
        status = {
            **counts,
            "updatedReplicas": updated,
            "unavailableReplicas": max(0, wanted - counts["availableReplicas"]) or None,
            "observedGeneration": deployment["metadata"].get("generation", 1),
            "conditions": with_condition(with_condition(known, available), progressing),
        }
        old = deployment.get("status") or {}
        if any(old.get(name) != value for name, value in status.items()):
            meta = deployment["metadata"]
            body = {"metadata": {"uid": meta["uid"]}, "status": status}
            await self.client.patch(DEPLOYMENTS, meta["namespace"], meta["name"], body, subresource="status")


def _same_template(deployment: Json, each: Json) -> bool:
    theirs = deepcopy(each["spec"]["template"])
    (theirs.get("metadata", {}).get("labels") or {}).pop(_HASH, None)
    ours = deployment["spec"]["template"]
    return _without_times(theirs) == _without_times(ours)


def _without_times(template: Json) -> Json:
    meta = {name: value for name, value in (template.get("metadata") or {}).items() if value}
    return {"metadata": {**meta, "creationTimestamp": None}, "spec": template["spec"]}


def _margins(deployment: Json, wanted: int) -> tuple[int, int]:
    """(how many more, how many fewer) pods a rolling update may have."""
    rolling = (deployment["spec"].get("strategy") or {}).get("rollingUpdate") or {}
    surge = _share(rolling.get("maxSurge", "25%"), wanted, up=True)
    missing = _share(rolling.get("maxUnavailable", "25%"), wanted, up=False)
    return surge, missing if surge or missing else 1


def _share(value: int | str, whole: int, *, up: bool) -> int:
    if isinstance(value, int):
        return value
    exact = whole * int(value.rstrip("%")) / 100
    return math.ceil(exact) if up else math.floor(exact)
