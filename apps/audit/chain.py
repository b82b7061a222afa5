"""The arithmetic of the hash chain: what is hashed, and how. No rows are read or written here."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

START = "0" * 64
"""What the first entry names as its predecessor."""


def normalise(value: Any) -> Any:
    """The same value in the shape that comes back from a jsonb column, so a hash can be taken before storing.

    Whole floats become integers, keys become strings, what PostgreSQL cannot keep in text (NUL, lone
    surrogates) becomes U+FFFD. Raises TypeError for anything that JSON has no word for, NaN included.
    """
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise TypeError(f"{value} cannot stand in the ledger")
        return int(value) if value.is_integer() else value
    if isinstance(value, str):
        clean = str(value).encode("utf-8", "surrogatepass").decode("utf-8", "replace")
        return clean.replace("\x00", "\ufffd")
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, dict):
        return {normalise(str(key)): normalise(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        inner = [normalise(one) for one in value]
        return sorted(inner, key=str) if isinstance(value, set | frozenset) else inner
    raise TypeError(f"{type(value).__name__} cannot stand in the ledger: turn it into text first")


def hash_entry(
    *,
    at: datetime,
    actor_id: int | None,
    action: str,
    subject: str,
    cluster: str,
    detail: Any,
    previous_hash: str,
) -> str:
    """sha256 (hex) over the canonical JSON of a row and its predecessor's hash."""
    row = {
        "at": at.astimezone(UTC).isoformat(timespec="microseconds"),
        "actor": actor_id,
        "action": action,
        "subject": subject,
        "cluster": cluster,
        "detail": normalise(detail),
        "previous_hash": previous_hash,
    }
    canonical = json.dumps(row, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()
