"""Each rule that keeps a pod off a node, with its reason."""

from dataclasses import replace

import pytest

from apps.planner.constraints import why_not
from apps.planner.fitting import Fitting, Reason, explain_reason
from apps.planner.inventory import (
    LinkClass,
    MigInstance,
    NodeTerm,
    PodTerm,
    Requirement,
    SpreadConstraint,
    Taint,
    Toleration,
)
from apps.planner.rooms import free_room
from tests.drawing import GIB, GPU, NVLINK, cluster, links, running, select, waiting

DRAWING = "a1 aa..\na2 ...."
HOST = "kubernetes.io/hostname"


def reasons(node="a1", drawing=DRAWING, *, pod=None, gpus=1, nodes=None, extra=(), **facts):
    made = pod or waiting("t/w", gpus=gpus, **facts)[0]
    snapshot = cluster(drawing, (made,), nodes=nodes, extra=extra)
    return why_not(free_room(snapshot), made, snapshot.nodes[node])


def test_nothing_speaks_against_a_pod_that_fits():
    assert reasons() == []


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"gpus": 3}, Reason.GPU),
        ({"cpu": 121_000}, Reason.CPU),
        ({"memory": 1024 * GIB}, Reason.MEMORY),
        ({"node_selector": {"zone": "b"}}, Reason.SELECTOR),
        ({"node_terms": (NodeTerm((Requirement("zone", "In", ("b",)),)),)}, Reason.AFFINITY),
        ({"scheduler": "kai-scheduler"}, Reason.SCHEDULER),
        ({"claim_wishes": ("2 of gpu.example.com",)}, Reason.CLAIMS),
        ({"claims": ("team/c",)}, Reason.CLAIMS),
    ],
)
def test_each_wish_of_the_pod_has_its_reason(facts, reason):
    assert reasons(**facts) == [reason]


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"unschedulable": True}, Reason.CORDONED),
        ({"ready": False}, Reason.NOT_READY),
        ({"stale_since": 5.0}, Reason.STALE),
        ({"taints": (Taint("maintenance"),)}, Reason.TAINT),
        ({"taints": (Taint("maintenance", "", "NoExecute"),)}, Reason.TAINT),
        ({"gpu_resource": "amd.com/gpu"}, Reason.NO_SUCH_GPU),
        ({"allocatable": {"cpu": 128_000, "memory": 1024 * GIB, "pods": 1, GPU: 4}}, Reason.PODS),
    ],
)
def test_each_state_of_the_node_has_its_reason(facts, reason):
    assert reason in reasons(nodes={"a1": facts})


def test_a_tolerated_taint_is_no_reason():
    assert (
        reasons(nodes={"a1": {"taints": (Taint("gpu"),)}}, tolerations=(Toleration("gpu", "Exists"),)) == []
    )


def test_ephemeral_storage_and_every_extended_resource_count():
    pod = replace(
        waiting("t/w", gpus=1)[0],
        requests={"cpu": 1, "ephemeral-storage": 10, "rdma/hca": 1, "nvidia.com/mig-1g.10gb": 1, GPU: 1},
    )

    assert reasons(pod=pod) == [Reason.STORAGE, Reason.MIG, Reason.OTHER]


def test_host_ports_are_taken_once():
    holder = running("web", "a1", host_ports=(80,))

    assert reasons(extra=[holder], host_ports=(80,)) == [Reason.PORT]
    assert reasons("a2", extra=[holder], host_ports=(80,)) == []


def test_a_terminating_pod_holds_its_gpus_until_it_is_gone():
    going = running("going", "a1", gpus=2, terminating=True)

    assert reasons(extra=[going]) == [Reason.GPU]


def test_a_finished_pod_holds_nothing():
    assert reasons(extra=[running("done", "a1", gpus=2, phase="Succeeded")]) == []


def test_an_overcommitted_node_has_nothing_left_and_never_less():
    extra = [running("more", "a1", gpus=4)]

    assert Reason.GPU in reasons(extra=extra)
    assert free_room(cluster(DRAWING, extra=extra)).by_node["a1"].free_gpus == 0


