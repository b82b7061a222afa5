"""`./dev up`: ready line, clean end, kept data."""

import http.cookiejar
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import psutil
import psycopg
import pytest

from tests.cluster_fixtures import wait_until
from tests.flows.console_processes import ROOT, console_up, end, family_of

KEYS = {
    *("url", "username", "password", "approver_username", "approver_password"),
    *("simulated_api", "kubeconfig", "prometheus"),
}


@pytest.mark.timeout(400)
def test_it_gets_ready_ends_cleanly_and_starts_again_with_its_data(tmp_path):
    data = tmp_path / "data"
    with console_up(data, "--scene", "small") as (process, ready):
        assert set(ready) == KEYS
        with urllib.request.urlopen(ready["url"] + "readyz") as answer:
            assert answer.status == 200
        assert attempts_until_locked(ready["url"]) == 8
        wait_until(lambda: measured_devices(data), seconds=60, what="no telemetry was read")
        second = subprocess.run(
            [sys.executable, str(ROOT / "dev"), "up", "--json", "--data", str(data)],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert second.returncode == 2
        assert "already runs" in second.stderr
        servers_come_back(process, ready["url"])
        family = family_of(process)
        end(process, signal.SIGINT)
        assert process.returncode == 0
    assert still_running(family, seconds=10) == []

    with console_up(data, "--scene", "small") as (process, again):
        assert (again["username"], again["password"]) == (ready["username"], ready["password"])
        family = family_of(process)
        end(process, signal.SIGTERM)  # a polite signal ends it as Ctrl-C does
        assert process.returncode == 0
    assert still_running(family, seconds=10) == []


@pytest.mark.timeout(300)
def test_nothing_outlives_a_killed_supervisor(tmp_path):
    with console_up(tmp_path / "data", "--scene", "small") as (process, _ready):
        family = family_of(process)
        process.kill()
        process.wait(10)
    # A worker ends after what it does, and that waits a while for a database that was killed with the rest.
    assert still_running(family, seconds=120) == []


def measured_devices(data: Path) -> bool:
    """Whether the simulated cluster's Prometheus, which nobody had to connect, has been read."""
    database = json.loads((data / "running.json").read_text())["environment"]["DATABASE_URL"]
    with psycopg.connect(database) as connection:
        found = connection.execute(
            "SELECT c.name FROM telemetry_reading r JOIN clusters_cluster c ON c.id = r.cluster_id"
        ).fetchall()
    return found == [("demo",)]


def still_running(family: list[psutil.Process], *, seconds: float) -> list[str]:
    """Who of them still does something. One that has ended and waits to be reaped by init does not: when
    that happens is init's business."""
    _gone, alive = psutil.wait_procs(family, timeout=seconds)
    return [told for each in alive if (told := _told(each))]


def _told(process: psutil.Process) -> str:
    try:
        is_over = process.status() == psutil.STATUS_ZOMBIE
        return "" if is_over else f"{process.pid} {process.status()} {' '.join(process.cmdline())[-80:]}"
    except psutil.NoSuchProcess:
        return ""


def servers_come_back(process: subprocess.Popen, url: str) -> None:
    """Killed, the database and the broker are started again where the others look for them."""
    servers = [
        child
        for child in psutil.Process(process.pid).children()
        if Path(child.exe()).name in ("postgres", "valkey-server")
    ]
    assert len(servers) == 2
    for server in servers:
        server.kill()
    psutil.wait_procs(servers, timeout=10)
    deadline = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(url + "readyz", timeout=20):
                return
        except urllib.error.URLError:
            assert time.monotonic() < deadline, "the console did not get ready again"
            time.sleep(0.3)


def attempts_until_locked(url: str) -> int:
    """Wrong passwords that one caller may try who names another address as his own each time."""
    opener = urllib.request.build_opener(
        urllib.request.HTTPCookieProcessor(jar := http.cookiejar.CookieJar())
    )
    opener.open(url + "login/")
    token = next(cookie.value for cookie in jar if cookie.name == "csrftoken")
    for attempt in range(1, 20):
        form = {"username": "nobody-we-know", "password": "wrong", "csrfmiddlewaretoken": token}
        headers = {"X-Forwarded-For": f"10.0.0.{attempt}", "Referer": url}
        request = urllib.request.Request(url + "login/", urllib.parse.urlencode(form).encode(), headers)
        try:
            opener.open(request)
        except urllib.error.HTTPError as refusal:
            return attempt if refusal.code == 429 else refusal.code
    return 20


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


@pytest.mark.parametrize(
    "options", [("--data", "{file}"), ("--data", "{file}/below"), ("--data", "/proc/console")]
)
def test_a_folder_that_cannot_be_used_is_one_clear_line(tmp_path, options):
    file = tmp_path / "file"
    file.touch()
    given = [option.format(file=file) for option in options]
    done = subprocess.run([sys.executable, str(ROOT / "dev"), "up", *given], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith(f"The data folder {given[1]} cannot be used: ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("option", ["--kubeconfig", "--nodes", "--pods"])
def test_a_file_that_is_not_there_is_one_clear_line(tmp_path, option):
    done = subprocess.run(
        [sys.executable, str(ROOT / "dev"), "up", option, "gone.csv"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith(f"{option} gone.csv: there is no such file")


def test_unknown_options_are_one_clear_line():
    done = subprocess.run(
        [sys.executable, str(ROOT / "dev"), "up", "--nodes", __file__], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "--nodes and --pods go together" in done.stderr


def test_an_unknown_scene_is_refused_before_anything_starts(tmp_path):
    data = tmp_path / "data"
    done = call("up", "--scene", "nope", "--data", str(data))
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith(
        "--scene nope: there is no such scene; "
        "choose one of fragmented, small, mig, mixed, whole, under-fire, queues, empty"
    )
    assert not data.exists()


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["nonsense"], "There is no command 'nonsense': ./dev manage help lists them."),
        (["--data"], "--data needs a folder: ./dev manage --data DIR COMMAND"),
        (
            ["--data", "gone", "audit_verify"],
            "There is no data folder gone: give the one that ./dev up --data",
        ),
    ],
)
def test_a_command_line_that_calls_for_nothing_is_one_clear_line(arguments, line):
    done = call("manage", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith(line)


def test_a_command_says_whose_database_it_had_to_start(tmp_path):
    """And a name that nobody has is bad input, though Django's own command ends with 1."""
    done = call("manage", "--data", str(tmp_path), "changepassword", "nobody")
    told = done.stderr.splitlines()
    assert told[0].startswith(f"No console runs on {tmp_path}: its database, a new and empty one, is started")
    assert told[1:] == ["CommandError: user 'nobody' does not exist"]
    assert (done.returncode, done.stdout) == (2, "")


def call(*arguments: str) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "REDIS_URL")}
    env.pop("DJANGO_SETTINGS_MODULE", None)
    return subprocess.run(
        [sys.executable, str(ROOT / "dev"), *arguments], capture_output=True, text=True, env=env
    )
