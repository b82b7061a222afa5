"""Nothing written into a cluster may stop the picture; and what is remembered is never wrong."""

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.kube.gateway import (
    BUDGETS,
    CLAIMS,
    DEPLOYMENTS,
    JOBS,
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    REPLICASETS,
    VOLUMES,
)
from apps.kube.translate import Translator, build_snapshot
from apps.kube.trimming import trim_object
from tests.kube.objects import namespace, node, owned, pod

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(min_value=-(2**70), max_value=2**70),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(
        ["\ud800", "\x00", "9" * 50, "1e999", "2026-01-01T00:00:00Z", "-1", "8", "true", "<b>", "=1+1"]
    ),
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


def paths(found, prefix=()):
    yield prefix
    if isinstance(found, dict):
        for key in found:
            yield from paths(found[key], (*prefix, key))
    elif isinstance(found, list):
        for index, inner in enumerate(found):
            yield from paths(inner, (*prefix, index))


def replaced(found, path, value):
    copy = json.loads(json.dumps(found))
    if not path:
        return value if isinstance(value, dict) else {}
    target = copy
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = value
    return copy


RICH_NODE = node(
    spec={"taints": [{"key": "a", "effect": "NoSchedule"}], "unschedulable": True},
    labels={"nvidia.com/gpu.count": "8", "nvidia.com/gpu.memory": "81920", "nvidia.com/gpu.replicas": "1"},
    annotations={
        "topology.gpu.internal/matrix": "{}",
        "topology.gpu.internal/holders": "{}",
        "defrag.gpu.internal/cordon": "{}",
    },
)
RICH_POD = pod(
    on="node-a",
    labels={"scheduling.x-k8s.io/pod-group": "g"},
    annotations={"gpu-fraction": "0.5", "defrag.gpu.internal/link": "nvlink"},
    spec={
        "initContainers": [{"resources": {"requests": {"cpu": "1"}}}],
        "containers": [{"resources": {"limits": {"cpu": "1"}}, "ports": [{"hostPort": 1}]}],
        "volumes": [{"name": "v", "emptyDir": {}}, {"persistentVolumeClaim": {"claimName": "c"}}],
        "tolerations": [{"key": "a"}],
        "affinity": {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "labelSelector": {"matchExpressions": [{"key": "a", "values": ["b"]}]},
                        "namespaceSelector": {},
                    }
                ]
            }
        },
        "topologySpreadConstraints": [{"maxSkew": 1, "labelSelector": {}}],
        "priority": 5,
    },
)
RICH = {
    NODES: RICH_NODE,
    PODS: RICH_POD,
    NAMESPACES: namespace("team-a"),
    REPLICASETS: owned("ReplicaSet", "rs-a", owner=("Deployment", "web"), spec={"replicas": 1}),
    DEPLOYMENTS: owned("Deployment", "web", spec={"replicas": 1}, status={"updatedReplicas": 1}),
    JOBS: owned("Job", "train", spec={"parallelism": 2}, status={"failed": 1}),
    BUDGETS: owned("PodDisruptionBudget", "pdb", spec={"selector": {"matchLabels": {"a": "b"}}}),
    POD_GROUPS: owned("PodGroup", "g", spec={"minMember": 2}),
    CLAIMS: owned("PersistentVolumeClaim", "c", spec={"volumeName": "v"}),
    VOLUMES: owned("PersistentVolume", "v", spec={"nodeAffinity": {"required": {"x": 1}}}),
}
PLACES = [(kind, path) for kind, raw in RICH.items() for path in paths(raw)]


@settings(max_examples=200, deadline=None)
@given(place=st.sampled_from(PLACES), value=JSON)
def test_any_value_anywhere_leaves_a_picture_that_can_be_stored(place, value):
    kind, path = place
    spoiled = {**RICH, kind: replaced(RICH[kind], path, value)}
    trimmed = {one: [trim_object(one, raw)] for one, raw in spoiled.items()}
    found = build_snapshot("lab", trimmed, 1.0)
    assert len(found.nodes) == 1 or any("is no name of a node" in words for words in found.problems)
    assert len(found.pods) == 1
    stored = msgspec.json.encode(found)
    assert msgspec.json.decode(stored, type=type(found)) == found


@settings(max_examples=100, deadline=None)
@given(
    key=st.sampled_from(["topology.gpu.internal/matrix", "topology.gpu.internal/holders"]),
    document=st.fixed_dictionaries(
        {"version": st.just(1)},
        optional={
            "gpus": JSON | st.just([{"index": 0, "uuid": "a"}]),
            "links": JSON,
            "nics": JSON,
            "nic_links": JSON,
            "mig": JSON | st.dictionaries(st.just("a"), JSON),
            "observed_at": JSON,
            "devices": st.dictionaries(st.text(max_size=4), JSON),
        },
    ),
)
def test_any_annotation_leaves_a_node_that_can_be_stored(key, document):
    text = json.dumps(document)
    found = build_snapshot("lab", {NODES: [node(annotations={key: text})]}, 1.0)
    assert len(found.nodes["node-a"].gpus) >= 1
    assert msgspec.json.decode(msgspec.json.encode(found), type=type(found)) == found


