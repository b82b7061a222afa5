"""Who checks plans shares nothing with who makes them but facts: a mistake of one is not the other's, too."""

import ast
import re
from pathlib import Path

import pytest

PLANNER = Path(__file__).resolve().parents[2] / "apps" / "planner"
FACTS = {"inventory", "devices", "terms", "queues", "snapshot", "plan"}
TABLES = {"mig.catalogue", "mig.models"}
"""Rows of NVIDIA's placement tables, and by which names a model goes: data, with their sources."""
CHECKERS = sorted(PLANNER.glob("verification*.py")) + [PLANNER / "outcome.py"]
OTHERS = sorted(set(PLANNER.rglob("*.py")) - set(CHECKERS) - set((PLANNER / "replay").rglob("*.py")))
"""Who plans. The replay of traces makes no plans: it asks for them and has them checked, like the console."""
CHECKER = re.compile(r"^\s*(from|import) apps\.planner(\.| import .*)(verification|outcome)", re.MULTILINE)


def imported(file: Path) -> set[str]:
    """Modules of the planner that it imports, without "apps.planner."."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = {node.module} | {f"{node.module}.{one.name}" for one in node.names}
            found |= names if node.module in ("apps", "apps.planner", "apps.planner.mig") else {node.module}
        elif isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
    prefix = "apps.planner."
    return {name.removeprefix(prefix) for name in found if name.startswith(prefix)}


def is_checkers(module: str) -> bool:
    return module.startswith("verification") or module == "outcome"


def test_there_are_checkers():
    assert {file.name for file in CHECKERS} >= {"verification.py", "verification_mig.py", "outcome.py"}
    assert imported(PLANNER / "verification.py") >= {"plan", "snapshot"}


@pytest.mark.parametrize("file", CHECKERS, ids=lambda file: file.name)
def test_a_checker_imports_facts_alone(file):
    allowed = FACTS | (TABLES if file.name == "verification_mig.py" else set())

    assert {name for name in imported(file) if not is_checkers(name)} <= allowed


@pytest.mark.parametrize("name", sorted(FACTS | TABLES))
def test_what_a_checker_may_import_decides_nothing_for_the_planner(name):
    file = PLANNER / f"{name.replace('.', '/')}.py"

    rest = {one for one in imported(file) if not one.startswith(("mig.tables_", "mig"))}
    assert rest <= FACTS


def test_no_planner_asks_a_checker():
    asking = {file.name for file in OTHERS if CHECKER.search(file.read_text())}

    assert asking == set()
