"""Runs the whole product as a person does, through `./dev up`, and ends it again."""

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]
SECONDS_TO_READY = 150


@contextmanager
def console_up(data: Path, *options: str):
    """Yield (process, ready) where `ready` is the one JSON line of `./dev up --json`."""
    env = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "REDIS_URL")}
    env.pop("DJANGO_SETTINGS_MODULE", None)
    errors = data.with_suffix(".err")
    with errors.open("w") as stderr:
        process = subprocess.Popen(
            [sys.executable, str(ROOT / "dev"), "up", "--json", "--data", str(data), *options],
            cwd=ROOT,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    try:
        line = process.stdout.readline()
        assert line, f"./dev up ended with {process.wait(30)}:\n{errors.read_text()}{logs_of(data)}"
        yield process, json.loads(line)
    finally:
        end(process)


def end(process: subprocess.Popen, by: signal.Signals = signal.SIGTERM) -> None:
    if process.poll() is None:
        process.send_signal(by)
        process.wait(60)


def family_of(process: subprocess.Popen) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


def environment_of(data: Path) -> dict[str, str]:
    """What a management command needs in order to speak to the console that runs on `data`."""
    return {**os.environ, **json.loads((data / "running.json").read_text())["environment"]}


def logs_of(data: Path) -> str:
    return "".join(
        f"\n--- {log.name}\n" + "\n".join(log.read_text(errors="replace").splitlines()[-30:])
        for log in sorted((data / "logs").glob("*.log"))
    )
