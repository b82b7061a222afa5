"""The small Kueue's arithmetic: quota, borrowing, flavors, what holds it."""

import pytest

from apps.simulator.controllers.kueue.admitting import Books, is_waiting

GPU = "nvidia.com/gpu"


def queue(name, quota, *, cohort="", limit=None, flavors=("a100",), stop="None"):
    share = {"name": GPU, "nominalQuota": quota} | ({"borrowingLimit": limit} if limit is not None else {})
    group = {"coveredResources": [GPU], "flavors": [{"name": one, "resources": [share]} for one in flavors]}
    spec = {"resourceGroups": [group], "stopPolicy": stop} | ({"cohort": cohort} if cohort else {})
    return {"metadata": {"name": name}, "spec": spec}


def workload(gpus, *, pods=1, admitted_by=""):
    container = {"resources": {"limits": {GPU: str(gpus)}}}
    status = {}
    if admitted_by:
        assigned = {"flavors": {GPU: "a100"}, "resourceUsage": {GPU: str(gpus * pods)}}
        status = {
            "conditions": [{"type": "QuotaReserved", "status": "True"}],
            "admission": {"clusterQueue": admitted_by, "podSetAssignments": [assigned]},
        }
    pod_set = {"name": "main", "count": pods, "template": {"spec": {"containers": [container]}}}
    return {"metadata": {"name": "w", "namespace": "ml"}, "spec": {"podSets": [pod_set]}, "status": status}


@pytest.mark.parametrize(("gpus", "why"), [(8, ""), (9, "1 more needed")])
def test_what_is_left_of_the_quota_is_given_and_no_more(gpus, why):
    books = Books([queue("a", 24)], [workload(8, pods=2, admitted_by="a")], ["a100"])
    assigned, said = books.assign("a", workload(gpus))
    assert (assigned is not None) is not bool(why)
    assert said.endswith(why)


@pytest.mark.parametrize(("limit", "fits"), [(None, True), (15, False)])
def test_a_cohort_lends_within_the_limit(limit, fits):
    books = Books([queue("a", 8, cohort="c", limit=limit), queue("b", 16, cohort="c")], [], ["a100"])
    assert (books.assign("a", workload(8, pods=3))[0] is not None) is fits


def test_the_next_flavor_is_tried_and_a_missing_one_makes_the_queue_inactive():
    queues = [queue("a", 8, flavors=("a100", "h100"))]
    books = Books(queues, [workload(8, admitted_by="a")], ["a100", "h100"])
    assert books.assign("a", workload(8))[0].flavors == {"main": {GPU: "h100"}}
    assert books.why_inactive("a") == ("", "")
    assert Books(queues, [], ["a100"]).why_inactive("a")[0] == "FlavorNotFound"
    assert Books([queue("a", 8, stop="Hold")], [], ["a100"]).why_inactive("a")[0] == "Stopped"


def test_what_holds_quota_or_is_switched_off_does_not_wait():
    assert is_waiting(workload(1))
    assert not is_waiting(workload(1, admitted_by="a"))
    off = workload(1)
    off["spec"]["active"] = False
    assert not is_waiting(off)
