"""Mixed estate: 26 nodes of all kinds of accelerators and sharing side by side, each with pods of its kind.

NVIDIA whole, in MIG, shared in every way there is, by claims; AMD, Intel, Ascend, Hygon, MetaX, Cambricon
and a vendor nobody knows; nodes that are silent, sick or without their plugin; pods that end, wait, failed.
"""

from __future__ import annotations

from typing import Any

from apps.simulator.controllers.gpu_operator.labels import OPERANDS
from apps.simulator.controllers.pace import to_text
from apps.simulator.hardware import HARDWARE_ANNOTATION
from apps.simulator.scenes import mixed_claims as claims
from apps.simulator.scenes.builder import SceneBuilder
from apps.simulator.scenes.gpu_operator import add_mig_node, add_operator, config_text
from apps.simulator.scenes.mixed_nodes import MACHINES, Machine
from apps.simulator.scenes.mixed_pods import GROUPS, Amounts, Group
from apps.simulator.scenes.owners import Owner, make_template

Json = dict[str, Any]

A100 = "a100-sxm4-80gb"
_HOST = {"cpu": "96", "memory": "768Gi", "pods": "110", "ephemeral-storage": "2Ti"}
# name: (model, MIG configuration, sharing, strategy)
_OPERATED = {
    "mig-mixed": (A100, "all-balanced", "", "mixed"),
    "mig-single": (A100, "all-1g.10gb", "", "single"),
    "sliced-l40s": ("l40s", "", "time-slicing:12", "none"),
    "mps-l40s": ("l40s", "", "mps:10", "none"),
}
_RUNNING = (
    # owner, kind, node, resource, GPUs each, pods
    ("pretrain", "Job", "nvlink-a100", "nvidia.com/gpu", 4, 1),
    ("finetune", "Job", "nvlink-h100", "nvidia.com/gpu", 2, 2),
    ("embed", "Deployment", "mig-mixed", "nvidia.com/mig-1g.10gb", 1, 5),
    ("rank", "Deployment", "mig-mixed", "nvidia.com/mig-3g.40gb", 1, 2),
    ("legacy", "Deployment", "mig-single", "nvidia.com/gpu", 1, 9),
    ("thumbs", "Deployment", "sliced-l40s", "nvidia.com/gpu", 1, 20),
    ("speech", "Deployment", "mps-l40s", "nvidia.com/gpu", 1, 7),
    ("lost-contact", "Job", "silent-a100", "nvidia.com/gpu", 8, 1),
)


def build() -> list[Json]:
    scene = SceneBuilder(seed=43)
    _add_simulated_nodes(scene)
    for number, machine in enumerate(MACHINES):
        _add_machine(scene, machine, number)
    for name, kind, node, resource, gpus, count in _RUNNING:
        # Who sits on the silent node stays there: its replacement would take shares of some other node.
        owner = _owner(scene, name, kind, {resource: gpus}, stays=node == "silent-a100")
        for _ in range(count):
            scene.put_anywhere(owner, node)
    for group in GROUPS:
        _add_group(scene, group)
    _add_claims(scene)
    _add_odd_pods(scene)
    return scene.build()


def _add_simulated_nodes(scene: SceneBuilder) -> None:
    """Those whose devices the simulated kubelet itself hands out."""
    place: dict[str, Any] = {"rack": "x1", "zone": "east-1a"}
    alone = {"pool": "train", "more_labels": {OPERANDS: "false"}, **place}
    scene.add_node("nvlink-a100", A100, **alone)
    scene.add_node("nvlink-h100", "h100", unhealthy=(5,), **alone)
    scene.add_node("silent-a100", A100, **alone)
    scene.silence("silent-a100", minutes=95)
    scene.add_node("cpu-only", pool="general", **place)
    text = config_text()
    for name, (model, config, sharing, strategy) in _OPERATED.items():
        add_mig_node(
            scene, name, model, config, text,
            place={"pool": "mig" if config else "shares", **place}, strategy=strategy, sharing=sharing,
            has_agent=not sharing,
        )  # fmt: skip
    add_operator(scene, text)


def _add_machine(scene: SceneBuilder, machine: Machine, number: int) -> None:
    amounts = {name: str(amount) for name, amount in machine.resources.items()}
    offered = {name: str(int(amounts[name]) - fewer) for name, fewer in machine.sick.items()}
    labels = {
        "defrag.gpu.internal/pool": machine.pool,
        "topology.kubernetes.io/zone": "east-1b",
        "topology.kubernetes.io/rack": f"x{2 + number // 8}",
        **machine.labels,
    }
    notes = {HARDWARE_ANNOTATION: "none", **machine.notes(scene.now)}
    scene.add_machine(
        machine.name, None, {**_HOST, **amounts}, {**_HOST, **amounts, **offered}, labels, notes
    )


