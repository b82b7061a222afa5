"""Pods, admission and binding: behaviours 20 to 32 of a real API server, each named by its number."""

import pytest

from tests.simulator.api_server.conftest import JSON_PATCH, MERGE, NS, STRATEGIC, deployment, node, pod

PODS = f"{NS}/pods"


def bind(name, target="n1", **metadata):
    body = {"metadata": {"name": name, **metadata}, "target": {"kind": "Node", "name": target}}
    return (("POST", f"{PODS}/{name}/binding", body), {})


def bound(api, name, target="n1", **metadata):
    call, options = bind(name, target, **metadata)
    return api.do(*call, **options)


def test_behaviour_20_a_new_node_is_tainted_as_not_ready(api):
    taints = api.post("/api/v1/nodes", node()).json["spec"]["taints"]
    assert taints == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]


def test_behaviour_21_a_posted_node_keeps_its_status_and_a_posted_pod_does_not(api):
    status = api.post("/api/v1/nodes", node()).json["status"]
    assert status["allocatable"] == status["capacity"]
    sent = {**pod(), "status": {"phase": "Running"}}
    assert api.post(PODS, sent).json["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


def test_behaviour_22_unschedulable_false_is_dropped(api):
    api.post("/api/v1/nodes", node(unschedulable=True))
    after = api.patch("/api/v1/nodes/n1", {"spec": {"unschedulable": False}}, STRATEGIC).json
    assert "unschedulable" not in after["spec"]


def test_behaviour_25_gpu_requests_follow_the_limits(api):
    stored = api.post(PODS, pod(gpus=2)).json["spec"]["containers"][0]["resources"]
    assert stored["requests"] == stored["limits"] == {"nvidia.com/gpu": "2"}


@pytest.mark.parametrize(
    ("resources", "words"),
    [
        ({"requests": {"nvidia.com/gpu": "1"}}, "Limit must be set for non overcommitable resources"),
        (
            {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "2"}},
            "must be equal to nvidia.com/gpu limit of 2",
        ),
        ({"limits": {"gpu": "1"}}, "must be a standard resource type or fully qualified"),
        ({"limits": {"nvidia.com/gpu": "0.5"}}, "must be an integer"),
    ],
)
def test_behaviour_25_wrong_gpu_resources_are_invalid(api, resources, words):
    body = pod()
    body["spec"]["containers"][0]["resources"] = resources
    reply = api.post(PODS, body)
    assert (reply.code, reply.reason) == (422, "Invalid")
    assert words in reply.message


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"priorityClassName": "nope"}, "no PriorityClass with name nope was found"),
        ({"priority": 5}, "the integer value of priority (5) must not be provided in pod spec"),
        ({"serviceAccountName": "nope"}, 'serviceaccount "nope" not found'),
    ],
)
def test_behaviour_26_admission_refuses_with_403(api, spec, words):
    reply = api.post(PODS, pod(**spec))
    assert (reply.code, reply.reason) == (403, "Forbidden")
    assert words in reply.message


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": {"a": 1}},
        {"tolerations": "x"},
        {"nodeSelector": ["a"]},
        {"nodeSelector": {"a": 1}},
        "x",
    ],
)
def test_a_field_of_the_wrong_sort_is_a_bad_request(api, spec):
    body = pod()
    body["spec"] = spec if isinstance(spec, str) else {**body["spec"], **spec}
    reply = api.post(PODS, body)
    assert (reply.code, reply.reason) == (400, "BadRequest")
    assert "json: cannot unmarshal" in reply.message


def test_behaviour_26_quota_and_missing_namespace(api):
    api.post(
        f"{NS}/resourcequotas",
        {"metadata": {"name": "q"}, "spec": {"hard": {"requests.nvidia.com/gpu": "1"}}},
    )
    # Elsewhere a controller does this; a quota that was never counted refuses everything.
    counted = {"hard": {"requests.nvidia.com/gpu": "1"}, "used": {"requests.nvidia.com/gpu": "0"}}
    api.patch(f"{NS}/resourcequotas/q/status", {"status": counted})
    reply = api.post(PODS, pod(gpus=2))
    assert reply.code == 403
    assert reply.message.endswith(
        "exceeded quota: q, requested: requests.nvidia.com/gpu=2, used: requests.nvidia.com/gpu=0, "
        "limited: requests.nvidia.com/gpu=1"
    )
    assert api.post(PODS, pod(gpus=1)).code == 201
    missing = api.post("/api/v1/namespaces/nope/pods", pod())
    assert (missing.code, missing.message) == (404, 'namespaces "nope" not found')


