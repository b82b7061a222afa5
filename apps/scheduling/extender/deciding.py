"""Filter and prioritize: what is answered about a pod and the nodes that its scheduler offers.

One thread calls it (the server's loop); nothing here waits for anything. A pod that was just told its best
node counts there at once, since its scheduler goes on with the next pod before the watch tells of this one.
Not in here: bytes (wire), the web program (server), preemption (preempting), binding (binding).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from apps.planner.inventory import Pod
from apps.planner.workload import Workload
from apps.scheduling.extender import gangs
from apps.scheduling.extender.assumed import Assumed, Cause
from apps.scheduling.extender.holds import HoldBook, KeptHolds, who_keeps
from apps.scheduling.extender.judging import TAKES, Judge, Judged
from apps.scheduling.extender.options import Options, WhenStale
from apps.scheduling.extender.picture import Ints, Picture
from apps.scheduling.extender.policies import POLICIES
from apps.scheduling.extender.preempting import ROUGHER, choose_victims
from apps.scheduling.extender.rooms import KeptRooms
from apps.scheduling.extender.rules import UNKNOWN_NODE, Refusal
from apps.scheduling.extender.scores import scores_of
from apps.scheduling.extender.verdicts import MOST_TOP, RecentVerdicts, TopNode, Verdict, VerdictSink
from apps.scheduling.extender.wire import Victims

Age = Callable[[], float]
NO_WORKLOAD = Workload(())


class StalePicture(Exception):
    """The picture is too old to judge by; the sentence says how old."""


@dataclass(frozen=True, slots=True)
class Filtered:
    """fitting: in the order in which they were offered. failed, hopeless: node -> why."""

    fitting: list[str]
    failed: Mapping[str, str]
    hopeless: Mapping[str, str]


class Extender:
    """age: seconds by which the picture may be behind the cluster. clock: epoch seconds."""

    def __init__(
        self,
        picture: Picture,
        options: Options,
        *,
        age: Age,
        clock: Callable[[], float],
        holds: HoldBook | None = None,
        sink: VerdictSink | None = None,
        workload: Workload = NO_WORKLOAD,
    ) -> None:
        self.picture, self.options = picture, options
        self.holds: HoldBook = holds or KeptHolds()
        self.sink: VerdictSink = sink or RecentVerdicts()
        self.age, self.clock = age, clock
        self._workload = workload
        self._judge = self._make_judge()
        self._gang_room = gangs.GangRoom()
        self.rooms = KeptRooms(picture)

    def use(self, *, options: Options | None = None, workload: Workload | None = None) -> None:
        """Other options, or another target workload, from the next call on."""
        if workload is not None and workload != self._workload:
            self._workload = workload
            if self._judge.policy.aim(workload):
                self._judge.forget_points()
        if options is not None and options != self.options:
            self.options = options
            self._judge = self._make_judge()

    def _make_judge(self) -> Judge:
        policy = POLICIES[self.options.policy](self.picture, self._workload)
        return Judge(self.picture, policy, spare_drifted=self.options.spare_drifted)

    # --- the verbs ---

    def filter(self, pod: Pod, names: list[str]) -> Filtered:
        """Raises StalePicture where the call is to fail for that."""
        now, age = self.clock(), self.age()
        if self._abstains(pod, "filter", now, age, len(names)):
            return Filtered(names, {}, {})
        self._begin(pod, now)
        kept = who_keeps(self.holds, pod, now)
        known, rows, refused = self._rows(names)
        judged = self._judge.judge(pod, rows)
        codes = judged.code[rows]
        refused |= self._special(pod, known, kept)
        if (codes == TAKES).any():
            words = self._ask_gang(pod, kept)
            if words:
                # No preemption for one member: the others would still have no place.
                refused |= {known[at]: Refusal("", words, True) for at in np.flatnonzero(codes == TAKES)}
        found = self._sort(names, known, codes, refused)
        counts = Counter([*found.failed.values(), *found.hopeless.values()])
        verdict = self._verdict("filter", pod, now, age, len(names))
        self.sink.keep(replace(verdict, fitting=len(found.fitting), refused=dict(counts)))
        if len(found.fitting) == 1:
            # With one node left the scheduler does not ask which is best.
            self._tell(pod, found.fitting[0], now, kept)
        return found

    def prioritize(self, pod: Pod, names: list[str]) -> list[tuple[str, int]]:
        """A score for each offered node; 0 for those that do not take the pod. Raises StalePicture."""
        now, age = self.clock(), self.age()
        if not names or self._abstains(pod, "prioritize", now, age, len(names)):
            return [(name, 0) for name in names]
        self._begin(pod, now)
        known, rows, _ = self._rows(names)
        judged = self._judge.judge(pod, rows)
        takes = judged.code[rows] == TAKES
        own = self._own_place(pod)
        if own and own in known:
            takes[known.index(own)] = self._judge.refusal_of(pod, own) is None
        for name, refusal in self.rooms.judge(self._judge, pod, known).items():
            takes[known.index(name)] = refusal is None
        able = rows[takes]
        scores: Ints = np.zeros(len(known), dtype=np.int64)
        top: tuple[TopNode, ...] = ()
        if len(able):
            points = self._judge.score(judged, able)
            scores[takes] = scores_of(points, self.picture.order[able])
            top = self._top(judged, able, points, scores[takes])
        verdict = self._verdict("prioritize", pod, now, age, len(names))
        self.sink.keep(replace(verdict, fitting=len(able), top=top))
        if top:
            self._tell(pod, top[0].node, now, who_keeps(self.holds, pod, now))
        told = list(zip(known, scores.tolist(), strict=True))
        return told if len(known) == len(names) else [*told, *((one, 0) for one in set(names) - set(known))]

    def preempt(self, pod: Pod, victims: Mapping[str, Victims]) -> Mapping[str, Victims]:
        """Of these nodes, those whose victims we accept. Raises StalePicture."""
        now, age = self.clock(), self.age()
        if self._abstains(pod, "preempt", now, age, len(victims)):
            return victims
        self._begin(pod, now)
        kept, spare = who_keeps(self.holds, pod, now), self.options.spare_drifted
        accepted, refused = choose_victims(self.picture, pod, victims, kept, spare_drifted=spare)
        # One node more for each member that has none: with fewer, whoever gives way would do so in vain.
        places = len(accepted) + sum(why == ROUGHER for why in refused.values())
        in_vain = self._ask_gang_without(pod, places, kept) if accepted else ""
        if in_vain:
            refused |= dict.fromkeys(accepted, in_vain)
            accepted = {}
        verdict = self._verdict("preempt", pod, now, age, len(victims))
        self.sink.keep(replace(verdict, fitting=len(accepted), refused=dict(Counter(refused.values()))))
        return accepted

    # --- one call's parts ---

    def _verdict(self, verb: str, pod: Pod, now: float, age: float, offered: int) -> Verdict:
        return Verdict(verb, now, pod.uid, pod.key, self._judge.policy.name, age, offered)

    def _abstains(self, pod: Pod, verb: str, now: float, age: float, offered: int) -> bool:
        if age <= self.options.stale_after:
            return False
        words = "has not been read yet" if age == float("inf") else f"is {age:.0f} s old"
        note = f"the extender's picture of the cluster {words}"
        abstains = self.options.when_stale is WhenStale.ABSTAIN
        verdict = self._verdict(verb, pod, now, age, offered)
        self.sink.keep(replace(verdict, fitting=offered if abstains else 0, note=note))
        if not abstains:
            raise StalePicture(f"{note}; it answers again once it can follow the API server")
        return True

    def _begin(self, pod: Pod, now: float) -> None:
        """Who asks again has no place yet, whatever was assumed."""
        self.picture.expire(now)
        self.picture.release(pod.uid)
        self.rooms.settle()

    def _rows(self, names: list[str]) -> tuple[list[str], Ints, dict[str, Refusal | None]]:
        """The names of nodes that are known, their rows, and what the others are refused for."""
        found = list(map(self.picture.row_of.get, names))
        if None not in found:
            return names, np.array(found, dtype=np.int64), {}
        unknown = {name for name, row in zip(names, found, strict=True) if row is None}
        rows = np.array([row for row in found if row is not None], dtype=np.int64)
        refused: dict[str, Refusal | None] = {name: Refusal("", UNKNOWN_NODE, True) for name in unknown}
        return [name for name in names if name not in unknown], rows, refused

    def _special(self, pod: Pod, names: list[str], kept: Mapping[str, str]) -> dict[str, Refusal | None]:
        """Verdicts on nodes that are not the shape's: kept ones, and the one where the pod has a place of its
        own already."""
        found: dict[str, Refusal | None] = {}
        own = self._own_place(pod)
        if own and own in names:
            found[own] = self._judge.refusal_of(pod, own)
        found |= self.rooms.judge(self._judge, pod, names)
        if kept:
            found |= {name: Refusal("", kept[name], True) for name in names if name in kept}
        return found

    def _own_place(self, pod: Pod) -> str:
        """The node on which a migration of ours keeps room for this very pod."""
        known = self.picture.pods.get(pod.uid)
        name = known.nominated_node if known is not None and known.steering and not known.node_name else ""
        return name if name in self.picture.nodes else ""

    def _ask_gang(self, pod: Pod, kept: Mapping[str, str]) -> str:
        """Why its gang cannot start, "" where it can."""
        need = gangs.need_of(self.picture, pod)
        if need is None:
            return ""
        has_room = not need.missing and self._gang_room.has_room(self._judge, need.waiting, kept)
        return gangs.why_not(need, pod.gang, has_room)

    def _ask_gang_without(self, pod: Pod, places: int, kept: Mapping[str, str]) -> str:
        """Why its gang could not start even if it and others of it took these places; "" where it could."""
        need = gangs.need_of(self.picture, pod)
        if need is None:
            return ""
        homeless = 0 if need.missing else gangs.count_homeless(self._judge, need.waiting[1:], kept)
        return gangs.why_not(need, pod.gang, homeless < places)

    def _sort(
        self, names: list[str], known: list[str], codes: Ints, refused: Mapping[str, Refusal | None]
    ) -> Filtered:
        """By what was found: a verdict of the node's own before that of the shape."""
        refusals = self._judge.refusals
        by_name: dict[str, Refusal | None] = {
            known[at]: refusals[code] for at, code in enumerate(codes.tolist()) if code != TAKES
        }
        by_name |= refused
        refusing = {name: one for name, one in by_name.items() if one is not None}
        fitting = [name for name in names if name not in refusing] if refusing else names
        hopeless = {name: one.words for name, one in refusing.items() if one.hopeless}
        failed = {name: one.words for name, one in refusing.items() if not one.hopeless}
        return Filtered(fitting, failed, hopeless)

    def _top(
        self,
        judged: Judged,
        rows: Ints,
        points: np.ndarray[tuple[int, ...], np.dtype[np.float64]],
        scores: Ints,
    ) -> tuple[TopNode, ...]:
        order = np.lexsort((self.picture.order[rows], -points, -scores))[:MOST_TOP]
        return tuple(
            TopNode(
                self.picture.names[int(rows[at])],
                int(scores[at]),
                float(points[at]),
                self._judge.policy.explain(judged.pod, judged.demand, int(rows[at])),
                self._judge.policy.device(judged.pod, judged.demand, int(rows[at])),
            )
            for at in order
        )

    def _tell(self, pod: Pod, node: str, now: float, kept: Mapping[str, str]) -> None:
        """The pod counts there from now on; of a gang that begins, the others get their places kept."""
        need = gangs.need_of(self.picture, pod)
        self.picture.assume(Assumed(pod, node, Cause.TOLD, now + self.options.told_seconds))
        if need is None or need.missing:
            return
        others = gangs.find_places(self._judge, need.waiting[1:], kept) or []
        for other, name in others:
            self.picture.assume(Assumed(other, name, Cause.GANG, now + self.options.gang_seconds))
