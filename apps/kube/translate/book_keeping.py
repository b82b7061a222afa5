"""Keeps the book of devices by claims, and makes it anew when something in it has changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from apps.kube.gateway import CLAIM_TEMPLATES, RESOURCE_CLAIMS, RESOURCE_SLICES, Kind
from apps.kube.translate.claims import read_claim, read_claim_template
from apps.kube.translate.device_book import NOTHING, DeviceBook, make_book
from apps.kube.translate.slices import read_slice
from apps.kube.translate.unreadable import Raw

Reader = Callable[[Mapping[str, Any]], Any]
PAGES: tuple[tuple[Kind, Reader], ...] = (
    (RESOURCE_SLICES, read_slice),
    (RESOURCE_CLAIMS, read_claim),
    (CLAIM_TEMPLATES, read_claim_template),
)


class BookKeeper:
    """Gives the very same book as long as its slices, claims and templates are the same objects."""

    def __init__(self) -> None:
        self._pages: tuple[tuple[Any, ...], ...] = ()
        self._book = NOTHING

    def keep(
        self,
        objects: Mapping[Kind, Iterable[Raw]],
        remembered: Callable[[str, Raw, Reader, list[str]], Any],
        said: list[str],
    ) -> DeviceBook:
        """remembered: reads one object of a kind, None where it cannot be read."""
        pages = tuple(
            tuple(remembered(kind.plural, raw, read, said) for raw in objects.get(kind, ()))
            for kind, read in PAGES
        )
        if not _are_the_same(self._pages, pages):
            slices, claims, templates = ([page for page in section if page is not None] for section in pages)
            self._pages, self._book = pages, make_book(slices, claims, templates)
        said.extend(pool.problem for pool in self._book.pools.values() if pool.problem and not pool.node)
        return self._book


def _are_the_same(some: tuple[tuple[Any, ...], ...], others: tuple[tuple[Any, ...], ...]) -> bool:
    """The very same objects, section by section."""
    return len(some) == len(others) and all(
        len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))
        for one, other in zip(some, others, strict=True)
    )