def test_behaviour_27_a_stored_pod_has_the_defaults(api):
    spec = api.post(PODS, pod()).json["spec"]
    assert [t["key"] for t in spec["tolerations"]] == [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ]
    assert spec["volumes"][0]["name"] == spec["containers"][0]["volumeMounts"][0]["name"]
    expected = {
        "priority": 0,
        "terminationGracePeriodSeconds": 30,
        "serviceAccountName": "default",
        "schedulerName": "default-scheduler",
        "preemptionPolicy": "PreemptLowerPriority",
    }
    assert expected.items() <= spec.items()


def test_behaviour_28_a_pods_spec_is_immutable_but_for_a_few_fields(api):
    api.post(PODS, pod())
    path = f"{PODS}/p"
    for change in ({"nodeSelector": {"a": "b"}}, {"nodeName": "n1"}, {"priority": 7}):
        reply = api.patch(path, {"spec": change}, STRATEGIC)
        assert reply.code == 422
        assert reply.message.startswith('Pod "p" is invalid: spec: Forbidden: pod updates may not change')
    image = api.patch(path, {"spec": {"containers": [{"name": "main", "image": "img2"}]}}, STRATEGIC)
    assert (image.code, image.json["metadata"]["generation"]) == (200, 2)
    more = [{"op": "add", "path": "/spec/tolerations/-", "value": {"key": "x", "operator": "Exists"}}]
    assert len(api.patch(path, more, JSON_PATCH).json["spec"]["tolerations"]) == 3
    fewer = api.patch(path, {"spec": {"tolerations": []}})
    assert fewer.code == 422
    assert "existing toleration can not be modified" in fewer.message


def test_behaviour_29_of_six_bindings_at_once_one_wins(api):
    api.post(PODS, pod())
    replies = api.together(*(bind("p", f"n{i}") for i in range(6)))
    assert sorted(r.code for r in replies) == [201, 409, 409, 409, 409, 409]
    success = next(r for r in replies if r.code == 201)
    assert success.json == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "code": 201,
    }
    late = bound(api, "p", "n1")
    assert late.json["details"] == {"name": "p", "kind": "pods/binding"}
    assert "pod p is already assigned to node" in late.message


def test_behaviour_29_a_binding_is_one_write_with_its_annotations_and_clears_the_nomination(api):
    before = api.post(PODS, pod())
    api.patch(f"{PODS}/p/status", {"status": {"nominatedNodeName": "n1"}})
    version = api.get(f"{PODS}/p").version
    assert bound(api, "p", "nowhere", annotations={"by": "me"}).code == 201
    after = api.get(f"{PODS}/p")
    assert after.version == version + 1
    assert after.json["spec"]["nodeName"] == "nowhere"
    assert after.json["metadata"]["annotations"] == {"by": "me"}
    assert after.json["status"]["conditions"][0]["type"] == "PodScheduled"
    assert "nominatedNodeName" not in after.json["status"]
    assert before.json["metadata"]["uid"] == after.json["metadata"]["uid"]


def test_behaviour_29_bindings_that_are_refused(api):
    api.post(PODS, pod("gated", schedulingGates=[{"name": "a.b/c"}]))
    api.post(PODS, pod("p"))
    assert "has non-empty .spec.schedulingGates" in bound(api, "gated").message
    wrong = bound(api, "p", uid="11111111-2222-3333-4444-555555555555")
    assert wrong.code == 409
    assert "StorageError: invalid object" in wrong.message
    assert bound(api, "p", "").code == 500
    assert bound(api, "nope").code == 404
    api.post(PODS, pod("held", metadata={"finalizers": ["a.b/c"]}))
    api.delete(f"{PODS}/held")
    assert "is being deleted, cannot be assigned to a host" in bound(api, "held").message


def test_behaviour_30_gates_can_only_go_and_selectors_only_grow(api):
    gates = [{"name": "example.com/g1"}, {"name": "example.com/g2"}]
    status = api.post(PODS, pod(schedulingGates=gates)).json["status"]
    assert status["conditions"][0]["reason"] == "SchedulingGated"
    path = f"{PODS}/p"
    assert api.patch(path, {"spec": {"nodeSelector": {"a": "1"}}}, STRATEGIC).code == 200
    assert api.patch(path, {"spec": {"nodeSelector": {"a": "2"}}}, STRATEGIC).code == 422
    assert api.patch(path, {"spec": {"nodeSelector": None}}).code == 422
    assert api.patch(path, {"spec": {"schedulingGates": [{"name": "example.com/g9"}]}}, STRATEGIC).code == 422
    ungate = {
        "spec": {
            "schedulingGates": [{"$patch": "delete", "name": "example.com/g1"}],
            "nodeSelector": {"b": "2"},
        }
    }
    after = api.patch(path, ungate, STRATEGIC).json["spec"]
    assert after["schedulingGates"] == [{"name": "example.com/g2"}]
    assert after["nodeSelector"] == {"a": "1", "b": "2"}
    free = api.patch(path, {"spec": {"schedulingGates": None}}).json
    assert "schedulingGates" not in free["spec"]
    assert free["status"]["conditions"][0]["reason"] == "SchedulingGated"
    assert api.patch(path, {"spec": {"nodeSelector": {"c": "3"}}}, STRATEGIC).code == 422


