"""Text that nobody's kubectl wrote: read as json.loads and yaml.load read it, or refused in one sentence."""

import json
import math

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as some

from apps.kube import dumps
from apps.kube.dumps import BadDump
from apps.kube.gateway import NODES, PODS
from apps.kube.json_text import LARGEST_OBJECT
from apps.kube.translate import build_snapshot
from apps.kube.trimming import trim_object
from apps.kube.yaml_text import MOST_OF_AN_OBJECT, BadYaml, load_yaml
from tests.kube.objects import node, pod

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
LEAVES = (
    some.none()
    | some.booleans()
    | some.integers()
    | some.floats()
    | some.text(some.characters(), max_size=6)
    | some.sampled_from(["\ud800", "\u202e", "1e999", "-1", "NaN", "8", "True", "0x1f", "<<", "1:30", "~"])
)
VALUES = some.recursive(
    LEAVES,
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=3), inner, max_size=3),
)
FIELDS = """
    metadata name uid labels annotations creationTimestamp ownerReferences spec nodeName containers
    initContainers resources limits requests tolerations volumes affinity status capacity allocatable
    conditions phase
"""
WILD = some.recursive(
    LEAVES,
    lambda inner: (
        some.lists(inner, max_size=3)
        | some.dictionaries(some.sampled_from(FIELDS.split()), inner, max_size=4)
    ),
)
OBJECTS = some.fixed_dictionaries(
    {"kind": some.sampled_from(["Node", "Pod"]), "apiVersion": some.just("v1")},
    optional={"metadata": WILD, "spec": WILD, "status": WILD, "other": VALUES},
)
FORMS = some.sampled_from(["kubectl", "compact", "lines", "array"])


def written(objects, form):
    whole = {"apiVersion": "v1", "kind": "List", "items": objects}
    if form == "lines":
        return "\n".join(json.dumps(one) for one in objects)
    if form == "array":
        return json.dumps(objects)
    return json.dumps(whole, indent=4 if form == "kubectl" else None)


def opened(found):
    return [one.open() for kind in (NODES, PODS) for one in found.objects.get(kind, ())]


def plain(value):
    """With what cannot be compared made comparable: NaN is not itself, and a dump knows no empty section."""
    if isinstance(value, float) and math.isnan(value):
        return "NaN itself"
    if isinstance(value, dict):
        return {key: plain(one) for key, one in value.items() if one != {}}
    return [plain(one) for one in value] if isinstance(value, list) else value


@settings(max_examples=80, deadline=None)
@given(some.lists(OBJECTS, min_size=1, max_size=4), FORMS)
def test_every_object_of_a_list_is_read_as_json_loads_would(objects, form):
    found = dumps.read_dump([("list", written(objects, form))], needs_node=False)
    expected = sorted(objects, key=lambda one: one["kind"] == "Pod")
    trimmed = [trim_object(NODES if one["kind"] == "Node" else PODS, one) for one in expected]
    assert plain(opened(found)) == plain(json.loads(json.dumps(trimmed)))


@settings(max_examples=50, deadline=None)
@given(some.lists(OBJECTS, min_size=1, max_size=4))
def test_whatever_an_object_holds_the_good_node_beside_it_stands(objects):
    text = written([*objects, node("good")], "compact")
    found = dumps.read_dump([("list", text)])
    snapshot = build_snapshot("c", found.objects, found.taken_at)
    assert len(snapshot.nodes["good"].gpus) == 8
    for one in snapshot.nodes.values():
        assert all(amount >= 0 for amount in (*one.capacity.values(), *one.allocatable.values()))
    for one in snapshot.pods.values():
        assert all(amount >= 0 for amount in one.requests.values())


@settings(max_examples=80, deadline=None)
@given(some.text(some.characters(), max_size=60) | some.text("{}[]:,-&*!<>'\"|%#? \n\t01aeN.", max_size=60))
def test_any_text_is_read_or_refused_in_a_sentence(text):
    with pytest.raises(BadDump, match=r"\A(text: |There is no Node)"):
        dumps.read_dump([("text", text.encode("utf-8", "replace"))])


