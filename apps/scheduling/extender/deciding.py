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
from apps.scheduling.extender.rules import UNKNOWN_NODE, Refusal
from apps.scheduling.extender.scores import scores_of
from apps.scheduling.extender.verdicts import MOST_TOP, RecentVerdicts, TopNode, Verdict, VerdictSink

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

    def use(self, *, options: Options | None = None, workload: Workload | None = None) -> None:
        """Other options, or another target workload, from the next call on."""
        before = (self.options, self._workload)
        self.options = options or self.options
        self._workload = workload or self._workload
        if (self.options, self._workload) != before:
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
        rows, unknown = self._rows(names)
        judged = self._judge.judge(pod, rows)
        refused = self._special(pod, names, kept, unknown)
        if len(refused) < len(names):
            self._ask_gang(pod, names, judged, rows, kept, refused)
        fitting, failed, hopeless = self._sort(names, judged, refused)
        counts: Counter[str] = Counter([*failed.values(), *hopeless.values()])
        verdict = Verdict("filter", now, pod.uid, pod.key, self._judge.policy.name, age)
        self.sink.keep(replace(verdict, offered=len(names), fitting=len(fitting), refused=dict(counts)))
        if len(fitting) == 1:
            # With one node left the scheduler does not ask which is best.
            self._tell(pod, fitting[0], now, kept)
        return Filtered(fitting, failed, hopeless)

    def prioritize(self, pod: Pod, names: list[str]) -> list[tuple[str, int]]:
        """A score for each offered node; 0 for those that do not take the pod. Raises StalePicture."""
        now, age = self.clock(), self.age()
        if not names or self._abstains(pod, "prioritize", now, age, len(names)):
            return [(name, 0) for name in names]
        self._begin(pod, now)
        rows, _ = self._rows(names)
        judged = self._judge.judge(pod, rows)
        places = [at for at, name in enumerate(names) if self._takes(pod, name, judged)]
        scores = np.zeros(len(names), dtype=np.int64)
        top: tuple[TopNode, ...] = ()
        if places:
            able = np.array([self.picture.row_of[names[at]] for at in places], dtype=np.int64)
            points = self._judge.score(judged, able)
            scores[places] = scores_of(points, self.picture.order[able])
            top = self._top(judged, able, points, scores[places])
        verdict = Verdict("prioritize", now, pod.uid, pod.key, self._judge.policy.name, age)
        self.sink.keep(replace(verdict, offered=len(names), fitting=len(places), top=top))
        if top:
            self._tell(pod, top[0].node, now, who_keeps(self.holds, pod, now))
        return list(zip(names, scores.tolist(), strict=True))

    # --- one call's parts ---

    def _abstains(self, pod: Pod, verb: str, now: float, age: float, offered: int) -> bool:
        if age <= self.options.stale_after:
            return False
        words = "has not been read yet" if age == float("inf") else f"is {age:.0f} s old"
        note = f"the extender's picture of the cluster {words}"
        fitting = offered if self.options.when_stale is WhenStale.ABSTAIN else 0
        verdict = Verdict(verb, now, pod.uid, pod.key, self._judge.policy.name, age, offered, fitting)
        self.sink.keep(replace(verdict, note=note))
        if self.options.when_stale is WhenStale.ABSTAIN:
            return True
        raise StalePicture(f"{note}; it answers again once it can follow the API server")

    def _begin(self, pod: Pod, now: float) -> None:
        """Who asks again has no place yet, whatever was assumed."""
        self.picture.expire(now)
        self.picture.release(pod.uid)

    def _rows(self, names: list[str]) -> tuple[Ints, list[str]]:
        """Rows of the nodes that are known, and the names of the others."""
        row_of = self.picture.row_of
        found = [row_of.get(name, -1) for name in names]
        unknown = [name for name, row in zip(names, found, strict=True) if row < 0] if -1 in found else []
        rows = np.array(found, dtype=np.int64)
        return (rows[rows >= 0] if unknown else rows), unknown

    def _special(
        self, pod: Pod, names: list[str], kept: Mapping[str, str], unknown: list[str]
    ) -> dict[str, Refusal | None]:
        """Verdicts on nodes that are not the shape's: unknown ones, kept ones, and the one where the pod has
        a place of its own already."""
        found: dict[str, Refusal | None] = {name: Refusal("", UNKNOWN_NODE, True) for name in unknown}
        own = self._own_place(pod)
        if own:
            found[own] = self._judge.refusal_of(pod, own)
        if kept:
            found |= {name: Refusal("", kept[name], True) for name in names if name in kept}
        return found

    def _own_place(self, pod: Pod) -> str:
        """The node on which a migration of ours keeps room for this very pod."""
        known = self.picture.pods.get(pod.uid)
        name = known.nominated_node if known is not None and known.steering and not known.node_name else ""
        return name if name in self.picture.nodes else ""

    def _takes(self, pod: Pod, name: str, judged: Judged) -> bool:
        row = self.picture.row_of.get(name)
        if row is None:
            return False
        if name == self._own_place(pod):
            return self._judge.refusal_of(pod, name) is None
        return bool(judged.code[row] == TAKES)

    def _ask_gang(
        self,
        pod: Pod,
        names: list[str],
        judged: Judged,
        rows: Ints,
        kept: Mapping[str, str],
        refused: dict[str, Refusal | None],
    ) -> None:
        need = gangs.need_of(self.picture, pod)
        if need is None or not (judged.code[rows] == TAKES).any():
            return
        has_room = not need.missing and gangs.has_room(self._judge, need.waiting, kept)
        words = gangs.why_not(need, pod.gang, has_room)
        if not words:
            return
        for name in names:
            row = self.picture.row_of.get(name)
            if name not in refused and row is not None and judged.code[row] == TAKES:
                # No preemption for one member: the others would still have no place.
                refused[name] = Refusal("", words, True)

    def _sort(
        self, names: list[str], judged: Judged, refused: Mapping[str, Refusal | None]
    ) -> tuple[list[str], dict[str, str], dict[str, str]]:
        fitting: list[str] = []
        failed: dict[str, str] = {}
        hopeless: dict[str, str] = {}
        row_of, refusals, codes = self.picture.row_of, self._judge.refusals, judged.code.tolist()
        for name in names:
            refusal = refused[name] if name in refused else refusals[codes[row_of[name]]]
            if refusal is None or not refusal.words:
                fitting.append(name)
            elif refusal.hopeless:
                hopeless[name] = refusal.words
            else:
                failed[name] = refusal.words
        return fitting, failed, hopeless

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
