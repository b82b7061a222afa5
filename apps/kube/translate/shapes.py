"""Remembers what was read of a pod's spec: the pods of one workload differ in little but their names.

A shape is a spec without what is a pod's own (its node, its volumes, which carry generated names). What is
read of one is shared by all pods that have it, which saves both the time and the memory of reading it again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar

import msgspec

from apps.kube.translate.values import Warn

Read = TypeVar("Read")
ITS_OWN = frozenset({"nodeName", "volumes", "hostname"})
MOST_SHAPES = 5_000
LARGEST_SHAPE = 16 * 1024

_encode = msgspec.json.Encoder().encode
_last: tuple[Any, dict[str, Any], bytes] = ({}, {}, b"")


def by_shape(read: Callable[[Mapping[str, Any], Warn], Read]) -> Callable[[Mapping[str, Any], Warn], Read]:
    """For a function of a spec and a place for warnings. It is given the spec without what is a pod's own,
    and what it gives is shared: nobody may change it."""
    known: dict[bytes, tuple[Read, tuple[str, ...]]] = {}

    @wraps(read)
    def read_once(spec: Mapping[str, Any], warn: Warn) -> Read:
        shape, text = _shape_of(spec)
        found = known.get(text) if text else None
        if found is None:
            warnings: list[str] = []
            found = (read(shape, warnings.append), tuple(warnings))
            if len(known) >= MOST_SHAPES:
                known.clear()
            if text:
                known[text] = found
        for sentence in found[1]:
            warn(sentence)
        return found[0]

    return read_once


def _shape_of(spec: Mapping[str, Any]) -> tuple[dict[str, Any], bytes]:
    """The spec without what is a pod's own, and its text; b"" for one that is not to be remembered."""
    global _last
    last = _last  # one tuple, so that another thread's spec is never taken for this one's
    if last[0] is spec:
        return last[1], last[2]
    shape = {key: spec[key] for key in spec if key not in ITS_OWN}
    try:
        text = _encode(shape)
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError, OverflowError):
        text = b""
    if len(text) > LARGEST_SHAPE:
        text = b""
    _last = (spec, shape, text)
    return shape, text
