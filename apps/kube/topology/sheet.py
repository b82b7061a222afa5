"""Lays a table out: which GPUs and NICs it is of, and the cells of each row under their columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from apps.kube.topology.cells import NEAR, Place, RowCells, count_code_words, read_cells
from apps.kube.topology.reading import MOST_GPUS
from apps.kube.topology.tables import Column, Row, Table, Word
from apps.kube.topology.words import TITLE_WORDS, number_of, vocabulary_of


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table with its rows read. rows: by name of GPU; nic_rows: by name of NIC."""

    gpus: tuple[str, ...]
    nics: tuple[str, ...]
    place: Place
    rows: Mapping[str, RowCells]
    nic_rows: Mapping[str, RowCells]
    raws: Mapping[str, Row]


def read_sheet(table: Table, legend: Mapping[str, str]) -> Sheet:
    columns = tuple(_with_gaps_named(table))
    gpu_columns = [column for column in columns if column.kind == "gpu"]
    header = list(dict.fromkeys(column.name for column in gpu_columns))
    beside = [column for column in columns if column.kind in ("nic", "storage", "other")]
    if table.header_is_cut and beside:
        beside = beside[:-1]
    titles = tuple(column for column in columns if column.kind in TITLE_WORDS)
    rows = {row.name: _with_own_cell(row, header) for row in reversed(table.rows) if row.kind == "gpu"}
    words = [word.text for row in table.rows for word in row.words[:MOST_GPUS]]
    first = {column.name: column for column in reversed(gpu_columns)}
    codes = (*(first[name] for name in header), *beside)
    seen = frozenset(word.text for row in table.rows for word in row.words[:-1])
    place = Place(codes, len(header), titles, vocabulary_of(words, legend), seen)
    place = _aligned(place, [row for row in table.rows if row.kind == "gpu"])
    unseen = sorted(set(rows) - set(header), key=lambda name: (number_of(name) or 0, name))
    gpus = (*header, *unseen)
    spots = {name: at for at, name in enumerate(header)}
    nics = tuple(dict.fromkeys(column.name for column in beside if column.kind != "storage"))
    nic_rows = {row.name: read_cells(row, place, -1) for row in table.rows if row.kind == "nic"}
    extra = [name for name in nic_rows if name not in nics and name not in {one.name for one in beside}]
    cells = {name: read_cells(row, place, spots.get(name, -1)) for name, row in rows.items()}
    return Sheet(
        gpus=gpus,
        nics=(*nics, *extra),
        place=place,
        rows=_without_doubtful(cells, header),
        nic_rows=nic_rows,
        raws=rows,
    )


def _without_doubtful(rows: Mapping[str, RowCells], header: Sequence[str]) -> dict[str, RowCells]:
    """A cell that may be the beginning of a longer word counts if the pair's other cell says the same."""
    settled = {}
    for name, row in rows.items():
        at = row.doubtful
        other = rows.get(header[at]) if 0 <= at < len(header) else None
        mirror = other.codes[header.index(name)] if other is not None and name in header else ""
        is_sure = other is not None and other.doubtful != (header.index(name) if name in header else -1)
        if at >= 0 and not (is_sure and mirror == row.codes[at]):
            cells = tuple("" if here == at else code for here, code in enumerate(row.codes))
            row = replace(row, codes=cells, is_cut=True)
        settled[name] = row
    return settled


def _with_own_cell(row: Row, header: Sequence[str]) -> Row:
    """ROCm's table of link types has 0 where a GPU meets itself."""
    at = header.index(row.name) if row.name in header else -1
    if not 0 <= at < len(row.words) or row.words[at].text != "0":
        return row
    own = row.words[at]
    words = [*row.words[:at], Word("X", own.start, own.end), *row.words[at + 1 :]]
    return Row(row.name, row.kind, words, row.raw.replace("\t", " "), row.ends_open, row.is_last)


def _with_gaps_named(table: Table) -> list[Column]:
    """A damaged name between GPU2 and GPU4 is GPU3's: each row still has a cell for it."""
    columns = list(table.columns)
    for at in range(1, len(columns) - 1):
        before, here, after = columns[at - 1 : at + 2]
        if here.kind == "other" and before.kind == "gpu" and after.kind == "gpu":
            low, high = number_of(before.name), number_of(after.name)
            if low is not None and high == low + 2:
                name = before.name.removesuffix(str(low)) + str(low + 1)
                columns[at] = Column("gpu", name, here.start)
    return columns


def _aligned(place: Place, rows: Sequence[Row]) -> Place:
    """Whether words stand under their columns: seen on whole rows, or else on the first words of the
    others."""
    shifts: list[list[int]] = []
    for row in rows:
        count = count_code_words(row.words, place.gpus)
        if count == len(place.codes):
            pairs = zip(row.words[:count], place.codes, strict=True)
            shifts.append([word.start - column.start for word, column in pairs])
    if not shifts and rows and rows[0].words and place.codes:
        shifts.append([rows[0].words[0].start - place.codes[0].start])
    if not any(shifts) or "\t" in "".join(row.raw for row in rows[:3]):
        return place
    flat = sorted(shift for row in shifts for shift in row)
    middle = flat[len(flat) // 2]
    straight = all(abs(shift - middle) <= NEAR for shift in flat)
    return replace(place, aligned=straight, shift=middle)
