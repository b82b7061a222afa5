"""The hand cases of FGD, and the measures beside it."""

import json
import random

import pytest

from apps.planner.fragmentation import measure, report_to_dict
from apps.planner.inventory import LinkClass
from apps.planner.rooms import WHOLE, free_room
from apps.planner.trace import snapshot_from_rows, workload_from_rows
from apps.planner.workload import Spec, Workload, choose_workload, live_workload, spec_of
from tests.drawing import GIB, cluster, links, running, waiting

ONE = Spec(0, 1000, 1)


def wanted(*specs: tuple[Spec, int]) -> Workload:
    return Workload(specs)


def lost(drawing: str, *specs: tuple[Spec, int], **facts) -> float:
    return measure(cluster(drawing, **facts), wanted(*specs)).fragmentation_milli


def test_two_free_gpus_are_no_fragment_for_pods_of_one_gpu():
    assert lost("a1 ..", (ONE, 1)) == 0


def test_a_crumb_is_a_fragment_for_pods_of_one_gpu():
    assert lost("a1 7.", (ONE, 1)) == 300


def test_everything_is_a_fragment_where_two_whole_gpus_are_wanted():
    assert lost("a1 7.", (Spec(0, 1000, 2), 1)) == 1300


def test_everything_is_a_fragment_where_cpu_runs_short():
    assert lost("a1 7.", (Spec(200_000, 1000, 1), 1)) == 1300


def test_weights_count_how_often_a_shape_is_wanted():
    assert lost("a1 46.", (Spec(0, 500, 1), 3), (Spec(0, 1000, 2), 1)) == (3 * 400 + 2000) / 4


def test_a_fit_may_be_exact():
    assert lost("a1 5", (Spec(0, 500, 1), 1)) == 0
    assert lost("a1 .", (Spec(128_000, 1000, 1), 1)) == 0
    assert lost("a1 .", (Spec(128_001, 1000, 1), 1)) == 1000


def test_the_causes_add_up_to_what_is_idle():
    report = measure(
        cluster("a1 7.\na2 ....aaaa"),
        wanted(
            (ONE, 2),
            (Spec(200_000, 1000, 1), 3),
            (Spec(200_000, 1000, 8), 1),
            (Spec(1, 0, 0), 1),
            (Spec(1, 1000, 1, "H100"), 1),
        ),
    )

    assert sum(report.by_cause.values()) == pytest.approx(report.idle_milli)
    assert report.by_cause == pytest.approx(
        {
            "lacks_cpu": 3 * 5300 / 8,
            "lacks_gpu": 2 * 300 / 8,
            "lacks_both": 5300 / 8,
            "model_not_allowed": 5300 / 8,
            "cpu_only": 5300 / 8,
            "usable": 2 * 5000 / 8,
        }
    )
    assert report.ratio == pytest.approx(report.fragmentation_milli / 5300)


def test_a_full_cluster_has_ratio_zero():
    assert measure(cluster("a1 aabb"), wanted((ONE, 1))).ratio == 0


def test_nothing_wanted_is_said_and_not_divided_by():
    report = measure(cluster("a1 ...."))

    assert report.fragmentation_milli == 0
    assert "nothing is wanted" in report.warnings[0]


def test_a_node_that_is_not_ready_is_not_measured():
    assert (
        measure(cluster("a1 ..\na2 ..", nodes={"a2": {"ready": False}}), wanted((ONE, 1))).idle_milli == 2000
    )


def test_a_foreign_cordon_takes_a_node_out_and_ours_does_not():
    drawing, specs = "a1 ..\na2 ..", wanted((ONE, 1))
    foreign = cluster(drawing, nodes={"a2": {"unschedulable": True}})
    ours = cluster(drawing, nodes={"a2": {"unschedulable": True, "cordon": "{}"}})

    assert measure(foreign, specs).idle_milli == 2000
    assert measure(ours, specs).idle_milli == 4000


def test_a_broken_gpu_is_neither_idle_nor_capacity():
    report = measure(cluster("a1 .!.."), wanted((ONE, 1)))

    assert (report.idle_milli, report.total_milli) == (3000, 3000)


def test_a_node_that_offers_fewer_gpus_than_stand_in_it_has_no_more_idle():
    snapshot = cluster(
        "a1 aa..", nodes={"a1": {"allocatable": {"cpu": 9000, "memory": GIB, "nvidia.com/gpu": 3}}}
    )

    assert measure(snapshot, wanted((ONE, 1))).idle_milli == 1000


def test_the_workload_is_the_shortest_prefix_that_covers_95_percent():
    pods = [
        *waiting("a/big", gpus=8, count=2),
        *waiting("a/one", gpus=1, count=94),
        *waiting("a/cpu", gpus=0, count=4),
    ]

    workload = choose_workload(pods)

    assert [(spec.gpus, count) for spec, count in workload.specs] == [(1, 94), (0, 4)]


def test_equally_popular_specs_come_by_cpu_share_and_number_descending():
    pods = [*waiting("a/x", gpus=1, cpu=10), *waiting("a/y", gpus=2, cpu=10), *waiting("a/z", gpus=1, cpu=20)]

    assert [(spec.cpu, spec.gpus) for spec, _ in choose_workload(pods).specs] == [(20, 1), (10, 2), (10, 1)]


