"""24 nodes of 8 A100s under Kueue: 60 GPUs free, queue team-a at 112 of 112; a gang of 3 x 8 waits in it.

The gang has no pods: its Job is suspended until its Workload is admitted. With the quota raised to 136 it is,
and three nodes can be freed for it by moving nine pods.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from apps.simulator.hardware import MODELS
from apps.simulator.scenes.builder import SceneBuilder
from apps.simulator.scenes.kueue_kinds import API, DEFINITIONS
from apps.simulator.scenes.owners import Owner, make_template, owner_object

Json = dict[str, Any]
_MODEL = "a100-sxm4-80gb"
_GPU = "nvidia.com/gpu"
_FLAVOR = "a100"
_QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
FULL, EASY, MIXED = 12, 4, 8
"""Nodes that one pod fills; with three pods that may move; with one that may and two of the queue's own."""


def build() -> list[Json]:
    scene = SceneBuilder(seed=24)
    names = [f"gpu-{number:02d}" for number in range(1, FULL + EASY + MIXED + 1)]
    for number, name in enumerate(names):
        scene.add_node(name, _MODEL, pool="train", rack=f"r{number // 6 + 1}", zone="east-1a")
    train = _queued_job(scene, "pretrain", gpus=8)
    sweep = _queued_job(scene, "sweep", gpus=1)
    web = _template("embed", gpus=1, restart="Always")
    embed = scene.add_owner(Owner("Deployment", "serving", "embed", web))
    for name in names[:FULL]:
        scene.put(train, name, tuple(range(8)))
    for name in names[FULL : FULL + EASY]:
        for index in range(3):
            scene.put(embed, name, (index,))
    for name in names[FULL + EASY :]:
        scene.put(embed, name, (0,))
        for index in (1, 2):
            scene.put(sweep, name, (index,))
    _add_queues(scene)
    for owner in (train, sweep):
        _add_admitted(scene, owner)
    scene.add_pod_group("ml", "llama-70b", 3, age_minutes=47)
    jobs = {f"job-{owner.name}": owner for owner in (train, sweep)}
    things = [_owned(_marked(thing), jobs) for thing in scene.build()]
    return [*deepcopy(DEFINITIONS), *things, _waiting_job(scene)]


def _template(name: str, *, gpus: int, restart: str, labels: dict[str, str] | None = None) -> Json:
    selector = {"nvidia.com/gpu.product": MODELS[_MODEL].product}
    return make_template(name, gpus=gpus, restart=restart, selector=selector, labels=labels, grace=10)


def _queued_job(scene: SceneBuilder, name: str, *, gpus: int) -> Owner:
    return scene.add_owner(Owner("Job", "ml", name, _template(name, gpus=gpus, restart="Never")))


def _marked(thing: Json) -> Json:
    """Every Job of the scene asks the queue."""
    if thing["kind"] == "Job":
        thing["metadata"]["labels"] = {**thing["metadata"].get("labels", {}), _QUEUE_LABEL: "train"}
    return thing


def _owned(thing: Json, jobs: dict[str, Owner]) -> Json:
    """Each Workload belongs to its Job."""
    if thing["kind"] == "Workload":
        owner = jobs[thing["metadata"]["name"]]
        reference = {"apiVersion": "batch/v1", "kind": "Job", "name": owner.name, "controller": True}
        thing["metadata"]["ownerReferences"] = [{**reference, "uid": owner.made["metadata"]["uid"]}]
    return thing


def _add_queues(scene: SceneBuilder) -> None:
    labels = {"nvidia.com/gpu.product": MODELS[_MODEL].product}
    scene.add_object(API, "ResourceFlavor", "", _FLAVOR, spec={"nodeLabels": labels})
    for name, quota in (("team-a", 112), ("team-b", 24)):
        share = {"name": _FLAVOR, "resources": [{"name": _GPU, "nominalQuota": quota}]}
        spec = {
            "resourceGroups": [{"coveredResources": [_GPU], "flavors": [share]}],
            "namespaceSelector": {},
            "queueingStrategy": "BestEffortFIFO",
            "stopPolicy": "None",
        }
        scene.add_object(API, "ClusterQueue", "", name, spec=spec)
    scene.add_object(API, "LocalQueue", "ml", "train", spec={"clusterQueue": "team-a"})
    scene.add_namespace("search")
    scene.add_object(API, "LocalQueue", "search", "index", spec={"clusterQueue": "team-b"})


def _add_admitted(scene: SceneBuilder, owner: Owner) -> None:
    pods = len(owner.pods)
    limits = owner.template["spec"]["containers"][0]["resources"]["limits"]
    gpus = int(limits[_GPU]) * pods
    since = scene.ago(days=owner.age_days)
    conditions = [
        {"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": since}
        for kind in ("QuotaReserved", "Admitted")
    ]
    assigned = {
        "name": "main",
        "flavors": {_GPU: _FLAVOR},
        "resourceUsage": {_GPU: str(gpus)},
        "count": pods,
    }
    scene.add_object(
        API,
        "Workload",
        owner.namespace,
        f"job-{owner.name}",
        spec=_workload_spec(owner.template, pods),
        status={
            "conditions": conditions,
            "admission": {"clusterQueue": "team-a", "podSetAssignments": [assigned]},
        },
    )


def _workload_spec(template: Json, pods: int) -> Json:
    return {
        "queueName": "train",
        "priority": 1000,
        "active": True,
        "podSets": [{"name": "main", "count": pods, "template": template}],
    }


def _waiting_job(scene: SceneBuilder) -> Json:
    """Suspended, as Kueue's webhook leaves it; its Workload is made by Kueue."""
    labels = {"scheduling.x-k8s.io/pod-group": "llama-70b"}
    template = _template("llama-70b", gpus=8, restart="Never", labels=labels)
    owner = scene.add_owner(Owner("Job", "ml", "llama-70b", template, age_days=47 / 1440))
    job = _marked(owner_object(owner))
    job["spec"] |= {"parallelism": 3, "completions": 3, "suspend": True}
    return {"apiVersion": "batch/v1", "kind": "Job", **job, "status": {}}
