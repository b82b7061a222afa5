"""Holders that an annotation names and that are not there: deleted pods that somebody still remembers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from apps.kube.translate.annotations import read_holders


@dataclass(frozen=True, slots=True)
class Ghost:
    """A pod that is gone or finished. devices: what it is still said to hold; it holds nothing."""

    uid: str
    devices: tuple[str, ...]


def find_ghosts(annotation: str, alive: Collection[str]) -> tuple[Ghost, ...]:
    """alive: UIDs of the pods that hold resources on the node."""
    read = read_holders(annotation, lambda _: None)
    held: dict[str, list[str]] = {}
    for one in read[0] if read is not None else ():
        if one.pod_uid not in alive:
            held.setdefault(one.pod_uid, []).append(one.device)
    return tuple(Ghost(uid, tuple(devices)) for uid, devices in held.items())
