"""One HTTPS connection pool to an API server: bytes out, bytes in, with deadlines.

It knows TLS, time-outs and how a connection fails. What an HTTP status means stands in `answers`;
which requests exist stands in `kubernetes_gateway`. It never repeats a request and never follows
a redirect: whether to ask again is for the caller to decide.
"""

from __future__ import annotations

import json
import os
import ssl
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

import urllib3
from urllib3.exceptions import (
    ClosedPoolError,
    ConnectTimeoutError,
    HTTPError,
    LocationParseError,
    NameResolutionError,
    NewConnectionError,
    ReadTimeoutError,
    SSLError,
)

from apps.kube.errors import Unreachable, Untrusted
from apps.kube.kubeconfig import Credentials
from apps.wire.lines import GuardedTlsConnection, LinkLocalRefused, cut_after

USER_AGENT = "gpu-defrag-console"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"

# A whole answer may take this many read time-outs (a large page arrives in many pieces), no more:
# a server that drips one byte at a time must not hold a worker for ever.
ANSWER_SPAN = 3
ANSWER_BYTES = 256 * 1024 * 1024
CHUNK = 256 * 1024


@dataclass(frozen=True, slots=True)
class Answer:
    """status, headers and the whole body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Request:
    """What to ask. content_type is only looked at when there is a body."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    content_type: str = "application/json"

    @property
    def words(self) -> str:
        """How an error names it; a query may be long and is left out."""
        return f"{self.method} {self.path}"


class Connection:
    """connect_seconds, read_seconds: time-outs of one request, always both."""

    def __init__(self, credentials: Credentials, *, connect_seconds: float, read_seconds: float) -> None:
        parts = urlsplit(credentials.server)
        self.server = credentials.server
        self._host = parts.netloc
        self._prefix = parts.path.rstrip("/")
        self._timeout = urllib3.Timeout(connect=connect_seconds, read=read_seconds)
        self._read_seconds = read_seconds
        self._connect_seconds = connect_seconds
        self._headers = {"User-Agent": USER_AGENT, "Accept": "application/json"}
        if credentials.token:
            self._headers["Authorization"] = f"Bearer {credentials.token}"
        self._pool = urllib3.HTTPSConnectionPool(
            parts.hostname or "",
            parts.port or 443,
            maxsize=32,  # a watch for each kind, and what is asked beside them
            block=False,
            ssl_context=_tls_context(credentials),
            server_hostname=credentials.tls_server_name or None,
            assert_hostname=credentials.tls_server_name or None,
        )
        self._pool.ConnectionCls = GuardedTlsConnection

    def ask(self, request: Request) -> Answer:
        """Send once and read the whole answer. Raises Unreachable or Untrusted."""
        deadline = time.monotonic() + self._connect_seconds + self._read_seconds * ANSWER_SPAN
        response = self._send(request, self._timeout)
        try:
            body = self._read_whole(response, deadline, request)
        finally:
            response.close()
            response.release_conn()
        return Answer(response.status, response.headers, body)

    def open_stream(self, request: Request, *, silence_seconds: float) -> urllib3.BaseHTTPResponse:
        """Send once and hand the open response over; reads give up after silence_seconds without a byte."""
        response = self._send(request, self._timeout)
        socket = getattr(response.connection, "sock", None)
        if socket is not None:
            socket.settimeout(silence_seconds)
        return response

    def close(self) -> None:
        self._pool.close()

    def _send(self, request: Request, timeout: urllib3.Timeout) -> urllib3.BaseHTTPResponse:
        headers = dict(self._headers)
        body = None
        if request.body is not None:
            headers["Content-Type"] = request.content_type
            body = json.dumps(request.body).encode()
        target = self._prefix + request.path + (f"?{urlencode(request.query)}" if request.query else "")
        try:
            return self._pool.urlopen(
                request.method,
                target,
                body=body,
                headers=headers,
                timeout=timeout,
                retries=False,
                redirect=False,
                preload_content=False,
                decode_content=True,
            )
        except (HTTPError, OSError) as error:
            raise self.explain(error, request) from error

    def _read_whole(self, response: urllib3.BaseHTTPResponse, deadline: float, request: Request) -> bytes:
        pieces: list[bytes] = []
        size = 0
        line = getattr(response.connection, "line", None)
        try:
            with cut_after(deadline - time.monotonic(), line):
                while piece := response.read1(CHUNK):
                    pieces.append(piece)
                    size += len(piece)
                    if time.monotonic() > deadline or size > ANSWER_BYTES:
                        raise self._too_much(request, size)
        except (HTTPError, OSError) as error:
            if time.monotonic() > deadline:
                raise self._too_much(request, size) from error
            raise self.explain(error, request) from error
        return b"".join(pieces)

    def _too_much(self, request: Request, size: int) -> Unreachable:
        return Unreachable(
            f"{request.words} on {self._host}: the answer is too slow or too large "
            f"({size} bytes so far). Check the network and the API server's load."
        )

    def explain(self, error: Exception, request: Request) -> Unreachable:
        """A connection failure in words: what, where, what to check. Never carries a header or a token."""
        where = f"{request.words} on {self._host}"
        if isinstance(error, SSLError | ssl.SSLError):
            reason = _tls_reason(error)
            return Untrusted(
                f"{where}: the server's certificate is not trusted ({reason}). Check that the CA certificate "
                "of the kubeconfig belongs to this cluster and that the certificate names this host."
            )
        if isinstance(error, NameResolutionError | LocationParseError):
            return Unreachable(f"{where}: the host name cannot be resolved. Check the server address.")
        if isinstance(error, LinkLocalRefused):
            return Unreachable(
                f"{where}: link-local addresses are refused. Give the API server's own address."
            )
        if isinstance(error, NewConnectionError):
            return Unreachable(
                f"{where}: the connection is refused. Check that the API server runs and the port is right."
            )
        if isinstance(error, ConnectTimeoutError):
            return Unreachable(
                f"{where}: no connection within {self._connect_seconds:g} s. Check address and firewall."
            )
        if isinstance(error, ReadTimeoutError | TimeoutError):
            return Unreachable(f"{where}: no answer within {self._read_seconds:g} s.{_doubt(request)}")
        if isinstance(error, ClosedPoolError):
            return Unreachable(f"{where}: this connection was closed on purpose.")
        return Unreachable(f"{where}: the connection broke ({type(error).__name__}).")


