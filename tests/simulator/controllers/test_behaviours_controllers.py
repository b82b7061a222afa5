"""What controllers and the scheduler do by themselves: behaviours of a whole cluster, by their numbers."""

import pytest

from tests.simulator.api_server.conftest import REAL, deployment
from tests.simulator.controllers.whole_cluster import (
    RealWhole,
    SimulatedWhole,
    Whole,
    condition_of,
    taints_of,
)

CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
PATIENCE = [
    {
        "key": f"node.kubernetes.io/{key}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 5,
    }
    for key in ("unreachable", "not-ready")
]


@pytest.fixture(scope="module", params=["simulated", REAL])
def cluster(request, tmp_path_factory):
    """Three nodes of eight GPUs."""
    real = request.param == "real"
    cluster = RealWhole(tmp_path_factory.mktemp("whole")) if real else SimulatedWhole()
    try:
        whole = Whole(cluster)
        for number in (1, 2, 3):
            whole.add_node(f"gpu-{number}")
        yield cluster
        whole.close()
    finally:
        cluster.stop()


@pytest.fixture
def whole(cluster, request):
    client = Whole(cluster)
    client.enter(request.node.originalname.removeprefix("test_").replace("_", "-")[:40].rstrip("-"))
    yield client
    for each in client.get(f"{client.namespace}/pods").json["items"]:
        client.delete(f"{client.namespace}/pods/{each['metadata']['name']}", {"gracePeriodSeconds": 0})
    client.delete(client.namespace)
    client.close()


def until_taints(whole, name, wanted):
    whole.until(lambda: taints_of(whole.node(name)) == wanted, f"{name} with the taints {wanted}")


def test_behaviour_20_and_22_the_controller_takes_and_sets_taints(whole):
    """The fixture waited until the not-ready taint that admission sets was gone."""
    whole.patch("/api/v1/nodes/gpu-1", {"spec": {"unschedulable": True}})
    until_taints(whole, "gpu-1", {("unschedulable", "NoSchedule")})
    whole.patch("/api/v1/nodes/gpu-1", {"spec": {"unschedulable": None}})
    until_taints(whole, "gpu-1", set())


def test_behaviour_23_a_silent_node_is_tainted_and_its_pod_marked_and_deleted(whole):
    whole.add_node("silent")
    whole.start("left", nodeSelector={"kubernetes.io/hostname": "silent"}, tolerations=PATIENCE)
    whole.annotate_node("silent", kubelet="stopped")
    until_taints(whole, "silent", {("unreachable", "NoSchedule"), ("unreachable", "NoExecute")})
    ready = condition_of(whole.node("silent"), "Ready")
    assert (ready["status"], ready["reason"]) == ("Unknown", "NodeStatusUnknown")

    def deleted():
        pod = whole.pod("left")
        return pod if pod["metadata"].get("deletionTimestamp") else None

    pod = whole.until(deleted, "the taint manager deleted the pod")
    assert pod["status"]["phase"] == "Running"
    assert condition_of(pod, "Ready")["status"] == "False"
    assert condition_of(pod, "DisruptionTarget")["reason"] == "DeletionByTaintManager"
    whole.delete("/api/v1/nodes/silent")
    whole.until(lambda: whole.is_gone("left"), "the pod of a node that is no more is collected")


def test_behaviour_24_pods_stay_when_their_node_is_deleted_and_are_collected_later(whole):
    whole.add_node("leaving")
    whole.start("stays", nodeSelector={"kubernetes.io/hostname": "leaving"})
    reply = whole.delete("/api/v1/nodes/leaving").json
    assert (reply["kind"], reply["status"]) == ("Status", "Success")
    assert "deletionTimestamp" not in whole.pod("stays")["metadata"]
    whole.until(lambda: whole.is_gone("stays"), "the pod is collected")


