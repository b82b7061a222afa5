"""Processes that have loaded the console once and fork a worker for each command line they are told.

A forked worker is a process of its own, as `manage.py` would start it: killing it kills nothing else, and it
opens its own connections. Loading the console anew for each of some hundred workers would take minutes.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from console.embedded import die_with_parent

ROOT = Path(__file__).parents[1]
POLL_SECONDS = 0.005
PRELOADED = ("simulate_cluster", "reconcile")
CURRENT_TEST = "PYTEST_CURRENT_TEST"
"""Differs in every test, and no worker asks for it."""

_open: dict[tuple[tuple[str, str], ...], Nursery] = {}


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
        self.send_signal(signal.SIGKILL)

    def send_signal(self, what: signal.Signals) -> None:
        """Nothing happens where it is gone already."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, what)

    def wait(self, timeout: float = 20) -> None:
        deadline = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(f"worker {self.pid}", timeout)
            time.sleep(POLL_SECONDS)


class Nursery:
    def __init__(self, child: subprocess.Popen[str]) -> None:
        assert child.stdin is not None
        assert child.stdout is not None
        self._child = child
        self._orders: IO[str] = child.stdin
        self._answers: IO[str] = child.stdout

    def fork(self, *arguments: str, log: Path | None = None) -> Worker:
        """`manage.py <arguments>`. log: where its output goes; the test's own if not given."""
        self._orders.write(json.dumps({"arguments": arguments, "log": str(log) if log else ""}) + "\n")
        self._orders.flush()
        return Worker(int(self._answers.readline()))

    def close(self) -> None:
        self._orders.close()
        self._child.wait(20)
        self._answers.close()


def nursery_for(environment: Mapping[str, str]) -> Nursery:
    """The one whose console was loaded under that environment; kept until this program ends."""
    loaded = {name: value for name, value in environment.items() if name != CURRENT_TEST}
    key = tuple(sorted(loaded.items()))
    if key not in _open:
        child = subprocess.Popen(
            [sys.executable, "-m", "tests.nursery"],
            cwd=ROOT,
            env=loaded,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=die_with_parent,
        )
        _open[key] = Nursery(child)
        atexit.register(_open[key].close)
    return _open[key]


def main() -> None:
    import django
    from django.core.management import get_commands, load_command_class

    django.setup()
    for name in PRELOADED:
        load_command_class(get_commands()[name], name)
    signal.signal(signal.SIGCHLD, _take_leave)
    while line := sys.stdin.readline():
        order = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _live(order)
        print(pid, flush=True)


def _take_leave(*_: object) -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _live(order: dict[str, Any]) -> None:
    from django.core.management import execute_from_command_line

    die_with_parent(signal.SIGKILL)  # a worker that a test has stopped would keep a SIGTERM for later
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    if order["log"]:
        os.dup2(os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), 2)
    os.dup2(2, 1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    code = 1
    try:
        execute_from_command_line(["manage.py", *order["arguments"]])
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
