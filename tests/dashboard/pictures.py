"""Small clusters for the page tests, drawn as text: a row per node, a letter pair per workload.

"CA4 ES . x ma" = chat-api on four GPUs, embed-svc on one, one free, one unhealthy, one cut by MIG.
"""

from __future__ import annotations

from collections.abc import Sequence

from apps.planner.inventory import (
    Gang,
    Gpu,
    Holding,
    LinkClass,
    MigInstance,
    Node,
    Pod,
    Topology,
    Workload,
)
from apps.planner.snapshot import Snapshot

WORKLOADS = {
    "PM": ("pretrain-mm", "research", 1000),
    "CA": ("chat-api", "serving", 900),
    "SQ": ("sft-qwen", "research", 500),
    "ES": ("embed-svc", "serving", 900),
    "EN": ("eval-nightly", "research", 100),
    "NB": ("notebook", "dev", 100),
    "LS": ("lora-sweep", "research", 100),
    "AB": ("asr-batch", "media", 500),
    "RR": ("rl-rollout", "research", 1000),
    "VG": ("video-gen", "media", 500),
    "OC": ("ocr-svc", "serving", 900),
    "PG": ("pangu-ft", "ascend", 500),
}
STAYS = {"PM", "CA", "SQ", "RR", "PG"}
CUTS = {
    "ma": (("2g.20gb", 0, "OC"), ("1g.10gb", 2, "OC"), ("1g.10gb", 3, ""), ("3g.40gb", 4, "")),
    "mb": (("1g.10gb", 0, "OC"), ("1g.10gb", 1, "OC"), ("2g.20gb", 2, "OC"), ("3g.40gb", 4, "EN")),
    "mc": (("3g.40gb", 0, "EN"), ("2g.20gb", 4, "")),
}
FORTY = (
    (
        "A100-SXM4-80GB",
        "train-a",
        "NV12",
        "a100",
        "PM8|PM8|PM8|PM8|CA4 SQ4|CA4 ES . ES .|ES . . EN2 . . .|NB . LS . . NB . .|SQ4 . ES . EN"
        "|AB2 . . AB2 . .|CA4 SQ4|SQ4 . LS LS .|CA4 EN2 . x|SQ4 . ES ma mb|LS . . ES . . . ."
        "|EN2 ES . LS mc . .",
    ),
    (
        "H800-SXM5-80GB",
        "train-h",
        "NV8",
        "h800",
        "RR8|RR8|RR8|RR8|CA4 CA4|CA4 . EN2 .|SQ4 LS . . LS|LS . . ES . . . .|SQ4 . . LS ."
        "|ES EN2 . . . . .|PM8|AB2 . AB2 . EN .",
    ),
    (
        "L40S-48GB",
        "infer-l",
        "",
        "l40s",
        "VG VG VG .|VG2 . ES|VG . x NB|s2 s1 VG .|. ES . .|VG VG . VG|ES . NB .|. . . .",
    ),
    ("Ascend 910B", "npu", "HCCS", "npu", "PG4 PG4|PG4 . . . .|PG8|. . . . PG2 . ."),
)
NOW = 1_790_000_000.0


