"""Which cell of a row belongs to which column, also where the row is cut, fused or damaged.

A cell whose column is in doubt is "" (not told). Never is it a neighbour's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from apps.kube.topology.tables import Column, Row, Word
from apps.kube.topology.words import is_affinity_shaped, is_code_shaped, is_itself, unfuse

NEAR = 3


@dataclass(frozen=True, slots=True)
class Place:
    """What a row is read against. codes: columns of codes, GPUs and others in order. titles: those behind.

    seen: words of the table that are whole for certain. aligned: the rows' words stand under their column's
    names, shifted by `shift` characters.
    """

    codes: tuple[Column, ...]
    gpus: int
    titles: tuple[Column, ...]
    vocabulary: frozenset[str]
    seen: frozenset[str] = frozenset()
    aligned: bool = False
    shift: int = 0


@dataclass(frozen=True, slots=True)
class RowCells:
    """codes: one per column of codes, "" if missing. tail: the words behind them. is_cut: the row ends early.

    nics_in_doubt: there are fewer or more cells than columns, so only those of the GPUs are sure.
    """

    codes: tuple[str, ...]
    tail: tuple[str, ...]
    is_cut: bool = False
    nics_in_doubt: bool = False
    fault: str = ""
    doubtful: int = -1


def count_code_words(words: Sequence[Word], least: int) -> int:
    """How many words are codes: up to the first that is a list of CPUs or a node's number."""
    for at, word in enumerate(words):
        if word.text == "N/A" and at < least:
            continue
        if is_affinity_shaped(word.text) or not is_code_shaped(word.text):
            return at
    return len(words)


def read_cells(row: Row, place: Place, at: int) -> RowCells:
    """at: the row's own position among the GPUs, -1 for a NIC's row."""
    wanted = len(place.codes)
    tabbed = _by_tabs(row, place)
    if tabbed is not None:
        return _judged(tabbed, place, at)
    count = count_code_words(row.words, place.gpus)
    words, tail = _split(row.words[:count], place.vocabulary), tuple(word.text for word in row.words[count:])
    codes = [word.text for word in words]
    if not tail and 0 < len(codes) <= wanted and _may_be_cut(codes[-1], row, place):
        cells = (*codes, *[""] * (wanted - len(codes)))
        is_cut = len(codes) < wanted or bool(place.titles)
        return replace(_judged(RowCells(cells, (), is_cut), place, at), doubtful=len(codes) - 1)
    if len(codes) == wanted:
        return _judged(RowCells(tuple(codes), tail), place, at)
    if len(codes) > wanted:
        fault = "" if wanted > place.gpus else "has more cells than the header has columns"
        return _judged(RowCells(tuple(codes[:wanted]), tail, nics_in_doubt=True, fault=fault), place, at)
    if not tail:
        padded = (*codes, *[""] * (wanted - len(codes)))
        bare = len(codes) == place.gpus and not place.titles
        return _judged(RowCells(padded, (), is_cut=not bare, nics_in_doubt=bare), place, at)
    if len(codes) == place.gpus:
        padded = (*codes, *[""] * (wanted - len(codes)))
        return _judged(RowCells(padded, tail, nics_in_doubt=True), place, at)
    return _judged(RowCells(_by_place(words, place, at), tail, nics_in_doubt=True), place, at)


def _split(words: Sequence[Word], vocabulary: frozenset[str]) -> list[Word]:
    split: list[Word] = []
    for word in words:
        start = word.start
        for piece in unfuse(word.text, vocabulary):
            split.append(Word(piece, start, start + len(piece)))
            start += len(piece)
    return split


def _may_be_cut(last: str, row: Row, place: Place) -> bool:
    """Where a line ends right behind a word, the word itself may be cut: NV1 of NV12, HCCS of HCCS_SW."""
    if not row.ends_open or is_itself(last):
        return False
    words = place.vocabulary | place.seen
    longer = any(len(known) > len(last) and known.startswith(last) for known in words)
    return last not in words or longer or last == "NV1"


def _by_tabs(row: Row, place: Place) -> RowCells | None:
    """The cells as tabs part them, if they fit the columns: only tabs show that a cell is empty."""
    if "\t" not in row.raw or not row.raw.startswith(("\t", " ")):
        return None
    cells = [cell.strip() for cell in row.raw.partition("\t")[2].split("\t")]
    wanted = len(place.codes)
    codes, tail = cells[:wanted], cells[wanted:]
    if len(codes) < wanted or not any(codes):
        return None
    fits = all(not code or (is_code_shaped(code) and " " not in code) for code in codes)
    if not fits or (row.ends_open and not any(tail)):
        return None
    spread = sum(1 for code in codes if not code)
    if spread and sum(1 for word in row.words if not is_affinity_shaped(word.text)) >= wanted:
        return None  # several tabs between two cells, to make them look straight
    return RowCells(tuple(codes), tuple(tail), fault="has an empty cell" if spread else "")


def _by_place(words: Sequence[Word], place: Place, at: int) -> tuple[str, ...]:
    """Fewer codes than columns, and more behind them: by where they stand, else as far as is certain."""
    cells = [""] * len(place.codes)
    if place.aligned:
        taken: set[int] = set()
        for word in words:
            column = _nearest(word, place)
            if column is None or column in taken:
                break
            taken.add(column)
            cells[column] = word.text
        return tuple(cells)
    codes = [word.text for word in words]
    own = next((position for position, code in enumerate(codes) if is_itself(code)), -1)
    if own == at and len(codes) > place.gpus:
        cells[: place.gpus] = codes[: place.gpus]  # what is lost is a NIC's, as far as anything shows
    elif own == at:
        cells[: at + 1] = codes[: at + 1]
    return tuple(cells)


def _nearest(word: Word, place: Place) -> int | None:
    distances = [abs(column.start + place.shift - word.start) for column in place.codes]
    best = min(range(len(distances)), key=distances.__getitem__, default=None)
    return best if best is not None and distances[best] <= NEAR else None


def _judged(cells: RowCells, place: Place, at: int) -> RowCells:
    """A row whose own cell is not at its own place has lost or won a cell before it: nothing in it is
    sure."""
    if at < 0 or at >= len(cells.codes):
        if any(map(is_itself, cells.codes[: place.gpus])):
            return RowCells(("",) * len(cells.codes), cells.tail, True, True, "does not fit the header")
        return cells
    codes = list(cells.codes)
    own = codes[at]
    if own and not is_itself(own) and own != "0":
        empty = ("",) * len(codes)
        return RowCells(empty, cells.tail, cells.is_cut, True, f"has {own[:12]} in its own column")
    strange = [here for here in range(place.gpus) if here != at and is_itself(codes[here])]
    for here in strange:
        codes[here] = ""
    fault = "is tied to another as to itself" if strange else cells.fault
    return RowCells(tuple(codes), cells.tail, cells.is_cut, cells.nics_in_doubt, fault)
