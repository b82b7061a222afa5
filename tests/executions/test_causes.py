"""Every stop says why in a word of the registry, and every word has its runbook."""

import ast
import re
from pathlib import Path

import pytest

from apps.executions.cause import Way
from apps.executions.causes import CAUSES, cause_of

ROOT = Path(__file__).parents[2]
CALLS = ("stop", "blocked", "_stop")


def calls_of_stops():
    for path in sorted((ROOT / "apps/executions").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLS:
                yield f"{path.relative_to(ROOT)}:{node.lineno}", node


def named_codes():
    """Constants that are given as a cause anywhere in the engine."""
    for path in sorted((ROOT / "apps/executions").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.keyword) and node.arg == "cause":
                for part in ast.walk(node.value):
                    if isinstance(part, ast.Constant) and part.value:
                        yield part.value


def test_no_stop_lacks_a_cause():
    wrappers = {"apps/executions/mig_restoring.py"}  # its own _stop names the one cause that it has
    lacking = [
        where
        for where, call in calls_of_stops()
        if not any(keyword.arg == "cause" for keyword in call.keywords)
        and not (call.func.id == "_stop" and where.split(":")[0] in wrappers)
    ]
    assert not lacking, f"decisions.stop and .blocked name a cause of apps/executions/causes: {lacking}"


def test_every_named_cause_is_in_the_registry():
    assert set(named_codes()) <= set(CAUSES)


def test_each_cause_has_its_section_among_the_runbooks():
    text = (ROOT / "docs/runbooks.md").read_text()
    sections = re.findall(r'^### <a id="([-a-z]+)"></a>(.+) \(`([-a-z]+)`\)$', text, re.MULTILINE)
    assert {(code, title) for code, title, _ in sections} == {(c.code, c.title) for c in CAUSES.values()}
    assert len(sections) == len(CAUSES), "a cause has two sections"
    for code, _, shown in sections:
        assert code == shown


@pytest.mark.parametrize("cause", CAUSES.values(), ids=lambda cause: cause.code)
def test_each_cause_says_what_it_means_what_to_do_and_offers_a_way(cause):
    assert cause.meaning.endswith(".")
    assert cause.runbook.endswith((".", "?"))
    assert cause.ways
    assert set(cause.ways) <= set(Way)


def test_a_code_that_nobody_knows_still_has_a_runbook():
    assert cause_of("of-a-newer-console").code == "other"
