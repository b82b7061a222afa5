"""The most that pods starting in some room could be worth: a bound for all states of all nodes at once.

Lagrangian: one resource is bought at a price, everything else but the devices is ignored, and every device is
filled by itself with whatever is worth most then. Supply is ignored too. Never less than the truth, so it
says where a closer look (filling) can be spared, and what no plan can exceed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
MOST_PRICES = 10


@dataclass(frozen=True, slots=True)
class Offer:
    """Pods of one shape that could be put into a room. number: the caller's. value: of one pod. amounts: of
    each resource. limit: pods at most."""

    number: int
    value: float
    milli: int
    gpus: int
    amounts: tuple[int, ...]
    limit: int


@dataclass(frozen=True, slots=True)
class Worth:
    """price: of one unit of `resource`. fills: most worth of a device, by what it has left in units."""

    resource: int
    price: float
    fills: Floats


class FillPrices:
    """For one set of offers. unit: milli by which all shares can be divided. resources: by number, those
    that are worth a price."""

    def __init__(self, offers: Sequence[Offer], unit: int, resources: Sequence[int]) -> None:
        self.unit = unit
        prices = _list_prices(offers, resources)
        filled = _fill_devices(offers, prices, unit)
        self.worths = [Worth(*price, fills) for price, fills in zip(prices, filled, strict=True)]

    def bound(self, left: Ints, devices: Ints) -> Floats:
        """left: (states, resources). devices: (states, devices) in milli."""
        if not len(left):
            return np.zeros(0)
        units = np.clip(devices, 0, 1000) // self.unit
        best = np.full(len(left), np.inf)
        for worth in self.worths:
            room = np.maximum(left[:, worth.resource], 0) * worth.price
            np.minimum(best, room + worth.fills[units].sum(axis=1), out=best)
        return best

    def closest(self, left: Sequence[int], devices: Sequence[int]) -> Worth:
        """The price that bounds this one room best."""
        return min(
            self.worths,
            key=lambda worth: (
                max(left[worth.resource], 0) * worth.price
                + sum(float(worth.fills[milli // self.unit]) for milli in devices)
            ),
        )


def _list_prices(offers: Sequence[Offer], resources: Sequence[int]) -> list[tuple[int, float]]:
    """Nothing for nothing, and for each resource what some of the offers get out of a unit of it."""
    prices = [(0, 0.0)]
    for resource in resources:
        rates = sorted(
            {one.value / one.amounts[resource] for one in offers if one.amounts[resource]}, reverse=True
        )
        step = max(1, -(-len(rates) // MOST_PRICES))
        prices += [(resource, rate) for rate in rates[::step] if rate > 0]
    return prices


def _fill_devices(offers: Sequence[Offer], prices: Sequence[tuple[int, float]], unit: int) -> list[Floats]:
    """An unbounded knapsack for every device size and every price together."""
    sizes: dict[int, Floats] = {}
    for one in offers:
        worth = np.array([one.value - price * one.amounts[at] for at, price in prices]) / one.gpus
        size = one.milli // unit
        sizes[size] = np.maximum(sizes.get(size, np.zeros(len(prices))), worth)
    steps = 1000 // unit
    fills = np.zeros((steps + 1, len(prices)))
    for step in range(1, steps + 1):
        fills[step] = fills[step - 1]
        for size, worth in sizes.items():
            if size <= step:
                np.maximum(fills[step], fills[step - size] + worth, out=fills[step])
    return [np.ascontiguousarray(fills[:, at]) for at in range(len(prices))]
