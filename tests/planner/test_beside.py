"""The measures beside FGD: linked groups, GPU memory, MIG memory slices, what of the queue could start."""

import json

import pytest

from apps.planner.fragmentation import measure, report_to_dict
from apps.planner.inventory import LinkClass, PodTerm
from tests.drawing import GPU, cluster, links, select, waiting
from tests.planner.mig.drawing import mig_cluster
from tests.planner.test_shared_rooms import held, on, share, shared


def told(snapshot) -> dict:
    return json.loads(json.dumps(report_to_dict(measure(snapshot), by_node=True)))


def test_linked_groups_add_up_over_nodes_pools_and_models():
    facts = {
        "a1": {"topology": links("aaaabbbb"), "pool": "train"},
        "a2": {"pool": "train"},
        "b1": {"pool": "serve", "model": "H100"},
    }
    report = told(cluster("a1 a.......\na2 ........\nb1 ..", nodes=facts))

    assert report["link_groups"]["nvlink"] == {"2": 1 + 2 + 4 + 1, "4": 1 + 2, "8": 1}
    assert report["link_groups"]["node"]["4"] == 1 + 2
    assert report["pools"]["train"]["link_groups"]["nvlink"] == {"2": 7, "4": 3, "8": 1}
    assert report["models"]["H100"]["link_groups"]["nvlink"] == {"2": 1, "4": 0, "8": 0}
    assert [node["link_groups"]["nvlink"]["4"] for node in report["nodes"]] == [1, 2, 0]


def test_nodes_whose_links_nobody_tells_are_counted_as_such():
    report = told(cluster("a1 ....\na2 a..", nodes={"a1": {"topology": None}}))

    assert report["links_unknown_nodes"] == 1
    assert report["link_groups"]["nvlink"]["2"] == 1


def test_nothing_may_start_on_a_cordoned_node_so_no_group_fits_there():
    ours = cluster("a1 ....", nodes={"a1": {"unschedulable": True, "cordon": "{}"}})

    assert measure(ours).idle_milli == 4000
    assert told(ours)["link_groups"]["node"]["4"] == 0


def test_memory_is_told_whole_partly_taken_and_too_small_for_any_share():
    node, guests = held(shared("s1", 3), ("a", 0, 0, 35_000), ("b", 1, 0, 10_000))
    report = told(on(node, *guests))

    assert report["gpu_memory"] | {"shares": None} == {
        "whole_mib": 40_000,
        "shared_mib": 5_000 + 30_000,
        "crumbs_mib": 5_000,
        "unknown_gpus": 0,
        "shares": None,
    }
    assert [(one["memory_mib"], one["wanted"], one["fit"]) for one in report["gpu_memory"]["shares"]] == [
        (10_000, 1, 0 + 3 + 4),
        (35_000, 1, 0 + 0 + 1),
    ]
    assert report["nodes"][0]["gpu_memory"]["shares_fit"] == [7, 1]


def test_units_of_the_node_limit_how_many_shares_fit():
    node = shared("s1", 1, allocatable={"cpu": 9000, "memory": 2**40, "pods": 9, GPU: 3}, shares_per_gpu=3)
    report = told(on(node, share("w", memory=1000)))

    assert report["gpu_memory"]["shares"][0]["fit"] == 3


def test_memory_that_nobody_tells_is_no_room_for_a_share_of_it():
    report = told(cluster("a1 ..", waiting("t/w", gpus=1, gpu_milli=0, gpu_memory_mib=500)))

    assert (report["gpu_memory"]["unknown_gpus"], report["gpu_memory"]["whole_mib"]) == (2, 0)
    assert report["gpu_memory"]["shares"][0]["fit"] == 0


