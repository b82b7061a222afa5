"""Cluster text made safe to look at: escaped, and with nothing invisible left in it.

A pod or node may carry any text. Bidirectional controls can turn a name around, zero-width and
control characters can hide part of it; each is shown as its code point. Spreadsheets run cells
that begin like a formula, so exports put an apostrophe before those.
"""

from __future__ import annotations

from html import escape

from apps.planner.plain import cell_text, visible

__all__ = ["cell_text", "shorten", "shown", "visible"]


def shown(text: object) -> str:
    """`visible`, escaped for HTML and SVG text and attributes."""
    return escape(visible(text))


def shorten(name: object, most: int = 22) -> str:
    """Made visible and cut in the middle, because long node and pod names differ at their ends."""
    word = visible(name)
    if len(word) <= most:
        return word
    tail = most * 2 // 3
    return f"{word[: most - tail - 1]}…{word[-tail:]}"
