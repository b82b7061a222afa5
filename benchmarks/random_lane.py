"""One lane of the random executions: a cluster after the other, a few executions on each, workers that are
killed, people who decide, and the verdict over what was recorded.

Not in here: the command and its sums (random_executions), clusters and faults (random_worlds).
"""

from __future__ import annotations

import random
import signal
import time
import urllib.error
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection
from django.utils import timezone

from apps.accounts.models import RoleGrant, User
from apps.clusters.errors import ConnectionFailed
from apps.clusters.services import record_snapshot, register_cluster
from apps.executions import services, tasks
from apps.executions.errors import HeldByPolicy, InUse, WrongState
from apps.executions.models import Claim, Execution, Step
from apps.executions.pictures import take_picture
from apps.executions.settling import settle_by_hand
from apps.executions.states import TERMINAL, ExecutionState, StepKind
from apps.kube.errors import KubeError
from apps.plans import services as plan_services
from apps.plans.computing import compute_draft
from apps.plans.errors import InvalidRequest
from apps.plans.errors import WrongState as WrongPlan
from apps.plans.models import Plan
from apps.plans.queries import current_version, open_plan
from benchmarks.random_executions import (
    CHAOS_SECONDS,
    ENDING_SECONDS,
    GOALS,
    IN_FLIGHT_SECONDS,
    KINDS,
    PER_CLUSTER,
    Result,
)
from benchmarks.random_worlds import Trouble, draw_cluster
from tests.cluster_fixtures import _answers, _start_simulated, wait_until
from tests.executions.crashing import fork_worker
from tests.executions.stage import Stage
from tests.faults.invariants import find_violations
from tests.faults.records import gather
from tests.nursery import Nursery, Worker

WAITING = (ExecutionState.PAUSED, ExecutionState.NEEDS_HUMAN)
MOST_CLUSTERS = 12
"""A group of executions gets so many clusters, in case that nothing can be done in the first ones."""
ROLES = {"ada": "planner", "ben": "approver", "omar": "operator", "root": "admin"}


def _ask_again(ask: Callable[[], Any]) -> Any:
    """What the observer himself wants to know comes also from a machine that is busy with all the lanes."""
    for _ in range(5):
        try:
            return ask()
        except (ConnectionFailed, KubeError):
            time.sleep(1)
    return ask()


class World:
    """One running cluster, registered, and its people."""

    def __init__(self, name: str, simulated: Any, people: dict[str, User], may_preempt: bool) -> None:
        self.simulated, self.people = simulated, people
        self.ask = simulated.ask
        self.gateway = simulated.gateway()
        self.cluster = _ask_again(
            lambda: register_cluster(actor=None, name=name, kubeconfig=simulated.kubeconfig)
        )
        if may_preempt:
            plan_services.change_policy(
                actor=people["root"], cluster=self.cluster, wishes={"may_preempt": True}
            )

    def picture(self) -> Any:
        name = self.cluster.name
        listed = lambda kind: self.gateway.list_objects(kind).objects  # noqa: E731
        return _ask_again(lambda: take_picture(listed, cluster=name, taken_at=time.time()))

    def look(self) -> Any:
        """The watcher's part."""
        row = record_snapshot(cluster_id=self.cluster.pk, snapshot=self.picture())
        type(self.cluster).objects.filter(pk=self.cluster.pk).update(watched_at=row.taken_at)
        return row

    def start(self, goal: str, may_preempt: bool) -> tuple[Execution, Any] | None:
        """As people do it; None where there is nothing to be done for that goal."""
        self.look()
        asked = {"workload": "work/urgent-0", "may_preempt": True} if may_preempt else {}
        try:
            plan = plan_services.request_plan(
                actor=self.people["ada"], cluster=self.cluster, goal=goal, **asked
            )
            compute_draft(plan.pk)
            plan = Plan.objects.get(pk=plan.pk)
            version = current_version(plan)
            if version is None:
                return None
            plan_services.propose_plan(plan_id=plan.pk, actor=self.people["ada"])
            plan_services.approve_plan(
                plan_id=plan.pk,
                approver=self.people["ben"],
                digest=version.digest,
                comment="drawn",
                logged_in_at=timezone.now(),
            )
            execution = services.start_execution(actor=self.people["omar"], plan_id=plan.pk)
        except (InvalidRequest, WrongPlan, WrongState, InUse, HeldByPolicy):
            return None
        return execution, open_plan(version)


