"""`read_mig` as people run it: mig-parted and nvidia-smi texts in, one answer or one clear line out."""

import contextlib
import io
import json

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.clusters.errors import BadDump
from apps.clusters.mig_files import read_mig_text
from apps.clusters.mig_listing_answer import Question
from apps.planner.mig.catalogue import MODELS
from tests.kube.objects import node

CONFIGS = """
version: v1
mig-configs:
  all-off:
    - {devices: all, mig-enabled: false}
  mixed:
    - devices: [0, 1]
      mig-enabled: true
      mig-devices: {"3g.20gb": 1, "2g.10gb": 1, "1g.5gb": 2}
    - devices: [2]
      mig-enabled: false
  by-product:
    - device-filter: ["0x20B210DE", "0x20b510de"]
      devices: all
      mig-enabled: true
      mig-devices: {"1g.10gb": 7}
    - {device-filter: "0x20B010DE", devices: all, mig-enabled: true, mig-devices: {"1g.10gb": 4}}
"""


def config(entry, name="it"):
    return f"version: v1\nmig-configs:\n  {name}:\n    - {entry}\n"


def read(text, model=None):
    return read_mig_text("a.yaml", text, Question(MODELS[model] if model else None))


def why(entry, model="A100-40GB"):
    return read(config(entry), model)["why"].get("it", "")


def test_a_configuration_is_read_entry_by_entry():
    answer = read(CONFIGS)
    assert answer["configs"] == ["all-off", "mixed", "by-product"]
    assert (answer["n_configs"], answer["n_multi"], answer["filtered_configs"]) == (3, 2, ["by-product"])
    assert answer["profiles"] == ["1g.10gb", "1g.5gb", "2g.10gb", "3g.20gb"]
    assert answer["detail"]["mixed"] == [
        {
            "devices": [0, 1],
            "filter": None,
            "inst": {"3g.20gb": 1, "2g.10gb": 1, "1g.5gb": 2},
            "mig": True,
        },
        {"devices": [2], "filter": None, "inst": {}, "mig": False},
    ]
    assert answer["why"] == {}


def test_the_operators_config_map_holds_the_same():
    inside = "".join(f"    {line}\n" for line in CONFIGS.strip().splitlines())
    wrapped = f"apiVersion: v1\nkind: ConfigMap\ndata:\n  config.yaml: |\n{inside}"
    assert read(wrapped) == read(CONFIGS)


def test_a_filter_says_which_table_counts():
    too_many = CONFIGS.replace('"1g.10gb": 4', '"1g.10gb": 7')
    assert "A100-40GB takes at most 4" in read(too_many)["why"]["by-product"]


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ("{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 8}}", "at most 7"),
        ("{devices: all, mig-enabled: true, mig-devices: {3g.20gb: 2, 1g.5gb: 1}}", "9 memory slices"),
        ("{devices: all, mig-enabled: true, mig-devices: {1g.5gb+me: 2}}", "at most 1"),
        ("{devices: all, mig-enabled: true, mig-devices: {1g.9gb: 1}}", "no profile 1g.9gb"),
        ("{devices: all, mig-enabled: false, mig-devices: {1g.5gb: 1}}", "switched off"),
        ("{devices: 0, mig-enabled: true}", "devices must be all or a list"),
        ("{devices: [1, 1], mig-enabled: true}", "names a GPU twice"),
        ("{devices: [-1], mig-enabled: true}", "devices must be all or a list"),
        ("{devices: all, mig-enabled: yes please}", "mig-enabled must be true or false"),
        ("{devices: all, mig-enabled: true, mig-devices: {1g.5gb: many}}", "name a profile and a number"),
        ("{devices: all, mig-enabled: true, mig-devices: 7}", "name a profile and a number"),
        ("{device-filter: 9, devices: all, mig-enabled: true}", "device-filter"),
    ],
)
def test_what_cannot_be_cut_says_why(entry, reason):
    assert reason in why(entry)


def test_two_entries_must_not_choose_one_gpu():
    one = "{devices: [0, 1], mig-enabled: true}\n    - {devices: [1], mig-enabled: false}"
    assert why(one) == "Two entries choose the same GPU."
    assert why("{devices: all, mig-enabled: true}\n    - {devices: [1], mig-enabled: false}") != ""


