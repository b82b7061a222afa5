"""Adds a named configuration to a mig-parted text, or takes it out again; everything else stays as written.

The text is edited, not written anew: comments and order are somebody else's. What comes out is read again and
must say the same as before but for that one name. Not in here: what a configuration means (mig_configs).
"""

from __future__ import annotations

import difflib

import yaml

from apps.kube.mig_configs import LOADER, BadMigConfig, find_configs


def add_config(text: str, line: str) -> str:
    """line: "name: [...]", flow style. Raises BadMigConfig where it cannot be added without touching more."""
    name = line.partition(":")[0]
    before = _read(text)
    if name in before:
        raise BadMigConfig(f"{name} is in it already")
    edited = _insert(text, line)
    if _read(edited) != {**before, **read_line(line)}:
        raise BadMigConfig("adding a line to it would change more than that")
    return edited


def remove_config(text: str, line: str) -> str:
    """The text without what `add_config` put there. Raises BadMigConfig where it is not as it was added."""
    name = line.partition(":")[0]
    before = _read(text)
    lines = text.splitlines(keepends=True)
    mine = [number for number, one in enumerate(lines) if one.strip() == line]
    if len(mine) != 1 or name not in before:
        raise BadMigConfig(f"{name} does not stand in it as it was added")
    del lines[mine[0]]
    edited = "".join(lines)
    if _read(edited) != {key: entries for key, entries in before.items() if key != name}:
        raise BadMigConfig(f"taking {name} out of it would change more than that")
    return edited


def read_line(line: str) -> dict[str, object]:
    """The one configuration of a line, as `find_configs` gives it. Raises BadMigConfig."""
    return dict(find_configs(f"version: v1\nmig-configs:\n  {line}\n") or {})


def diff_texts(before: str, after: str, name: str) -> str:
    """A unified diff, three lines of context. name: of the file, for its head."""
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), f"{name} now", f"{name} then", lineterm=""
    )
    return "\n".join(lines)


def _insert(text: str, line: str) -> str:
    """As the first configuration, indented as the others: right below the line of `mig-configs`."""
    key, value = _find_holder(text)
    if value.flow_style or not value.value:
        raise BadMigConfig("mig-configs is not written as a list of names, one below the other")
    lines = text.splitlines(keepends=True)
    at, column = key.end_mark.line + 1, value.start_mark.column
    lines.insert(at, f"{' ' * column}{line}\n")
    return "".join(lines)


def _find_holder(text: str) -> tuple[yaml.Node, yaml.MappingNode]:
    """The key `mig-configs` of the only document, and what stands under it."""
    try:
        roots = [root for root in yaml.compose_all(text, Loader=LOADER) if root is not None]
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise BadMigConfig("it is no plain YAML") from error
    if len(roots) != 1 or not isinstance(roots[0], yaml.MappingNode):
        raise BadMigConfig("it is not one YAML document")
    found = [(key, value) for key, value in roots[0].value if key.value == "mig-configs"]
    if len(found) != 1 or not isinstance(found[0][1], yaml.MappingNode):
        raise BadMigConfig("it has no mig-configs to add to")
    return found[0]


def _read(text: str) -> dict[str, object]:
    return dict(find_configs(text) or {})
