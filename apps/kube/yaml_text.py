"""Reads YAML or JSON text written by somebody else: plain data only.

No tags, bounded depth and number of values, and no whole tree where the text is a list of objects. Anchors
and aliases (a few lines of them can unfold into gigabytes) are refused, or, for dumps, counted as if
unfolded and bounded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import yaml

DEEPEST = 60
MOST_VALUES = 5_000_000
MOST_OF_AN_OBJECT = 500_000
LARGEST_NUMBER = 40
MERGE = "tag:yaml.org,2002:merge"


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Plain data; an unquoted time stays the text it is, as in the API's JSON."""

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


class BadYaml(Exception):
    """Not plain YAML or JSON; the message says where."""


def load_yaml(text: str, *, allow_aliases: bool = False) -> list[Any]:
    """Every document of the text, empty ones left out. Raises BadYaml."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            return [json.loads(text)]
        except (ValueError, RecursionError):
            pass  # flow-style YAML also starts like this
    return list(read_yaml(text, allow_aliases=allow_aliases))


def read_yaml(
    text: str | bytes, *, allow_aliases: bool, found: Callable[[Any], None] | None = None
) -> Iterator[Any]:
    """Every document, empty ones left out. Raises BadYaml.

    found: is given the members of a document's `items` one by one, which are then left out of the document,
    so that a list of a hundred thousand objects needs the memory of one.
    """
    try:
        yield from _Reader(text, allow_aliases, found).documents()
    except yaml.YAMLError as error:
        raise BadYaml(_where(error)) from error
    except (ValueError, RecursionError, OverflowError) as error:
        raise BadYaml("a value in it cannot be read") from error


class _Reader:
    """Builds values straight from the parser's events, and counts them as if every alias were unfolded."""

    def __init__(self, text: str | bytes, allow_aliases: bool, found: Callable[[Any], None] | None) -> None:
        self._next = _Loader(text).get_event
        self._allow_aliases = allow_aliases
        self._found = found
        self._anchored: dict[str, tuple[Any, int]] = {}
        self._left = self._most = MOST_VALUES

    def documents(self) -> Iterator[Any]:
        while not isinstance(event := self._next(), yaml.StreamEndEvent):
            if isinstance(event, yaml.StreamStartEvent | yaml.DocumentEndEvent):
                continue
            if isinstance(event, yaml.DocumentStartEvent):
                self._anchored = {}
                continue
            self._allow(MOST_VALUES)
            value = self._document(event)
            if value is not None:
                yield value

    def _document(self, event: Any) -> Any:
        if self._found is None or not isinstance(event, yaml.MappingStartEvent):
            return self._value(event, 0)
        self._check(event)
        return self._mapping(event, 0, stream=self._found)

    def _stream(self, found: Callable[[Any], None], depth: int) -> list[Any]:
        """The members of a list handed over one by one, each with its own bound."""
        left = self._left
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            self._allow(MOST_OF_AN_OBJECT)
            found(self._value(event, depth))
        self._allow(left)
        return []

    def _allow(self, most: int) -> None:
        self._left = self._most = most

    def _value(self, event: Any, depth: int) -> Any:
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        self._check(event)
        before = self._left
        self._count(1, event)
        if isinstance(event, yaml.ScalarEvent):
            plain = event.implicit[0]
            value = _scalar(event.value) if plain and len(event.value) <= LARGEST_NUMBER else event.value
        elif depth >= DEEPEST:
            raise BadYaml(f"line {_line(event)}: nested more than {DEEPEST} levels deep")
        elif isinstance(event, yaml.SequenceStartEvent):
            value = []
            while not isinstance(inner := self._next(), yaml.SequenceEndEvent):
                value.append(self._value(inner, depth + 1))
        else:
            value = self._mapping(event, depth)
        if event.anchor:
            self._anchored[event.anchor] = (value, before - self._left)
        return value

    def _mapping(
        self, start: yaml.Event, depth: int, *, stream: Callable[[Any], None] | None = None
    ) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        merged: list[Any] = []
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            key = self._value(event, depth + 1)
            inner = self._next()
            if isinstance(key, list | dict):
                raise BadYaml(f"line {_line(event)}: a key of a mapping is no plain text")
            if stream is not None and key == "items" and isinstance(inner, yaml.SequenceStartEvent):
                self._check(inner)
                found[key] = self._stream(stream, depth + 2)
                continue
            value = self._value(inner, depth + 1)
            if _is_merge(event, key):
                merged += value if isinstance(value, list) else [value]
            else:
                found[key] = value
        if not all(isinstance(one, dict) for one in merged):
            raise BadYaml(f"line {_line(start)}: only mappings can be merged into a mapping")
        for one in merged:
            self._count(len(one), start)
            found = {**one, **found}
        return found

    def _alias(self, event: Any) -> Any:
        if not self._allow_aliases:
            raise BadYaml(f"line {_line(event)}: anchors and aliases are refused")
        if event.anchor not in self._anchored:
            raise BadYaml(f"line {_line(event)}: the alias {event.anchor} stands for nothing before it")
        value, weight = self._anchored[event.anchor]
        self._count(weight, event)
        return value

    def _check(self, event: Any) -> None:
        if event.anchor and not self._allow_aliases:
            raise BadYaml(f"line {_line(event)}: anchors and aliases are refused")
        if event.tag:
            raise BadYaml(f"line {_line(event)}: tags are refused")

    def _count(self, weight: int, event: yaml.Event) -> None:
        self._left -= weight
        if self._left < 0:
            raise BadYaml(f"line {_line(event)}: more than {self._most} values once its aliases are unfolded")


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 0


def _is_merge(event: yaml.Event, key: Any) -> bool:
    return key == "<<" and isinstance(event, yaml.ScalarEvent) and event.implicit[0]


_constructor = yaml.SafeLoader("")


@lru_cache(maxsize=20_000)
def _scalar(text: str) -> Any:
    """What a plain scalar stands for: the same few words and numbers come again and again."""
    resolvers = _Loader.yaml_implicit_resolvers
    for tag, pattern in (*resolvers.get(text[:1], ()), *resolvers.get(None, ())):
        if pattern.match(text):
            if tag == MERGE:
                return text
            try:
                return _constructor.construct_object(yaml.ScalarNode(tag, text))
            except (yaml.YAMLError, ValueError, LookupError, OverflowError):
                return text
    return text


def _where(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or "not YAML"
    return f"line {mark.line + 1}: {problem}" if mark else str(problem)
