"""Queue objects of every controller become the same facts, and absent or odd fields do no harm."""

import json

from apps.kube.gateway import (
    CLUSTER_QUEUES,
    COHORTS,
    ELASTIC_QUOTAS,
    FLAVORS,
    KAI_QUEUES,
    LOCAL_QUEUES,
    QUEUED_WORKLOADS,
    QUOTAS,
    VOLCANO_QUEUES,
)
from apps.kube.object_store import KeptObject
from apps.kube.translate import build_snapshot
from apps.kube.trimming import trim_object
from apps.planner.queues import Admission, Share
from tests.kube.queue_objects import (
    GPU,
    cluster_queue,
    flavor,
    kai_queue,
    kueue_workload,
    local_queue,
    volcano_queue,
)


def read(**objects):
    return build_snapshot("c1", {KINDS[name]: found for name, found in objects.items()}, taken_at=10.0)


KINDS = {
    "cluster_queues": CLUSTER_QUEUES,
    "cohorts": COHORTS,
    "local_queues": LOCAL_QUEUES,
    "flavors": FLAVORS,
    "workloads": QUEUED_WORKLOADS,
    "kai": KAI_QUEUES,
    "volcano": VOLCANO_QUEUES,
    "elastic": ELASTIC_QUOTAS,
    "quotas": QUOTAS,
}


def test_the_cohort_is_read_under_its_name_in_every_version():
    for api in ("v1beta1", "v1beta2"):
        found = read(
            cluster_queues=[
                cluster_queue(api=api, cohort="all", quota=112, borrowing=8, lending=4, used=100)
            ],
            local_queues=[local_queue()],
        )
        queue = found.queues["Kueue/team-a"]
        assert queue.parent == "Kueue/cohort/all"
        assert found.queues["Kueue/cohort/all"].kind == "Cohort"  # named alone, without an object
        assert queue.shares == (Share("default", GPU, 112, 100, most_borrowed=8, most_lent=4),)
        assert queue.namespaces == ("team-a",)


def test_without_a_cohort_nothing_can_be_borrowed():
    (share,) = read(cluster_queues=[cluster_queue(used=120)]).queues["Kueue/team-a"].shares
    assert (share.limit, share.borrowed) == (112, 8)


def test_a_stopped_queue_says_why():
    stopped = read(cluster_queues=[cluster_queue(stop="HoldAndDrain")]).queues["Kueue/team-a"].stopped
    assert stopped == "its stopPolicy is HoldAndDrain"
    missing = {"status": "False", "reason": "FlavorNotFound", "message": "references missing a100"}
    told = read(cluster_queues=[cluster_queue(active=missing)]).queues["Kueue/team-a"].stopped
    assert told == "Kueue calls it inactive (FlavorNotFound: references missing a100)"


def test_a_workload_that_waits_tells_its_shape_without_pods():
    waits = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": "24 more needed"}
    found = read(workloads=[kueue_workload(priority=7, conditions=[waits])])
    one = found.queued["team-a/job-llama"]
    assert (one.state, one.reason, one.message) == (Admission.WAITING, "Pending", "24 more needed")
    assert (one.entrance, one.owner_kind, one.owners) == ("team-a/train", "Job", ("uid-llama",))
    (pods,) = one.pod_sets
    assert (pods.count, pods.pod.requests[GPU], pods.pod.priority) == (3, 8, 7)
    assert found.pods == {}  # nobody has made them


def test_an_admitted_workload_tells_what_it_holds():
    one = read(workloads=[kueue_workload(admitted_by="team-a")]).queued["team-a/job-llama"]
    assert (one.state, one.queue) == (Admission.ADMITTED, "Kueue/team-a")
    assert one.held == (("default", GPU, 24.0),)


def test_what_is_kept_of_a_workload_holds_no_environment():
    kept = trim_object(QUEUED_WORKLOADS, kueue_workload())
    assert "hidden" not in json.dumps(kept)
    again = read(workloads=[KeptObject(kept)]).queued["team-a/job-llama"]
    assert again.pod_sets[0].pod.requests == {GPU: 8, "cpu": 4000}


def test_flavors_tell_their_nodes():
    taint = {"key": "spot", "value": "yes", "effect": "NoSchedule"}
    found = read(flavors=[flavor("a100", nodeLabels={"gpu": "a100"}, nodeTaints=[taint])]).flavors["a100"]
    assert (found.labels, found.taints[0].key) == ({"gpu": "a100"}, "spot")


def test_minus_one_is_no_bound_to_kai():
    found = read(
        kai=[
            kai_queue("root", quota=-1, limit=-1),
            kai_queue("research", parent="root", used="3500m", quota=4, limit=6, overQuotaWeight=2),
        ]
    ).queues
    assert found["KAI/root"].shares[0].quota is None
    assert found["KAI/research"].parent == "KAI/root"
    share = found["KAI/research"].shares[0]
    assert (share.quota, share.limit, share.used, share.weight) == (4, 6, 3.5, 2)


def test_volcanos_capability_bounds_and_its_deserved_share_is_the_quota():
    queue = read(
        volcano=[volcano_queue(used=5, capability={GPU: "8"}, deserved={GPU: 4}, dequeueStrategy="fifo")]
    ).queues["Volcano/batch"]
    assert (queue.shares[0].quota, queue.shares[0].limit, queue.shares[0].borrowed) == (4, 8, 1)
    assert (queue.is_strict, queue.stopped, queue.admitted) == (True, "", 2)
    closed = read(volcano=[volcano_queue(state="Closed")]).queues["Volcano/batch"]
    assert closed.stopped == "its state is Closed"
    assert closed.shares[0].quota is None


def test_quotas_of_namespaces_are_kept_where_they_bound_devices():
    quota = {
        "metadata": {"name": "gpus", "namespace": "team-a", "uid": "q1"},
        "spec": {"hard": {"requests.nvidia.com/gpu": "16", "pods": "50"}},
        "status": {"hard": {"requests.nvidia.com/gpu": "16"}, "used": {"requests.nvidia.com/gpu": "12"}},
    }
    plain = {
        "metadata": {"name": "pods", "namespace": "team-a", "uid": "q2"},
        "spec": {"hard": {"pods": "5"}},
    }
    elastic = {
        "metadata": {"name": "share", "namespace": "team-b", "uid": "e1"},
        "spec": {"min": {GPU: 4}, "max": {GPU: 8}},
        "status": {"used": {GPU: 6}},
    }
    found = read(quotas=[quota, plain], elastic=[elastic]).queues
    assert sorted(found) == ["Kubernetes/team-a/gpus", "scheduler-plugins/team-b/share"]
    assert found["Kubernetes/team-a/gpus"].shares == (Share("", GPU, 16, 12, most_borrowed=0),)
    assert found["scheduler-plugins/team-b/share"].shares[0].borrowed == 2


def test_odd_objects_are_told_and_do_no_harm():
    odd = cluster_queue(quota="many")
    found = read(
        cluster_queues=[odd, {"metadata": None, "spec": []}],
        workloads=[kueue_workload(status={"conditions": "none", "admission": 5})],
        kai=[kai_queue(quota="x", limit=None)],
    )
    assert "cannot be read" in found.queues["Kueue/team-a"].warnings[0]
    assert found.queued["team-a/job-llama"].state == Admission.WAITING
