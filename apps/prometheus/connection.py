"""Asks a Prometheus over HTTP: bounded in time and bytes, no redirects, no link-local addresses.

Nothing of an answer is understood here (`client`), and nothing is asked twice.
"""

from __future__ import annotations

import ipaddress
import re
import ssl
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit

import urllib3
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    LocationParseError,
    NameResolutionError,
    NewConnectionError,
    ReadTimeoutError,
    SSLError,
)

from apps.prometheus.errors import BadAddress, Unreachable
from apps.wire.lines import (
    GuardedConnection,
    GuardedTlsConnection,
    LinkLocalRefused,
    cut_after,
    is_link_local,
)

ANSWER_BYTES = 128 * 2**20
CHUNK = 256 * 1024
LONGEST_ADDRESS = 300
_HOST_NAME = re.compile(
    r"(?=.{1,253}$)([a-z0-9_]([-a-z0-9_]{0,61}[a-z0-9_])?\.)*[a-z0-9_]([-a-z0-9_]{0,61}[a-z0-9_])?\.?"
)


def read_address(text: str, *, has_token: bool = False) -> str:
    """The address in its plain form, without a slash at its end. Raises BadAddress."""
    address = text.strip().rstrip("/")
    try:
        parts = urlsplit(address)
        host, good = parts.hostname or "", parts.scheme in ("http", "https")
        good = good and bool(host) and (parts.port is None or parts.port > 0)
    except ValueError:
        raise BadAddress("The address of Prometheus cannot be read: write https://host:port.") from None
    if not good or len(address) > LONGEST_ADDRESS or not all("!" <= one <= "~" for one in address):
        raise BadAddress("The address of Prometheus must start with https:// or http:// and name a host.")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise BadAddress("The address of Prometheus must be plain: without user, query or fragment.")
    if not _is_host(host):
        raise BadAddress(f"The address of Prometheus names no host that can be asked: {host[:80]!r}.")
    if is_link_local(host):
        raise BadAddress("Link-local addresses are refused: give the address of Prometheus itself.")
    if has_token and parts.scheme == "http" and not _is_loopback(host):
        raise BadAddress("A token is sent over https:// only: over http:// anybody on the way could read it.")
    return address


def _is_host(text: str) -> bool:
    try:
        return not getattr(ipaddress.ip_address(text), "scope_id", None)
    except ValueError:
        return _HOST_NAME.fullmatch(text.lower()) is not None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class Connection:
    """connect_seconds, read_seconds: time-outs of one request; a whole answer may take the second as well."""

    def __init__(
        self, address: str, *, token: str = "", ca: str = "", connect_seconds: float, read_seconds: float
    ) -> None:
        parts = urlsplit(read_address(address, has_token=bool(token)))
        self.host, self._prefix = parts.netloc, parts.path.rstrip("/")
        self._connect, self._read = connect_seconds, read_seconds
        self._headers = {"Accept": "application/json", "User-Agent": "gpu-defrag-console"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._pool = _pool(parts.scheme, parts.hostname or "", parts.port, ca)

    def get(self, path: str, query: Mapping[str, Any] | None = None) -> tuple[int, bytes]:
        """(status, body). Raises Unreachable."""
        target = self._prefix + path + (f"?{urlencode(query, doseq=True)}" if query else "")
        deadline = time.monotonic() + self._connect + self._read
        try:
            response = self._pool.request(
                "GET",
                target,
                headers=self._headers,
                timeout=urllib3.Timeout(connect=self._connect, read=self._read),
                retries=False,
                redirect=False,
                preload_content=False,
            )
            try:
                line = getattr(response.connection, "line", None)
                with cut_after(deadline - time.monotonic(), line):
                    return response.status, self._whole(response, deadline)
            finally:
                response.close()
                response.release_conn()
        except (HTTPError, OSError) as error:
            if time.monotonic() > deadline:
                raise Unreachable(f"Prometheus on {self.host}: the answer is too slow.") from error
            raise Unreachable(self._explain(error)) from error

    def close(self) -> None:
        self._pool.close()

    def _whole(self, response: urllib3.BaseHTTPResponse, deadline: float) -> bytes:
        pieces: list[bytes] = []
        size = 0
        while piece := response.read1(CHUNK):
            pieces.append(piece)
            size += len(piece)
            if time.monotonic() > deadline or size > ANSWER_BYTES:
                raise Unreachable(
                    f"Prometheus on {self.host}: the answer is too slow or too large ({size} bytes so far)."
                )
        return b"".join(pieces)

    def _explain(self, error: Exception) -> str:
        """A failure in words: what, where, what to check. Never a header or a token."""
        where = f"Prometheus on {self.host}"
        if isinstance(error, SSLError | ssl.SSLError):
            return f"{where}: its certificate is not trusted. Give the CA certificate that signed it."
        if isinstance(error, NameResolutionError | LocationParseError):
            return f"{where}: the host name cannot be resolved. Check the address."
        if isinstance(error, LinkLocalRefused):
            return f"{where}: link-local addresses are refused. Give its own address."
        if isinstance(error, NewConnectionError):
            return f"{where}: the connection is refused. Check that it runs and that the port is right."
        if isinstance(error, ConnectTimeoutError):
            return f"{where}: no connection within {self._connect:g} s. Check address and firewall."
        if isinstance(error, ReadTimeoutError | TimeoutError):
            return f"{where}: no answer within {self._read:g} s."
        return f"{where}: the connection broke ({type(error).__name__})."


def _pool(scheme: str, host: str, port: int | None, ca: str) -> urllib3.HTTPConnectionPool:
    if scheme == "http":
        plain = urllib3.HTTPConnectionPool(host, port or 80, maxsize=2)
        plain.ConnectionCls = GuardedConnection
        return plain
    context = ssl.create_default_context()
    if ca:
        try:
            context.load_verify_locations(cadata=ca)
        except ssl.SSLError as error:
            raise BadAddress("The CA certificate of Prometheus cannot be read: give it as PEM.") from error
    secure = urllib3.HTTPSConnectionPool(host, port or 443, maxsize=2, ssl_context=context)
    secure.ConnectionCls = GuardedTlsConnection
    return secure