def test_a_share_needs_one_device_with_that_much_left():
    share = replace(waiting("t/w", gpus=1)[0], gpu_milli=600)

    assert reasons("a1", "a1 5A", pod=share) == [Reason.GPU]
    assert reasons("a1", "a1 4A", pod=share) == []


def test_a_whole_gpu_is_not_made_of_two_halves():
    assert reasons("a1", "a1 55") == [Reason.GPU]


def test_gpus_shared_in_time_are_counted_and_not_told_apart():
    facts = {"allocatable": {"cpu": 9000, "memory": 99 * GIB, GPU: 12}}

    assert reasons("a1", "a1 ..", nodes={"a1": facts}, gpus=12, cpu=1000, memory=GIB) == []
    assert reasons("a1", "a1 ..", nodes={"a1": facts}, gpus=13, cpu=1000, memory=GIB) == [Reason.GPU]


def test_a_gpu_that_is_cut_by_mig_is_not_given_out_whole():
    snapshot = cluster("a1 ..")
    node = snapshot.nodes["a1"]
    cut = replace(node.gpus[0], instances=(MigInstance("3g.40gb", 0),))

    assert reasons("a1", "a1 ..", nodes={"a1": {"gpus": (cut, node.gpus[1])}}, gpus=2) == [Reason.GPU]


def test_a_link_is_refused_for_want_of_a_group_or_of_knowledge():
    split, unknown = {"a1": {"topology": links("abab")}}, {"a1": {"topology": None}}

    assert reasons(gpus=2, link=NVLINK) == []
    assert reasons(gpus=2, link=NVLINK, nodes=split) == [Reason.LINK]
    assert reasons(gpus=2, link=NVLINK, nodes=unknown) == [Reason.LINK_UNKNOWN]
    cut = replace(
        links("abab"),
        links=tuple(tuple("" if code == "SYS" else code for code in row) for row in links("abab").links),
    )
    assert reasons(gpus=2, link=NVLINK, nodes={"a1": {"topology": cut}}) == [Reason.LINK_UNKNOWN]
    assert reasons(gpus=2, link=LinkClass.NODE, nodes=unknown) == []


def test_without_holders_a_partly_taken_node_promises_no_link():
    blind = {"a1": {"holdings": None}, "a2": {"holdings": None}}

    assert reasons("a1", gpus=2, nodes=blind) == []
    assert reasons("a1", gpus=2, link=NVLINK, nodes=blind) == [Reason.HOLDERS_UNKNOWN]
    assert reasons("a2", gpus=4, link=NVLINK, nodes=blind) == []


def near(key=HOST, **labels):
    return PodTerm(key, select(**labels))


def test_pod_affinity_wants_company_in_the_same_domain():
    extra = [running("cache", "a1", labels={"app": "cache"})]
    facts = {"pod_affinity": (near(app="cache"),), "namespace": "team"}
    pod = replace(waiting("team/w", gpus=1)[0], **facts)

    assert reasons("a1", pod=pod, extra=extra) == []
    assert reasons("a2", pod=pod, extra=extra) == [Reason.POD_AFFINITY]


def test_the_first_of_a_group_needs_no_company():
    pod = replace(waiting("team/w", gpus=1)[0], labels={"app": "x"}, pod_affinity=(near(app="x"),))

    assert reasons("a2", pod=pod) == []


def test_pod_anti_affinity_works_both_ways_round():
    shy = replace(waiting("team/w", gpus=1)[0], labels={"app": "shy"}, pod_anti_affinity=(near(app="loud"),))
    loud = running("loud", "a1", labels={"app": "loud"})
    plain = replace(waiting("team/w", gpus=1)[0], labels={"app": "loud"})
    hermit = running("hermit", "a1", pod_anti_affinity=(near(app="loud"),))

    assert reasons("a1", pod=shy, extra=[loud]) == [Reason.POD_ANTI_AFFINITY]
    assert reasons("a2", pod=shy, extra=[loud]) == []
    assert reasons("a1", pod=plain, extra=[hermit]) == [Reason.POD_ANTI_AFFINITY]


