"""How long a pod takes from its node to its containers: declared by its owner, or measured on pods like it.

Most of that time is the pull of the image. An image that may lie on the target already is not counted on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from apps.executions.other_schedulers.durations import read_duration
from apps.kube.translate.values import child, clean, entries, texts

DECLARED = "defrag.gpu.internal/image-pull"
"""Annotation of a pod: how long the pull of its images takes on a node that lacks them ("180s")."""


@dataclass(frozen=True, slots=True)
class Start:
    """seconds: None where nobody knows. words: what the time is, for a sentence."""

    seconds: float | None = None
    words: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """One pod as far as its start is concerned. took: seconds from the binding to its last container."""

    uid: str
    images: tuple[str, ...]
    declared: float | None
    took: float | None


def read_seen(raw: Mapping[str, Any]) -> Seen:
    metadata = child(raw, "metadata")
    containers = entries(child(raw, "spec"), "containers")
    return Seen(
        clean(metadata.get("uid"), 100),
        tuple(clean(one.get("image"), 500) for one in containers),
        read_duration(texts(child(metadata, "annotations")).get(DECLARED)),
        _took(child(raw, "status")),
    )


def start_of(uid: str, seen: Iterable[Seen]) -> Start:
    """The longest time seen on pods of the same images counts, unless the owner declares one."""
    known = {one.uid: one for one in seen}
    mine = known.get(uid)
    if mine is None:
        return Start()
    if mine.declared is not None and mine.declared >= 0:
        return Start(mine.declared, "image pull")
    alike = [one.took for one in known.values() if one.took is not None and one.images == mine.images]
    return Start(max(alike), "start, measured with its image pull") if alike else Start()


def _took(status: Mapping[str, Any]) -> float | None:
    """A container that was restarted tells nothing of the pull."""
    bound = next(
        (
            _moment(one.get("lastTransitionTime"))
            for one in entries(status, "conditions")
            if one.get("type") == "PodScheduled" and one.get("status") == "True"
        ),
        None,
    )
    containers = entries(status, "containerStatuses")
    began = [_moment(child(one, "state", "running").get("startedAt")) for one in containers]
    if bound is None or not began or None in began or any(one.get("restartCount") for one in containers):
        return None
    return max(0.0, max(moment.timestamp() for moment in began if moment is not None) - bound.timestamp())


def _moment(text: object) -> datetime | None:
    if not isinstance(text, str):
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else None
