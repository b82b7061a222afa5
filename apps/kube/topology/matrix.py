"""Makes a reading out of one table: how many GPUs, which links, which NICs, and what is missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from apps.kube.topology.affinity import Affinities, read_affinities
from apps.kube.topology.cells import count_code_words
from apps.kube.topology.reading import MOST_GPUS, Cells, Reading
from apps.kube.topology.sheet import Sheet, read_sheet
from apps.kube.topology.tables import Table
from apps.kube.topology.words import (
    CAPABILITIES,
    is_affinity_shaped,
    is_itself,
    number_of,
)

P2P = "not a topology matrix (p2p capability)"
LONGEST_CODE = 20
MOST_TOLD = 6


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
    if any(code not in CAPABILITIES for code in between):
        return False  # a legend of rights may be of another table in the same text
    if {"CNS", "GNS"} <= set(legend) or "status ok" in legend.get("OK", "").lower():
        return True
    return bool(between) and set(between) <= CAPABILITIES - {"NA", "N/A"} | {"N/A"} and between != ["N/A"]


def _padded(links: Cells, size: int) -> Cells:
    rows = [(*row, *[""] * (size - len(row))) for row in links]
    return tuple([*rows, *[("",) * size] * (size - len(rows))])


def _what_is_missing(table: Table, sheet: Sheet, links: Cells) -> tuple[list[str], bool]:
    """(a sentence for each, whether the table is cut or damaged where its GPUs are)."""
    lost = [name for name in sheet.gpus if name not in sheet.rows]
    short = [name for name, row in sheet.rows.items() if row.is_cut]
    is_header_cut = len(sheet.gpus) > sheet.place.gpus or table.header_is_cut
    uneven = _uneven(sheet.gpus, links)
    said = [f"the rows of {_listed(lost)} are missing"] if lost else []
    said += [f"the rows of {_listed(short)} are cut"] if short else []
    said += ["the header is cut: it does not name all columns"] if is_header_cut else []
    faults = [f"the row of {name} {row.fault}" for name, row in sheet.rows.items() if row.fault]
    said += faults[:MOST_TOLD]
    said += [f"the links between {_listed(uneven)} differ by direction"] if uneven else []
    of_nics, are_nics_cut = _what_nics_miss(table, sheet)
    has_holes = any(not code for row in links for code in row)
    return [*said, *of_nics], bool(lost or short or is_header_cut or uneven or are_nics_cut or has_holes)


def _uneven(names: Sequence[str], links: Cells) -> list[str]:
    return [
        f"{names[a]} and {names[b]}"
        for a in range(len(links))
        for b in range(a)
        if links[a][b] and links[b][a] and links[a][b] != links[b][a]
    ]


def _what_nics_miss(table: Table, sheet: Sheet) -> tuple[list[str], bool]:
    """(a sentence for each, whether the text ends among the rows of NICs)."""
    columns = {column.name for column in sheet.place.codes}
    named = [name for name in sheet.nics if name in columns]
    last = next((row for row in table.rows if row.is_last and row.kind == "nic"), None)
    is_cut = bool(sheet.nic_rows) and any(name not in sheet.nic_rows for name in named)
    is_cut = is_cut or (last is not None and _is_short_nic(sheet, last.name))
    doubtful = [name for name, row in sheet.rows.items() if row.nics_in_doubt and not row.is_cut]
    extra = [name for name in sheet.nic_rows if name not in named]
    said = ["the rows of NICs are cut"] if is_cut else []
    if doubtful and len(sheet.place.codes) > sheet.place.gpus:
        said.append(f"the cells of NICs in the rows of {_listed(doubtful)} do not fit the header: not used")
    if extra:
        said.append(f"the header does not know the rows of {_listed(extra)}")
    return said, is_cut


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
    size = max(declared or 0, least) if told or declared else 0
    if not 0 < size <= MOST_GPUS:
        return Reading(
            nics=None, complete=False, error="the header is missing: the number of GPUs is not certain"
        )
    return Reading(
        gpus=size,
        names=tuple(f"GPU{at}" for at in range(size)),
        nics=nics or None,
        complete=False,
        warnings=("the header is missing: which cell is whose is not certain",),
    )
