"""A server whose answer drips in, a few bytes every twentieth of a second: no read of it is ever late."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

HEAD = b"HTTP/1.1 200 OK\r\n"
PLACES = [
    pytest.param(b"HTTP/1.1 200 ", b"O", id="status"),
    pytest.param(HEAD, b"X: a\r\n", id="headers"),
    pytest.param(HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;", b"a", id="a chunk's head"),
    pytest.param(HEAD + b"Content-Length: 1000\r\n\r\n", b"a", id="body"),
]
"""(what comes at once, what drips after it)."""


@contextmanager
def dripping(first: bytes, again: bytes, context: ssl.SSLContext | None = None) -> Iterator[int]:
    """The port it listens on, for one connection; over TLS with a context."""
    is_over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=_drip, args=(listener, context, first, again, is_over), daemon=True)
        server.start()
        try:
            yield listener.getsockname()[1]
        finally:
            is_over.set()
            server.join()


def _drip(
    listener: socket.socket,
    context: ssl.SSLContext | None,
    first: bytes,
    again: bytes,
    is_over: threading.Event,
) -> None:
    plain, _ = listener.accept()
    with context.wrap_socket(plain, server_side=True) if context else plain as opened:
        opened.recv(4096)
        opened.sendall(first)
        while not is_over.wait(0.05):
            try:
                opened.sendall(again)
            except OSError:
                return
