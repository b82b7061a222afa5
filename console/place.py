"""The folder in which the embedded default keeps everything, and the environment that follows from it.

Not used in deployments: there every setting comes from outside.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DEFAULT_FOLDER = ROOT / ".data"


class PlaceIsTaken(Exception):
    """Another `./dev up` runs on the same folder."""


class PlaceUnusable(Exception):
    """The folder cannot be made, or not be written."""


class Place:
    """folder: data, logs, keys and the note of what runs. Readable by its owner only."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()

    def prepare(self) -> None:
        """Make the folder. It must let `nobody` pass, because PostgreSQL refuses to run as root.

        Raises PlaceUnusable.
        """
        try:
            self.folder.mkdir(mode=0o711, parents=True, exist_ok=True)
            self.logs.mkdir(mode=0o700, exist_ok=True)
            (self.folder / "lock").touch(mode=0o600)
        except OSError as error:
            raise PlaceUnusable(
                f"The data folder {self.folder} cannot be used: {error.strerror} ({error.filename}). "
                "Choose another --data."
            ) from error

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    @property
    def note(self) -> Path:
        return self.folder / "running.json"

    def take(self) -> int:
        """Lock the folder for this process's life. Raises PlaceIsTaken. Returns the descriptor to keep."""
        descriptor = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise PlaceIsTaken(
                f"The console already runs on {self.folder}. Stop it there, or choose another --data."
            ) from None
        return descriptor

    def running_environment(self) -> dict[str, str] | None:
        """The environment of the console that runs on this folder now; None if none does."""
        try:
            descriptor = self.take()
        except (PlaceIsTaken, OSError):
            return self.read_secret_json("running.json").get("environment")
        os.close(descriptor)
        return None

    def kept_secret(self, name: str) -> str:
        """A random string, made on first use and the same ever after."""
        kept = self.read_secret_json("secrets.json")
        if name not in kept:
            kept[name] = secrets.token_urlsafe(48)
            self.write_secret_json("secrets.json", kept)
        return str(kept[name])

    def read_secret_json(self, name: str) -> dict[str, Any]:
        file = self.folder / name
        return json.loads(file.read_text()) if file.exists() else {}

    def write_secret_json(self, name: str, content: dict[str, Any]) -> None:
        half = self.folder / f"{name}.{os.getpid()}"
        half.touch(mode=0o600)
        half.write_text(json.dumps(content))
        half.replace(self.folder / name)

    def environment(self, *, database_url: str, redis_url: str) -> dict[str, str]:
        """What every process of the embedded default gets on top of the caller's environment."""
        return {
            "DJANGO_SETTINGS_MODULE": "console.settings.production",
            "SECRET_KEY": self.kept_secret("SECRET_KEY"),
            "DATABASE_URL": database_url,
            "REDIS_URL": redis_url,
            "INSECURE_HTTP": "1",
            "STATIC_ROOT": str(self.folder / "static"),
        }