@pytest.mark.parametrize("kind", [NODES, PODS])
def test_an_object_that_cannot_be_read_at_all_stays_visible(kind, monkeypatch):
    """Whatever a future reader stumbles over: the object is shown, unplannable and unmovable."""

    def fail(*_, **__):
        raise TypeError("unexpected")

    monkeypatch.setattr("apps.kube.translate.picture.read_node", fail)
    monkeypatch.setattr("apps.kube.translate.picture.read_pod", fail)
    found = build_snapshot("lab", {NODES: [node()], PODS: [pod(on="node-a")]}, 1.0)
    assert not found.nodes["node-a"].ready
    assert found.nodes["node-a"].stale_since == 1.0
    assert found.pods["uid-pod-a"].protections == ("it cannot be read",)
    assert found.pods["uid-pod-a"].is_holding
    assert len(found.problems) == 2


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/"])
def test_a_node_that_no_address_can_end_in_is_left_out_and_said(name):
    found = build_snapshot("lab", {NODES: [node(name), node("node-b")]}, 1.0)
    assert list(found.nodes) == ["node-b"]
    assert found.problems == (f"A node is left out: {name!r} is no name of a node.",)


def test_a_time_beyond_the_last_year_is_not_known():
    """Within the years that a date can hold in its own zone, and not in ours."""
    raw = node()
    raw["metadata"]["creationTimestamp"] = "9999-12-31T23:59:59-14:00"
    assert build_snapshot("lab", {NODES: [raw]}, 1.0).nodes["node-a"].created_at == 0.0


def objects(*, pods, nodes=None, **kinds):
    named = {"namespaces": NAMESPACES, "deployments": DEPLOYMENTS, "replicasets": REPLICASETS}
    return {NODES: nodes or [node()], PODS: pods, **{named[name]: raws for name, raws in kinds.items()}}


def test_what_did_not_change_is_not_translated_again():
    translator = Translator()
    raws = objects(pods=[pod("a"), pod("b")])
    first = translator.build("lab", raws, taken_at=1.0)
    changed = pod("b", labels={"x": "y"})
    second = translator.build("lab", {**raws, PODS: [raws[PODS][0], changed]}, taken_at=2.0)
    assert second.pods["uid-a"] is first.pods["uid-a"]
    assert second.nodes["node-a"] is first.nodes["node-a"]
    assert second.pods["uid-b"].labels == {"x": "y"}


def test_a_change_around_a_pod_reaches_it():
    translator = Translator()
    raws = objects(pods=[pod("a")], namespaces=[namespace("team-a")])
    assert translator.build("lab", raws, taken_at=1.0).pods["uid-a"].protections == ()
    closed = namespace("team-a")
    closed["metadata"]["annotations"] = {"defrag.gpu.internal/protect": "true"}
    found = translator.build("lab", {**raws, NAMESPACES: [closed]}, taken_at=2.0)
    assert len(found.pods["uid-a"].protections) == 1


def test_an_annotation_goes_stale_although_its_node_did_not_change():
    holders = {"version": 1, "observed_at": "2026-01-01T00:00:00Z", "devices": {}}
    raws = objects(pods=[], nodes=[node(annotations={"topology.gpu.internal/holders": json.dumps(holders)})])
    translator = Translator()
    observed_at = 1_767_225_600.0
    assert translator.build("lab", raws, taken_at=observed_at + 60).nodes["node-a"].holdings == ()
    assert translator.build("lab", raws, taken_at=observed_at + 3 * 86400).nodes["node-a"].holdings is None


def test_what_is_gone_is_forgotten():
    translator = Translator()
    translator.build("lab", objects(pods=[pod("a")], deployments=[owned("Deployment", "web")]), taken_at=1.0)
    translator.build("lab", objects(pods=[]), taken_at=2.0)
    assert translator._pods == {}
    assert translator._others == {}


def test_it_agrees_with_a_fresh_translation_after_any_history():
    translator = Translator()
    histories = [
        objects(pods=[pod("a", on="node-a"), pod("b")]),
        objects(pods=[pod("b", on="node-a")], deployments=[owned("Deployment", "web")]),
        objects(pods=[pod("b", on="node-a"), pod("c", annotations={"gpu-fraction": "0.5"})]),
    ]
    for raws in histories:
        assert translator.build("lab", raws, taken_at=5.0) == build_snapshot("lab", raws, 5.0)
