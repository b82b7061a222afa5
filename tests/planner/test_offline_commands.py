"""`measure` and `make_plan` as people run them: files in, one JSON answer or one clear line out."""

import csv
import json

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from apps.fragmentation.offline import read_table

NODES = [
    {"sn": f"n{at}", "cpu_milli": 64000, "memory_mib": 99999, "gpu": 4, "model": "A100"} for at in range(3)
]
PODS = [
    ("web", 0, 0, "n0", ""),
    ("one", 1, 1000, "n0", "0"),
    ("pair", 2, 1000, "n1", "0;1"),
    ("half", 1, 500, "n1", "2"),
    ("big", 4, 1000, "", ""),
]


@pytest.fixture
def trace(tmp_path):
    placed = [
        {
            "name": name,
            "cpu_milli": 1000,
            "memory_mib": 10,
            "num_gpu": gpus,
            "gpu_milli": milli,
            "gpu_spec": "",
            "node": node,
            "gpus": held,
        }
        for name, gpus, milli, node, held in PODS
    ]
    paths = {"nodes": tmp_path / "nodes.csv", "placed": tmp_path / "placed.csv"}
    for name, rows in (("nodes", NODES), ("placed", placed)):
        with paths[name].open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    return {name: str(path) for name, path in paths.items()}


def answer(capfd, *arguments, **options):
    call_command(*arguments, json=True, **options)
    return json.loads(capfd.readouterr().out)


def test_measure_answers_for_a_trace(trace, capfd):
    report = answer(capfd, "measure", **trace)

    assert report["idle_milli"] == 8500
    assert report["free_nodes"] == {"4": 1}
    assert sum(report["by_cause"].values()) == pytest.approx(8500)
    assert [node["name"] for node in report["nodes"]] == ["n0", "n1", "n2"]


def test_measure_tells_in_words_what_still_fits(trace, capfd):
    call_command("measure", **trace)
    text = capfd.readouterr().out

    assert "Groups of 2 / 4 / 8 free GPUs that fit, by link: nvlink 0 / 0 / 0" in text
    assert "node 3 / 1 / 0" in text
    assert "Shares that fit: 17 of 1 x 500 milli-GPU (wanted by 1 pods)" in text
    assert "Could start now: 1 of 1 waiting pods like big (4 x 1000 milli-GPU)" in text


def test_measure_takes_another_workload(trace, capfd):
    with_own = answer(capfd, "measure", **trace)
    with_other = answer(capfd, "measure", workload=trace["placed"], **trace)

    assert with_own["fragmentation_numerator"] == with_other["fragmentation_numerator"]


def test_make_plan_frees_nodes_of_a_trace(trace, capfd):
    plan = answer(capfd, "make_plan", goal="free-nodes", max_moves=3, **trace)

    assert plan["freed_nodes"] == ["n0"]
    assert [(move["pod"], move["source"], move["target"]) for move in plan["moves"]] == [
        ("default/one", "n0", "n1")
    ]
    assert (plan["proven_optimal"], plan["gap"]) == (True, 0.0)


def test_make_plan_unlocks_all_that_waits_or_one_by_name(trace, capfd):
    everything = answer(capfd, "make_plan", goal="unlock", max_moves=3, **trace)
    named = answer(capfd, "make_plan", goal="unlock", max_moves=3, workload="default/big", **trace)

    assert everything["unlocked"] == named["unlocked"] == ["default/big"]
    assert named["unlocked_gpus"] == 4


def test_without_json_people_read_sentences(trace, capfd):
    call_command("measure", **trace)
    call_command("make_plan", goal="free-nodes", max_moves=3, **trace)
    out = capfd.readouterr().out

    assert "Idle: 8.50 of 12 GPUs" in out
    assert "Moving 1 pod frees 1 whole node with 4 GPUs." in out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "give a dump, or --nodes CSV together with --placed CSV"),
        ({"nodes": "n.csv"}, "give a dump, or --nodes CSV together with --placed CSV"),
        ({"nodes": "/nowhere.csv", "placed": "p"}, "/nowhere.csv cannot be read"),
    ],
)
def test_a_missing_source_is_one_clear_line_and_exit_2(options, words):
    with pytest.raises(CommandError, match=words) as caught:
        call_command("measure", **options)
    assert caught.value.returncode == 2
    assert "\n" not in str(caught.value)


