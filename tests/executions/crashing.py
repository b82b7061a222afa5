"""Kills real workers at the boundaries of the ledger, without a line of the product knowing.

A trigger in the test's database makes every writer of a step event wait for an advisory lock that this
side holds, and shows in `application_name` what is about to be written. So each boundary is met exactly:

before   the worker dies while its transaction is open: nothing of it is written
after    the worker dies once its transaction is committed, before it can do anything else: a table lock
         that was asked for meanwhile stops its next read of the ledger
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg

from apps.executions.models import Execution
from apps.executions.states import TERMINAL
from tests.executions.stage import ROOT, database_url
from tests.nursery import Nursery, Worker, nursery_for

GATE = 4711
INSTALL = f"""
CREATE FUNCTION show_boundary() RETURNS trigger AS $$
DECLARE kind text;
BEGIN
    SELECT s.kind INTO kind FROM executions_step s WHERE s.id = NEW.step_id;
    PERFORM set_config('application_name',
        'at ' || coalesce(kind, 'execution') || '/' || NEW.state || '/' ||
        CASE WHEN NEW.state IN ('intent', 'issued') THEN split_part(NEW.message, ':', 1) ELSE '' END, false);
    PERFORM pg_advisory_xact_lock_shared({GATE});
    PERFORM set_config('application_name', 'passing', false);
    RETURN NEW;
END $$ LANGUAGE plpgsql;
CREATE TRIGGER show_boundary BEFORE INSERT ON executions_stepevent
    FOR EACH ROW EXECUTE FUNCTION show_boundary();
"""
REMOVE = """
DROP TRIGGER show_boundary ON executions_stepevent;
DROP FUNCTION show_boundary();
"""
WAITING = """
SELECT a.application_name, a.pid FROM pg_stat_activity a
JOIN pg_locks l ON l.pid = a.pid AND l.locktype = 'advisory' AND NOT l.granted
WHERE a.datname = current_database() AND a.application_name LIKE 'at %'
"""
SETTINGS = {
    "DJANGO_SETTINGS_MODULE": "console.settings.test",
    "EXECUTION_POLL_SECONDS": "0.05",
    "EXECUTION_LEASE_SECONDS": "60",
}


def reconcile(execution: Execution, environment: dict[str, str], database: str = "") -> subprocess.Popen:
    """A worker of its own for one execution, until that has ended or waits for a person. database: the test's
    own if not given."""
    return subprocess.Popen(
        [sys.executable, "manage.py", "reconcile", "--execution", str(execution.pk), "--until-idle"],
        cwd=ROOT,
        env={**os.environ, **SETTINGS, **environment, "DATABASE_URL": database or database_url()},
    )


def fork_worker(nursery: Nursery, execution_id: int) -> Worker:
    """The same, from a process that has loaded the console."""
    return nursery.fork("reconcile", "--execution", str(execution_id), "--until-idle")


@contextmanager
def held_at(wanted: str, seconds: float = 60) -> Iterator[Callable[[Callable[[], object]], None]]:
    """Let writers pass up to one boundary. What is given to the yielded function happens when that is
    committed and its writer cannot do anything else yet."""
    deadline = time.monotonic() + seconds
    address = database_url()
    with psycopg.connect(address, autocommit=True) as gate, psycopg.connect(address) as table:
        gate.execute(INSTALL)
        gate.execute("SELECT pg_advisory_lock(%s)", [GATE])
        try:
            while (row := gate.execute(WAITING).fetchone()) is None or row[0] != f"at {wanted}":
                assert time.monotonic() < deadline, f"nobody came to {wanted}"
                _let_pass(gate, lambda: None) if row else time.sleep(0.005)
            yield lambda act: _act_after_commit(gate, table, act)
        finally:
            gate.execute("SELECT pg_advisory_unlock_all()")
            _insist(lambda: gate.execute(REMOVE))


@dataclass
class Killer:
    """Runs workers for one execution and kills them. kills: what each was about to write, and the moment.
    on_boundary: told of each before it passes. between: done while writers may pass."""

    execution_id: int
    environment: dict[str, str]
    kills: list[tuple[str, str]] = field(default_factory=list)
    met: set[tuple[str, str]] = field(default_factory=set)
    on_boundary: Callable[[str], None] = field(default=lambda boundary: None)
    between: Callable[[], object] = field(default=lambda: None)

    def run_to_the_end(self, seconds: float) -> None:
        """Kill once at every boundary that was not met before, until the execution has ended."""
        deadline = time.monotonic() + seconds
        address = database_url()
        nursery = nursery_for({**os.environ, **SETTINGS, **self.environment, "DATABASE_URL": address})
        with (
            psycopg.connect(address, autocommit=True) as gate,
            psycopg.connect(address) as table,
        ):
            gate.execute(INSTALL)
            gate.execute("SELECT pg_advisory_lock(%s)", [GATE])
            workers: list[Worker] = []
            try:
                while not self._has_ended():
                    assert time.monotonic() < deadline, f"killed so far: {self.kills}"
                    workers = [worker for worker in workers if worker.poll() is None]
                    workers = workers or [fork_worker(nursery, self.execution_id)]
                    self._watch(gate, table, workers[0])
            finally:
                gate.execute("SELECT pg_advisory_unlock_all()")
                for worker in workers:
                    worker.kill()
                    worker.wait()
                _insist(lambda: gate.execute(REMOVE))

    def _watch(self, gate: psycopg.Connection, table: psycopg.Connection, worker: Worker) -> None:
        """Wait for the next boundary; kill there if it is a new one, else let it pass."""
        row = gate.execute(WAITING).fetchone()
        if row is None:
            time.sleep(0.005)
            return
        boundary = row[0].removeprefix("at ")
        self.on_boundary(boundary)
        moments = ["before", "after"] if "/intent/" in boundary else ["before"]
        moment = next((one for one in moments if (boundary, one) not in self.met), None)
        if moment is None:
            _let_pass(gate, self.between)
            return
        self.met.add((boundary, moment))
        self.kills.append((boundary, moment))
        print(f"killed {moment} {boundary}", flush=True)
        if moment == "before":
            _kill(worker)
            # The server would notice only once the lock is its: a dead client's transaction is rolled back.
            gate.execute("SELECT pg_terminate_backend(%s)", [row[1]])
        else:
            _act_after_commit(gate, table, lambda: _kill(worker))
        self._end_lease()

    def _has_ended(self) -> bool:
        return Execution.objects.get(pk=self.execution_id).state in TERMINAL

    def _end_lease(self) -> None:
        """The dead worker's lease runs out; the test does not wait a minute for that."""
        _insist(lambda: Execution.objects.filter(pk=self.execution_id).update(lease_until=None))


