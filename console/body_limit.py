"""Refuses bodies that are too large before anything of them is kept.

Django's own limit comes after the server has spooled the whole body to disk; this one stops reading. More
is taken from those alone who may do something with it: everybody else could fill the disk.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import connections

Scope = dict[str, Any]
Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

LARGEST_BODY_BYTES = 2 * 1024 * 1024
LARGEST_DUMP_BYTES = 256 * 1024 * 1024
UPLOADS = {"/clusters/dumps/": LARGEST_DUMP_BYTES}
"""Where an admin of the console may send more: a dump of a large cluster, spooled to disk, not to memory."""


class BodyTooLarge(Exception):
    """More bytes came than the request announced or may have."""


def limit_bodies(application: Application) -> Application:
    """The same ASGI application, which never sees more of a body than may come to its address."""

    async def limited(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await application(scope, receive, send)
            return
        most = await _largest_body(scope)
        answered = False

        async def note_answer(message: Message) -> None:
            nonlocal answered
            answered = True
            await send(message)

        try:
            if _announced(scope) > most:
                raise BodyTooLarge
            await application(scope, _counting(receive, most), note_answer)
        except BodyTooLarge:
            if not answered:
                await _refuse(send, most, scope["path"])

    return limited


async def _largest_body(scope: Scope) -> int:
    """Who logs out, or loses the role, while he sends is refused by the page that the body comes to."""
    most = UPLOADS.get(scope["path"])
    key = _session_key(scope) if most is not None else ""
    if most is None or not key:
        return LARGEST_BODY_BYTES
    return most if await sync_to_async(_is_admin)(key) else LARGEST_BODY_BYTES


def _session_key(scope: Scope) -> str:
    """ "" where no cookie tells one."""
    try:
        sent = b"; ".join(value for name, value in scope["headers"] if name == b"cookie")
        cookie = SimpleCookie(sent.decode("latin-1")).get(settings.SESSION_COOKIE_NAME)
    except CookieError:
        return ""
    return cookie.value if cookie is not None else ""


def _is_admin(session_key: str) -> bool:
    """Whether the session's person administers the whole console, as whoever uploads a dump must."""
    # Applications are loaded after this module: the server wraps them in it.
    from apps.accounts.queries import may
    from apps.accounts.rights import Action
    from apps.accounts.sessions import person_of_session

    try:
        person = person_of_session(session_key)
        return person is not None and may(person, Action.ADMINISTER, None)
    finally:
        connections.close_all()


def _announced(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return 0


def _counting(receive: Receive, most: int) -> Receive:
    seen = 0

    async def receive_counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > most:
            raise BodyTooLarge
        return message

    return receive_counted


async def _refuse(send: Send, most: int, path: str) -> None:
    problem = {
        "type": "urn:gpu-defrag-console:problem:too-large",
        "title": "The body is too large",
        "status": 413,
        "detail": f"a request's body may have {most} bytes",
        "instance": path,
    }
    body = json.dumps(problem).encode()
    headers = [
        (b"content-type", b"application/problem+json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": body})
