"""Answers `read_dump`: nodes with their devices, pods with what they really ask for, and what is odd.

The very code of the live path reads it (`apps.kube.translate`, `apps.planner.ledger`). Nothing here
touches the database or a cluster.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from apps.clusters.dump_oddities import find_oddities
from apps.clusters.dumps import CLUSTER
from apps.clusters.errors import BadDump
from apps.clusters.node_answers import Seen, node_answer
from apps.clusters.pod_answers import answer_pods
from apps.kube import dumps
from apps.kube.describe_text import is_description, read_description
from apps.kube.device_nodes import node_of_device
from apps.kube.fragments import PARTITIONS, UNNAMED, adopt_fragment
from apps.kube.gateway import KOORDINATOR_DEVICES, NODES, Json, Kind
from apps.kube.label_lists import LabelList, read_label_list
from apps.kube.translate import build_snapshot
from apps.kube.translate.annotations import LONGEST_ANNOTATION
from apps.kube.translate.gpus import Inventory
from apps.kube.translate.handshakes import handshake_times
from apps.kube.translate.nodes import inspect_node
from apps.kube.translate.partitions import Partitions, read_partitions
from apps.kube.translate.unreadable import UNREADABLE, Raw
from apps.kube.translate.values import child, clean, entries, seconds_of, texts
from apps.planner.ledger import node_ledger
from apps.planner.snapshot import Snapshot

MOST_PLAIN_BYTES = 16 * 2**20


def answer_dump(sources: Sequence[tuple[str, bytes | bytearray]]) -> dict[str, Any]:
    """sources: (name, text in UTF-8). Raises BadDump."""
    lists: list[LabelList] = []
    found = [(name, _as_objects(data, lists)) for name, data in sources]
    objects = [(name, data) for name, data in found if data is not None]
    answer = _answer_objects(objects) if objects else {"nodes": [], "pods": [], "warnings": []}
    for one in lists:
        answer["label_keys"] = [*answer.get("label_keys", ()), *one.keys]
        if one.unclear:
            answer["warnings"].append(f"lines that are no label: {', '.join(one.unclear[:5])}")
        answer["note"] = "a list of label patterns, no node"
    return answer


JSON_START = re.compile(rb"\s*(?:\xef\xbb\xbf)?\s*(?:\{|\[\s*[\[{\"\]])")
"""A prompt such as [root@host] begins like a list."""


def _as_objects(data: bytes | bytearray, lists: list[LabelList]) -> bytes | bytearray | None:
    """The text of objects; a description or a list of labels in people's form becomes one. None: patterns."""
    if len(data) > MOST_PLAIN_BYTES or JSON_START.match(data[:1000]):
        return data
    text = data.decode("utf-8", "replace")
    if is_description(text):
        return _listed(read_description(text))
    labels = read_label_list(text)
    if labels is None:
        return data
    if labels.labels:
        return _listed(
            [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": UNNAMED, "labels": labels.labels}}]
        )
    lists.append(labels)
    return None


def _listed(objects: list[Json]) -> bytes:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}).encode()


def _answer_objects(sources: Sequence[tuple[str, bytes | bytearray]]) -> dict[str, Any]:
    try:
        dump = dumps.read_dump(sources, adopt=adopt_fragment, needs_node=False)
    except dumps.BadDump as error:
        raise BadDump(str(error)) from error
    raws = [one.open() for one in dump.objects.get(NODES, ())]
    told = [_annotations(raw) for raw in raws]
    taken_at = max([dump.taken_at, *(at for one in told for at in handshake_times(one))])
    devices = [one.open() for one in dump.objects.get(KOORDINATOR_DEVICES, ())]
    raws += (lone := _lone_devices(devices, raws))
    objects: dict[Kind, Sequence[Raw]] = {**dump.objects}
    objects[NODES] = [*dump.objects.get(NODES, ()), *lone]
    snapshot = build_snapshot(CLUSTER, objects, taken_at)
    answer: dict[str, Any] = {
        "taken_at": taken_at or None,
        "nodes": [_answer_node(raw, snapshot) for raw in _shown(raws, snapshot)],
        **answer_pods(objects, snapshot),
        "warnings": list(snapshot.problems),
    }
    _add_partitions(answer, [*devices, *raws])
    named = {_name(raw): _annotations(raw) for raw in raws}
    answer |= find_oddities(snapshot, named)
    if dump.passed_over:
        names = ", ".join(f"{count} {kind}" for kind, count in sorted(dump.passed_over.items())[:10])
        answer["warnings"].append(f"objects of kinds that are not read: {clean(names, 400)}")
    return answer


def _lone_devices(devices: Sequence[Json], raws: Sequence[Json]) -> list[Json]:
    """What Koordinator's Device objects tell of nodes that are not in the dump themselves."""
    known = {_name(raw) for raw in raws}
    found = [node_of_device(one) for one in devices if _name(one) not in known]
    return [one for one in found if one is not None]


def _name(raw: Json) -> str:
    return clean(child(raw, "metadata").get("name"), 253)


def _annotations(raw: Json) -> dict[str, str]:
    return texts(child(raw, "metadata", "annotations"), LONGEST_ANNOTATION)


def _shown(raws: Sequence[Json], snapshot: Snapshot) -> list[Json]:
    """Of a name that is there twice the last one, as in the snapshot."""
    named = {_name(raw): raw for raw in raws}
    return [named[name] for name in sorted(named) if name in snapshot.nodes]


def _answer_node(raw: Json, snapshot: Snapshot) -> dict[str, Any]:
    node = snapshot.nodes[_name(raw)]
    try:
        inventory = inspect_node(raw, taken_at=snapshot.taken_at)[1]
    except UNREADABLE:
        inventory = Inventory()  # the snapshot's problems name it
    beats = (seconds_of(one.get("lastHeartbeatTime")) for one in entries(child(raw, "status"), "conditions"))
    return node_answer(
        Seen(
            node=node,
            inventory=inventory,
            ledger=node_ledger(snapshot, node),
            annotations=_annotations(raw),
            heartbeat=max((beat for beat in beats if beat is not None), default=None),
            taken_at=snapshot.taken_at,
        )
    )


def _add_partitions(answer: dict[str, Any], raws: Sequence[Json]) -> None:
    """Koordinator tells them on its Device of the node's name, or on the node."""
    nodes = {one["name"]: one for one in answer["nodes"]}
    for raw in raws:
        annotations = _annotations(raw)
        if PARTITIONS not in annotations:
            continue
        labels = texts(child(raw, "metadata", "labels"))
        found = read_partitions(annotations[PARTITIONS], labels, answer["warnings"].append)
        if found is not None:
            nodes.get(_name(raw), answer).update(_answer_partitions(found))


def _answer_partitions(found: Partitions) -> dict[str, Any]:
    return {
        "partitions": {
            str(size): [list(one.minors) for one in groups] for size, groups in found.groups.items()
        },
        "partition_policy": found.policy or None,
        "partition_links": {
            str(size): sorted({one.link for one in groups if one.link})
            for size, groups in found.groups.items()
        },
        "sizes_without_partition": list(found.missing_sizes),
        "partition_note": found.sentence,
    }
