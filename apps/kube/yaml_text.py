"""Reads YAML or JSON text written by somebody else: plain data only.

No tags, no anchors, no aliases (a few lines of them can unfold into gigabytes), bounded depth.
"""

from __future__ import annotations

import json
from typing import Any

import yaml

DEEPEST = 60


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """Plain data; an unquoted time stays the text it is, as in the API's JSON."""

    yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


class BadYaml(Exception):
    """Not plain YAML or JSON; the message says where."""


def load_yaml(text: str) -> list[Any]:
    """Every document of the text, empty ones left out. Raises BadYaml."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            return [json.loads(text)]
        except (ValueError, RecursionError):
            pass  # flow-style YAML also starts like this
    try:
        _refuse_tricks(text)
        return [document for document in yaml.load_all(text, Loader=_Loader) if document is not None]
    except yaml.YAMLError as error:
        raise BadYaml(_where(error)) from error
    except (ValueError, RecursionError, OverflowError) as error:
        raise BadYaml("a value in it cannot be read") from error


def _refuse_tricks(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise BadYaml(f"line {event.start_mark.line + 1}: anchors and aliases are refused")
        if isinstance(event, yaml.NodeEvent) and getattr(event, "tag", None):
            raise BadYaml(f"line {event.start_mark.line + 1}: tags are refused")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEEPEST:
            raise BadYaml(f"line {event.start_mark.line + 1}: nested more than {DEEPEST} levels deep")


def _where(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or "not YAML"
    return f"line {mark.line + 1}: {problem}" if mark else str(problem)
