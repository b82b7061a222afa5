"""What a page says of the last thing that somebody did: one line on the next page, done or refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.contrib import messages
from django.http import HttpRequest

from apps.accounts.errors import Denied, NotVisible, TooManyRequests
from apps.dashboard.reading.words import sentence


def refuse(request: HttpRequest, error: Exception) -> None:
    """A domain error becomes one line on the next page: what, where, what to do."""
    messages.add_message(request, messages.ERROR, _sentence(str(error)), extra_tags="bad")


@contextmanager
def refusing(request: HttpRequest, *more: type[Exception]) -> Iterator[None]:
    """What is denied, what comes too often, and these `more` errors become a line on the next page. What may
    not be seen stays absent."""
    try:
        yield
    except NotVisible:
        raise
    except Exception as error:
        if not isinstance(error, (Denied, TooManyRequests, *more)):
            raise
        refuse(request, error)


def tell(request: HttpRequest, text: str) -> None:
    messages.add_message(request, messages.SUCCESS, text, extra_tags="ok")


def _sentence(text: str) -> str:
    return sentence(text) if text else "It was refused without a reason"
