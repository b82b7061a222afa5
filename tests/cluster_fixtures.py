"""Clusters to test against: an API server in this program, and the whole simulated cluster beside it.

`api_server`         a bare simulated API server over real HTTPS: no controllers, seed it as you like
`simulated_cluster`  a factory: `simulated_cluster(scene="...", time_scale=10)` starts
                     `manage.py simulate_cluster` and gives its url and kubeconfig once it answers; a process
                     of its own, forked from one that has loaded it (`tests/nursery.py`)
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from apps.kube.kubeconfig import Credentials, read_kubeconfig
from apps.kube.kubernetes_gateway import KubernetesGateway
from console.embedded import free_port
from tests.nursery import Worker, nursery_for

READY_SECONDS = 60
SCRIPT_AGENT = "test-script"


def ask(credentials: Credentials, method: str, path: str, body: object = None, **headers: str) -> Any:
    """One request by hand, past the code under test; for making things happen in the cluster."""
    context = ssl.create_default_context(cadata=credentials.ca)
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(credentials.server + path, data=data, method=method)
    request.add_header("Authorization", f"Bearer {credentials.token}")
    request.add_header("User-Agent", SCRIPT_AGENT)
    if method == "PATCH":
        request.add_header("Content-Type", "application/merge-patch+json")
    elif data is not None:
        request.add_header("Content-Type", "application/json")
    for name, value in headers.items():
        request.add_header(name, value)
    with urllib.request.urlopen(request, context=context, timeout=10) as answer:
        text = answer.read()
    return json.loads(text) if text.startswith(b"{") else text.decode()


class RunningApi:
    """An `ApiServer` in a thread with an event loop of its own."""

    def __init__(self, **options: Any) -> None:
        # Loaded only by the tests that use it: every test passes through this file.
        from apps.simulator.api_server.server import ApiServer

        self.server = ApiServer(**options)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="api-server", daemon=True)
        self._thread.start()
        self._await(self.server.start())

    @property
    def url(self) -> str:
        return self.server.url

    def kubeconfig(self, *, token: str = "") -> str:
        return self.server.kubeconfig(token=token)

    def credentials(self, *, token: str = "") -> Credentials:
        return read_kubeconfig(self.kubeconfig(token=token))

    def gateway(self, *, token: str = "", **options: Any) -> KubernetesGateway:
        credentials = self.credentials(token=token)
        return KubernetesGateway(
            server=credentials.server, ca=credentials.ca, token=credentials.token, **options
        )

    def seed(self, *objects: dict[str, Any]) -> None:
        """Stores objects as they are, status included."""

        async def act() -> None:
            self.server.seed(objects)

        self._await(act())

    def ask(self, method: str, path: str, body: object = None) -> Any:
        return ask(self.credentials(), method, path, body)

    def fault(self, **description: Any) -> Any:
        """action=..., match={"method", "path_regex", "user_agent_regex"}, times=..., ..."""
        return self.ask("POST", "/_sim/faults", description)

    def requests(self, method: str = "", path: str = "") -> list[Any]:
        """What the code under test has asked so far."""
        return [
            record
            for record in list(self.server.requests)
            if SCRIPT_AGENT not in record.user_agent and method in record.method and path in record.path
        ]

    def stop(self) -> None:
        self._await(self.server.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def _await(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(20)


@pytest.fixture
def api_server() -> Iterator[RunningApi]:
    api = RunningApi()
    yield api
    api.stop()


@pytest.fixture
def new_api_server() -> Iterator[Callable[..., RunningApi]]:
    """A factory for tests that need several, or one with a port, tokens or a version of its choice."""
    started: list[RunningApi] = []

    def start(**options: Any) -> RunningApi:
        started.append(RunningApi(**options))
        return started[-1]

    yield start
    for api in started:
        api.stop()


@dataclass
class SimulatedCluster:
    """A running `manage.py simulate_cluster`."""

    url: str
    kubeconfig_path: Path
    log: Path
    process: Worker = field(repr=False)

    @property
    def kubeconfig(self) -> str:
        return self.kubeconfig_path.read_text()

    @property
    def credentials(self) -> Credentials:
        return read_kubeconfig(self.kubeconfig)

    def gateway(self, **options: Any) -> KubernetesGateway:
        found = self.credentials
        return KubernetesGateway(server=found.server, ca=found.ca, token=found.token, **options)

    def ask(self, method: str, path: str, body: object = None) -> Any:
        return ask(self.credentials, method, path, body)

    def stop(self, seconds: float = 15) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


@pytest.fixture
def simulated_cluster(tmp_path: Path) -> Iterator[Callable[..., SimulatedCluster]]:
    """Options are those of the command: scene="main-story", time_scale=10, dump=..., nodes=..., port=..."""
    started: list[SimulatedCluster] = []

    def start(*, ready_seconds: float = READY_SECONDS, **options: Any) -> SimulatedCluster:
        folder = tmp_path / f"cluster-{len(started)}"
        folder.mkdir()
        cluster = _start_simulated(folder, options)
        started.append(cluster)
        wait_until(lambda: _answers(cluster), seconds=ready_seconds, what=f"see {cluster.log}")
        return cluster

    yield start
    for cluster in started:
        cluster.stop()


def _start_simulated(folder: Path, options: dict[str, Any]) -> SimulatedCluster:
    port = options.pop("port", None) or free_port()
    kubeconfig, log = folder / "kubeconfig", folder / "log"
    command = ["simulate_cluster", "--port", str(port), "--kubeconfig", str(kubeconfig)]
    for name, value in options.items():
        command += [f"--{name.replace('_', '-')}", str(value)]
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "console.settings.test"}
    process = nursery_for(environment).fork(*command, log=log)
    return SimulatedCluster(f"https://127.0.0.1:{port}", kubeconfig, log, process)


def _answers(cluster: SimulatedCluster) -> bool:
    if cluster.process.poll() is not None:
        raise AssertionError(f"simulate_cluster ended by itself:\n{cluster.log.read_text()[-2000:]}")
    if not cluster.kubeconfig_path.exists() or not cluster.kubeconfig_path.read_text():
        return False
    try:
        return bool(cluster.ask("GET", "/readyz") == "ok")
    except (urllib.error.URLError, OSError):
        return False


def wait_until(is_so: Callable[[], Any], *, seconds: float = 10, what: str = "it did not come true") -> Any:
    """Poll until the answer is truthy and give it; fail with `what` after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        found = is_so()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.02)