def test_behaviour_37_a_deleted_owner_and_its_namespace_go_with_what_is_in_them(whole):
    path = whole.path("deployments", "apps/v1")
    whole.post(path, deployment("web", 2))
    owned = whole.path("pods")

    def two():
        pods = whole.get(owned).json["items"]
        return pods if len(pods) == 2 and all(p["status"]["phase"] == "Running" for p in pods) else None

    first, _ = whole.until(two, "two pods run")
    stripped = first["metadata"]["name"]
    whole.patch(f"{owned}/{stripped}", {"metadata": {"labels": {"app": "other"}}})
    whole.until(lambda: "ownerReferences" not in whole.pod(stripped)["metadata"], "the pod is set free")
    whole.until(lambda: len(whole.get(owned, labelSelector="app=web").json["items"]) == 2, "it is replaced")
    assert whole.delete(f"{path}/web").json["kind"] == "Status"
    whole.until(lambda: whole.get(owned).names == [stripped], "the owned pods are collected")
    whole.delete(whole.namespace)
    assert whole.get(whole.namespace).json["status"]["phase"] == "Terminating"
    whole.until(lambda: whole.get(whole.namespace).code == 404, "the namespace is gone")


def test_behaviour_39_and_40_the_disruption_controller_counts_and_tidies(whole):
    for name in ("a", "b"):
        whole.start(name, labels={"app": "ev"})
    path = whole.path("poddisruptionbudgets", "policy/v1")
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "ev"}}}
    made = whole.post(path, {"metadata": {"name": "pdb"}, "spec": spec}).json["status"]
    assert [made[field] for field in ("disruptionsAllowed", "currentHealthy", "expectedPods")] == [0, 0, 0]
    status = whole.until(lambda: budget_of(whole, path, allowed=1), "the budget is counted")
    assert (status["currentHealthy"], status["desiredHealthy"], status["expectedPods"]) == (2, 1, 2)
    assert whole.evict("a").code == 201
    assert whole.evict("b").code == 429
    whole.until(lambda: whole.is_gone("a"), "the evicted pod is gone")
    status = whole.until(lambda: budget_of(whole, path, allowed=0), "the budget is counted anew")
    assert (status["currentHealthy"], "disruptedPods" in status) == (1, False)


def budget_of(whole, path, *, allowed):
    status = whole.get(f"{path}/pdb").json["status"]
    observed = status.get("observedGeneration") and not status.get("disruptedPods")
    return status if observed and status["disruptionsAllowed"] == allowed else None


def test_behaviour_42_budgets_that_never_allow_anything(whole):
    whole.start("bare")
    path = whole.path("poddisruptionbudgets", "policy/v1")
    every = {"metadata": {"name": "bare"}, "spec": {"maxUnavailable": 1, "selector": {}}}
    whole.post(path, every)
    whole.until(lambda: whole.get(f"{path}/bare").json["status"].get("observedGeneration"), "it is counted")
    status = whole.get(f"{path}/bare").json["status"]
    assert (status["expectedPods"], status["disruptionsAllowed"]) == (0, 0)
    reply = whole.evict("bare")
    cause = reply.json["details"]["causes"][0]["message"]
    assert cause == "The disruption budget bare does not allow evicting pods currently"
    whole.delete(f"{path}/bare")
    template = deployment("sum", 1)["spec"]["template"]
    template["spec"]["restartPolicy"] = "Never"
    whole.post(whole.path("jobs", "batch/v1"), {"metadata": {"name": "sum"}, "spec": {"template": template}})

    def running():
        pods = whole.get(whole.path("pods"), labelSelector="app=sum").json["items"]
        return pods[0] if pods and pods[0]["status"]["phase"] == "Running" else None

    pod = whole.until(running, "the Job's pod runs")
    spec = {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "sum"}}}
    whole.post(path, {"metadata": {"name": "sums"}, "spec": spec})

    def failed():
        return condition_of(whole.get(f"{path}/sums").json, "DisruptionAllowed").get("reason") == "SyncFailed"

    whole.until(failed, "the budget cannot be counted")
    message = condition_of(whole.get(f"{path}/sums").json, "DisruptionAllowed")["message"]
    assert message == "jobs.batch does not implement the scale subresource"
    reply = whole.evict(pod["metadata"]["name"])
    assert (reply.code, reply.headers["Retry-After"]) == (429, "10")


