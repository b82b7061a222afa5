"""Makes lines out of whatever was pasted: escape codes, box lines and odd blanks taken out, sizes bounded.

Nothing here knows what a topology is.
"""

from __future__ import annotations

import re

LONGEST_LINE = 16 * 1024
MOST_LINES = 10_000
ESCAPES = re.compile(
    r"(?:\x1b|\^\[|\\033|\\x1b|\\e|\\u001b)\[[0-9;?]{0,20}[A-Za-z]"
    r"|\x1b\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|\x1b[()][0-9A-B]|\x1b[=>78]|\[\d{1,2}m"
)
BLANKS = {ord(sign): " " for sign in "\u00a0\u2002\u2003\u2007\u2009\u202f\u3000\v\f|│║┃"}
DROPPED = {
    **{code: None for code in (*range(0x00, 0x09), *range(0x0E, 0x20), *range(0x7F, 0xA0))},
    **{code: None for code in (0xFEFF, 0x200B, 0x200C, 0x200D, 0x2060, 0x061C)},
    **{code: None for code in (*range(0x200E, 0x2010), *range(0x202A, 0x202F), *range(0x2066, 0x206A))},
}
CLEANED = {**BLANKS, **DROPPED, 0x85: "\n"}
QUOTED_BREAKS = re.compile(r"\\r?\\n|\\n")


def split_lines(text: str) -> tuple[list[str], bool]:
    """(lines, whether something had to be cut off). Tabs stay; a line never holds a control character."""
    text = ESCAPES.sub("", text)
    if "\n" not in text and "\r" not in text and "\\n" in text:
        text = QUOTED_BREAKS.sub("\n", text).replace("\\t", "\t")
    text = text.replace("\r\n", "\n").replace("\r", "\n").translate(CLEANED)
    lines = text.split("\n")
    is_cut = len(lines) > MOST_LINES or any(len(line) > LONGEST_LINE for line in lines)
    return [line[:LONGEST_LINE] for line in lines[:MOST_LINES]], is_cut
