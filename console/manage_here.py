"""`./dev manage COMMAND …`: a management command on the embedded default.

Uses the console that runs on the default folder if one does; starts the embedded servers for the
length of the command if none does and the command needs a database. Whatever is set in the
environment (DATABASE_URL, REDIS_URL, SECRET_KEY) wins.
"""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path

from console.embedded import EmbeddedServer, EmbeddedServerFailed, start_postgres, start_valkey
from console.place import DEFAULT_FOLDER, Place, PlaceUnusable

NEEDS_NO_DATABASE = {
    *("simulate_cluster", "make_plan", "measure", "read_mig"),
    *("make_steering_certificate", "makemigrations", "check", "spectacular", "help", "--help", "version"),
}


def main(arguments: list[str]) -> int:
    from django.core.management import execute_from_command_line

    arguments = arguments or ["help"]
    started: list[EmbeddedServer] = []
    try:
        if "DATABASE_URL" not in os.environ:
            started = _find_or_start(arguments[0])
        os.environ.setdefault("SECRET_KEY", secrets.token_urlsafe(48))
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings.production")
        execute_from_command_line(["./dev manage", *arguments])
    except (EmbeddedServerFailed, PlaceUnusable) as error:
        print(error, file=sys.stderr)
        return 2
    finally:
        for server in reversed(started):
            server.stop()
    return 0


def _find_or_start(command: str) -> list[EmbeddedServer]:
    place = Place(Path(os.environ.get("CONSOLE_DATA", DEFAULT_FOLDER)))
    running = place.running_environment() if place.folder.exists() else None
    if running:
        os.environ.update(running)
        return []
    if command in NEEDS_NO_DATABASE:
        os.environ["DATABASE_URL"] = "postgres://nobody@127.0.0.1:1/none"
        return []
    if sys.stderr.isatty():
        print("Starting PostgreSQL and Valkey for this command ...", file=sys.stderr, flush=True)
    place.prepare()
    started = [start_postgres(place.folder / "postgres")]
    started.append(start_valkey(place.folder / "valkey"))
    os.environ.update(place.environment(database_url=started[0].url, redis_url=started[1].url))
    _migrate()
    return started


def _migrate() -> None:
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0, interactive=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
