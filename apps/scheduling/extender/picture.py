"""The cluster in memory as the extender judges it: each node's room, kept up pod by pod.

A pod's event changes its own node's room and nothing else; each change gives the node a new version, by which
whatever was worked out about it knows that it is old. Assumed pods count like pods that are there.
Not in here: where events come from (following), what a verdict is (rules, scores).
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from apps.kube.translate.holders import settle_holders, tells_devices
from apps.planner.drift import Expected, find_drift
from apps.planner.gpu_wishes import request_among
from apps.planner.inventory import Gang, Node, Pod
from apps.planner.queues import GpuRequest
from apps.planner.room import Room
from apps.planner.snapshot import Snapshot
from apps.scheduling.extender.assumed import Assumed, AssumedPods, is_contradicted
from apps.scheduling.extender.effects import is_felt, is_same_node, make_room, place_of
from apps.scheduling.extender.reserve import with_reserve

Ints = npt.NDArray[np.int64]
Order = Callable[[str], int]


def fixed_order(name: str) -> int:
    """A place in one fixed random order of the nodes: by it equals are told apart."""
    return zlib.crc32(name.encode())


class Picture:
    """names, rooms, version, order: by row; a row stays its node's. rooms: None where the node is gone.

    nodes: by name. pods: all that the cluster has, by uid. reserved_mib: of each GPU's memory, never given
    out in shares. order_of: where a node stands among equals, the least first.
    """

    def __init__(self, *, reserved_mib: int = 0, order_of: Order = fixed_order) -> None:
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        self.gangs: dict[str, Gang] = {}
        self.gpu_requests: dict[str, GpuRequest] = {}
        self.gpu_names: frozenset[str] = frozenset()
        self.assumed = AssumedPods()
        self.names: list[str] = []
        self.row_of: dict[str, int] = {}
        self.rooms: list[Room | None] = []
        self.version: Ints = np.zeros(0, dtype=np.int64)
        self.order: Ints = np.zeros(0, dtype=np.int64)
        self.changes = 0
        self._bases: dict[str, Node] = {}
        self._guests: dict[str, dict[str, Pod]] = defaultdict(dict)
        self._members: dict[str, dict[str, Pod]] = defaultdict(dict)
        self._expected: Mapping[str, Expected] = {}
        self._reserved_mib = reserved_mib
        self._order_of = order_of

    # --- what the cluster tells ---

    def take(self, snapshot: Snapshot, bases: Mapping[str, Node] | None = None) -> None:
        """A whole picture. Nodes of which nothing changed keep their rooms. bases: nodes as they were read,
        before it was settled who holds which device."""
        for _ in self.take_in_steps(snapshot, bases):
            pass

    def take_in_steps(
        self,
        snapshot: Snapshot,
        bases: Mapping[str, Node] | None = None,
        newer: Container[str] = (),
    ) -> Iterator[None]:
        """The same, with a pause after each small part of it. newer: uids of pods, names of nodes and keys of
        gangs of which more is known already than the snapshot knows; it may grow meanwhile."""
        for uid in [uid for uid in self.pods if uid not in snapshot.pods and uid not in newer]:
            self.forget_pod(uid)
        self.gangs = {**snapshot.gangs, **{key: one for key, one in self.gangs.items() if key in newer}}
        self.gpu_requests = dict(snapshot.gpu_requests)
        for name in [name for name in self.nodes if name not in snapshot.nodes and name not in newer]:
            self.forget_node(name)
        for name, node in snapshot.nodes.items():
            if name not in newer:
                self.tell_node(node, (bases or snapshot.nodes)[name])
            yield
        for at, pod in enumerate(snapshot.pods.values()):
            if pod.uid not in newer:
                self.tell_pod(pod)
            if at % 20 == 0:
                yield

    def tell_gang(self, gang: Gang) -> None:
        self.gangs[gang.key] = gang

    def expect(self, expected: Mapping[str, Expected]) -> None:
        """What each node has shown before, by its uid: who shows less is marked."""
        if expected == self._expected:
            return
        self._expected = expected
        for name, node in list(self.nodes.items()):
            marked = self._marked(node)
            if marked.drift != node.drift:
                self.nodes[name] = marked
                self._retell(name)

    def tell_node(self, node: Node, base: Node | None = None) -> None:
        """base: as read, before its holders were settled; None if it is that itself."""
        name = node.name
        self._bases[name] = base or node
        known = self.nodes.get(name)
        node = self._marked(self._settled(name) if base is None else node)
        if known is not None and is_same_node(known, node):
            return
        self.nodes[name] = node
        if node.gpu_resource not in self.gpu_names and node.gpu_resource:
            self.gpu_names |= {node.gpu_resource}
        self._retell(name)

    def forget_node(self, name: str) -> None:
        self.nodes.pop(name, None)
        self._bases.pop(name, None)
        self._retell(name)

    def tell_pod(self, pod: Pod) -> None:
        known = self.pods.get(pod.uid)
        if known is pod:
            return
        counted = self._end_assumption(pod) or known
        self.pods[pod.uid] = pod
        if known is not None and known.gang != pod.gang:
            self._members[known.gang].pop(pod.uid, None)
        if pod.gang:
            self._members[pod.gang][pod.uid] = pod
        places = {one for one in (place_of(known) if known else "", place_of(pod)) if one}
        is_same = counted is not None and not is_felt(counted, pod)
        for name in places:
            guests = self._guests[name]
            if place_of(pod) == name:
                guests[pod.uid] = pod
            elif not self._is_assumed_on(name, pod.uid):
                guests.pop(pod.uid, None)
            if not is_same:
                self._resettle(name, pod)

    def forget_pod(self, uid: str) -> None:
        self.release(uid)
        known = self.pods.pop(uid, None)
        if known is None:
            return
        if known.gang:
            self._members[known.gang].pop(uid, None)
            if not self._members[known.gang]:
                del self._members[known.gang]
        name = place_of(known)
        if name:
            self._guests[name].pop(uid, None)
            self._resettle(name, known)

    def reserve(self, reserved_mib: int) -> None:
        """Another amount of each GPU's memory is never given out in shares from now on."""
        if reserved_mib != self._reserved_mib:
            self._reserved_mib = reserved_mib
            for name in list(self.nodes):
                self._retell(name)

    # --- what is assumed ---

    def assume(self, one: Assumed) -> None:
        """Count the pod on the node from now on, unless the watch has told already where it runs: its
        scheduler may be behind that."""
        self.release(one.pod.uid)
        known = self.pods.get(one.pod.uid)
        if one.node not in self.row_of or (known is not None and known.node_name):
            return
        self.assumed.add(one)
        self._guests[one.node][one.pod.uid] = replace(one.pod, node_name=one.node, nominated_node="")
        self._retell(one.node)

    def release(self, uid: str) -> Assumed | None:
        """The pod is assumed nowhere any longer."""
        one = self.assumed.drop(uid)
        if one is not None:
            self._leave(one)
        return one

    def expire(self, now: float) -> list[Assumed]:
        over = self.assumed.take_expired(now)
        for one in over:
            self._leave(one)
        return over

    def _end_assumption(self, pod: Pod) -> Pod | None:
        """The assumed pod where it is counted already as the watch now tells it, else None."""
        one = self.assumed.get(pod.uid)
        if one is None or not is_contradicted(one, pod):
            return None
        if one.node != place_of(pod):
            self.release(pod.uid)
            return None
        self.assumed.drop(pod.uid)
        return self._guests[one.node][pod.uid]

    def _is_assumed_on(self, name: str, uid: str) -> bool:
        one = self.assumed.get(uid)
        return one is not None and one.node == name

    def _leave(self, one: Assumed) -> None:
        """What the watch tells of the pod holds again: it may have a place of its own there."""
        guests, known = self._guests[one.node], self.pods.get(one.pod.uid)
        if known is not None and place_of(known) == one.node:
            guests[known.uid] = known
        else:
            guests.pop(one.pod.uid, None)
        self._retell(one.node)

    # --- looking ---

    def wish(self, pod: Pod) -> tuple[str, int] | None:
        """(model, MiB of each GPU) that its GPURequest asks for."""
        found = request_among(self.gpu_requests, pod)
        return None if found is None else (found.model, found.memory_mib or 0)

    def room(self, name: str) -> Room | None:
        row = self.row_of.get(name)
        return None if row is None else self.rooms[row]

    def members(self, gang: str) -> Sequence[Pod]:
        """All pods of the gang that the cluster has."""
        return tuple(self._members.get(gang, {}).values())

    def guests(self, name: str) -> Sequence[Pod]:
        """Who is on the node, assumed pods among them."""
        return tuple(self._guests.get(name, {}).values())

    def room_without(self, name: str, uids: Iterable[str]) -> Room | None:
        """The node's room once these pods are gone. Nothing is changed."""
        node, gone = self.nodes.get(name), frozenset(uids)
        if node is None:
            return None
        reserved = with_reserve(node, self._reserved_mib)
        return make_room(reserved, [pod for pod in self.guests(name) if pod.uid not in gone])

    # --- keeping up ---

    def _resettle(self, name: str, pod: Pod) -> None:
        """After the pod came, went or changed there: who holds which device may be told otherwise now."""
        base, node = self._bases.get(name), self.nodes.get(name)
        is_told = base is not None and base.holdings is not None
        if node is not None and (is_told or node.holdings is not None or tells_devices(pod)):
            self.nodes[name] = self._marked(self._settled(name))
        self._retell(name)

    def _marked(self, node: Node) -> Node:
        expected = self._expected.get(node.uid)
        drift = find_drift(expected, node) if expected is not None else node.drift
        return replace(node, drift=drift) if drift != node.drift else node

    def _settled(self, name: str) -> Node:
        base = self._bases[name]
        told = {one.pod_uid for one in base.holdings or ()}
        telling = [
            pod for pod in self._guests.get(name, {}).values() if tells_devices(pod) or pod.uid in told
        ]
        if base.holdings is None and not telling and not base.kept:
            return base
        return settle_holders(base, telling)

    def _retell(self, name: str) -> None:
        node = self.nodes.get(name)
        row = self.row_of.get(name)
        if row is None:
            if node is None:
                return
            row = self._add_row(name)
        if node is None:
            self.rooms[row] = None
        else:
            self.rooms[row] = make_room(with_reserve(node, self._reserved_mib), self._guests[name].values())
        self.changes += 1
        self.version[row] = self.changes

    def _add_row(self, name: str) -> int:
        row = self.row_of[name] = len(self.names)
        self.names.append(name)
        self.rooms.append(None)
        if row >= len(self.version):
            more = np.zeros(max(64, row), dtype=np.int64)
            self.version = np.concatenate([self.version, more])
            self.order = np.concatenate([self.order, more])
        self.order[row] = self._order_of(name)
        return row
