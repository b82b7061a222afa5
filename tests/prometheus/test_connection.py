"""An answer that drips in is given up, wherever in it: each byte alone is never late."""

import socket
import threading

import pytest

from apps.prometheus.connection import Connection
from apps.prometheus.errors import Unreachable

HEAD = b"HTTP/1.1 200 OK\r\n"


def drip(listener, first, again, is_over):
    opened, _ = listener.accept()
    with opened:
        opened.recv(4096)
        opened.sendall(first)
        while not is_over.wait(0.05):
            try:
                opened.sendall(again)
            except OSError:
                return


@pytest.mark.parametrize(
    ("first", "again"),
    [
        (b"HTTP/1.1 200 ", b"O"),
        (HEAD, b"X: a\r\n"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;", b"a"),
        (HEAD + b"Content-Length: 1000\r\n\r\n", b"a"),
    ],
    ids=["status", "headers", "a chunk's head", "body"],
)
def test_an_answer_that_drips_in_is_given_up(first, again):
    is_over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=drip, args=(listener, first, again, is_over), daemon=True)
        server.start()
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        asked = Connection(address, connect_seconds=0.2, read_seconds=0.2)
        try:
            with pytest.raises(Unreachable, match="no answer within|too slow"):
                asked.get("/api/v1/query")
        finally:
            is_over.set()
            asked.close()
            server.join()
