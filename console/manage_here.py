"""`./dev manage [--data DIR] COMMAND …`: a management command on the embedded default.

Uses the console that runs on the data folder (--data, else CONSOLE_DATA, else .data) if one does; starts the
embedded servers for the length of the command if none does and the command needs a database, and then says
on stderr whose database it is. Whatever is set in the environment (DATABASE_URL, REDIS_URL, SECRET_KEY) wins.
"""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from pathlib import Path

from console.embedded import EmbeddedServer, EmbeddedServerFailed, start_postgres, start_valkey
from console.offline import NO_DATABASE, needs_no_database, stand_in_for_database
from console.place import DEFAULT_FOLDER, ROOT, Place, PlaceUnusable

DATA = "--data"
FAILS_ON_INPUT_ALONE = {"changepassword"}
"""Django's own, which end with 1 for a name that nobody has; ours say themselves what they end with."""
OF_DJANGO_ITSELF = {"help", "--help", "-h", "version", "--version"}


class Unusable(Exception):
    """The line as it was written calls for nothing."""


def main(arguments: list[str]) -> int:
    from django.core.management import execute_from_command_line

    started: list[EmbeddedServer] = []
    try:
        folder, arguments = _split_folder(arguments)
        _refuse_unknown(arguments[0])
        if folder is not None or "DATABASE_URL" not in os.environ:
            place = Place(folder or Path(os.environ.get("CONSOLE_DATA", DEFAULT_FOLDER)))
            started = _find_or_start(place, arguments)
        os.environ.setdefault("SECRET_KEY", secrets.token_urlsafe(48))
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings.production")
        execute_from_command_line(["./dev manage", *arguments])
    except SystemExit as end:
        if end.code == 1 and arguments[0] in FAILS_ON_INPUT_ALONE:
            return 2
        raise
    except (EmbeddedServerFailed, PlaceUnusable, Unusable) as error:
        print(error, file=sys.stderr)
        return 2
    finally:
        for server in reversed(started):
            server.stop()
    return 0


def _split_folder(arguments: list[str]) -> tuple[Path | None, list[str]]:
    """--data before the command is ours; what follows the command is the command's."""
    folder = None
    while arguments and arguments[0].partition("=")[0] == DATA:
        _, is_joined, given = arguments[0].partition("=")
        if not is_joined:
            given = arguments[1] if len(arguments) > 1 else ""
        arguments = arguments[1 if is_joined else 2 :]
        if not given:
            raise Unusable("--data needs a folder: ./dev manage --data DIR COMMAND")
        folder = Path(given)
        if not folder.is_dir():
            raise Unusable(f"There is no data folder {folder}: give the one that ./dev up --data was given.")
    return folder, arguments or ["help"]


def _refuse_unknown(command: str) -> None:
    """Before any server is started for it. Raises Unusable."""
    is_word = command.isidentifier()
    if command in OF_DJANGO_ITSELF or is_word and any(ROOT.glob(f"apps/*/management/commands/{command}.py")):
        return
    environment = {"SECRET_KEY": "none", "DJANGO_SETTINGS_MODULE": "console.settings.production"}
    done = subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), "help", "--commands"],
        env={"DATABASE_URL": NO_DATABASE, **environment, **os.environ},
        capture_output=True,
        text=True,
    )
    if done.returncode == 0 and command not in done.stdout.split():
        raise Unusable(f"There is no command {command!r}: ./dev manage help lists them.")


def _find_or_start(place: Place, arguments: list[str]) -> list[EmbeddedServer]:
    running = place.running_environment() if place.folder.exists() else None
    if running:
        os.environ.update(running)
        return []
    if needs_no_database(arguments):
        stand_in_for_database(arguments)
        return []
    is_new = not (place.folder / "postgres").exists()
    print(
        f"No console runs on {place.folder}: its database, {'a new and empty one' if is_new else 'as kept'}, "
        "is started for this command (another folder: --data DIR).",
        file=sys.stderr,
        flush=True,
    )
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
