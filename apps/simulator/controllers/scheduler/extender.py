"""One HTTP extender, called as the stock scheduler calls it: the wire format of `extender/v1`.

Names of the outer fields are Go's (PascalCase), nulls are sent, anything but 200 is an error, and errors
carry the words of the stock scheduler. Not here: in which order extenders are asked (extenders).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

from apps.simulator.controllers.scheduler.cache import NodeFacts, PodFacts
from apps.simulator.controllers.scheduler.configuration import ExtenderSettings

Json = dict[str, Any]


class ExtenderError(Exception):
    """The extender could not be asked, or what it said cannot be used. Its text is what the pod is told."""


@dataclass(frozen=True)
class Filtered:
    """names: nodes that stay, in the answer's order. failed, unresolvable: the extender's words by node."""

    names: tuple[str, ...]
    failed: Mapping[str, str]
    unresolvable: Mapping[str, str]


class Extender:
    def __init__(self, settings: ExtenderSettings, session: aiohttp.ClientSession) -> None:
        self.settings = settings
        self._session = session

    def concerns(self, pod: PodFacts) -> bool:
        """Does the pod ask for a resource that this extender manages?"""
        managed = self.settings.managed
        return not managed or any(name in managed for name in _resources_named(pod.spec))

    async def filter(self, pod: PodFacts, nodes: Sequence[NodeFacts]) -> Filtered:
        """Raises ExtenderError; also when a node is named that was not offered."""
        answer = await self._post(self.settings.filter_verb, self._arguments(pod, nodes))
        if not isinstance(answer, dict):
            raise ExtenderError(
                f"json: cannot unmarshal {_go_kind(answer)} into Go value of type ExtenderFilterResult"
            )
        if _field(answer, "Error"):
            raise ExtenderError(str(_field(answer, "Error")))
        names = _named(answer, takes_names=self.settings.takes_names)
        offered = {node.name for node in nodes}
        for name in names:
            if name not in offered:
                claim = f'extender "{self.settings.url_prefix}" claims a filtered node "{name}"'
                raise ExtenderError(f"{claim} which is not found in the input node list")
        refused = (_field(answer, "FailedNodes"), _field(answer, "FailedAndUnresolvableNodes"))
        failed, unresolvable = (dict(told) if isinstance(told, dict) else {} for told in refused)
        return Filtered(tuple(names), failed, unresolvable)

    async def prioritize(self, pod: PodFacts, nodes: Sequence[NodeFacts]) -> dict[str, int]:
        """Score by node as answered, before any weight. Raises ExtenderError."""
        answer = await self._post(self.settings.prioritize_verb, self._arguments(pod, nodes))
        if not isinstance(answer, list):
            raise ExtenderError(
                f"json: cannot unmarshal {_go_kind(answer)} into Go value of type HostPriorityList"
            )
        try:
            return {str(_field(each, "Host")): int(_field(each, "Score") or 0) for each in answer}
        except (AttributeError, TypeError, ValueError) as error:
            raise ExtenderError("json: cannot unmarshal an entry into HostPriority") from error

    async def bind(self, pod: PodFacts, node: str) -> None:
        """Raises ExtenderError when the pod was not bound."""
        meta = pod.pod["metadata"]
        body = {
            "PodName": meta["name"],
            "PodNamespace": meta["namespace"],
            "PodUID": meta["uid"],
            "Node": node,
        }
        answer = await self._post(self.settings.bind_verb, body)
        if isinstance(answer, dict) and _field(answer, "Error"):
            raise ExtenderError(str(_field(answer, "Error")))

    async def preempt(
        self, pod: PodFacts, victims: Mapping[str, tuple[Sequence[PodFacts], int]]
    ) -> dict[str, tuple[list[str], int]]:
        """victims: by node, pods and the number of budgets they would break. Answers the uids that are to go
        in the end, by node; a node left out is none to preempt on. Raises ExtenderError."""
        if self.settings.takes_names:
            told = {
                name: {"Pods": [{"UID": each.uid} for each in pods], "NumPDBViolations": broken}
                for name, (pods, broken) in victims.items()
            }
            body = {"Pod": _bare(pod.pod), "NodeNameToVictims": None, "NodeNameToMetaVictims": told}
        else:
            told = {
                name: {"Pods": [_bare(each.pod) for each in pods], "NumPDBViolations": broken}
                for name, (pods, broken) in victims.items()
            }
            body = {"Pod": _bare(pod.pod), "NodeNameToVictims": told, "NodeNameToMetaVictims": None}
        answer = await self._post(self.settings.preempt_verb, body)
        left = _field(answer, "NodeNameToMetaVictims") if isinstance(answer, dict) else None
        return {name: _meta_victims(each) for name, each in (left or {}).items()}

    def _arguments(self, pod: PodFacts, nodes: Iterable[NodeFacts]) -> Json:
        by_name = self.settings.takes_names
        return {
            "Pod": _bare(pod.pod),
            "Nodes": None if by_name else {"metadata": {}, "items": [_bare(each.node) for each in nodes]},
            "NodeNames": [each.name for each in nodes] if by_name else None,
        }

    async def _post(self, verb: str, body: Json) -> Any:
        settings = self.settings
        url = f"{settings.url_prefix}/{verb}"
        limit = aiohttp.ClientTimeout(total=settings.timeout_seconds)
        try:
            async with self._session.post(url, json=body, timeout=limit, ssl=settings.tls or True) as reply:
                raw = await reply.read()
        except TimeoutError as error:
            late = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
            raise ExtenderError(f'Post "{url}": {late}') from error
        except (aiohttp.ClientError, OSError) as error:
            raise ExtenderError(f'Post "{url}": {error}') from error
        if reply.status != 200:
            raise ExtenderError(f"failed {verb} with extender at URL {url}, code {reply.status}")
        try:
            return json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise ExtenderError(f"the extender at URL {url} answered no JSON") from error


def _resources_named(spec: Json) -> Iterable[str]:
    for container in (*(spec.get("containers") or []), *(spec.get("initContainers") or [])):
        resources = container.get("resources") or {}
        yield from resources.get("requests") or {}
        yield from resources.get("limits") or {}


def _bare(thing: Json) -> Json:
    """As Go writes an object that came from a list: without kind and apiVersion."""
    return {name: value for name, value in thing.items() if name not in ("kind", "apiVersion")}


def _field(answer: Json, name: str) -> Any:
    """Go reads the names of fields whatever their case."""
    if name in answer:
        return answer[name]
    return next((value for key, value in answer.items() if key.lower() == name.lower()), None)


def _named(answer: Json, *, takes_names: bool) -> list[str]:
    names = _field(answer, "NodeNames") if takes_names else None
    if isinstance(names, list):
        return [str(name) for name in names]
    nodes = _field(answer, "Nodes")
    items = _field(nodes, "items") if isinstance(nodes, dict) else None
    return [str((each.get("metadata") or {}).get("name")) for each in items or []]


def _meta_victims(told: Any) -> tuple[list[str], int]:
    if not isinstance(told, dict):
        return [], 0
    pods = [str(_field(each, "UID")) for each in _field(told, "Pods") or [] if isinstance(each, dict)]
    return pods, int(_field(told, "NumPDBViolations") or 0)


def _go_kind(answer: Any) -> str:
    return {dict: "object", list: "array", str: "string", bool: "bool"}.get(type(answer), "number")
