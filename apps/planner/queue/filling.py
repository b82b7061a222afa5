"""Which waiting pods to start in one room so that they are worth most: a search with a bound.

The order is by worth per device, the best device for a share is the tightest. The search gives up after a
number of steps; what it has then is an answer, but no proof. Not in here: links, ports and rules between
pods, which the board asks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from apps.planner.queue.prices import FillPrices, Offer
from apps.planner.rooms import WHOLE

EPSILON = 1e-6
Devices = tuple[int, ...]


class Filling:
    """One search over one set of offers; `fill` may be asked again and again."""

    def __init__(self, offers: Sequence[Offer], prices: FillPrices, most_steps: int) -> None:
        self.prices = prices
        self.most_steps = most_steps
        self.offers = sorted(
            (one for one in offers if one.value > EPSILON),
            key=lambda one: (-one.value / (one.gpus * one.milli), one.amounts, one.number),
        )
        self._known: dict[tuple[tuple[int, ...], Devices], tuple[float, tuple[tuple[int, int], ...]]] = {}

    def fill(self, left: tuple[int, ...], devices: Devices) -> tuple[float, tuple[tuple[int, int], ...]]:
        """What the pods are worth, and how many of each offer (by its number). devices: milli left."""
        key = (left, devices)
        known = self._known.get(key)
        if known is None:
            self._worth = self.prices.closest(left, devices)
            self._fills = self._worth.fills.tolist()
            self._steps, self._best = 0, 0.0
            self._chosen: tuple[tuple[int, int], ...] = ()
            self._used = [0] * len(self.offers)
            self._grow(0, left, devices, 0.0)
            known = self._known[key] = (self._best, self._chosen)
        return known

    def _grow(self, first: int, left: tuple[int, ...], devices: Devices, value: float) -> None:
        self._steps += 1
        if value > self._best + EPSILON:
            counts = ((self.offers[at].number, count) for at, count in enumerate(self._used) if count)
            self._best, self._chosen = value, tuple(sorted(counts))
        if value + self._bound(left, devices) <= self._best + EPSILON:
            return
        seats: dict[tuple[int, int], Devices | None] = {}
        for at in range(first, len(self.offers)):
            one = self.offers[at]
            kind = (one.milli, one.gpus)
            if kind not in seats:
                seats[kind] = seat(one, devices)
            seated = seats[kind]
            if seated is None or self._used[at] >= one.limit:
                continue
            spare = tuple([have - take for have, take in zip(left, one.amounts, strict=False)])
            if min(spare) < 0:
                continue
            self._used[at] += 1
            self._grow(at, spare, seated, value + one.value)
            self._used[at] -= 1
            if self._steps > self.most_steps:
                return

    def _bound(self, left: tuple[int, ...], devices: Devices) -> float:
        unit, fills = self.prices.unit, self._fills
        return left[self._worth.resource] * self._worth.price + sum(fills[milli // unit] for milli in devices)


def list_fillings(
    offers: Sequence[Offer], left: tuple[int, ...], devices: Devices, most: int
) -> list[tuple[tuple[int, int], ...]]:
    """Every set of pods that fits and to which none can be added (placed in this order), `most` of
    them: how many of each offer."""
    found: list[tuple[tuple[int, int], ...]] = []
    stack: list[tuple[int, tuple[int, ...], Devices, tuple[int, ...]]] = [
        (0, left, devices, (0,) * len(offers))
    ]
    while stack and len(found) < most:
        first, room, rest, counts = stack.pop()
        grown = 0
        for at, one in enumerate(offers):
            seated = seat(one, rest) if counts[at] < one.limit else None
            spare = tuple(have - take for have, take in zip(room, one.amounts, strict=True))
            if seated is None or min(spare) < 0:
                continue
            grown += 1
            if at >= first:
                stack.append((at, spare, seated, (*counts[:at], counts[at] + 1, *counts[at + 1 :])))
        if not grown and any(counts):
            found.append(
                tuple((one.number, count) for one, count in zip(offers, counts, strict=True) if count)
            )
    return found


def seat(one: Offer, devices: Devices) -> Devices | None:
    """The devices after one more pod, sorted; full ones are left out."""
    if one.milli >= WHOLE:
        if len(devices) < one.gpus or devices[-one.gpus] < WHOLE:
            return None
        return devices[: -one.gpus]
    at = bisect_left(devices, one.milli)
    if at + one.gpus > len(devices):
        return None
    rest = [milli - one.milli for milli in devices[at : at + one.gpus]]
    return tuple(sorted([*devices[:at], *filter(None, rest), *devices[at + one.gpus :]]))
