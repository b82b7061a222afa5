"""What the tests of faults share: the small scene over HTTP, and workers that are real processes."""

import os
import time

import pytest

from apps.executions.models import Execution
from apps.executions.states import TERMINAL
from tests.cluster_fixtures import simulated_cluster  # noqa: F401
from tests.executions.conftest import stage, stage_of, webhook  # noqa: F401
from tests.executions.crashing import SETTINGS, fork_worker
from tests.executions.stage import database_url
from tests.nursery import nursery_for


@pytest.fixture
def workers_at(webhook):  # noqa: F811
    """workers_at(address): what forks workers on that address of the database, and ends them."""
    opened = []

    def open_one(address=""):
        environment = {**SETTINGS, **webhook.environment, "DATABASE_URL": address or database_url()}
        opened.append(Workers(environment))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


class Workers:
    """Keeps one worker on an execution: whenever it has died or ended, the next one is forked."""

    def __init__(self, environment):
        self._nursery = nursery_for({**os.environ, **environment})
        self.forked = []

    @property
    def alive(self):
        return [worker for worker in self.forked if worker.poll() is None]

    def keep(self, execution, is_so, seconds=60):
        """Until something is so."""
        deadline = time.monotonic() + seconds
        while not is_so():
            assert time.monotonic() < deadline, "it did not come so far"
            if not self.alive:
                self.end_lease(execution)
                self.forked.append(fork_worker(self._nursery, execution.pk))
            time.sleep(0.02)

    def carry(self, execution, seconds=60):
        self.keep(execution, lambda: Execution.objects.get(pk=execution.pk).state in TERMINAL, seconds)
        execution.refresh_from_db()

    def end_lease(self, execution):
        """Nobody alive holds it: the lease of a dead worker would run out by itself."""
        if not self.alive:
            Execution.objects.filter(pk=execution.pk).update(lease_until=None)

    def close(self):
        for worker in self.forked:
            worker.kill()
            worker.wait()
