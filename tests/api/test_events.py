"""The event stream over a real server: who hears what, heartbeats, and clean ends."""

import asyncio
import http.client
import socket
import threading
import time

import pytest
import uvicorn
from django.conf import settings
from django.db import connection
from django.test import Client
from django.utils import timezone
from redis import Redis

from apps.accounts.models import RoleGrant
from apps.accounts.tokens import create_token, revoke_token
from apps.clusters import events
from apps.clusters.notices import CHANNEL, publish
from tests.plans.situations import make_cluster, person

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def server():
    """uvicorn in a thread, on the tests' database."""
    from console.asgi import application

    listener = socket.create_server(("127.0.0.1", 0))
    running = uvicorn.Server(uvicorn.Config(application, lifespan="off", log_level="warning"))
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not running.started:
        time.sleep(0.02)
    yield listener.getsockname()[1]
    running.should_exit = True
    running.force_exit = True
    thread.join(10)
    listener.close()


class Stream:
    """One reader's connection."""

    def __init__(self, port, user=None, query="", method="GET", token=""):
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        if user is not None:
            self.browser = Client()
            self.browser.force_login(user)
            headers["Cookie"] = f"sessionid={self.browser.cookies['sessionid'].value}"
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        self.connection.request(method, f"/api/v1/events/{query}", headers=headers)
        self.answer = self.connection.getresponse()

    def block(self):
        """The next block of lines up to an empty one; None at the end of the stream."""
        lines = []
        while line := self.answer.readline():
            text = line.decode().rstrip("\n")
            if not text:
                return "\n".join(lines)
            lines.append(text)
        return None

    def opened(self):
        assert self.answer.status == 200
        assert self.answer.getheader("Content-Type") == "text/event-stream"
        assert self.block() == "retry: 3000"
        assert self.block() == ": listening"
        return self

    def close(self):
        self.connection.close()


def wait_for(truth, what):
    for _ in range(200):
        if truth():
            return
        time.sleep(0.05)
    raise AssertionError(f"never came: {what}")


def subscriptions():
    return dict(Redis.from_url(settings.REDIS_URL).pubsub_numsub(CHANNEL))[CHANNEL.encode()]


def test_a_stream_tells_only_of_the_clusters_that_its_reader_sees(server):
    east, _ = make_cluster("east"), make_cluster("west")
    ada = Stream(server, person("ada", "viewer", cluster=east)).opened()
    root = Stream(server, person("root", "viewer"), "?cluster=west").opened()
    wait_for(lambda: subscriptions() == 1, "one subscription for both streams")
    publish("west", "plan", {"plan": 1})
    publish("east", "snapshot", {"id": 2, "text": "line\nbreak <b>"})
    assert ada.block() == 'event: snapshot\ndata: {"cluster": "east", "id": 2, "text": "line\\nbreak <b>"}'
    assert root.block() == 'event: plan\ndata: {"cluster": "west", "plan": 1}'
    ada.close()
    root.close()
    wait_for(lambda: subscriptions() == 0, "the end of the subscription with the last stream")


def test_what_is_no_notice_is_not_passed_on(server):
    east = make_cluster("east")
    ada = Stream(server, person("ada", "viewer", cluster=east)).opened()
    wait_for(lambda: subscriptions() == 1, "the subscription")
    broker = Redis.from_url(settings.REDIS_URL)
    for forged in (b"x", b"[]", b'{"topic": "x\\n\\ndata: y", "cluster": "east", "data": {}}', b"\xff"):
        broker.publish(CHANNEL, forged)
    publish("east", "execution", {"id": 7})
    assert ada.block() == 'event: execution\ndata: {"cluster": "east", "id": 7}'
    ada.close()


def test_without_login_or_visible_cluster_there_is_no_stream(server):
    east = make_cluster("east")
    make_cluster("west")
    ada = person("ada", "viewer", cluster=east)
    for user, query, status in (
        (None, "", 401),
        (ada, "?cluster=west", 404),
        (ada, "?cluster=nowhere", 404),
        (ada, "?clustre=east", 422),
    ):
        stream = Stream(server, user, query)
        assert stream.answer.status == status
        assert stream.answer.getheader("Content-Type") == "application/problem+json"
        stream.close()


def test_a_heartbeat_comes_and_whoever_lost_his_right_is_let_go(server, monkeypatch):
    monkeypatch.setattr(events, "HEARTBEAT_SECONDS", 0.3)
    east = make_cluster("east")
    user = person("ada", "viewer", cluster=east)
    narrow, gone = Stream(server, user, "?cluster=east").opened(), Stream(server, user).opened()
    assert narrow.block() == ": still here"
    RoleGrant.objects.filter(user=user).delete()
    gone.browser.logout()
    for stream in (narrow, gone):
        blocks = [stream.block() for _ in range(6)]
        assert blocks[-1] is None, blocks
        stream.close()


def ends(stream):
    blocks = [stream.block() for _ in range(6)]
    stream.close()
    return blocks[-1] is None


def make_token(user, **facts):
    wish = {"name": "listener", "scopes": ["read"], "valid_days": 1, "logged_in_at": timezone.now()}
    return create_token(actor=user, **{**wish, **facts})


def test_a_stream_ends_with_the_password_that_its_session_was_begun_with(server, monkeypatch):
    monkeypatch.setattr(events, "HEARTBEAT_SECONDS", 0.3)
    user = person("ada", "viewer", cluster=make_cluster("east"))
    stream = Stream(server, user).opened()
    assert stream.block() == ": still here"
    user.set_password("another long password")
    user.save()
    assert ends(stream)


def test_a_token_listens_to_its_clusters_until_it_is_revoked(server, monkeypatch):
    monkeypatch.setattr(events, "HEARTBEAT_SECONDS", 0.3)
    make_cluster("east"), make_cluster("west")
    user = person("ada", "viewer")
    token, secret = make_token(user, clusters=["west"])
    stream = Stream(server, token=secret).opened()
    wait_for(lambda: subscriptions() == 1, "the subscription")
    publish("east", "plan", {"plan": 1})
    publish("west", "plan", {"plan": 2})
    heard = [stream.block() for _ in range(3)]
    assert [one for one in heard if one.startswith("event")] == [
        'event: plan\ndata: {"cluster": "west", "plan": 2}'
    ]
    revoke_token(actor=user, token_id=token.pk)
    assert ends(stream)
    for facts, status in (({"token": secret}, 401), ({"token": "gdc_none"}, 401), ({"method": "PUT"}, 405)):
        refused = Stream(server, **facts)
        assert refused.answer.status == status
        assert refused.answer.getheader("Content-Type") == "application/problem+json"
        refused.close()
    blind = Stream(server, token=make_token(user, name="blind", scopes=["plan:write"])[1])
    assert blind.answer.status == 403
    blind.close()


def test_open_streams_hold_no_database_connection(server):
    east = make_cluster("east")
    user = person("ada", "viewer", cluster=east)
    streams = [Stream(server, user).opened() for _ in range(24)]
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
        held = cursor.fetchone()[0]
    assert held <= 16
    wait_for(lambda: subscriptions() == 1, "the subscription")
    publish("east", "plan", {"plan": 1})
    assert {stream.block() for stream in streams} == {'event: plan\ndata: {"cluster": "east", "plan": 1}'}
    for stream in streams:
        stream.close()


def test_a_listener_that_nobody_wants_any_more_ends_even_if_its_cancellation_was_swallowed():
    async def listen_unwanted():
        await asyncio.wait_for(events.Fanout()._listen(), 20)

    asyncio.run(listen_unwanted())
