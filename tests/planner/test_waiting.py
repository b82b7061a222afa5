"""Why something waits, in one sentence."""

from dataclasses import replace

import pytest

from apps.planner.constraints import explain_pending
from apps.planner.defrag import plan_unlock
from apps.planner.fitting import Reason
from apps.planner.inventory import PodTerm, Taint
from tests.drawing import NVLINK, cluster, running, select, waiting
from tests.planner.test_unlock import MAIN_STORY


def explain(drawing, *groups, **facts):
    return explain_pending(cluster(drawing, *groups, **facts))


def only(drawing, *groups, **facts):
    (found,) = explain(drawing, *groups, **facts)
    return found


def test_gpus_lie_scattered():
    found = only(MAIN_STORY, waiting("ml/train", gpus=8, count=3, link=NVLINK))

    assert found.sentence == "25 A100s are free, the best node has 5."
    assert (found.reason_code, found.gpus_per_pod, len(found.pods), found.link) == (
        "gpus-scattered",
        8,
        3,
        "nvlink",
    )
    assert (found.free_gpus, found.best_node_free, found.nodes_that_fit) == (25, 5, 0)
    assert found.node_counts[Reason.GPU] == 12


def test_too_few_gpus_are_free_at_all():
    found = only("a1 aaa.\na2 aaaa", waiting("ml/train", gpus=4))

    assert (found.reason_code, found.sentence) == ("not-enough-gpus", "It wants 4 A100s, 1 is free.")


def test_what_no_node_could_hold_is_told_so_first_and_needs_no_search():
    seen = cluster("a1 ....\na2 aaaa", waiting("ml/train", gpus=16))
    (found,) = explain_pending(seen)
    assert (found.reason_code, found.sentence) == ("too-large", "No node has 16 GPUs; the largest has 4.")
    plan = plan_unlock(seen, workload="ml/train", max_moves=50, deadline=lambda: False)
    assert plan.sentence == found.sentence

    closed = {"a1": {"unschedulable": True}}
    found = only("a1 ........\na2 aaaa", waiting("ml/train", gpus=8), nodes=closed)
    assert found.sentence == "No node that it may use has 8 GPUs; the largest has 4."


def test_what_is_free_on_nodes_that_it_may_not_use_is_not_passed_off_as_all():
    kept = {"a3": {"taints": (Taint("gpu"),)}}
    found = only("a1 aaa.\na2 aaa.\na3 ....", waiting("ml/train", gpus=2), nodes=kept)
    assert (found.free_gpus, found.free_elsewhere) == (2, 4)
    closed = {"a3": {"unschedulable": True}}
    found = only("a1 aaa.\na2 aaa.\na3 ....", waiting("ml/train", gpus=2), nodes=closed)
    assert found.sentence == "2 A100s are free, the best node has 1."
    found = only("a1 aaa.\na2 aaa.\na3 ....", waiting("ml/train", gpus=2), nodes=kept)
    assert found.sentence == "2 A100s are free on nodes that it may use, the best node has 1."


def test_a_gang_finds_room_for_some_members_only():
    found = only("a1 ....\na2 aaa.\na3 b...", waiting("ml/train", gpus=4, count=2))

    assert found.reason_code == "gpus-scattered"
    assert found.sentence == (
        "8 A100s are free, but only 1 node has room for a member; the gang needs room for 2 at once."
    )


def test_what_fits_waits_for_the_scheduler():
    found = only("a1 ....", waiting("ml/train", gpus=2, count=2))

    assert (found.reason_code, found.nodes_that_fit) == ("fits", 1)


def test_two_members_that_each_fit_may_not_fit_together():
    found = only("a1 ....\na2 aa..", waiting("ml/train", gpus=3, count=2))
    assert (found.reason_code, found.never) == ("gpus-scattered", False)


def test_links_missing_and_links_unknown_are_two_reasons():
    gang = waiting("ml/train", gpus=2, link=NVLINK)
    split = {"a1": {"topology": None}}

    assert only("a1 ....", gang, nodes=split).reason_code == "link-unknown"
    assert "links are not known" in only("a1 ....", gang, nodes=split).sentence


def test_cpu_taint_selector_and_cordon_have_their_own_codes():
    def code(**facts):
        nodes = facts.pop("nodes", None)
        return only("a1 ....\na2 ....", waiting("ml/train", gpus=1, **facts), nodes=nodes).reason_code

    both = {name: {"taints": (Taint("gpu"),)} for name in ("a1", "a2")}
    cordoned = {name: {"unschedulable": True} for name in ("a1", "a2")}

    assert code(cpu=500_000) == "cpu"
    assert code(memory=2**50) == "memory"
    assert code(node_selector={"zone": "gone"}) == "node-selector"
    assert code(nodes=both) == "taint"
    assert code(nodes=cordoned) == "cordoned"
    assert code(scheduler="volcano") == "other-scheduler"


