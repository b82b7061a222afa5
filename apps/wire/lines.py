"""Connections of urllib3 that end when their time is over and refuse link-local addresses.

What is asked over them, and how a failure is told, stands with whoever asks.
"""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.exceptions import NewConnectionError


class LinkLocalRefused(NewConnectionError):
    """Nothing that is asked here has such an address; a cloud's metadata service has."""


def is_link_local(address: str) -> bool:
    """address: numeric, or a name, which is none. IPv4 counts in IPv6 clothes as well."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    return (getattr(found, "ipv4_mapped", None) or found).is_link_local


@contextmanager
def cut_after(seconds: float, line: socket.socket | None) -> Iterator[None]:
    """Ends the line then: a time-out of the socket starts anew with every byte that drips in.

    Raises TimeoutError where it did, since half a header may pass for a whole one.
    """
    if line is None:
        yield
        return
    is_over = threading.Event()
    timer = threading.Timer(max(seconds, 0.0), _cut, (line, is_over))
    timer.daemon = True
    timer.start()
    try:
        yield
    except Exception as error:
        # However whoever read from it came to know: it was we who cut it.
        if is_over.is_set():
            raise TimeoutError from error
        raise
    finally:
        timer.cancel()
    if is_over.is_set():
        raise TimeoutError


def _cut(line: socket.socket, is_over: threading.Event) -> None:
    is_over.set()
    with suppress(OSError):
        # Of a TLS socket too the plain end: its own would take it apart under whoever reads from it.
        socket.socket.shutdown(line, socket.SHUT_RDWR)


class GuardedConnection(HTTPConnection):
    """Looks where the name really led to, before a byte is sent, and gives the head of an answer as much time
    as a read has.

    line: the socket of the last answer, which may have left `sock` already.
    """

    line: socket.socket | None = None

    def _new_conn(self) -> socket.socket:
        opened = super()._new_conn()
        address = opened.getpeername()[0]
        if is_link_local(address):
            opened.close()
            raise LinkLocalRefused(self, f"{address} is link-local")
        return opened

    def getresponse(self) -> urllib3.HTTPResponse:  # type: ignore[override]
        self.line = self.sock
        with cut_after(float(self.timeout or 0.0), self.line):
            return super().getresponse()


class GuardedTlsConnection(GuardedConnection, HTTPSConnection):
    """The same over TLS."""
