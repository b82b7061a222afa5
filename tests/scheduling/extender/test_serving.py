"""The extender as a program: it follows an API server and answers a scheduler, both over HTTP."""

import asyncio
import json
import threading
import urllib.error
import urllib.request

import pytest
from aiohttp import web

from apps.audit.models import AuditEntry
from apps.kube.gateway import PODS
from apps.kube.object_store import KeptObject
from apps.kube.trimming import trim_object
from apps.scheduling.extender import following
from apps.scheduling.extender.assembling import put_together
from apps.scheduling.extender.following import Follower
from apps.scheduling.extender.options import Options
from apps.scheduling.extender.picture import Picture
from apps.scheduling.extender.program import recorder
from console.embedded import free_port
from tests.cluster_fixtures import wait_until
from tests.kube.objects import node, pod

pytestmark = pytest.mark.django_db(transaction=True)


class Running:
    def __init__(self, gateway, options):
        self.served = put_together(gateway, options, cluster="test", record=recorder("test"))
        self.url = f"http://127.0.0.1:{(port := free_port())}"
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.runner = web.AppRunner(self.served.app, access_log=None)
        self.do(self.runner.setup())
        self.do(web.TCPSite(self.runner, "127.0.0.1", port).start())

    def do(self, work):
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(20)

    def ask(self, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        try:
            with urllib.request.urlopen(
                urllib.request.Request(self.url + path, data=data), timeout=10
            ) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def post(self, path, raw, names):
        status, text = self.ask(path, {"Pod": raw, "Nodes": None, "NodeNames": names})
        assert status == 200, text
        return json.loads(text)

    def free(self, name):
        room = self.served.extender.picture.room(name)
        return None if room is None else room.free_gpus

    def stop(self):
        self.do(self.runner.cleanup())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)
        self.loop.close()


@pytest.fixture
def running(api_server):
    started = []

    def start(**options):
        started.append(Running(api_server.gateway(), Options(**options)))
        wait_until(lambda: started[-1].ask("/healthz")[0] == 200)
        return started[-1]

    yield start
    for one in started:
        one.stop()


def test_it_follows_the_cluster_event_by_event(api_server, running):
    api_server.seed(node("a1"), node("a2"), pod("old", gpus=8, on="a1"), pod("new", gpus=8))
    extender = running()
    new = api_server.ask("GET", "/api/v1/namespaces/team-a/pods/new")
    answer = extender.post("/filter", new, ["a1", "a2"])
    assert answer["NodeNames"] == ["a2"]
    assert answer["FailedNodes"] == {"a1": "too few free GPUs"}
    # One node was left, so the pod counts there, though nobody bound it: it went to a third node after all.
    assert extender.free("a2") == 0
    third = node("a3")
    del third["metadata"]["resourceVersion"], third["metadata"]["uid"]
    api_server.ask("POST", "/api/v1/nodes", third)
    wait_until(lambda: extender.free("a3") == 8)
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "new"}, "target": {"name": "a3"}}
    api_server.ask("POST", "/api/v1/namespaces/team-a/pods/new/binding", binding)
    wait_until(lambda: (extender.free("a2"), extender.free("a3")) == (8, 0))
    api_server.ask("DELETE", "/api/v1/namespaces/team-a/pods/old?gracePeriodSeconds=0")
    wait_until(lambda: extender.free("a1") == 8)
    api_server.ask("DELETE", "/api/v1/nodes/a2")
    wait_until(lambda: extender.free("a2") is None)
    status, text = extender.ask("/filter", {"Pod": None, "NodeNames": ["a1"]})
    assert (status, text) == (400, "The call's Pod has no metadata.uid or no name: is this a scheduler?\n")
    assert extender.ask("/bind", {"PodName": 5})[0] == 400
    told = extender.ask("/metrics")[1]
    assert 'extender_calls_total{outcome="bad call",verb="filter"} 1.0' in told


def test_it_binds_once_and_says_so_before(api_server, running):
    api_server.seed(node("a1"), node("a2"), pod("new", gpus=8))
    extender = running(binds=True)
    uid = api_server.ask("GET", "/api/v1/namespaces/team-a/pods/new")["metadata"]["uid"]
    call = {"PodName": "new", "PodNamespace": "team-a", "PodUID": uid, "Node": "a1"}
    for _ in range(2):
        assert extender.ask("/bind", call) == (200, '{"Error":""}')
    assert api_server.ask("GET", "/api/v1/namespaces/team-a/pods/new")["spec"]["nodeName"] == "a1"
    assert extender.free("a1") == 0
    assert "team-a/new is not bound to a2" in extender.ask("/bind", {**call, "Node": "a2"})[1]
    assert "team-a/new is not bound to a1" in extender.ask("/bind", {**call, "PodUID": "another"})[1]
    entries = AuditEntry.objects.filter(action="extender.bind").order_by("id")
    assert entries[0].detail == {"uid": uid, "node": "a1"}
    wait_until(lambda: len(extender.served.extender.picture.assumed) == 0)
    assert (extender.free("a1"), extender.free("a2")) == (0, 8)


def test_an_event_that_cannot_be_worked_in_fails_no_call_and_stops_no_other(api_server, monkeypatch):
    read = following.read_one_pod

    def read_but_one(raw, scenery):
        return read(raw, scenery) if raw.name != "odd" else 1 // 0

    monkeypatch.setattr(following, "read_one_pod", read_but_one)
    follower = Follower(api_server.gateway(), Picture(), cluster="test")
    for name in ("odd", "next"):
        follower._notice(PODS, ("team-a", name), KeptObject(trim_object(PODS, pod(name, gpus=1))))
    follower.catch_up(10)
    assert [one.name for one in follower.picture.pods.values()] == ["next"]