def test_behaviour_53_and_55_a_pods_three_events_and_a_refusal_in_the_stock_words(whole):
    version = whole.version_now()
    whole.start("small")
    events = whole.watch(f"{whole.namespace}/pods", resourceVersion=version)[:3]
    seen = [(e["type"], e["object"]["spec"].get("nodeName"), e["object"]["status"]["phase"]) for e in events]
    node = seen[-1][1]
    assert seen == [("ADDED", None, "Pending"), ("MODIFIED", node, "Pending"), ("MODIFIED", node, "Running")]
    assert condition_of(events[1]["object"], "PodScheduled")["status"] == "True"
    whole.patch("/api/v1/nodes/gpu-1", {"metadata": {"labels": {"zone": "z1"}}})
    whole.patch("/api/v1/nodes/gpu-3", {"spec": {"unschedulable": True}})
    until_taints(whole, "gpu-3", {("unschedulable", "NoSchedule")})
    whole.start("holder", 8, nodeSelector={"zone": "z1"})
    whole.add_pod("big", 8, nodeSelector={"zone": "z1"})
    refused = whole.until(
        lambda: condition_of(whole.pod("big"), "PodScheduled").get("message"), "the scheduler's answer"
    )
    assert refused.startswith(
        "0/3 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) didn't match Pod's node "
        "affinity/selector, 1 node(s) were unschedulable."
    )
    whole.patch("/api/v1/nodes/gpu-3", {"spec": {"unschedulable": None}})
    until_taints(whole, "gpu-3", set())
    selector = "involvedObject.name=big,reason=FailedScheduling"

    def found():
        events = whole.get(f"{whole.namespace}/events", fieldSelector=selector).json["items"]
        return next((each for each in events if each["message"] == refused), None)

    event = whole.until(found, "its event")
    assert event["reportingComponent"] == "default-scheduler"
    assert (event["firstTimestamp"], event["lastTimestamp"], event["source"]) == (None, None, {})
    assert event["eventTime"]


def test_behaviour_54_preemption_goes_in_its_order(whole):
    whole.post(CLASSES, {"metadata": {"name": "urgent"}, "value": 500})
    here = {"nodeSelector": {"kubernetes.io/hostname": "gpu-2"}}
    whole.start("large", 6, **here)
    version = whole.version_now()
    whole.start("vip", 6, priorityClassName="urgent", **here)
    story = []
    for event in whole.watch(f"{whole.namespace}/pods", resourceVersion=version):
        pod = event["object"]
        name, status = pod["metadata"]["name"], pod["status"]
        if name == "large":
            target = condition_of(pod, "DisruptionTarget").get("reason")
            fact = "deleting" if pod["metadata"].get("deletionTimestamp") else target
            fact = "ended" if status["phase"] == "Failed" else fact
            story.append((event["type"], name, fact))
        else:
            bound = f"on {pod['spec']['nodeName']}" if "nodeName" in pod["spec"] else ""
            story.append((event["type"], name, status.get("nominatedNodeName", "") or bound))
    landed = ("MODIFIED", "vip", "on gpu-2")
    victim = [
        ("MODIFIED", "large", "PreemptionByScheduler"),
        ("MODIFIED", "large", "deleting"),
        ("MODIFIED", "large", "ended"),
    ]
    # The scheduler nominates and marks at the same time: which of the two is seen first is left to chance.
    for order in ([*victim, landed], [("MODIFIED", "vip", "gpu-2"), landed]):
        assert sorted(order, key=story.index) == order, story


def test_behaviour_23_nobody_is_driven_out_while_every_node_is_silent(whole):
    """Last of its file: afterwards the nodes are to be woken again."""
    names = ("gpu-1", "gpu-2", "gpu-3")
    whole.start("stays")
    for name in names:
        whole.annotate_node(name, kubelet="stopped")
    for name in names:
        until_taints(whole, name, {("unreachable", "NoSchedule")})
    assert "deletionTimestamp" not in whole.pod("stays")["metadata"]
    for name in names:
        whole.annotate_node(name, kubelet=None)
    for name in names:
        until_taints(whole, name, set())
