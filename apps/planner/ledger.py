"""One ledger per physical device: who has what of it, what is left, and what of that nobody can use.

Whole GPUs, turns, shares of cores and memory and MIG instances of one card all stand in its one account, so
no card is given out twice. A pod whose device no source tells is counted on its node, never placed on a
device. Total (physical), schedulable and eligible (for one pod) are three numbers (`counting`).
Not in here: what could still be placed (rooms), what to do about it (defrag).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from apps.planner.devices import DeviceGroup, Gpu, Holding, Source
from apps.planner.inventory import Node, Pod
from apps.planner.ledger_devices import Claims, account_for, account_for_cut, part_of_profile
from apps.planner.ledger_rows import DeviceLedger, Flag, GroupLedger, NodeLedger, Taker, Unlocated, Waste
from apps.planner.ledger_waste import Around, host_waste, sum_up
from apps.planner.mig.nodes import offered_profiles
from apps.planner.mig.use import instance_memory, model_of, read_use, single_profile
from apps.planner.shares import (
    WHOLE,
    Asked,
    asked_of,
    asked_of_group,
    is_load,
    part_of,
    parts_of,
    shares_in_time,
    units_of,
)
from apps.planner.snapshot import Snapshot

HEALTH_TAINTS = "node.kubernetes.io/"
NOWHERE: Counter[str] = Counter()
KEEPS_OUT = ("NoSchedule", "NoExecute")


def node_ledger(snapshot: Snapshot, node: Node) -> NodeLedger:
    return ledger_of(node, snapshot.pods_on(node.name))


def ledger_of(node: Node, pods: Sequence[Pod]) -> NodeLedger:
    """pods: those that hold resources on the node (`Snapshot.pods_on`)."""
    guests = {pod.uid: pod for pod in pods if is_load(pod)}
    asked = {uid: found for uid, pod in sorted(guests.items()) if (found := asked_of(node, pod))}
    seats = _Seats(node, guests)
    closed = why_closed(node)
    claims = {uid: pod.claims for uid, pod in guests.items() if pod.claims}
    around = Around(
        is_open=not closed,
        offered=_offered_units(node),
        used=sum(units_of(node, one) for one in asked.values()),
        unlocated=_unlocated(node, guests, asked, seats),
        is_cut_unseen=_is_cut_unseen(node),
        is_single=bool(single_profile(node)),
        offers_slots=shares_in_time(node) or bool(single_profile(node)),
        host=host_waste(node, pods),
        overcommitted=_overcommitted_instances(node, asked.values()),
        beyond_cards=_beyond_cards(node, asked),
    )
    group = DeviceGroup(
        node.vendor, node.gpu_resource, node.model, node.gpus, node.sharing, node.shares_per_gpu
    )
    main = sum_up(group, _main_devices(node, pods, seats, claims), around)
    main = replace(main, parts=parts_of(node, pods))
    return NodeLedger(
        name=node.name,
        uid=node.uid,
        main=main,
        others=tuple(
            _other(node, group, guests, seats, claims, closed, around.host) for group in node.others
        ),
        closed=closed,
        is_told=node.holdings is not None,
        strays=tuple(seats.strays),
    )


def why_closed(node: Node) -> str:
    """Why nothing of it is schedulable, in words; "" for an open node."""
    if not node.ready:
        return f"not Ready ({node.ready_reason})" if node.ready_reason else "not Ready"
    if node.stale_since is not None:
        return "its facts are stale"
    if node.unschedulable:
        return "cordoned"
    sick = next(
        (one for one in node.taints if one.key.startswith(HEALTH_TAINTS) and one.effect in KEEPS_OUT), None
    )
    return f"taint {sick.key}" if sick else ""


class _Seats:
    """The node's holdings, sorted onto its devices and MIG instances."""

    def __init__(self, node: Node, guests: Mapping[str, Pod]) -> None:
        self.on_device: dict[str, list[Taker]] = defaultdict(list)
        self.on_instance: dict[str, list[Taker]] = defaultdict(list)
        self.strays: list[Taker] = []
        self.ghosts: set[str] = set()
        self.found: dict[str, Counter[str]] = defaultdict(Counter)
        devices = {gpu.key for gpu in (*node.gpus, *(gpu for group in node.others for gpu in group.gpus))}
        profiles = {one.uuid: one.profile for gpu in node.gpus for one in gpu.instances if one.uuid}
        for holding in sorted(node.holdings or (), key=_order):
            pod = guests.get(holding.pod_uid)
            if holding.kept_by:
                self._seat_kept(holding, devices, profiles)
            elif pod is None:
                self.ghosts.add(holding.device)
            elif holding.device in devices:
                self.on_device[holding.device].append(_taker(holding, pod))
                self.found[pod.uid][""] += 1
            elif holding.device in profiles:
                taker = replace(_taker(holding, pod), instance=holding.device)
                self.on_instance[holding.device].append(taker)
                self.found[pod.uid][profiles[holding.device]] += 1
            else:
                self.strays.append(_taker(holding, pod))

    def _seat_kept(self, holding: Holding, devices: Collection[str], profiles: Mapping[str, str]) -> None:
        """The claim itself stands where a pod would."""
        name = f"claim {holding.kept_by}"
        milli = holding.milli or None
        taker = Taker(name, f"{name}, no pod", "", milli, holding.memory_mib, source=holding.source)
        if holding.device in devices:
            self.on_device[holding.device].append(taker)
        elif holding.device in profiles:
            self.on_instance[holding.device].append(replace(taker, instance=holding.device))


