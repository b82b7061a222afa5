"""Which of an owner's pods is the replacement of a moved one. Pure; no clock is compared.

A replacement has the same controller, is not one of the pods seen right before the eviction, and is not
another move's. Ours by preference is the one that carries this move's annotation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from apps.executions import names
from apps.executions.sightings import (
    created,
    has_failed,
    is_gated,
    is_leaving,
    migration,
    oldest,
    owner_uid,
    uid,
)

Json = dict[str, Any]


@dataclass(frozen=True)
class Found:
    """pod: the replacement or None. strangers: gated by us without being a replacement: freed at once.
    by_gate: whether the gate caught it (else it arrived ungated)."""

    pod: Json | None
    strangers: Sequence[Json] = ()
    by_gate: bool = False


def find_replacement(
    pods: Iterable[Json],
    *,
    marks: Collection[str],
    owner: str,
    siblings: Iterable[str] | None,
    taken: Iterable[str],
    known: str,
    spared: int = 0,
) -> Found:
    """marks: what our annotation may say; under the standing policy a pod of two moves of one owner carries
    the mark of either. siblings: None if nothing was evicted: then only a gated pod can be told from the
    owner's others. taken: UIDs that other moves wait for. known: UID chosen on an earlier look, "" before.
    spared: so many gated pods are left to other moves of the owner that have none yet."""
    old, others = set(siblings or ()), set(taken)
    present = [pod for pod in pods if not is_leaving(pod) and not has_failed(pod)]
    marked = [pod for pod in present if migration(pod) in marks]
    fresh = [pod for pod in marked if uid(pod) not in old and uid(pod) not in others]
    chosen = _by_uid(present, known) or oldest(fresh)
    strangers = find_strangers(marked, kept=others | ({uid(chosen)} if chosen else set()), spared=spared)
    if chosen is not None:
        return Found(chosen, strangers, by_gate=migration(chosen) in marks)
    if siblings is None:
        return Found(None, strangers)
    missed = [
        pod
        for pod in present
        if owner_uid(pod) == owner and not migration(pod) and uid(pod) not in old | others
    ]
    return Found(oldest(missed), strangers)


def find_strangers(marked: Iterable[Json], *, kept: Collection[str], spared: int) -> tuple[Json, ...]:
    """Pods of these that wait behind our gate for nobody. kept: UIDs that some move waits for. spared: so
    many, the oldest, are left to moves of the same owner that have none yet."""
    waiting = [pod for pod in marked if is_gated(pod) and uid(pod) not in kept]
    return tuple(sorted(waiting, key=lambda pod: (created(pod), uid(pod)))[spared:])


def is_pinned(pod: Json, *, sent: Collection[str], pins_to: str) -> bool:
    """By our patch, or by the webhook when it was made. sent: effects that went out for it."""
    hostname = (pod["spec"].get("nodeSelector") or {}).get(names.HOSTNAME)
    return bool(hostname) and ("pin" in sent or hostname == pins_to)


def _by_uid(pods: Iterable[Json], wanted: str) -> Json | None:
    return next((pod for pod in pods if wanted and uid(pod) == wanted), None)