class Board:
    """Collects nodes and pods and makes one snapshot of them."""

    def __init__(self, cluster: str = "gpu-east-1", now: float = NOW) -> None:
        self.cluster, self.now = cluster, now
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        self.workloads: dict[str, Workload] = {}
        self.gangs: dict[str, Gang] = {}

    def workload(self, code: str) -> tuple[str, str, int]:
        name, namespace, priority = WORKLOADS.get(code, (code.lower(), "default", 0))
        uid = f"owner-{name}"
        self.workloads.setdefault(
            uid,
            Workload(uid=uid, kind="ReplicaSet", namespace=namespace, name=name, display=name, replicas=1),
        )
        return name, namespace, priority

    def pod(self, code: str, node: Node | None, gpus: int = 1, **more: object) -> Pod:
        name, namespace, priority = self.workload(code)
        number = sum(pod.name.rpartition("-")[0] == name for pod in self.pods.values())
        resource = node.gpu_resource if node else "nvidia.com/gpu"
        facts: dict[str, object] = {
            "uid": f"uid-{name}-{number}",
            "namespace": namespace,
            "name": f"{name}-{number}",
            "node_name": node.name if node else "",
            "phase": "Running" if node else "Pending",
            "ready": node is not None,
            "requests": {resource: gpus, "cpu": 4000 * max(gpus, 1), "memory": 2**34 * max(gpus, 1)}
            if gpus
            else {},
            "priority": priority,
            "workload": f"owner-{name}",
            "owner_kind": "ReplicaSet",
            "created_at": self.now - 3600,
            "started_at": self.now - 3500 if node else None,
            "protections": ("Its namespace is protected.",) if code in STAYS else (),
        }
        pod = Pod(**{**facts, **more})  # type: ignore[arg-type]
        self.pods[pod.uid] = pod
        return pod

    def node(
        self, name: str, row: str, *, model: str = "A100-SXM4-80GB", code: str = "NV12", **more: object
    ) -> Node:
        tokens = [
            (token[:2], int(token[2:] or 1)) if token[:2].isupper() else (token, 1) for token in row.split()
        ]
        size = sum(count for _, count in tokens)
        facts: dict[str, object] = {
            "name": name,
            "uid": f"node-{name}",
            "hostname": name,
            "model": model,
            "gpu_resource": "huawei.com/Ascend910" if "Ascend" in model else "nvidia.com/gpu",
            "labels": {"kubernetes.io/hostname": name, "nvidia.com/gpu.product": model},
        }
        resource = str(facts["gpu_resource"])
        host = {"cpu": 128_000, "memory": 2**40, "pods": 110, resource: size}
        node = Node(**{**facts, "capacity": host, "allocatable": host, **more})  # type: ignore[arg-type]
        gpus, holdings = self._seat(node, tokens)
        matrix = Topology(links=link_matrix(size, code), source="nvml", observed_at=self.now - 41)
        finished = {"gpus": tuple(gpus), "holdings": tuple(holdings), "topology": matrix, **more}
        node = Node(**{**facts, "capacity": host, "allocatable": host, **finished})  # type: ignore[arg-type]
        self.nodes[name] = node
        return node

    def _seat(self, node: Node, tokens: Sequence[tuple[str, int]]) -> tuple[list[Gpu], list[Holding]]:
        size = sum(count for _, count in tokens)
        gpus: list[Gpu] = []
        holdings: list[Holding] = []
        for token, count in tokens:
            at = len(gpus)
            cuts = CUTS.get(token, ())
            for index in range(at, at + count):
                instances = tuple(
                    MigInstance(p, start, f"MIG-{node.name}-{index}-{start}") for p, start, _ in cuts
                )
                numa = int(index >= size / 2) if size > 4 else 0
                uuid = f"GPU-{node.name}-{index}"
                gpus.append(Gpu(index, uuid, 81920, numa, healthy=token != "x", instances=instances))
            devices = [gpu.uuid for gpu in gpus[at:]]
            if token.isupper():
                pod = self.pod(token, node, count)
                holdings += [Holding(pod.uid, device) for device in devices]
            for profile, start, code in cuts:
                if code:
                    wanted = {f"nvidia.com/mig-{profile}": 1}
                    holdings.append(
                        Holding(self.pod(code, node, 0, requests=wanted).uid, f"MIG-{node.name}-{at}-{start}")
                    )
            for code in ("ES", "OC")[: int(token[1])] if token[0] == "s" else ():
                holdings.append(Holding(self.pod(code, node, 1, gpu_milli=500).uid, devices[0], 500))
        return gpus, holdings

    def waits(
        self, code: str, pods: int, gpus: int, link: LinkClass | None = None, since: float = 2820
    ) -> None:
        name, namespace, _ = self.workload(code)
        gang = f"{namespace}/{name}" if pods > 1 else ""
        if gang:
            self.gangs[gang] = Gang(gang, pods)
        for _ in range(pods):
            self.pod(
                code,
                None,
                gpus,
                gang=gang,
                link=link,
                created_at=self.now - since,
                workload="",
                owner_kind="",
                unschedulable_message=f"0/{len(self.nodes)} nodes are available",
                priority=1500,
            )

    def snapshot(self, **more: object) -> Snapshot:
        facts: dict[str, object] = {
            "cluster": self.cluster,
            "taken_at": self.now,
            "nodes": self.nodes,
            "pods": self.pods,
            "workloads": self.workloads,
            "gangs": self.gangs,
        }
        return Snapshot(**{**facts, **more})  # type: ignore[arg-type]


def link_matrix(size: int, code: str) -> tuple[tuple[str, ...], ...]:
    """code: of every pair; "pairs" for bridged pairs; "" for PCIe without NVLink."""

    def link(a: int, b: int) -> str:
        if a == b:
            return "X"
        if code not in ("", "pairs"):
            return code
        if a // 2 == b // 2:
            return "NV12" if code else "PXB"
        if a // (size / 2) // 1 == b // (size / 2) // 1:
            return "PXB" if a < size / 2 else "NODE"
        return "SYS"

    return tuple(tuple(link(a, b) for b in range(size)) for a in range(size))


def forty_nodes(now: float = NOW) -> Board:
    """The cluster of the design drawings: 40 nodes, 288 GPUs, four models; a gang of 3 x 8 GPUs waits."""
    board = Board(now=now)
    for model, pool, code, prefix, rows in FORTY:
        for number, row in enumerate(rows.split("|"), 1):
            name = f"{prefix}-{number:02d}"
            more: dict[str, object] = {"pool": pool, "rack": f"r{prefix[0]}{(number - 1) // 4 + 1}"}
            if name == "a100-15":
                more["unschedulable"] = True
            if name == "h800-09":
                more["stale_since"] = now - 360
            if name == "a100-16":
                more["warnings"] = (
                    "The label says NVIDIA-A100-SXM4-80GB; NVML sees NVIDIA A100 80GB PCIe in bridged pairs.",
                )
                code_here = "pairs"
            else:
                code_here = code
            board.node(name, row, model=model, code=code_here, **more)
    board.waits("llama-70b", 3, 8, LinkClass.NVLINK)
    return board
