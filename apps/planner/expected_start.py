"""When what waits would start, where the ends of what runs are known: those ends replayed in their order.

The cluster's own scheduler decides, so what waits is tried in its order (priority, then age); who does not
fit is passed over, as it does. Nothing is moved and nobody is preempted here. Not in here: how long pods run
(run_lengths), how long they take to be Ready (start_times).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from apps.planner.fitting import Fitting
from apps.planner.gpu_wishes import BAD_REQUEST
from apps.planner.inventory import Pod
from apps.planner.resources import asks_gpu
from apps.planner.rooms import Rooms, free_room
from apps.planner.run_lengths import End, Runs, find_end, known_length
from apps.planner.snapshot import Snapshot
from apps.planner.start_times import StartTimes
from apps.planner.together import place_together
from apps.planner.waiting import WaitingWorkload
from apps.planner.waiting_words import NOT_IN_TURN
from apps.planner.wording import count

Deadline = Callable[[], bool]
HORIZON_SECONDS = 30 * 86_400.0


@dataclass(frozen=True, slots=True)
class ExpectedStart:
    """placed_at: epoch seconds, when it would get its nodes; ready_at: when it would be Ready there; both
    None where it is not known, which `words` explains. is_latest: by a deadline, it may well be sooner."""

    placed_at: float | None = None
    ready_at: float | None = None
    is_latest: bool = False
    words: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of lengths and starts."""

    runs: Runs
    starts: StartTimes


def expect_starts(
    snapshot: Snapshot, waiting: Sequence[WaitingWorkload], facts: Facts, deadline: Deadline
) -> Mapping[str, ExpectedStart]:
    """By key. waiting: in the order of the cluster's scheduler."""
    return _Replay(snapshot, waiting, facts, deadline).run()


@dataclass(frozen=True, slots=True)
class _Line:
    """One workload in turn. shape: a number, equal for those that fit alike; None where neighbours matter."""

    waiting: WaitingWorkload
    pods: list[Pod]
    shape: int | None


