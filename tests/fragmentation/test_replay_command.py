"""`replay` as people run it: two files in, one JSON answer or one clear line out."""

import json

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from console.offline import needs_no_database

NODES = "sn,cpu_milli,memory_mib,gpu,model\na,64000,1000,2,A\nb,64000,1000,2,B\n"
PODS = """name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos
p0,1000,10,1,1000,,LS
p1,1000,10,1,500,B,LS
p2,9000,10,0,0,,LS
p3,1000,10,2,1000,A,LS
"""


@pytest.fixture
def trace(tmp_path):
    paths = {"nodes": tmp_path / "nodes.csv", "pods": tmp_path / "pods.csv"}
    paths["nodes"].write_text(NODES)
    paths["pods"].write_text(PODS)
    return {name: str(path) for name, path in paths.items()}


def replay(capfd, trace, *arguments):
    call_command("replay", "--nodes", trace["nodes"], "--pods", trace["pods"], "--json", *arguments)
    return json.loads(capfd.readouterr().out)


def test_file_order_ends_in_a_state_that_can_be_checked_by_hand(trace, capfd):
    answer = replay(capfd, trace, "--policy", "first-fit", "--file-order")

    assert (answer["policy"], answer["decisions"], answer["failed"], answer["moves"]) == (
        "first-fit",
        4,
        1,
        0,
    )
    assert answer["used_milli"] == 1500
    # All four pods are wanted. Left: a 1000, b 500 + 1000, of 2500 idle. One GPU: b's 500 is lost. Half of
    # one, model B: a's 1000 is lost. CPU only and two GPUs of model A: everything.
    assert (answer["fragmentation_numerator"], answer["weight_total"]) == (500 + 1000 + 2500 + 2500, 4)
    assert answer["allocated_percent"] == {"90": None, "95": None, "100": None, "110": None, "130": None}
    assert answer["end"]["allocated_percent"] == 37.5


def test_a_shuffled_replay_reaches_every_mark(trace, capfd):
    answer = replay(capfd, trace, "--policy", "demand-fit", "--seed", "4")

    for key in ("allocated_percent", "fragmentation_ratio_percent", "fragmentation_amount_percent"):
        assert list(answer[key]) == ["90", "95", "100", "110", "130"]
        assert all(0 <= value <= 100 for value in answer[key].values())
    assert answer["seed"] == 4
    assert answer["decisions_per_second"] > 0


def test_moves_are_shown_beside_the_same_replay_without_them(trace, capfd):
    answer = replay(capfd, trace, "--policy", "random", "--defrag-every", "2", "--max-moves", "3")

    assert set(answer["allocated_percent_without_moves"]) == set(answer["allocated_percent"])
    assert answer["failed"] <= answer["failed_without_moves"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--policy", "best"], "there is no policy 'best'; there are random, first-fit"),
        (["--policy", "fgd", "--defrag-every", "-1"], "--defrag-every must be 0 or more"),
        (["--policy", "fgd", "--seconds", "nan"], "--seconds must be 0 or more"),
    ],
)
def test_wrong_arguments_are_told_in_one_line(trace, arguments, sentence):
    with pytest.raises(CommandError, match=sentence) as caught:
        call_command("replay", "--nodes", trace["nodes"], "--pods", trace["pods"], *arguments)
    assert caught.value.returncode == 2


def test_a_seed_of_too_many_digits_is_not_repeated_whole(trace, capfd):
    with pytest.raises(CommandError, match="--seed: must be a whole number .* not '9{40}'$"):
        replay(capfd, trace, "--policy", "fgd", "--seed", "9" * 5000)


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("nodes", "", "lacks the columns sn, cpu_milli"),
        ("nodes", NODES.splitlines()[0], "there are no nodes"),
        ("pods", PODS.splitlines()[0], "there are no pods"),
        ("pods", PODS.replace("gpu_milli", "milli"), "lacks the columns gpu_milli"),
        ("pods", PODS.replace("p1,1000", "p1,-1000"), "pods, line 3: cpu_milli must not be negative"),
        ("pods", PODS.replace("p1,1000", "p1,1e300"), "pods, line 3: cpu_milli is too large"),
        ("pods", PODS.replace("1,500", "1,1500"), "pods, line 3: gpu_milli must be 1 to 1000"),
        ("nodes", NODES.replace("1000,2,A", "1000,two,A"), "nodes, line 2: gpu must be a number"),
    ],
)
def test_a_bad_table_is_told_in_one_line(trace, name, text, sentence, tmp_path):
    (tmp_path / f"{name}.csv").write_text(text)

    with pytest.raises(CommandError, match=sentence) as caught:
        call_command("replay", "--nodes", trace["nodes"], "--pods", trace["pods"], "--policy", "fgd")
    assert caught.value.returncode == 2
    assert "\n" not in str(caught.value)


def test_it_needs_no_database():
    assert needs_no_database(["replay", "--nodes", "n.csv"])
