"""HAMi's scores between the GPUs of a node (annotation hami.io/node-nvidia-score), as links.

A score is the sum of how near the PCIe path is and of 100 for each NVLink, as HAMi's device plugin counts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from apps.kube.topology.facts import clean
from apps.kube.topology.reading import MOST_GPUS, Cells, Reading

SCORES = "hami.io/node-nvidia-score"
PER_NVLINK = 100
BY_SCORE = {60: "PIX", 50: "PIX", 40: "PXB", 30: "PHB", 20: "NODE", 10: "SYS"}
MOST_NVLINKS = 100


def read_scores(value: str | Sequence[Any], order: Sequence[str] = ()) -> Reading | None:
    """order: UUIDs of the node's GPUs; without it the GPUs stand as the annotation names them.

    None if it cannot be read. A pair that no score is told of is unknown, not unlinked.
    """
    told = _load(value)
    if not told or len(told) > MOST_GPUS:
        return None
    uuids = tuple(order) if order else tuple(told)
    strange = set(told) - set(uuids)
    links: Cells = tuple(
        tuple("X" if a == b else link_of(told.get(a, {}).get(b, told.get(b, {}).get(a))) for b in uuids)
        for a in uuids
    )
    whole = not strange and all(all(row) for row in links)
    warnings = [] if whole else ["HAMi tells no score of some pairs of GPUs: how they are linked is unknown"]
    if strange:
        warnings.append(f"HAMi tells scores of {len(strange)} GPUs that are not on the node")
    return Reading(
        vendor="nvidia",
        gpus=len(uuids),
        names=tuple(f"GPU{at}" for at in range(len(uuids))),
        links=links,
        uuids=uuids,
        source="hami",
        complete=whole,
        warnings=tuple(warnings),
    )


def link_of(score: object) -> str:
    """The code that a score stands for; "" for one that HAMi would not give."""
    if isinstance(score, bool) or not isinstance(score, int) or not 0 < score < PER_NVLINK * MOST_NVLINKS:
        return ""
    lanes, path = divmod(score, PER_NVLINK)
    return f"NV{lanes}" if lanes else BY_SCORE.get(path, "")


def _load(value: str | Sequence[Any]) -> dict[str, Mapping[str, Any]]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return {}
    if not isinstance(value, list):
        return {}
    told: dict[str, Mapping[str, Any]] = {}
    for entry in value:
        uuid = clean(entry.get("uuid"), 100) if isinstance(entry, dict) else ""
        scores = entry.get("score") if isinstance(entry, dict) else None
        if uuid and isinstance(scores, dict):
            told[uuid] = scores
    return told
