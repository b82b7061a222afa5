"""The trend in words: the sentence on top, the tiles with their change, the tables and the export."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from apps.dashboard.reading.nodes import LINK_WORDS
from apps.dashboard.reading.times import rough_duration
from apps.dashboard.reading.trend import Gap, PlanMark, Sample, Trend
from apps.dashboard.reading.words import amount
from apps.fragmentation.trends import TrendPoint
from apps.planner.fragmentation import WAITING, WANTED
from apps.planner.inventory import LinkClass

CAUSES = {
    "lacks_gpu": "Too few GPUs on the node",
    "lacks_cpu": "Lacks CPU",
    "lacks_both": "Lacks CPU and GPUs",
    "model_not_allowed": "Model not allowed",
    "cpu_only": "CPU-only demand",
    "usable": "Usable",
}
"""In the order in which they are stacked."""
SAID = {
    "lacks_gpu": ("lies on a node with too few free GPUs", "lie on nodes with too few free GPUs"),
    "lacks_cpu": ("lacks CPU", "lack CPU"),
    "lacks_both": ("lacks CPU and free neighbours", "lack CPU and free neighbours"),
    "model_not_allowed": ("is of a model that is not wanted", "are of a model that is not wanted"),
    "cpu_only": ("faces demand for CPU alone", "face demand for CPU alone"),
}
SPANS = {"1h": "1 h", "6h": "6 h", "24h": "24 h", "7d": "7 days", "30d": "30 days"}
BLOCKS = ("8", "4", "2", "1")
TABLE_ROWS = 24


@dataclass(frozen=True, slots=True)
class Tile:
    name: str
    value: str
    note: str


@dataclass(frozen=True, slots=True)
class CauseLine:
    name: str
    text: str
    gpus: str
    share: str
    change: str


@dataclass(frozen=True, slots=True)
class TableRow:
    """point None: a time of which nothing is known; `text` says until when."""

    at: datetime
    point: TrendPoint | None
    cells: Sequence[str] = ()
    text: str = ""


def clock(moment: datetime, until: datetime) -> str:
    """ "14:05" on the day of `until`, "Fri 14:05" within a week, then "3 Nov 14:05"; UTC, as everywhere."""
    if moment.astimezone(UTC).date() == until.astimezone(UTC).date():
        return f"{moment:%H:%M}"
    return f"{moment:%a %H:%M}" if until - moment < timedelta(days=7) else f"{moment.day} {moment:%b %H:%M}"


def gang_text(point: TrendPoint) -> str:
    return f"{point.largest_gang['pods']} × {point.largest_gang['gpus_per_pod']}"


def link_word(point: TrendPoint) -> str:
    link = point.largest_gang["link"]
    return LINK_WORDS[LinkClass(link)] if link in set(LinkClass) and link != "unknown" else ""


def say_change(trend: Trend) -> str:
    """What changed since the beginning of the range, and what most of the loss is due to now."""
    first, last = trend.first, trend.last
    if first is None or last is None:
        return ""
    since = f"Since {clock(trend.known_since, trend.until)}"
    parts = [f"{since} {_say_gang(first, last)}", _say_cause(last)]
    if trend.is_stale:
        gap = trend.gaps[-1]
        parts.append(f"the cluster has not been seen since {clock(gap.begin, trend.until)}")
    elif trend.unseen:
        parts.append(f"for {rough_duration(trend.unseen.total_seconds())} nobody saw the cluster")
    return "; ".join(part for part in parts if part) + "."


def _say_gang(first: TrendPoint, last: TrendPoint) -> str:
    before, now = gang_text(first), gang_text(last)
    if before == now:
        return f"the largest gang that could start stayed at {now}"
    verb = (
        "fell" if last.gang_gpus < first.gang_gpus else "rose" if last.gang_gpus > first.gang_gpus else "went"
    )
    return f"the largest gang that could start {verb} from {before} to {now}"


def _say_cause(last: TrendPoint) -> str:
    causes = {name: last.by_cause.get(name, 0) for name in SAID}
    worst = max(causes, key=lambda name: causes[name])
    if causes[worst] < 50:
        return "nothing that is free is lost" if last.idle_milli else "no GPU is free"
    gpus = amount(causes[worst])
    return f"{gpus} {'GPU' if gpus == '1' else 'GPUs'} {SAID[worst][gpus != '1']}"


def tell_trend_tiles(trend: Trend, wanted: str) -> list[Tile]:
    """wanted: shape of the largest gang that waits ("3 × 8"), "" without one."""
    first, last = trend.first, trend.last
    if first is None or last is None:
        return []
    then = f"since {clock(trend.known_since, trend.until)}"
    size = max((int(key) for point in (first, last) for key in point.free_nodes), default=8)
    size = max(size, last.largest_gang["gpus_per_pod"])
    link = link_word(last)
    gang = _was(gang_text(first), gang_text(last), then)
    return [
        Tile(
            "Stranded now",
            f"{amount(last.stranded_gpus * 1000)} of {amount(last.idle_milli)} free",
            _tell_stranded(first, last, then),
        ),
        Tile(
            "FGD fragmentation",
            f"{_share(last):.1f} % of capacity",
            _delta(
                f"{abs(_share(last) - _share(first)):.1f} points", _share(last) - _share(first), 0.05, then
            ),
        ),
        Tile(
            f"Whole {size}-GPU nodes free",
            str(last.free_nodes.get(str(size), 0)),
            _was(str(first.free_nodes.get(str(size), 0)), str(last.free_nodes.get(str(size), 0)), then),
        ),
        Tile(
            "Largest gang now",
            f"{gang_text(last)}{', ' + link if link else ''}",
            f"wanted: {wanted}; {gang}" if wanted else gang,
        ),
    ]


STRANDED_BY = {WAITING: "any shape that waits", WANTED: "any wanted shape (nothing waits)"}
STRANDED_BEFORE = {WAITING: "what waited", WANTED: "what was wanted (nothing waited)"}


def _tell_stranded(first: TrendPoint, last: TrendPoint, then: str) -> str:
    """What it is against, and the change; no change where the two were measured against different things."""
    against = STRANDED_BY.get(last.stranded_by)
    if against is None:
        return "what it was measured against is not told"
    if first.stranded_by == last.stranded_by:
        change = (last.stranded_gpus - first.stranded_gpus) * 1000
        return f"of no use to {against}; {_delta(amount(abs(change)), change, 50, then)}"
    before = STRANDED_BEFORE.get(first.stranded_by, "something that is not told")
    moment = then.removeprefix("since ")
    return f"of no use to {against}; not comparable with {moment}, which was against {before}"


def _share(point: TrendPoint) -> float:
    return 100 * point.fragmentation_milli / point.total_milli if point.total_milli else 0.0


def _delta(size: str, change: float, least: float, then: str) -> str:
    if abs(change) < least:
        return f"unchanged {then}"
    return f"{size} {'up' if change > 0 else 'down'} {then}"


def _was(before: str, now: str, then: str) -> str:
    return f"unchanged {then}" if before == now else f"was {before} {then.replace('since', 'at', 1)}"


def list_causes(trend: Trend) -> list[CauseLine]:
    first, last = trend.first, trend.last
    if first is None or last is None:
        return []
    return [
        CauseLine(
            name=name,
            text=text,
            gpus=amount(last.by_cause.get(name, 0)),
            share=f"{100 * last.by_cause.get(name, 0) / last.idle_milli:.0f} %" if last.idle_milli else "–",
            change=_signed(last.by_cause.get(name, 0) - first.by_cause.get(name, 0)),
        )
        for name, text in CAUSES.items()
    ]


def list_marks(trend: Trend) -> list[tuple[PlanMark, str, str]]:
    """Plans, newest first: how it ended ("3 of 3 promised" or the word) and what it did to the loss."""
    return [(mark, _kept(mark), _lost(mark)) for mark in reversed(trend.marks)]


def _kept(mark: PlanMark) -> str:
    if mark.kept is None:
        return mark.word
    return f"{mark.word}, {'as promised' if mark.kept else 'not as promised'}"


def _lost(mark: PlanMark) -> str:
    def known(milli: float | None) -> str:
        return "not seen" if milli is None else amount(milli)

    return f"{known(mark.lost_before)} → {known(mark.lost_after)}"


def _signed(milli: float) -> str:
    if abs(milli) < 50:
        return "0"
    return f"{'+' if milli > 0 else '−'}{amount(abs(milli))}"


def list_rows(trend: Trend) -> list[TableRow]:
    """The charts as a table, newest first: about two dozen moments, and every gap."""
    seen: list[Sample] = [sample for run in trend.runs for sample in run[:-1]]
    step = max(1, -(-len(seen) // TABLE_ROWS))
    chosen = seen[::-1][::step]
    rows = [TableRow(sample.at, sample.point, _cells(sample.point)) for sample in chosen]
    rows += [TableRow(gap.begin, None, text=_tell_gap(gap, trend)) for gap in trend.gaps]
    return sorted(rows, key=lambda row: row.at, reverse=True)


def _tell_gap(gap: Gap, trend: Trend) -> str:
    if gap.end == trend.until:
        return f"{gap.why} since"
    return f"{gap.why} until {clock(gap.end, trend.until)}"


def _cells(point: TrendPoint) -> list[str]:
    causes = [amount(point.by_cause.get(name, 0)) for name in CAUSES]
    blocks = [str(point.free_blocks.get(size, "–")) for size in BLOCKS]
    return [*causes, *blocks, gang_text(point)]


def list_exported(trend: Trend) -> list[dict[str, Any]]:
    """Every point of the charts; amounts in GPUs, times in RFC 3339 UTC."""
    return [_exported(trend, point) for point in trend.points]


def _exported(trend: Trend, point: TrendPoint) -> dict[str, Any]:
    gang = point.largest_gang
    return {
        "measured_at": point.measured_at.isoformat(),
        "seen_until": point.seen_until.isoformat(),
        "after_gap": point.after_gap,
        "snapshot": point.snapshot_id,
        "pool": trend.scope.pool,
        "model": trend.scope.model,
        "gpus_total": point.total_milli / 1000,
        "gpus_free": point.idle_milli / 1000,
        "gpus_stranded": round(point.stranded_gpus, 3),
        **{f"gpus_{name}": round(point.by_cause.get(name, 0) / 1000, 3) for name in CAUSES},
        **{f"free_blocks_of_{size}": point.free_blocks.get(size) for size in BLOCKS},
        "largest_gang_pods": gang["pods"],
        "largest_gang_gpus_per_pod": gang["gpus_per_pod"],
        "largest_gang_link": gang["link"],
    }
