"""Reads YAML or JSON text written by somebody else: plain data only.

No tags, bounded depth. Anchors and aliases (a few lines of them can unfold into gigabytes) are
refused, or, for dumps, counted as if unfolded and bounded.
"""

from __future__ import annotations

import json
from typing import Any

import yaml

DEEPEST = 60
MOST_VALUES = 50_000_000


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
    try:
        weight = _Weight(allow_aliases)
        for event in yaml.parse(text, Loader=_Loader):
            weight.add(event)
        return [document for document in yaml.load_all(text, Loader=_Loader) if document is not None]
    except yaml.YAMLError as error:
        raise BadYaml(_where(error)) from error
    except (ValueError, RecursionError, OverflowError) as error:
        raise BadYaml("a value in it cannot be read") from error


class _Weight:
    """Follows the events of a text and counts its values as if every alias were unfolded."""

    def __init__(self, allow_aliases: bool) -> None:
        self._allow_aliases = allow_aliases
        self._open: list[tuple[str | None, int]] = [(None, 0)]
        self._anchored: dict[str, int] = {}

    def add(self, event: yaml.Event) -> None:
        line = event.start_mark.line + 1 if event.start_mark else 0
        anchor = getattr(event, "anchor", None)
        if anchor and not self._allow_aliases:
            raise BadYaml(f"line {line}: anchors and aliases are refused")
        if isinstance(event, yaml.AliasEvent):
            if anchor not in self._anchored:
                raise BadYaml(f"line {line}: the alias {anchor} stands for nothing before it")
            self._count(self._anchored[anchor], line)
        elif getattr(event, "tag", None):
            raise BadYaml(f"line {line}: tags are refused")
        elif isinstance(event, yaml.ScalarEvent):
            self._remember(anchor, 1)
            self._count(1, line)
        elif isinstance(event, yaml.CollectionStartEvent):
            self._open.append((anchor, 1))
            if len(self._open) > DEEPEST:
                raise BadYaml(f"line {line}: nested more than {DEEPEST} levels deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, weight = self._open.pop()
            self._remember(anchor, weight)
            self._count(weight, line)

    def _remember(self, anchor: str | None, weight: int) -> None:
        if anchor:
            self._anchored[anchor] = weight

    def _count(self, weight: int, line: int) -> None:
        anchor, so_far = self._open[-1]
        if so_far + weight > MOST_VALUES:
            raise BadYaml(f"line {line}: more than {MOST_VALUES} values once its aliases are unfolded")
        self._open[-1] = (anchor, so_far + weight)


def _where(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or "not YAML"
    return f"line {mark.line + 1}: {problem}" if mark else str(problem)
