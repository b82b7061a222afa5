"""One line of a cluster's preflight: what was found, what it means, what to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Standing(StrEnum):
    OK = "ok"
    TOLD = "told"
    WARNING = "warning"
    PLANNED_ONLY = "planned-only"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Line:
    """subject: groups lines on the page. found, means, action: sentences, the last two may be empty.
    Names that a cluster gave stand in them, so they are shown as text only."""

    subject: str
    standing: Standing
    found: str
    means: str = ""
    action: str = ""


def line_to_dict(line: Line) -> dict[str, str]:
    return {name: str(value) for name, value in asdict(line).items()}


def line_from_dict(stored: Mapping[str, Any]) -> Line:
    facts = {name: str(stored.get(name, "")) for name in ("subject", "found", "means", "action")}
    return Line(standing=Standing(stored.get("standing", Standing.UNKNOWN)), **facts)
