"""What the webhook makes of an AdmissionReview. No server, no database."""

import base64
import json

import pytest

from apps.scheduling.admission import Taken, answer, gate_patch, patch_for, read_new_pod, review_uid

OWNER = {"uid": "uid-rs", "controller": True, "kind": "ReplicaSet", "name": "lora"}


def review(*, metadata=None, spec=None, **request):
    pod = {
        "metadata": {"generateName": "lora-", "ownerReferences": [OWNER], **(metadata or {})},
        "spec": spec or {},
    }
    known = {"uid": "adm-1", "operation": "CREATE", "kind": {"kind": "Pod"}, "object": pod}
    return {"kind": "AdmissionReview", "request": {**known, **request}}


def apply_patch(pod, patch):
    """Just enough of RFC 6902 for `add`."""
    for change in patch:
        assert change["op"] == "add"
        *parents, last = [
            part.replace("~1", "/").replace("~0", "~") for part in change["path"].split("/")[1:]
        ]
        place = pod
        for part in parents:
            place = place[part]
        if last == "-":
            place.append(change["value"])
        else:
            place[last] = change["value"]
    return pod


@pytest.mark.parametrize("gates", [None, [], [{"name": "other"}]])
@pytest.mark.parametrize("annotations", [None, {}, {"a": "b"}])
def test_the_patch_adds_gate_and_mark_beside_what_is_there(gates, annotations):
    found = review(
        metadata={} if annotations is None else {"annotations": dict(annotations)},
        spec={} if gates is None else {"schedulingGates": list(gates)},
    )
    pod = read_new_pod(found)
    patched = apply_patch(found["request"]["object"], gate_patch(pod, "steer-7-1"))
    assert patched["spec"]["schedulingGates"] == [*(gates or []), {"name": "defrag.gpu.internal/steer"}]
    marks = {**(annotations or {}), "defrag.gpu.internal/migration": "steer-7-1"}
    assert patched["metadata"]["annotations"] == marks


@pytest.mark.parametrize("spec", [{}, {"nodeSelector": {"zone": "a"}, "tolerations": [{"key": "x"}]}])
def test_a_pod_for_a_kept_node_is_pinned_and_let_in_at_once_and_not_gated(spec):
    found = review(spec=spec)
    patch = patch_for(read_new_pod(found), Taken("steer-7-1", "node-b", "7-ab"))
    patched = apply_patch(found["request"]["object"], patch)
    selector = {"zone": "a"} if spec else {}
    assert patched["spec"]["nodeSelector"] == {**selector, "kubernetes.io/hostname": "node-b"}
    assert [one.get("value") for one in patched["spec"]["tolerations"]][-1] == "7-ab"
    assert len(patched["spec"]["tolerations"]) == (2 if selector else 1)
    assert patched["metadata"]["annotations"] == {"defrag.gpu.internal/migration": "steer-7-1"}
    assert "schedulingGates" not in patched["spec"]


def test_a_pod_that_names_its_host_itself_is_gated_and_never_pinned_elsewhere():
    found = review(spec={"nodeSelector": {"kubernetes.io/hostname": "node-c"}})
    patch = patch_for(read_new_pod(found), Taken("steer-7-1", "node-b", "7-ab"))
    assert [change["path"] for change in patch] == ["/spec/schedulingGates", "/metadata/annotations"]


@pytest.mark.parametrize(
    "strange",
    [
        {},
        [],
        None,
        "text",
        {"request": None},
        review(operation="UPDATE"),
        review(kind={"kind": "Node"}),
        review(dryRun=True),
        review(subResource="binding"),
        review(spec={"nodeName": "node-a"}),
        review(metadata={"ownerReferences": []}),
        review(metadata={"ownerReferences": [{**OWNER, "controller": False}]}),
        review(metadata={"ownerReferences": "text"}),
        review(metadata={"annotations": {"defrag.gpu.internal/migration": "steer-7-2"}}),
        review(uid=7),
        review(object={"metadata": None}),
    ],
)
def test_anything_unexpected_is_not_gated(strange):
    assert read_new_pod(strange) is None
    assert answer(review_uid(strange))["response"]["allowed"] is True


def test_an_answer_carries_its_patch_as_the_api_server_reads_it():
    response = answer("adm-1", [{"op": "add", "path": "/a", "value": 1}])["response"]
    assert response["uid"] == "adm-1"
    assert response["patchType"] == "JSONPatch"
    assert json.loads(base64.b64decode(response["patch"])) == [{"op": "add", "path": "/a", "value": 1}]
