"""The database restarts, is full, takes no more connections, is locked, loses the answer to a COMMIT."""

import threading
import time

import psycopg
import pytest

from apps.executions.models import Execution
from apps.executions.states import TERMINAL, ExecutionState, StepKind
from tests.executions.stage import database_url
from tests.executions.test_stories import has_sent, is_real_eviction
from tests.faults.cutting import CuttingDoor

pytestmark = pytest.mark.django_db(transaction=True)
CUT_ALL = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND usename = 'faulty'
"""
FULL = """
CREATE SEQUENCE met_full;
GRANT USAGE ON SEQUENCE met_full TO faulty;
CREATE FUNCTION be_full() RETURNS trigger AS $$
BEGIN
    PERFORM nextval('met_full');
    RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = '53100';
END
$$ LANGUAGE plpgsql;
CREATE TRIGGER be_full BEFORE INSERT ON executions_stepevent FOR EACH ROW EXECUTE FUNCTION be_full();
"""
"""A sequence counts also where its transaction fails: it tells that somebody met this."""
NO_LONGER_FULL = """
DROP TRIGGER be_full ON executions_stepevent; DROP FUNCTION be_full(); DROP SEQUENCE met_full;
"""


@pytest.fixture
def owner():
    """The test's own connection; the workers come as `faulty`, whom a limit of connections binds."""
    with psycopg.connect(database_url(), autocommit=True) as connection:
        connection.execute("CREATE ROLE faulty LOGIN PASSWORD 'faulty'")
        connection.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO faulty")
        connection.execute("GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO faulty")
        yield connection
        connection.execute(CUT_ALL)
        connection.execute("DROP OWNED BY faulty")
        connection.execute("DROP ROLE faulty")


@pytest.fixture
def door():
    scheme, _, rest = database_url().partition("://")
    found = CuttingDoor(f"{scheme}://faulty:faulty@{rest.partition('@')[2]}")
    yield found
    found.close()


@pytest.mark.fault(
    "database: restart", "database: full", "database: pool exhausted", "database: lock time-out",
    "database: unknown COMMIT",
)  # fmt: skip
def test_whatever_the_database_does_each_pod_is_evicted_once(stage, workers_at, owner, door):
    execution, plan = stage.start()
    workers = workers_at(door.address)

    def keep_until(kind, effect):
        workers.keep(execution, lambda: has_sent(execution, kind, effect))

    keep_until(StepKind.CORDON_NODE, "cordon")
    owner.execute(CUT_ALL)

    keep_until(StepKind.HOLD_TARGET, "create_hold")
    owner.execute("ALTER ROLE faulty CONNECTION LIMIT 0")
    owner.execute(CUT_ALL)
    written = execution.events.count()
    workers.keep(execution, lambda: bool(workers.alive))
    time.sleep(1)
    assert execution.events.count() == written
    for worker in workers.alive:
        worker.kill()
    owner.execute("ALTER ROLE faulty CONNECTION LIMIT -1")

    door.armed = 3
    keep_until(StepKind.EVICT_POD, "evict")
    workers.keep(execution, lambda: door.cuts >= 3)

    owner.execute(FULL)
    workers.keep(execution, lambda: owner.execute("SELECT is_called FROM met_full").fetchone()[0])
    state = Execution.objects.get(pk=execution.pk).state
    assert state not in TERMINAL, "nothing was left to be done while it was full"
    owner.execute(NO_LONGER_FULL)

    lock = threading.Thread(target=_lock_for_a_while, args=(execution.pk, 1.0))
    lock.start()
    workers.carry(execution)
    lock.join()
    assert execution.state == ExecutionState.SUCCEEDED, stage.told(execution)
    taken = [one for one in stage.requests("POST", "/eviction") if is_real_eviction(one)]
    assert sorted(stage.evicted()) == sorted(move.pod_uid for move in plan.moves)
    assert len(taken) == len(plan.moves)


def _lock_for_a_while(execution_id, seconds):
    """Somebody else's transaction on the execution's row."""
    with psycopg.connect(database_url()) as connection:
        connection.execute("SELECT 1 FROM executions_execution WHERE id = %s FOR UPDATE", [execution_id])
        time.sleep(seconds)
