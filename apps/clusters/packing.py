"""How a snapshot is stored and known again: a digest of its facts, and a packed body.

Objects lie in groups by a hash of their key; groups are packed in buckets. Who packs or opens the next
snapshot of the same cluster pays for the buckets that changed, and shares the objects of the others.
Not in here: rows, and the few numbers that lists show (pictures).
"""

from __future__ import annotations

import gc
import hashlib
import threading
import zlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from apps.planner.inventory import DisruptionBudget, Gang, Node, Pod, Workload
from apps.planner.queues import Entrance, Flavor, GpuRequest, Queue, QueuedWorkload
from apps.planner.snapshot import Snapshot

FAST = 1
MARK = b"\x02"
"""First byte of a body in buckets. Older bodies are one compressed JSON document and begin otherwise."""
GROUPS = 1024
PER_BUCKET = 64
CLUSTERS_REMEMBERED = 4
_encode = msgspec.json.Encoder().encode
_decoders: dict[str, msgspec.json.Decoder[dict[str, Any]]] = {
    "nodes": msgspec.json.Decoder(dict[str, Node]),
    "pods": msgspec.json.Decoder(dict[str, Pod]),
    "workloads": msgspec.json.Decoder(dict[str, Workload]),
    "budgets": msgspec.json.Decoder(dict[str, DisruptionBudget]),
    "gangs": msgspec.json.Decoder(dict[str, Gang]),
    "queues": msgspec.json.Decoder(dict[str, Queue]),
    "entrances": msgspec.json.Decoder(dict[str, Entrance]),
    "flavors": msgspec.json.Decoder(dict[str, Flavor]),
    "queued": msgspec.json.Decoder(dict[str, QueuedWorkload]),
    "gpu_requests": msgspec.json.Decoder(dict[str, GpuRequest]),
}
_older_decoder = msgspec.json.Decoder(Snapshot)


@dataclass(slots=True)
class _Section:
    """members: of the snapshot seen last. digests: of each group's facts. stale: buckets to pack again."""

    members: Mapping[str, Any] = field(default_factory=dict)
    groups: dict[int, dict[str, Any]] = field(default_factory=dict)
    digests: dict[int, bytes] = field(default_factory=dict)
    buckets: int = 1
    packed: dict[int, bytes] = field(default_factory=dict)
    stale: set[int] = field(default_factory=set)

    def see(self, members: Mapping[str, Any]) -> None:
        """Take in what differs from the snapshot before: an unchanged object is the very same one."""
        before, changed = self.members, set[int]()
        for key, member in members.items():
            if before.get(key) is not member:
                number = _group_of(key)
                self.groups.setdefault(number, {})[key] = member
                changed.add(number)
        if changed or len(members) != len(before):
            for key in before.keys() - members.keys():
                number = _group_of(key)
                del self.groups[number][key]
                changed.add(number)
        self.members = members
        for number in changed:
            self.digests[number] = _digest_of(self.groups[number])
        self._spread(len(members))
        self.stale.update(number % self.buckets for number in changed)

    def _spread(self, count: int) -> None:
        wanted = min(GROUPS, 1 << max(count // PER_BUCKET, 1).bit_length() - 1)
        if not self.buckets // 2 <= wanted <= self.buckets * 2:
            self.buckets, self.packed = wanted, {}
            self.stale = set(range(wanted))

    def pack(self) -> Iterator[tuple[int, bytes]]:
        for bucket in self.stale:
            numbers = range(bucket, GROUPS, self.buckets)
            here = {key: one for number in numbers for key, one in self.groups.get(number, {}).items()}
            self.packed[bucket] = zlib.compress(_encode(here), FAST)
        self.stale.clear()
        yield from sorted(self.packed.items())


class Packer:
    """For the snapshots of one cluster, one after the other."""

    def __init__(self) -> None:
        self._sections = {name: _Section() for name in _decoders}

    def digest(self, snapshot: Snapshot) -> str:
        """sha256 in hex of the facts that matter: not when they were taken, not bare revisions."""
        self._see(snapshot)
        whole = hashlib.sha256(_encode([snapshot.cluster, snapshot.problems]))
        for name, section in self._sections.items():
            for number in sorted(section.digests):
                if section.groups[number]:
                    whole.update(b"%s/%d/" % (name.encode(), number) + section.digests[number])
        return whole.hexdigest()

    def pack(self, snapshot: Snapshot) -> bytes:
        self._see(snapshot)
        head = {"cluster": snapshot.cluster, "taken_at": snapshot.taken_at, "problems": snapshot.problems}
        buckets = [
            (name, number, body)
            for name, section in self._sections.items()
            for number, body in section.pack()
        ]
        return MARK + msgspec.msgpack.encode((head, buckets))

    def _see(self, snapshot: Snapshot) -> None:
        for name, section in self._sections.items():
            section.see(getattr(snapshot, name))


class Opener:
    """Opens bodies; buckets that the last one of the same cluster had as well are not opened again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[str, dict[tuple[str, int, bytes], dict[str, Any]]] = OrderedDict()

    def open(self, body: bytes | memoryview) -> Snapshot:
        packed = bytes(body)
        if not packed.startswith(MARK):
            with collector_paused():
                return _older_decoder.decode(zlib.decompress(packed))
        head, buckets = msgspec.msgpack.decode(packed[1:])
        cluster = head["cluster"]
        with self._lock:
            known = self._known.get(cluster, {})
        seen: dict[tuple[str, int, bytes], dict[str, Any]] = {}
        found: dict[str, dict[str, Any]] = {name: {} for name in _decoders}
        with collector_paused():
            for name, number, packed_bucket in buckets:
                key = (name, number, hashlib.blake2b(packed_bucket, digest_size=16).digest())
                members = known.get(key)
                if members is None:
                    members = _decoders[name].decode(zlib.decompress(packed_bucket))
                seen[key] = members
                found[name].update(members)
        with self._lock:
            self._known[cluster] = seen
            self._known.move_to_end(cluster)
            while len(self._known) > CLUSTERS_REMEMBERED:
                self._known.popitem(last=False)
        ordered = {name: dict(sorted(members.items())) for name, members in found.items()}
        return Snapshot(cluster, head["taken_at"], **ordered, problems=tuple(head["problems"]))


@contextmanager
def collector_paused() -> Iterator[None]:
    """Snapshots have no cycles; walking a growing million of objects over and over doubles the time."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _group_of(key: str) -> int:
    return zlib.crc32(key.encode("utf-8", "surrogatepass")) % GROUPS


def _digest_of(members: Mapping[str, Any]) -> bytes:
    facts = [
        (key, _without_clockwork(one) if isinstance(one, Node) else one)
        for key, one in sorted(members.items())
    ]
    return hashlib.sha256(_encode(facts)).digest()


def _without_clockwork(node: Node) -> Node:
    topology = node.topology and replace(node.topology, observed_at=None)
    holdings = node.holdings and tuple(replace(one, observed_at=None) for one in node.holdings)
    return replace(node, resource_version="", holdings_observed_at=None, holdings=holdings, topology=topology)
