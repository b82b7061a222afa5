"""Finds the tables in a text: a header that names devices, and the rows that belong to it.

Prompts, indents, comment signs and log prefixes stand before the first device's name on a line and are passed
over. What the cells mean is read elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from apps.kube.topology.words import (
    COLUMN,
    FUSED_COLUMN,
    GPU_WORD,
    NIC_NAME,
    NIC_WORD,
    NUMBERED,
    SPACED_NAME,
    TITLE_WORDS,
    is_affinity_shaped,
    is_code_shaped,
    is_gpu_name,
    spell_name,
)

MOST_COLUMNS = 2048
AMD_SECTION = re.compile(r"[A-Z][A-Z -]{2,40} TABLE:?")
TOUCHED_NAME = re.compile(rf"(?<=[>:\])}}])(?:{NUMBERED}\d{{1,5}}|{NIC_WORD})$")
DEVICE = re.compile(rf"{GPU_WORD}|{NIC_WORD}")
BEFORE_LINE = " \t#>*/;%!\"'`"
BESIDE_HEADING = " \t#>*/=-"
LEGEND_LINE = re.compile(r"^\W{0,8}([A-Za-z][\w#+*/-]{0,15}|<[^>]{1,20}>)\s{0,12}=\s{0,8}(\S.{0,300})$")
NIC_LINE = re.compile(r"(?<!\S)(NIC ?\d{1,5})\s{0,8}[:=]\s{0,8}([\w.:-]{1,64})\s*$")
WORD = re.compile(r"\S+")
BROKEN_TITLE = re.compile(r"(?:CPU|NUMA|GPU NUMA)(?: [A-Za-z]{0,8})?$")
WHOLE_TITLES = frozenset({"CPUAFFINITY", "NUMAAFFINITY", "GPUNUMAID"})
PARTIAL_TITLE = re.compile(r"(?:C|CP|CPU|N|NU|NUM|NUMA|Nod|Node|G|GP|GPU|GPU NUMA|GPU NUMA I)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Word:
    """start: its place on the line, tabs counted as eight."""

    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Column:
    """kind: "gpu", "nic", "storage", "other", or one of the titles "cpu", "numa", "gpu-numa"."""

    kind: str
    name: str
    start: int = 0


@dataclass(slots=True)
class Row:
    """words: behind the name. raw: the same as it stands. ends_open: its line ends right behind a word."""

    name: str
    kind: str
    words: list[Word]
    raw: str
    ends_open: bool = False
    is_last: bool = False


@dataclass(slots=True)
class Table:
    """section: the heading above it, in lower case. header_is_cut: it ends within a word of its own."""

    columns: list[Column]
    section: str = ""
    header_is_cut: bool = False
    header_ends_text: bool = False
    rows: list[Row] = field(default_factory=list)

    def names_of(self, *kinds: str) -> list[str]:
        return [column.name for column in self.columns if column.kind in kinds]


def find_tables(lines: list[str]) -> list[Table]:
    """Every table of the text, in order; rows without a header make a table without columns."""
    tables: list[Table] = []
    section, last, lines = "", _last_with_text(lines), _joined(lines)
    for number, line in enumerate(lines):
        heading = _heading_of(line)
        if heading:
            section = heading
            continue
        current = tables[-1] if tables and tables[-1].section == section else None
        if not _may_name_devices(line, current):
            continue
        fits = _header_of(line, current)
        if fits is not None:
            tables.append(Table(fits, section, header_ends_text=number == len(lines) - 1))
            tables[-1].header_is_cut = _ends_within(fits)
            continue
        row = _row_of(line, current)
        if row is None:
            continue
        if current is None:
            current = Table([], section)
            tables.append(current)
        row.is_last = number == last
        row.ends_open = line == line.rstrip()
        current.rows.append(row)
    return tables


def _may_name_devices(line: str, current: Table | None) -> bool:
    """A quick look, before a line is taken apart."""
    if DEVICE.search(line) is not None:
        return True
    first = next(iter(line.strip(BEFORE_LINE).split(None, 1)), "").rstrip(":")
    return current is not None and first in current.names_of("other", "storage")


def _heading_of(line: str) -> str:
    """The words of "==== Link Type between two GPUs ====" or "LINK TYPE TABLE:", in lower case; else ""."""
    bare = line.strip(BESIDE_HEADING)
    if not 2 < len(bare) <= 100 or not bare[0].isalpha():
        return ""
    if line.count("==") >= 2 and "==" in line.partition(bare)[0]:
        return bare.lower()
    return bare.rstrip(":").lower() if AMD_SECTION.fullmatch(bare) else ""


def _last_with_text(lines: list[str]) -> int:
    return max((at for at, line in enumerate(lines) if line.strip()), default=-1)


def _joined(lines: list[str]) -> list[str]:
    """A terminal breaks a header within its last title: what is left of it stands on the next line."""
    found = list(lines)
    for at in range(len(lines) - 1):
        if (broken := BROKEN_TITLE.search(lines[at])) and DEVICE.search(lines[at]) is not None:
            rest = lines[at + 1].strip()
            title = (broken.group() + rest).upper().replace(" ", "")
            if rest and title in WHOLE_TITLES:
                found[at], found[at + 1] = lines[at].rstrip("\n") + rest, ""
    return found


def _flatten(line: str) -> str:
    """Tabs as blanks, "GPU 0" as GPU0, and no sign of a comment or a quotation before the first word."""
    flat = SPACED_NAME.sub(r"\1\2 ", line.expandtabs(8))
    bare = flat.lstrip(BEFORE_LINE)
    return " " * (len(flat) - len(bare)) + bare


def words_of(line: str) -> list[Word]:
    return _words(_flatten(line))


def _words(flat: str) -> list[Word]:
    """A log's prefix that touches a device's name ("<stdout>:GPU0") is a word of its own."""
    words = []
    for found in WORD.finditer(flat):
        start = found.start()
        touched = TOUCHED_NAME.search(found.group()) if found.end() - start < 200 else None
        if touched is not None and not is_gpu_name(found.group()):
            start += touched.start()
        words.append(Word(flat[start : found.end()], start, found.end()))
    return words


def _header_of(line: str, current: Table | None) -> list[Column] | None:
    """The columns if the line is a header: a device's name with another, a title or nothing behind it."""
    flat = _flatten(line)
    words = _words(flat)
    at = next((at for at, word in enumerate(words) if _begins_header(word.text)), None)
    if at is None:
        return None
    columns = list(_columns(flat, words[at].start))
    if columns[0].kind != "gpu":
        return None
    if len(columns) == 1:
        is_new = current is None or not current.columns
        is_alone = at == 0 or len(words) == at + 1
        again = current is not None and bool(current.rows) and current.names_of("gpu") == [columns[0].name]
        return columns if is_alone and (is_new or again) and len(words) == at + 1 else None
    if columns[1].kind == "other" and (
        columns[1].name[0] in ":=(" or not any(column.kind in TITLE_WORDS for column in columns)
    ):
        return None
    return columns[:MOST_COLUMNS]


