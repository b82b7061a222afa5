"""Adds to a node what resource slices tell of its devices.

A node whose GPUs are told by slices alone becomes a GPU node. Where labels, annotations or a device plugin
tell of them as well, the slices fill in what those leave open, and a disagreement becomes a warning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from apps.kube.translate.device_book import SlicedNode
from apps.kube.translate.pool_cards import resource_of
from apps.planner.inventory import DeviceGroup, Gpu, Node
from apps.planner.resources import VENDORS


class SlicedNodes:
    """Remembers what it added: a node stays the same object while it and its slices do."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Node, SlicedNode, Node]] = {}

    def add(self, nodes: Mapping[str, Node], sliced: Mapping[str, SlicedNode]) -> dict[str, Node]:
        found, kept = dict(nodes), {}
        for name, facts in sliced.items():
            node = nodes.get(name)
            if node is None:
                continue
            known = self._known.get(name)
            if known is None or known[0] is not node or known[1] != facts:
                known = (node, facts, with_slices(node, facts))
            kept[name], found[name] = known, known[2]
        self._known = kept
        return found


def gpus_of_main(node: Node, sliced: SlicedNode) -> tuple[Gpu, ...]:
    """What slices tell of the node's main devices."""
    return tuple(
        gpu
        for driver, gpus in sliced.by_driver
        if node.vendor == _vendor(resource_of(driver))
        for gpu in gpus
    )


def with_slices(node: Node, sliced: SlicedNode) -> Node:
    node = replace(node, warnings=(*node.warnings, *sliced.warnings)) if sliced.warnings else node
    node = replace(node, kept=sliced.kept) if sliced.kept else node
    for driver, gpus in sliced.by_driver:
        node = _with_gpus(node, driver, gpus)
    if not node.gpu_resource and sliced.drivers:
        resource = resource_of(sliced.drivers[0])
        node = replace(node, gpu_resource=resource, vendor=_vendor(resource))
    return node


def _with_gpus(node: Node, driver: str, gpus: tuple[Gpu, ...]) -> Node:
    resource = resource_of(driver)
    if not node.gpus and node.gpu_resource in ("", resource):
        return replace(
            node,
            gpus=gpus,
            gpu_resource=resource,
            vendor=_vendor(resource),
            model=node.model or _model(gpus),
            claimable=True,
        )
    if node.vendor == _vendor(resource):
        return replace(_merged(node, gpus), model=node.model or _model(gpus), claimable=True)
    group = DeviceGroup(_vendor(resource), resource, _model(gpus), gpus, claimable=True)
    return replace(node, others=(*(one for one in node.others if one.resource != resource), group))


def _vendor(resource: str) -> str:
    domain = resource.partition("/")[0]
    return VENDORS.get(domain) or VENDORS.get(domain.partition(".")[2], domain)


def _model(gpus: tuple[Gpu, ...]) -> str:
    """Of all, as labels write it."""
    models = {gpu.model for gpu in gpus}
    return models.pop().replace(" ", "-") if len(models) == 1 else ""


def _merged(node: Node, gpus: tuple[Gpu, ...]) -> Node:
    """By UUID where both tell them, else by number."""
    by_uuid = {gpu.uuid: gpu for gpu in gpus if gpu.uuid}
    by_index = {gpu.index: gpu for gpu in gpus}
    merged = []
    for gpu in node.gpus:
        told = by_uuid.get(gpu.uuid) if gpu.uuid else by_index.get(gpu.index)
        merged.append(_filled(gpu, told) if told is not None else gpu)
    if len(gpus) <= len(node.gpus):
        return replace(node, gpus=tuple(merged))
    uuids, indices = {gpu.uuid for gpu in merged if gpu.uuid}, {gpu.index for gpu in merged}
    added = [gpu for gpu in gpus if (gpu.uuid not in uuids if uuids else gpu.index not in indices)]
    sentence = f"resource slices tell of {len(gpus)} GPUs, the node itself of {len(node.gpus)}"
    taken = {gpu.index for gpu in merged}
    for gpu in added:
        index = gpu.index if gpu.index not in taken else max(taken) + 1
        taken.add(index)
        merged.append(replace(gpu, index=index))
    # A matrix is of the GPUs that it was measured on: with more of them it names no position any more.
    return replace(node, gpus=tuple(merged), topology=None, warnings=(*node.warnings, sentence))


def _filled(gpu: Gpu, told: Gpu) -> Gpu:
    return replace(
        gpu,
        uuid=gpu.uuid or told.uuid,
        memory_mib=gpu.memory_mib if gpu.memory_mib is not None else told.memory_mib,
        numa=gpu.numa if gpu.numa is not None else told.numa,
        pcie_switch=gpu.pcie_switch or told.pcie_switch,
        bus_id=gpu.bus_id or told.bus_id,
        healthy=gpu.healthy and told.healthy,
        instances=gpu.instances or told.instances,
        model=gpu.model or told.model,
    )
