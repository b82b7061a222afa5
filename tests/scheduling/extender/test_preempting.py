"""Which of the scheduler's victims are accepted."""

from dataclasses import replace

from apps.planner.inventory import LinkClass
from apps.planner.queues import GpuRequest
from apps.scheduling.extender.picture import Picture
from apps.scheduling.extender.preempting import choose_victims
from apps.scheduling.extender.wire import Victims
from tests.drawing import cluster, waiting


def choose(snapshot, pod, victims, kept=None, reserved_mib=0):
    picture = Picture(reserved_mib=reserved_mib)
    picture.take(snapshot)
    sent = {
        node: Victims(tuple(f"uid-{name}" for name in names), broken)
        for node, (names, broken) in victims.items()
    }
    return choose_victims(picture, pod, sent, kept or {})


def test_protected_pods_kept_nodes_and_too_small_gains_are_left_out():
    (pod,) = waiting("ml/urgent", gpus=8, priority=100)
    snapshot = cluster("a1 aaaaaaaa\n a2 BBBBBBBB\n a3 ccccdddd\n a4 eeeeeeee", [pod])
    victims = {"a1": (["a1-a"], 0), "a2": (["a2-B"], 0), "a3": (["a3-c"], 0), "a4": (["a4-e"], 0)}
    accepted, refused = choose(snapshot, pod, victims, {"a4": "the node is kept for ml/other"})
    assert accepted == {"a1": Victims(("uid-a1-a",))}
    assert refused == {
        "a2": "team/a2-B is protected: Its owner protects it.",
        "a3": "even without them: too few free GPUs",
        "a4": "the node is kept for ml/other",
    }


def test_broken_budgets_and_torn_gangs_remain_only_without_others():
    (pod,) = waiting("ml/urgent", gpus=8, priority=100)
    gang = waiting("ml/gang", gpus=8, count=2)
    placed = [replace(one, node_name=f"a{at}", phase="Running") for at, one in enumerate(gang, start=2)]
    snapshot = cluster("a1 aaaaaaaa\n a2 ........\n a3 ........\n a4 dddddddd", [pod], extra=placed)
    torn = {"a1": (["a1-a"], 1), "a2": (["gang-0"], 0)}
    assert set(choose(snapshot, pod, torn)[0]) == {"a1", "a2"}
    assert set(choose(snapshot, pod, {**torn, "a4": (["a4-d"], 0)})[0]) == {"a4"}


def test_the_links_must_do_once_the_victims_are_gone():
    (pod,) = waiting("ml/urgent", gpus=4, link=LinkClass.NVLINK, priority=100)
    snapshot = cluster("a1 aaaaaaaa\n a2 bbbbbbbb", [pod])
    links = tuple(tuple("X" if one == two else "SYS" for two in range(8)) for one in range(8))
    node = snapshot.nodes["a1"]
    nodes = {**snapshot.nodes, "a1": replace(node, topology=replace(node.topology, links=links))}
    accepted, refused = choose(
        replace(snapshot, nodes=nodes), pod, {"a1": (["a1-a"], 0), "a2": (["a2-b"], 0)}
    )
    assert set(accepted) == {"a2"}
    assert refused["a1"] == "even without them: no 4-GPU group with the wanted bandwidth (NVLink)"


def test_nobody_gives_way_for_cards_that_the_pods_gpu_request_does_not_take():
    (pod,) = waiting("ml/urgent", gpus=8, priority=100, labels={"defrag.gpu.internal/request": "large"})
    snapshot = cluster("a1 aaaaaaaa\n b1 bbbbbbbb", [pod], nodes={"b1": {"model": "L40S"}})
    asked = replace(snapshot, gpu_requests={"ml/large": GpuRequest("ml/large", None, "A100")})
    accepted, refused = choose(asked, pod, {"a1": (["a1-a"], 0), "b1": (["b1-b"], 0)})
    assert set(accepted) == {"a1"}
    assert refused["b1"] == "even without them: node has no such GPUs"


def test_what_is_reserved_of_a_card_is_no_room_for_whom_others_would_give_way():
    (pod,) = waiting("ml/urgent", gpus=1, priority=100)
    pod = replace(pod, gpu_milli=500, gpu_memory_mib=40_000)
    snapshot = cluster("a1 a", [pod])
    node = snapshot.nodes["a1"]
    gpus = tuple(replace(gpu, memory_mib=40_960) for gpu in node.gpus)
    small = replace(snapshot, nodes={"a1": replace(node, gpus=gpus)})
    victims = {"a1": (["a1-a"], 0)}
    assert set(choose(small, pod, victims)[0]) == {"a1"}
    assert choose(small, pod, victims, reserved_mib=1024)[0] == {}


def test_a_pod_whose_gpu_request_is_not_preemptible_stays():
    (pod,) = waiting("ml/urgent", gpus=8, priority=100)
    snapshot = cluster("a1 aaaaaaaa\n a2 bbbbbbbb", [pod])
    firm = snapshot.pods["uid-a1-a"]
    pods = {**snapshot.pods, firm.uid: replace(firm, labels={"defrag.gpu.internal/request": "firm"})}
    asked = {f"{firm.namespace}/firm": GpuRequest(f"{firm.namespace}/firm", None, preemptible=False)}
    accepted, refused = choose(
        replace(snapshot, pods=pods, gpu_requests=asked), pod, {"a1": (["a1-a"], 0), "a2": (["a2-b"], 0)}
    )
    assert set(accepted) == {"a2"}
    assert refused["a1"] == "team/a1-a is not preemptible: its GPURequest says so"