def test_bad_tables_are_named(trace, tmp_path):
    broken = tmp_path / "broken.csv"
    broken.write_text("sn,gpu\nn1,4\n")

    with pytest.raises(CommandError, match="broken.csv: the header lacks the columns cpu_milli, memory_mib"):
        call_command("measure", nodes=str(broken), placed=trace["placed"])
    broken.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CommandError, match="not UTF-8"):
        call_command("measure", nodes=str(broken), placed=trace["placed"])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sn,cpu_milli,memory_mib,gpu,gpu\nn1,1,1,4,8\n", "the header names gpu more than once"),
        (
            "sn,cpu_milli,memory_mib,gpu\nn1,1,1,4\nn2,1\n",
            "line 3: the row ends before the column memory_mib",
        ),
        ("sn,cpu_milli,memory_mib,gpu\nn1,1,1,4,8\n", "line 2: the row has more cells than the header"),
        ('sn,cpu_milli,memory_mib,gpu\n"n1,1,1,4\n', "line 2: unexpected end of data"),
        ("sn,cpu_milli,memory_mib,gpu\nn1,1,1,1.5\n", "line 2: gpu must be a whole number"),
    ],
)
def test_a_row_that_does_not_say_what_it_seems_to_is_refused(trace, tmp_path, text, words):
    broken = tmp_path / "broken.csv"
    broken.write_text(text)

    with pytest.raises(CommandError, match=words) as caught:
        call_command("measure", nodes=str(broken), placed=trace["placed"])
    assert caught.value.returncode == 2


def test_a_row_ends_where_its_line_does(tmp_path):
    table = tmp_path / "nodes.csv"
    table.write_bytes("sn,gpu,\r\na\u2028b,1,\r\n".encode())

    assert [row["sn"] for row in read_table(str(table), ("sn", "gpu"))] == ["a\u2028b"]


def test_a_dump_that_cannot_be_opened_is_exit_2(tmp_path):
    with pytest.raises(CommandError) as caught:
        call_command("measure", str(tmp_path / "gone.json"))
    assert caught.value.returncode == 2


def test_a_dump_is_measured_and_planned(tmp_path, capfd):
    dump = tmp_path / "dump.json"
    dump.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": _objects()}))

    report = answer(capfd, "measure", str(dump))
    plan = answer(capfd, "make_plan", str(dump), goal="free-nodes", max_moves=5)

    assert report["idle_milli"] == 4000
    told = ("physical", "schedulable", "allocated", "free", "stranded", "unlocated_pods")
    assert [report["gpus"][name] for name in told] == [8, 8, 4, 4, 0, 2]
    assert [(move["source"], move["target"]) for move in plan["moves"]] == [("g1", "g2")]


@pytest.mark.parametrize(
    ("extra", "words"),
    [
        ({"goal": "free-nodes", "workload": "a/b"}, "goes with --goal unlock"),
        ({"goal": "unlock", "workload": "a/b"}, "no pending pod or gang is called 'a/b'"),
    ],
)
def test_a_workload_that_does_not_apply_is_refused(trace, extra, words):
    with pytest.raises(CommandError, match=words):
        call_command("make_plan", max_moves=3, **extra, **trace)


def _objects():
    return [
        *(_node(name) for name in ("g1", "g2")),
        _pod("one", "g1", 1),
        _pod("three", "g2", 3),
    ]


def _node(name):
    amounts = {"cpu": "32", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": "4"}
    labels = {
        "kubernetes.io/hostname": name,
        "nvidia.com/gpu.product": "NVIDIA-L40S",
        "nvidia.com/gpu.count": "4",
    }
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels},
        "spec": {},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _pod(name, node, gpus):
    owner = {
        "kind": "ReplicaSet",
        "apiVersion": "apps/v1",
        "name": name,
        "uid": f"rs-{name}",
        "controller": True,
    }
    requests = {"cpu": "1", "nvidia.com/gpu": str(gpus)}
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}", "ownerReferences": [owner]},
        "spec": {
            "nodeName": node,
            "schedulerName": "default-scheduler",
            "containers": [{"name": "c", "resources": {"requests": requests, "limits": requests}}],
        },
        "status": {"phase": "Running"},
    }


def test_a_queue_that_is_empty_is_said_to_be_empty(trace, tmp_path, capfd):
    rows = (tmp_path / "placed.csv").read_text().splitlines()
    (tmp_path / "placed.csv").write_text("\n".join(row for row in rows if not row.startswith("big")))

    call_command("make_plan", goal="unlock", **trace)

    told = capfd.readouterr().out
    assert told.startswith("Nothing waits: there is nothing to unlock.\nNo moves. (")
