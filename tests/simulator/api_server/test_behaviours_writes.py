"""Writes, revisions and conflicts: behaviours 1 to 19 of a real API server, each named by its number."""

import pytest

from tests.simulator.api_server.conftest import APPLY, JSON_PATCH, MERGE, NS, STRATEGIC, node

POD_GROUP = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup"}
N1 = "/api/v1/nodes/n1"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
PDBS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


@pytest.fixture
def n1(api):
    return api.post("/api/v1/nodes", node())


def test_behaviour_01_a_write_that_changes_nothing_keeps_the_revision_and_sends_no_event(api, n1):
    assert api.put(N1, n1.json).version == n1.version
    assert api.patch(N1, {"metadata": {"labels": {"kubernetes.io/hostname": "n1"}}}).version == n1.version
    same = ("PATCH", N1, {"metadata": {"labels": {"kubernetes.io/hostname": "n1"}}})
    assert api.watch("/api/v1/nodes", resourceVersion=str(n1.version), while_watching=[same]) == []


def test_behaviour_02_one_counter_serves_all_kinds_and_list_items_have_no_kind(api):
    first = api.post(f"{NS}/configmaps", {"metadata": {"name": "a"}}).version
    second = api.post(f"{NS}/secrets", {"metadata": {"name": "b"}}).version
    listed = api.get(f"{NS}/configmaps")
    assert (second, listed.version) == (first + 1, second)
    assert listed.json["kind"] == "ConfigMapList"
    assert "kind" not in listed.json["items"][0]


def test_behaviour_03_a_stale_version_conflicts_in_put_and_in_patch(api, n1):
    api.patch(N1, {"metadata": {"labels": {"x": "1"}}})
    stale = n1.json["metadata"]["resourceVersion"]
    for reply in (api.put(N1, n1.json), api.patch(N1, {"metadata": {"resourceVersion": stale}})):
        assert (reply.code, reply.reason) == (409, "Conflict")
        assert reply.json["details"] == {"name": "n1", "kind": "nodes"}
        assert reply.message.startswith('Operation cannot be fulfilled on nodes "n1": the object has been')


def test_behaviour_03_of_six_puts_at_once_one_wins_and_six_patches_all_merge(api, n1):
    bodies = [{**n1.json, "metadata": {**n1.json["metadata"], "labels": {"w": str(i)}}} for i in range(6)]
    replies = api.together(*((("PUT", N1, body), {}) for body in bodies))
    assert sorted(r.code for r in replies) == [200, 409, 409, 409, 409, 409]
    patches = [{"metadata": {"labels": {f"k{i}": "1"}}} for i in range(6)]
    replies = api.together(*((("PATCH", N1, body), {"content": MERGE}) for body in patches))
    assert [r.code for r in replies] == [200] * 6
    assert {f"k{i}" for i in range(6)} <= api.get(N1).json["metadata"]["labels"].keys()


def test_behaviour_04_put_without_version_is_for_nodes_not_for_leases_budgets_and_custom_resources(api, n1):
    assert api.put(N1, node()).code == 200
    group = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups"
    for path, body in (
        (LEASES, {"metadata": {"name": "x"}, "spec": {"holderIdentity": "a"}}),
        (PDBS, {"metadata": {"name": "x"}, "spec": {"minAvailable": 1}}),
        (group, {**POD_GROUP, "metadata": {"name": "x"}, "spec": {"minMember": 2}}),
    ):
        assert api.post(path, body).code == 201
        reply = api.put(f"{path}/x", body)
        assert (reply.code, reply.reason) == (422, "Invalid")
        assert "metadata.resourceVersion: Invalid value: 0: must be specified for an update" in reply.message


def test_behaviour_05_put_of_a_missing_object_creates_only_a_lease(api):
    assert api.put(N1, node()).code == 404
    assert api.put(f"{LEASES}/new", {"metadata": {"name": "new"}, "spec": {}}).code == 201


def test_behaviour_06_post_with_a_version_is_a_500_without_reason(api):
    reply = api.post(f"{NS}/configmaps", {"metadata": {"name": "a", "resourceVersion": "1"}})
    assert (reply.code, reply.reason) == (500, "")
    assert reply.message == "resourceVersion should not be set on objects to be created"


