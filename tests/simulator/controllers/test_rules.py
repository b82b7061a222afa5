"""The pure rules under the controllers: quantities, selectors, device groups, a Job's arithmetic."""

import pytest

from apps.simulator.controllers.kubelet.devices import DeviceLedger, DevicesUnavailable, choose_group
from apps.simulator.controllers.owners.job_rules import backoff_seconds, is_failed, wanted_pods
from apps.simulator.controllers.quantities import effective_requests, parse_quantity
from apps.simulator.controllers.selectors import find_untolerated, matches_node, matches_selector
from apps.simulator.hardware import MODELS, build_hardware, hardware_of
from apps.simulator.mig.setup import Setup


@pytest.mark.parametrize(
    ("text", "resource", "value"),
    [
        ("1", "cpu", 1000),
        ("250m", "cpu", 250),
        ("0.1", "cpu", 100),
        ("1.5Gi", "memory", 1610612736),
        ("128974848", "memory", 128974848),
        ("129M", "memory", 129000000),
        ("1k", "pods", 1000),
        ("8", "nvidia.com/gpu", 8),
    ],
)
def test_quantities(text, resource, value):
    assert parse_quantity(text, resource) == value


def test_a_quantity_that_is_none_names_itself():
    with pytest.raises(ValueError, match="'eight'"):
        parse_quantity("eight", "nvidia.com/gpu")


def container(cpu, **more):
    return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **more}


def test_effective_requests_count_sidecars_and_the_largest_init_step():
    spec = {
        "initContainers": [container("1", restartPolicy="Always"), container("4"), container("2")],
        "containers": [container("1"), container("1")],
        "overhead": {"cpu": "100m"},
    }
    assert effective_requests(spec)["cpu"] == 5100
    assert effective_requests({"containers": [container("2"), container("1")]})["cpu"] == 3000


def test_selectors_and_node_affinity():
    expression = [{"key": "a", "operator": "NotIn", "values": ["x"]}]
    assert matches_selector({"matchExpressions": expression}, {})
    assert matches_selector({}, {"b": "1"})
    assert not matches_selector(None, {"b": "1"})
    terms = [
        {"matchExpressions": [{"key": "n", "operator": "Gt", "values": ["5"]}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-x"]}]},
        {},
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    spec = {"affinity": {"nodeAffinity": required}}
    assert matches_node(spec, "other", {"n": "6"})
    assert matches_node(spec, "node-x", {})
    assert not matches_node(spec, "other", {"n": "5"})
    assert not matches_node({"nodeSelector": {"k": "v"}, **spec}, "node-x", {})


def test_tolerations():
    taint = {"key": "held", "value": "g", "effect": "NoSchedule"}
    effects = ("NoSchedule", "NoExecute")
    assert find_untolerated({}, [taint], effects) == taint
    assert find_untolerated({"tolerations": [{"operator": "Exists"}]}, [taint], effects) is None
    wrong = {"tolerations": [{"key": "held", "value": "other"}]}
    assert find_untolerated(wrong, [taint], effects) == taint
    assert find_untolerated({}, [{**taint, "effect": "PreferNoSchedule"}], effects) is None


def test_device_groups_keep_to_a_switch_then_to_a_numa_node_and_spare_the_emptier_one():
    l40s = build_hardware("n", MODELS["l40s"], 8)
    assert choose_group(l40s, [1, 2, 3, 6], 2) == (2, 3)
    assert choose_group(l40s, [0, 1, 3, 4, 5, 6, 7], 3) == (0, 1, 3)
    a100 = build_hardware("n", MODELS["a100-sxm4-80gb"], 8)
    assert choose_group(a100, [2, 4, 5, 6, 7], 1) == (2,)
    assert choose_group(a100, list(range(8)), 4) == (0, 1, 2, 3)


def test_a_ledger_refuses_without_taking_and_survives_a_restart():
    hardware = build_hardware("n", MODELS["h800"], 8)
    ledger = DeviceLedger(Setup(hardware))
    limits = {"resources": {"limits": {"nvidia.com/gpu": "5"}}}
    pod = {
        "metadata": {"namespace": "a", "name": "p", "uid": "u1"},
        "spec": {"containers": [{"name": "main", **limits}]},
    }
    assert ledger.allocate(pod)
    other = {**pod, "metadata": {"namespace": "a", "name": "q", "uid": "u2"}}
    with pytest.raises(DevicesUnavailable, match="Requested: 5, Available: 3"):
        ledger.allocate(other)
    assert len(ledger.free()) == 3
    again = DeviceLedger(Setup(hardware))
    again.adopt({"metadata": {"annotations": {"topology.gpu.internal/holders": ledger.to_annotation()}}})
    assert again.free() == ledger.free()
    assert again.release("u1")
    assert len(again.free()) == 8


def test_devices_keep_their_identity():
    node = {"metadata": {"name": "n", "annotations": {"sim.gpu.internal/hardware": "h800:8"}}}
    assert hardware_of(node) == build_hardware("n", MODELS["h800"], 8)
    assert len(set(hardware_of(node).uuids)) == 8


def test_the_arithmetic_of_a_job():
    assert [backoff_seconds(n) for n in (0, 1, 2, 20)] == [0, 10, 20, 600]
    job = {"spec": {"completions": 5, "parallelism": 3}}
    assert [wanted_pods(job, done, 0) for done in (0, 3, 5)] == [3, 2, 0]
    leaving = {"metadata": {"deletionTimestamp": "x"}, "status": {"phase": "Running"}}
    assert is_failed(job, leaving)
    assert not is_failed({"spec": {**job["spec"], "podReplacementPolicy": "Failed"}}, leaving)
