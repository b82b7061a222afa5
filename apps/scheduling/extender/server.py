"""The extender as a web program: bytes in, a decision, bytes out; and what it counts.

Decisions take well under a millisecond each and are made on the loop itself, so that the picture needs no
lock. Binding waits for the API server and is done in threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

import structlog
from aiohttp import web
from aiohttp.web_protocol import RequestPayloadError

from apps.planner.inventory import Pod
from apps.scheduling.extender import wire
from apps.scheduling.extender.binding import OFF, Binder
from apps.scheduling.extender.counters import Counters
from apps.scheduling.extender.deciding import Extender, StalePicture
from apps.scheduling.extender.options import WhenStale
from apps.scheduling.extender.proofs import NoAnswer, ProofBook

LARGEST_CALL = 64 * 1024 * 1024
"""A scheduler that sends whole nodes (nodeCacheCapable false) sends a great deal."""
logger = structlog.get_logger(__name__)


class Source(Protocol):
    """Where the picture comes from."""

    @property
    def problem(self) -> str: ...

    def catch_up(self) -> None: ...

    def read_pod(self, raw: wire.Json) -> Pod: ...


class Verbs:
    """The handlers, one for each verb. The scheduler's urlPrefix ends before them."""

    def __init__(
        self,
        extender: Extender,
        source: Source,
        counters: Counters,
        binder: Binder | None = None,
        proofs: ProofBook | None = None,
    ) -> None:
        self._extender, self._source, self._counters = extender, source, counters
        self._binder, self._proofs = binder, proofs or ProofBook()

    async def filter(self, request: web.Request) -> web.Response:
        return await self._answer(request, "filter", self.answer_filter)

    async def prioritize(self, request: web.Request) -> web.Response:
        return await self._answer(request, "prioritize", self.answer_prioritize)

    async def preempt(self, request: web.Request) -> web.Response:
        return await self._answer(request, "preempt", self.answer_preempt)

    async def bind(self, request: web.Request) -> web.Response:
        """200 with the error in the body where it cannot be done, as the scheduler reads it."""
        began = time.perf_counter()
        try:
            call = wire.read_binding(await request.read())
        except (wire.BadCall, RequestPayloadError) as error:
            return self._refuse("bind", error, began)
        self._source.catch_up()
        error_text = await self._binder.bind(call) if self._binder is not None else OFF
        self._counters.note("bind", "failed" if error_text else "answered", time.perf_counter() - began)
        return _json(wire.binding_answer(error_text))

    async def health(self, request: web.Request) -> web.Response:
        """200 while calls are answered; 503 with the reason where they fail, before there is a picture and
        while it is stale. Where the extender abstains then, it still has to be reached."""
        self._source.catch_up()
        options, age = self._extender.options, self._extender.age()
        if age <= options.stale_after:
            return web.Response(text=f"ok: the picture is {age:.1f} s old\n")
        words = self._source.problem or f"the picture is {age:.0f} s old, more than {options.stale_after:g} s"
        if options.when_stale is WhenStale.ABSTAIN:
            return web.Response(text=f"abstains: {words}\n")
        return web.Response(text=f"{words}\n", status=503)

    async def metrics(self, request: web.Request) -> web.Response:
        text = self._counters.text(self._extender)
        return web.Response(body=text, content_type="text/plain", charset="utf-8")

    async def _answer(
        self, request: web.Request, verb: str, decide: Callable[[bytes], bytes]
    ) -> web.Response:
        began = time.perf_counter()
        try:
            body = await request.read()
            answer = decide(body)
        except (wire.BadCall, RequestPayloadError) as error:
            return self._refuse(verb, error, began)
        except StalePicture as error:
            self._counters.note(verb, "stale", time.perf_counter() - began)
            if verb == "filter":
                return _json(wire.filter_error(str(error)))
            return web.Response(text=f"{error}\n", status=503)
        except NoAnswer as error:
            self._counters.note(verb, "proof", time.perf_counter() - began)
            return _json(wire.filter_error(str(error)))
        self._counters.note(verb, "answered", time.perf_counter() - began)
        return _json(answer)

    def _refuse(self, verb: str, error: Exception, began: float) -> web.Response:
        """verb: never the address, which holds the secret: it is counted for all and logged."""
        self._counters.note(verb, "bad call", time.perf_counter() - began)
        logger.warning("a scheduler's call cannot be read", verb=verb, error=str(error))
        return web.Response(text=f"{error}\n", status=400)

    def answer_filter(self, body: bytes) -> bytes:
        """The body of the answer. Raises BadCall, StalePicture and NoAnswer."""
        call = wire.read_call(body)
        words = self._proofs.refusal_of(call.pod)
        if words:
            return wire.filter_answer(call, [], {}, dict.fromkeys(call.names, words))
        self._source.catch_up()
        found = self._extender.filter(self._source.read_pod(call.pod), call.names)
        return wire.filter_answer(call, found.fitting, dict(found.failed), dict(found.hopeless))

    def answer_prioritize(self, body: bytes) -> bytes:
        call = wire.read_call(body)
        self._source.catch_up()
        return wire.priorities(self._extender.prioritize(self._source.read_pod(call.pod), call.names))

    def answer_preempt(self, body: bytes) -> bytes:
        call = wire.read_preemption(body)
        self._source.catch_up()
        return wire.preemption_answer(self._extender.preempt(self._source.read_pod(call.pod), call.victims))


def make_app(verbs: Verbs) -> web.Application:
    app = web.Application(client_max_size=LARGEST_CALL)
    app.router.add_post("/filter", verbs.filter)
    app.router.add_post("/prioritize", verbs.prioritize)
    app.router.add_post("/preempt", verbs.preempt)
    app.router.add_post("/bind", verbs.bind)
    app.router.add_get("/healthz", verbs.health)
    app.router.add_get("/metrics", verbs.metrics)
    return app


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")
