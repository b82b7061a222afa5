"""40 mixed nodes, 25 A100s free but no whole node; a gang of 3 x 8 waits; 7 moves unlock it.

The rows say who sits where, GPU by GPU: a code and its number of GPUs, "." free, "x" unhealthy.
"""

from __future__ import annotations

from typing import Any

from apps.simulator.hardware import MODELS
from apps.simulator.scenes.builder import SceneBuilder
from apps.simulator.scenes.owners import Owner, make_template

Json = dict[str, Any]

# (pool, name prefix, model, GPUs per node, rows)
POOLS = (
    (
        "train-a",
        "a100",
        "a100-sxm4-80gb",
        8,
        "PM8|PM8|PM8|PM8|CA4 SQ4|CA4 ES . ES .|ES . . EN2 . . .|LS . ES . . LS . .|SQ4 . ES . EN|"
        "AB2 . . AB2 . .|CA4 SQ4|SQ4 . NB NB .|CA4 EN2 . x|SQ4 . ES NB NB|LS . . ES . . . .|"
        "EN2 ES . LS NB . .",
    ),
    (
        "train-h",
        "h800",
        "h800",
        8,
        "RR8|RR8|RR8|RR8|CA4 CA4|CA4 . EN2 .|SQ4 LS . . LS|LS . . ES . . . .|SQ4 . . LS .|"
        "ES EN2 . . . . .|PV8|AB2 . AB2 . EN .",
    ),
    (
        "infer-l",
        "l40s",
        "l40s",
        4,
        "VG VG VG .|VG2 . ES|VG . . NB|OC OC VG .|. ES . .|VG VG . VG|ES . NB .|. . . .",
    ),
    ("npu", "npu", "ascend910b", 8, "PG4 PG4|PG4 . . . .|PG8|. . . . PG2 . ."),
)
CORDONED = "a100-15"
SILENT = "h800-09"
UNHEALTHY = {"a100-13": (7,)}

_PROTECT = {"defrag.gpu.internal/protect": "true"}
_KEEP = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
_SAVES = {"sim.gpu.internal/checkpoint-seconds": "3"}
# code: (kind, namespace, name, priority, annotations of the pods, grace)
WORKLOADS: dict[str, tuple[str, str, str, str, dict[str, str], int]] = {
    "PM": ("Job", "research", "pretrain-mm", "high", {}, 120),
    "PV": ("Job", "research", "pretrain-vl", "high", _KEEP, 120),
    "RR": ("Job", "research", "rl-rollout", "high", {}, 120),
    "CA": ("Deployment", "serving", "chat-api", "prod", _PROTECT, 60),
    "SQ": ("StatefulSet", "research", "sft-qwen", "normal", _KEEP, 120),
    "ES": ("Deployment", "serving", "embed-svc", "prod", {}, 30),
    "OC": ("Deployment", "serving", "ocr-svc", "prod", {}, 30),
    "EN": ("Job", "research", "eval-nightly", "low", {}, 30),
    "LS": ("StatefulSet", "research", "lora-sweep", "low", _SAVES, 30),
    "AB": ("Job", "media", "asr-batch", "normal", _SAVES, 30),
    "NB": ("StatefulSet", "dev", "notebook", "low", _PROTECT, 30),
    "VG": ("Deployment", "media", "video-gen", "normal", {}, 30),
    "PG": ("StatefulSet", "ascend", "pangu-ft", "normal", _KEEP, 120),
}
_GANGS = {"PM": 4, "RR": 4}
_BUDGETS: dict[str, dict[str, int | str]] = {
    "CA": {"minAvailable": 3},
    "ES": {"maxUnavailable": 1},
    "OC": {"maxUnavailable": 1},
}
_PEOPLE = ("ana", "boris", "chen", "dina", "emil", "fei", "gita", "hugo")


def build() -> list[Json]:
    scene = SceneBuilder(seed=41)
    _add_nodes(scene)
    _add_gpu_pods(scene)
    _add_cpu_pods(scene)
    _add_waiting_gang(scene)
    return scene.build()


def _add_nodes(scene: SceneBuilder) -> None:
    for place, (pool, prefix, model, count, rows) in enumerate(POOLS):
        for number in range(len(rows.split("|"))):
            name = f"{prefix}-{number + 1:02d}"
            scene.add_node(
                name,
                model,
                count,
                pool=pool,
                rack=f"r{place + 1}{number // 4 + 1}",
                zone=f"east-1{'ab'[number // 8 % 2]}",
                cpu=128 if count == 8 else 64,
                memory_gib=1024 if count == 8 else 512,
                unhealthy=UNHEALTHY.get(name, ()),
            )
    scene.cordon(CORDONED)
    scene.silence(SILENT, minutes=6)


