"""Numbers and lists as people say them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

_WORD = re.compile(r"[a-z]+[,;]?( |$)")
_IRREGULAR = {"has": "have", "is": "are", "person": "people", "entry": "entries", "policy": "policies"}


def plural(count: int, word: str) -> str:
    return f"{count:,} {word if count == 1 else _IRREGULAR.get(word, word + 's')}"


def sentence(text: str) -> str:
    """With a capital at its beginning, unless that is an identifier: "n-1.json: neither…" stays as it is."""
    return text[:1].upper() + text[1:] if _WORD.match(text) else text


def amount(milli: float) -> str:
    """Milli-GPU as GPUs: "3", "2.5"."""
    whole = milli / 1000
    return f"{whole:,.0f}" if abs(whole - round(whole)) < 0.05 else f"{whole:,.1f}"


def spans(places: Iterable[int]) -> str:
    """ "0–3, 6": runs of neighbouring numbers."""
    runs: list[list[int]] = []
    for place in sorted(set(places)):
        if runs and runs[-1][-1] == place - 1:
            runs[-1].append(place)
        else:
            runs.append([place])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs)


def listing(words: Sequence[str], most: int = 4) -> str:
    """ "a, b and c"; beyond `most`: "a, b, c and 9 more"."""
    if len(words) > most:
        return f"{', '.join(words[: most - 1])} and {len(words) - most + 1} more"
    return " and ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)
