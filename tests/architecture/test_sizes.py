"""Size budgets. A file or function over budget is asking to be split."""

import ast
from pathlib import Path

APPS = Path(__file__).parents[2] / "apps"
FILE_LINES = 300
FUNCTION_LINES = 40


def sources():
    return [path for path in APPS.rglob("*.py") if "migrations" not in path.parts]


def test_no_file_is_longer_than_its_budget():
    too_long = {
        str(path.relative_to(APPS)): lines
        for path in sources()
        if (lines := len(path.read_text().splitlines())) > FILE_LINES
    }
    assert too_long == {}


def test_no_function_is_longer_than_its_budget():
    too_long = [
        f"{path.relative_to(APPS)}:{node.lineno} {node.name}"
        for path in sources()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno - node.lineno + 1 > FUNCTION_LINES
    ]
    assert too_long == []
