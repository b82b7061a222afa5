"""Answers reports of faults through the product's own functions, each topic in its own way.

A report is JSON: `input` (objects of Kubernetes, series of an exporter, a layout …), `expect`, and words
about what went wrong. What is answered here is worked out from the input alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from apps.planner.mig.catalogue import find_model
from apps.planner.mig.placing import place_counts, why_unplaceable

Input = Mapping[str, Any]
Answer = dict[str, Any]


def answer_bug(path: Path) -> Answer:
    """{"refused": why} where no topic here speaks of such an input."""
    report = json.loads(path.read_text(encoding="utf-8"))
    given, wanted = report["input"], set(report["expect"])
    for needed, promised, answer in TOPICS:
        if needed <= set(given) and promised & wanted:
            return answer(given)
    return {"refused": f"no topic speaks of {', '.join(sorted(given))}"}


def place_wanted(given: Input) -> Answer:
    """Can a GPU be cut like that, and where would the instances start?"""
    model = find_model(given["gpu"])
    why = why_unplaceable(model, given["want"])
    layout = place_counts(model, given["want"]) or ()
    return {"legal": not why, "why": why, "placements": {cut.profile: cut.start for cut in layout}}


TOPICS: tuple[tuple[set[str], set[str], Callable[[Input], Answer]], ...] = (
    ({"gpu", "want"}, {"legal"}, place_wanted),
)
"""Keys of the input, keys that are asked (one of them at least), what answers."""
