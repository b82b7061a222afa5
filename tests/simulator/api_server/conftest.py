"""A running API server for these tests, and a small client that speaks HTTPS to it.

The tests of files named test_behaviours_* ask the simulated server and, where KUBEBUILDER_ASSETS names
real programs, a real one as well.
"""

import asyncio
import json
import os
import ssl
import threading
from dataclasses import dataclass

import aiohttp
import pytest

from apps.simulator.api_server.server import ApiServer
from tests.control_plane import WHY_SKIPPED

STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
NS = "/api/v1/namespaces/default"


class ServerThread:
    """The server in an event loop of its own, as the command runs it."""

    def __init__(self, **options):
        self.server = ApiServer(token="admin-token", **options)
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.run(self.server.start())

    def run(self, work):
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(30)

    def call(self, action, *arguments):
        async def act():
            return action(*arguments)

        return self.run(act())

    async def _settle(self):
        """Lets the tasks of closed connections come to their end."""
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.wait_for(asyncio.gather(*others, return_exceptions=True), 5)

    def clear(self):
        self.call(clear, self.server)

    def forget_history(self):
        """As if so much had happened since that no older change is remembered."""

        def forget():
            store = self.server.store
            for table in store.tables.values():
                table.forget_history(store.revision)

        self.call(forget)

    def stop(self):
        self.run(self.server.stop())
        self.run(self._settle())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)
        self.loop.close()


@dataclass
class Reply:
    code: int
    text: str
    headers: dict

    @property
    def json(self):
        return json.loads(self.text)

    @property
    def message(self):
        return self.json["message"]

    @property
    def reason(self):
        return self.json.get("reason", "")

    @property
    def version(self):
        return int(self.json["metadata"]["resourceVersion"])

    @property
    def names(self):
        return [item["metadata"]["name"] for item in self.json["items"]]


class Client:
    """HTTPS calls on a test's own event loop; every call gives a Reply."""

    def __init__(self, thread, server=None):
        self.thread, self.server = thread, server or thread.server
        self.is_real = server is not None
        self.context = ssl.create_default_context(cadata=self.server.ca_pem)
        self.loop = asyncio.new_event_loop()

    def close(self):
        self.loop.close()

    def do(self, method, path, body=None, *, content="application/json", token="admin-token", **query):
        return self.loop.run_until_complete(
            self.ask(method, path, body, content=content, token=token, **query)
        )

    def together(self, *calls):
        """Several calls at once, each a tuple of arguments of `ask`."""

        async def all_at_once():
            return await asyncio.gather(*(self.ask(*call[0], **call[1]) for call in calls))

        return self.loop.run_until_complete(all_at_once())

    async def ask(self, method, path, body=None, *, content="application/json", token="admin-token", **query):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        headers["User-Agent"] = "tests/1"
        if "accept" in query:
            headers["Accept"] = query.pop("accept")
        data = body if body is None or isinstance(body, str | bytes) else json.dumps(body)
        if data is not None:
            headers["Content-Type"] = content
        async with (
            aiohttp.ClientSession() as session,
            session.request(
                method, self.server.url + path, data=data, headers=headers, params=query, ssl=self.context
            ) as response,
        ):
            return Reply(response.status, await response.text(), dict(response.headers))

    def get(self, path, **query):
        return self.do("GET", path, **query)

    def post(self, path, body, **query):
        return self.do("POST", path, body, **query)

    def put(self, path, body, **query):
        return self.do("PUT", path, body, **query)

    def delete(self, path, body=None, **query):
        return self.do("DELETE", path, body, **query)

    def patch(self, path, body, content=MERGE, **query):
        return self.do("PATCH", path, body, content=content, **query)

    def watch(self, path, *, seconds=1, while_watching=None, **query):
        """The events of a watch that ends by itself; something may be done while it is open."""

        async def run():
            asking = asyncio.ensure_future(
                self.ask("GET", path, watch="1", timeoutSeconds=str(seconds), **query)
            )
            await asyncio.sleep(0.15)
            for call in while_watching or ():
                await self.ask(*call[:3], content=MERGE if call[0] == "PATCH" else "application/json")
            return await asking

        reply = self.loop.run_until_complete(run())
        return [json.loads(line) for line in reply.text.splitlines()]


def node(name="n1", gpus=8, **spec):
    capacity = {"cpu": "8", "memory": "32Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": spec,
        "status": {"capacity": capacity},
    }


def pod(name="p", gpus=1, **spec):
    metadata = {"name": name, "labels": spec.pop("labels", {"app": name}), **spec.pop("metadata", {})}
    limits = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
    return {
        "metadata": metadata,
        "spec": {"containers": [{"name": "main", "image": "img", "resources": limits}], **spec},
    }


def deployment(name, replicas):
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [{"name": "main", "image": "img"}]},
    }
    selector = {"matchLabels": {"app": name}}
    return {
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": selector, "template": template},
    }


RUNNING = {
    "status": {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    }
}


REAL = pytest.param(
    "real",
    marks=[
        pytest.mark.control_plane,
        pytest.mark.skipif("KUBEBUILDER_ASSETS" not in os.environ, reason=WHY_SKIPPED),
    ],
)


def pytest_generate_tests(metafunc):
    if "/test_behaviours_" in str(metafunc.definition.path) and "api" in metafunc.fixturenames:
        metafunc.parametrize("api", ["simulated", REAL], indirect=True)


@pytest.fixture(scope="module")
def server_thread():
    thread = ServerThread()
    yield thread
    thread.stop()


@pytest.fixture(scope="session")
def real_server(tmp_path_factory):
    from tests.simulator.api_server.real import RealServer

    server = RealServer(tmp_path_factory.mktemp("real"))
    yield server
    server.stop()


@pytest.fixture
def api(request):
    """The server, emptied of what an earlier test left in the default namespace."""
    if getattr(request, "param", "simulated") == "real":
        server = request.getfixturevalue("real_server")
        client = Client(server, server)
    else:
        client = Client(request.getfixturevalue("server_thread"))
    client.thread.clear()
    yield client
    client.close()


def clear(server):
    server.faults.clear()
    store = server.store
    kept = {"namespaces", "priorityclasses.scheduling.k8s.io", "serviceaccounts"}
    kept.add("customresourcedefinitions.apiextensions.k8s.io")
    for storage in [name for name in store.tables if name not in kept]:
        for key in list(store.table(storage).order):
            store.drop(storage, key)


@pytest.fixture
def running(api):
    """Makes a pod that runs on node n1."""

    def make(name="p", *, ready=True, **spec):
        api.post(f"{NS}/pods", pod(name, **{"nodeName": "n1", **spec}))
        status = json.loads(json.dumps(RUNNING))
        status["status"]["conditions"][0]["status"] = "True" if ready else "False"
        return api.patch(f"{NS}/pods/{name}/status", status).json

    return make
