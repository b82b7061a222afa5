"""Random small clusters for random executions, and what can go wrong with them: drawn from a seed.

Not in here: workers and their deaths, what people decide, what is asserted afterwards (random_executions).
"""

from __future__ import annotations

import json
import random
import threading
import time
import urllib.error
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from apps.simulator.scenes.builder import SceneBuilder
from apps.simulator.scenes.owners import Owner, make_template
from tests.executions.mig_clusters import full_nodes, idle_node

MODEL = "a100-sxm4-80gb"
NOTES = {"sim.gpu.internal/start-seconds": "1"}
Ask = Callable[..., Any]


def draw_cluster(draw: random.Random, kind: str, folder: Path) -> Path:
    """A dump to start a simulated cluster from. kind: moves, preemption or mig."""
    if kind == "mig":
        return Path(draw.choice([idle_node, full_nodes])(folder))
    objects = _crowded(draw) if kind == "preemption" else _fragmented(draw)
    path = folder / "cluster.json"
    path.write_text(json.dumps({"items": objects}))
    return path


def _owner(scene: SceneBuilder, kind: str, name: str, gpus: int, **facts: Any) -> Owner:
    restart = "Never" if kind == "Job" else "Always"
    known = {"restart": restart, "annotations": dict(NOTES), "grace": 5} | facts
    return scene.add_owner(Owner(kind, "work", name, make_template(name, gpus=gpus, **known)))


def _fragmented(draw: random.Random) -> list[dict[str, Any]]:
    """4 to 6 nodes of 8 GPUs, a few small pods on each, a gang (or a single pod) that finds no whole node."""
    scene = SceneBuilder(seed=draw.randrange(10_000))
    names = [f"gpu-{number}" for number in range(1, draw.randint(4, 6) + 1)]
    for name in names:
        scene.add_node(name, MODEL, pool="train", rack="r1", zone="east-1a")
    owners = []
    for number in range(draw.randint(3, 5)):
        kind = draw.choice(["Deployment", "Deployment", "StatefulSet", "Job"])
        notes = dict(NOTES)
        if draw.random() < 0.2:
            notes |= {"sim.gpu.internal/checkpoint-seconds": "1", "defrag.gpu.internal/checkpoint": "true"}
        one = _owner(scene, kind, f"app-{number}", draw.choice([1, 1, 2, 2, 4]), annotations=notes)
        owners.append(one)
        if kind != "Job" and draw.random() < 0.4:
            scene.add_budget(one, maxUnavailable=draw.choice([1, 1, 2]))
    for name in names:
        for _ in range(draw.randint(1, 2)):
            one = draw.choice(owners)
            gpus = int(one.template["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"])
            free = scene.free_devices(name, gpus)
            if len(free) == gpus:
                scene.put(one, name, free)
    waiting = _owner(scene, "Job", "big", 8, labels={"scheduling.x-k8s.io/pod-group": "big"})
    members = draw.choice([1, 2])
    scene.add_pod_group("work", "big", members, age_minutes=12)
    for _ in range(members):
        scene.put_pending(waiting, 12, "0/6 nodes are available: 6 Insufficient nvidia.com/gpu.")
    return scene.build()


def _crowded(draw: random.Random) -> list[dict[str, Any]]:
    """Three nodes where only pods of lower rank can make room for an urgent one."""
    scene = SceneBuilder(seed=draw.randrange(10_000))
    for name in ("gpu-1", "gpu-2", "gpu-3"):
        scene.add_node(name, MODEL, pool="train", rack="r1", zone="east-1a")
    batch = _owner(scene, "Deployment", "batch", 3, priority="low")
    scene.put(_owner(scene, "Deployment", "serve", 2, priority="prod"), "gpu-1", (0, 1))
    for devices in ((2, 3, 4), (5, 6, 7)):
        scene.put(batch, "gpu-1", devices)
    steady = _owner(scene, "StatefulSet", "steady", 6, priority="prod")
    for name in ("gpu-2", "gpu-3"):
        scene.put(steady, name, tuple(range(6)))
    urgent = _owner(scene, "StatefulSet", "urgent", 8, priority="prod")
    scene.put_pending(urgent, 5, "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.")
    return scene.build()