def test_behaviour_30_required_node_terms_of_a_gated_pod_may_only_be_narrowed(api):
    def affinity(*terms):
        required = {"nodeSelectorTerms": list(terms)}
        return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}

    first = {"key": "a", "operator": "Exists"}
    more = {"key": "b", "operator": "Exists"}
    gated = pod(schedulingGates=[{"name": "a.b/c"}], affinity=affinity({"matchExpressions": [first]}))
    api.post(PODS, gated)

    def change(*terms):
        return api.patch(f"{PODS}/p", {"spec": {"affinity": affinity(*terms)}}, MERGE).code

    assert change({"matchExpressions": [first, more]}) == 200
    assert change({"matchExpressions": [more]}) == 422
    assert change({"matchExpressions": [first, more]}, {"matchExpressions": [first]}) == 422


def test_behaviour_31_phases_and_nodes_are_not_validated(api):
    assert api.post(PODS, pod(nodeName="no-such-node")).code == 201
    for phase in ("Running", "Pending", "Weird"):
        assert api.patch(f"{PODS}/p/status", {"status": {"phase": phase}}).json["status"]["phase"] == phase


def test_behaviour_32_there_is_no_log_without_a_kubelet(api):
    api.post(PODS, pod(nodeName="n1"))
    reply = api.get(f"{PODS}/p/log")
    assert (reply.code, reply.message) == (404, 'pods "n1" not found')
    api.post("/api/v1/nodes", node())
    reply = api.get(f"{PODS}/p/log")
    assert (reply.code, reply.message) == (500, "no preferred addresses found; known addresses: []")
    here = {"status": {"addresses": [{"type": "InternalIP", "address": "127.0.0.9"}]}}
    api.patch("/api/v1/nodes/n1/status", here)
    reply = api.get(f"{PODS}/p/log")
    assert (reply.code, reply.message) == (
        500,
        'Get "https://127.0.0.9:10250/containerLogs/default/p/main": '
        "dial tcp 127.0.0.9:10250: connect: connection refused",
    )


def test_a_bound_pod_cannot_be_nominated(api):
    api.post(PODS, pod())
    assert api.patch(f"{PODS}/p/status", {"status": {"nominatedNodeName": "n1"}}).code == 200
    bound(api, "p")
    assert api.patch(f"{PODS}/p/status", {"status": {"nominatedNodeName": "n2"}}).code == 422


def test_scale_is_a_subresource_of_workloads(api):
    path = "/apis/apps/v1/namespaces/default/deployments"
    api.post(path, deployment("d", 2))
    assert api.get(f"{path}/d/scale").json["spec"] == {"replicas": 2}
    assert api.patch(f"{path}/d/scale", {"spec": {"replicas": 5}}).json["spec"]["replicas"] == 5
    stored = api.get(f"{path}/d").json
    assert (stored["spec"]["replicas"], stored["metadata"]["generation"]) == (5, 2)


def test_a_workload_needs_a_selector_that_takes_its_template(api):
    path = "/apis/apps/v1/namespaces/default/deployments"
    body = deployment("d", 1)
    body["spec"]["selector"]["matchLabels"] = {"app": "other"}
    reply = api.post(path, body)
    assert (reply.code, reply.message) == (
        422,
        'Deployment.apps "d" is invalid: spec.template.metadata.labels: Invalid value: {"app":"d"}: '
        "`selector` does not match template `labels`",
    )
    fields = [
        c["field"] for c in api.post(path, {"metadata": {"name": "d"}, "spec": {}}).json["details"]["causes"]
    ]
    assert fields == ["spec.selector", "spec.template.metadata.labels", "spec.template.spec.containers"]
    job = {"metadata": {"name": "j"}, "spec": {"template": body["spec"]["template"]}}
    reply = api.post("/apis/batch/v1/namespaces/default/jobs", job)
    assert reply.json["details"]["causes"][0]["field"] == "spec.template.spec.restartPolicy"
