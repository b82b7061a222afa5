"""One signed POST to an address that people gave: https, resolved once, no private address, no redirect.

Says what came of it, and raises nothing but WebhookRefused. Not here: who is told what, and when again.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import socket
import ssl
import time
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import urllib3

from apps.wire.lines import GuardedTlsConnection, cut_after

READ_AT_MOST = 4096
AGENT = "gpu-defrag-console"


class WebhookRefused(Exception):
    """The address may not be asked: what, and what to do."""


@dataclass(frozen=True, slots=True)
class Target:
    """path: with its query. address: numeric, the one that is connected to."""

    host: str
    port: int
    path: str
    address: str


@dataclass(frozen=True, slots=True)
class Answer:
    """status: 0 where none came; error: "" for a 2xx."""

    status: int
    error: str = ""


def split_url(url: str) -> tuple[str, int, str]:
    """host, port, path. Raises WebhookRefused for anything but https without a person's name in it."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise WebhookRefused(f"the address cannot be read: {error}") from error
    if parts.scheme != "https" or not host:
        raise WebhookRefused("the address must begin with https:// and name a host")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise WebhookRefused("the address must hold neither a user, a password nor a #fragment")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if any(ord(letter) <= 32 or ord(letter) > 126 for letter in host + path):
        raise WebhookRefused("the address must be ASCII without blanks")
    return host, port or 443, path


def resolve(url: str, allowed: Sequence[str]) -> Target:
    """Asks DNS once. allowed: names of hosts, or nets, that may be private. All addresses must be fit."""
    host, port, path = split_url(url)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise WebhookRefused(f"{host} is not known to DNS") from error
    addresses = list(dict.fromkeys(str(one[4][0]).partition("%")[0] for one in found))
    for address in addresses:
        if not _may_be_asked(host, address, allowed):
            raise WebhookRefused(
                f"{host} leads to {address}, which is not public: name the host or its net in "
                "WEBHOOK_ALLOWED if it may be told"
            )
    return Target(host, port, path, addresses[0])


def _may_be_asked(host: str, address: str, allowed: Sequence[str]) -> bool:
    found = ipaddress.ip_address(address)
    bare = getattr(found, "ipv4_mapped", None) or found
    if bare.is_link_local or bare.is_multicast or bare.is_unspecified:
        return False
    return bare.is_global or any(_names(one, host, bare) for one in allowed)


def _names(one: str, host: str, address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    try:
        return address in ipaddress.ip_network(one, strict=False)
    except ValueError:
        return one.lower() == host.lower()


def sign(secret: str, body: bytes, at: int) -> str:
    """Value of the signature's header: HMAC-SHA256 of "SECONDS." and the body."""
    digest = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={digest}"


def post(
    target: Target, *, secret: str, body: bytes, event: str, key: str, seconds: float, ca_file: str
) -> Answer:
    """Takes `seconds` at most for connecting, and the same for all of the answer, however slowly it drips."""
    headers = {
        "Host": target.host if target.port == 443 else f"{target.host}:{target.port}",
        "Content-Type": "application/json",
        "User-Agent": AGENT,
        "X-Gpu-Defrag-Event": event,
        "X-Gpu-Defrag-Delivery": key,
        "X-Gpu-Defrag-Signature": sign(secret, body, int(time.time())),
    }
    line = GuardedTlsConnection(
        target.host,
        target.port,
        timeout=seconds,
        ssl_context=ssl.create_default_context(cafile=ca_file or None),
    )
    line._dns_host = target.address  # the one that was looked at, whatever DNS says by now
    try:
        line.connect()
        with cut_after(seconds, line.sock):
            line.request("POST", target.path, body=body, headers=headers, preload_content=False)
            answer = line.getresponse()
            answer.read(READ_AT_MOST)
        return _judge(answer.status)
    except (urllib3.exceptions.HTTPError, OSError) as error:
        return Answer(0, _words(error, seconds))
    finally:
        line.close()


def _judge(status: int) -> Answer:
    if 200 <= status < 300:
        return Answer(status)
    if 300 <= status < 400:
        return Answer(status, f"answered {status}: redirects are not followed, give the final address")
    return Answer(status, f"answered {status}")


def _words(error: Exception, seconds: float) -> str:
    if isinstance(error, TimeoutError | urllib3.exceptions.TimeoutError):
        return f"no answer within {seconds:g} s"
    if isinstance(error, ssl.SSLError | urllib3.exceptions.SSLError):
        return f"its certificate or TLS does not hold: {error}"[:300]
    return f"no answer: {type(error).__name__}"