API_FAULTS: tuple[dict[str, Any], ...] = (
    {"action": "status", "code": 500, "reason": "InternalError"},
    {"action": "status", "code": 503, "reason": "ServiceUnavailable"},
    {"action": "status", "code": 429, "reason": "TooManyRequests", "retry_after": 1},
    {"action": "status", "code": 409, "reason": "Conflict"},
    {"action": "status", "code": 403, "reason": "Forbidden"},
    {"action": "status", "code": 401, "reason": "Unauthorized"},
    {"action": "status", "code": 504, "reason": "Timeout"},
    {"action": "reset"},
    {"action": "act-then-reset"},
    {"action": "delay", "seconds": 0.4},
)
PATHS = ("", "/eviction$", "/nodes/", "/pods", "/gpu-defrag/", "webhookconfigurations", "/status$")
MIG_FAULTS = (
    "mig-failed", "mig-stale-success", "mig-wrong-resources", "mig-manager-silent", "mig-wedged",
    "mig-label-changed-by-other", "mig-reboot", "mig-layout-lost",
)  # fmt: skip


class LayoutLoss(threading.Thread):
    """Watches a node whose layout is to be lost. at: when it last came to offer less of something, epoch
    seconds; 0.0 if it never did."""

    def __init__(self, ask: Ask, node: str) -> None:
        super().__init__(daemon=True)
        self._ask, self.node = ask, node
        self.at, self.is_over = 0.0, threading.Event()

    def run(self) -> None:
        before = self._offered()
        while not self.is_over.is_set():
            began, now = time.time(), self._offered()
            if any(now.get(resource, 0) < amount for resource, amount in before.items()):
                self.at = began
            before = now
            self.is_over.wait(0.05)

    def _offered(self) -> dict[str, int]:
        node = self._ask("GET", f"/api/v1/nodes/{self.node}")
        return {k: int(v) for k, v in node["status"]["allocatable"].items() if k.startswith("nvidia.com/")}


