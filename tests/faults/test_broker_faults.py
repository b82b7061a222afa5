"""A real Celery worker on a broker that restarts, forgets, repeats, delays: only latency changes."""

import os
import subprocess
import sys
import time

import celery
import psutil
import pytest
import redis

from apps.executions import services, tasks
from apps.executions.models import Execution, Step
from apps.executions.states import TERMINAL, ExecutionState, StepKind
from console.embedded import die_with_parent, start_valkey
from tests.cluster_fixtures import wait_until
from tests.executions.stage import ROOT, database_url
from tests.executions.test_stories import carry, has_sent, is_real_eviction

pytestmark = pytest.mark.django_db(transaction=True)
ADVANCE = "apps.executions.tasks.advance_execution"
RECONCILE = "apps.executions.tasks.reconcile_executions"
SHORT = {
    "EXECUTION_LEASE_SECONDS": "8",
    "KUBE_CONNECT_SECONDS": "0.5",
    "KUBE_READ_SECONDS": "1.5",
    "EXECUTION_POLL_SECONDS": "0.05",
    "DJANGO_SETTINGS_MODULE": "console.settings.test",
}


class Broker:
    """A broker of its own and one worker process with one child."""

    def __init__(self, folder, environment):
        self._folder = folder
        self.server = start_valkey(folder)
        self.address = self.server.url
        self.app = celery.Celery(broker=self.address, set_as_current=False)
        addresses = {"DATABASE_URL": database_url(), "REDIS_URL": self.address}
        command = [sys.executable, "-m", "celery", "-A", "console", "worker", "--concurrency", "1"]
        self.worker = subprocess.Popen(
            [*command, "--loglevel", "WARNING", "--without-gossip", "--without-mingle"],
            cwd=ROOT,
            env={**os.environ, **SHORT, **environment, **addresses},
            preexec_fn=die_with_parent,
        )  # fmt: skip

    def send(self, task, *arguments, times=1):
        for _ in range(times):
            self.app.send_task(task, args=arguments, retry=False)

    def forget_everything(self):
        redis.Redis.from_url(self.address).flushall()

    def go_away(self):
        self.server.stop()
        self.app.close()

    def come_back(self):
        port = int(self.address.rpartition(":")[2].partition("/")[0])
        self.server = start_valkey(self._folder, port=port)

    def children(self):
        return psutil.Process(self.worker.pid).children()

    def stop(self):
        self.worker.kill()
        self.worker.wait()
        self.server.stop()


@pytest.fixture
def broker(webhook, tmp_path, transactional_db):
    running = Broker(tmp_path / "broker", webhook.environment)
    yield running
    running.stop()


def state_of(execution):
    return Execution.objects.values_list("state", flat=True).get(pk=execution.pk)


def keep_sending(broker, execution, is_so, task, *arguments, times=1, seconds=90):
    def send_and_look():
        broker.send(task, *arguments, times=times)
        time.sleep(0.2)
        return is_so()

    wait_until(send_and_look, seconds=seconds, what=state_of(execution))


@pytest.mark.fault(
    "broker: duplicates x10", "broker: FLUSHALL", "broker: no beat", "broker: two beats", "broker: restart",
    "broker: an hour down", "worker: only the pool child is killed",
)  # fmt: skip
def test_a_broker_that_forgets_repeats_and_goes_away_changes_only_latency(stage, broker):
    execution, plan = stage.start()
    hold = lambda: has_sent(execution, StepKind.HOLD_TARGET, "create_hold")  # noqa: E731
    keep_sending(broker, execution, hold, ADVANCE, execution.pk, times=10)
    broker.forget_everything()

    (child,) = broker.children()
    child.kill()
    wait_until(lambda: [one for one in broker.children() if one.pid != child.pid], seconds=20)
    evict = lambda: has_sent(execution, StepKind.EVICT_POD, "evict")  # noqa: E731
    keep_sending(broker, execution, evict, RECONCILE, times=2)

    broker.go_away()
    carry(execution, seconds=90)  # the same look by `reconcile`, which needs no broker
    assert execution.state == ExecutionState.SUCCEEDED, stage.told(execution)
    broker.come_back()
    asked = [call for call in stage.requests("POST", "/eviction") if is_real_eviction(call)]
    assert len(asked) == len(plan.moves)


@pytest.mark.fault("broker: a message delayed past a cancel", "broker: a forged message")
def test_late_and_forged_messages_do_nothing(stage, broker):
    execution, _plan = stage.start()
    keep_sending(
        broker, execution, lambda: Step.objects.filter(execution=execution).exists(), ADVANCE, execution.pk
    )
    services.cancel(execution_id=execution.pk, actor=stage.operator, reason="no")
    keep_sending(broker, execution, lambda: state_of(execution) in TERMINAL, ADVANCE, execution.pk)
    ended = stage.told(execution)
    calls = len(stage.requests())

    broker.send(ADVANCE, execution.pk, times=3)
    for task, arguments in ((ADVANCE, ["7; DROP TABLE"]), (ADVANCE, [{"id": 1}]), (ADVANCE, []),
                            (ADVANCE, [10**30]), ("os.system", ["true"]), (ADVANCE, [999_999])):  # fmt: skip
        broker.send(task, *arguments)
    broker.app.send_task(ADVANCE, args=[execution.pk], serializer="pickle", retry=False)
    broker.send(RECONCILE)
    queue = redis.Redis.from_url(broker.address)
    wait_until(lambda: queue.llen("celery") == 0, seconds=30, what="the worker ended")
    time.sleep(0.5)
    assert stage.told(execution) == ended
    assert len(stage.requests()) == calls
    assert broker.worker.poll() is None
    tasks.reconcile_executions()
