"""Reduces a kubeconfig to what the console may keep: server, CA, and a token or a client certificate.

A kubeconfig can name programs to run and files to read on the machine that opens it. Ours is a
server, and the text comes from somebody else, so everything of that sort is refused by name.
Nothing here connects to anything.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from apps.kube.yaml_text import BadYaml, load_yaml

LONGEST_TEXT = 256 * 1024
HOST_NAME = re.compile(
    r"(?=.{1,253}$)([a-z0-9_]([-a-z0-9_]{0,61}[a-z0-9_])?\.)*[a-z0-9_]([-a-z0-9_]{0,61}[a-z0-9_])?\.?"
)
REFUSED_CLUSTER_KEYS = {
    "certificate-authority": "put the certificate itself into certificate-authority-data",
    "proxy-url": "connect without a proxy",
}
REFUSED_USER_KEYS = {
    "exec": "a program would run on the console's machine; use a service account token",
    "auth-provider": "a program would run on the console's machine; use a service account token",
    "tokenFile": "a file of the console's machine would be read; put the token into token",
    "client-certificate": "put the certificate itself into client-certificate-data",
    "client-key": "put the key itself into client-key-data",
    "username": "basic authentication is gone from Kubernetes; use a service account token",
    "password": "basic authentication is gone from Kubernetes; use a service account token",
    "as": "impersonation is not for the console; give it rights of its own",
    "as-uid": "impersonation is not for the console; give it rights of its own",
    "as-groups": "impersonation is not for the console; give it rights of its own",
    "as-user-extra": "impersonation is not for the console; give it rights of its own",
}


class BadKubeconfig(Exception):
    """The text cannot be used; the message says what, where, and what to do. Never holds a secret."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """All that is needed to talk to one API server. Secrets are left out of repr.

    ca, client_certificate, client_key: PEM. Exactly one of token or client certificate is set.
    """

    server: str
    ca: str = ""
    token: str = field(default="", repr=False)
    client_certificate: str = field(default="", repr=False)
    client_key: str = field(default="", repr=False)
    tls_server_name: str = ""
    skip_tls_verify: bool = False


def read_kubeconfig(text: str, *, allow_insecure: bool = False) -> Credentials:
    """Read the current context of a kubeconfig. Raises BadKubeconfig.

    allow_insecure: accept insecure-skip-tls-verify, which is refused otherwise.
    """
    if len(text) > LONGEST_TEXT:
        raise BadKubeconfig(
            f"The kubeconfig is larger than {LONGEST_TEXT // 1024} KiB. Keep one context in it."
        )
    try:
        documents = load_yaml(text)
    except BadYaml as error:
        raise BadKubeconfig(f"The kubeconfig cannot be read: {error}") from error
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise BadKubeconfig(
            "The kubeconfig must be one YAML or JSON document with clusters, users and contexts."
        )
    config = documents[0]
    context = _pick_context(config)
    cluster = _named(config, "clusters", context.get("cluster"), "cluster")
    user = _named(config, "users", context.get("user"), "user")
    _refuse(cluster, REFUSED_CLUSTER_KEYS, "cluster")
    _refuse(user, REFUSED_USER_KEYS, "user")
    skip = cluster.get("insecure-skip-tls-verify") is True
    if skip and not allow_insecure:
        raise BadKubeconfig(
            "insecure-skip-tls-verify is refused: anybody on the way could pose as the cluster. "
            "Put the cluster's CA into certificate-authority-data."
        )
    return _credentials(cluster, user, skip)


def _pick_context(config: dict[str, Any]) -> dict[str, Any]:
    name = config.get("current-context")
    contexts = config.get("contexts")
    if not name and isinstance(contexts, list) and len(contexts) == 1 and isinstance(contexts[0], dict):
        name = contexts[0].get("name")
    if not name:
        raise BadKubeconfig("The kubeconfig has no current-context. Set it to the context to register.")
    return _named(config, "contexts", name, "context")


def _named(config: dict[str, Any], section: str, name: object, field_name: str) -> dict[str, Any]:
    entries = config.get(section)
    for entry in entries if isinstance(entries, list) else []:
        if isinstance(entry, dict) and entry.get("name") == name and isinstance(entry.get(field_name), dict):
            found: dict[str, Any] = entry[field_name]
            return found
    raise BadKubeconfig(f"The kubeconfig's {section} have no entry named {str(name)[:80]!r}.")


def _refuse(found: dict[str, Any], refused: dict[str, str], where: str) -> None:
    for key in found:
        if key in refused and found[key] not in (None, "", [], {}):
            raise BadKubeconfig(f"The {where}'s key {key!r} is refused: {refused[key]}.")


def _credentials(cluster: dict[str, Any], user: dict[str, Any], skip: bool) -> Credentials:
    token = _text(user, "token")
    certificate = _pem(user, "client-certificate-data")
    key = _pem(user, "client-key-data")
    if bool(certificate) != bool(key):
        raise BadKubeconfig("client-certificate-data and client-key-data must be given together.")
    if not token and not certificate:
        raise BadKubeconfig("The user has neither a token nor client certificate data. Add one of them.")
    if not _is_plain(token):
        raise BadKubeconfig(
            "The user's token contains spaces, line breaks or characters outside ASCII. Copy it as one line."
        )
    name = _text(cluster, "tls-server-name")
    if name and not _is_host(name):
        raise BadKubeconfig(f"The cluster's tls-server-name {name[:80]!r} is no host name.")
    return Credentials(
        server=_server(cluster),
        ca=_pem(cluster, "certificate-authority-data"),
        token=token,
        client_certificate="" if token else certificate,
        client_key="" if token else key,
        tls_server_name=name,
        skip_tls_verify=skip,
    )


def _server(cluster: dict[str, Any]) -> str:
    server = _text(cluster, "server").rstrip("/")
    try:
        parts = urlsplit(server)
        good = parts.scheme == "https" and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        good, parts = False, urlsplit("")
    if not good or len(server) > 300:
        raise BadKubeconfig("The cluster's server must be an address that starts with https://.")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise BadKubeconfig("The cluster's server must be a plain address without user, query or fragment.")
    if not _is_plain(server) or not _is_host(parts.hostname or ""):
        raise BadKubeconfig(
            f"The cluster's server names no host that can be asked: {(parts.hostname or '')[:80]!r}. "
            "Write a host name or an IP address, in ASCII."
        )
    return server


def _is_plain(text: str) -> bool:
    """Visible ASCII only: what can stand in one header or one address."""
    return all("!" <= character <= "~" for character in text)


def _is_host(text: str) -> bool:
    try:
        return not getattr(ipaddress.ip_address(text), "scope_id", None)
    except ValueError:
        return HOST_NAME.fullmatch(text.lower()) is not None


def _text(found: dict[str, Any], key: str) -> str:
    value = found.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadKubeconfig(f"The key {key!r} must be text.")
    return value.strip()


def _pem(found: dict[str, Any], key: str) -> str:
    value = _text(found, key)
    if not value:
        return ""
    try:
        text = base64.b64decode("".join(value.split()), validate=True).decode("ascii")
    except (binascii.Error, UnicodeDecodeError, ValueError):
        raise BadKubeconfig(f"The key {key!r} is not base64 of a PEM text.") from None
    if "-----BEGIN " not in text:
        raise BadKubeconfig(f"The key {key!r} holds no PEM text.")
    return text