def _order(holding: Holding) -> tuple[str, str, str, int, int]:
    memory = -1 if holding.memory_mib is None else holding.memory_mib
    return holding.device, holding.pod_uid, holding.container, holding.milli, memory


def _taker(holding: Holding, pod: Pod) -> Taker:
    return Taker(
        pod_uid=pod.uid,
        pod=pod.key,
        container=holding.container,
        milli=holding.milli or None,
        memory_mib=holding.memory_mib,
        source=holding.source,
        observed_at=holding.observed_at,
    )


def _main_devices(node: Node, pods: Sequence[Pod], seats: _Seats, claims: Claims) -> list[DeviceLedger]:
    slots = node.shares_per_gpu if shares_in_time(node) else 1
    if not any(gpu.instances for gpu in node.gpus):
        return [
            _flag_ghosts(
                account_for(
                    gpu, seats.on_device.get(gpu.key, ()), claims, slots=slots, whole=_whole_of(node, gpu)
                ),
                seats,
            )
            for gpu in node.gpus
        ]
    use, rows = read_use(node, pods), []
    for gpu, told in zip(node.gpus, use.gpus, strict=True):
        takers = seats.on_device.get(gpu.key, ())
        if gpu.instances:
            unit = instance_memory(node)
            row = account_for_cut(gpu, told, use.model, takers, seats.on_instance, claims, unit)
        else:
            row = account_for(gpu, takers, claims, slots=slots)
        rows.append(_flag_ghosts(row, seats))
    return rows


def _whole_of(node: Node, gpu: Gpu) -> int:
    """A register may deal out more than 100 percent of a card's cores; other vendors count units there."""
    is_percent = node.vendor == "nvidia" and gpu.cores is not None and gpu.cores > 100
    return 10 * (gpu.cores or 0) if is_percent else WHOLE


def _flag_ghosts(row: DeviceLedger, seats: _Seats) -> DeviceLedger:
    """A holder that is gone holds nothing; that a source still names it is told."""
    if not seats.ghosts:
        return row
    names = {row.key, *(one.uuid for one in row.instances if one.uuid)}
    if not names & seats.ghosts:
        return row
    return replace(row, flags=(*row.flags, Flag.UNKNOWN_HOLDER))