def test_behaviour_07_the_clients_uid_and_times_are_replaced_and_fractions_of_seconds_cut(api, n1):
    sent = {"name": "a", "uid": "x", "creationTimestamp": "2020-01-01T00:00:00Z", "generation": 7}
    metadata = api.post(f"{NS}/configmaps", {"metadata": sent}).json["metadata"]
    assert metadata["uid"] != "x"
    assert metadata["generation"] == 7
    assert not metadata["creationTimestamp"].startswith("2020")
    condition = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00.987654Z"}
    status = api.patch(f"{N1}/status", {"status": {"conditions": [condition]}}, STRATEGIC).json["status"]
    assert status["conditions"][0]["lastHeartbeatTime"] == "2026-01-01T00:00:00Z"


@pytest.mark.parametrize(
    "text", ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.123Z", "2026-01-01T00:00:00+00:00"]
)
def test_behaviour_08_a_lease_wants_exactly_six_decimals(api, text):
    body = {"metadata": {"name": "l"}, "spec": {"renewTime": text}}
    refused = api.post(LEASES, body)
    assert (refused.code, refused.reason) == (400, "BadRequest")
    assert 'as ".000000"' in refused.message
    api.post(LEASES, {"metadata": {"name": "l"}, "spec": {}})
    assert api.patch(f"{LEASES}/l", {"spec": {"renewTime": text}}).code == 422
    whole = api.patch(f"{LEASES}/l", {"spec": {"renewTime": "2026-01-01T00:00:00.123456+00:00"}})
    assert whole.json["spec"]["renewTime"] == "2026-01-01T00:00:00.123456Z"


def test_behaviour_09_a_wrong_uid_in_a_patch_is_422(api, n1):
    reply = api.patch(N1, {"metadata": {"uid": "11111111-2222-3333-4444-555555555555"}})
    assert (reply.code, reply.reason) == (422, "Invalid")
    assert "field is immutable" in reply.message


def test_behaviour_10_name_and_namespace_must_be_those_of_the_url(api, n1):
    reply = api.put(N1, node("n2"))
    assert reply.code == 400
    assert reply.message == "the name of the object (n2) does not match the name on the URL (n1)"
    assert api.post(f"{NS}/configmaps", {"metadata": {"name": "a", "namespace": "other"}}).code == 400


def test_behaviour_11_a_name_taken_is_already_exists(api, n1):
    reply = api.post("/api/v1/nodes", node())
    assert (reply.code, reply.reason, reply.message) == (409, "AlreadyExists", 'nodes "n1" already exists')


def test_behaviour_12_dry_run_stores_nothing_and_unknown_fields_warn(api):
    dry = api.post(f"{NS}/configmaps", {"metadata": {"name": "dry"}}, dryRun="All")
    assert dry.code == 201
    assert dry.json["metadata"]["uid"]
    assert "resourceVersion" not in dry.json["metadata"]
    assert api.get(f"{NS}/configmaps/dry").code == 404
    body = {"metadata": {"name": "a"}, "nosuch": 1}
    assert api.post(f"{NS}/configmaps", body).headers["Warning"] == '299 - "unknown field \\"nosuch\\""'
    body["metadata"]["name"] = "b"
    assert api.post(f"{NS}/configmaps", body, fieldValidation="Strict").code == 400


def test_behaviour_13_patch_content_types(api, n1):
    assert api.patch(N1, {}, "application/json").code == 415
    group = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups"
    api.post(group, {**POD_GROUP, "metadata": {"name": "g"}, "spec": {"minMember": 2}})
    reply = api.patch(f"{group}/g", {"spec": {"minMember": 3}}, STRATEGIC)
    assert reply.code == 415
    assert reply.message.endswith(f"{JSON_PATCH}, {MERGE}, {APPLY}")


def test_behaviour_14_taints_are_replaced_whole_by_a_strategic_patch(api, n1):
    api.patch(N1, {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}, STRATEGIC)
    reply = api.patch(N1, {"spec": {"taints": [{"key": "b", "effect": "NoExecute"}]}}, STRATEGIC)
    assert reply.json["spec"]["taints"] == [{"key": "b", "effect": "NoExecute"}]
    twice = [{"key": "b", "effect": "NoExecute"}, {"key": "b", "value": "v", "effect": "NoExecute"}]
    reply = api.patch(N1, {"spec": {"taints": twice}})
    assert reply.code == 422
    assert reply.json["details"]["causes"][0]["field"] == "metadata.taints[1]"


def test_behaviour_15_conditions_merge_by_type_in_a_strategic_patch_only(api, n1):
    def types(condition, content):
        reply = api.patch(
            f"{N1}/status", {"status": {"conditions": [{"type": condition, "status": "True"}]}}, content
        )
        return [c["type"] for c in reply.json["status"]["conditions"]]

    assert types("Ready", STRATEGIC) == ["Ready"]
    assert types("MemoryPressure", STRATEGIC) == ["MemoryPressure", "Ready"]
    assert types("DiskPressure", MERGE) == ["DiskPressure"]