@pytest.mark.parametrize(
    "devices",
    [
        "{0: 3g.20gb, 4: 3g.20gb}",
        "{3g.20gb: [0, 4]}",
        "[{profile: 3g.20gb, start: 0}, {profile: 3g.20gb, start: 4}]",
    ],
)
def test_positions_are_held_against_the_table(devices):
    entry = f"{{devices: all, mig-enabled: true, mig-devices: {devices}}}"
    answer = read(config(entry), "A100-40GB")
    assert answer["why"] == {}
    assert answer["detail"]["it"][0]["inst"] == {"3g.20gb": 2}
    assert [one["start"] for one in answer["detail"]["it"][0]["starts"]] == [0, 4]
    assert "only at 0, 4" in why(entry.replace("4", "2"))


def test_a_list_of_profiles_is_counted():
    answer = read(config("{devices: all, mig-enabled: true, mig-devices: [1g.5gb, 1g.5gb, 4g.20gb]}"))
    assert answer["detail"]["it"][0]["inst"] == {"1g.5gb": 2, "4g.20gb": 1}


SESSION = """\
$ nvidia-smi mig -lgipp
GPU  0 Profile ID 19 Placements: {0,1,2,3,4,5,6}:1
GPU  0 Profile ID  0 Placement : {0}:8
$ nvidia-smi mig -lgi
No GPU instances found: Not Found
$ nvidia-smi mig -lgi
+-------------------------------------------------------+
| GPU instances:                                        |
| GPU   Name             Profile  Instance   Placement  |
|                          ID       ID       Start:Size |
|=======================================================|
|   0  MIG 1g.5gb          19        9          2:1     |
+-------------------------------------------------------+
|   0  MIG 3g.20gb          9        2          4:4     |
+-------------------------------------------------------+
$ nvidia-smi mig -lci
+--------------------------------------------------------------------+
| Compute instances:                                                 |
| GPU     GPU       Name             Profile   Instance   Placement  |
|       Instance                       ID        ID       Start:Size |
|         ID                                                         |
|====================================================================|
|   0      9       MIG 1g.5gb           0         0          0:1     |
|   0      2       MIG 1c.3g.20gb       0         1          0:1     |
+--------------------------------------------------------------------+
$ nvidia-smi -L
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-00000000-0000-0000-0000-000000000001)
  MIG 1c.3g.20gb  Device  0: (UUID: MIG-00000000-0000-0000-0000-000000000002)
  MIG 2c.3g.20gb  Device  1: (UUID: MIG-00000000-0000-0000-0000-000000000003)
  MIG 1g.5gb      Device  2: (UUID: MIG-00000000-0000-0000-0000-000000000004)
"""


def test_a_session_of_nvidia_smi_is_read_as_a_whole():
    answer = read(SESSION)
    assert answer["model"] == "A100-40GB"
    assert answer["placements"]["19"] == {"size": 1, "starts": [0, 1, 2, 3, 4, 5, 6]}
    assert [(one["profile"], one["start"]) for one in answer["instances"]] == [("1g.5gb", 2), ("3g.20gb", 4)]
    assert (answer["used"], answer["free"]) == (5, 3)
    assert (answer["compute_instances"], answer["gpu_instances"]) == (3, 2)
    assert [one["ci"] for one in answer["compute_instance_list"]] == [0, 1]
    assert answer["warnings"] == []


def test_a_listing_that_disagrees_with_the_table_says_so():
    answer = read(SESSION.replace("4:4", "2:4").replace("{0}:8", "{0,1}:7"))
    assert any("cannot start at memory slice 2" in one for one in answer["warnings"])
    assert any("other start slices" in one for one in answer["warnings"])


def test_profiles_are_listed_with_what_is_free_and_a_cut_row_is_noticed():
    rows = [
        f"|   0  MIG {one.name:<15} {one.number:<3} 0/{one.most}   {one.memory_gib}"
        f"   No   {one.multiprocessors}   0   0 |"
        for one in MODELS["A30-24GB"].profiles
    ]
    whole = read("\n".join(rows))
    assert (whole["model"], whole["complete"]) == ("A30-24GB", True)
    assert whole["profiles"]["2g.12gb"] == {"id": 5, "free": 0, "total": 2, "mem_gib": 11.69, "sm": 28}
    assert read("\n".join(rows)[:-12])["complete"] is False
    assert read("\n".join(rows[:2]))["complete"] is False