def _let_pass(gate: psycopg.Connection, between: Callable[[], object]) -> None:
    """One writer passes: the lock is asked for again at once and comes back when it has committed.
    What is to happen between two boundaries is done while nobody has to wait."""
    gate.execute("SELECT pg_advisory_unlock(%s)", [GATE])
    between()
    gate.execute("SELECT pg_advisory_lock(%s)", [GATE])


def _kill(worker: Worker) -> None:
    worker.kill()
    worker.wait()


def _act_after_commit(gate: psycopg.Connection, table: psycopg.Connection, act: Callable[[], object]) -> None:
    """Queue for both tables behind the worker's own transaction, let that commit, then act. Without the
    first one it would renew its lease meanwhile, and might be about to send."""
    tables = "executions_execution, executions_step"
    locked = threading.Thread(target=lambda: table.execute(f"LOCK TABLE {tables} IN ACCESS EXCLUSIVE MODE"))
    locked.start()
    _insist(lambda: _require_queue(gate))
    gate.execute("SELECT pg_advisory_unlock(%s)", [GATE])
    locked.join(30)
    act()
    table.rollback()
    gate.execute("SELECT pg_advisory_lock(%s)", [GATE])


def _require_queue(gate: psycopg.Connection) -> None:
    waiting = "SELECT 1 FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND NOT granted"
    if gate.execute(waiting).fetchone() is None:
        raise psycopg.OperationalError("nobody waits for the table yet")


def _insist(act: Callable[[], object], seconds: float = 20) -> None:
    """Until PostgreSQL has noticed that a client is gone, its locks still stand."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            act()
            return
        except psycopg.Error:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