class Lane:
    def __init__(self, seed: int, nursery: Nursery, folder: Path) -> None:
        self.seed, self.nursery, self.folder = seed, nursery, folder
        self.people = {name: User.objects.create(username=name) for name in ROLES}
        for name, role in ROLES.items():
            RoleGrant.objects.create(user=self.people[name], role=role)

    def run_cluster(self, group: int, wanted: Iterable[int], told: Callable[[Result], None]) -> None:
        """All executions of a group from its first on, so that one of them again meets the same cluster.
        Where nothing is left to be done in it, the next cluster is drawn."""
        number, tries = group * PER_CLUSTER, 0
        while number <= max(wanted) and tries < MOST_CLUSTERS:
            with self._new_world(group, tries) as (kind, world):
                while number <= max(wanted):
                    result = self._run_one(number, kind, world)
                    if result is None:
                        break
                    if number in wanted:
                        told(result)
                    number += 1
            tries += 1

    @contextmanager
    def _new_world(self, group: int, tries: int) -> Iterator[tuple[str, World]]:
        draw = random.Random(f"{self.seed} {group} {tries}")
        kind = draw.choice(KINDS)
        folder = self.folder / f"cluster-{group}-{tries}"
        folder.mkdir()
        dump = draw_cluster(draw, kind, folder)
        simulated = _start_simulated(folder, {"dump": dump, "time_scale": 40})
        try:
            wait_until(lambda: _answers(simulated), seconds=90, what=f"see {simulated.log}")
            yield kind, World(f"sim-{group}-{tries}", simulated, self.people, kind == "preemption")
        finally:
            simulated.stop()

    def _run_one(self, number: int, kind: str, world: World) -> Result | None:
        draw = random.Random(f"{self.seed} execution {number}")
        for goal in draw.sample(GOALS[kind], len(GOALS[kind])):
            started = world.start(goal, kind == "preemption")
            if started is not None:
                return Run(number, kind, goal, world, self.nursery, draw, *started).carry_out()
        return None


