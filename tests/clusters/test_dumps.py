"""A dump of kubectl becomes a snapshot; anything else becomes one clear sentence."""

import io
import json

import pytest
import yaml

from apps.clusters.dumps import open_dump, read_dump_texts
from apps.clusters.errors import BadDump
from tests.kube.objects import node, pod


def listed(*objects):
    return {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": list(objects)}


@pytest.fixture
def file(tmp_path):
    def write(text, name="dump.json"):
        path = tmp_path / name
        path.write_text(text) if isinstance(text, str) else path.write_bytes(text)
        return path

    return write


def test_a_json_list(file):
    found = open_dump(file(json.dumps(listed(node(), pod(on="node-a")))))
    assert (list(found.nodes), list(found.pods)) == (["node-a"], ["uid-pod-a"])


def test_yaml_with_several_documents_and_aliases(file):
    limits = {"nvidia.com/gpu": "2"}
    raw = pod(on="node-a", spec={"containers": [{"resources": {"limits": limits, "requests": limits}}]})
    text = yaml.safe_dump_all([listed(node()), raw, None])
    assert "*id001" in text
    found = open_dump(file(text, "dump.yaml"))
    assert found.pods["uid-pod-a"].requests == {"nvidia.com/gpu": 2}


def test_unquoted_times_stay_times(file):
    raw = node(ready={"status": "False"})
    text = yaml.safe_dump(raw).replace("'2026-01-01T00:00:00Z'", "2026-01-01T00:00:00Z")
    assert open_dump(file(text)).nodes["node-a"].created_at == 1_767_225_600.0


def test_several_files_together(file):
    nodes, pods = file(json.dumps(listed(node())), "nodes.json"), file(json.dumps(pod()), "pods.json")
    assert len(open_dump(nodes, pods).pods) == 1


def test_a_raw_list_answer_names_its_kind_once(file):
    bare = {key: value for key, value in node().items() if key not in ("kind", "apiVersion")}
    found = open_dump(file(json.dumps({"kind": "NodeList", "apiVersion": "v1", "items": [bare]})))
    assert list(found.nodes) == ["node-a"]


def test_standard_input(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(json.dumps(listed(node())).encode()))
    monkeypatch.setattr("sys.stdin", stream)
    assert list(open_dump("-").nodes) == ["node-a"]


def test_an_old_dump_is_judged_at_its_own_time(file):
    holders = {"version": 1, "observed_at": "2026-01-01T12:00:00Z", "devices": {}}
    raw = node(annotations={"topology.gpu.internal/holders": json.dumps(holders)})
    found = open_dump(file(json.dumps(listed(raw, pod()))))
    assert found.taken_at == 1_767_312_000.0
    assert found.nodes["node-a"].holdings == ()


def test_objects_that_nothing_reads_are_passed_over(file):
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}
    other_node = {"apiVersion": "acme.example/v1", "kind": "Node", "metadata": {"name": "not-a-node"}}
    assert list(open_dump(file(json.dumps(listed(node(), service, other_node)))).nodes) == ["node-a"]


def bomb():
    names = [chr(97 + number) for number in range(12)]
    lines = [f"{names[0]}: &{names[0]} [{','.join('x' * 10)}]"]
    lines += [f"{b}: &{b} [{','.join([f'*{a}'] * 10)}]" for a, b in zip(names, names[1:], strict=False)]
    return "kind: List\n" + "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it is empty"),
        ("   \n", "it is empty"),
        ("hello", "no Kubernetes object"),
        ("[1, 2]", "no Kubernetes object"),
        ('{"kind": 5}', "no Kubernetes object"),
        ('{"kind": "List", "items": []}', "no Kubernetes object in it"),
        (json.dumps(pod()), "There is no Node in it"),
        ("{unclosed", "neither JSON nor YAML"),
        ("a: [b", "neither JSON nor YAML"),
        ("a: !!python/name:os.system x", "tags are refused"),
        ("a: *nothing", "neither JSON nor YAML|stands for nothing"),
        (bomb(), "once its aliases are unfolded"),
        ("[" * 100_000, "neither JSON nor YAML"),
        (b"\xff\xfe\x00", "not UTF-8"),
    ],
)
def test_anything_else_is_one_clear_sentence(file, text, says):
    with pytest.raises(BadDump, match=says) as caught:
        open_dump(file(text))
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(BadDump, match=r"missing.json cannot be read: No such file"):
        open_dump(tmp_path / "missing.json")


def test_an_uploaded_text_is_named_by_its_source():
    with pytest.raises(BadDump, match=r"^upload: "):
        read_dump_texts([("upload", "")])
