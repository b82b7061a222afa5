"""Text of others made safe to look at: nothing invisible left in it, on one line where one line is promised.

Bidirectional controls can turn a name around, zero-width and control characters can hide part of it or
steer a terminal; each is shown as its code point.
"""

from __future__ import annotations

import re
import unicodedata

LONGEST_LINE = 600
_SUSPECT = re.compile(r"[^\x20-\x7e]")
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


def visible(text: object) -> str:
    """The text with every invisible or direction-changing character written as ⟨U+202E⟩. Not escaped."""
    return _SUSPECT.sub(_show, str(text))


def visible_lines(text: str) -> str:
    """The same, but line ends stay line ends."""
    return "\n".join(map(visible, text.split("\n")))


def one_line(text: object, longest: int = LONGEST_LINE) -> str:
    """The same on one line: blanks become one space, and what is too long is cut in its middle."""
    word = str(text)
    if len(word) > 4 * longest:
        word = word[: 2 * longest] + " … " + word[-2 * longest :]
    word = visible(" ".join(word.split()))
    if len(word) <= longest:
        return word
    return f"{word[: longest // 2]} … {word[-(longest // 2) :]}"


def _show(found: re.Match[str]) -> str:
    letter = found.group()
    return f"\u27e8U+{ord(letter):04X}\u27e9" if unicodedata.category(letter) in _HIDDEN else letter


def cell_text(value: object) -> object:
    """One value for a CSV cell: numbers stay, text that a spreadsheet could run is neutralised."""
    if isinstance(value, (int, float)):
        return value
    word = visible(value)
    if _NUMBER.fullmatch(word):
        return word
    return f"'{word}" if word.lstrip(" ").startswith(_FORMULA_STARTS) else word


def say_duration(seconds: float) -> str:
    """One unit, rounded down: "4 s", "40 min", "3 h", "2 days"."""
    whole = int(max(0.0, seconds))
    for size, word in ((172_800, "days"), (7200, "h"), (60, "min")):
        if whole >= size:
            return f"{whole // {'days': 86_400, 'h': 3600, 'min': 60}[word]} {word}"
    return f"{whole} s"
