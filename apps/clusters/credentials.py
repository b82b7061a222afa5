"""Keeps cluster credentials unreadable at rest.

Keys come from CREDENTIAL_KEYS, newest first: the first one encrypts, all of them decrypt, so a key
is changed by putting a new one in front. Without any, a key is derived from SECRET_KEY.
"""

from __future__ import annotations

import base64
import hashlib
import json

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

from apps.clusters.errors import ConnectionFailed
from apps.kube.kubeconfig import Credentials


def seal(credentials: Credentials) -> str:
    """The secret half of the credentials (and how to check the server), encrypted."""
    secret = {
        "token": credentials.token,
        "client_certificate": credentials.client_certificate,
        "client_key": credentials.client_key,
        "tls_server_name": credentials.tls_server_name,
        "skip_tls_verify": credentials.skip_tls_verify,
    }
    return _box().encrypt(json.dumps(secret).encode()).decode()


def unseal(sealed: str, *, server: str, ca: str) -> Credentials:
    """Raises ConnectionFailed if no key of ours opens it."""
    try:
        secret = json.loads(_box().decrypt(sealed.encode()))
    except InvalidToken:
        raise ConnectionFailed(
            f"The stored credential of {server} cannot be decrypted: SECRET_KEY or CREDENTIAL_KEYS changed. "
            "Put the former key back into CREDENTIAL_KEYS, or register the cluster's kubeconfig again."
        ) from None
    return Credentials(server=server, ca=ca, **secret)


def seal_text(text: str) -> str:
    """Another secret of a cluster (a token), encrypted the same way; "" stays ""."""
    return _box().encrypt(text.encode()).decode() if text else ""


def unseal_text(sealed: str, *, what: str) -> str:
    """Raises ConnectionFailed if no key of ours opens it. what: whose secret it is, for people."""
    try:
        return _box().decrypt(sealed.encode()).decode() if sealed else ""
    except InvalidToken:
        raise ConnectionFailed(
            f"The stored token of {what} cannot be decrypted: SECRET_KEY or CREDENTIAL_KEYS changed. "
            "Put the former key back into CREDENTIAL_KEYS, or give the token again."
        ) from None


def _box() -> MultiFernet:
    keys = [_stretch(key) for key in settings.CREDENTIAL_KEYS] or [_stretch(settings.SECRET_KEY)]
    return MultiFernet([Fernet(key) for key in keys])


def _stretch(secret: str) -> bytes:
    derive = HKDF(algorithm=hashes.SHA256(), length=32, salt=None, info=b"cluster credentials")
    return base64.urlsafe_b64encode(derive.derive(hashlib.sha256(secret.encode()).digest()))
