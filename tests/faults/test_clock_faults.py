"""Wrong clocks: the worker's, an hour ahead and behind by turns, and the database's, which jumps."""

import time

import pytest
import time_machine
from django.db import connection

from apps.executions import locks, runner
from apps.executions.states import TERMINAL, ExecutionState, StepKind
from tests.executions.test_stories import carry, carry_until, has_sent, is_real_eviction

pytestmark = pytest.mark.django_db(transaction=True)
HOUR = 3600.0
JUMPING = """
CREATE SCHEMA jumping;
CREATE TABLE jumping.by (seconds float8);
INSERT INTO jumping.by VALUES (0);
CREATE FUNCTION jumping.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
    'SELECT pg_catalog.clock_timestamp() + make_interval(secs => seconds) FROM jumping.by';
"""


@pytest.mark.fault("clock: worker one hour ahead", "clock: worker one hour behind", invariants=[36])
def test_a_worker_whose_clock_is_an_hour_wrong_does_the_same(stage):
    execution, plan = stage.start()
    deadline, ahead = time.monotonic() + 60, True
    while execution.state not in TERMINAL:
        assert time.monotonic() < deadline, stage.told(execution)
        wrong = time.time() + (HOUR if ahead else -HOUR)
        with time_machine.travel(wrong):
            runner.advance(execution.pk, seconds=0)
        ahead = not ahead
        execution.refresh_from_db()
    assert execution.state == ExecutionState.SUCCEEDED, stage.told(execution)
    assert sorted(stage.evicted()) == sorted(move.pod_uid for move in plan.moves)


@pytest.fixture
def jump(transactional_db):
    """jump(seconds): from now on the database's clock is off by so much."""
    name = connection.settings_dict["NAME"]
    with connection.cursor() as cursor:
        cursor.execute(JUMPING)
        cursor.execute(f'ALTER DATABASE "{name}" SET search_path = jumping, public, pg_catalog')
    connection.close()
    connection.close_pool()

    def act(seconds):
        with connection.cursor() as cursor:
            cursor.execute("UPDATE jumping.by SET seconds = %s", [seconds])

    yield act
    with connection.cursor() as cursor:
        cursor.execute(f'ALTER DATABASE "{name}" RESET search_path')
        cursor.execute("DROP SCHEMA jumping CASCADE")
    connection.close()
    connection.close_pool()


@pytest.mark.fault("clock: the database's jumps", without=(8, 30))
def test_when_the_databases_clock_jumps_nothing_is_done_twice_and_nobody_waits_for_it(stage, jump, settings):
    settings.EXECUTION_DEADLINE_SECONDS = 10 * HOUR
    execution, plan = stage.start()
    carry_until(execution, lambda: has_sent(execution, StepKind.STEER, "create_webhook"))
    sleeper = locks.claim(execution.pk, owner="sleeper", seconds=60)
    assert locks.claim(execution.pk, owner="second", seconds=60) is None
    jump(HOUR)
    second = locks.claim(execution.pk, owner="second", seconds=60)
    assert second is not None
    with pytest.raises(locks.LostLease):
        sleeper.renew()
    jump(0)
    assert locks.claim(execution.pk, owner="third", seconds=60) is not None, "an hour would be waited"
    type(execution).objects.update(lease_until=None)
    carry(execution)
    assert execution.state == ExecutionState.SUCCEEDED, stage.told(execution)
    asked = [call for call in stage.requests("POST", "/eviction") if is_real_eviction(call)]
    assert len(asked) == len(plan.moves)
