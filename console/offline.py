"""Which management commands need neither database nor broker, and what they find in their place.

The settings ask for a database and a secret whatever the command is. Commands on this list read files, or
make something new, and are as useful on a laptop with nothing installed.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence

NEEDS_NO_DATABASE = frozenset(
    {
        *("read_topology", "read_dump", "read_metrics", "read_mig", "measure", "make_plan", "replay"),
        *("simulate_cluster", "make_steering_certificate"),
        *("makemigrations", "check", "spectacular", "help", "--help", "-h", "version", "--version"),
    }
)
NO_DATABASE = "postgres://nobody@127.0.0.1:1/none"


HELP = ("-h", "--help")


def needs_no_database(arguments: Sequence[str]) -> bool:
    """arguments: command first. Any command says without a database how it is called."""
    return bool(arguments) and (arguments[0] in NEEDS_NO_DATABASE or _asks_for_help(arguments[1:]))


def _asks_for_help(arguments: Sequence[str]) -> bool:
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return any(one in HELP for one in options)


def stand_in_for_database(arguments: Sequence[str]) -> None:
    """Fill the environment for a command that needs none; what is set there wins."""
    if needs_no_database(arguments):
        os.environ.setdefault("DATABASE_URL", NO_DATABASE)
        os.environ.setdefault("SECRET_KEY", secrets.token_urlsafe(48))
