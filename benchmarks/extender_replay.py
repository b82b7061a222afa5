"""A trace replayed through the extender's own code: the same placements as `replay --policy fgd`?

    python -m benchmarks.extender_replay --nodes CSV --pods CSV [--seed 0 | --file-order] [--policy fgd]

Each pod goes through filter and prioritize as bytes in the scheduler's wire format, with all nodes offered;
the node with the score 10 takes it (only our score counts), and the picture hears of it as of a pod's event;
equals are told apart by the replay's own fixed order of the nodes, so the number of differing placements must
be 0.

Beside it the loss under the scheduler's sampling (numFeasibleNodesToFind: of 1,213 nodes it ends its look at
497 that pass its own filters, and goes on from there with the next pod): the extender sees only those. The
scheduler's own filters are taken to know CPU, memory, models and whole GPUs, and nothing of parts of a GPU.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from apps.planner.inventory import HeldDevice, Node, Pod, Source
from apps.planner.replay.arrivals import Draw
from apps.planner.replay.asks import Ask, read_asks, workload_of
from apps.planner.replay.nodes import NodeTable, empty_nodes
from apps.planner.replay.replaying import ReplayRequest, order_arrivals, replay_trace
from apps.planner.resources import demand_of
from apps.planner.snapshot import Snapshot
from apps.planner.terms import NodeTerm, Requirement
from apps.planner.trace import GPU, PRODUCT, snapshot_from_rows
from apps.scheduling.extender.counters import Counters
from apps.scheduling.extender.deciding import Extender
from apps.scheduling.extender.options import Options
from apps.scheduling.extender.picture import Picture
from apps.scheduling.extender.server import Verbs
from apps.scheduling.extender.verdicts import RecentVerdicts
from apps.scheduling.extender.wire import MOST_SCORE

LEAST_NODES, LEAST_PERCENT = 100, 5
"""minFeasibleNodesToFind, minFeasibleNodesPercentageToFind."""


@dataclass
class Outcome:
    """seats: by number of the decision. used_milli: GPUs in use at the end."""

    seats: dict[int, tuple[str, tuple[int, ...]]]
    decisions: int = 0
    used_milli: int = 0
    seconds: float = 0.0


class Pods:
    """Stands in for the follower: the pods are known as they are asked about."""

    problem = ""

    def __init__(self) -> None:
        self.asked: Pod | None = None

    def catch_up(self) -> None:
        """There is no watch: the replay tells the picture itself."""

    def read_pod(self, raw: dict[str, Any]) -> Pod:
        assert self.asked is not None
        assert raw["metadata"]["uid"] == self.asked.uid
        return self.asked


class ReplayedExtender:
    def __init__(self, nodes: Sequence[Node], asks: Sequence[Ask], policy: str) -> None:
        place = {node.name: at for at, node in enumerate(nodes)}
        self.picture = Picture(order_of=place.__getitem__)
        self.picture.take(Snapshot("trace", 0.0, nodes={node.name: node for node in nodes}))
        self.names = [node.name for node in nodes]
        self.sink = RecentVerdicts(2)
        self.now = 0.0
        extender = Extender(
            self.picture,
            Options(policy=policy),
            age=lambda: 0.0,
            clock=lambda: self.now,
            sink=self.sink,
            workload=workload_of(asks),
        )
        self.pods = Pods()
        self.verbs = Verbs(extender, self.pods, Counters())

    def place(self, pod: Pod, names: list[str]) -> tuple[str, tuple[int, ...]] | None:
        """One scheduling cycle; the picture hears of the binding. None where no node takes it."""
        self.pods.asked, self.now = pod, self.now + 1
        offered = {"Pod": {"metadata": {"name": pod.name, "uid": pod.uid}}, "Nodes": None}
        answer = msgspec.json.decode(
            self.verbs.answer_filter(msgspec.json.encode({**offered, "NodeNames": names}))
        )
        fitting = answer["NodeNames"]
        if not fitting:
            return None
        body = msgspec.json.encode({**offered, "NodeNames": fitting})
        scores = msgspec.json.decode(self.verbs.answer_prioritize(body))
        best = [one["Host"] for one in scores if one["Score"] == MOST_SCORE]
        assert len(best) == 1, "the best node alone gets 10"
        return self._bind(pod, best[0])

    def _bind(self, pod: Pod, name: str) -> tuple[str, tuple[int, ...]]:
        self.picture.release(pod.uid)
        room, demand = self.picture.room(name), demand_of(pod)
        assert room is not None
        told = self.sink.of_pod(pod.uid)[0].top[0].device
        taken = [at for at, _, _ in room.choose_devices(demand)]
        devices = tuple(taken if told is None else [told])
        held = tuple(
            HeldDevice(Source.SCHEDULER, uuid=room.node.gpus[at].uuid, milli=demand.milli) for at in devices
        )
        self.picture.tell_pod(replace(pod, node_name=name, phase="Running", ready=True, devices=held))
        return name, devices


class Sampling:
    """The scheduler's own look at the nodes: from where it stopped last, until it has found enough."""

    def __init__(self, extender: ReplayedExtender) -> None:
        self._extender, self._next = extender, 0
        number = len(extender.names)
        percent = max(50 - number // 125, LEAST_PERCENT)
        self.wanted = number if number < LEAST_NODES else max(number * percent // 100, LEAST_NODES)

    def offer(self, pod: Pod, ask: Ask) -> list[str]:
        names, picture = self._extender.names, self._extender.picture
        demand = demand_of(pod)
        found: list[str] = []
        for looked in range(len(names)):
            name = names[(self._next + looked) % len(names)]
            room = picture.rooms[picture.row_of[name]]
            assert room is not None
            has_host = all(room.left.get(resource, 0) >= amount for resource, amount in demand.resources)
            has_gpus = not ask.gpus or (room.free_gpus >= ask.gpus if not ask.is_part else room.node.gpus)
            is_allowed = not ask.models or room.node.model in ask.models
            if has_host and has_gpus and is_allowed:
                found.append(name)
                if len(found) == self.wanted:
                    break
        self._next = (self._next + looked + 1) % len(names)
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--nodes", type=Path, required=True)
    parser.add_argument("--pods", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--file-order", action="store_true")
    parser.add_argument("--policy", default="fgd", choices=("fgd", "demand-fit"))
    parser.add_argument("--no-sampling", action="store_true", help="leave out the second replay")
    options = parser.parse_args()
    with options.nodes.open(newline="") as file:
        snapshot = snapshot_from_rows(csv.DictReader(file), ())
    with options.pods.open(newline="") as file:
        asks = read_asks(csv.DictReader(file))
    request = ReplayRequest(options.policy, options.seed, options.file_order)
    order = "file order, ties to the first node" if options.file_order else f"seed {options.seed}"
    print(f"{len(snapshot.nodes)} nodes, {len(asks)} pods in the file; {order}; policy {options.policy}")
    reference = _reference(snapshot, asks, request)
    whole = _replay(snapshot, asks, request, samples=False)
    different = sum(
        whole.seats.get(number) != reference.seats.get(number)
        for number in range(1, max(whole.decisions, reference.decisions) + 1)
    )
    capacity = sum(len(node.gpus) for node in snapshot.nodes.values()) * 1000
    _print("replay", reference, capacity)
    _print("extender, all nodes", whole, capacity)
    print(f"differing placements (node and GPUs): {different} of {whole.decisions}")
    if not options.no_sampling:
        sampled = _replay(snapshot, asks, request, samples=True)
        _print("extender, sampled", sampled, capacity)
        lost = 100 * (whole.used_milli - sampled.used_milli) / capacity
        print(f"loss by the scheduler's sampling: {lost:.2f} points of the GPUs")
    if different:
        sys.exit(1)


def _reference(snapshot: Snapshot, asks: Sequence[Ask], request: ReplayRequest) -> Outcome:
    began = time.process_time()
    replay = replay_trace(empty_nodes(snapshot), asks, request)
    seats = {
        number: (replay.nodes[seat.row].name, seat.devices)
        for number, (_, seat) in replay.crowd.running.items()
    }
    return Outcome(seats, replay.decisions, replay.used_milli, time.process_time() - began)


def _replay(snapshot: Snapshot, asks: Sequence[Ask], request: ReplayRequest, *, samples: bool) -> Outcome:
    draw = Draw(request.seed)
    empty = empty_nodes(snapshot)
    table = NodeTable(empty if request.file_order else draw.shuffled(empty))
    extender = ReplayedExtender([snapshot.nodes[node.name] for node in table.nodes], asks, request.policy)
    sampling = Sampling(extender)
    outcome = Outcome({})
    began = time.process_time()
    for pod, ask in _pods(order_arrivals(asks, request, draw, table.capacity_milli)):
        outcome.decisions += 1
        names = sampling.offer(pod, ask) if samples else extender.names
        seat = extender.place(pod, names) if names else None
        if seat is not None:
            outcome.seats[outcome.decisions] = seat
            outcome.used_milli += ask.gpu_milli
    outcome.seconds = time.process_time() - began
    return outcome


def _pods(asks: Iterator[Ask]) -> Iterator[tuple[Pod, Ask]]:
    for number, ask in enumerate(asks, start=1):
        requests = {"cpu": ask.cpu, "memory": ask.memory << 20, **({GPU: ask.gpus} if ask.gpus else {})}
        terms = (NodeTerm(labels=(Requirement(PRODUCT, "In", ask.models),)),) if ask.models else ()
        pod = Pod(
            uid=f"pod-{number}",
            namespace="trace",
            name=f"pod-{number}",
            requests=requests,
            gpu_milli=ask.milli or 1000,
            node_terms=terms,
        )
        yield pod, ask


def _print(name: str, outcome: Outcome, capacity: int) -> None:
    share = 100 * outcome.used_milli / capacity
    speed = outcome.decisions / max(outcome.seconds, 1e-9)
    print(
        f"{name:>20}: {len(outcome.seats)} of {outcome.decisions} pods placed, {share:.2f} % of the GPUs "
        f"allocated; {speed:.0f} decisions/s of CPU",
        flush=True,
    )


if __name__ == "__main__":
    main()