INSTANCES = """\
+-------------------------------------------------------+
| GPU instances:                                        |
|=======================================================|
|   0  MIG 1g.12gb         19       13          6:1     |
+-------------------------------------------------------+
|   0  MIG 3g.47gb          9        1          0:4     |
+-------------------------------------------------------+
"""
FRAMES = {
    "indented": "".join(f"      {line}\n" for line in INSTANCES.splitlines()),
    "commented": "".join(f"# {line}\n" for line in INSTANCES.splitlines()),
    "drawn": INSTANCES.replace("|", "│"),
    "bare": INSTANCES.replace("|", " ").replace("+", " ").replace("-", " "),
    "coloured": INSTANCES.replace("MIG", "\x1b[1;32mMIG\x1b[0m"),
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=list(FRAMES))
def test_the_frame_around_a_listing_does_not_matter(frame):
    answer = read(frame)
    assert answer["model"] == "H100-94GB"
    assert [(one["profile"], one["start"]) for one in answer["instances"]] == [("1g.12gb", 6), ("3g.47gb", 0)]
    assert (answer["used"], answer["free"]) == (5, 3)
    assert answer["fits"]["0"] == {
        "1g.12gb": 2,
        "1g.24gb": 1,
        "2g.24gb": 1,
        "3g.47gb": 0,
        "4g.47gb": 0,
        "7g.94gb": 0,
    }


@pytest.mark.parametrize("end", [30, 45])
def test_a_listing_that_ends_within_a_row_says_so(end):
    answer = read(INSTANCES + "|   1  MIG 7g.94gb          0        0          0:8     |"[:end])
    assert answer["complete"] is False
    assert any("ends within a row" in one for one in answer["warnings"])
    assert "complete" not in read(INSTANCES)


def test_compute_instances_are_counted_in_their_gpu_instances():
    rows = "|   0      {}       MIG {}       0         {}          {}     |\n"
    text = "| Compute instances:  |\n" + "".join(
        rows.format(*row)
        for row in ((1, "1c.4g.40gb", 0, "0:1"), (1, "3c.4g.40gb", 1, "1:3"), (2, "3g.40gb", 0, "0:3"))
    )
    answer = read(text)
    assert (answer["compute_instances"], answer["gpu_instances"]) == (3, 2)
    assert answer["warnings"] == ["No placement table is known for this GPU: nothing is checked."]
    full = read(text + rows.format(2, "1c.3g.40gb", 1, "3:1"))
    assert any("take 4 compute slices of 3g.40gb" in one for one in full["warnings"])


def test_what_can_still_be_made_within_an_instance_is_read():
    text = "|   0      1       MIG 1c.3g.20gb       0      2/3           14        2     0     0   |\n"
    assert read(text)["compute_profiles"] == [
        {"gpu": 0, "gi": 1, "profile": "1c.3g.20gb", "free": 2, "total": 3}
    ]


TABLE = """\
| NVIDIA-SMI 550.54        Driver Version: 550.54       CUDA Version: 12.4     |
|   0  NVIDIA A100-SXM...  On   | 00000000:07:00.0 Off |                   On |
| N/A   30C    P0    45W / 400W |     40MiB / 40960MiB |     N/A      Default |
|                               |                      |              Enabled |
| MIG devices:                                                                |
|  0    1   0   0  |     19MiB / 20096MiB | 42      0 |  3   0    2    0    0 |
|  0    5   0   1  |     12MiB /  9856MiB | 14      0 |  2   0    1    0    0 |
|  0    5   1   2  |     12MiB /  9856MiB | 14      0 |  2   0    1    0    0 |
| Processes:                                                                  |
|    0    5    1       4242      C   /usr/bin/python3                  10MiB |
"""


@pytest.mark.parametrize("model", MODELS.values(), ids=list(MODELS))
def test_each_models_own_listing_is_known_by_its_profiles(model):
    rows = [
        f"|   0  MIG {one.name}  {one.number or 0}  {one.most}/{one.most}"
        f"  {one.memory_gib or one.memory_gb:.2f}  No  {one.multiprocessors or 1}  0  0  |"
        for one in model.profiles
    ]
    answer = read("\n".join(rows))
    assert (answer["model"], answer["complete"]) == (model.name, True)
    assert [one for one in answer["warnings"] if "the table of" in one] == []
    assert read("\n".join(rows[:1]))["complete"] is False


