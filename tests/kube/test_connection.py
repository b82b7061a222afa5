"""An API server whose answer drips in holds nobody: each byte alone is never late."""

import socket
import threading

import pytest

from apps.kube.connection import Connection, Request
from apps.kube.errors import Unreachable
from apps.kube.kubeconfig import Credentials
from apps.simulator.api_server.certificates import issue_certificate

HEAD = b"HTTP/1.1 200 OK\r\n"


def drip(listener, context, first, again, is_over):
    plain, _ = listener.accept()
    with context.wrap_socket(plain, server_side=True) as opened:
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
    certificate = issue_certificate()
    context = certificate.server_context()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=drip, args=(listener, context, first, again, is_over), daemon=True)
        server.start()
        where = f"https://127.0.0.1:{listener.getsockname()[1]}"
        credentials = Credentials(server=where, ca=certificate.ca_pem, token="t")
        asked = Connection(credentials, connect_seconds=0.5, read_seconds=0.5)
        try:
            with pytest.raises(Unreachable, match="no answer within|too slow"):
                asked.ask(Request("GET", "/version"))
        finally:
            is_over.set()
            asked.close()
            server.join()
