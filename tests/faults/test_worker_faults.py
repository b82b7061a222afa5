"""A worker that is asked to end in mid-run. Those killed at each boundary: tests/executions/test_crash."""

import os
import signal

import pytest

from apps.executions.states import ExecutionState, StepKind
from tests.executions.test_stories import has_sent, is_real_eviction

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.fault("worker: SIGTERM", "workflow: upgrade in mid-run")
def test_a_worker_that_is_asked_to_end_leaves_the_rest_to_one_that_knows_only_the_rows(stage, workers_at):
    execution, plan = stage.start()
    workers = workers_at()
    for kind, effect in (
        (StepKind.HOLD_TARGET, "create_hold"),
        (StepKind.EVICT_POD, "evict"),
        (StepKind.HAND_OVER, "taint"),
    ):
        workers.keep(execution, lambda kind=kind, effect=effect: has_sent(execution, kind, effect))
        for worker in workers.alive:
            os.kill(worker.pid, signal.SIGTERM)
            worker.wait()
        _write_as_an_older_release(execution)
    workers.carry(execution)
    assert execution.state == ExecutionState.SUCCEEDED, stage.told(execution)
    assert len(workers.forked) >= 4
    assert not any(NEWER & set(step.params) for step in execution.steps.all())
    asked = [call for call in stage.requests("POST", "/eviction") if is_real_eviction(call)]
    assert len(asked) == len(plan.moves)


NEWER = {"gang", "gang_needs", "pool", "workload", "why", "form"}
"""What the first release that carried plans out did not write down of a step."""


def _write_as_an_older_release(execution):
    for step in execution.steps.all():
        step.params = {name: value for name, value in step.params.items() if name not in NEWER}
        for name in ("tries", "failures", "crashes"):
            step.observed.pop(name, None)
        step.save(update_fields=["params", "observed"])
