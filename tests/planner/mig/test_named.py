"""Which named configuration of mig-parted cuts a node exactly as wanted, and what to add where none does."""

import pytest

from apps.kube.mig_configs import find_configs
from apps.planner.inventory import Gpu, MigInstance, Node
from apps.planner.mig.catalogue import MODELS
from apps.planner.mig.named import entry_to_add, find_named, present_layouts, resources_after, wanted_layouts
from apps.planner.mig.planning import plan_mig
from apps.planner.mig.preferring import prefer_named
from apps.planner.plan import Reconfiguration
from apps.planner.plan_json import plan_from_dict, plan_to_dict
from apps.planner.verification import check_plan
from tests.planner.mig.drawing import mig_cluster, wanting

A100, A40 = MODELS["A100-80GB"], MODELS["A100-40GB"]
SEVEN, WHOLE = {"1g.10gb": 7}, {}
IDLE = {index: WHOLE for index in range(4)}
TEXT = """
version: v1
mig-configs:
  all-disabled:
    - {devices: all, mig-enabled: false}
  all-1g.10gb:
    - device-filter: ["0x20B210DE", "0x20B510DE", "0x20F310DE", "0x20F510DE"]
      devices: all
      mig-enabled: true
      mig-devices: {"1g.10gb": 7}
    - device-filter: ["0x20B010DE", "0x20B110DE", "0x20F110DE", "0x20F610DE"]
      devices: all
      mig-enabled: true
      mig-devices: {"1g.10gb": 4}
  two:
    - {devices: [2], mig-enabled: true, mig-devices: {"1g.10gb": 7}}
    - {devices: [0, 1, 3], mig-enabled: false}
  silent:
    - {devices: [1], mig-enabled: true, mig-devices: {"1g.10gb": 7}}
  some-cards:
    - {device-filter: "0x20B210DE", devices: [3], mig-enabled: true, mig-devices: {"1g.10gb": 7}}
  twice:
    - {devices: all, mig-enabled: false}
    - {devices: [0], mig-enabled: true, mig-devices: {"1g.10gb": 7}}
"""
CONFIGS = find_configs(TEXT)


def named(wanted, present=IDLE, model=A100, configs=CONFIGS):
    found = find_named(configs, present, wanted, model)
    return found and (found[0], sorted(found[1]))


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({**IDLE, 2: SEVEN}, ("two", [2])),
        ({**IDLE, 1: SEVEN}, ("silent", [1])),
        (dict.fromkeys(range(4), SEVEN), ("all-1g.10gb", [0, 1, 2, 3])),
        ({**IDLE, 3: SEVEN}, None),  # its filter names some of the model's cards only
        ({**IDLE, 0: SEVEN}, None),  # two entries for one GPU
        ({**IDLE, 2: {"2g.20gb": 3}}, None),
    ],
)
def test_the_whole_node_must_come_out_as_wanted(wanted, found):
    assert named(wanted) == found


def test_the_entry_for_other_models_does_not_count():
    assert named(dict.fromkeys(range(4), SEVEN), model=A40) is None
    assert named(dict.fromkeys(range(4), {"1g.10gb": 4}), model=A40) == ("all-1g.10gb", [0, 1, 2, 3])


def test_gpus_in_mig_mode_that_are_named_are_cleared_once_any_mode_is_switched():
    present = {0: SEVEN, 1: SEVEN, 2: WHOLE, 3: WHOLE}
    text = "version: v1\nmig-configs:\n  a: [{devices: [0, 1, 2], mig-enabled: true, mig-devices: "
    text += '{"1g.10gb": 7}}, {devices: [3], mig-enabled: false}]\n'
    assert named({**present, 2: SEVEN}, present, configs=find_configs(text)) == ("a", [0, 1, 2])
    line = entry_to_add(present, {**present, 2: SEVEN}, ())
    added = find_configs("version: v1\nmig-configs:\n  " + line)
    assert named({**present, 2: SEVEN}, present, configs=added)[1] == [2]


@pytest.mark.parametrize(
    "wanted",
    [{**IDLE, 0: SEVEN}, dict.fromkeys(range(4), {"3g.40gb": 2}), {**IDLE, 1: SEVEN, 3: {"7g.80gb": 1}}],
)
def test_what_is_to_be_added_then_fits(wanted):
    taken = set(CONFIGS)
    line = entry_to_add(IDLE, wanted, taken)
    added = find_configs("version: v1\nmig-configs:\n  " + line)
    assert not taken & set(added)
    assert find_named(added, IDLE, wanted, A100)[0] in added


