"""Hooks for every run of the tests: the marker `fault`, the tests elsewhere that stand for a fault, and the
table at the end of a run that met any.

    @pytest.mark.fault("API server: 429 PDB", invariants=[1, 3, 4])

names the fault that a test injects. After a test over a cluster all rules that leave a trace are asserted
(`check_stage`); invariants are those that the test shows by itself beside them. without: rules that the fault
breaks by itself (a clock that jumps, say).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.catalogue import shown_by

ROOT = Path(__file__).parents[2]
CHECKED, FAULT = "invariants", "fault"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "fault(*names, invariants, without): the named faults are injected")


def name_faults(items: list[pytest.Item]) -> None:
    """Tests elsewhere get the names of the faults that they stand for."""
    names_of = shown_by()
    for item in items:
        path = Path(str(item.path)).relative_to(ROOT)
        names = names_of.get(f"{path}::{item.originalname if isinstance(item, pytest.Function) else ''}", ())
        if names:
            item.add_marker(pytest.mark.fault(*names))
        for name in sorted(faults_of(item)):
            item.user_properties.append((FAULT, name))
        shown = {n for mark in item.iter_markers("fault") for n in mark.kwargs.get("invariants", ())}
        if shown:
            item.user_properties.append((CHECKED, sorted(shown)))


def faults_of(item: pytest.Item) -> set[str]:
    return {name for mark in item.iter_markers("fault") for name in mark.args}


def check_stage(request: pytest.FixtureRequest, stage: Any) -> None:
    """All rules over what one cluster logged and what the database holds of it."""
    from tests.faults.invariants import INVARIANTS, find_violations
    from tests.faults.records import gather

    marks = list(request.node.iter_markers("fault"))
    if not marks:
        return
    without = tuple(number for mark in marks for number in mark.kwargs.get("without", ()))
    secrets = (stage.simulated.credentials.token,)
    found = find_violations(gather(stage.simulated.ask, stage.cluster.pk, secrets), without=without)
    request.node.user_properties.append((CHECKED, sorted(set(INVARIANTS) - set(without))))
    told = [f"rule {number}: {words}" for number, many in found.items() for words in many]
    assert not told, "\n".join(told)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    rows = list(_rows(terminalreporter.stats))
    if not rows:
        return
    terminalreporter.section("faults")
    width = max(len(name) for name, _, _ in rows)
    for name, outcome, checked in rows:
        terminalreporter.write_line(f"{name:{width}}  {outcome:7}  {checked}")
    bad = sum(outcome != "passed" for _, outcome, _ in rows)
    terminalreporter.write_line(f"{len(rows)} faults, {bad} not survived")


def _rows(stats: dict[str, list[Any]]) -> Iterator[tuple[str, str, str]]:
    """(fault, outcome, rules) in the order of their names. Reports come from the workers of xdist as well."""
    outcomes: dict[str, str] = defaultdict(lambda: "passed")
    checked: dict[str, set[int]] = defaultdict(set)
    for outcome, reports in stats.items():
        for report in reports:
            properties = report.user_properties if isinstance(report, pytest.TestReport) else ()
            for name in [value for key, value in properties if key == FAULT]:
                if outcome in ("failed", "error") or (outcome == "skipped" and outcomes[name] == "passed"):
                    outcomes[name] = outcome
                outcomes[name] = outcomes[name]
                checked[name] |= {n for key, numbers in properties if key == CHECKED for n in numbers}
    for name in sorted(outcomes):
        yield name, outcomes[name], _ranges(sorted(checked[name])) or "by the test itself"


def _ranges(numbers: list[int]) -> str:
    """1-4, 7, 9"""
    groups: list[list[int]] = []
    for number in numbers:
        if groups and number == groups[-1][-1] + 1:
            groups[-1].append(number)
        else:
            groups.append([number])
    return ", ".join(f"{one[0]}-{one[-1]}" if len(one) > 1 else str(one[0]) for one in groups)