def _owner(
    scene: SceneBuilder,
    name: str,
    kind: str,
    limits: Amounts,
    namespace: str = "mixed",
    *,
    stays: bool = False,
) -> Owner:
    return scene.add_owner(Owner(kind, namespace, name, _template(name, kind, limits, stays=stays)))


def _template(name: str, kind: str, limits: Amounts, *, stays: bool = False) -> Json:
    restart = "Never" if kind == "Job" else "Always"
    template = make_template(name, cpu=1, memory_gib=4, restart=restart, stays=stays)
    _ask(template["spec"]["containers"][0], limits)
    return template


def _ask(container: Json, limits: Amounts) -> None:
    for part in ("limits", "requests"):
        container["resources"].setdefault(part, {}).update(
            {name: str(amount) for name, amount in limits.items()}
        )


def _add_group(scene: SceneBuilder, group: Group) -> None:
    template = _template(group.name, group.kind, group.limits)
    meta, spec = template["metadata"], template["spec"]
    meta["labels"] |= group.labels
    if group.notes:
        meta["annotations"] = dict(group.notes)
    if group.scheduler:
        spec["schedulerName"] = group.scheduler
    for number, (limits, is_sidecar) in enumerate(
        [*((one, False) for one in group.inits), *((one, True) for one in group.sidecars)]
    ):
        container: Json = {"name": f"first-{number}", "image": "registry.example/helper:1", "resources": {}}
        _ask(container, limits)
        spec.setdefault("initContainers", []).append(
            container | ({"restartPolicy": "Always"} if is_sidecar else {})
        )
    owner = scene.add_owner(Owner(group.kind, group.namespace, group.name, template))
    for given in group.given:
        pod = (
            scene.put_anywhere(owner, group.node)
            if scene.hands_out(group.node)
            else scene.put(owner, group.node)
        )
        if given:
            pod["metadata"].setdefault("annotations", {}).update(given)


def _add_claims(scene: SceneBuilder) -> None:
    """Two GPUs given by claims of one pod each, a third one shared by the two pods of one claim."""
    scene.add_object("resource.k8s.io/v1", "DeviceClass", "", claims.DRIVER, **claims.device_class())
    for one in claims.slices():
        scene.add_object("resource.k8s.io/v1", "ResourceSlice", "", one["name"], spec=one["spec"])
    for name, device, users in (("claimed", 0, 1), ("claimed-too", 2, 1), ("shared-claim", 3, 2)):
        template = _template(name, "Deployment", {})
        template["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": name}]
        template["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
        owner = scene.add_owner(Owner("Deployment", "claims", name, template))
        pods = [scene.put(owner, claims.NODE) for _ in range(users)]
        status = claims.claim_status(device, pods)
        scene.add_object(
            "resource.k8s.io/v1", "ResourceClaim", "claims", name, spec=claims.claim_spec(), status=status
        )
    kind = "devices.scheduling.koordinator.sh"
    scene.add_object("apiextensions.k8s.io/v1", "CustomResourceDefinition", "", kind, **claims.device_kind())
    group = "scheduling.koordinator.sh/v1alpha1"
    scene.add_object(group, "Device", "", claims.KOORDINATOR_NODE, spec=claims.device_spec())


def _add_odd_pods(scene: SceneBuilder) -> None:
    """Pods that nobody owns: one that ends and still holds its GPU, one that failed and holds none; and
    one that waits for more than any node for training has free."""
    for name, node, resource in (
        ("leaving", "pcie-text", "nvidia.com/gpu"),
        ("evicted", "amd-mi300x", "amd.com/gpu"),
    ):
        owner = _owner(scene, name, "Deployment", {resource: 1}, "oddities")
        pod = scene.put(owner, node)
        owner.pods.clear()
        pod["metadata"].pop("ownerReferences")
        if name == "leaving":
            pod["metadata"] |= {"deletionTimestamp": to_text(scene.now), "deletionGracePeriodSeconds": 86400}
            pod["metadata"].setdefault("annotations", {})["sim.gpu.internal/stop-seconds"] = "86400"
        else:
            pod["status"] = {
                "phase": "Failed", "reason": "Evicted", "startTime": pod["status"]["startTime"],
                "message": "The node was low on resource: ephemeral-storage.",
            }  # fmt: skip
    waiting = _owner(scene, "big-train", "Job", {"nvidia.com/gpu": 8})
    waiting.template["metadata"].setdefault("annotations", {})["defrag.gpu.internal/link"] = "nvlink"
    # Elsewhere eight turns or shares that go by the name of GPUs would do for the scheduler.
    waiting.template["spec"]["nodeSelector"] = {"defrag.gpu.internal/pool": "train"}
    scene.put_pending(
        waiting,
        25,
        "0/26 nodes are available: 1 node(s) had untolerated taint(s), 2 Insufficient nvidia.com/gpu, "
        "23 node(s) didn't match Pod's node affinity/selector.",
    )
