"""`make_plan --goal mig` and `measure` on dumps, from annotations to the answer."""

import json

import pytest
from django.core.management import call_command

from apps.planner.mig.measuring import measure_mig
from tests.planner.mig.drawing import mig_cluster

NODE_LABELS = {
    "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB",
    "nvidia.com/gpu.count": "2",
    "nvidia.com/gpu.memory": "40960",
    "nvidia.com/mig.strategy": "mixed",
    "nvidia.com/mig.capable": "true",
}
LAYOUTS = {
    "GPU-0": [("1g.5gb", 0, "MIG-a"), ("1g.5gb", 1, "MIG-b"), ("1g.5gb", 5, "MIG-c")],
    "GPU-1": [("3g.20gb", 0, "MIG-d")],
}


def node():
    matrix = {
        "version": 1,
        "observed_at": "2026-01-01T00:00:00Z",
        "source": "nvml",
        "gpus": [{"index": at, "uuid": uuid} for at, uuid in enumerate(LAYOUTS)],
        "links": [["X", "NV12"], ["NV12", "X"]],
        "nics": [],
        "nic_links": [],
        "mig": {
            gpu: [{"profile": profile, "start": start, "uuid": uuid} for profile, start, uuid in layout]
            for gpu, layout in LAYOUTS.items()
        },
    }
    holders = {
        "version": 1,
        "observed_at": "2026-01-01T00:00:00Z",
        "devices": {"MIG-d": [{"namespace": "team", "pod": "runs", "uid": "uid-runs", "milli": 1000}]},
    }
    offered = {"cpu": "8", "memory": "64Gi", "pods": "110", "nvidia.com/gpu": "0"}
    offered |= {"nvidia.com/mig-1g.5gb": "3", "nvidia.com/mig-3g.20gb": "1"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": "n1",
            "uid": "uid-n1",
            "labels": NODE_LABELS,
            "annotations": {
                "topology.gpu.internal/matrix": json.dumps(matrix),
                "topology.gpu.internal/holders": json.dumps(holders),
            },
        },
        "status": {
            "allocatable": offered,
            "capacity": offered,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def pod(name, profile, node_name="", phase="Pending"):
    asked = {"cpu": "1", "memory": "1Gi", f"nvidia.com/mig-{profile}": "1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}"},
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [{"name": "c", "resources": {"requests": asked, "limits": asked}}],
            **({"nodeName": node_name} if node_name else {}),
        },
        "status": {"phase": phase},
    }


@pytest.fixture
def dump(tmp_path):
    items = [node(), pod("runs", "3g.20gb", "n1", "Running"), pod("big", "4g.20gb"), pod("two", "2g.10gb")]
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return str(path)


def test_make_plan_relays_the_idle_gpu_of_a_dump(dump, capfd):
    call_command("make_plan", dump, goal="mig", max_moves=5, json=True)
    plan = json.loads(capfd.readouterr().out)

    assert plan["goal"] == "mig"
    assert plan["unlocked"] == ["team/big", "team/two"]
    cut = plan["reconfigurations"][0]
    assert (cut["node"], cut["gpu"], cut["from"]) == ("n1", "GPU-0", {"1g.5gb": 3})
    assert cut["to"]["4g.20gb"] == 1
    assert cut["to"]["2g.10gb"] >= 1
    assert (plan["lower_bound"], plan["gap"], plan["proven_optimal"]) == (1.0, 0.0, True)


def test_make_plan_tells_it_in_words(dump, capfd):
    call_command("make_plan", dump, goal="mig", max_moves=5)
    text = capfd.readouterr().out
    assert "Relaying 1 GPU makes room for 2 waiting pods." in text
    assert "relay before the moves: n1 GPU 0  3 x 1g.5gb -> " in text


def test_measure_counts_by_start_slice_what_still_fits(dump, capfd):
    call_command("measure", dump, json=True)
    mig = json.loads(capfd.readouterr().out)["mig"]

    assert mig["idle"] == {"1g.5gb": 3}
    assert (mig["memory_slices"], mig["uncut_memory_slices"]) == (16, 9)
    first, second = (gpu["more_fit"] for gpu in mig["gpus"])
    assert (first["2g.10gb"], first["3g.20gb"], first["1g.5gb"]) == (1, 0, 4)
    assert (second["3g.20gb"], second["4g.20gb"], second["7g.40gb"]) == (1, 0, 0)
    assert mig["more_fit"]["2g.10gb"] == first["2g.10gb"] + second["2g.10gb"]
    assert mig["warnings"] == []


def test_measure_tells_it_in_words(dump, capfd):
    call_command("measure", dump)
    assert "MIG: 9 of 16 memory slices uncut; idle: 3 x 1g.5gb" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("drawn", "facts", "word"),
    [
        (["3g@2"], {}, "cannot start at memory slice 2"),
        (["1g@0"], {"model": "T4"}, "No MIG placement table"),
    ],
)
def test_what_cannot_be_measured_is_said(drawn, facts, word):
    report = measure_mig(mig_cluster({"n1": drawn}, facts={"n1": facts}))
    assert report.gpus == []
    assert word in report.warnings[0]