def test_behaviour_16_labels_are_deleted_by_null_and_json_patch_is_strict(api, n1):
    api.patch(N1, {"metadata": {"labels": {"x": "1", "y": "1"}}})
    api.patch(N1, {"metadata": {"labels": {"x": None, "absent": None}}})
    labels = api.patch(N1, {"metadata": {"labels": {"y": None}}}, STRATEGIC).json["metadata"]["labels"]
    assert labels == {"kubernetes.io/hostname": "n1"}
    assert api.patch(N1, {"metadata": {"labels": {"x": True}}}).code == 422
    test = [{"op": "test", "path": "/metadata/labels/x", "value": "no"}]
    reply = api.patch(N1, test, JSON_PATCH)
    assert (reply.code, reply.message) == (
        422,
        "the server rejected our request due to an error in our request",
    )
    assert api.patch(N1, [{"op": "remove", "path": "/metadata/labels/x"}], JSON_PATCH).code == 422
    slash = [{"op": "add", "path": "/metadata/labels/a.b~1c", "value": "1"}]
    assert api.patch(N1, slash, JSON_PATCH).json["metadata"]["labels"]["a.b/c"] == "1"


def test_behaviour_17_status_takes_labels_and_each_url_ignores_the_others_part(api, n1):
    body = {"metadata": {"labels": {"z": "3"}}, "spec": {"unschedulable": True}, "status": {"phase": "x"}}
    after = api.patch(f"{N1}/status", body).json
    assert after["metadata"]["labels"]["z"] == "3"
    assert "unschedulable" not in after["spec"]
    after = api.patch(N1, {"status": {"capacity": {"nvidia.com/gpu": "4"}}})
    assert (after.code, after.json["status"]["capacity"]["nvidia.com/gpu"]) == (200, "8")


def test_behaviour_18_quantities_are_canonical_and_gpus_whole(api, n1):
    sent = {"cpu": "0.5", "memory": "1024Mi", "nvidia.com/gpu": "8.0", "ephemeral-storage": 1000}
    capacity = api.patch(f"{N1}/status", {"status": {"capacity": sent}}).json["status"]["capacity"]
    assert capacity == {
        "cpu": "500m",
        "memory": "1Gi",
        "nvidia.com/gpu": "8",
        "ephemeral-storage": "1k",
        "pods": "110",
    }
    reply = api.patch(f"{N1}/status", {"status": {"capacity": {"nvidia.com/gpu": "0.5"}}})
    assert reply.code == 422
    assert "must be an integer" in reply.message
    more = api.patch(f"{N1}/status", {"status": {"allocatable": {"nvidia.com/gpu": "64"}}})
    assert more.json["status"]["allocatable"]["nvidia.com/gpu"] == "64"
    assert api.patch(f"{N1}/status", {"status": {"capacity": {"nvidia.com/gpu": "eight"}}}).code == 422


def test_behaviour_19_server_side_apply_knows_owners_and_conflicts(api):
    path, body = (
        f"{NS}/configmaps/ssa",
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ssa"}},
    )
    assert api.patch(path, body, APPLY).code == 422
    assert api.patch(path, {**body, "data": {"a": "1"}}, APPLY, fieldManager="one").code == 201
    other = {**body, "data": {"a": "2"}}
    refused = api.patch(path, other, APPLY, fieldManager="two")
    assert (refused.code, refused.message) == (
        409,
        'Apply failed with 1 conflict: conflict with "one": .data.a',
    )
    assert refused.json["details"] == {
        "causes": [{"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".data.a"}]
    }
    assert api.patch(path, other, APPLY, fieldManager="two", force="true").json["data"] == {"a": "2"}
    both = api.patch(path, {**body, "data": {"b": "9"}}, APPLY, fieldManager="one").json
    assert both["data"] == {"a": "2", "b": "9"}
    assert api.patch(path, body, APPLY, fieldManager="two").json["data"] == {"b": "9"}
    managed = {**body, "metadata": {"name": "ssa", "managedFields": [{"manager": "x"}]}}
    assert api.patch(path, managed, APPLY, fieldManager="one").code == 400


def test_a_priority_class_preempts_unless_it_says_otherwise(api):
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    assert api.post(path, {"metadata": {"name": "a"}, "value": 1}).json["preemptionPolicy"] == (
        "PreemptLowerPriority"
    )
    never = api.post(path, {"metadata": {"name": "b"}, "value": 1, "preemptionPolicy": "Never"})
    assert never.json["preemptionPolicy"] == "Never"
