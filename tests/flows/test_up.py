"""`./dev up`: ready line, clean end, kept data."""

import signal
import socket
import subprocess
import sys
import urllib.request

import psutil
import pytest

from tests.flows.console_processes import ROOT, console_up, end, family_of

KEYS = {
    *("url", "username", "password", "approver_username", "approver_password"),
    *("simulated_api", "kubeconfig"),
}


@pytest.mark.timeout(400)
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_it_gets_ready_ends_cleanly_and_starts_again_with_its_data(tmp_path, ending):
    data = tmp_path / "data"
    with console_up(data, "--scene", "small") as (process, ready):
        assert set(ready) == KEYS
        with urllib.request.urlopen(ready["url"] + "readyz") as answer:
            assert answer.status == 200
        second = subprocess.run(
            [sys.executable, str(ROOT / "dev"), "up", "--json", "--data", str(data)],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert second.returncode == 2
        assert "already runs" in second.stderr
        family = family_of(process)
        end(process, ending)
        assert process.returncode == 0
    _gone, alive = psutil.wait_procs(family, timeout=10)
    assert alive == []

    with console_up(data, "--scene", "small") as (_process, again):
        assert (again["username"], again["password"]) == (ready["username"], ready["password"])


@pytest.mark.timeout(300)
def test_nothing_outlives_a_killed_supervisor(tmp_path):
    with console_up(tmp_path / "data", "--scene", "small") as (process, _ready):
        family = family_of(process)
        process.kill()
        process.wait(10)
    _gone, alive = psutil.wait_procs(family, timeout=30)
    assert alive == []


def test_a_taken_port_is_refused_before_anything_starts(tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        done = subprocess.run(
            [sys.executable, str(ROOT / "dev"), "up", "--port", port, "--data", str(tmp_path / "data")],
            capture_output=True,
            text=True,
        )
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == f"Port {port} is taken by another program. Choose another --port.\n"


def test_unknown_options_are_one_clear_line():
    done = subprocess.run(
        [sys.executable, str(ROOT / "dev"), "up", "--nodes", "x.csv"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "--nodes and --pods go together" in done.stderr
