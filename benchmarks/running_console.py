"""The whole product as `./dev up` starts it, and what a benchmark needs of it from outside.

Start and end, a logged-in client, the event stream, and the memory and CPU time of each part. Not in
here: what is measured and what the goals are (full_size).
"""

from __future__ import annotations

import http.client
import http.cookiejar
import json
import os
import queue
import re
import signal
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from apps.kube.kubeconfig import Credentials
from console.embedded import die_with_parent

ROOT = Path(__file__).resolve().parents[1]
SAMPLE_SECONDS = 0.5
TICKS = os.sysconf("SC_CLK_TCK")
PARTS = {
    "web": "uvicorn",
    "worker": "console worker",
    "beat": "console beat",
    "watcher": "watch_cluster",
    "steering webhook": "serve_steering",
    "simulated cluster": "simulate_cluster",
    "postgresql": "/postgres",
    "valkey": "valkey-server",
}


@contextmanager
def console_up(data: Path, *options: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    """(process, the JSON line of `./dev up --json`). Ends all that it started."""
    environment = {
        name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "REDIS_URL")
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "console.up", "--json", "--data", str(data), *options],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=die_with_parent,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise SystemExit(f"The console did not start; see {data}/logs.")
        yield process, json.loads(line)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


class Refused(SystemExit):
    """The console answered with an error: the end of a benchmark that does not expect it."""


class Person:
    """Somebody logged in, through the pages and the REST API."""

    def __init__(self, url: str, username: str, password: str) -> None:
        self.url = url.rstrip("/")
        self.cookies = http.cookiejar.CookieJar()
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.cookies))
        self.get("/login/")
        self.submit("/login/", username=username, password=password)

    def get(self, path: str) -> bytes:
        with self._opener.open(self.url + path, timeout=60) as answer:
            return bytes(answer.read())

    def ask(self, path: str) -> Any:
        return json.loads(self.get(path))

    def submit(self, path: str, **fields: str) -> bytes:
        """A form of the pages."""
        body = urllib.parse.urlencode({**fields, "csrfmiddlewaretoken": self._token()}).encode()
        return self._send(path, body, {"Content-Type": "application/x-www-form-urlencoded"})

    def post(self, path: str, body: object) -> Any:
        return json.loads(self._send(path, json.dumps(body).encode(), {"Content-Type": "application/json"}))

    def _send(self, path: str, body: bytes, headers: dict[str, str]) -> bytes:
        origin = {"Referer": self.url + "/", "Origin": self.url, "X-CSRFToken": self._token()}
        request = urllib.request.Request(self.url + path, data=body, headers={**headers, **origin})
        try:
            with self._opener.open(request, timeout=120) as answer:
                return bytes(answer.read())
        except urllib.error.HTTPError as error:
            raise Refused(f"{path} answered {error.code}: {error.read()[:400]!r}") from error

    def _token(self) -> str:
        return next((cookie.value or "" for cookie in self.cookies if cookie.name == "csrftoken"), "")


