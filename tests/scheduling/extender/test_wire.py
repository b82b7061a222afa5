"""The extender's wire format, as Go writes and reads it."""

import json

import pytest

from apps.scheduling.extender import wire
from apps.scheduling.extender.wire import BadCall, Victims

POD = {"metadata": {"name": "p", "namespace": "ns", "uid": "u1"}, "spec": {}}


def test_names_come_back_as_names_and_nodes_as_nodes():
    body = {"Pod": POD, "Nodes": None, "NodeNames": ["a", "b"]}
    call = wire.read_call(json.dumps(body).encode())
    assert (call.pod, call.names, call.nodes) == (POD, ["a", "b"], None)
    answer = json.loads(wire.filter_answer(call, ["b"], {"a": "why"}, {}))
    assert answer == {
        "Nodes": None,
        "NodeNames": ["b"],
        "FailedNodes": {"a": "why"},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }
    nodes = [{"metadata": {"name": name}, "status": {"x": name}} for name in "ab"]
    call = wire.read_call(json.dumps({"Pod": POD, "Nodes": {"items": nodes}, "NodeNames": None}).encode())
    answer = json.loads(wire.filter_answer(call, ["b"], {"a": "why"}, {}))
    assert (answer["Nodes"]["items"], answer["NodeNames"]) == ([nodes[1]], None)


def test_priorities_are_a_bare_array():
    assert json.loads(wire.priorities([("a", 10)])) == [{"Host": "a", "Score": 10}]


def test_victims_come_whole_or_as_uids_and_go_as_uids():
    whole = {"Pods": [{"metadata": {"uid": "v1"}}], "NumPDBViolations": 2}
    meta = {"Pods": [{"UID": "v1"}], "NumPDBViolations": 2}
    for key, sent in (("NodeNameToVictims", whole), ("NodeNameToMetaVictims", meta)):
        body = {
            "Pod": POD,
            "NodeNameToVictims": None,
            "NodeNameToMetaVictims": None,
            key: {"a": sent, "b": None},
        }
        call = wire.read_preemption(json.dumps(body).encode())
        assert call.victims == {"a": Victims(("v1",), 2), "b": Victims(())}
    answer = json.loads(wire.preemption_answer({"a": call.victims["a"]}))
    assert answer == {"NodeNameToMetaVictims": {"a": meta}}


def test_a_binding_needs_all_its_parts():
    body = {"PodName": "p", "PodNamespace": "ns", "PodUID": "u1", "Node": "a"}
    assert wire.read_binding(json.dumps(body).encode()) == wire.BindingCall("ns", "p", "u1", "a")
    with pytest.raises(BadCall, match="lacks its pod's name"):
        wire.read_binding(json.dumps({**body, "PodUID": ""}).encode())


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "no ExtenderArgs"),
        (b"[1]", "no ExtenderArgs"),
        (b'{"Pod": 3}', "no ExtenderArgs"),
        (b"\xff\xfe", "no ExtenderArgs"),
        (b"[" * 100_000, "no ExtenderArgs"),
        (b'{"Pod": null, "NodeNames": []}', "no metadata.uid"),
        (b'{"Pod": {"metadata": []}, "NodeNames": []}', "no metadata.uid"),
        (json.dumps({"Pod": POD}).encode(), "names no nodes"),
        (json.dumps({"Pod": POD, "Nodes": {"items": [{}]}}).encode(), "no metadata.name"),
        (json.dumps({"Pod": POD, "Nodes": {"items": 3}}).encode(), "no metadata.name"),
    ],
)
def test_a_bad_body_is_one_clear_error(body, words):
    with pytest.raises(BadCall, match=words):
        wire.read_call(body)
