"""A small cluster in which MIG is used in every way that a page must tell apart.

mig-01 told in full; mig-02 holders not told; mig-03 only counts known; mig-04 a change hangs; mig-05 a
change failed; mig-06 whole GPUs; mig-07 cut unevenly under the single strategy; mig-08 says success, but
labels and kubelet disagree; ts-01 and ts-02 share their GPUs in time, told and not told.
"""

from __future__ import annotations

from dataclasses import replace

from apps.planner.inventory import Gpu, Holding, Node
from tests.dashboard.pictures import NOW, Board

A100 = "A100-SXM4-80GB"
PAUSED = "paused-for-mig-change"
COUNTS = {
    "ma": {"2g.20gb": 1, "1g.10gb": 2, "3g.40gb": 1},
    "mb": {"2g.20gb": 1, "1g.10gb": 2, "3g.40gb": 1},
    "mc": {"3g.40gb": 1, "2g.20gb": 1},
}


def mig_labels(**labels: str) -> dict[str, str]:
    """mig_labels(config="x", state="pending"): the labels that mig-manager and its kin write."""
    names = {"config": "nvidia.com/mig.config", "state": "nvidia.com/mig.config.state"}
    made = {names.get(key, f"nvidia.com/gpu.deploy.{key}"): value for key, value in labels.items()}
    return {"nvidia.com/gpu.product": A100, "nvidia.com/mig.strategy": "mixed", **made}


def offers(row: str, gpus: int) -> dict[str, int]:
    """What the kubelet offers of a node drawn as that row."""
    found: dict[str, int] = {}
    for token in row.split():
        for profile, number in COUNTS.get(token, {}).items():
            name = f"nvidia.com/mig-{profile}"
            found[name] = found.get(name, 0) + number
    cut = sum(token in COUNTS for token in row.split())
    return {"cpu": 128_000, "memory": 2**40, "pods": 110, "nvidia.com/gpu": gpus - cut, **found}


def mig_node(board: Board, name: str, row: str, **facts: object) -> Node:
    offered = offers(row, len(row.split()))
    made = {"mig_strategy": "mixed", "allocatable": offered, "labels": mig_labels(), "pool": "mig"}
    node = board.node(name, row, model=A100, **{**made, **facts})
    board.nodes[name] = node
    return node


def mig_board(now: float = NOW) -> Board:
    board = Board(now=now)
    mig_node(board, "mig-01", "ma mb mc .")
    mig_node(board, "mig-02", "ma mc", holdings=None)
    bare = mig_node(board, "mig-03", "mb mb", holdings=None)
    board.nodes["mig-03"] = replace(bare, gpus=tuple(Gpu(at, memory_mib=81920) for at in range(2)))
    held = mig_labels(config="all-3g.40gb", state="pending", **{"device-plugin": PAUSED, "dcgm": PAUSED})
    mig_node(board, "mig-04", ". .", labels=held)
    mig_node(board, "mig-05", "mc mc", labels=mig_labels(config="all-9g", state="failed"))
    mig_node(board, "mig-06", ". . . .")
    invalid = mig_labels(config="mixed-up", state="success")
    invalid["nvidia.com/gpu.product"] = f"{A100}-MIG-INVALID"
    mig_node(board, "mig-07", "ma mc", labels=invalid, mig_strategy="single", allocatable={"cpu": 1})
    stale = {**mig_labels(config="custom", state="success"), "nvidia.com/mig-3g.40gb.count": "4"}
    mig_node(board, "mig-08", "ma mc", labels=stale)
    _share(board)
    _wait(board, "OC", "3g.40gb", 3)
    _wait(board, "EN", "1g.10gb", 1)
    _wait(board, "VG", "7g.80gb", 2)
    return board


def _share(board: Board) -> None:
    sliced = {"sharing": "time-slicing", "shares_per_gpu": 4, "model": "L40S-48GB", "code": ""}
    for name in ("ts-01", "ts-02"):
        row = ". ."
        host = {"cpu": 128_000, "memory": 2**40, "pods": 110, "nvidia.com/gpu": 8}
        node = board.node(name, row, allocatable=host, capacity=host, **sliced)
        pods = [board.pod(code, node, 1) for code in ("NB", "NB", "LS")]
        told = tuple(Holding(pod.uid, node.gpus[at % 2].uuid, 250) for at, pod in enumerate(pods))
        board.nodes[name] = replace(node, holdings=told if name == "ts-01" else None)


def _wait(board: Board, code: str, profile: str, pods: int) -> None:
    for _ in range(pods):
        wanted = {f"nvidia.com/mig-{profile}": 1, "cpu": 2000, "memory": 2**33}
        board.pod(code, None, 0, requests=wanted, created_at=board.now - 1500, priority=800)