class Events:
    """The event stream of one person, read in a thread: (monotonic time, topic, data)."""

    def __init__(self, person: Person, cluster: str) -> None:
        self.heard: queue.Queue[tuple[float, str, Any]] = queue.Queue()
        host = urllib.parse.urlsplit(person.url)
        self._connection = http.client.HTTPConnection(host.hostname or "", host.port or 80)
        cookies = "; ".join(f"{cookie.name}={cookie.value}" for cookie in person.cookies)
        self._connection.request("GET", f"/api/v1/events/?cluster={cluster}", headers={"Cookie": cookies})
        self._answer = self._connection.getresponse()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        topic = ""
        for line in self._answer:
            if line.startswith(b"event: "):
                topic = line[7:].strip().decode()
            elif line.startswith(b"data: ") and topic:
                self.heard.put((time.monotonic(), topic, json.loads(line[6:])))
                topic = ""

    def forget(self) -> None:
        while not self.heard.empty():
            self.heard.get_nowait()

    def wait_for(self, topic: str, seconds: float) -> tuple[float, Any] | None:
        """The next event of that topic; None if none comes in time."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                at, found, data = self.heard.get(timeout=deadline - time.monotonic())
            except (queue.Empty, ValueError):
                return None
            if found == topic:
                return at, data
        return None


def processor_share() -> float:
    """How much of one processor a busy program gets here and now: 1 on an idle machine."""
    wall, cpu = time.monotonic(), time.process_time()
    while time.monotonic() - wall < 0.5:
        pass
    return (time.process_time() - cpu) / (time.monotonic() - wall)


def ask_cluster(credentials: Credentials, method: str, path: str, body: object = None) -> Any:
    """One request to the Kubernetes API by hand."""
    context = ssl.create_default_context(cadata=credentials.ca)
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(credentials.server + path, data=data, method=method)
    request.add_header("Authorization", f"Bearer {credentials.token}")
    patch = "application/merge-patch+json"
    request.add_header("Content-Type", patch if method == "PATCH" else "application/json")
    with urllib.request.urlopen(request, context=context, timeout=60) as answer:
        return json.loads(answer.read())


@dataclass(slots=True)
class Usage:
    """Of one part with all its processes. pss: shared pages count once among those that share them."""

    pss_mib: float = 0.0
    peak_pss_mib: float = 0.0
    rss_mib: float = 0.0
    cpu_seconds: float = 0.0
    processes: int = 0


@dataclass(slots=True)
class Meter:
    """Samples memory and CPU time of the parts that run under one process."""

    root: int
    usage: dict[str, Usage] = field(default_factory=dict)
    _stopping: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        threading.Thread(target=self._run, daemon=True).start()

    def cpu_seconds(self, *parts: str) -> float:
        """What these parts have used by now, all together."""
        self.sample()
        return sum(self.usage[name].cpu_seconds for name in parts if name in self.usage)

    def stop(self) -> None:
        self._stopping.set()
        self.sample()

    def _run(self) -> None:
        while not self._stopping.wait(SAMPLE_SECONDS):
            self.sample()

    def sample(self) -> None:
        found: dict[str, Usage] = {}
        for process in _family(self.root):
            name = _part_of(process)
            read = _read_process(process) if name else None
            if read is None:
                continue
            usage = found.setdefault(name, Usage())
            usage.pss_mib += read[0]
            usage.rss_mib += read[1]
            usage.cpu_seconds += read[2]
            usage.processes += 1
        for name, usage in found.items():
            before = self.usage.get(name, Usage())
            usage.peak_pss_mib = max(before.peak_pss_mib, usage.pss_mib)
            self.usage[name] = usage


def _family(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            stat = _text(entry / "stat")
            if stat:
                children.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry.name))
    found, waiting = [], [root]
    while waiting:
        here = waiting.pop()
        found += children.get(here, [])
        waiting += children.get(here, [])
    return found


def _part_of(process: int) -> str:
    """By its own command line, else by its parent's (postgres renames its children)."""
    words = _text(Path(f"/proc/{process}/cmdline")).replace("\0", " ")
    if words.startswith("postgres:"):
        return "postgresql"
    return next((name for name, mark in PARTS.items() if mark in words), "")


def _read_process(process: int) -> tuple[float, float, float] | None:
    """(PSS in MiB, RSS in MiB, CPU seconds with those of its children that ended)."""
    rollup = _text(Path(f"/proc/{process}/smaps_rollup"))
    pss = re.search(r"^Pss:\s+(\d+)", rollup, re.M)
    rss = re.search(r"^Rss:\s+(\d+)", rollup, re.M)
    stat = _text(Path(f"/proc/{process}/stat"))
    if not pss or not rss or not stat:
        return None
    times = stat.rpartition(")")[2].split()[11:15]
    return int(pss.group(1)) / 1024, int(rss.group(1)) / 1024, sum(map(int, times)) / TICKS


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
