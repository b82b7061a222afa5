"""Makes a reading out of one table: how many GPUs, which links, which NICs, and what is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from apps.kube.topology.affinity import Affinities, read_affinities
from apps.kube.topology.cells import NEAR, Place, RowCells, count_code_words, read_cells
from apps.kube.topology.reading import MOST_GPUS, Cells, Reading
from apps.kube.topology.tables import Column, Row, Table, Word
from apps.kube.topology.words import (
    CAPABILITIES,
    TITLE_WORDS,
    is_affinity_shaped,
    is_itself,
    number_of,
    vocabulary_of,
)

P2P = "not a topology matrix (p2p capability)"
LONGEST_CODE = 20
MOST_TOLD = 6


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


def read_matrix(
    table: Table, legend: Mapping[str, str], nic_names: Mapping[str, str], declared: int | None
) -> Reading:
    """declared: how many GPUs the text says there are, beside the table."""
    sheet = read_sheet(table, legend)
    if not table.columns:
        return _headless(sheet, declared)
    if len(sheet.gpus) > MOST_GPUS:
        return Reading(error=f"{len(sheet.gpus)} GPUs in one table are not believable", complete=False)
    links = tuple(_row_of_links(sheet, name) for name in sheet.gpus)
    if _is_p2p(links, legend):
        return Reading(gpus=len(sheet.gpus), names=sheet.gpus, error=P2P, complete=False)
    if len(sheet.gpus) == 1 and not any(row.words for row in table.rows):
        return Reading(error="no table of links: one name and no cell", nics=None, complete=False)
    if table.header_ends_text and not sheet.rows:
        return Reading(gpus=None, nics=None, complete=False, error="cut within the header: no row is there")
    warnings, is_cut = _what_is_missing(table, sheet, links)
    gpus = max(len(sheet.gpus), declared or 0)
    if gpus > len(sheet.gpus):
        warnings.append(f"the text speaks of {gpus} GPUs, the table of {len(sheet.gpus)}")
        links, is_cut = _padded(links, gpus), True
    affinities = _affinities(sheet, gpus)
    nics = tuple(dict.fromkeys((*sheet.nics, *(name for name in nic_names if _is_numbered(sheet.nics)))))
    return Reading(
        gpus=gpus,
        names=(*sheet.gpus, *(f"GPU{at}" for at in range(len(sheet.gpus), gpus))),
        links=links,
        numa=affinities.numa,
        numa_raw=affinities.numa_raw,
        cpu_affinity=affinities.cpu,
        cpu_affinity_raw=affinities.cpu_raw,
        gpu_numa_id=affinities.gpu_numa,
        nics=len(nics),
        nic_names=tuple(nic_names.get(name, name) for name in nics),
        nic_links=_nic_links(sheet, nics, gpus),
        complete=not is_cut,
        warnings=(*warnings, *affinities.warnings),
        legend=tuple(legend.items()),
    )


def _is_numbered(nics: Sequence[str]) -> bool:
    return not nics or any(name.startswith("NIC") for name in nics)


def _row_of_links(sheet: Sheet, name: str) -> tuple[str, ...]:
    """In the order of `sheet.gpus`; columns that the header lacks stay ""."""
    size = sheet.place.gpus
    found = sheet.rows.get(name)
    codes = list(found.codes[:size]) if found is not None else [""] * size
    codes += [""] * (len(sheet.gpus) - size)
    at = sheet.gpus.index(name)
    return tuple("X" if here == at and code else _shown(code) for here, code in enumerate(codes))


def _shown(code: str) -> str:
    return "" if is_itself(code) else code[:LONGEST_CODE]


def _is_p2p(links: Cells, legend: Mapping[str, str]) -> bool:
    between = [code for at, row in enumerate(links) for here, code in enumerate(row) if here != at and code]
    if {"CNS", "GNS"} <= set(legend) or "status ok" in legend.get("OK", "").lower():
        return True
    return bool(between) and set(between) <= CAPABILITIES - {"NA", "N/A"} | {"N/A"} and between != ["N/A"]


def _padded(links: Cells, size: int) -> Cells:
    rows = [(*row, *[""] * (size - len(row))) for row in links]
    return tuple([*rows, *[("",) * size] * (size - len(rows))])


def _what_is_missing(table: Table, sheet: Sheet, links: Cells) -> tuple[list[str], bool]:
    """(a sentence for each, whether the table is cut or damaged where its GPUs are)."""
    said: list[str] = []
    lost = [name for name in sheet.gpus if name not in sheet.rows]
    short = [name for name, row in sheet.rows.items() if row.is_cut]
    unnamed = len(sheet.gpus) - sheet.place.gpus
    faults = {name: row.fault for name, row in sheet.rows.items() if row.fault}
    nics = [name for name, row in sheet.nic_rows.items() if row.is_cut and sheet.place.titles != ()]
    known_nics = [name for name in sheet.nics if name in {c.name for c in sheet.place.codes}]
    partly = bool(sheet.nic_rows) and any(name not in sheet.nic_rows for name in known_nics)
    uneven = [
        f"{sheet.gpus[a]} and {sheet.gpus[b]}"
        for a in range(len(links))
        for b in range(a)
        if links[a][b] and links[b][a] and links[a][b] != links[b][a]
    ]
    open_end = next((row for row in table.rows if row.is_last and row.kind == "nic"), None)
    cut_nic = open_end is not None and _is_short_nic(sheet, open_end.name)
    if lost:
        said.append(f"the rows of {_listed(lost)} are missing")
    if short:
        said.append(f"the rows of {_listed(short)} are cut")
    if unnamed or table.header_is_cut:
        said.append("the header is cut: it does not name all columns")
    said += [f"the row of {name} {fault}" for name, fault in list(faults.items())[:MOST_TOLD]]
    if uneven:
        said.append(f"the links between {_listed(uneven)} differ by direction")
    if partly or cut_nic:
        said.append("the rows of NICs are cut")
    doubtful = [name for name, row in sheet.rows.items() if row.nics_in_doubt and not row.is_cut]
    if doubtful and len(sheet.place.codes) > sheet.place.gpus:
        said.append(f"the cells of NICs in the rows of {_listed(doubtful)} do not fit the header: not used")
    if extra := [name for name in sheet.nic_rows if name not in known_nics]:
        said.append(f"the header does not know the rows of {_listed(extra)}")
    holes = any(not code for row in links for code in row)
    is_cut = bool(lost or short or unnamed or table.header_is_cut or uneven or partly or cut_nic or holes)
    return said, is_cut or bool(nics and cut_nic)


def _is_short_nic(sheet: Sheet, name: str) -> bool:
    row = sheet.nic_rows.get(name)
    wanted = len(sheet.place.codes)
    return row is not None and wanted > sheet.place.gpus and sum(map(bool, row.codes)) < wanted


def _listed(names: Sequence[str]) -> str:
    more = len(names) - MOST_TOLD
    return ", ".join(names[:MOST_TOLD]) + (f" and {more} more" if more > 0 else "")


def _affinities(sheet: Sheet, gpus: int) -> Affinities:
    rows = [sheet.rows.get(name) for name in sheet.gpus] + [None] * (gpus - len(sheet.gpus))
    tails = [row.tail if row is not None else () for row in rows]
    tabbed = [
        name in sheet.raws and "\t" in sheet.raws[name].raw and _is_tabbed_tail(sheet, name)
        for name in sheet.gpus
    ] + [False] * (gpus - len(sheet.gpus))
    return read_affinities([column.kind for column in sheet.place.titles], tails, tabbed)


def _is_tabbed_tail(sheet: Sheet, name: str) -> bool:
    """Whether the tail was parted by tabs, so that an empty cell in it is one."""
    tail = sheet.rows[name].tail
    words = [word.text for word in sheet.raws[name].words]
    return "" in tail or list(tail) == words[len(words) - len(tail) :] and "\t" in sheet.raws[name].raw


def _nic_links(sheet: Sheet, nics: Sequence[str], gpus: int) -> Cells:
    """A row per GPU. From the GPUs' rows; where these do not tell, from the NICs' own."""
    spots = {column.name: at for at, column in enumerate(sheet.place.codes)}
    if not nics:
        return ()
    rows = []
    for at in range(gpus):
        name = sheet.gpus[at] if at < len(sheet.gpus) else ""
        row = sheet.rows.get(name)
        cells = []
        for nic in nics:
            spot, code = spots.get(nic), ""
            if row is not None and spot is not None and not row.nics_in_doubt:
                code = row.codes[spot]
            if not code and nic in sheet.nic_rows and at < sheet.place.gpus:
                code = sheet.nic_rows[nic].codes[at]
            cells.append(code[:LONGEST_CODE])
        rows.append(tuple(cells))
    return tuple(rows)


def _headless(sheet: Sheet, declared: int | None) -> Reading:
    """Rows without their header: how many GPUs there are is only certain where cells and rows agree."""
    numbers = [number for name in sheet.gpus if (number := number_of(name)) is not None]
    counts = {count_code_words(row.words, 0) for row in sheet.raws.values()}
    nics = len(sheet.nic_rows)
    codes = [
        word.text for row in sheet.raws.values() for word in row.words if not is_affinity_shaped(word.text)
    ]
    if not numbers or not any(map(is_itself, codes)):
        return Reading(error="no table of links", complete=False)
    least = max(numbers) + 1
    told = counts == {least + nics} or (len(counts) == 1 and nics and counts.pop() - nics >= least)
    size = declared or (least if told else None)
    return Reading(
        gpus=size,
        names=sheet.gpus,
        nics=nics or None,
        complete=False,
        warnings=("the header is missing: which cell is whose is not certain",),
    )