def test_the_live_workload_leaves_out_daemonsets_finished_pods_and_holds():
    snapshot = cluster(
        "a1 ab..",
        waiting("t/w", gpus=1),
        extra=[
            running("agent", "a1", owner_kind="DaemonSet"),
            running("done", "a1", phase="Succeeded"),
            running("hold", "", phase="Pending", hold=True),
        ],
    )

    assert live_workload(snapshot).weight_total == 3


def test_the_models_a_pod_names_in_selector_or_affinity_are_its_allowed_models():
    chosen = waiting("t/w", gpus=1, node_selector={"nvidia.com/gpu.product": "H100"})[0]

    assert spec_of(chosen).models == "H100"


def test_allowed_models_are_taken_as_the_pod_names_them():
    rows = [{"name": f"p{n}", "cpu_milli": "1000", "memory_mib": "1", "num_gpu": "1", "gpu_milli": "1000",
             "gpu_spec": models} for n, models in enumerate(["V100|T4", "V100|T4|T4"])]  # fmt: skip

    specs = [spec for spec, _ in choose_workload(workload_from_rows(rows)).specs]

    assert {spec.models for spec in specs} == {"V100|T4", "V100|T4|T4"}


def test_free_nodes_count_by_size_and_cpu_pods_do_not_matter():
    snapshot = cluster(
        "a1 ........\na2 ....\na3 a...\na4 ....\na5 ....",
        nodes={"a4": {"unschedulable": True}, "a5": {"ready": False}},
        extra=[running("web", "a1")],
    )

    assert measure(snapshot).free_nodes == {"8": 1, "4": 1}


def test_the_largest_gang_asks_for_linked_groups_where_links_are_known():
    drawing = "a1 ........\na2 ........\na3 a......."
    linked = measure(cluster(drawing)).largest_gang
    halves = measure(cluster(drawing, nodes={"a2": {"topology": links("aaaabbbb")}})).largest_gang
    unknown = measure(cluster(drawing, nodes={name: {"topology": None} for name in ("a1", "a2", "a3")}))

    assert (linked.gpus_per_pod, linked.link, linked.pods) == (8, LinkClass.NVLINK, 2)
    assert halves.pods == 1
    assert (unknown.largest_gang.link, unknown.largest_gang.pods) == (LinkClass.UNKNOWN, 2)


def test_what_no_waiting_shape_can_use_is_stranded():
    drawing = "a1 a.......\na2 ........"

    queued, quiet = measure(cluster(drawing, waiting("t/w", gpus=8))), measure(cluster(drawing))
    assert (queued.stranded_gpus, queued.stranded_by) == (7, "waiting")
    assert (quiet.stranded_gpus, quiet.stranded_by) == (0, "wanted")
    assert {part.stranded_by for part in queued.parts.by_model.values()} == {"waiting"}


def test_a_node_is_worth_more_the_more_is_free_and_the_fewer_pods_stand_in_the_way():
    report = measure(cluster("a1 a.......\na2 bcde....\na3 A.......\na4 ffffffff"))

    assert {node.name: node.worth for node in report.nodes} == {"a1": 7, "a2": 1, "a3": 0, "a4": 0}


def test_the_answer_is_json_with_the_promised_keys():
    answer = json.loads(json.dumps(report_to_dict(measure(cluster("a1 ab..")))))

    assert {"fragmentation_milli", "idle_milli", "ratio", "by_cause", "nodes", "free_nodes"} <= set(answer)
    assert set(answer["largest_gang"]) == {"gpus_per_pod", "link", "pods"}


def test_the_measure_agrees_with_the_definition_read_aloud():
    """An independent, slow reading of the definition on random clusters, to the last integer."""
    draw = random.Random(3)
    for _ in range(40):
        snapshot, workload = _random_case(draw)
        numerator = 0
        for room in free_room(snapshot).by_node.values():
            idle = sum(room.gpu_left)
            for spec, count in workload.specs:
                enough = [left for left in room.gpu_left if left >= spec.milli]
                fits = len(enough) >= spec.gpus and room.left["cpu"] >= spec.cpu and spec.allows(room.node)
                crumbs = sum(left for left in room.gpu_left if left < spec.milli)
                numerator += count * (crumbs if spec.gpus and fits else idle)
        assert measure(snapshot, workload).numerator == numerator


def _random_case(draw: random.Random):
    nodes = [
        {"sn": f"n{at}", "cpu_milli": "64000", "memory_mib": "1000", "gpu": str(draw.choice([1, 2, 4, 8])),
         "model": draw.choice(["A", "B"])}
        for at in range(6)
    ]  # fmt: skip
    pods, left = [], {node["sn"]: [WHOLE] * int(node["gpu"]) for node in nodes}
    for number in range(25):
        name, milli = draw.choice(nodes)["sn"], draw.choice([100, 250, 500, 1000])
        place = next((at for at, have in enumerate(left[name]) if have >= milli), None)
        if place is None:
            continue
        left[name][place] -= milli
        held = {"num_gpu": "1", "gpu_milli": str(milli), "gpu_spec": draw.choice(["", "A", "A|B"])}
        body = {"name": f"p{number}", "cpu_milli": str(draw.choice([1000, 9000])), "memory_mib": "1"}
        pods.append({**body, **held, "node": name, "gpus": str(place)})
    snapshot = snapshot_from_rows(nodes, pods)
    return snapshot, live_workload(snapshot)
