"""Reads what `kubectl get … -o json` or `-o yaml` printed: Lists, single objects, several documents.

Gives API objects by kind, like a watch does; translating them is `translate`'s part. Nothing here holds a
tree of the whole: objects of JSON stay the pieces of text that they are until they are asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from apps.kube.dumped import DumpedObject, Head, head_of
from apps.kube.gateway import (
    BUDGETS,
    CLAIM_TEMPLATES,
    CLAIMS,
    CLUSTER_QUEUES,
    COHORTS,
    DAEMONSETS,
    DEPLOYMENTS,
    DEVICE_CLASSES,
    ELASTIC_QUOTAS,
    FLAVORS,
    GPU_REQUESTS,
    JOBS,
    KAI_POD_GROUPS,
    KAI_QUEUES,
    KOORDINATOR_DEVICES,
    LOCAL_QUEUES,
    NAMESPACES,
    NATIVE_POD_GROUPS,
    NATIVE_WORKLOADS,
    NODES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    QUEUED_WORKLOADS,
    QUOTAS,
    REPLICASETS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    STATEFULSETS,
    VOLCANO_POD_GROUPS,
    VOLCANO_QUEUES,
    VOLUMES,
    Json,
    Kind,
)
from apps.kube.json_text import BadJson, Bytes, Raw, open_raw, read_json
from apps.kube.object_store import KeptObject
from apps.kube.translate.values import child, entries, seconds_of
from apps.kube.trimming import trim_object
from apps.kube.yaml_text import BadYaml, read_yaml

KINDS = {
    "Node": NODES,
    "Pod": PODS,
    "Namespace": NAMESPACES,
    "ReplicaSet": REPLICASETS,
    "Deployment": DEPLOYMENTS,
    "StatefulSet": STATEFULSETS,
    "DaemonSet": DAEMONSETS,
    "Job": JOBS,
    "PodDisruptionBudget": BUDGETS,
    "PriorityClass": PRIORITY_CLASSES,
    "PodGroup": POD_GROUPS,
    "PersistentVolume": VOLUMES,
    "PersistentVolumeClaim": CLAIMS,
    "ResourceSlice": RESOURCE_SLICES,
    "ResourceClaim": RESOURCE_CLAIMS,
    "ResourceClaimTemplate": CLAIM_TEMPLATES,
    "DeviceClass": DEVICE_CLASSES,
    "Device": KOORDINATOR_DEVICES,
    "ResourceQuota": QUOTAS,
    "ClusterQueue": CLUSTER_QUEUES,
    "Cohort": COHORTS,
    "LocalQueue": LOCAL_QUEUES,
    "ResourceFlavor": FLAVORS,
    "Workload": QUEUED_WORKLOADS,
    "Queue": KAI_QUEUES,
    "ElasticQuota": ELASTIC_QUOTAS,
    "GPURequest": GPU_REQUESTS,
}
NAMESAKES = {
    "PodGroup": (VOLCANO_POD_GROUPS, KAI_POD_GROUPS, NATIVE_POD_GROUPS),
    "Queue": (VOLCANO_QUEUES,),
    "Workload": (NATIVE_WORKLOADS,),
}
"""Other API groups' kinds of the same name."""
DEEPEST_LIST = 4
MOST_OBJECTS = 500_000
MOST_KINDLESS = 200_000
LARGEST_FLOW = 1024 * 1024
"""Of a text that starts like JSON and is none, but may be YAML in its flow style, in bytes."""

Adopt = Callable[[Json], Json | None]
"""Makes an object without kind into one that has kind and apiVersion; None if it cannot tell."""
ReadOther = Callable[[str], list[Json] | None]
"""Reads a text that is neither JSON nor YAML of objects; None if it cannot."""


class BadDump(Exception):
    """The text is no dump; the message says why."""


@dataclass(slots=True)
class Dump:
    """objects: by kind, as `translate` takes them. taken_at: the newest time that an object tells, Unix
    seconds, 0 without any. passed_over: how many there are of kinds that nothing here reads, by kind."""

    objects: dict[Kind, list[KeptObject]] = field(default_factory=dict)
    taken_at: float = 0.0
    passed_over: Counter[str] = field(default_factory=Counter)


def read_dump(
    texts: Iterable[tuple[str, str | Bytes]],
    *,
    adopt: Adopt | None = None,
    read_other: ReadOther | None = None,
    needs_node: bool = True,
) -> Dump:
    """What (name of the source, text in UTF-8) pairs hold together. Raises BadDump.

    Kinds that nothing here reads are passed over; a text without any Kubernetes object is an error.
    adopt, read_other: what to do with objects without kind, and with a text that is no JSON and no YAML.
    """
    dump, times = Dump(), _Newest()
    for source, text in texts:
        data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        found = _Collector(source, dump, times, adopt)
        try:
            _read_text(data, found)
            found.end()
        except (BadJson, BadYaml, BadDump) as error:
            if not _read_otherwise(data, found, read_other):
                raise BadDump(f"{source}: {error}.") from error
        if not found.count:
            raise BadDump(f"{source}: there is no Kubernetes object in it.")
    if needs_node and NODES not in dump.objects:
        raise BadDump("There is no Node in it. Dump at least: kubectl get nodes,pods -A -o json")
    dump.taken_at = times.newest
    return dump