def test_mig_is_told_by_memory_slice_and_start_slice():
    report = told(mig_cluster({"n1": ["1g@0 2g@2", "4g@0"], "n2": ["7g@0"]}))
    first, second = report["nodes"]

    assert report["mig"]["memory_slices"] == 24
    assert report["mig"]["uncut_by_start"] == {"1": 1, "4": 2, "5": 2, "6": 2, "7": 2}
    assert report["mig"]["more_fit_by_start"]["3g.20gb"] == {"4": 2}
    assert report["mig"]["more_fit_by_start"]["1g.5gb"] == {"1": 1, "4": 2, "5": 2, "6": 2}
    assert first["mig"]["uncut_memory_slices"] == 9
    assert second["mig"]["uncut_by_start"] == {}


@pytest.mark.parametrize(
    ("picture", "link", "pods", "nodes"),
    [
        ("a1 ....\na2 a...", None, 3, 2),
        ("a1 ....\na2 a...", LinkClass.NVLINK, 3, 2),
        ("a1 a...b...", LinkClass.NVLINK, 3, 1),
    ],
)
def test_what_waits_is_told_by_how_many_of_its_pods_could_start_now(picture, link, pods, nodes):
    (shape,) = told(cluster(picture, waiting("ml/train", gpus=2, count=5, link=link)))["startable"]

    assert (shape["gpus_per_pod"], shape["waiting_pods"], shape["startable_pods"], shape["nodes"]) == (
        2,
        5,
        pods,
        nodes,
    )
    assert (shape["workload"], shape["link"], shape["at_most"]) == ("train", str(link or ""), False)


def test_a_linked_shape_is_counted_by_groups_not_by_gpus():
    split = cluster(
        "a1 a..b..",
        waiting("ml/t", gpus=2, link=LinkClass.NVLINK),
        nodes={"a1": {"topology": links("aaabbb")}},
    )
    wide = cluster(
        "a1 ......",
        waiting("ml/t", gpus=2, link=LinkClass.NVLINK),
        nodes={"a1": {"topology": links("aaabbb")}},
    )

    assert told(split)["startable"][0]["startable_pods"] == 2
    assert told(wide)["startable"][0]["startable_pods"] == 2


def test_selectors_cpu_and_cordons_limit_what_could_start():
    def could_start(**facts) -> int:
        wishes = {"gpus": 1, "cpu": 50_000, **facts}
        snapshot = cluster("a1 ....\na2 ....", waiting("ml/t", **wishes), nodes={"a2": {"model": "T4"}})
        return told(snapshot)["startable"][0]["startable_pods"]

    assert could_start() == 4
    assert could_start(node_selector={"nvidia.com/gpu.product": "none"}) == 0
    assert could_start(scheduler="volcano") == 4


def test_rules_between_pods_make_the_number_an_upper_bound():
    term = PodTerm("kubernetes.io/hostname", select(app="t"), ("ml",))
    pods = waiting("ml/t", gpus=1, count=3, labels={"app": "t"}, pod_anti_affinity=(term,))
    (shape,) = told(cluster("a1 ....", pods))["startable"]

    assert (shape["startable_pods"], shape["at_most"]) == (4, True)


def test_shapes_come_in_the_order_of_the_queue():
    snapshot = cluster(
        "a1 ....",
        waiting("ml/low", gpus=1),
        waiting("ml/high", gpus=2, priority=5),
        waiting("ml/alike", gpus=1),
        waiting("ml/web", gpus=0),
    )
    shapes = told(snapshot)["startable"]

    assert [(one["workload"], one["waiting_pods"]) for one in shapes] == [("high", 1), ("alike", 2)]


def test_each_node_tells_its_causes():
    report = told(cluster("a1 7.\na2 ....aaaa", waiting("t/w", gpus=2)))

    for node in report["nodes"]:
        assert sum(node["by_cause"].values()) == pytest.approx(node["idle_milli"])
        lost = node["idle_milli"] - node["by_cause"]["usable"]
        assert node["fragmentation_milli"] == pytest.approx(lost)


def test_a_kept_report_does_without_the_measures_of_each_node():
    kept = report_to_dict(measure(cluster("a1 ..")))

    assert "link_groups" in kept
    assert set(kept["nodes"][0]) == {"name", "fragmentation_milli", "idle_milli", "worth"}
