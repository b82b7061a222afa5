"""Commands that read files need no database, whichever door they are called through."""

import os
import subprocess
import sys

import pytest

from console.offline import NEEDS_NO_DATABASE

READERS = sorted(name for name in NEEDS_NO_DATABASE if name.startswith("read_"))
UNSET = ("DATABASE_URL", "REDIS_URL", "SECRET_KEY", "DJANGO_SETTINGS_MODULE")


@pytest.mark.parametrize("command", READERS)
def test_a_reader_says_what_is_wrong_with_its_input_and_not_with_the_environment(command):
    environment = {name: value for name, value in os.environ.items() if name not in UNSET}

    done = subprocess.run(
        [sys.executable, "manage.py", command, "-"],
        input="no such thing\n",
        env=environment,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 2, done.stderr
    assert "standard input" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