def _begins_header(text: str) -> bool:
    if is_gpu_name(text):
        return not text.endswith(":")
    found = FUSED_COLUMN.match(text)
    return (
        found is not None and found.lastgroup == "gpu" and FUSED_COLUMN.match(text, found.end()) is not None
    )


def _columns(flat: str, start: int) -> Iterator[Column]:
    at = start
    while found := COLUMN.search(flat, at):
        kind = (found.lastgroup or "").replace("_", "-")
        name = found.group()
        at = found.end()
        if kind == "other":
            inner = FUSED_COLUMN.search(name)
            if inner is not None and inner.start() > 0 and name[inner.start() - 1].isdigit():
                at = found.start() + inner.start()
                name = name[: inner.start()]
            elif inner is not None and inner.start() == 0 and len(name) > inner.end():
                at = found.start() + inner.end()
                kind, name = inner.lastgroup or "", inner.group()
        if kind in TITLE_WORDS:
            yield Column(kind, name, found.start())
        else:
            yield Column(kind, spell_name(name) if kind in ("gpu", "nic") else name[:64], found.start())


def _ends_within(columns: list[Column]) -> bool:
    last = columns[-1]
    return last.kind == "other" and PARTIAL_TITLE.match(last.name) is not None


def _row_of(line: str, current: Table | None) -> Row | None:
    words = words_of(line)
    known = {column.name for column in current.columns if column.kind != "gpu"} if current else set()
    for at, word in enumerate(words):
        kind = _kind_of(word.text, known)
        if not kind:
            continue
        rest = words[at + 1 :]
        if not _is_row(word.text, rest, current):
            return None
        name = spell_name(word.text) if kind != "other" else word.text.rstrip(":")
        raw = line.expandtabs(8)[word.start :] if "\t" not in line else _behind(line, word.text)
        return Row(name, kind, rest, raw)
    return None


def _kind_of(text: str, known: set[str]) -> str:
    if is_gpu_name(text):
        return "gpu"
    if NIC_NAME.fullmatch(text):
        return "nic"
    return "nic" if text.rstrip(":") in known else ""


def _is_row(name: str, rest: list[Word], current: Table | None) -> bool:
    """Whether codes or numbers follow the name. A bare name is a row that was cut, where a table is open."""
    if not rest:
        return current is not None and bool(current.columns) and not name.endswith(":")
    first = rest[0].text
    if name.endswith(":") or first in (":", "=") or first.startswith(":"):
        return False
    is_name = is_gpu_name(first) or NIC_NAME.fullmatch(first) is not None
    return (is_code_shaped(first) and not is_name) or is_affinity_shaped(first)


def _behind(line: str, name: str) -> str:
    """What stands behind the row's name, tabs kept."""
    spaced = re.sub(r"(\d)", r" ?\1", name, count=1)
    found = re.search(rf"(?<!\S){spaced if spaced[0].isalpha() else re.escape(name)}(?!\S)", line)
    return line[found.end() :] if found else ""


def find_legend(lines: list[str]) -> dict[str, str]:
    """Word -> what the text says that it means."""
    return {
        found.group(1): found.group(2).strip()
        for line in lines
        if "=" in line and (found := LEGEND_LINE.match(line))
    }


def find_nic_names(lines: list[str]) -> dict[str, str]:
    """NIC0 -> mlx5_0, as the legend of NICs has it, with its heading or without."""
    return {
        spell_name(found.group(1)): found.group(2)
        for line in lines
        if "NIC" in line and (found := NIC_LINE.search(line))
    }
