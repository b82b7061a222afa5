"""A process that has loaded the console once and forks a worker for each number it is told.

A forked worker is a process of its own: killing it kills nothing else, and it opens its own connections.
Loading the console anew for each of some hundred workers would take minutes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from console.embedded import die_with_parent

ROOT = Path(__file__).parents[2]
POLL_SECONDS = 0.005


@dataclass
class Worker:
    """A forked worker, with the words of a Popen. The nursery leaves no zombies: gone is gone."""

    pid: int

    def poll(self) -> int | None:
        """None while it runs."""
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return 0
        return None

    def kill(self) -> None:
        self.send(signal.SIGKILL)

    def send(self, what: signal.Signals) -> None:
        """Nothing happens where it is gone already."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, what)

    def wait(self, seconds: float = 20) -> None:
        deadline = time.monotonic() + seconds
        while self.poll() is None:
            assert time.monotonic() < deadline, f"worker {self.pid} does not end"
            time.sleep(POLL_SECONDS)


class Nursery:
    def __init__(self, child: subprocess.Popen[str]) -> None:
        assert child.stdin is not None
        assert child.stdout is not None
        self._orders: IO[str] = child.stdin
        self._answers: IO[str] = child.stdout

    def fork(self, execution_id: int) -> Worker:
        self._orders.write(f"{execution_id}\n")
        self._orders.flush()
        return Worker(int(self._answers.readline()))


@contextmanager
def open_nursery(environment: Mapping[str, str]) -> Iterator[Nursery]:
    child = subprocess.Popen(
        [sys.executable, "-m", "tests.executions.nursery"],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=die_with_parent,
    )
    try:
        yield Nursery(child)
    finally:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.close()
        child.wait(20)
        child.stdout.close()


def main() -> None:
    import django

    django.setup()
    import apps.executions.management.commands.reconcile  # noqa: F401

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while line := sys.stdin.readline():
        pid = os.fork()
        if pid == 0:
            _live(line.strip())
        print(pid, flush=True)


def _live(execution_id: str) -> None:
    from django.core.management import call_command

    die_with_parent(signal.SIGKILL)  # a worker that a test has stopped would keep a SIGTERM for later
    os.dup2(2, 1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        call_command("reconcile", "--execution", execution_id, "--until-idle")
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    main()