class Run:
    """One execution from its start to the verdict."""

    def __init__(
        self, number: int, kind: str, goal: str, world: World, nursery: Nursery, draw: random.Random,
        execution: Execution, plan: Any,
    ) -> None:  # fmt: skip
        self.result = Result(number, kind, goal)
        self.world, self.nursery, self.draw = world, nursery, draw
        self.execution = execution
        self.trouble = Trouble(world.ask, draw, plan, kind)
        self.trouble.cordoned = {name for name, node in world.picture().nodes.items() if node.unschedulable}
        self.workers: list[Worker] = []
        self.most = draw.choice([1, 1, 2, 3])

    def carry_out(self) -> Result:
        began = time.monotonic()
        try:
            self._go_wild()
            self.trouble.heal()
            self._bring_to_an_end()
        finally:
            for worker in self.workers:
                self._kill(worker)
        self.result.outcome = str(self._state())
        self.result.reason = Execution.objects.get(pk=self.execution.pk).state_reason
        self.result.faults = dict(self.trouble.done)
        sent = Step.objects.filter(execution=self.execution, intent_at__isnull=False)
        self.result.steps = dict(Counter(sent.values_list("kind", flat=True)))
        self._judge()
        self.result.seconds = time.monotonic() - began
        return self.result

    # --- while things go wrong

    def _go_wild(self) -> None:
        """Faults, kills and decisions, until it has ended or the time for that is over."""
        limit = time.monotonic() + CHAOS_SECONDS
        left = self.draw.randint(2, 12)
        if self.draw.random() < 0.8:
            self._let_preflight_pass(self.draw.uniform(0, 1))
        while time.monotonic() < limit and self._state() not in TERMINAL:
            self._keep_workers()
            time.sleep(self.draw.uniform(0.02, 0.3))
            if self._state() in WAITING:
                self._explain()
                if not left or self.draw.random() < 0.4:
                    return
                self._decide(self.draw.choice(["resume", "resume", "cancel", "roll_back"]))
            if left <= 0:
                continue
            left -= 1
            what = self.draw.random()
            if what < 0.45:
                self.trouble.strike()
            elif what < 0.85:
                self._kill_one()
            elif what < 0.88:
                self._cut_connections()
            elif what < 0.91:
                self._let_one_sleep()
            else:
                self._decide(self.draw.choice(["pause", "resume", "cancel", "roll_back"]))

    def _let_preflight_pass(self, seconds: float) -> None:
        """What goes wrong before anything is touched ends most executions at once."""
        limit = time.monotonic() + CHAOS_SECONDS
        while self._state() in (ExecutionState.QUEUED, ExecutionState.PREFLIGHT) and time.monotonic() < limit:
            self._keep_workers()
            time.sleep(0.02)
        time.sleep(seconds)

    def _keep_workers(self) -> None:
        self._bury_the_dead()
        state = self._state()
        if state in TERMINAL or (state in WAITING and self.workers):
            return
        if len(self.workers) < self.most and (not self.workers or self.draw.random() < 0.3):
            self.workers.append(fork_worker(self.nursery, self.execution.pk))

    def _kill_one(self) -> None:
        if self.workers:
            worker = self.workers.pop(self.draw.randrange(len(self.workers)))
            self._kill(worker)
            self.result.kills += 1

    def _let_one_sleep(self) -> None:
        """As a machine that was suspended: its lease runs out, others take over, it wakes and goes on."""
        if not self.workers:
            return
        sleeper = self.workers.pop(self.draw.randrange(len(self.workers)))
        sleeper.send_signal(signal.SIGSTOP)
        try:
            limit = time.monotonic() + settings.EXECUTION_LEASE_SECONDS + 1
            while time.monotonic() < limit:
                self._keep_workers()
                time.sleep(0.1)
        finally:
            sleeper.send_signal(signal.SIGCONT)
        self.workers.append(sleeper)
        self.result.sleeps += 1

    def _kill(self, worker: Worker) -> None:
        """Its lease runs out by itself, after the time that any request of it may still take."""
        worker.kill()
        worker.wait()
        self._end_lease_of(worker)

    def _bury_the_dead(self) -> None:
        """One that its database left died by itself and gave nothing back."""
        dead = [worker for worker in self.workers if worker.poll() is not None]
        self.workers = [worker for worker in self.workers if worker not in dead]
        for worker in dead:
            self._end_lease_of(worker)

    def _end_lease_of(self, worker: Worker) -> None:
        held = Execution.objects.filter(
            pk=self.execution.pk, lease_owner__endswith=f":{worker.pid}", lease_until__isnull=False
        ).exclude(state__in=TERMINAL)
        if held.exists():
            time.sleep(IN_FLIGHT_SECONDS)
            held.update(lease_until=None)

    def _cut_connections(self) -> None:
        """What a restart of the database does to its clients."""
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
                "AND datname = current_database() AND client_port IS NOT NULL"
            )
        self.trouble.done["database connections cut"] += 1

    def _decide(self, what: str) -> bool:
        try:
            getattr(services, what)(
                execution_id=self.execution.pk, actor=self.world.people["omar"], reason="drawn"
            )
        except (WrongState, HeldByPolicy):
            return False
        self.result.decisions.append(what)
        return True

    # --- to its end

    def _bring_to_an_end(self) -> None:
        """Nothing goes wrong any more. What stands still says why; a person then ends it."""
        if self._state() in WAITING:
            self._decide(self.draw.choice(["resume", "cancel", "roll_back"]))
        for way in ("cancel", "roll_back", "roll_back"):
            self._run_until_it_stands()
            if self._state() in TERMINAL:
                return
            self._explain()
            self._clear_the_way()
            self._decide(way)
        self._run_until_it_stands()
        if self._settle():
            self._run_until_it_stands()

    def _settle(self) -> bool:
        """What cannot be undone was put right by hand, as its runbook says, and is told so."""
        words = "drawn: put right by hand"
        try:
            settle_by_hand(execution_id=self.execution.pk, actor=self.world.people["omar"], reason=words)
        except WrongState:
            return False
        self.result.decisions.append("settle")
        return True

    def _run_until_it_stands(self) -> None:
        limit = time.monotonic() + ENDING_SECONDS
        while time.monotonic() < limit:
            state = self._state()
            self._bury_the_dead()
            if state in TERMINAL or (state in WAITING and not self.workers):
                return
            if not self.workers:
                self.workers.append(fork_worker(self.nursery, self.execution.pk))
            time.sleep(0.05)

    def _clear_the_way(self) -> None:
        """As the runbook says: a node that is to be left as it is is opened by hand."""
        stuck = Step.objects.filter(execution=self.execution, kind=StepKind.RECONFIGURE_MIG)
        for step in stuck:
            if "uncordon" in step.observed.get("runbook", ""):
                node = step.params["node"]
                self.world.ask("PATCH", f"/api/v1/nodes/{node}", {"spec": {"unschedulable": None}})

    def _explain(self) -> None:
        """What stands still says why, and what a person can do."""
        row = Execution.objects.get(pk=self.execution.pk)
        if row.state not in WAITING:
            return
        self.result.explained.append(row.state_reason[:200])
        if not row.state_reason:
            self.result.violations.append(f"it is {row.state} and does not say why")
        if row.state == ExecutionState.NEEDS_HUMAN:
            steps = [s for s in row.steps.all() if s.observed.get("needs_person")]
            untold = [s for s in steps if not s.observed.get("runbook") or not s.reason]
            if untold or not (steps or row.outcome.get("differences")):
                self.result.violations.append(
                    f"a person is needed and is not told what for: {row.state_reason}"
                )

    def _state(self) -> str:
        return str(Execution.objects.values_list("state", flat=True).get(pk=self.execution.pk))

    # --- the verdict

    def _judge(self) -> None:
        found = self.result.violations
        if self.result.outcome not in TERMINAL:
            found.append(f"it has not ended: {Execution.objects.get(pk=self.execution.pk).state_reason}")
            Execution.objects.filter(pk=self.execution.pk).update(state="failed")
            Claim.objects.filter(execution=self.execution).delete()
        self._free_late_pods()
        secrets = (self.world.simulated.credentials.token,)
        records = gather(self.world.ask, self.world.cluster.pk, secrets)
        records = replace(records, lost_layouts=self.trouble.lost_layouts())
        for number, many in find_violations(records).items():
            found += [f"rule {number}: {words}" for words in many]
        for name, node in self.world.picture().nodes.items():
            if node.unschedulable and name not in self.trouble.cordoned:
                found.append(f"node {name} is left cordoned")
        for name in self.trouble.cordoned:
            self.world.ask("PATCH", f"/api/v1/nodes/{name}", {"spec": {"unschedulable": None}})
        if found:
            self.result.ledger = Stage.told(self.execution)

    def _free_late_pods(self) -> None:
        """The timer's part, for pods whose admission took longer than the release looks for them."""
        try:
            self.world.look()
            tasks.free_stray_pods()
        except urllib.error.HTTPError:
            return
