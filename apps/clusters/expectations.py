"""Remembers what each node of a watched cluster has shown, and marks where it shows less now (drift).

Kept in rows, so that a GPU lost while the watcher was down is told as well. What counts as drift is
`planner.drift`'s.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from datetime import datetime

import msgspec

from apps.clusters.accepting import keep_expectations
from apps.clusters.models import Cluster, NodeExpectation
from apps.planner.drift import Expected, find_drift, learn
from apps.planner.inventory import Node
from apps.planner.snapshot import Snapshot


class Expectations:
    """Of one cluster. Judging the next picture costs what has changed since the last one."""

    def __init__(self, cluster_id: int) -> None:
        self._cluster_id = cluster_id
        self._known: dict[str, Expected] | None = None
        self._accepted_at: datetime | None = None
        self._judged: dict[str, tuple[Node, Node]] = {}

    def judge(self, picture: Snapshot) -> Snapshot:
        """The same picture, with `Node.drift` filled in and told among the node's warnings."""
        if self._known is None:
            self._read()
        while (judged := self._judge_by_known(picture)) is None:
            self._read()
        return judged

    def _judge_by_known(self, picture: Snapshot) -> Snapshot | None:
        """None if a person accepted how a node is meanwhile: then it is to be judged anew."""
        assert self._known is not None
        judged, learned = {}, {}
        for name, node in picture.nodes.items():
            known = self._judged.get(name)
            if known is None or known[0] is not node:
                expected = learn(self._known.get(node.uid), node)
                if expected != self._known.get(node.uid) and node.uid and node.gpus:
                    learned[node.uid] = expected
                known = (node, _marked(node, expected))
            judged[name] = known
        there = {node.uid for node in picture.nodes.values()}
        # A picture with problems may lack nodes that are still there.
        gone = [] if picture.problems else [uid for uid in self._known if uid not in there]
        if not self._keep(learned, gone=gone):
            return None
        self._judged = judged
        return replace(picture, nodes={name: marked for name, (_, marked) in judged.items()})

    def read_again(self) -> bool:
        """Whether a person has accepted how a node is since: then everything is judged anew."""
        if self._ask_accepted_at() == self._accepted_at:
            return False
        self._known, self._judged = None, {}
        return True

    def _read(self) -> None:
        """The moment first: an acceptance between the two readings only makes them be read once more."""
        self._accepted_at = self._ask_accepted_at()
        self._known, self._judged = read_expectations(self._cluster_id), {}

    def _ask_accepted_at(self) -> datetime | None:
        return Cluster.objects.values_list("drift_accepted_at", flat=True).get(pk=self._cluster_id)

    def _keep(self, learned: dict[str, Expected], *, gone: list[str]) -> bool:
        assert self._known is not None
        if (learned or gone) and not keep_expectations(
            cluster_id=self._cluster_id,
            learned={uid: asdict(expected) for uid, expected in learned.items()},
            gone=gone,
            accepted_at=self._accepted_at,
        ):
            return False
        self._known |= learned
        for uid in gone:
            del self._known[uid]
        return True


def read_expectations(cluster_id: int) -> dict[str, Expected]:
    rows = NodeExpectation.objects.filter(cluster_id=cluster_id).values_list("node_uid", "facts")
    return {uid: msgspec.convert(facts, Expected) for uid, facts in rows}


def _marked(node: Node, expected: Expected) -> Node:
    drift = find_drift(expected, node)
    return replace(node, drift=drift, warnings=(*drift, *node.warnings)) if drift else node
