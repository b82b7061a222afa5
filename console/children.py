"""The supervised children of `./dev up`: started, started again, and ended."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from console.embedded import die_with_parent
from console.place import ROOT

SECONDS_TO_START = 90
SECONDS_BETWEEN_WORDS = 30
RESTARTS_ALLOWED = 5
RESTARTS_COUNTED_SECONDS = 120


class StartFailed(Exception):
    """What did not start, why, and where to look."""


@dataclass
class Child:
    """One process of the product. log: where its output goes, kept over restarts.

    orphaned_by: the signal it gets when this process is gone, together with its database and broker.
    """

    name: str
    command: list[str]
    environment: dict[str, str]
    log: Path
    orphaned_by: signal.Signals = signal.SIGTERM
    process: subprocess.Popen[bytes] | None = None
    restarts: list[float] = field(default_factory=list)

    def start(self) -> None:
        with self.log.open("ab") as output:
            self.process = subprocess.Popen(
                self.command,
                env=self.environment,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=lambda: die_with_parent(self.orphaned_by),
            )

    @property
    def exit_status(self) -> int | None:
        """None while it runs (or was never started)."""
        return None if self.process is None else self.process.poll()

    def start_again(self) -> None:
        """Raises StartFailed when it keeps ending."""
        now = time.monotonic()
        self.restarts = [at for at in self.restarts if now - at < RESTARTS_COUNTED_SECONDS] + [now]
        if len(self.restarts) > RESTARTS_ALLOWED:
            raise StartFailed(f"{self.name} keeps ending. {self.end_of_log()}")
        self.start()

    def wait_until(
        self,
        is_ready: Callable[[], bool],
        seconds: float = SECONDS_TO_START,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Poll until it is ready; tell says now and then that it still is not.

        Raises StartFailed when it ends first or takes longer than so many seconds.
        """
        began = time.monotonic()
        next_word = began + SECONDS_BETWEEN_WORDS
        while (now := time.monotonic()) < began + seconds:
            if self.exit_status is not None:
                raise StartFailed(f"{self.name} did not start. {self.end_of_log()}")
            if is_ready():
                return
            if now >= next_word:
                tell(f"Still waiting for {self.name} ({now - began:.0f} s, {seconds:.0f} s at most) ...")
                next_word = now + SECONDS_BETWEEN_WORDS
            time.sleep(0.05)
        raise StartFailed(f"{self.name} was not ready within {seconds:.0f} s; see {self.log}.")

    def ask_to_end(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)

    def end(self, seconds: float = 20) -> None:
        """Ask, wait, then insist (with all that it started)."""
        if self.process is None:
            return
        self.ask_to_end()
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def end_of_log(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return f"The end of {self.log}:\n" + "\n".join(lines[-12:])
