"""Each of the 57 behaviours is a test by its number, or a line of the documentation that says why not."""

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parents[1] / "docs" / "simulated-cluster.md"


def numbers_of_tests():
    names = re.findall(
        r"def test_behaviour_(\d\d(?:_and_\d\d)*)_",
        "".join(path.read_text() for path in TESTS.glob("*/test_behaviours_*.py")),
    )
    return {int(number) for name in names for number in name.split("_and_")}


def test_every_behaviour_is_tested_or_excused():
    rows = dict(re.findall(r"^\| (\d+) \|.*\| ([^|]+) \|$", PAGE.read_text(), re.MULTILINE))
    assert [int(number) for number in rows] == list(range(1, 58))
    excused = {int(number) for number, where in rows.items() if where.startswith("not simulated: ")}
    assert numbers_of_tests() == set(range(1, 58)) - excused


def test_the_page_names_the_files_in_which_they_are():
    for number, where in re.findall(r"^\| (\d+) \|.*\| ([a-z_, ]+) \|$", PAGE.read_text(), re.MULTILINE):
        for name in where.split(", "):
            (path,) = TESTS.glob(f"*/test_behaviours_{name}.py")
            assert re.search(rf"def test_behaviour_(\d\d_and_)*{int(number):02}_", path.read_text()), path
