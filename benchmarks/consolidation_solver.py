"""Empties as many hosts as can be of a cluster of virtual machines, and moves little memory for it.

A linear program over hosts and classes of machines with the same ratio of memory to CPU says how much of
each class leaves and reaches each host at best, each host keeping a part of the room to spare. Then machines
are put, largest first, where the program wants their class; for one that fits nowhere, others make room on
the hosts that come nearest to taking it. At the end whoever can go home goes home.
Not in here: reading instances, other solvers (consolidation).
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from dataclasses import dataclass

import highspy
import numpy as np

MOST_PUSHES, NEAREST = 150, 6
FIRST_TRIES = (
    *((0.5, 0.3), (0.25, 0.15), (0.0, 0.3), (0.0, 0.15), (0.0, 0.5)),
    *((0.1, 0.2), (0.05, 0.1), (0.15, 0.4), (0.05, 0.25), (0.3, 0.05), (0.0, 0.0), (0.1, 0.6)),
)
"""(room to spare that a host may do without, 0 to 1; part of a machine that is rounded up to a whole one)."""
MORE_TRIES, LEAST_STEP = 3, 0.1


@dataclass(frozen=True, slots=True)
class Instance:
    """hosts, machines: (CPU, memory in MiB). homes: the host of each machine, by position."""

    hosts: np.ndarray
    machines: np.ndarray
    homes: np.ndarray


@dataclass(slots=True)
class Result:
    """places: the host of each machine. least_hosts: no packing has fewer."""

    places: np.ndarray
    least_hosts: int


@dataclass(slots=True)
class Wishes:
    """What leaves and reaches each host at best, in CPU by (host, class)."""

    out: np.ndarray
    into: np.ndarray
    memory: float = 0.0


def consolidate(instance: Instance) -> Result:
    """The fewest hosts first; then, by halving, the least room to spare on each host with which a packing is
    found, because that moves the least memory."""
    classes, ratios = class_machines(instance)
    stock = np.zeros((len(instance.hosts), len(ratios)))
    np.add.at(stock, (instance.homes, classes), instance.machines[:, 0])
    used = np.unique(instance.homes)
    least = count_least(instance)
    for left in range(least, len(used)):
        emptied = choose_emptied(instance, stock, ratios, used, left)
        found = _halve(instance, classes, ratios, stock, emptied)
        if found is not None:
            return Result(found, least)
    return Result(instance.homes.copy(), least)


def _halve(
    instance: Instance, classes: np.ndarray, ratios: np.ndarray, stock: np.ndarray, emptied: np.ndarray
) -> np.ndarray | None:
    best: tuple[float, np.ndarray] | None = None
    low, high, rounding = 0.0, 1.0, FIRST_TRIES[0][1]
    tries = list(FIRST_TRIES)
    for _ in range(MORE_TRIES + len(FIRST_TRIES)):
        if best is None and tries:
            spread, rounding = tries.pop(0)
        elif best is None or high - low < LEAST_STEP:
            break
        else:
            spread = (low + high) / 2
        wishes = solve_flows(instance, stock, ratios, emptied, spread)
        packing = Packing(instance, classes, emptied, wishes, rounding) if wishes is not None else None
        if packing is None or not packing.place_all():
            high = spread if spread > low else high
            continue
        low, high = spread, max(high, spread)
        packing.send_home()
        places = packing.settle()
        memory = float(instance.machines[places != instance.homes, 1].sum())
        if best is None or memory < best[0]:
            best = memory, places
    return best[1] if best is not None else None


def class_machines(instance: Instance) -> tuple[np.ndarray, np.ndarray]:
    """(class of each machine, memory per CPU of each class)."""
    ratios = instance.machines[:, 1] / np.maximum(instance.machines[:, 0], 1e-9)
    values, classes = np.unique(np.round(ratios, 6), return_inverse=True)
    return classes, values


def count_least(instance: Instance) -> int:
    """Hosts that the machines need at least, by each resource alone, the largest hosts first."""
    least = 0
    for at in range(instance.hosts.shape[1]):
        room = np.cumsum(np.sort(instance.hosts[:, at])[::-1])
        least = max(least, int(np.searchsorted(room, instance.machines[:, at].sum() - 1e-6)) + 1)
    return least


def choose_emptied(
    instance: Instance, stock: np.ndarray, ratios: np.ndarray, used: np.ndarray, left: int
) -> np.ndarray:
    """Whether each host is empty in the end: those that are now, and those with the least memory in use."""
    emptied = ~np.isin(np.arange(len(instance.hosts)), used)
    memory = stock @ ratios
    emptied[used[np.argsort(memory[used], kind="stable")][: len(used) - left]] = True
    return emptied


def solve_flows(
    instance: Instance, stock: np.ndarray, ratios: np.ndarray, emptied: np.ndarray, spread: float = 1.0
) -> Wishes | None:
    """Columns: what leaves each host of each class, then what reaches it, in CPU."""
    hosts, classes = stock.shape
    number = hosts * classes
    kept = ~emptied
    filled = instance.machines.sum(axis=0) / instance.hosts[kept].sum(axis=0)
    hosts_room = instance.hosts * (filled + (1 - filled) * spread)
    low = np.where(emptied[:, None], stock, 0.0).ravel()
    limits = np.where(kept[:, None], np.inf, 0.0).repeat(classes, axis=1).ravel()[:number]
    weights: list[tuple[list[int], list[float], float]] = []
    lows: list[float] = []
    for host in np.flatnonzero(kept):
        leave = [int(host) * classes + at for at in range(classes)]
        reach = [number + one for one in leave]
        cpu = stock[host].sum()
        mem = float(stock[host] @ ratios)
        weights.append(
            ([*leave, *reach], [-1.0] * classes + [1.0] * classes, float(hosts_room[host, 0] - cpu))
        )
        weights.append(
            ([*leave, *reach], [*(-ratios / 1024), *(ratios / 1024)], float(hosts_room[host, 1] - mem) / 1024)
        )
        lows += [-np.inf, -np.inf]
    for at in range(classes):
        columns = [host * classes + at for host in range(hosts)]
        weights.append(([*columns, *(number + one for one in columns)], [1.0] * hosts + [-1.0] * hosts, 0.0))
        lows.append(0.0)
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = 2 * number, len(weights)
    model.col_cost_ = np.concatenate([np.tile(ratios / 1024, hosts), np.zeros(number)])
    model.col_lower_ = np.concatenate([low, np.zeros(number)])
    model.col_upper_ = np.concatenate([stock.ravel(), limits])
    model.row_lower_ = np.array(lows)
    model.row_upper_ = np.array([high for _, _, high in weights])
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = np.cumsum([0, *(len(columns) for columns, _, _ in weights)]).astype(np.int32)
    model.a_matrix_.index_ = np.array([one for columns, _, _ in weights for one in columns], dtype=np.int32)
    model.a_matrix_.value_ = np.array([one for _, values, _ in weights for one in values])
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.passModel(model)
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    values = np.array(solver.getSolution().col_value)
    memory = 1024 * solver.getInfo().objective_function_value
    return Wishes(values[:number].reshape(stock.shape), values[number:].reshape(stock.shape), memory)


class Packing:
    """Machines by host and flavour (CPU, memory); which of equal machines moves is settled at the end."""

    def __init__(
        self,
        instance: Instance,
        classes: np.ndarray,
        emptied: np.ndarray,
        wishes: Wishes,
        rounding: float,
    ) -> None:
        self.instance, self.rounding = instance, rounding
        self.flavours, self.flavour_of = np.unique(instance.machines, axis=0, return_inverse=True)
        self.flavour_of = self.flavour_of.ravel()
        self.class_of = np.zeros(len(self.flavours), dtype=int)
        self.class_of[self.flavour_of] = classes
        self.home = np.zeros((len(instance.hosts), len(self.flavours)), dtype=int)
        np.add.at(self.home, (instance.homes, self.flavour_of), 1)
        self.now = self.home.copy()
        self.now[emptied] = 0
        self.kept = np.flatnonzero(~emptied)
        self.left = instance.hosts - self.now @ self.flavours
        self.out, self.into = wishes.out.copy(), wishes.into.copy()
        total = instance.machines.sum(axis=0)
        self.size = (self.flavours / total).sum(axis=1)
        self.order = np.argsort(-self.size, kind="stable")
        self.pool: list[tuple[float, int]] = []
        self._set_out()
        for flavour, number in enumerate((self.home - self.now).sum(axis=0)):
            for _ in range(int(number)):
                heapq.heappush(self.pool, (-self.size[flavour], flavour))

    def _set_out(self) -> None:
        """What shall leave each host, in whole machines: the largest first, the last one rounded."""
        for host in self.kept:
            for flavour in self.order:
                cpu = self.flavours[flavour, 0]
                wish = self.out[host, self.class_of[flavour]]
                number = min(int(self.now[host, flavour]), int((wish + 1e-6) // cpu))
                for _ in range(number):
                    self._remove(int(host), int(flavour))
            for flavour in self.order[::-1]:
                wish = self.out[host, self.class_of[flavour]]
                if self.now[host, flavour] and wish > self.rounding * self.flavours[flavour, 0]:
                    self._remove(int(host), int(flavour))

    def place_all(self) -> bool:
        pushes = 0
        while self.pool:
            _, flavour = heapq.heappop(self.pool)
            host = self._find(flavour)
            if host is None:
                pushes += 1
                if pushes > MOST_PUSHES:
                    return False
                host = self._push(flavour, pushes)
                if host is None:
                    return False
            self._add(host, flavour)
        return True

    def _find(self, flavour: int) -> int | None:
        """Where its class is wanted most, else where what is left stays in balance."""
        need, kept = self.flavours[flavour], self.kept
        fits = kept[(self.left[kept] >= need).all(axis=1)]
        if not len(fits):
            return None
        wish = self.into[fits, self.class_of[flavour]]
        if wish.max() >= 0.5 * need[0]:
            return int(fits[np.argmax(wish)])
        left = (self.left[fits] - need) / self.instance.hosts[fits]
        return int(fits[np.argmin(np.abs(left[:, 0] - left[:, 1]) + 0.2 * left.sum(axis=1))])

    def _push(self, flavour: int, pushes: int) -> int | None:
        """Makes room on one of the hosts that lack least, where the least memory has to leave."""
        need, kept = self.flavours[flavour], self.kept
        best: tuple[float, int, list[int]] | None = None
        short = (np.maximum(need - self.left[kept], 0) / self.instance.hosts[kept]).sum(axis=1)
        noise = 1 + 0.3 * ((pushes * 7919 + kept * 104729) % 17) / 17
        for host in kept[np.argsort(short * noise, kind="stable")[:NEAREST]]:
            leaving = self._choose_leaving(int(host), flavour)
            if leaving is None:
                continue
            cost = self._cost(int(host), leaving) + 0.2 * sum(self.flavours[one, 1] for one in leaving)
            cost *= 1 + 0.5 * ((pushes * 7919 + int(host) * 104729) % 17) / 17
            if best is None or cost < best[0]:
                best = cost, int(host), leaving
        if best is None:
            return None
        _, host, leaving = best
        for one in leaving:
            self._remove(host, one)
            heapq.heappush(self.pool, (-self.size[one], one))
        return host

    def _choose_leaving(self, host: int, flavour: int) -> list[int] | None:
        """Machines that make room together: smaller ones, or lighter or slimmer ones of another class."""
        need = self.flavours[flavour] - self.left[host]
        taken: list[int] = []
        here = self.now[host]
        short = need > 0
        candidates = []
        smaller = self.size < self.size[flavour] - 1e-12
        lighter = (self.flavours[:, 1] <= self.flavours[flavour, 1]) & (
            self.class_of < self.class_of[flavour]
        )
        slimmer = (self.flavours[:, 0] <= self.flavours[flavour, 0]) & (
            self.class_of > self.class_of[flavour]
        )
        for one in np.flatnonzero((here > 0) & (smaller | lighter | slimmer)):
            shape = self.flavours[one]
            is_away = here[one] > self.home[host, one]
            use = (np.minimum(shape, need)[short] / self.instance.hosts[host][short]).sum()
            candidates.append((-(use * (3 if is_away else 1)) / max(shape[1], 1.0), int(one)))
        for _, one in sorted(candidates):
            shape = self.flavours[one]
            for _ in range(int(here[one])):
                if (need <= 0).all():
                    break
                taken.append(one)
                need = need - shape
        if not (need <= 0).all():
            return None
        for one in sorted(set(taken), key=lambda one: -self.flavours[one, 1]):
            while one in taken and (need + self.flavours[one] <= 0).all():
                taken.remove(one)
                need = need + self.flavours[one]
        return taken

    def _cost(self, host: int, leaving: list[int]) -> float:
        """Memory that leaves home."""
        gone: dict[int, int] = defaultdict(int)
        for one in leaving:
            gone[one] += 1
        return float(
            sum(
                self.flavours[one, 1]
                * min(number, max(0, self.home[host, one] - self.now[host, one] + number))
                for one, number in gone.items()
            )
        )

    def _add(self, host: int, flavour: int) -> None:
        self.now[host, flavour] += 1
        self.left[host] -= self.flavours[flavour]
        self.into[host, self.class_of[flavour]] -= self.flavours[flavour, 0]

    def _remove(self, host: int, flavour: int) -> None:
        self.now[host, flavour] -= 1
        self.left[host] += self.flavours[flavour]
        self.out[host, self.class_of[flavour]] -= self.flavours[flavour, 0]

    def send_home(self) -> None:
        """Machines that are away and fit at home by now."""
        changed = True
        while changed:
            changed = False
            for flavour in self.order:
                for home in self.kept[self.now[self.kept, flavour] < self.home[self.kept, flavour]]:
                    away = self.kept[self.now[self.kept, flavour] > self.home[self.kept, flavour]]
                    if len(away) and (self.left[home] >= self.flavours[flavour]).all():
                        self._remove(int(away[0]), int(flavour))
                        self._add(int(home), int(flavour))
                        changed = True

    def settle(self) -> np.ndarray:
        """The host of each machine: as many stay as can."""
        places = self.instance.homes.copy()
        spare: dict[int, list[int]] = defaultdict(list)
        room = self.now.copy()
        for machine, host in enumerate(self.instance.homes):
            flavour = self.flavour_of[machine]
            if room[host, flavour] > 0:
                room[host, flavour] -= 1
            else:
                spare[int(flavour)].append(machine)
        for flavour, machines in spare.items():
            targets = [int(host) for host in self.kept for _ in range(int(room[host, flavour]))]
            for machine, target in zip(machines, targets, strict=True):
                places[machine] = target
        return places
