"""One named configuration is added to a text of somebody else and taken out of it; nothing else changes."""

import pytest

from apps.kube.mig_config_text import add_config, diff_texts, read_line, remove_config
from apps.kube.mig_configs import BadMigConfig, find_configs
from apps.simulator.scenes.gpu_operator import config_text

LINE = (
    'gpu-defrag-0123456789: [{device-filter: ["0x20B210DE"], devices: [0], mig-enabled: true, '
    'mig-devices: {"1g.10gb": 7}}]'
)
OWN = """# ours, do not touch
version: v1
mig-configs:

    # nobody uses it
    plain: [{devices: all, mig-enabled: false}]   # end
other: [1]
"""


@pytest.mark.parametrize("text", [OWN, config_text(), OWN.replace("\n", "\r\n"), OWN.rstrip()])
def test_it_is_added_and_taken_out_and_all_else_stays_as_written(text):
    added = add_config(text, LINE)
    assert [one for one in added.splitlines() if one not in text.splitlines()][0].strip() == LINE
    assert find_configs(added) == {**find_configs(text), **read_line(LINE)}
    assert remove_config(added, LINE) == text


def test_the_diff_shows_one_more_line():
    shown = diff_texts(OWN, add_config(OWN, LINE), "config.yaml").splitlines()
    assert [one for one in shown if one[0] in "+-"][2:] == [f"+    {LINE}"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("version: v1\nmig-configs: {plain: [{devices: all, mig-enabled: false}]}\n", "one below the other"),
        ("version: v1\nmig-configs: {}\n", "one below the other"),
        ("version: v1\nmig-configs:\n", "map"),
        (OWN + "---\n" + OWN, "not one YAML document"),
        ("version: v1\n", "no mig-configs"),
        ("a: [", "line 2"),
        (add_config(OWN, LINE), "is in it already"),
    ],
)
def test_a_text_that_it_cannot_be_added_to_is_refused(text, words):
    with pytest.raises(BadMigConfig, match=words):
        add_config(text, LINE)


def test_what_somebody_changed_is_not_taken_out():
    with pytest.raises(BadMigConfig, match="as it was added"):
        remove_config(add_config(OWN, LINE).replace(": 7", ": 6"), LINE)
    with pytest.raises(BadMigConfig, match="as it was added"):
        remove_config(OWN, LINE)
