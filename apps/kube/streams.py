"""Turns the open response of a watch into watch events.

A watch is a run of JSON lines in one long answer. Whatever is not a whole, well-formed line means
that something may have been missed, so it is an error and never skipped.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from http.client import HTTPException

import urllib3
from urllib3.exceptions import HTTPError, ReadTimeoutError

from apps.kube.answers import error_of_status, read_json
from apps.kube.connection import Request
from apps.kube.errors import BrokenStream
from apps.kube.gateway import WatchEvent

LONGEST_LINE = 16 * 1024 * 1024
CHUNK = 256 * 1024
EVENT_TYPES = {"ADDED", "MODIFIED", "DELETED", "BOOKMARK"}


def read_events(
    response: urllib3.BaseHTTPResponse, request: Request, *, deadline: float
) -> Iterator[WatchEvent]:
    """Events until the server ends the answer. Raises Expired (410), BrokenStream, or the error
    that the server reports in the stream. deadline: monotonic time at which it must have ended."""
    for line in _read_lines(response, request, deadline):
        yield _event(line, request)


def _read_lines(response: urllib3.BaseHTTPResponse, request: Request, deadline: float) -> Iterator[bytes]:
    rest = b""
    while True:
        piece = _read_piece(response, request)
        if not piece:
            break
        *lines, rest = (rest + piece).split(b"\n")
        yield from (line for line in lines if line.strip())
        if len(rest) > LONGEST_LINE:
            raise BrokenStream(f"{request.words}: a line of the watch is longer than {LONGEST_LINE} bytes.")
        if time.monotonic() > deadline:
            raise BrokenStream(f"{request.words}: the server did not end the watch when it should have.")
    if rest.strip():
        raise BrokenStream(f"{request.words}: the watch broke off in the middle of a line.")


def _read_piece(response: urllib3.BaseHTTPResponse, request: Request) -> bytes:
    try:
        return response.read1(CHUNK)
    except (ReadTimeoutError, TimeoutError) as error:
        raise BrokenStream(f"{request.words}: the watch fell silent, not even a bookmark came.") from error
    except (HTTPError, HTTPException, OSError, ValueError, AttributeError) as error:
        # ValueError and AttributeError: the response was shut down under a reader that is to end.
        raise BrokenStream(f"{request.words}: the watch was cut ({type(error).__name__}).") from error


def _event(line: bytes, request: Request) -> WatchEvent:
    try:
        found = read_json(line)
    except (ValueError, RecursionError) as error:
        raise BrokenStream(f"{request.words}: a line of the watch is no JSON.") from error
    if not isinstance(found, dict) or not isinstance(found.get("object"), dict):
        raise BrokenStream(f"{request.words}: a line of the watch is no event.")
    kind = found.get("type")
    if kind == "ERROR":
        status = found["object"]
        code = status.get("code")
        raise error_of_status(code if isinstance(code, int) else 500, status, request)
    if kind not in EVENT_TYPES:
        raise BrokenStream(
            f"{request.words}: the watch sent an event of the unknown type {str(kind)[:40]!r}."
        )
    return WatchEvent(kind, found["object"])
