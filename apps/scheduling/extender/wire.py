"""The extender's wire format, `k8s.io/kube-scheduler/extender/v1`, exactly. Pure.

The Go types have no JSON tags: PascalCase outside, the API's camelCase inside of pods and nodes; nulls are
sent for what is empty. Not in here: what is answered (filtering, scoring, preempting, binding).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

Json = dict[str, Any]
MOST_SCORE = 10
"""MaxExtenderPriority."""


class BadCall(Exception):
    """The body is not what a scheduler sends: one sentence, with what to look at."""


class _Args(msgspec.Struct):
    pod: Json | None = msgspec.field(default=None, name="Pod")
    nodes: Json | None = msgspec.field(default=None, name="Nodes")
    node_names: list[str] | None = msgspec.field(default=None, name="NodeNames")


class _Victims(msgspec.Struct):
    pods: list[Json] | None = msgspec.field(default=None, name="Pods")
    violations: int = msgspec.field(default=0, name="NumPDBViolations")


class _PreemptionArgs(msgspec.Struct):
    pod: Json | None = msgspec.field(default=None, name="Pod")
    victims: dict[str, _Victims | None] | None = msgspec.field(default=None, name="NodeNameToVictims")
    meta_victims: dict[str, _Victims | None] | None = msgspec.field(
        default=None, name="NodeNameToMetaVictims"
    )


class _BindingArgs(msgspec.Struct):
    name: str = msgspec.field(name="PodName")
    namespace: str = msgspec.field(name="PodNamespace")
    uid: str = msgspec.field(name="PodUID")
    node: str = msgspec.field(name="Node")


@dataclass(frozen=True, slots=True)
class Call:
    """A filter or prioritize call. names: the nodes offered. nodes: their objects, None where the scheduler
    sends names only (nodeCacheCapable)."""

    pod: Json
    names: list[str]
    nodes: list[Json] | None = None


@dataclass(frozen=True, slots=True)
class Victims:
    """Of one node: uids of the pods that would have to go, and how many budgets that breaks."""

    uids: tuple[str, ...]
    violations: int = 0


@dataclass(frozen=True, slots=True)
class PreemptionCall:
    pod: Json
    victims: Mapping[str, Victims]


@dataclass(frozen=True, slots=True)
class BindingCall:
    namespace: str
    name: str
    uid: str
    node: str


_args = msgspec.json.Decoder(_Args)
_preemption = msgspec.json.Decoder(_PreemptionArgs)
_binding = msgspec.json.Decoder(_BindingArgs)
_encode = msgspec.json.Encoder().encode


def read_call(body: bytes) -> Call:
    """Raises BadCall."""
    args = _decode(_args, body, "ExtenderArgs")
    pod = _pod_of(args.pod)
    if args.node_names is not None:
        return Call(pod, args.node_names)
    if args.nodes is None:
        raise BadCall("The call names no nodes: neither NodeNames nor Nodes is set.")
    nodes = args.nodes.get("items") or []
    try:
        return Call(pod, [str(node["metadata"]["name"]) for node in nodes], nodes)
    except (KeyError, TypeError):
        raise BadCall("A node in Nodes.items has no metadata.name.") from None


def filter_answer(call: Call, fitting: list[str], failed: Json, hopeless: Json) -> bytes:
    """fitting: of the offered names, in their order. failed, hopeless: name -> why; hopeless where no
    preemption can mend it."""
    nodes = None
    if call.nodes is not None:
        kept = set(fitting)
        chosen = [node for name, node in zip(call.names, call.nodes, strict=True) if name in kept]
        nodes = {"metadata": {}, "items": chosen}
    return _encode(
        {
            "Nodes": nodes,
            "NodeNames": fitting if call.nodes is None else None,
            "FailedNodes": failed,
            "FailedAndUnresolvableNodes": hopeless,
            "Error": "",
        }
    )


def filter_error(message: str) -> bytes:
    """The whole call fails: the pod waits, unless the extender is `ignorable`."""
    empty = {"Nodes": None, "NodeNames": None, "FailedNodes": None, "FailedAndUnresolvableNodes": None}
    return _encode({**empty, "Error": message})


def priorities(scores: Iterable[tuple[str, int]]) -> bytes:
    """A bare array; each score 0 to 10."""
    return _encode([{"Host": name, "Score": score} for name, score in scores])


def read_binding(body: bytes) -> BindingCall:
    """Raises BadCall."""
    args = _decode(_binding, body, "ExtenderBindingArgs")
    if not (args.name and args.namespace and args.uid and args.node):
        raise BadCall("The binding lacks its pod's name, namespace or UID, or the node.")
    return BindingCall(args.namespace, args.name, args.uid, args.node)


def binding_answer(error: str = "") -> bytes:
    return _encode({"Error": error})


def read_preemption(body: bytes) -> PreemptionCall:
    """Whole pods or their uids alone, whichever was sent. Raises BadCall."""
    args = _decode(_preemption, body, "ExtenderPreemptionArgs")
    pod = _pod_of(args.pod)
    if args.meta_victims:
        found = {name: _victims(one, "UID") for name, one in args.meta_victims.items()}
    else:
        found = {name: _victims(one, "") for name, one in (args.victims or {}).items()}
    return PreemptionCall(pod, found)


def preemption_answer(kept: Mapping[str, Victims]) -> bytes:
    """Always meta-victims, whatever was sent."""
    return _encode(
        {
            "NodeNameToMetaVictims": {
                name: {"Pods": [{"UID": uid} for uid in one.uids], "NumPDBViolations": one.violations}
                for name, one in kept.items()
            }
        }
    )


def _victims(sent: _Victims | None, field: str) -> Victims:
    if sent is None:
        return Victims(())
    uids = tuple(str(pod.get(field) if field else _metadata(pod).get("uid")) for pod in sent.pods or ())
    return Victims(uids, sent.violations)


def _metadata(raw: Json) -> Json:
    found = raw.get("metadata")
    return found if isinstance(found, dict) else {}


def _pod_of(pod: Json | None) -> Json:
    if pod is None or not isinstance(_metadata(pod).get("uid"), str) or not _metadata(pod).get("name"):
        raise BadCall("The call's Pod has no metadata.uid or no name: is this a scheduler?")
    return pod


def _decode(decoder: Any, body: bytes, name: str) -> Any:
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadCall(f"The body is no {name} of k8s.io/kube-scheduler/extender/v1: {error}.") from None
