"""docs/faults.md names every fault and every rule, and what it names is there."""

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.faults.catalogue import GROUPS, faults, rules, shown_by
from tests.faults.invariants import INVARIANTS
from tests.faults.reporting import _ranges, faults_of

ROOT = Path(__file__).parents[2]


@cache
def functions_of(path):
    tree = ast.parse((ROOT / path).read_text())
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_test_that_the_page_names_is_there():
    named = {*shown_by(), *(test for _, tests in rules().values() for test in tests)}
    missing = [test for test in named if test.partition("::")[2] not in functions_of(test.partition("::")[0])]
    assert not missing


def test_every_rule_has_its_line_and_the_asserted_ones_are_those_of_the_assertions():
    assert sorted(rules()) == list(range(1, 45))
    assert {number for number, (is_asserted, _) in rules().items() if is_asserted} == set(INVARIANTS)
    assert not [number for number, (is_asserted, tests) in rules().items() if not is_asserted and not tests]


@pytest.mark.parametrize("group", GROUPS)
def test_every_fault_of_a_group_has_a_test_or_a_reason(group):
    mine = {name: tests for name, tests in faults().items() if name.startswith(f"{group}: ")}
    untested = [name for name, tests in mine.items() if not tests]
    assert not untested


def test_a_test_named_on_the_page_carries_its_faults(request):
    items = {item.originalname: item for item in request.session.items if item.path == Path(__file__)}
    assert not faults_of(items["test_a_test_named_on_the_page_carries_its_faults"])
    assert "tests/executions/test_crash.py" in {test.partition("::")[0] for test in shown_by()}


def test_numbers_are_told_in_short():
    assert _ranges([1, 2, 3, 5, 7, 8]) == "1-3, 5, 7-8"
