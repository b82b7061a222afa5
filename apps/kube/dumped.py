"""An object of a dump, kept as the piece of the dump's text that it is, and read when it is asked for.

Of a pod or a node only what `trimming` keeps is decoded at all: most of its text is of no use here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, TypedDict

import msgspec

from apps.kube.gateway import NODES, PODS, Json, Kind
from apps.kube.json_text import BadJson, Raw, open_raw
from apps.kube.object_store import KeptObject
from apps.kube.trimming import CONTAINER, METADATA, NODE_SPEC, NODE_STATUS, POD_SPEC, POD_STATUS, trim_object


class _Metadata(msgspec.Struct):
    name: str = ""
    namespace: str | None = None
    uid: str = ""
    resourceVersion: str = ""  # noqa: N815 - names as the API spells them
    creationTimestamp: str | None = None  # noqa: N815


class _Condition(msgspec.Struct):
    lastHeartbeatTime: str | None = None  # noqa: N815
    lastTransitionTime: str | None = None  # noqa: N815


class _Status(msgspec.Struct):
    startTime: str | None = None  # noqa: N815
    conditions: list[_Condition] | None = None


class Head(msgspec.Struct):
    """What has to be known of every object before any is read. Decoding it skips the rest."""

    kind: str = ""
    apiVersion: str = ""  # noqa: N815
    metadata: _Metadata | None = None
    status: _Status | None = None

    def times(self, kind: Kind) -> Iterator[str | None]:
        """The moments that the object tells of, as it writes them."""
        yield self.metadata.creationTimestamp if self.metadata else None
        if self.status:
            yield self.status.startTime
            for condition in (self.status.conditions or ()) if kind == NODES else ():
                yield condition.lastHeartbeatTime
                yield condition.lastTransitionTime


_decode_head = msgspec.json.Decoder(Head).decode


def head_of(raw: Raw) -> Head | None:
    """None where the object is not of the form that the API gives: then it has to be read whole."""
    try:
        return _decode_head(raw)
    except (msgspec.MsgspecError, RecursionError):
        return None


def _only(name: str, keys: tuple[str, ...], **inner: Any) -> Any:
    return TypedDict(name, {key: inner.get(key, Any) for key in (*keys, *inner)}, total=False)  # type: ignore[operator]


_METADATA = _only("_METADATA", METADATA)
_CONTAINER = _only("_CONTAINER", CONTAINER)
_CONTAINERS: Any = list[_CONTAINER]  # type: ignore[valid-type]
_POD = _only(
    "_POD",
    (),
    metadata=_METADATA,
    spec=_only("_POD_SPEC", POD_SPEC, containers=_CONTAINERS, initContainers=_CONTAINERS),
    status=_only("_POD_STATUS", POD_STATUS),
)
_NODE = _only(
    "_NODE",
    (),
    metadata=_METADATA,
    spec=_only("_NODE_SPEC", NODE_SPEC),
    status=_only("_NODE_STATUS", NODE_STATUS),
)
_DECODERS = {PODS: msgspec.json.Decoder(_POD).decode, NODES: msgspec.json.Decoder(_NODE).decode}
"""They skip the members that are not named. What has another form than the API's is read whole."""


class DumpedObject(KeptObject):
    """raw: a view of the dump's text, which stays in memory as long as one of its objects does."""

    __slots__ = ("_kind", "_raw")

    def __init__(self, kind: Kind, head: Head, raw: Raw) -> None:
        metadata = head.metadata or _Metadata()
        self.namespace = sys.intern(metadata.namespace or "")
        self.name, self.uid, self.revision = metadata.name, metadata.uid, metadata.resourceVersion
        self._kind, self._raw = kind, raw

    def open(self) -> Json:
        decode = _DECODERS.get(self._kind)
        if decode is not None:
            try:
                found: Json = {"metadata": {}, **decode(self._raw)}
                return found
            except (msgspec.MsgspecError, RecursionError):
                pass
        try:
            return trim_object(self._kind, open_raw(self._raw))
        except BadJson:
            return {"metadata": {"namespace": self.namespace, "name": self.name, "uid": self.uid}}