def test_the_table_tells_model_profiles_and_users():
    answer = read(TABLE)
    assert (answer["model"], answer["mig_mode"]) == ("A100-40GB", {"0": True})
    assert [row["profile"] for row in answer["rows"]] == ["3g.20gb", "2g.10gb", "2g.10gb"]
    assert (answer["compute_instances"], answer["gpu_instances"]) == (3, 2)
    assert answer["instance_counts"] == {"3g.20gb": 1, "2g.10gb": 1}
    assert answer["in_use"] == [(0, 5)]
    empty = read(TABLE[: TABLE.index("|  0    1")] + "|  No MIG devices found  |\n")
    assert any("MIG is on and the GPU has no instance" in one for one in empty["warnings"])


def test_what_programs_use_must_stay_unless_told_otherwise():
    text = TABLE + INSTANCES.replace(
        "1g.12gb         19       13          6:1", "1g.5gb          19        5          0:1"
    )
    text = text.replace(
        "   0  MIG 3g.47gb          9        1          0:4",
        "   0  MIG 3g.20gb          9        1          4:4",
    )
    wanted = {"3g.20gb": 1, "2g.10gb": 2}

    def way(in_use=None):
        return read_mig_text("a", text, Question(None, wanted, in_use))["ways"]["0"]

    assert way()["in_use"] == [{"profile": "1g.5gb", "start": 0}]
    assert way()["why"] == "1 x 1g.5gb are in use, and the wanted layout has 0."
    assert way(frozenset({1}))["created"] == [
        {"profile": "2g.10gb", "start": 0},
        {"profile": "2g.10gb", "start": 2},
    ]
    assert way(frozenset())["by_clearing"] is True


def test_a_text_in_which_the_tool_lists_nothing_says_what_the_tool_said():
    with pytest.raises(BadDump, match="No MIG-enabled devices found"):
        read("$ nvidia-smi mig -lgi\nNo MIG-enabled devices found.\n")


@pytest.mark.parametrize(
    ("devices", "hint"),
    [
        ("{1g.5gb.me: 1}", "1g.5gb.me is written 1g.5gb+me here"),
        ("{mig-2g.10gb: 1}", "mig-2g.10gb is written 2g.10gb here"),
        ("{1c.3g.20gb: 3}", "names a compute instance"),
        ("{1g.5gb: 3, 1g.5gb: 4}", "mig-devices names a profile twice"),
    ],
)
def test_names_written_by_hand_get_a_hint(devices, hint):
    entry = f"{{devices: all, mig-enabled: true, mig-devices: {devices}}}"
    assert hint in read(config(entry))["why"]["it"]


def test_a_name_that_stands_twice_is_refused_for_the_later_would_win_quietly():
    twice = CONFIGS + "  mixed: [{devices: all, mig-enabled: false}]\n"
    assert read(twice)["why"] == {"mixed": "its name stands twice in the file."}


def test_an_entry_for_every_model_and_one_for_some_choose_the_same_gpu():
    some = "{device-filter: '0x20B010DE', devices: all, mig-enabled: false}"
    assert why(f"{{devices: [0], mig-enabled: false}}\n    - {some}") == "Two entries choose the same GPU."


def test_a_listing_in_the_comments_of_a_configuration_is_no_listing():
    noted = "".join(f"# {line}\n" for line in INSTANCES.splitlines()) + CONFIGS
    assert read(noted)["kind"] == "mig-parted"


def test_filters_that_nobody_knows_are_told_and_their_entries_not_judged():
    entry = "{device-filter: '0xFFFF10DE', devices: all, mig-enabled: true, mig-devices: {1g.5gb: 8}}"
    answer = read(config(entry))
    assert answer["why"] == {}
    assert any("0xFFFF10DE" in one for one in answer["warnings"])


