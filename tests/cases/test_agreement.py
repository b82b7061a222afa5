"""The command that counts how many recorded inputs are read as their index says."""

import json

import pytest

from benchmarks import agreement

CONFIGS = "version: v1\nmig-configs:\n  whole: [{devices: all, mig-enabled: false}]\n"
STRANGE = "nothing that anybody reads\n"
ROOM = {"gpu": "A30", "want": {"2g.12gb": 1, "1g.6gb": 2}}


@pytest.fixture
def samples(tmp_path):
    rows = []

    def add(name, text, **reading):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        rows.append(f"{name}\t{name.partition('/')[0]}\t{json.dumps(reading)}")
        (tmp_path / "index.tsv").write_text("\n".join(["file\tkind\treading", *rows]) + "\n")

    return tmp_path, add


def run(folder, monkeypatch, capsys, *arguments):
    monkeypatch.setattr("sys.argv", ["agreement", "--samples", str(folder), *arguments])
    code = agreement.main()
    return code, capsys.readouterr().out


def test_what_agrees_is_counted_and_what_does_not_is_shown_with_both_sides(samples, monkeypatch, capsys):
    folder, add = samples
    add("mig/right.yaml", CONFIGS, configs=["whole"], n_configs=1, note="for people")
    assert run(folder, monkeypatch, capsys)[0] == 0
    add("mig/wrong.yaml", CONFIGS, configs=["cut"], n_configs=1)
    add("mig/strange.txt", STRANGE, n_configs=0)
    code, printed = run(folder, monkeypatch, capsys)
    assert code == 1
    assert printed.startswith("mig: 1 of 3 files agree, 3 of 5 keys")
    assert 'mig/wrong.yaml  configs\n    expected ["cut"]\n    got      ["whole"]' in printed
    assert "mig/strange.txt  refused: " in printed
    assert "for people" not in printed
    assert "for people" in run(folder, monkeypatch, capsys, "--all")[1]


def test_a_reading_that_we_dispute_is_no_failure_and_its_reason_is_printed(samples, monkeypatch, capsys):
    folder, add = samples
    add("mig/odd.yaml", CONFIGS, n_configs=2)
    monkeypatch.setattr(agreement, "DISPUTED", {("odd", "n_configs"): "there is one"})
    code, printed = run(folder, monkeypatch, capsys)
    assert code == 0
    assert "we think the reading is wrong: there is one" in printed


def test_reports_are_answered_by_what_they_hold(samples, monkeypatch, capsys):
    folder, add = samples
    add(
        "bugs/room.json",
        json.dumps({"input": ROOM, "expect": {"legal": True}}),
        legal=True,
        placements={"2g.12gb": 2},
    )
    assert run(folder, monkeypatch, capsys)[1].startswith("bugs: 1 of 1 files agree, 2 of 2 keys")
    add("bugs/new.json", json.dumps({"input": {"weather": 1}, "expect": {"rain": True}}), rain=True)
    assert "no topic speaks of weather" in run(folder, monkeypatch, capsys)[1]
