"""Reports about schedulers and deschedulers: what must not be moved, and what does not fit, and why."""

from __future__ import annotations

import pytest

from apps.planner.counting import count_gpus
from apps.planner.defrag import plan_free_nodes, plan_unlock
from apps.planner.ledger_devices import compute_slices, part_of_profile
from apps.planner.mig.catalogue import MODELS
from apps.planner.mig.nodes import asked_profiles
from apps.planner.movability import movability
from apps.planner.waiting import explain_pending
from tests.cases.reading import ledger, read
from tests.kube.objects import node, pod

NEVER = {"max_moves": 10, "deadline": lambda: False}


def asking(**amounts):
    limits = {f"nvidia.com/{name.replace('_', '.')}": str(amount) for name, amount in amounts.items()}
    return {"containers": [{"name": "main", "resources": {"requests": limits, "limits": limits}}]}


def test_a_pod_that_nobody_makes_again_is_never_moved_and_the_reason_is_said():
    snapshot = read(node(), node("node-b"), pod("bare", on="node-a", owner=None), pod("owned", on="node-b"))
    verdicts = {one.name: movability(snapshot, one) for one in snapshot.pods.values()}
    assert verdicts["owned"].movable
    assert not verdicts["bare"].movable
    assert any("no controller" in reason.lower() for reason in verdicts["bare"].reasons)
    assert all(move.pod != "team-a/bare" for move in plan_free_nodes(snapshot, **NEVER).moves)


def test_only_pods_that_hold_gpus_are_moved_to_free_them():
    web = pod("web", gpus=0, on="node-a")
    stays = pod("stays", gpus=2, on="node-b", owner=None)
    snapshot = read(node(gpus=4), node("node-b", gpus=4), pod("train", on="node-a"), web, stays)
    plan = plan_free_nodes(snapshot, **NEVER)
    assert [move.pod for move in plan.moves] == ["team-a/train"]
    assert plan.freed_nodes == ("node-a",)


def test_a_node_without_the_resource_is_no_empty_node():
    def cards(name, resource):
        return node(name, gpus=0, product="", capacity={"nvidia.com/gpu": "0", resource: "4"})

    asked = {"cloud.example/gpu-b": "4"}
    spec = {"containers": [{"name": "main", "resources": {"requests": asked, "limits": asked}}]}
    snapshot = read(
        cards("a", "cloud.example/gpu-a"),
        cards("b", "cloud.example/gpu-b"),
        pod("full", gpus=0, on="b", spec=spec),
    )
    assert ledger(snapshot, "a").main.units_used == 0
    assert ledger(snapshot, "a").main.resource == "cloud.example/gpu-a"
    assert ledger(snapshot, "b").main.units_free == 0
    assert plan_free_nodes(snapshot, **NEVER).moves == ()
    waits = pod("more", gpus=0, spec=spec)
    [reason] = explain_pending(read(*[cards("a", "cloud.example/gpu-a")], waits))
    assert reason.reason_code == "no-such-gpu"


@pytest.mark.parametrize(
    ("asked", "slices"), [({"mig-2g_20gb": 2}, 4), ({"mig-4g_40gb": 1, "mig-1g_10gb": 1}, 5)]
)
def test_instances_count_as_parts_of_a_gpu_and_not_as_none(asked, slices):
    [found] = read(node(), pod(gpus=0, on="node-a", spec=asking(**asked))).pods.values()
    model = MODELS["A100-80GB"]
    profiles = asked_profiles(found)
    assert sum(number * compute_slices(name, model) for name, number in profiles.items()) == slices
    assert sum(number * part_of_profile(name, model) for name, number in profiles.items()) > 0
    assert found.requests.get("nvidia.com/gpu", 0) == 0


def test_a_held_instance_is_allocated_milli_of_its_node():
    labels = {"nvidia.com/gpu.count": "1", "nvidia.com/mig.strategy": "mixed"}
    cut = node(gpus=0, labels=labels, capacity={"nvidia.com/gpu": "0", "nvidia.com/mig-3g.40gb": "2"})
    guest = pod("half", gpus=0, on="node-a", spec=asking(**{"mig-3g_40gb": 1}))
    counts = count_gpus(read(cut, guest))
    assert (counts.physical, counts.allocated_milli) == (1, 429)


@pytest.mark.parametrize("is_shared", [True, False])
def test_a_placeholder_keeps_its_card_until_its_share_is_seen(is_shared):
    """A full node looked free because its placeholder was no load and its share not there yet."""
    group = {"labels": {"runai-gpu-group": "g1"}}
    keeps = pod("keeps", namespace="runai-reservation", on="node-a", owner=None, **group)
    share = pod("share", gpus=0, on="node-a", annotations={"gpu-fraction": "0.5"}, **group)
    waits = pod("waits", gpus=0, annotations={"gpu-fraction": "0.5"})
    snapshot = read(node(gpus=1), keeps, waits, *([share] if is_shared else []))
    [told] = explain_pending(snapshot)
    assert (told.reason_code == "fits") is is_shared
    assert ledger(snapshot).allocated_milli == (500 if is_shared else 1000)
    plan = plan_unlock(snapshot, workload="team-a/waits", **NEVER)
    assert bool(plan.hand_overs) is is_shared


def test_a_share_asked_of_cards_that_are_not_registered_says_so():
    waits = pod("waits", gpus=0, spec=asking(gpu=1, gpumem=4000))
    [told] = explain_pending(read(node(gpus=6, product=""), waits))
    assert told.reason_code == "not-registered"
    assert "not registered" in told.sentence
    assert told.node_counts


def test_a_share_told_in_memory_of_a_card_of_unknown_memory_is_unknown_and_not_refused():
    waits = pod("waits", gpus=0, annotations={"gpu-memory": "3000"})
    unknown = node(gpus=2, product="", labels={"nvidia.com/gpu.count": "2"})
    [told] = explain_pending(read(unknown, waits))
    assert told.reason_code == "gpu-memory-unknown"
    assert told.sentence == "Whether node-a may take it is not known: memory of its GPUs is not known."
    known = node(gpus=2, labels={"nvidia.com/gpu.count": "2", "nvidia.com/gpu.memory": "24576"})
    assert explain_pending(read(known, waits))[0].reason_code == "fits"
    assert explain_pending(read(unknown, pod("whole", gpus=1)))[0].reason_code == "fits"