def test_a_node_tells_its_state():
    node = (
        "apiVersion: v1\nkind: Node\nmetadata:\n  name: n\n  labels:\n    nvidia.com/gpu.count: '2'\n"
        "    nvidia.com/mig.config: x\n    nvidia.com/mig.config.state: rebooting\n"
    )
    answer = read(node)
    assert (answer["state"], answer["schedulable_now"], answer["physical_gpus"]) == ("rebooting", False, 2)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "[1, 2",
        "version: v2\nmig-configs: {}",
        "version: v1\nmig-configs: []",
        "version: v1\nmig-configs: {a: 1}",
        "version: v1\nmig-configs: {a: []}",
        "version: v1\nmig-configs: {a: [1]}",
        "version: v1\nmig-configs: {1: [{devices: all}]}",
        "version: v1\nmig-configs: &a {b: *a}",
        "version: v1\nmig-configs: !!python/object:os.system {}",
        "[" * 500,
    ],
)
def test_other_texts_are_refused_in_one_line(text):
    with pytest.raises(BadDump) as refused:
        read(text)
    assert "\n" not in str(refused.value)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=300) | st.text(alphabet="GPU MIG0123456789:{},.|+-\n", max_size=400))
def test_no_text_breaks_it(text):
    for one in (text, SESSION + text, CONFIGS + text, config(text)):
        with contextlib.suppress(BadDump):
            json.dumps(read(one))


def test_the_command_answers_in_json_and_in_words(tmp_path, capfd, monkeypatch):
    path = tmp_path / "configs.yaml"
    path.write_text(CONFIGS)
    call_command("read_mig", str(path), json=True)
    assert json.loads(capfd.readouterr().out)["n_configs"] == 3
    with pytest.raises(SystemExit) as refused:
        call_command("read_mig", str(path), model="A30")
    assert refused.value.code == 1
    assert "mixed: REFUSED: A30-24GB has no profile 3g.20gb." in capfd.readouterr().out
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(SESSION.encode())))
    call_command("read_mig", "-")
    assert "3g.20gb at 4" in capfd.readouterr().out


def test_the_nodes_of_a_dump_are_told_in_words_and_those_without_mig_in_one_line(tmp_path, capfd):
    cut = node(
        "cut", labels={"nvidia.com/mig.config": "all-1g.10gb", "nvidia.com/mig.config.state": "failed"}
    )
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"kind": "List", "items": [cut, node("a"), node("b")]}))
    call_command("read_mig", str(path))
    lines = capfd.readouterr().out.splitlines()
    assert lines[0] == "nodes"
    assert lines[1].startswith("  cut: ")
    assert "mig.config all-1g.10gb, state failed. mig-manager gave up" in lines[1]
    assert lines[2:] == ["  2 nodes without MIG"]


def test_a_file_that_is_not_there_is_one_line_and_exit_2():
    with pytest.raises(CommandError, match="cannot be read") as refused:
        call_command("read_mig", "nowhere.yaml")
    assert refused.value.returncode == 2


def test_an_unknown_model_is_refused(tmp_path):
    path = tmp_path / "configs.yaml"
    path.write_text(CONFIGS)
    with pytest.raises(CommandError, match="No MIG placement table") as refused:
        call_command("read_mig", str(path), model="T4")
    assert refused.value.returncode == 2


def test_configurations_in_a_list_of_what_kubectl_printed():
    inside = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"config.yaml": CONFIGS}}
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [inside]})
    assert read_mig_text("it", text)["configs"] == ["all-off", "mixed", "by-product"]


def test_instances_on_one_slice_are_told_although_the_model_is_not_known():
    rows = [("1g.10gb", 19, 8, "5:1"), ("3g.40gb", 9, 1, "4:4"), ("2g.20gb", 14, 4, "0:2")]
    lines = [f"|   0  MIG {name}   {number}   {at}   {place} |" for name, number, at, place in rows]
    text = "| GPU instances: |\n| GPU Name Profile Instance Placement |\n" + "\n".join(lines)
    found = read_mig_text("it", text)
    assert found["model"] is None
    assert [said for said in found["warnings"] if "overlaps" in said] == [
        "GPU 0: 1g.10gb at 5 overlaps 3g.40gb at 4."
    ]


def test_a_piece_without_a_version_is_read_and_told():
    piece = CONFIGS.replace("version: v1\n", "")
    found = read_mig_text("it", piece)
    assert (found["n_configs"], any("no version" in said for said in found["warnings"])) == (3, True)
    assert not any("no version" in said for said in read_mig_text("it", CONFIGS)["warnings"])
