"""Whether an exporter's labels and the holders that the ledger knows agree. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from apps.planner.inventory import Gpu, Node, Pod
from apps.prometheus.readings import Device

YOUNG_SECONDS = 90.0
"""A pod that started since may be missing in a sample that is as old as a scrape may be."""


def disagreements(
    node: Node, devices: Mapping[str, Device], pods: Mapping[str, Pod], *, at: float
) -> tuple[str, ...]:
    """A sentence for each GPU whose exporter names another pod than the holders that the ledger knows.

    An exporter that names nobody disagrees with nobody. pods: by uid.
    """
    if node.holdings is None:
        return ()
    sentences = []
    for gpu in node.gpus:
        device = devices.get(gpu.key)
        if device is None or device.silent_since is not None:
            continue
        named = {one.key for unit in device.units for one in unit.workloads}
        held = {pods[uid].key for uid in _holders(node, gpu) if uid in pods}
        strangers = sorted(named - held)
        if strangers and not _too_young(strangers, held, pods, at):
            told = f"its holders are {', '.join(sorted(held))}" if held else "nobody is told to hold it"
            sentences.append(f"GPU {gpu.index}: the exporter names {', '.join(strangers)}, but {told}")
    return tuple(sentences)


def _holders(node: Node, gpu: Gpu) -> Iterator[str]:
    names = {gpu.key, *(one.uuid for one in gpu.instances if one.uuid)}
    return (one.pod_uid for one in node.holdings or () if one.device in names)


def _too_young(strangers: list[str], held: set[str], pods: Mapping[str, Pod], at: float) -> bool:
    """Whether one of the pods concerned changed so lately that the sample may be from before."""
    concerned = {*strangers, *held}
    started = [pod.started_at for pod in pods.values() if pod.key in concerned and pod.started_at]
    return any(at - moment < YOUNG_SECONDS for moment in started)