def test_a_name_that_is_taken_is_not_proposed_again():
    wanted = {**IDLE, 0: SEVEN}
    name = entry_to_add(IDLE, wanted, ()).partition(":")[0]
    assert entry_to_add(IDLE, wanted, {name}).startswith(f"{name}-2:")


def test_long_names_that_are_taken_several_times_end_in_another_number():
    """Names are cut off, so many layouts of a large node begin alike."""
    wanted = dict(enumerate([SEVEN, {"3g.40gb": 2}, {"2g.20gb": 3}, {"1g.10gb": 4, "3g.40gb": 1}]))
    taken = set()
    for _ in range(11):
        name = entry_to_add(IDLE, wanted, taken).partition(":")[0]
        assert name not in taken
        assert len(name) <= 63
        taken.add(name)
    assert len(min(taken, key=len)) > 59


def node(gpus, **offers):
    allocatable = {"nvidia.com/gpu": offers.pop("whole", 0)}
    allocatable |= {f"nvidia.com/mig-{name}": number for name, number in offers.items()}
    return Node("n", gpus=gpus, allocatable=allocatable, gpu_resource="nvidia.com/gpu")


def cut(index, before, after):
    return Reconfiguration(1, "n", str(index), index, before, after, "", model="A100-80GB")


def test_what_the_kubelet_is_to_offer_afterwards():
    seen = node((Gpu(0, instances=(MigInstance("3g.40gb", 0), MigInstance("3g.40gb", 4))), Gpu(1)), whole=1,
                **{"3g.40gb": 2})  # fmt: skip
    assert present_layouts(seen) == {0: {"3g.40gb": 2}, 1: {}}
    cuts = [cut(0, {"3g.40gb": 2}, SEVEN)]
    assert wanted_layouts(seen, cuts) == {0: SEVEN, 1: {}}
    assert resources_after(seen, cuts) == {"1g.10gb": 7, "nvidia.com/gpu": 1}
    assert resources_after(seen, [cut(1, {}, SEVEN)]) == {"1g.10gb": 7, "3g.40gb": 2, "nvidia.com/gpu": 0}


def test_where_layouts_are_not_told_everything_that_was_offered_goes():
    seen = node((Gpu(0), Gpu(1)), **{"3g.40gb": 4})
    cuts = [cut(0, {}, SEVEN), cut(1, {}, SEVEN)]
    assert resources_after(seen, cuts) == {"1g.10gb": 14, "nvidia.com/gpu": 0}


def prefer(plan, snapshot, text):
    found = prefer_named(snapshot, plan, find_configs(text))
    assert check_plan(snapshot, found) == []
    return found


def test_of_equal_idle_gpus_the_ones_with_a_named_layout_are_cut():
    snapshot = mig_cluster({"n1": ["whole", "1g@0 1g@1", "1g@0 1g@1", "1g@0 1g@1:A"]}, wanting("7g"))
    plan = plan_mig(snapshot, max_moves=9, deadline=lambda: False)
    assert [one.index for one in plan.reconfigurations] == [1]
    second = (
        'version: v1\nmig-configs:\n  b: [{devices: [2], mig-enabled: true, mig-devices: {"7g.40gb": 1}}]'
    )
    found = prefer(plan, snapshot, second)
    assert [(one.index, one.gpu) for one in found.reconfigurations] == [(2, "GPU-n1-2")]
    assert found.relaxed == plan.relaxed
    used = prefer(plan, snapshot, second.replace("[2]", "[3]"))
    assert [one.index for one in used.reconfigurations] == [1]
    (made,) = used.layouts
    assert made.name in used.relaxed[-1]
    assert plan_from_dict(plan_to_dict(used)) == used
    added = find_configs("version: v1\nmig-configs:\n  " + made.line)
    wanted = wanted_layouts(snapshot.nodes["n1"], used.reconfigurations)
    assert find_named(added, present_layouts(snapshot.nodes["n1"]), wanted, A40)[0] == made.name
    assert prefer_named(snapshot, plan, {}) == plan
