"""What the extender answers about drawn clusters: who passes, who is best, and why not."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest

from apps.planner.inventory import LinkClass, Pod, Taint, Toleration, Topology
from apps.planner.queues import GpuRequest
from apps.scheduling.extender import gangs
from apps.scheduling.extender.binding import Binder
from apps.scheduling.extender.deciding import Extender, Filtered, StalePicture
from apps.scheduling.extender.holds import Hold, KeptHolds
from apps.scheduling.extender.options import Options, WhenStale
from apps.scheduling.extender.picture import Picture
from apps.scheduling.extender.wire import BindingCall, Victims
from tests.drawing import cluster, waiting


class Clock:
    now = 1000.0
    age = 0.0


def extender(snapshot, *, options=None, holds=None, clock=None):
    picture = Picture(reserved_mib=options.reserved_mib if options else 0)
    picture.take(snapshot)
    clock = clock or Clock()
    return Extender(
        picture, options or Options(), age=lambda: clock.age, clock=lambda: clock.now, holds=holds
    )


def bound(pod: Pod, node: str) -> Pod:
    return replace(pod, node_name=node, phase="Running", ready=True)


def test_refuses_where_too_few_gpus_are_free_and_never_names_a_node_that_was_not_offered():
    (pod,) = waiting("team/train", gpus=4)
    found = extender(cluster("a1 aab.....\n a2 ccccc...\n a3 ........", [pod])).filter(pod, ["a2", "a1"])
    assert found.fitting == ["a1"]
    assert found.failed == {"a2": "too few free GPUs"}
    assert not found.hopeless


def test_what_no_preemption_mends_is_told_apart():
    (pod,) = waiting("team/train", gpus=8)
    snapshot = cluster("a1 ....\n a2 aa......", [pod], nodes={"a2": {"drift": ("one GPU fell off",)}})
    found = extender(snapshot).filter(pod, ["a1", "a2", "gone"])
    assert found.hopeless == {
        "a1": "too few free GPUs",
        "a2": "node shows less than it did",
        "gone": "the node is not known to the extender yet",
    }


def _pcie(node):
    links = tuple(tuple("X" if a == b else "SYS" for b in range(8)) for a in range(8))
    return replace(node, topology=Topology(links=links, source="test"))


def test_the_wanted_bandwidth_is_asked_of_links_that_are_known():
    (pod,) = waiting("team/train", gpus=4, link=LinkClass.NVLINK)
    snapshot = cluster("slow ........\n dark ........\n fast ........", [pod])
    nodes = dict(snapshot.nodes)
    nodes["slow"], nodes["dark"] = _pcie(nodes["slow"]), replace(nodes["dark"], topology=None)
    found = extender(replace(snapshot, nodes=nodes)).filter(pod, ["slow", "dark", "fast"])
    assert found.fitting == ["fast"]
    assert found.hopeless == {
        "slow": "no 4-GPU group with the wanted bandwidth (NVLink)",
        "dark": "no GPU topology metadata",
    }


def test_the_best_node_alone_gets_ten_and_equals_do_not():
    (pod,) = waiting("team/train", gpus=2)
    scores = dict(
        extender(cluster("a1 aaaaa...\n a2 a.......\n a3 ........\n a4 ........", [pod])).prioritize(
            pod, ["a4", "a3", "a2", "a1"]
        )
    )
    assert scores["a1"] == 10
    assert 9 >= scores["a2"] > scores["a3"] == scores["a4"] == 0
    equal = extender(cluster("a1 ........\n a2 ........\n a3 ........", [pod])).prioritize(
        pod, ["a1", "a2", "a3"]
    )
    assert sorted(score for _, score in equal) == [9, 9, 10]


def test_a_pod_that_was_told_its_best_node_counts_there_at_once_and_only_once():
    first, second = waiting("team/one", gpus=8)[0], waiting("team/two", gpus=8)[0]
    clock = Clock()
    asked = extender(cluster("a1 ........\n a2 ........", [first], [second]), clock=clock)
    node = max(asked.prioritize(first, ["a1", "a2"]), key=lambda pair: pair[1])[0]
    other = {"a1": "a2", "a2": "a1"}[node]
    assert asked.filter(second, ["a1", "a2"]).fitting == [other]
    # The watch confirms the first; it asks for nothing twice.
    asked.picture.tell_pod(bound(first, node))
    assert asked.picture.room(node).free_gpus == 0
    assert len(asked.picture.assumed) == 1
    # The second went elsewhere after all (nowhere, that is): its assumption ends by itself.
    clock.now += asked.options.told_seconds
    asked.picture.expire(clock.now)
    assert asked.picture.room(other).free_gpus == 8


def test_a_pod_that_its_scheduler_put_elsewhere_counts_there_alone():
    (pod,) = waiting("team/one", gpus=8)
    asked = extender(cluster("a1 ........\n a2 ........", [pod]))
    node = max(asked.prioritize(pod, ["a1", "a2"]), key=lambda pair: pair[1])[0]
    other = {"a1": "a2", "a2": "a1"}[node]
    asked.picture.tell_pod(bound(pod, other))
    assert asked.picture.room(node).free_gpus == 8
    assert asked.picture.room(other).free_gpus == 0
    asked.picture.forget_pod(pod.uid)
    assert asked.picture.room(other).free_gpus == 8


def test_a_held_node_is_open_to_its_gang_alone_until_the_deadline():
    (stranger,), gang = waiting("team/stranger", gpus=8), waiting("ml/train", gpus=8, count=2)
    clock = Clock()
    hold = Hold("a1", "kept for ml/train by execution 7", gangs=frozenset({"ml/train"}), until=1060.0)
    asked = extender(
        cluster("a1 ........\n a2 ........", [stranger], gang), holds=KeptHolds([hold]), clock=clock
    )
    found = asked.filter(stranger, ["a1"])
    assert found.hopeless == {"a1": "the node is kept for ml/train by execution 7"}
    assert asked.filter(gang[0], ["a1", "a2"]).fitting == ["a1", "a2"]
    clock.now = 1060.0
    assert asked.filter(stranger, ["a1"]).fitting == ["a1"]


def test_nobody_is_bound_to_a_node_that_is_kept_for_others_known_or_not():
    mine, other = (waiting(f"ml/{name}", gpus=1)[0] for name in ("mine", "other"))
    book = KeptHolds([Hold("a1", "kept for ml/mine by execution 7", pods=frozenset({mine.uid}))])
    asked = extender(cluster("a1 ....", [mine], [other]), holds=book, options=Options(binds=True))
    sent = []
    gateway = SimpleNamespace(bind_pod=lambda *where, **to: sent.append(where[1]))
    binder = Binder(asked, gateway, lambda call: None)

    def bind(name, uid):
        return asyncio.run(binder.bind(BindingCall("ml", name, uid, "a1")))

    assert bind("other", other.uid) == "the node is kept for ml/mine by execution 7"
    assert bind("new", "uid-of-nobody").startswith(
        "the pod is not known to the extender yet, and the node is"
    )
    assert bind("mine", mine.uid) == ""
    assert sent == ["mine"]
    assert [bool(one.note) for one in asked.sink.all()] == [True, True, False]


def test_a_gang_starts_as_a_whole_or_not_at_all():
    gang = waiting("ml/train", gpus=8, count=3)
    names = ["a1", "a2", "a3"]
    found = extender(cluster("a1 ........\n a2 ........\n a3 a.......", gang)).filter(gang[0], names)
    assert not found.fitting
    assert found.hopeless["a1"] == "the gang ml/train does not fit as a whole: 3 members need a node at once"
    assert found.failed["a3"] == "too few free GPUs"
    lacking = cluster("a1 ........\n a2 ........\n a3 ........", gang[:2])
    lacking = replace(lacking, gangs={"ml/train": replace(lacking.gangs["ml/train"], min_members=3)})
    words = extender(lacking).filter(gang[0], names).hopeless["a1"]
    assert words == "the gang ml/train is incomplete: 1 of its members do not exist or are gated"


def test_a_gang_without_room_is_laid_out_once_for_all_its_members_until_something_changes(monkeypatch):
    gang, (old,) = waiting("ml/train", gpus=8, count=3), waiting("team/old", gpus=8)
    names = ["a1", "a2", "a3"]
    asked = extender(cluster("a1 ........\n a2 ........\n a3 ........", gang, extra=[bound(old, "a3")]))
    laid_out = []
    look = gangs.find_places
    monkeypatch.setattr(gangs, "find_places", lambda *told: laid_out.append(1) or look(*told))
    for pod in gang:  # the scheduler writes into each that it was refused
        assert not asked.filter(pod, names).fitting
        asked.picture.tell_pod(replace(pod, unschedulable_message="0/3 nodes are available"))
    assert len(laid_out) == 1
    asked.picture.tell_pod(replace(gang[2], node_selector={"no": "where"}))
    assert not asked.filter(gang[0], names).fitting
    asked.picture.forget_pod(old.uid)
    assert not asked.filter(gang[0], names).fitting
    asked.picture.tell_pod(gang[2])
    assert asked.filter(gang[0], names).fitting == names
    assert len(laid_out) == 4


def test_the_rest_of_a_gang_keeps_its_room_once_the_first_is_let_through():
    gang, (stranger,) = waiting("ml/train", gpus=8, count=3), waiting("team/stranger", gpus=1)
    names = ["a1", "a2", "a3"]
    asked = extender(cluster("a1 ........\n a2 ........\n a3 ........", gang, [stranger]))
    for pod in gang:
        assert asked.filter(stranger, names).fitting == (names if pod is gang[0] else [])
        asked.picture.release(stranger.uid)
        fitting = asked.filter(pod, names).fitting
        node = max(asked.prioritize(pod, fitting), key=lambda pair: pair[1])[0] if fitting[1:] else fitting[0]
        asked.picture.tell_pod(bound(pod, node))
    assert {asked.picture.room(name).free_gpus for name in names} == {0}


@pytest.mark.parametrize("age", [31.0, float("inf")])
def test_an_old_picture_refuses_or_abstains_as_it_is_set(age):
    (pod,) = waiting("team/train", gpus=8)
    clock = Clock()
    clock.age = age
    asked = extender(cluster("a1 aa......", [pod]), clock=clock)
    with pytest.raises(StalePicture, match="picture of the cluster"):
        asked.filter(pod, ["a1"])
    asked.use(options=Options(when_stale=WhenStale.ABSTAIN))
    assert asked.filter(pod, ["a1"]).fitting == ["a1"]
    assert asked.prioritize(pod, ["a1"]) == [("a1", 0)]


def test_shares_of_a_gpu_never_exceed_its_memory_less_what_is_reserved():
    (pod,), memory = waiting("team/infer", gpus=1, gpu_milli=500, gpu_memory_mib=40_000), 81_920
    snapshot = cluster("a1 4.......", [pod])
    node = snapshot.nodes["a1"]
    gpus = tuple(replace(gpu, memory_mib=memory) for gpu in node.gpus)
    snapshot = replace(snapshot, nodes={"a1": replace(node, gpus=gpus)})
    (large,) = waiting("team/large", gpus=1, gpu_milli=500, gpu_memory_mib=memory)
    assert extender(snapshot).filter(large, ["a1"]).fitting == ["a1"]
    spared = extender(snapshot, options=Options(reserved_mib=512))
    assert spared.filter(pod, ["a1"]).fitting == ["a1"]
    found = spared.filter(large, ["a1"])
    assert found.hopeless == {"a1": "no GPU with enough memory left: its shares would exceed it"}


def test_every_verdict_is_kept_with_its_reasons_and_its_best_nodes():
    (pod,) = waiting("team/train", gpus=4)
    asked = extender(cluster("a1 aab.....\n a2 ccccc...\n a3 ........", [pod]))
    asked.filter(pod, ["a1", "a2", "a3"])
    asked.prioritize(pod, ["a1", "a3"])
    best, filtered = asked.sink.of_pod(pod.uid)
    assert filtered.refused == {"too few free GPUs": 1}
    assert filtered.fitting == 2
    assert best.top[0].node == "a1"
    assert best.top[0].score == 10
    assert sum(part.points for part in best.top[0].parts) == pytest.approx(best.top[0].points)


@pytest.mark.parametrize("policy", ["packing", "fgd", "demand-fit"])
def test_what_is_remembered_is_what_a_fresh_look_says(policy):
    """After a storm of changes every remembered verdict and score equals that of an extender made anew."""
    pods = [waiting(f"team/p{at}", gpus=1 + at % 3)[0] for at in range(12)]
    snapshot = cluster("a1 aab.....\n a2 ccccc...\n a3 ........\n a4 5.......", pods)
    options = Options(policy=policy, told_seconds=0.0)
    names = list(snapshot.nodes)
    asked = extender(snapshot, options=options)
    for at, pod in enumerate(pods):
        node = max(asked.prioritize(pod, names), key=lambda pair: pair[1])[0]
        asked.picture.tell_pod(bound(pod, node))
        if at % 3 == 2:
            asked.picture.forget_pod(pods[at - 1].uid)
        now = replace(snapshot, pods=dict(asked.picture.pods))
        for other in pods[:3]:
            probe = replace(other, uid=f"probe-{at}-{other.uid}")
            fresh = extender(now, options=options)
            assert asked.filter(probe, names) == fresh.filter(probe, names)
            assert asked.prioritize(probe, names) == fresh.prioritize(probe, names)
            asked.picture.release(probe.uid)


def test_a_gpu_request_is_asked_of_the_cards_themselves_whatever_is_reserved():
    pods = [
        waiting(f"team/p-{name}", gpus=1, labels={"defrag.gpu.internal/request": name})[0]
        for name in ("fits", "huge")
    ]
    snapshot = cluster("a1 ........\n b1 ........", *[[pod] for pod in pods], nodes={"b1": {"model": "L40S"}})
    gpus = tuple(replace(gpu, memory_mib=81_920) for gpu in snapshot.nodes["a1"].gpus)
    nodes = {name: replace(node, gpus=gpus) for name, node in snapshot.nodes.items()}
    asked = {"fits": GpuRequest("team/fits", 81_920, "A100"), "huge": GpuRequest("team/huge", 90_000)}
    requests = {one.key: one for one in asked.values()}
    told = extender(replace(snapshot, nodes=nodes, gpu_requests=requests), options=Options(reserved_mib=512))
    assert told.filter(pods[0], ["a1", "b1"]) == Filtered(["a1"], {}, {"b1": "node has no such GPUs"})
    words = "its GPUs have less memory than the pod's GPURequest asks for"
    assert told.filter(pods[1], ["a1", "b1"]) == Filtered([], {}, {"a1": words, "b1": words})


def test_a_whole_picture_takes_nothing_back_of_what_is_known_better():
    """It was begun before the pod was bound, before another came and before a third went."""
    old, late, gone = (waiting(f"team/{name}", gpus=8)[0] for name in ("old", "late", "gone"))
    begun = cluster("a1 ........\n a2 ........\n a3 ........", [old], [gone])
    picture = Picture()
    picture.take(begun)
    picture.tell_pod(bound(old, "a1"))
    picture.tell_pod(bound(late, "a2"))
    picture.forget_pod(gone.uid)
    newer = {old.uid, late.uid, gone.uid}
    for _ in picture.take_in_steps(begun, newer=newer):
        assert [picture.room(name).free_gpus for name in ("a1", "a2", "a3")] == [0, 0, 8]
        assert gone.uid not in picture.pods
    picture.take(begun)
    assert [picture.room(name).free_gpus for name in ("a1", "a2", "a3")] == [8, 8, 8]


def test_what_the_watch_tells_of_a_pod_holds_again_after_its_scheduler_was_told_another_best_node():
    """A scheduler that is behind asks about a pod that runs; one asks about a pod with room of its own."""
    (runs,), (steered,), (stranger,) = (waiting(f"team/{one}", gpus=8) for one in ("runs", "to", "other"))
    steered = replace(steered, nominated_node="a2", steering="to a2")
    clock, names = Clock(), ["a1", "a2", "a3"]
    drawn = cluster("a1 ........\n a2 ........\n a3 ........", [steered], extra=[bound(runs, "a1")])
    asked = extender(drawn, clock=clock)
    asked.filter(runs, ["a3"])
    assert [asked.picture.room(name).free_gpus for name in names] == [0, 0, 8]
    assert asked.prioritize(steered, ["a2"]) == [("a2", 10)]
    clock.now += asked.options.told_seconds
    assert asked.filter(stranger, names).fitting == ["a3"]
    asked.prioritize(steered, ["a2"])
    asked.picture.tell_pod(replace(steered, nominated_node=""))
    asked.picture.tell_pod(bound(steered, "a2"))
    assert asked.picture.room("a2").free_gpus == 0


@pytest.mark.parametrize("tolerant", [0, 1])
@pytest.mark.parametrize("tainted", ["a1", "a2"])
def test_members_of_a_gang_that_tolerate_different_taints_are_each_asked_about(tolerant, tainted):
    members = list(waiting("ml/train", gpus=8, count=2))
    members[tolerant] = replace(members[tolerant], tolerations=(Toleration("team", "Exists", "", ""),))
    taint = {"taints": (Taint("team", "ml", "NoSchedule"),)}
    drawn = cluster("a1 ........\n a2 ........", members, nodes={tainted: taint})
    for pod in members:
        assert extender(drawn).filter(pod, ["a1", "a2"]).fitting
    drawn = cluster("a1 ........\n a2 ........", members, nodes={"a1": taint, "a2": taint})
    assert not any(extender(drawn).filter(pod, ["a1", "a2"]).fitting for pod in members)


@pytest.mark.parametrize(
    ("rooms", "offered", "is_let"),
    [("a1 ........\n a2 aaaaaaaa\n a3 bbbbbbbb", ["a2", "a3"], True),
     ("a1 ........\n a2 aaaaaaaa\n a3 bbbbbbbb", ["a2"], False),
     ("a1 ........\n a2 ........\n a3 bbbbbbbb", ["a3"], True)],
)  # fmt: skip
def test_nobody_gives_way_to_a_gang_that_could_not_start_even_then(rooms, offered, is_let):
    gang = waiting("ml/train", gpus=8, count=3, priority=9)
    victims = {name: Victims((f"uid-{name}-{'ab'[name == 'a3']}",)) for name in offered}
    asked = extender(cluster(rooms, gang))
    assert bool(asked.preempt(gang[0], victims)) == is_let
    short = cluster(rooms, gang[:2])
    short = replace(short, gangs={"ml/train": replace(short.gangs["ml/train"], min_members=3)})
    assert not extender(short).preempt(gang[0], victims)
