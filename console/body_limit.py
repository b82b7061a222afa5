"""Refuses bodies that are too large before anything of them is kept.

Django's own limit comes after the server has spooled the whole body to disk; this one stops reading.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

Scope = dict[str, Any]
Message = Mapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

LARGEST_BODY_BYTES = 2 * 1024 * 1024
PROBLEM = json.dumps(
    {
        "type": "about:blank",
        "title": "Body too large",
        "status": 413,
        "detail": f"a request's body may have {LARGEST_BODY_BYTES} bytes",
    }
).encode()


class BodyTooLarge(Exception):
    """More bytes came than the request announced or may have."""


def limit_bodies(application: Application) -> Application:
    """The same ASGI application, which never sees more than LARGEST_BODY_BYTES of a body."""

    async def limited(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await application(scope, receive, send)
            return
        answered = False

        async def note_answer(message: Message) -> None:
            nonlocal answered
            answered = True
            await send(message)

        try:
            if _announced(scope) > LARGEST_BODY_BYTES:
                raise BodyTooLarge
            await application(scope, _counting(receive), note_answer)
        except BodyTooLarge:
            if not answered:
                await _refuse(send)

    return limited


def _announced(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return 0


def _counting(receive: Receive) -> Receive:
    seen = 0

    async def receive_counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > LARGEST_BODY_BYTES:
            raise BodyTooLarge
        return message

    return receive_counted


async def _refuse(send: Send) -> None:
    headers = [
        (b"content-type", b"application/problem+json"),
        (b"content-length", str(len(PROBLEM)).encode()),
        (b"connection", b"close"),
    ]
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": PROBLEM})