def _read_text(data: Bytes, found: _Collector) -> None:
    start = data[:1000].lstrip()[:1] or data.lstrip()[:1]
    if not start:
        raise BadDump("it is empty")
    problem = None
    if start in (b"{", b"["):
        try:
            read_json(data, found.add, found.listed)
            return
        except BadJson as error:
            if found.count or len(data) > LARGEST_FLOW:
                raise BadJson(f"this is no good JSON: {error}") from error
            problem = error
            found.forget()
    try:
        for document in read_yaml(bytes(data), allow_aliases=True, found=found.add):
            if isinstance(document, dict) and "items" in document:
                found.listed(str(document.get("kind", "")), str(document.get("apiVersion", "")))
            else:
                found.add(document)
    except BadYaml as error:
        raise BadYaml(f"neither JSON nor YAML: {problem or error}") from error


def _read_otherwise(data: Bytes, found: _Collector, read_other: ReadOther | None) -> bool:
    objects = read_other(data.decode("utf-8", "replace")) if read_other and not found.count else None
    found.forget()
    for one in objects or ():
        found.add(one)
    return bool(objects)


class _Newest:
    """The newest of many times. Most need no more than a look at their letters."""

    def __init__(self) -> None:
        self.newest = 0.0
        self._letters = ""

    def add(self, moment: object) -> None:
        if not isinstance(moment, str) or (len(moment) == 20 and moment <= self._letters):
            return
        seconds = seconds_of(moment)
        if seconds is not None and seconds > self.newest:
            self.newest = seconds
            if len(moment) == 20 and moment.endswith("Z"):
                self._letters = moment


class _Collector:
    """Puts the objects of one text where they belong. count: how many there were, of any kind."""

    def __init__(self, source: str, dump: Dump, times: _Newest, adopt: Adopt | None) -> None:
        self.count = 0
        self._source, self._dump, self._times, self._adopt = source, dump, times, adopt
        self._kindless: list[Any] = []

    def add(self, piece: Any, depth: int = 0, kind: str = "", version: str = "") -> None:
        """kind, version: of an object that does not say them itself."""
        head = head_of(piece) if isinstance(piece, Raw) else None
        if head is not None and not head.kind.endswith("List") and (head.kind or kind):
            self._keep(head.kind or kind, head.apiVersion or version, partial(self._dumped, head, piece))
            return
        raw = open_raw(piece) if isinstance(piece, Raw) else piece
        if not isinstance(raw, dict):
            raise BadDump("a document in it is no Kubernetes object (it has no kind)")
        own = raw.get("kind") or kind
        if not own:
            self._kindless.append(piece)
            if len(self._kindless) > MOST_KINDLESS:
                raise BadDump("the objects in it do not say their kind")
        elif not isinstance(own, str):
            raise BadDump("a document in it is no Kubernetes object (its kind is no text)")
        elif own.endswith("List") and isinstance(raw.get("items"), list):
            self._add_list(own, raw, depth)
        else:
            self._keep(own, str(raw.get("apiVersion") or version), partial(self._kept, raw))

    def listed(self, kind: str, version: str) -> None:
        """A list has ended: a raw LIST answer names kind and version once, on the list."""
        inner, kindless = kind.removesuffix("List"), self._kindless
        if inner:
            self._kindless = []
            for piece in kindless:
                self.add(piece, kind=inner, version=version)

    def end(self) -> None:
        for piece in self._kindless:
            raw = open_raw(piece) if isinstance(piece, Raw) else piece
            known = self._adopt(raw) if self._adopt is not None else None
            if known is None:
                raise BadDump("a document in it is no Kubernetes object (it has no kind)")
            self.add(known)
        self._kindless = []

    def forget(self) -> None:
        self._kindless = []

    def _add_list(self, kind: str, raw: Json, depth: int) -> None:
        if depth == DEEPEST_LIST:
            raise BadDump("its lists are nested too deeply")
        inner = kind.removesuffix("List")
        for member in raw["items"]:
            self.add(member, depth + 1, inner, str(raw.get("apiVersion") or "") if inner else "")

    def _keep(self, name: str, version: str, make: Callable[[Kind], KeptObject]) -> None:
        self.count += 1
        kind = kind_of(name, version)
        if kind is None:
            self._dump.passed_over[name] += 1
            return
        self._dump.objects.setdefault(kind, []).append(make(kind))
        if self.count > MOST_OBJECTS:
            raise BadDump(f"more than {MOST_OBJECTS} objects are more than a cluster has")

    def _dumped(self, head: Head, raw: Raw, kind: Kind) -> KeptObject:
        for moment in head.times(kind):
            self._times.add(moment)
        return DumpedObject(kind, head, raw)

    def _kept(self, raw: Json, kind: Kind) -> KeptObject:
        for moment in _told_times(kind, raw):
            self._times.add(moment)
        return KeptObject(trim_object(kind, raw))


def kind_of(name: str, version: str) -> Kind | None:
    """The kind of an object that says so of itself; None for one that nothing here reads."""
    group = version.partition("/")[0]
    known = (KINDS.get(name), *NAMESAKES.get(name, ()))
    return next((kind for kind in known if kind and group in (kind.group, kind.version)), None)


def _told_times(kind: Kind, raw: Json) -> Iterator[Any]:
    yield child(raw, "metadata").get("creationTimestamp")
    yield child(raw, "status").get("startTime")
    if kind == NODES:
        for condition in entries(child(raw, "status"), "conditions"):
            yield condition.get("lastHeartbeatTime")
            yield condition.get("lastTransitionTime")
