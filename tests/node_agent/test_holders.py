"""Holders: whom the kubelet gave what, by the UID that the API knows, and what is left out."""

import pytest

from apps.planner.inventory import Source
from tests.kube.objects import pod as make_pod
from tests.node_agent.driver import Part
from tests.node_agent.kubelet import claimed, container, devices, pod
from tests.node_agent.machine import UUIDS

GPU = "nvidia.com/gpu"
PART = Part("MIG-0c9d1111-2a3b-5c4d-8e6f-000000000001", "3g.40gb", 2, 4, 40192)
OTHER = Part("MIG-0c9d2222-2a3b-5c4d-8e6f-000000000002", "3g.40gb", 1, 0, 40192)


def test_the_console_reads_the_holders_that_the_kubelet_told(machine):
    machine.library.cards[3].parts = [OTHER, PART]
    machine.add_pod("train", gpus=2)
    machine.add_pod("serve", gpus=0, namespace="team-b")
    machine.add_pod("storage", gpus=0)
    machine.give(
        pod("train", container("main", devices(GPU, UUIDS[1], UUIDS[0])), container("sidecar")),
        pod("serve", container("web", devices("nvidia.com/mig-3g.40gb", PART.uuid)), namespace="team-b"),
        pod("storage", container("disk", devices("example.com/disk", UUIDS[2]))),
    )
    assert machine.agent.step()
    node = machine.read_by_console()
    assert {(one.pod_uid, one.device, one.container, one.milli, one.memory_mib) for one in node.holdings} == {
        ("uid-train", UUIDS[0], "main", 1000, 81559),
        ("uid-train", UUIDS[1], "main", 1000, 81559),
        ("uid-serve", PART.uuid, "web", 1000, 40192),
    }
    assert {one.source for one in node.holdings} == {Source.AGENT}
    assert node.holdings_observed_at == machine.now.timestamp()


def test_each_time_slice_is_a_holding_of_its_own_of_its_share(machine):
    machine.add_pod("notebook")
    machine.add_pod("batch", gpus=2)
    slots = [f"{uuid}::{number}" for uuid in UUIDS for number in range(5)]
    machine.kubelet.offered = (devices(GPU, *slots),)
    machine.give(
        pod("notebook", container("main", devices(GPU, f"{UUIDS[0]}::3"))),
        pod("batch", container("main", devices(GPU, f"{UUIDS[0]}::1", f"{UUIDS[0]}::4"))),
    )
    machine.agent.step()
    held = machine.holders()[UUIDS[0]]
    assert held == [("uid-batch", "main", 200), ("uid-batch", "main", 200), ("uid-notebook", "main", 200)]
    assert machine.annotation("holders")["devices"][UUIDS[0]][0]["memory_mib"] is None
    assert len(machine.read_by_console().holdings) == 3


def test_a_sick_gpu_that_is_no_longer_offered_is_dealt_like_the_others(machine):
    machine.add_pod("notebook")
    machine.kubelet.offered = (devices(GPU, *[f"{UUIDS[1]}::{number}" for number in range(4)]),)
    machine.give(pod("notebook", container("main", devices(GPU, f"{UUIDS[0]}::3"))))
    machine.agent.step()
    assert machine.holders() == {UUIDS[0]: [("uid-notebook", "main", 250)]}


def test_a_share_of_unknown_size_is_left_out_and_said(machine, caplog):
    machine.add_pod("notebook")
    machine.kubelet.offered = None
    machine.give(pod("notebook", container("main", devices(GPU, f"{UUIDS[0]}::3"))))
    machine.agent.step()
    assert machine.holders() == {}
    assert "team-a/notebook" in caplog.text
    assert "does not tell into how many" in caplog.text


def test_devices_given_by_claims_are_found_by_their_names_and_one_claim_is_shared_by_its_pods(machine):
    machine.library.cards[3].parts = [OTHER, PART]
    machine.library.cards[0].minor, machine.library.cards[1].minor = 1, 0
    for name in ("alone", "left", "right"):
        machine.add_pod(name, gpus=0)
    machine.give(
        pod("alone", container("main", claims=[claimed("mine", "gpu-1", "gpu-3-mig-3g40gb-9-4")])),
        pod("left", container("main", claims=[claimed("ours", "gpu-0")]), container("log")),
        pod(
            "right",
            container("main", claims=[claimed("ours", "gpu-0"), claimed("x", "gpu-2", driver="other")]),
        ),
    )
    machine.agent.step()
    assert machine.holders() == {
        UUIDS[0]: [("uid-alone", "main", 1000)],
        UUIDS[1]: [("uid-left", "main", 500), ("uid-right", "main", 500)],
        PART.uuid: [("uid-alone", "main", 1000)],
    }


@pytest.mark.parametrize(
    ("device", "where"),
    [
        ("nvidia2", UUIDS[2]),
        ("nvidia3/gi2", PART.uuid),
        (f"MIG-{UUIDS[0]}/9/0", f"MIG-{UUIDS[0]}/9/0"),
    ],
)
def test_other_plugins_ids_are_understood(machine, device, where):
    machine.library.cards[3].parts = [OTHER, PART]
    machine.add_pod("train")
    machine.give(pod("train", container("main", devices(GPU, device))))
    machine.agent.step()
    assert machine.holders() == {where: [("uid-train", "main", 1000)]}


def test_an_id_that_another_scheduler_made_up_is_nobodys_device(machine, caplog):
    machine.add_pod("shared")
    machine.give(pod("shared", container("main", devices(GPU, f"{UUIDS[0]}-7"))))
    machine.agent.step()
    assert machine.holders() == {}
    assert "no device of this machine" in caplog.text


def test_a_pod_that_the_api_does_not_know_is_left_out_and_said(machine, caplog):
    machine.add_pod("known")
    machine.give(
        pod("known", container("main", devices(GPU, UUIDS[0]))),
        pod("ghost", container("main", devices(GPU, UUIDS[1]))),
    )
    machine.agent.step()
    assert machine.holders() == {UUIDS[0]: [("uid-known", "main", 1000)]}
    assert f"team-a/ghost was given '{UUIDS[1]}', and the API knows no pod of that name" in caplog.text


def test_a_name_that_changes_hands_while_the_kubelet_is_asked_is_left_out_until_it_is_settled(machine):
    def change_hands():
        machine.kubelet.before_answer = lambda: None
        machine.api.ask("DELETE", "/api/v1/namespaces/team-a/pods/web-0", {"gracePeriodSeconds": 0})
        machine.api.seed(make_pod("web-0", on="node-a", metadata={"uid": "uid-successor"}))

    machine.add_pod("web-0")
    machine.give(pod("web-0", container("main", devices(GPU, UUIDS[0]))))
    machine.kubelet.before_answer = change_hands
    machine.agent.step()
    assert machine.holders() == {}
    machine.agent.step()
    assert machine.holders() == {UUIDS[0]: [("uid-successor", "main", 1000)]}


def test_a_pod_that_has_ended_holds_nothing(machine):
    machine.add_pod("done", status={"phase": "Succeeded"})
    machine.give(pod("done", container("main", devices(GPU, UUIDS[0]))))
    machine.agent.step()
    assert machine.holders() == {}


def test_the_matrix_is_told_though_the_kubelet_does_not_answer(machine, caplog):
    machine.kubelet.stop()
    assert machine.agent.step()
    assert machine.annotation("holders") is None
    assert len(machine.annotation("matrix")["gpus"]) == 4
    assert "the kubelet does not answer on" in caplog.text