def _doubt(request: Request) -> str:
    """After a time-out a write may have been done all the same; a read changes nothing."""
    return "" if request.method == "GET" else " Whether it took effect is not known."


def _tls_reason(error: Exception) -> str:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return cause.verify_message
        if isinstance(cause, ssl.SSLError) and cause.reason:
            return cause.reason.replace("_", " ").lower()
        inner = cause.args[0] if cause.args and isinstance(cause.args[0], BaseException) else None
        cause = inner or cause.__cause__
    return "TLS handshake failed"


def _tls_context(credentials: Credentials) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if credentials.skip_tls_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif credentials.ca:
        try:
            context.load_verify_locations(cadata=credentials.ca)
        except ssl.SSLError as error:
            raise Untrusted(
                f"The CA certificate stored for {credentials.server} cannot be read: register it again."
            ) from error
    else:
        context.load_default_certs()
    if credentials.client_certificate:
        _load_client_certificate(context, credentials)
    return context


def _load_client_certificate(context: ssl.SSLContext, credentials: Credentials) -> None:
    """OpenSSL reads key pairs from files only: one of ours, private, gone again at once."""
    handle, path = tempfile.mkstemp(prefix="client-", suffix=".pem")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(credentials.client_certificate + "\n" + credentials.client_key)
        context.load_cert_chain(path)
    except (ssl.SSLError, OSError) as error:
        raise Untrusted(
            f"The client certificate stored for {credentials.server} cannot be used: register it again."
        ) from error
    finally:
        os.unlink(path)
