"""Short names for many nodes side by side: what they all share is said once, above them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os.path import commonprefix

from apps.dashboard.reading.plain import shorten, visible

WORTH_CUTTING = 6
LONGEST = 20


@dataclass(frozen=True, slots=True)
class ShortNames:
    """begin, end: what every name shares and no row repeats. short: by whole name."""

    begin: str = ""
    end: str = ""
    short: Mapping[str, str] = field(default_factory=dict)

    @property
    def note(self) -> str:
        """ "names gke-prod-a100-…" or "" where nothing was cut."""
        return f"names {visible(self.begin)}…{visible(self.end)}" if self.begin or self.end else ""


def shorten_names(names: Sequence[str]) -> ShortNames:
    """Cut the shared beginning (up to a dash or dot) and the shared domain, if the names are long enough."""
    if len(names) < 2 or max(map(len, names)) <= LONGEST:
        return ShortNames(short={name: shorten(name, LONGEST) for name in names})
    end = _shared_domain(names)
    bare = [name.removesuffix(end) for name in names]
    shared = commonprefix(bare)
    begin = shared[: max(shared.rfind("-"), shared.rfind(".")) + 1]
    if len(begin) < WORTH_CUTTING or min(map(len, bare)) <= len(begin):
        begin = ""
    lead = "…" if begin else ""
    short = {
        name: lead + shorten(cut.removeprefix(begin), LONGEST) for name, cut in zip(names, bare, strict=True)
    }
    return ShortNames(begin, end, short)


def _shared_domain(names: Sequence[str]) -> str:
    domains = {name.partition(".")[2] for name in names}
    domain = domains.pop()
    return f".{domain}" if domain and not domains else ""
