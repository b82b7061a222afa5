"""How a command answers that reads what it is given: one clear line and exit code 2 where it cannot.

Whatever the input is, nothing ends in a traceback, in a terminal steered by somebody's text, or in more
memory than a large cluster needs.
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, ClassVar, NoReturn

from django.core.management.base import BaseCommand, CommandError

from apps.clusters.errors import ClusterError
from apps.planner.plain import one_line, visible_lines

BAD_INPUT = 2
MOST_MEMORY = 8 * 1024**3
STATUS = "/proc/self/status"


class OfflineCommand(BaseCommand):
    """A command that needs no database and no cluster.

    errors: what else than the errors of clusters says that the input is bad, in a sentence of its own.
    """

    requires_system_checks: ClassVar[list[str]] = []  # type: ignore[misc]
    errors: ClassVar[tuple[type[Exception], ...]] = ()

    def execute(self, *args: Any, **options: Any) -> str | None:
        with bad_input_told(*self.errors):
            return super().execute(*args, **options)

    def tell(self, text: str) -> None:
        """An answer in words, in which names of others may stand."""
        self.stdout.write(visible_lines(text))


@contextmanager
def bad_input_told(*errors: type[Exception]) -> Iterator[None]:
    """errors: what else than the errors of clusters says that the input is bad, in a sentence of its own."""
    refusals: tuple[type[Exception], ...] = (ClusterError, *errors)
    with _bounded_memory():
        try:
            yield
            sys.stdout.flush()
        except CommandError as error:
            raise CommandError(one_line(error), returncode=error.returncode) from error
        except refusals as error:
            raise CommandError(one_line(error), returncode=BAD_INPUT) from error
        except BrokenPipeError:
            _end_quietly()
        except MemoryError:
            sentence = f"reading it takes more than {MOST_MEMORY >> 30} GiB of memory: give less at once."
            raise CommandError(sentence, returncode=BAD_INPUT) from None
        except RecursionError:
            raise CommandError("it is nested too deeply to be read.", returncode=BAD_INPUT) from None


@contextmanager
def _bounded_memory() -> Iterator[None]:
    """Makes Python itself say that memory runs out, before the machine's does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = _held_now() + MOST_MEMORY
    if any(limit not in (resource.RLIM_INFINITY, -1) and limit <= most for limit in (soft, hard)):
        yield
        return
    resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _held_now() -> int:
    with suppress(OSError, ValueError, IndexError), open(STATUS, encoding="ascii") as file:
        return int(file.read().split("VmData:")[1].split()[0]) * 1024
    return 0


def _end_quietly() -> NoReturn:
    """Whoever reads the answer has read enough (`… | head`). Python would still say so at its end."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    raise SystemExit(0)
