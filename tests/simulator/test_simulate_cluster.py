"""The command simulate_cluster: one line when ready, a private kubeconfig, clean ends, clear refusals."""

import json
import os
import signal
import stat
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from django.core.management import call_command

from apps.simulator.scenes import SCENES
from tests.cluster_fixtures import ask, read_kubeconfig

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "manage.py", "simulate_cluster"]
ENVIRONMENT = {**os.environ, "DJANGO_SETTINGS_MODULE": "console.settings.test", "SECRET_KEY": "x"}


class Started:
    def __init__(self, *arguments, **environment):
        self.program = subprocess.Popen(
            [*COMMAND, *arguments],
            cwd=ROOT,
            env={**ENVIRONMENT, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __enter__(self):
        self.url = self.program.stdout.readline().strip()
        return self

    def __exit__(self, *exception):
        if self.program.poll() is None:
            self.program.kill()
        self.program.communicate()


def test_the_token_may_come_from_the_environment_and_may_look_like_an_option(tmp_path):
    path = tmp_path / "kubeconfig"
    options = ("--scene", "empty", "--kubeconfig", str(path))
    with Started(*options, SIMULATED_CLUSTER_TOKEN="-dash") as started:
        assert started.url.startswith("https://127.0.0.1:")
        found = read_kubeconfig(path.read_text())
        assert found.token == "-dash"
        assert ask(found, "GET", "/readyz") == "ok"


def test_it_serves_a_scene_and_ends_cleanly_on_sigterm(tmp_path):
    path = tmp_path / "kubeconfig"
    with Started("--scene", "small", "--kubeconfig", str(path), "--token", "secret") as started:
        assert started.url.startswith("https://127.0.0.1:")
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        credentials = read_kubeconfig(path.read_text())
        assert (credentials.server, credentials.token) == (started.url, "secret")
        nodes = ask(credentials, "GET", "/api/v1/nodes")
        assert len(nodes["items"]) == 6
        started.program.send_signal(signal.SIGTERM)
        _, errors = started.program.communicate(timeout=20)
        assert (started.program.returncode, errors) == (0, "")


def test_it_tells_both_addresses_and_its_prometheus_knows_the_gpus():
    with Started("--scene", "small", "--json") as started:
        told = json.loads(started.url)
        assert told["server"].startswith("https://127.0.0.1:")
        with urllib.request.urlopen(f"{told['prometheus']}/api/v1/query?query=count(up==1)") as reply:
            (row,) = json.load(reply)["data"]["result"]
        assert row["value"][1] == "6"


def test_a_dump_comes_alive_and_owners_it_leaves_out_are_made(tmp_path):
    wanted = [each for each in SCENES["small"]() if each["kind"] in ("Node", "Pod")]
    dump, path = tmp_path / "dump.json", tmp_path / "kubeconfig"
    dump.write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": wanted}))
    with Started("--dump", str(dump), "--kubeconfig", str(path), "--time-scale", "20") as started:
        assert started.url
        credentials = read_kubeconfig(path.read_text())
        sets = ask(credentials, "GET", "/apis/apps/v1/statefulsets")["items"]
        assert {each["metadata"]["name"] for each in sets} == {"tuner", "pinned", "notebook"}
        pods = ask(credentials, "GET", "/api/v1/pods")["items"]
        assert {p["metadata"]["uid"] for p in pods} == {
            o["metadata"]["uid"] for o in wanted if o["kind"] == "Pod"
        }


def test_trace_csvs_come_alive_and_a_gang_waits(tmp_path):
    nodes, pods, path = tmp_path / "nodes.csv", tmp_path / "pods.csv", tmp_path / "kubeconfig"
    nodes.write_text("sn,cpu_milli,memory_mib,gpu,model\nn-0,64000,262144,8,T4\nn-1,64000,262144,8,T4\n")
    pods.write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
        "p-0,1000,1024,1,500,\np-1,1000,1024,1,400,\np-2,1000,1024,2,1000,T4\n"
        "p-3,1000,1024,1,1000,V100M16\np-4,1000,1024,8,1000,\n"
    )
    arguments = ["--nodes", str(nodes), "--pods", str(pods), "--load", "0.5", "--kubeconfig", str(path)]
    with Started(*arguments) as started:
        assert started.url
        found = ask(read_kubeconfig(path.read_text()), "GET", "/api/v1/namespaces/trace/pods")["items"]
        placed = {p["metadata"]["name"].rpartition("-")[0]: p["spec"].get("nodeName") for p in found}
        assert {name for name, node in placed.items() if node} == {"p-0", "p-1", "p-2"}
        assert placed["p-0"] == placed["p-1"]
        assert [p for p in found if p["metadata"]["name"].startswith("waiting-gang")]


def refuse(capsys, *arguments):
    """The one line on stderr of a call that must end with exit code 2."""
    with pytest.raises(SystemExit) as end:
        call_command("simulate_cluster", *arguments)
    output, errors = capsys.readouterr()
    assert (end.value.code, output) == (2, "")
    assert len(errors.strip().splitlines()) == 1
    return errors


def test_it_lists_its_scenes(capsys):
    call_command("simulate_cluster", "--list-scenes")
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "fragmented",
        "small",
        "mig",
        "mixed",
        "whole",
        "under-fire",
        "queues",
        "empty",
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--scene", "nope"], "no scene 'nope'"),
        (["--scene", "small", "--dump", "x"], "exclude each other"),
        (["--pods", "x"], "--pods needs --nodes"),
        (["--dump", "/nowhere.json"], "/nowhere.json"),
        (["--time-scale", "0"], "--time-scale"),
        (["--port", "70000"], "--port"),
        (["--metrics-port", "-1"], "--metrics-port"),
        (["--scene", "small", "--fault", "nope"], "no fault 'nope'"),
        (["--scene", "empty", "--fault", "sick-gpu"], "needs a healthy node"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(capsys, arguments, words):
    assert words in refuse(capsys, *arguments)


@pytest.mark.parametrize("gpus", ["eight", "99999999"])
def test_bad_csv_names_file_and_line(capsys, tmp_path, gpus):
    nodes = tmp_path / "nodes.csv"
    nodes.write_text(f"sn,cpu_milli,memory_mib,gpu,model\nn-0,64000,262144,{gpus},T4\n")
    assert "nodes.csv line 2: gpu is " in refuse(capsys, "--nodes", str(nodes))
