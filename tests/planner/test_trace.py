import pytest

from apps.planner.trace import snapshot_from_rows, workload_from_rows

NODE = {"sn": "n1", "cpu_milli": "64000", "memory_mib": "1024", "gpu": "2", "model": "V100"}
POD = {
    "name": "p1", "cpu_milli": "4000", "memory_mib": "16", "num_gpu": "1", "gpu_milli": "500",
    "gpu_spec": "V100|T4", "node": "n1", "gpus": "1",
}  # fmt: skip


def test_rows_become_nodes_pods_and_the_devices_they_hold():
    snapshot = snapshot_from_rows([NODE], [POD, {**POD, "name": "p2", "node": "", "gpus": ""}])

    node, pod = snapshot.nodes["n1"], snapshot.pods["pod-p1"]
    assert (node.model, node.allocatable["cpu"], node.allocatable["nvidia.com/gpu"]) == ("V100", 64000, 2)
    assert [(one.device, one.milli) for one in node.holdings] == [("GPU-n1-1", 500)]
    assert pod.node_terms[0].labels[0].values == ("V100", "T4")
    assert [one.name for one in snapshot.pending_pods] == ["p2"]


def test_several_gpus_are_separated_by_semicolons():
    snapshot = snapshot_from_rows([NODE], [{**POD, "num_gpu": "2", "gpu_milli": "1000", "gpus": "0;1"}])

    assert {one.device for one in snapshot.nodes["n1"].holdings} == {"GPU-n1-0", "GPU-n1-1"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"node": "n9"}, "line 2: there is no node 'n9'"),
        ({"gpus": "0;1"}, "line 2: 1 different GPUs are asked for"),
        ({"gpus": "7"}, "line 2: n1 has GPUs 0 to 1"),
        ({"gpus": "x"}, "line 2: gpus must be indexes"),
        ({"gpu_milli": "0"}, "line 2: gpu_milli must be 1 to 1000"),
        ({"cpu_milli": "many"}, "line 2: cpu_milli must be a number"),
        ({"cpu_milli": "-1"}, "line 2: cpu_milli must not be negative"),
        ({"memory_mib": "inf"}, "line 2: memory_mib must be a number"),
        ({"name": ""}, "line 2: column 'name' is missing"),
    ],
)
def test_a_bad_row_is_named_with_its_line(change, words):
    with pytest.raises(ValueError, match=words):
        snapshot_from_rows([NODE], [{**POD, **change}])


def test_a_name_may_appear_once_only():
    with pytest.raises(ValueError, match="'n1' appears twice"):
        snapshot_from_rows([NODE, NODE], [])
    with pytest.raises(ValueError, match="line 3: 'p1' appears twice"):
        snapshot_from_rows([NODE], [POD, POD])


def test_a_target_workload_needs_no_placement():
    assert [pod.gpu_milli for pod in workload_from_rows([POD])] == [500]
