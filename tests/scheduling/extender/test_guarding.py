"""Who may ask the extender, and that the secret in its address stays one."""

import asyncio

import pytest
from aiohttp.test_utils import TestClient, TestServer
from yarl import URL

from apps.scheduling.extender.counters import Counters
from apps.scheduling.extender.guarding import guard
from apps.scheduling.extender.options import Options, WhenStale
from apps.scheduling.extender.server import Verbs, make_app
from tests.drawing import cluster
from tests.scheduling.extender.test_deciding import Clock, extender

SECRET = "5ec4e7"


class Known:
    problem = ""

    def catch_up(self):
        """There is nothing new."""


def ask(*calls, **how_it_is):
    """Status and text of each (method, path, body), asked of one guarded program. how_it_is: as `extender`
    takes it."""

    async def run():
        verbs = Verbs(extender(cluster("a1 ........", []), **how_it_is), Known(), Counters())
        knows = lambda name, told: (name, told.encode()) == ("prod", SECRET.encode())  # noqa: E731
        server = TestServer(guard(make_app(verbs), knows))
        await server.start_server(access_log=None)
        async with TestClient(server) as client:
            answers = [
                await client.request(how, URL(path, encoded=True), data=body) for how, path, body in calls
            ]
            return [(one.status, await one.text()) for one in answers]

    return asyncio.run(run())


@pytest.mark.parametrize("verb", ["filter", "prioritize", "preempt", "bind"])
def test_a_call_that_cannot_be_read_tells_nobody_the_secret(verb, caplog):
    (status, text), (_, metrics) = ask(
        ("POST", f"/extender/prod/{SECRET}/{verb}", b'{"Pod": 5'), ("GET", "/metrics", None)
    )
    assert status == 400
    assert f'extender_calls_total{{outcome="bad call",verb="{verb}"}} 1.0' in metrics
    assert SECRET not in text + metrics + caplog.text


@pytest.mark.parametrize(
    "path", ["/extender/prod/%ff/filter", "/extender/prod/%00/bind", "/extender/%ed%a0%80/x/y"]
)
def test_an_address_that_is_no_text_is_not_there(path):
    assert ask(("POST", path, b"{}"))[0][0] == 404


@pytest.mark.parametrize(("when_stale", "status"), [(WhenStale.REFUSE, 503), (WhenStale.ABSTAIN, 200)])
def test_who_abstains_by_an_old_picture_is_still_to_be_reached(when_stale, status):
    clock = Clock()
    clock.age = 99.0
    ((found, text),) = ask(("GET", "/healthz", None), clock=clock, options=Options(when_stale=when_stale))
    assert found == status
    assert "the picture is 99 s old, more than 30 s" in text