def test_devices_by_claims_are_named_and_never_said_to_fit():
    found = only("a1 ....", waiting("ml/train", gpus=0, claim_wishes=("2 of gpu.example.com",)))
    assert (found.reason_code, found.nodes_that_fit) == ("resource-claims", 0)
    assert "It wants 2 of gpu.example.com, devices by resource claims" in found.sentence


def test_a_selector_that_names_a_removed_node_is_explained():
    found = only("a1 ....", waiting("ml/train", gpus=1, node_selector={"kubernetes.io/hostname": "gone"}))

    assert found.sentence == "No node has the label kubernetes.io/hostname=gone that its selector asks for."


def test_gates_and_missing_members_come_before_room():
    gated = only("a1 ....", waiting("ml/train", gpus=1, gates=("kueue.x-k8s.io/admission",)))

    assert (gated.reason_code, gated.sentence) == (
        "gated",
        "It waits behind the scheduling gate kueue.x-k8s.io/admission.",
    )


def test_the_queue_is_by_priority_then_age_and_holds_of_ours_do_not_wait():
    found = explain(
        "a1 aaaa",
        waiting("ml/young", gpus=1, created_at=9.0),
        waiting("ml/old", gpus=1, created_at=1.0),
        waiting("ml/high", gpus=1, created_at=5.0, priority=7),
        extra=[running("paper", "", phase="Pending", gpus=1, hold=True)],
    )

    assert [one.key for one in found] == ["ml/high", "ml/old", "ml/young"]
    assert [one.since for one in found] == [5.0, 1.0, 9.0]


def test_a_cluster_without_nodes_is_said():
    snapshot = cluster("a1 ....", waiting("ml/train", gpus=1))
    assert explain_pending(replace(snapshot, nodes={}))[0].reason_code == "no-nodes"


def test_counts_name_every_reason_of_every_node():
    nodes = {"a1": {"unschedulable": True}, "a2": {"taints": (Taint("x"),)}}
    found = only("a1 aaaa\na2 ....\na3 aaaa", waiting("ml/train", gpus=1), nodes=nodes)

    assert found.node_counts == {Reason.GPU: 2, Reason.CORDONED: 1, Reason.TAINT: 1}


def test_one_workload_alone_can_be_asked_about_and_reads_the_same():
    snapshot = cluster("a1 aaaa\na2 bb..", waiting("ml/train", gpus=4), waiting("ml/other", gpus=2))
    whole = {one.key: one for one in explain_pending(snapshot)}

    assert explain_pending(snapshot, only="ml/train") == (whole["ml/train"],)


def test_a_rule_of_a_pod_that_shuns_others_keeps_only_those_it_speaks_of():
    shy = running("shy", "a1", pod_anti_affinity=(PodTerm("kubernetes.io/hostname", select(app="web")),))
    groups = [waiting("team/web", gpus=1, labels={"app": "web"}), waiting("team/db", gpus=1)]
    db, web = explain("a1 ....", *groups, extra=[shy])

    assert (web.reason_code, db.reason_code) == ("pod-affinity", "fits")


def test_a_pod_that_wants_mig_instances_is_told_how_many_of_them_are_free():
    (pod,) = waiting("ml/serve", gpus=0)
    pod = replace(pod, requests={**pod.requests, "nvidia.com/mig-1g.5gb": 2})
    host = {"cpu": 64_000, "memory": 2**40, "pods": 110}
    found = only("a1 .\na2 .", [pod], nodes={"a1": {"allocatable": {**host, "nvidia.com/mig-1g.5gb": 1}}})

    assert (found.reason_code, found.profiles) == ("mig", {"1g.5gb": 2})
    assert found.sentence == "It wants 2 x 1g.5gb (1 of 1 free)."
    assert found.node_counts[Reason.MIG] == 2
    pod = replace(pod, requests={"cpu": 1000, "nvidia.com/mig-1g.10gb": 2})
    assert only("a1 .", [pod]).sentence == "It wants 2 x 1g.10gb (no open node offers any)."


@pytest.mark.parametrize(("pods", "is_never"), [(2, False), (3, True)])
def test_a_gang_for_mig_instances_can_start_once_gpus_are_cut_for_it(pods, is_never):
    """An A100 of 80 GB holds two of these, whether it is cut so now or not."""
    gang = [
        replace(pod, requests={"cpu": 1000, "nvidia.com/mig-3g.40gb": 1})
        for pod in waiting("ml/serve", gpus=0, count=pods)
    ]
    found = only("a1 .", gang)
    assert (found.reason_code == "gang-too-large", bool(found.never)) == (is_never, is_never)
