"""Reads the text that exporters show to a scraper, old and OpenMetrics, as people paste it.

Titles, rulers, prompts and colours around it are passed over; of several scrapes of the same series the last
one counts and nothing is added up. Each line is read by itself in time linear in its length; one that cannot
be read is a warning. `prometheus_client` reads the few that its newer spellings are needed for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from prometheus_client.parser import text_string_to_metric_families

from apps.prometheus.series import Collection, Series, clean, warn

LONGEST_LINE = 64 * 1024
LONGEST_FOR_THE_LIBRARY = 1024
MOST_FOR_THE_LIBRARY = 2000
"""Its time grows with the square of a line's length."""
MOST_LABELS = 200
MILLISECONDS = 1e11
"""Seconds since the epoch stay below this for 3,000 years, milliseconds have been above it since 1973."""
_COLOUR = re.compile(r"\x1b\[[0-9;]{0,20}[A-Za-z]")
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_.]*)\s*=\s*"([^"\\]*(?:\\.[^"\\]*)*)"\s*(,?)')
_REST = re.compile(r"\s*(?:=>\s*)?([^\s#]+)(?:\s+@?\[?([-+0-9.eE]+)\]?)?\s*(?:#.*)?$")
_NUMBER = re.compile(
    r"[-+]?(?:[0-9]+\.?[0-9]*(?:[eE][-+]?[0-9]+)?|\.[0-9]+(?:[eE][-+]?[0-9]+)?|inf|nan)", re.I
)
_ESCAPE = re.compile(r"\\(.)", re.S)
_ESCAPED = {"n": "\n", "\\": "\\", '"': '"'}
_QUOTED_NAME = re.compile(r'\s*\{\s*"')
_DECORATION = re.compile(r"[-=_*~+#.\s]*")


class _Unreadable(ValueError): ...


def read_exposition(text: str) -> Collection:
    """Every series of the text; none if it holds no sample."""
    found = _Reader()
    for number, line in _lines(text):
        found.take(number, line)
    return found.finish()


def _lines(text: str) -> Iterator[tuple[int, str]]:
    start, number = 0, 0
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        number += 1
        yield number, text[start : min(end, start + LONGEST_LINE + 1)]
        start = end + 1


class _Reader:
    def __init__(self) -> None:
        self.collection = Collection("exposition")
        self._last: dict[tuple[str, frozenset[tuple[str, str]]], Series] = {}
        self._scrape = 0
        self._seen: set[tuple[str, frozenset[tuple[str, str]]]] = set()
        self._families: set[str] = set()
        self._after_a_break = False
        self._quoted = 0

    def take(self, number: int, line: str) -> None:
        line = line.strip()
        if "\x1b" in line:
            line = _COLOUR.sub("", line).strip()
        if not line or line.startswith("#"):
            self._after_a_break = True
            self._comment(line)
            return
        try:
            if len(line) > LONGEST_LINE:
                raise _Unreadable(f"it is longer than {LONGEST_LINE // 1024} KiB")
            name, labels, value, at = self._by_library(line) if line[0] == "{" else _sample(line)
        except _Unreadable as error:
            self._after_a_break = True
            self._pass_over(number, line, str(error))
            return
        self._keep(name, labels, value, at)

    def _by_library(self, line: str) -> tuple[str, dict[str, str], float, float | None]:
        self._quoted += 1
        if self._quoted > MOST_FOR_THE_LIBRARY:
            raise _Unreadable(f"more than {MOST_FOR_THE_LIBRARY} lines have their name in quotes")
        return _by_library(line)

    def _comment(self, line: str) -> None:
        words = line.split(None, 3)
        if line.startswith("# EOF"):
            self._families, self._seen, self._scrape = set(), set(), self._scrape + 1
        elif len(words) >= 3 and words[1] in ("HELP", "TYPE"):
            name = words[2]
            if name in self._families:  # its samples stand above already: here begins the next scrape
                self._families, self._seen, self._scrape = set(), set(), self._scrape + 1
            if words[1] == "HELP" and len(words) > 3:
                self.collection.help[clean(name)] = clean(words[3])

    def _keep(self, name: str, labels: dict[str, str], value: float, at: float | None) -> None:
        key = (name, frozenset(labels.items()))
        if key in self._seen and self._after_a_break:
            self._families, self._seen, self._scrape = set(), set(), self._scrape + 1
        self._after_a_break = False
        self._seen.add(key)
        self._families.add(name)
        self.collection.count()
        before = self._last.get(key)
        if before is None or before.at is None or at is None or at >= before.at:
            self._last.pop(key, None)  # so that the order is that of the last sight
            self._last[key] = Series(name, labels, value, at, self._scrape)

    def _pass_over(self, number: int, line: str, why: str) -> None:
        is_title = "{" not in line and len(line) <= 200
        if is_title or _DECORATION.fullmatch(line[:LONGEST_LINE]):
            return
        warn(self.collection.warnings, f"line {number} cannot be read: {why}")

    def finish(self) -> Collection:
        self.collection.series = list(self._last.values())
        return self.collection


def _sample(line: str) -> tuple[str, dict[str, str], float, float | None]:
    named = _NAME.match(line)
    if named is None:
        raise _Unreadable("it does not begin with a metric's name")
    labels: dict[str, str] = {}
    position = named.end()
    while position < len(line) and line[position] in " \t":
        position += 1
    if position < len(line) and line[position] == "{":
        labels, position = _labels(line, position + 1)
    elif position == named.end():
        raise _Unreadable("a metric's name is followed by something else than labels or a value")
    value, at = _value(line, position)
    name = named.group()
    return clean(name), labels, value, at


def _labels(line: str, position: int) -> tuple[dict[str, str], int]:
    """The labels, and where the text goes on after the closing brace."""
    labels: dict[str, str] = {}
    while True:
        found = _LABEL.match(line, position)
        if found is None:
            break
        name, text, comma = found.groups()
        if name in labels or len(labels) >= MOST_LABELS:
            raise _Unreadable("a label occurs twice, or there are too many")
        if "\\" in text:
            text = _ESCAPE.sub(lambda match: _ESCAPED.get(match.group(1), match.group()), text)
        labels[name] = clean(text)
        position = found.end()
        if not comma:
            break
    while position < len(line) and line[position] in " \t,":
        position += 1
    if position >= len(line) or line[position] != "}":
        raise _Unreadable('its labels do not end, or are not written as name="value"')
    return labels, position + 1


def _value(line: str, position: int) -> tuple[float, float | None]:
    found = _REST.match(line, position)
    if found is None or not _NUMBER.fullmatch(found.group(1)):
        raise _Unreadable("there is no number after the name and the labels")
    at = None
    if found.group(2) is not None:
        if not _NUMBER.fullmatch(found.group(2)):
            raise _Unreadable("what stands after its value is no time")
        at = as_seconds(float(found.group(2)))
    return float(found.group(1)), at


def as_seconds(told: float) -> float | None:
    """A time in seconds or milliseconds since the epoch; None for what cannot be one."""
    if told >= MILLISECONDS:
        told /= 1000
    return told if 0 < told < MILLISECONDS else None


def _by_library(line: str) -> tuple[str, dict[str, str], float, float | None]:
    """Names in quotes (`{"a.b", c="d"} 1`), which the newer text format allows."""
    if not _QUOTED_NAME.match(line) or len(line) > LONGEST_FOR_THE_LIBRARY:
        raise _Unreadable("it does not begin with a metric's name")
    try:
        samples = [one for family in text_string_to_metric_families(line) for one in family.samples]
        (sample,) = samples
        labels = {clean(name): clean(text) for name, text in sample.labels.items()}
        return clean(sample.name), labels, float(sample.value), _time_of(sample.timestamp)
    except (ValueError, IndexError, OverflowError) as error:
        raise _Unreadable("its quoted name or labels cannot be read") from error


def _time_of(told: object) -> float | None:
    return as_seconds(float(told)) if isinstance(told, int | float) else None
