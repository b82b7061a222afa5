"""Tells what a text is (a table, JSON of a tool, an annotation, an object of Kubernetes) and has it read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from apps.kube.topology.annotation import MATRIX, read_annotation
from apps.kube.topology.facts import child, entries
from apps.kube.topology.hami import SCORES, read_scores
from apps.kube.topology.placing import read_device_cr, read_seats, read_slices
from apps.kube.topology.plain import NO_TABLE, read_plain
from apps.kube.topology.reading import Reading
from apps.kube.topology.tool_json import read_amd_list, read_cards, read_csv
from apps.kube.yaml_text import BadYaml, load_yaml

DEEPEST = 4
NO_JSON = "no topology: it begins like JSON, and is none"
KINDS = ("kind: Device", "kind: ResourceSlice", "kind: Node", "kind: List")


def read_topology(text: str) -> Reading:
    """Whatever form the text has. Never raises; `error` says why it is no topology."""
    start = text.lstrip("\ufeff \t\r\n")[:1]
    if start in ("{", "[", '"'):
        try:
            document = json.loads(text.lstrip("\ufeff"), parse_constant=lambda _: None)
        except (ValueError, RecursionError):
            found = read_plain(text)  # a prompt such as [root@host] begins like a list
            return replace(found, error=NO_JSON) if found.error == NO_TABLE and start != '"' else found
        return read_document(document, DEEPEST)
    if any(kind in text for kind in KINDS):
        try:
            return read_document(load_yaml(text), DEEPEST)
        except BadYaml:
            pass
    found = read_plain(text)
    if found.error == NO_TABLE:
        return read_csv(text) or _as_separated(text) or found
    return found


def _as_separated(text: str) -> Reading | None:
    """A table whose cells are parted by commas or semicolons."""
    for sign in (",", ";"):
        if text.count(sign) > 3:
            found = read_plain(text.replace(sign, "\t"))
            if not found.error:
                return found
    return None


def read_document(document: object, depth: int) -> Reading:
    if isinstance(document, str):
        return read_topology(document) if depth > 0 and document else _none()
    if isinstance(document, list):
        found = read_amd_list(document) or read_scores(document)
        return found or _of_objects([one for one in document if isinstance(one, dict)], depth)
    if not isinstance(document, dict):
        return _none()
    if "version" in document and "gpus" in document and "kind" not in document:
        return read_annotation(document)
    found = read_cards(document)
    if found is not None:
        return found
    if isinstance(document.get("kind"), str):
        return _of_objects([document], depth)
    for key in ("topology", "gpu_data", "topo"):
        if key in document and depth > 0:
            return read_document(document[key], depth - 1)
    return read_annotation(document) if "version" in document else _none()


def _none() -> Reading:
    return Reading(nics=None, complete=False, error=NO_TABLE)


def _of_objects(found: list[Mapping[str, Any]], depth: int) -> Reading:
    """The first node's annotations, else its Device, else its ResourceSlices, as for a live node."""
    objects = list(_flattened(found, depth))
    for one in objects:
        annotations = child(one, "metadata", "annotations")
        if isinstance(annotations.get(MATRIX), str):
            reading = read_topology(annotations[MATRIX])
            return replace(reading, source="text") if not reading.source else reading
        if isinstance(annotations.get(SCORES), str):
            scores = read_scores(annotations[SCORES])
            if scores is not None:
                return scores
    devices = [one for one in objects if one.get("kind") == "Device"]
    slices = [one for one in objects if one.get("kind") == "ResourceSlice"]
    told = read_seats(read_device_cr(devices[0]), "koordinator") if devices else None
    told = told or (read_seats(read_slices(_of_one_node(slices)), "dra") if slices else None)
    return told or _none()


def _of_one_node(slices: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    name = child(slices[0], "spec").get("nodeName")
    return [one for one in slices if child(one, "spec").get("nodeName") == name]


def _flattened(found: list[Mapping[str, Any]], depth: int) -> Iterator[Mapping[str, Any]]:
    for one in found:
        if isinstance(one.get("items"), list) and depth > 0:
            yield from _flattened(entries(one, "items"), depth - 1)
        else:
            yield one
