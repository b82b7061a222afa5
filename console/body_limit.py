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
LARGEST_DUMP_BYTES = 256 * 1024 * 1024
UPLOADS = {"/clusters/dumps/": LARGEST_DUMP_BYTES}
"""Where more is taken: a dump of a large cluster. Django spools it to disk, not to memory."""


class BodyTooLarge(Exception):
    """More bytes came than the request announced or may have."""


def limit_bodies(application: Application) -> Application:
    """The same ASGI application, which never sees more of a body than may come to its address."""

    async def limited(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await application(scope, receive, send)
            return
        most = UPLOADS.get(scope["path"], LARGEST_BODY_BYTES)
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