def _add_gpu_pods(scene: SceneBuilder) -> None:
    owners: dict[tuple[str, ...], Owner] = {}
    for pool, prefix, model, _, rows in POOLS:
        for number, row in enumerate(rows.split("|")):
            node, index = f"{prefix}-{number + 1:02d}", 0
            for token in row.split():
                if token in (".", "x"):
                    index += 1
                    continue
                code, size = token[:2], int(token[2:] or 1)
                owner = _owner_for(scene, owners, code, size, model, node if code == "NB" else pool)
                scene.put(owner, node, tuple(range(index, index + size)))
                index += size
    for key, owner in owners.items():
        if key[0] in _BUDGETS and key[2] == "a100-sxm4-80gb":
            scene.add_budget(owner, **_BUDGETS[key[0]])
        elif key[0] in _BUDGETS:
            scene.add_budget(owner, maxUnavailable=1)
    for code, members in _GANGS.items():
        scene.add_pod_group(WORKLOADS[code][1], WORKLOADS[code][2], members)


def _owner_for(
    scene: SceneBuilder, owners: dict[tuple[str, ...], Owner], code: str, size: int, model: str, place: str
) -> Owner:
    """One owner per workload, model and size; every notebook is a StatefulSet of its own."""
    count = sum(1 for known in owners if known[0] == "NB")
    key = (code, str(size), model, str(count) if code == "NB" else place)
    if key in owners:
        return owners[key]
    kind, namespace, name, priority, annotations, grace = WORKLOADS[code]
    name = _name_for(owners, code, size, model, name)
    gpu = MODELS[model]
    selector = (
        {"nvidia.com/gpu.product": gpu.product} if gpu.is_nvidia else {"accelerator": "huawei-Ascend910"}
    )
    service = "online" if kind == "Deployment" else "offline"
    labels = {
        "defrag.gpu.internal/service": service,
        "defrag.gpu.internal/environment": "prod" if priority in ("prod", "high") else "dev",
    }
    if code in _GANGS:
        labels["scheduling.x-k8s.io/pod-group"] = name
    template = make_template(
        name,
        gpus=size,
        resource=gpu.resource,
        priority=priority,
        restart="Never" if kind == "Job" else "Always",
        selector=selector,
        labels=labels,
        annotations=annotations,
        grace=grace,
        stays=kind == "StatefulSet" and model == "h800",
    )
    protects = annotations if annotations == _PROTECT else {}
    owner = Owner(kind, namespace, name, template, annotations=dict(protects))
    owners[key] = scene.add_owner(owner)
    return owner


def _name_for(owners: dict[tuple[str, ...], Owner], code: str, size: int, model: str, name: str) -> str:
    """The plain name for the first; the model or the size is added where a name is taken."""
    known = {key: owner for key, owner in owners.items() if key[0] == code}
    if code == "NB":
        return f"{name}-{_PEOPLE[len(known)]}"
    first_model = next((key[2] for key in known), model)
    name = name if model == first_model else f"{name}-{model.partition('-')[0]}"
    return f"{name}-{size}g" if name in {owner.name for owner in known.values()} else name


def _add_cpu_pods(scene: SceneBuilder) -> None:
    everywhere = make_template("node-exporter", cpu=1, memory_gib=1, priority="normal")
    scene.put_daemon(scene.add_owner(Owner("DaemonSet", "monitoring", "node-exporter", everywhere)))
    exporter = make_template(
        "dcgm-exporter", cpu=1, memory_gib=2, priority="normal", selector={"nvidia.com/gpu.present": "true"}
    )
    scene.put_daemon(scene.add_owner(Owner("DaemonSet", "gpu-operator", "dcgm-exporter", exporter)))
    prep = make_template("data-prep", cpu=4, memory_gib=16, priority="low")
    owner = scene.add_owner(Owner("Deployment", "research", "data-prep", prep))
    for node in ("a100-05", "a100-07", "a100-09", "a100-10", "h800-06", "h800-08", "l40s-05", "l40s-08"):
        scene.put(owner, node)
    web = make_template("gateway", cpu=2, memory_gib=4, priority="prod")
    owner = scene.add_owner(Owner("Deployment", "serving", "gateway", web))
    for node in ("l40s-03", "l40s-07", "h800-12"):
        scene.put(owner, node)
    scene.add_budget(owner, maxUnavailable=1)


def _add_waiting_gang(scene: SceneBuilder) -> None:
    product = MODELS["a100-sxm4-80gb"].product
    template = make_template(
        "llama-70b",
        gpus=8,
        cpu=48,
        memory_gib=448,
        priority="training",
        restart="Never",
        selector={"nvidia.com/gpu.product": product},
        labels={
            "scheduling.x-k8s.io/pod-group": "llama-70b",
            "defrag.gpu.internal/service": "offline",
            "defrag.gpu.internal/environment": "prod",
        },
        annotations={"defrag.gpu.internal/link": "nvlink"},
        grace=120,
    )
    owner = scene.add_owner(Owner("Job", "ml", "llama-70b", template, age_days=47 / 1440))
    scene.add_pod_group("ml", "llama-70b", 3, age_minutes=47)
    message = (
        "0/40 nodes are available: 1 node(s) had untolerated taint {node.kubernetes.io/unreachable: }, "
        "1 node(s) were unschedulable, 15 Insufficient nvidia.com/gpu, "
        "23 node(s) didn't match Pod's node affinity/selector. "
        "preemption: not eligible due to preemptionPolicy=Never."
    )
    for _ in range(3):
        scene.put_pending(owner, 47, message)
