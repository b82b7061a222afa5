"""Commands that read files need no database, whichever door they are called through."""

import os
import subprocess
import sys

import pytest

from console.offline import NEEDS_NO_DATABASE, needs_no_database

READERS = sorted(name for name in NEEDS_NO_DATABASE if name.startswith("read_"))
UNSET = ("DATABASE_URL", "REDIS_URL", "SECRET_KEY", "DJANGO_SETTINGS_MODULE")


def call(*words, **more):
    environment = {name: value for name, value in os.environ.items() if name not in UNSET}
    return subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True, **more)


@pytest.mark.parametrize("command", READERS)
def test_a_reader_says_what_is_wrong_with_its_input_and_not_with_the_environment(command):
    done = call("manage.py", command, "-", input="no such thing\n")

    assert done.returncode == 2, done.stderr
    assert "standard input" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_help_for_a_command_that_needs_a_database_starts_none(tmp_path):
    done = call("-m", "console.manage_here", "--data", str(tmp_path), "connect_prometheus", "--help")

    assert done.returncode == 0, done.stderr
    assert "--token-stdin" in done.stdout
    assert done.stderr == ""
    assert not (tmp_path / "postgres").exists()
    assert not needs_no_database(["connect_prometheus", "east", "--", "-h"])
