"""One round of a timer over many rows, in which each stands for itself.

Not in here: which rows are due, and what is done with one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TypeVar

import structlog
from celery.exceptions import SoftTimeLimitExceeded

log = structlog.get_logger(__name__)
Row = TypeVar("Row")
Answer = TypeVar("Answer")


def act_on_each(
    rows: Iterable[Row], act: Callable[[Row], Answer], until: float | None = None
) -> list[Answer]:
    """What `act` answered, of those that did not fail.

    One that fails for a reason nobody foresaw holds up no other: the log tells of it, and the next timer
    tries it again. until: no further one is begun after this moment of time.monotonic(), in seconds.
    """
    answers = []
    for row in rows:
        try:
            answers.append(act(row))
        except SoftTimeLimitExceeded:
            raise
        except Exception:
            log.exception("one of a round failed", what=getattr(act, "__name__", ""), row=str(row))
        if until is not None and time.monotonic() > until:
            break
    return answers