@dataclass
class Trouble:
    """Makes faults in one cluster. `done`: how many of each kind. `undo`: what heals the lasting ones."""

    ask: Ask
    draw: random.Random
    plan: Any
    kind: str
    done: Counter[str] = field(default_factory=Counter)
    undo: list[Callable[[], object]] = field(default_factory=list)
    cordoned: set[str] = field(default_factory=set)
    _losses: list[LayoutLoss] = field(default_factory=list)

    def lost_layouts(self) -> dict[str, float]:
        """node -> when the last fault took its layout, epoch seconds."""
        for loss in self._losses:
            loss.is_over.set()
            loss.join()
        return {loss.node: loss.at for loss in self._losses if loss.at}

    def strike(self) -> str:
        """One fault; its name, "" where the cluster refused it (an object that is gone, say)."""
        kinds: list[tuple[Callable[[], str], int]] = [
            (self._api, 6),
            (self._pod_gone, 2),
            (self._budget_closed, 2),
            (self._scaled, 1),
            (self._stranger, 2),
            (self._slipped_in, 1),
            (self._finalizer, 1),
            (self._opened, 1),
            (self._cordoned, 1),
            (self._own_object_gone, 2),
            (self._nomination_lost, 1),
            (self._machine, 1),
            (self._switch, 1),
        ]
        if self.kind == "mig":
            kinds.append((self._mig, 6))
        chosen = self.draw.choices([one for one, _ in kinds], [weight for _, weight in kinds])[0]
        try:
            name = chosen()
        except (urllib.error.HTTPError, KeyError, IndexError):
            return ""
        if name:
            self.done[name] += 1
        return name

    def heal(self) -> None:
        self.ask("DELETE", "/_sim/faults")
        for undo in self.undo:
            try:
                undo()
            except urllib.error.HTTPError:
                continue  # what was to be put right is gone
        self.undo.clear()

    def _api(self) -> str:
        fault = dict(self.draw.choice(API_FAULTS))
        path = self.draw.choice(PATHS)
        fault |= {"times": self.draw.randint(1, 4), "skip": self.draw.randint(0, 3)}
        fault["match"] = {"user_agent_regex": "gpu-defrag", "path_regex": path}
        self.ask("POST", "/_sim/faults", fault)
        return f"api {fault.get('code', fault['action'])}"

    def _pod_gone(self) -> str:
        self.ask("DELETE", _path_of(self.draw.choice(self._pods())))
        return "pod deleted by others"

    def _pods(self) -> list[str]:
        return [one.pod for one in (*self.plan.moves, *self.plan.preemptions)]

    def _budget_closed(self) -> str:
        path = "/apis/policy/v1/namespaces/work/poddisruptionbudgets"
        budget = self.draw.choice(self.ask("GET", path)["items"])
        name, spec = budget["metadata"]["name"], budget["spec"]
        self.ask("PATCH", f"{path}/{name}", {"spec": {"maxUnavailable": 0}})
        self.undo.append(lambda: self.ask("PATCH", f"{path}/{name}", {"spec": spec}))
        return "budget closed"

    def _scaled(self) -> str:
        path = "/apis/apps/v1/namespaces/work/deployments"
        owner = self.draw.choice(self.ask("GET", path)["items"])
        change = self.draw.choice([-1, 1])
        replicas = max(0, owner["spec"]["replicas"] + change)
        self.ask("PATCH", f"{path}/{owner['metadata']['name']}", {"spec": {"replicas": replicas}})
        return "owner scaled"

    def _stranger(self) -> str:
        limits = {"nvidia.com/gpu": str(self.draw.choice([1, 2]))}
        self._make_pod({"containers": [{"name": "main", "image": "x", "resources": {"limits": limits}}]})
        return "stranger"

    def _slipped_in(self) -> str:
        """Past the scheduler, where a cordon does not keep it off."""
        nodes = [*self.plan.freed_nodes, *(one.node for one in self.plan.reconfigurations)]
        spec = {"nodeName": self.draw.choice(nodes)}
        resource = "nvidia.com/gpu" if self.draw.random() < 0.7 else "cpu"
        container = {"name": "main", "image": "x", "resources": {"limits": {resource: "1"}}}
        self._make_pod({**spec, "containers": [container]})
        return "a pod slips in"

    def _make_pod(self, spec: dict[str, Any]) -> None:
        name = f"stranger-{self.draw.randrange(10**9)}"
        self.ask("POST", "/api/v1/namespaces/work/pods", {"metadata": {"name": name}, "spec": spec})
        self.undo.append(lambda: self.ask("DELETE", f"/api/v1/namespaces/work/pods/{name}"))

    def _finalizer(self) -> str:
        path = _path_of(self.draw.choice(self._pods()))
        self.ask("PATCH", path, {"metadata": {"finalizers": ["example.com/stuck"]}})
        self.undo.append(lambda: self.ask("PATCH", path, {"metadata": {"finalizers": None}}))
        return "stuck finalizer"

    def _nodes(self) -> list[str]:
        found = {name for move in self.plan.moves for name in (move.source, move.target)}
        return sorted(found | {one.node for one in self.plan.reconfigurations})

    def _opened(self) -> str:
        name = self.draw.choice(self._nodes())
        self.ask("PATCH", f"/api/v1/nodes/{name}", {"spec": {"unschedulable": None}})
        self.cordoned.discard(name)
        return "uncordoned by others"

    def _cordoned(self) -> str:
        name = self.draw.choice(self._nodes())
        self.ask("PATCH", f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}})
        self.cordoned.add(name)
        return "cordoned by others"

    def _own_object_gone(self) -> str:
        if self.draw.random() < 0.5:
            path = "/api/v1/namespaces/gpu-defrag/pods"
        else:
            path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
        name = self.draw.choice(self.ask("GET", path)["items"])["metadata"]["name"]
        self.ask("DELETE", f"{path}/{name}")
        return "hold or gate deleted by others"

    def _nomination_lost(self) -> str:
        path = "/api/v1/namespaces/gpu-defrag/pods"
        name = self.draw.choice(self.ask("GET", path)["items"])["metadata"]["name"]
        self.ask("PATCH", f"{path}/{name}/status", {"status": {"nominatedNodeName": None}})
        return "nomination lost"

    def _machine(self) -> str:
        name = self.draw.choice(["dead-kubelet", "sick-gpu", "gpu-lost"])
        self.ask("POST", "/_sim/faults", {"name": name, "node": self.draw.choice(self._nodes())})
        return name

    def _switch(self) -> str:
        """The kill switch that stands in the cluster; whoever heals it lifts it."""
        path = "/api/v1/namespaces/gpu-defrag/configmaps"
        body = {"metadata": {"name": "kill-switch"}, "data": {"stop": "true", "reason": "drawn"}}
        self.ask("POST", path, body)
        self.undo.append(lambda: self.ask("DELETE", f"{path}/kill-switch"))
        return "kill switch in the cluster"

    def _mig(self) -> str:
        name = self.draw.choice(MIG_FAULTS)
        node = self.draw.choice(self.plan.reconfigurations).node
        if name == "mig-layout-lost":
            self._losses.append(LayoutLoss(self.ask, node))
            self._losses[-1].start()
        self.ask("POST", "/_sim/faults", {"name": name, "node": node, "times": 1})
        return name


def _path_of(pod: str) -> str:
    return f"/api/v1/namespaces/{pod.replace('/', '/pods/')}"
