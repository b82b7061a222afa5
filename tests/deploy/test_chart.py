"""The Helm chart: it runs what compose runs, with settings that exist. Rendering is Helm's business."""

import re

import yaml

from tests.deploy.composition import ROOT, read_composition

CHART = ROOT / "deploy" / "helm" / "gpu-defrag-console"
PARTS = ("web", "worker", "planner", "beat", "watcher", "steering")


def test_the_chart_runs_what_compose_runs(tmp_path):
    services = read_composition(tmp_path, SECRET_KEY="x", POSTGRES_PASSWORD="y")["services"]
    templates = "".join(path.read_text() for path in sorted((CHART / "templates").iterdir()))
    for name in (*PARTS, "migrate"):
        assert f'"part" "{name}"' in templates, f"{name} is no part of the chart"
        words = [word for word in services[name]["command"] if not word.isdigit()]
        missing = [word for word in words if f'"{word}"' not in templates]
        assert not missing, f"{name}: the chart never says {missing}"


def test_the_chart_runs_an_extender_as_compose_does_for_each_cluster_that_wants_one(tmp_path):
    given = {"SECRET_KEY": "x", "POSTGRES_PASSWORD": "y", "EXTENDER_CLUSTER": "east"}
    command = read_composition(tmp_path, "extender", **given)["services"]["extender"]["command"]
    text = (CHART / "templates" / "deployments.yaml").read_text()
    for word in command:
        told = word.replace("/steering/extender/", "/extender/")
        assert word == "east" or f'"{told}"' in text, f"the chart never says {told}"
    assert "range .Values.extender.clusters" in text


def test_each_part_has_resources_of_its_own():
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert set(values["resources"]) == {*PARTS, "extender"}
    assert all({"requests", "limits"} <= set(each) for each in values["resources"].values())


def test_each_setting_of_the_chart_is_one_that_the_console_reads():
    named = set(re.findall(r"- name: ([A-Z_]+)\n", (CHART / "templates" / "_parts.tpl").read_text()))
    read = "".join(path.read_text() for path in (ROOT / "console" / "settings").glob("*.py"))
    assert named >= {"ALLOWED_HOSTS", "CREDENTIAL_KEYS", "STEERING_URL"}
    assert not {name for name in named if f'"{name}"' not in read}