class _Replay:
    def __init__(
        self, snapshot: Snapshot, waiting: Sequence[WaitingWorkload], facts: Facts, deadline: Deadline
    ) -> None:
        self.snapshot, self.facts, self.deadline = snapshot, facts, deadline
        self.rooms: Rooms = free_room(snapshot)
        self.fitting = Fitting(self.rooms)
        self.found: dict[str, ExpectedStart] = {}
        self.ends: dict[str, End] = {}
        for uid in self.rooms.where:
            end = find_end(snapshot, snapshot.pods[uid], facts.runs)
            if end is not None:
                self.ends[uid] = end
        self.due = [(end.at, uid) for uid, end in self.ends.items()]
        heapify(self.due)
        self.was_cut = False
        rooms = self.rooms.by_node
        self.tightest = sorted(rooms, key=lambda name: (rooms[name].idle_milli, name))
        self.refusing: dict[int, int] = {}
        self.shapes: dict[object, int] = {}
        self.left = [self._line_of(one) for one in waiting if self._is_in_turn(one)]

    def run(self) -> dict[str, ExpectedStart]:
        now = self.snapshot.taken_at
        self._start(self.left, now, None)
        while self.due and self.left:
            at, uid = heappop(self.due)
            if at > now + HORIZON_SECONDS or self.deadline():
                self.was_cut = True
                break
            node = self.rooms.where[uid]
            self.rooms.remove(self.snapshot.pods[uid])
            self._start(self.left, max(at, now), (node, self.ends[uid]))
        said: dict[tuple[int | None, bool], str] = {}
        for one in self.left:
            alike = (one.shape, one.waiting.reason_code == "fits")
            if one.shape is None or alike not in said:
                said[alike] = self._why_unknown(one.waiting)
            self.found[one.waiting.key] = ExpectedStart(words=said[alike])
        return self.found

    def _is_in_turn(self, one: WaitingWorkload) -> bool:
        if one.never:
            self.found[one.key] = ExpectedStart(words="never: no node of this cluster can run it")
        elif not one.has_pods and one.reason_code not in NOT_IN_TURN:
            self.found[one.key] = ExpectedStart(words="not known, because nobody has made its pods yet")
        elif one.reason_code in NOT_IN_TURN:
            self.found[one.key] = ExpectedStart(
                words=f"not known, because {WHY.get(one.reason_code, 'its queue has not admitted it')}"
            )
        else:
            return True
        return False

    def _start(self, candidates: list[_Line], at: float, freed: tuple[str, End] | None) -> None:
        """All that fits now. freed: the node that just lost a pod; only there single pods find new room."""
        refused: set[object] = set()
        left: list[_Line] = []
        for number, line in enumerate(candidates):
            if line.shape in refused:
                left.append(line)
                continue
            if self.deadline():
                self.was_cut = True
                left += candidates[number:]
                break
            nodes = self._place(line, freed[0] if freed else "")
            if nodes is not None:
                self._note(line, nodes, at, freed[1] if freed else None)
                continue
            left.append(line)
            if line.shape is not None:
                refused.add(line.shape)
        self.left = left

    def _line_of(self, one: WaitingWorkload) -> _Line:
        pods = [self.snapshot.pods[uid] for uid in one.pods]
        if any(self.fitting.needs_neighbours(pod) for pod in pods):
            return _Line(one, pods, None)
        kinds = frozenset((self.rooms.demand(pod), self.fitting.signature(pod)) for pod in pods)
        return _Line(one, pods, self.shapes.setdefault((len(pods), kinds), len(self.shapes)))

    def _place(self, line: _Line, freed: str) -> list[str] | None:
        pods = line.pods
        if len(pods) > 1 or line.shape is None:
            return place_together(self.rooms, self.fitting, pods)
        node = freed if freed else self._first_fit(pods[0], line.shape)
        if not node or (freed and not self.fitting.can_run(pods[0], node)):
            return None
        self.rooms.place(pods[0], node)
        return [node]

    def _first_fit(self, pod: Pod, shape: int) -> str:
        """Before anything ends rooms only shrink: a node that refused this shape once refuses it again."""
        at = self.refusing.get(shape, 0)
        while at < len(self.tightest) and not self.fitting.can_run(pod, self.tightest[at]):
            at += 1
        self.refusing[shape] = at
        return self.tightest[at] if at < len(self.tightest) else ""

    def _note(self, line: _Line, nodes: list[str], at: float, end: End | None) -> None:
        one, pods = line.waiting, line.pods
        takes = [self.facts.starts.of(pod, node) for pod, node in zip(pods, nodes, strict=True)]
        slowest, basis = max(takes)
        why = "there is room now" if end is None else f"when {nodes[-1]} is left: {end.words}"
        self.found[one.key] = ExpectedStart(
            placed_at=at,
            ready_at=at + slowest,
            is_latest=end is not None and end.is_latest,
            words=f"{why}; {slowest:.0f} s to be Ready ({basis})",
        )
        for pod in pods:
            length = known_length(self.snapshot, pod, self.facts.runs)
            if length is not None:
                self.ends[pod.uid] = End(at + length, f"{pod.key} ends before it")
                heappush(self.due, (at + length, pod.uid))

    def _why_unknown(self, one: WaitingWorkload) -> str:
        if self.was_cut:
            return "not known, because the ends that are known were not followed so far"
        pod = self.snapshot.pods[one.pods[0]]
        reach = [name for name in self.rooms.by_node if self._may_use(pod, name)]
        if not reach:
            return "not known, because no node that it may use is open to it"
        holding = [
            guest
            for name in reach
            for guest in self.snapshot.pods_on(name)
            if not guest.hold and (asks_gpu(guest) or not asks_gpu(pod))
        ]
        unknown = sum(guest.uid not in self.ends for guest in holding)
        if not unknown:
            return "not known, because even all known ends make no room for it: it takes moves"
        first = "those before it take the room that is free now, and " if one.reason_code == "fits" else ""
        where = "the node" if len(reach) == 1 else f"the {len(reach)} nodes"
        of = "the one pod" if len(holding) == 1 else f"{unknown} of the {count(len(holding), 'pod')}"
        return f"not known, because {first}the end of {of} on {where} that it may use is not known"

    def _may_use(self, pod: Pod, name: str) -> bool:
        return not self.fitting.static_reasons(pod, self.snapshot.nodes[name])


WHY = {
    "gated": "it waits behind a gate",
    "gang-incomplete": "members of its gang are missing",
    BAD_REQUEST: "its GPURequest cannot be honoured",
}