@settings(max_examples=50, deadline=None)
@given(VALUES)
def test_yaml_is_read_as_its_safe_loader_reads_it(value):
    text = yaml.safe_dump(value)
    try:
        expected = list(yaml.load_all(text, Loader=LOADER))
    except yaml.YAMLError:
        with pytest.raises(BadYaml):
            load_yaml(text, allow_aliases=True)
        return
    read = load_yaml(text, allow_aliases=True)
    assert plain(read) == plain([one for one in expected if one is not None])


def test_a_cut_list_is_said_to_be_cut():
    text = written([node(), pod()], "kubectl")
    with pytest.raises(BadDump, match=r"line \d+: it ends in the middle of an object: the file was cut"):
        dumps.read_dump([("list", text[:-200])])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"a": ' * 100_000 + "1" + "}" * 100_000, "nested too deeply"),
        ('{"kind": "List", "items": [' + '{"a":' * 5_000 + "1" + "}" * 5_000 + "]}", "nested too deeply"),
        ("- " * 5_000 + "a", "nested more than"),
        ("<!DOCTYPE html><html></html>", "no Kubernetes object"),
        ("a: &a [x, *a]", "stands for nothing before it"),
        ("x: &x [1]\ny: {<<: *x}", "only mappings can be merged"),
        ("? [a]\n: b", "no plain text"),
        ('{"kind": "List", "items": [{"kind": "Node", "apiVersion": "v1"} {}]}', "',' is missing"),
        ('{"kind": "List", "apiVersion": "v1", "items": [{}, {}]}', "no kind"),
    ],
)
def test_text_of_no_cluster_is_one_sentence(text, says):
    with pytest.raises(BadDump, match=says) as caught:
        dumps.read_dump([("text", text)])
    assert len(str(caught.value)) < 300


def test_an_object_larger_than_any_server_keeps_is_refused():
    large = node(annotations={"a": "x" * LARGEST_OBJECT})
    for form in ("compact", "array"):
        with pytest.raises(BadDump, match="larger than 8 MiB"):
            dumps.read_dump([("list", written([large], form))])


def test_a_few_lines_of_yaml_do_not_unfold_into_a_large_object():
    shares = "\n".join(f"x{at + 1}: &x{at + 1} [{', '.join([f'*x{at}'] * 10)}]" for at in range(7))
    text = f"kind: List\nitems:\n- kind: Node\n  x0: &x0 a\n{shares}".replace("\nx", "\n  x")
    with pytest.raises(BadDump, match=f"more than {MOST_OF_AN_OBJECT} values"):
        dumps.read_dump([("text", text)])


def test_numbers_without_end_are_unknown_and_the_node_stands():
    raw = node(capacity={"nvidia.com/gpu": 12345, "memory": 67890})
    text = written([raw], "compact").replace("12345", "9" * 5_000).replace("67890", "NaN")
    found = dumps.read_dump([("list", text)])
    read = build_snapshot("c", found.objects, found.taken_at).nodes["node-a"]
    assert "memory" not in read.capacity
    assert "nvidia.com/gpu" not in read.capacity
    assert len(read.warnings) >= 2


def test_owners_in_a_circle_and_names_given_twice_end():
    def replicaset(name, owner):
        reference = {"kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}
        metadata = {"name": name, "namespace": "team-a", "uid": name, "ownerReferences": [reference]}
        return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata}

    members = pod(owner=("ReplicaSet", "a"))
    members["metadata"]["ownerReferences"][0]["uid"] = "a"
    objects = [node(), node(), members, members, replicaset("a", "b"), replicaset("b", "a")]
    found = dumps.read_dump([("list", written(objects, "compact"))])
    snapshot = build_snapshot("c", found.objects, found.taken_at)
    assert (len(snapshot.nodes), len(snapshot.pods)) == (1, 1)
    assert any("twice" in problem for problem in snapshot.problems)
