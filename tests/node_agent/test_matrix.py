"""The matrix: what the agent writes of GPUs, links and MIG instances, and what the console reads of it."""

import pynvml
import pytest

from apps.node_agent.devices import DriverUnreachable
from apps.planner.inventory import MigInstance
from tests.node_agent.driver import Part
from tests.node_agent.machine import BUSES, LINKS, TOPO, UUIDS

PARTS = [
    Part("MIG-0c9d1111-2a3b-5c4d-8e6f-000000000001", "3g.40gb", 2, 4, 40192),
    Part("MIG-0c9d2222-2a3b-5c4d-8e6f-000000000002", "1g.10gb+me", 9, 0, 9728),
]


def test_the_console_reads_the_devices_and_links_that_the_agent_saw(machine):
    assert machine.agent.step()
    node = machine.read_by_console()
    assert [(gpu.index, gpu.uuid, gpu.bus_id, gpu.memory_mib) for gpu in node.gpus] == [
        (index, uuid, bus, 81559) for index, (uuid, bus) in enumerate(zip(UUIDS, BUSES, strict=True))
    ]
    assert all(gpu.healthy for gpu in node.gpus)
    assert [list(row) for row in node.topology.links] == LINKS
    assert node.topology.observed_at == machine.now.timestamp()
    assert node.topology.nics == (("mlx5_2", 0), ("mlx5_5", 1))
    assert node.topology.nic_links[0] == ("PXB", "SYS")
    assert node.topology.nic_links[3] == ("SYS", "NODE")


def test_numa_and_switch_come_from_sysfs_and_numa_from_the_tool_where_the_kernel_does_not_know(machine):
    machine.agent.step()
    gpus = machine.read_by_console().gpus
    assert [gpu.pcie_switch for gpu in gpus] == ["0000:1b:00.0", "0000:1b:00.0", None, None]
    assert [gpu.numa for gpu in gpus] == [0, 0, 1, 1]


def test_mig_instances_are_read_with_their_start_slices(machine):
    machine.library.cards[2].parts = PARTS
    machine.agent.step()
    instances = machine.read_by_console().gpus[2].instances
    assert set(instances) == {
        MigInstance("3g.40gb", 4, PARTS[0].uuid),
        MigInstance("1g.10gb+me", 0, PARTS[1].uuid),
    }


def test_a_start_slice_that_may_not_be_asked_is_unknown_and_said(machine, caplog):
    machine.library.cards[2].parts = PARTS
    machine.library.cards[2].fails["nvmlDeviceGetGpuInstanceById"] = pynvml.NVML_ERROR_NO_PERMISSION
    machine.agent.step()
    assert [one["start"] for one in machine.annotation("matrix")["mig"][UUIDS[2]]] == [None, None]
    assert "GPU 2 does not answer nvmlDeviceGetGpuInstanceById: Insufficient Permissions" in caplog.text


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Failed to initialize NVML: Unknown Error\n", 255),
        (TOPO.replace("GPU3\tSYS\tSYS\tNV12", "GPU3\tSYS"), 0),
        (TOPO.replace("GPU3", "GPU7"), 0),
    ],
    ids=["refused", "cut", "other-gpus"],
)
def test_without_a_whole_table_the_links_are_nvmls_own_and_nics_unknown(machine, caplog, text, code):
    machine.say_topo(text, code)
    for card, leads_to in zip(machine.library.cards, (1, 0, "switch", "switch"), strict=True):
        ends = leads_to if leads_to == "switch" else BUSES[leads_to]
        card.bonds = [ends] * (4 if leads_to == "switch" else 2)
    levels = {(0, 1): 30, (0, 2): 50, (0, 3): 50, (1, 2): 40, (1, 3): 20, (2, 3): 10}
    machine.library.levels = levels
    machine.agent.step()
    assert machine.annotation("matrix")["links"] == [
        ["X", "NV2", "SYS", "SYS"],
        ["NV2", "X", "NODE", "PXB"],
        ["SYS", "NODE", "X", "NV4"],
        ["SYS", "PXB", "NV4", "X"],
    ]
    assert machine.annotation("matrix")["source"] == "nvml"
    assert machine.read_by_console().topology.nics == ()
    assert "links are NVML's" in caplog.text


def test_a_lost_gpu_keeps_its_name_and_place_and_is_not_healthy(machine, caplog):
    machine.agent.step()
    machine.library.cards[1].fails["nvmlDeviceGetHandleByIndex"] = pynvml.NVML_ERROR_GPU_IS_LOST
    machine.library.levels = dict.fromkeys([(0, 2), (0, 3), (2, 3)], 50)
    machine.say_topo("Unable to determine the device handle for GPU 0000:1E:00.0: GPU is lost.\n", 15)
    assert machine.agent.step()
    node = machine.read_by_console()
    assert [gpu.healthy for gpu in node.gpus] == [True, False, True, True]
    assert node.gpus[1].uuid == UUIDS[1]
    assert node.topology.links[0] == ("X", "", "SYS", "SYS")
    assert "GPU 1 is lost" in caplog.text


def test_a_gpu_that_needs_a_reset_or_has_unmendable_memory_is_not_healthy(machine, caplog):
    machine.library.cards[0].fails["nvmlDeviceGetRemappedRows"] = pynvml.NVML_ERROR_RESET_REQUIRED
    machine.library.cards[3].rows_failed = True
    machine.agent.step()
    assert [gpu.healthy for gpu in machine.read_by_console().gpus] == [False, True, True, False]
    assert "GPU 0 needs a reset" in caplog.text
    assert "GPU 3 has memory rows that could not be replaced" in caplog.text


def test_the_driver_is_left_alone_while_the_gpus_are_cut_anew(machine, caplog):
    machine.api.ask(
        "PATCH",
        "/api/v1/nodes/node-a",
        {"metadata": {"labels": {"nvidia.com/mig.config.state": "pending"}}},
    )
    assert machine.agent.step()
    assert machine.library.opened == 0
    assert machine.annotation("matrix") is None
    assert machine.annotation("holders")["devices"] == {}
    assert "the driver is left alone" in caplog.text


def test_holders_are_told_though_the_driver_does_not_answer(machine, caplog):
    machine.library.refuses = pynvml.NVML_ERROR_UNKNOWN
    assert machine.agent.step()
    assert machine.annotation("matrix") is None
    assert machine.annotation("holders")["devices"] == {}
    assert "NVML cannot be opened: Unknown Error" in caplog.text


def test_a_driver_that_was_replaced_ends_the_program_so_that_its_container_is_made_anew(machine):
    machine.library.refuses = pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH
    with pytest.raises(DriverUnreachable) as caught:
        machine.agent.step()
    assert caught.value.needs_restart
