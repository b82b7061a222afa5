"""Server-Sent Events: one Redis subscription per server, fanned out to every open stream.

A stream hears of the clusters its reader may see, checked again with every heartbeat: it ends with
his session or token, and with his password. What is sent is only a hint to look again; the rows say
what is true. The channel itself is `notices`.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, suppress
from typing import Any, TypeVar

import redis.asyncio
import structlog
from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import connections
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse, StreamingHttpResponse
from django.views.decorators.csrf import csrf_exempt

from apps.accounts.authentication import person_with_token
from apps.accounts.errors import ScopeNeeded, TokenRefused, TooManyRequests
from apps.accounts.limits import Scope
from apps.accounts.models import User
from apps.accounts.queries import clusters_visible_to
from apps.accounts.rates import require_rate
from apps.accounts.sessions import person_of_session
from apps.clusters.models import Cluster
from apps.clusters.notices import CHANNEL

TOPIC = re.compile(r"[a-z_]{1,30}")
HEARTBEAT_SECONDS = 15.0
CLOSE_SECONDS = 5.0
LONGEST_QUEUE = 256
"""A stream that lags this many notices behind is closed; its page connects again and reloads."""

REFUSED, BUSY = "This token is not accepted", "Too many requests"
ASK = {"WWW-Authenticate": 'Bearer realm="GPU Defrag Console", Session'}
log = structlog.get_logger(__name__)
Answer = TypeVar("Answer")


class Fanout:
    """The subscription of one event loop and the streams that it feeds."""

    def __init__(self) -> None:
        self.streams: set[asyncio.Queue[dict[str, Any] | None]] = set()
        self.listener: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()

    def join(self) -> asyncio.Queue[dict[str, Any] | None]:
        stream: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue(LONGEST_QUEUE)
        self.streams.add(stream)
        if self.listener is None or self.listener.done():
            self.listener = asyncio.create_task(self._listen())
        return stream

    def leave(self, stream: asyncio.Queue[dict[str, Any] | None]) -> None:
        self.streams.discard(stream)
        if not self.streams and self.listener is not None:
            self._ending.add(self.listener)
            self.listener.add_done_callback(self._ending.discard)
            self.listener.cancel()
            self.listener = None

    async def _listen(self) -> None:
        """Runs while anybody listens. A Redis that goes away is asked for again every second.

        A connection that breaks while this is cancelled swallows the cancellation, so each round asks whether
        it is still wanted."""
        while self.listener is asyncio.current_task():
            client = redis.asyncio.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=3)
            try:
                async with client.pubsub(ignore_subscribe_messages=True) as subscription:
                    await subscription.subscribe(CHANNEL)
                    async with aclosing(subscription.listen()) as messages:
                        async for message in messages:
                            self._hand_out(message["data"])
            except redis.RedisError as error:
                log.warning("the event channel is away", error=str(error))
                await asyncio.sleep(1)
            finally:
                # Also what keeps this task alive while it closes: an event loop refers to tasks weakly.
                with suppress(TimeoutError, redis.RedisError):
                    async with asyncio.timeout(CLOSE_SECONDS):
                        await client.aclose()

    def _hand_out(self, data: bytes) -> None:
        notice = _read_notice(data)
        if notice is None:
            return
        for stream in list(self.streams):
            try:
                stream.put_nowait(notice)
            except asyncio.QueueFull:
                self.streams.discard(stream)
                stream.get_nowait()
                stream.put_nowait(None)


_fanouts: dict[asyncio.AbstractEventLoop, Fanout] = {}


def _fanout() -> Fanout:
    """The one of this event loop. A server has one loop for its whole life."""
    loop = asyncio.get_running_loop()
    for other in [one for one in _fanouts if one.is_closed()]:
        del _fanouts[other]
    return _fanouts.setdefault(loop, Fanout())


@csrf_exempt  # it takes no unsafe method; without this such a one would meet a page about CSRF
async def events(request: HttpRequest) -> HttpResponseBase:
    """GET /api/v1/events/?cluster=NAME: notices of one cluster, or of all that the reader may see."""
    if request.method != "GET":
        detail = f"{request.method} does nothing here: GET the stream"
        return _problem(
            request, 405, "method-not-allowed", "This address does not take that method", detail, Allow="GET"
        )
    reader = Reader(request, request.GET.get("cluster", ""))
    refusal = await reader.refresh()
    if refusal is not None:
        return refusal
    if unknown := sorted(set(request.GET) - {"cluster"}):
        detail = f"{unknown[0][:100]}: there is no such parameter; known is cluster"
        return _problem(request, 422, "invalid", "Some values cannot be used", detail)
    answer = StreamingHttpResponse(_stream(reader), content_type="text/event-stream")
    answer["Cache-Control"] = "no-store"
    answer["X-Accel-Buffering"] = "no"
    return answer


class Reader:
    """Whose stream it is, and which clusters it may tell of."""

    def __init__(self, request: HttpRequest, cluster: str) -> None:
        self.request = request
        self.cluster = cluster
        self.names: frozenset[str] = frozenset()
        self.is_open = False

    async def refresh(self) -> HttpResponse | None:
        """Ask again what may be seen. A problem if nothing may: logged out, role revoked, unknown cluster."""
        try:
            names = await _ask_database(self._visible_names)
        except TooManyRequests as error:
            headers = {"Retry-After": str(error.wait)}
            return _problem(self.request, 429, "too-many-requests", BUSY, str(error), **headers)
        except TokenRefused as error:
            return _problem(self.request, 401, "token-refused", REFUSED, str(error), **ASK)
        except ScopeNeeded as error:
            return _problem(self.request, 403, "scope-needed", REFUSED, str(error))
        if names is None:
            return _problem(self.request, 401, "login-needed", "Log in first", **ASK)
        if self.cluster:
            names &= {self.cluster}
            if not names:
                return _problem(self.request, 404, "not-found", "There is no such cluster that you can see")
        self.names = names
        return None

    def _visible_names(self) -> frozenset[str] | None:
        user = self._person()
        if user is None:
            return None
        if not self.is_open:
            require_rate("calls", user)
            self.is_open = True
        found = Cluster.objects.filter(pk__in=clusters_visible_to(user)).values_list("name", flat=True)
        return frozenset(found)

    def _person(self) -> User | None:
        user = person_with_token(self.request)
        if user is None:
            return person_of_session(self.request.session.session_key)
        if user.token is not None and Scope.READ not in user.token.scopes:
            raise ScopeNeeded(f"the stream asks for a token with the scope {Scope.READ}", scope=Scope.READ)
        return user


async def _stream(reader: Reader) -> AsyncIterator[bytes]:
    """Notices as they come, a comment when nothing came; ends when the reader may no longer listen."""
    fanout = _fanout()
    queue = fanout.join()
    checked = time.monotonic()
    try:
        yield b"retry: 3000\n\n: listening\n\n"
        while True:
            left = HEARTBEAT_SECONDS - (time.monotonic() - checked)
            if left <= 0:
                checked = time.monotonic()
                if await reader.refresh() is not None:
                    return
                yield b": still here\n\n"
                continue
            try:
                notice = await asyncio.wait_for(queue.get(), left)
            except TimeoutError:
                continue
            if notice is None:
                return
            if notice["cluster"] in reader.names:
                yield _as_event(notice)
    finally:
        fanout.leave(queue)


def _as_event(notice: dict[str, Any]) -> bytes:
    data = json.dumps({"cluster": notice["cluster"], **notice["data"]})
    return f"event: {notice['topic']}\ndata: {data}\n\n".encode()


def _read_notice(data: bytes) -> dict[str, Any] | None:
    """None for what is no notice of ours: the channel is not trusted."""
    try:
        notice = json.loads(data)
        is_ours = TOPIC.fullmatch(notice["topic"]) and isinstance(notice["cluster"], str)
        return notice if is_ours and isinstance(notice["data"], dict) else None
    except (ValueError, KeyError, TypeError):
        return None


async def _ask_database(question: Callable[[], Answer]) -> Answer:
    """Ask, and give the connection back: a stream stays open for hours, the pool is small."""

    def ask() -> Answer:
        try:
            return question()
        finally:
            connections.close_all()

    return await sync_to_async(ask)()


def _problem(
    request: HttpRequest, status: int, code: str, title: str, detail: str = "", **headers: str
) -> HttpResponse:
    body = {
        "type": f"urn:gpu-defrag-console:problem:{code}",
        "title": title,
        "status": status,
        "detail": detail or title,
        "instance": request.path,
    }
    return JsonResponse(body, status=status, content_type="application/problem+json", headers=headers)