def _unlocated(
    node: Node, guests: Mapping[str, Pod], asking: Mapping[str, Asked], seats: _Seats
) -> tuple[Unlocated, ...]:
    """What pods hold beyond what any source places."""
    model = model_of(node)[0] if offered_profiles(node) or single_profile(node) else None
    rows = []
    sofar = Fraction(0)
    for uid, asked in asking.items():
        pod, found = guests[uid], seats.found.get(uid, NOWHERE)
        devices = max(0, asked.devices - found[""])
        profiles = {
            name: count - found[name] for name, count in asked.profiles.items() if count > found[name]
        }
        if not devices and not profiles:
            continue
        before = round(sofar)
        sofar += devices * part_of(node, asked)
        sofar += sum(part_of_profile(name, model) * count for name, count in profiles.items())
        rows.append(
            Unlocated(
                pod_uid=pod.uid,
                pod=pod.key,
                devices=devices,
                milli=round(sofar) - before,  # so that all of them together are rounded but once
                memory_mib=None if asked.memory_mib is None else devices * asked.memory_mib,
                units=asked.units if not found[""] else devices,
                profiles=profiles,
            )
        )
    return tuple(rows)


def _other(
    node: Node,
    group: DeviceGroup,
    guests: Mapping[str, Pod],
    seats: _Seats,
    claims: Claims,
    closed: str,
    host: Waste | None,
) -> GroupLedger:
    devices = [account_for(gpu, seats.on_device.get(gpu.key, ()), claims) for gpu in group.gpus]
    unlocated = []
    sofar = Fraction(0)
    for uid, pod in sorted(guests.items()):
        units = asked_of_group(group.resource, pod)
        held = sum(taker.pod_uid == uid for device in devices for taker in device.takers)
        if units > held:
            before = round(sofar)
            sofar += Fraction((units - held) * WHOLE, max(group.shares_per_gpu, 1))
            milli = round(sofar) - before
            unlocated.append(Unlocated(uid, pod.key, units - held, milli, units=units - held))
    around = Around(
        is_open=not closed and group.alive is not False,
        offered=_units_by_name(node, group.resource, by_claim=group.claimable) if group.resource else None,
        used=sum(asked_of_group(group.resource, pod) for pod in guests.values()),
        unlocated=tuple(unlocated),
        offers_slots=group.shares_per_gpu > 1,
        host=host,
    )
    return sum_up(group, devices, around)


def _offered_units(node: Node) -> int | None:
    """None where its devices are given out by claims alone, so that no number is offered."""
    if not node.gpu_resource:
        return None
    by_claim = node.claimable or any(one.source is Source.DRA for one in node.holdings or ())
    return _units_by_name(node, node.gpu_resource, by_claim=by_claim)


def _units_by_name(node: Node, resource: str, *, by_claim: bool) -> int | None:
    if node.allocatable.get(resource, 0) or node.capacity.get(resource, 0):
        return node.allocatable.get(resource, 0)
    # A key of zero is left over from a device plugin that is gone.
    return None if by_claim else 0


def _is_cut_unseen(node: Node) -> bool:
    """It offers MIG instances, and nobody tells which of its GPUs are cut."""
    is_told = any(gpu.instances for gpu in node.gpus)
    return not is_told and bool(single_profile(node) or offered_profiles(node))


def _beyond_cards(node: Node, asking: Mapping[str, Asked]) -> int:
    """Cards given out beyond the node's: its device plugin and claims know nothing of each other."""
    claimed = [one for one in node.holdings or () if one.source is Source.DRA and one.milli >= WHOLE]
    keys = {gpu.key for gpu in node.gpus}
    cards = {one.device for one in claimed} & keys
    by_claim = {one.pod_uid for one in claimed}
    sums = (one.devices * part_of(node, one) for uid, one in asking.items() if uid not in by_claim)
    given = -(-sum(sums, Fraction(0)) // WHOLE)
    return max(0, given + len(cards) - len(keys)) if given and cards else 0


def _overcommitted_instances(node: Node, asking: Iterable[Asked]) -> int:
    """MIG instances asked beyond those offered, over all profiles."""
    if single_profile(node):
        return 0
    asked: Counter[str] = Counter()
    for one in asking:
        asked.update(one.profiles)
    offered = offered_profiles(node)
    return sum(max(0, count - offered.get(name, 0)) for name, count in asked.items())