def test_affinity_looks_into_its_own_namespace_unless_told_otherwise():
    elsewhere = running("loud", "a1", labels={"app": "loud"}, namespace="other")
    shy = replace(waiting("team/w", gpus=1)[0], pod_anti_affinity=(near(app="loud"),))
    everywhere = replace(shy, pod_anti_affinity=(PodTerm(HOST, select(app="loud"), all_namespaces=True),))

    assert reasons("a1", pod=shy, extra=[elsewhere]) == []
    assert reasons("a1", pod=everywhere, extra=[elsewhere]) == [Reason.POD_ANTI_AFFINITY]


def test_the_spread_over_domains_stays_within_its_skew():
    rule = SpreadConstraint(HOST, 1, select(app="x"))
    pod = replace(waiting("team/w", gpus=1)[0], labels={"app": "x"}, spread=(rule,))
    extra = [running("x1", "a1", labels={"app": "x"})]

    assert reasons("a1", pod=pod, extra=extra) == [Reason.SPREAD]
    assert reasons("a2", pod=pod, extra=extra) == []


def test_a_node_without_the_topology_label_breaks_the_spread():
    pod = replace(waiting("team/w", gpus=1)[0], spread=(SpreadConstraint("rack", 1, select(app="x")),))

    assert reasons("a1", pod=pod) == [Reason.SPREAD]


def test_a_pod_whose_volume_is_pinned_stays_on_its_node():
    pod = running("db", "a2", gpus=1, volumes_pin_node=True)
    snapshot = cluster(DRAWING, extra=[pod])

    assert why_not(free_room(snapshot), pod, snapshot.nodes["a1"]) == [Reason.VOLUME]


def test_can_run_gives_the_same_answer_as_the_reasons():
    pods = waiting("t/w", gpus=2), waiting("t/x", gpus=3), waiting("t/y", gpus=1, scheduler="volcano")
    snapshot = cluster(DRAWING, *pods, nodes={"a2": {"unschedulable": True}})
    fitting = Fitting(free_room(snapshot))

    for pod in snapshot.pending_pods:
        for name, node in snapshot.nodes.items():
            assert fitting.can_run(pod, name) is not bool(fitting.reasons(pod, node))


def test_a_reason_is_told_with_the_nodes_own_numbers():
    pod = waiting("t/w", gpus=3, cpu=500_000)[0]
    snapshot = cluster(DRAWING, (pod,), nodes={"a2": {"taints": (Taint("gpu", "yes"),)}})
    rooms = free_room(snapshot)

    assert explain_reason(Reason.GPU, rooms, pod, snapshot.nodes["a1"]) == "w wants 3 GPUs, a1 has 2 free."
    assert explain_reason(Reason.CPU, rooms, pod, snapshot.nodes["a1"]) == (
        "w wants 500 cores of cpu, a1 has 120 cores left."
    )
    assert explain_reason(Reason.TAINT, rooms, pod, snapshot.nodes["a2"]) == (
        "a2 has the taint gpu=yes:NoSchedule, which w does not tolerate."
    )


def test_going_back_to_a_checkpoint_restores_every_number():
    snapshot = cluster("a1 aa.5\na2 ....", extra=[running("web", "a1", host_ports=(80,))])
    rooms, fresh = free_room(snapshot), free_room(snapshot)
    mark = rooms.checkpoint()
    for uid in ("uid-a1-a", "uid-a1-share3", "uid-web"):
        rooms.remove(snapshot.pods[uid])
        rooms.place(snapshot.pods[uid], "a2")
    rooms.undo(mark)

    for name, room in rooms.by_node.items():
        other = fresh.by_node[name]
        assert (room.left, room.gpu_left, room.taken) == (other.left, other.gpu_left, other.taken)
        assert +room.ports == +other.ports
    assert rooms.where == fresh.where
