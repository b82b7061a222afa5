"""Rooms of which each node's is laid out when first asked for: layouts touch few nodes of a large cluster.

Not in here: anything else that rooms do (planner.rooms).
"""

from __future__ import annotations

from apps.planner.room import Room
from apps.planner.rooms import Change, Rooms
from apps.planner.snapshot import Snapshot


class RoomsOnDemand(Rooms):
    """As `Rooms`; whoever walks over all nodes or pods, or asks for `company`, calls `lay_out_all` first."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(Snapshot(snapshot.cluster, snapshot.taken_at))
        self.snapshot = snapshot
        self.gpu_names = frozenset(node.gpu_resource for node in snapshot.nodes.values() if node.gpu_resource)
        self.by_node = _RoomsByNode(self)

    def lay_out_all(self) -> None:
        for name in sorted(self.snapshot.nodes):
            self.by_node[name]

    def lay_out(self, name: str) -> Room:
        """What runs there now is no change of ours: the journal does not tell of it."""
        room = self.by_node[name] = Room(self.snapshot.nodes[name])
        changes: list[Change] = self._journal
        self._journal = []
        self._settle(name, room)
        self._journal = changes
        return room


class _RoomsByNode(dict[str, Room]):
    def __init__(self, rooms: RoomsOnDemand) -> None:
        super().__init__()
        self._rooms = rooms

    def __missing__(self, name: str) -> Room:
        return self._rooms.lay_out(name)
