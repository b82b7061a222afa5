"""What a live view waits for before it believes what it knows of an object that was just written. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from apps.kube.object_store import KeptObject

PATIENCE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Doubt:
    """is_over: whether the stream has brought what was written. patience: seconds that is waited for."""

    is_over: Callable[[KeptObject | None], bool]
    patience: float = PATIENCE_SECONDS


def never(found: KeptObject | None) -> bool:
    """Nobody knows what came of the write: only the server can say."""
    return False


def is_gone_or_leaving(uid: str) -> Callable[[KeptObject | None], bool]:
    return lambda found: (
        found is None or found.uid != uid or bool(found.open()["metadata"].get("deletionTimestamp"))
    )


def is_newer_than(revision: str) -> Callable[[KeptObject | None], bool]:
    return lambda found: found is None or found.revision != revision
