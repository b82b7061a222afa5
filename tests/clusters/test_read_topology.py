"""The command that reads links between GPUs from a file: its answers, its exit codes, its one-line errors."""

import json

import pytest
from django.core.management import CommandError, call_command

from tests.kube.topology.texts import hives, links, table


@pytest.fixture
def run(tmp_path, capsys):
    def run(text, *arguments):
        file = tmp_path / "topo.txt"
        file.write_text(text)
        call_command("read_topology", str(file), *arguments)
        return capsys.readouterr().out

    return run


FOUR = table(hives(2, 2, inside="NV12"), nics=["NIC0"], nic_codes=[["PIX"], ["NODE"], ["SYS"], ["SYS"]],
             cpu=["0-7"] * 2 + ["8-15"] * 2, numa=["0", "0", "1", "1"])  # fmt: skip


def test_json_holds_what_was_read_and_what_it_means(run):
    answer = json.loads(run(FOUR, "--json", "--model", "NVIDIA A100-SXM4-40GB", "--group", "2"))
    assert (answer["gpus"], answer["numa"], answer["nics"], answer["complete"]) == (4, [0, 0, 1, 1], 1, True)
    assert answer["links"] == hives(2, 2, inside="NV12")
    assert answer["groups"] == answer["numa_groups"] == [[0, 1], [2, 3]]
    assert answer["link_class"] == {"NV12": "nvlink", "SYS": "node"}
    assert answer["bandwidth"]["NV12"]["stated"] == "600 GB/s both ways"
    assert answer["bandwidth"]["SYS"]["gb_per_s_one_way"] == 32
    assert answer["nearest_nic"] == {"GPU0": "NIC0", "GPU1": "NIC0", "GPU2": None, "GPU3": None}
    assert answer["best_group"]["gpus"] == [0, 1]


def test_missing_cells_are_null(run):
    answer = json.loads(run("\n".join(FOUR.splitlines()[:-2]), "--json"))
    assert (answer["gpus"], answer["links"][3], answer["complete"]) == (4, [None] * 4, False)


def test_people_get_a_table_with_question_marks_for_what_is_unknown(run):
    told = run("\n".join(FOUR.splitlines()[:-2]), "--group", "3", "--link", "nvlink")
    assert "INCOMPLETE" in told
    assert [line.split() for line in told.splitlines() if line.startswith("GPU3")] == [["GPU3", *"??????"]]
    assert "none: no group of 3 is known to be tied by nvlink; some links are unknown" in told


def test_a_group_that_no_links_allow_is_told(run):
    assert "none: no group of 3 GPUs is tied by nvlink" in run(FOUR, "--group", "3", "--link", "nvlink")
    assert "none: there are 4 GPUs" in run(FOUR, "--group", "5")


def test_a_model_without_known_rates_is_a_warning_and_no_guess(run):
    answer = json.loads(run(table(links(2)), "--json", "--model", "Wonder 9"))
    assert answer["bandwidth"] == {"NV6": None}
    assert any("Wonder 9" in warning for warning in answer["warnings"])


def test_what_is_no_topology_ends_with_one_line_and_two(run, capsys):
    with pytest.raises(CommandError) as refused:
        run("\tGPU0\tGPU1\nGPU0\tX\tCNS\nGPU1\tCNS\tX\n", "--json")
    answer = json.loads(capsys.readouterr().out)
    assert (answer["gpus"], answer["links"], answer["nics"], answer["complete"]) == (2, None, 0, False)
    assert "p2p capability" in answer["error"]
    assert refused.value.returncode == 2
    assert str(refused.value).endswith("topo.txt: not a topology matrix (p2p capability).")


@pytest.mark.parametrize(
    ("arguments", "says"), [(["--link", "numa"], "--group"), (["--group", "0"], "1 or more")]
)  # fmt: skip
def test_arguments_that_make_no_sense(run, arguments, says):
    with pytest.raises(CommandError, match=says):
        run(FOUR, *arguments)


def test_a_file_that_cannot_be_read(run, tmp_path):
    with pytest.raises(CommandError, match="cannot be read") as refused:
        call_command("read_topology", str(tmp_path / "nowhere"))
    assert refused.value.returncode == 2


def test_a_file_that_is_too_large(run):
    with pytest.raises(CommandError, match="larger than 1 MiB"):
        run("GPU0 " * 300_000)
