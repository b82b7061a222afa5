"""On what ground: rules 7 to 12."""

from __future__ import annotations

import json

from tests.faults.records import EventRow, Records, StepRow
from tests.faults.rules.reading import (
    BEGINNING,
    EVICTING,
    LONGEST_WATCH_SECONDS,
    Violations,
    find_intents,
    find_writes,
)


def invariant_07_what_runs_is_what_was_approved(records: Records) -> Violations:
    for one in records.executions:
        if len({one.digest, one.computed_digest, one.decided_digest}) != 1:
            yield f"execution {one.id}: version {one.digest}, approval {one.decided_digest}, "
            yield f"execution {one.id}: its body has {one.computed_digest}"


def invariant_08_each_eviction_is_preceded_by_a_look(records: Records) -> Violations:
    """After the last thing that was written for the same move; or this life of the runner watches pods."""
    pods = [call for call in records.calls if call.method == "GET" and "/pods" in call.path]
    looks = [call.at for call in pods if "watch" not in call.query]
    watches = [call.at for call in pods if "watch" in call.query]
    for step in records.steps:
        if step.kind not in EVICTING:
            continue
        for intent in find_intents(records, step):
            before = _events_before(records, step, intent)
            since = max((event.at for event in before), default=0.0)
            if intent.effect != "evict" or any(since <= at <= intent.at for at in looks):
                continue
            born = max((one.at for one in records.events if _is_of_earlier_life(one, intent)), default=0.0)
            if not any(born <= at <= intent.at < at + LONGEST_WATCH_SECONDS for at in watches):
                yield f"pod {step.params.get('pod')} was evicted without a look after {since:.3f}"


def _is_of_earlier_life(event: EventRow, intent: EventRow) -> bool:
    return event.execution == intent.execution and event.fence < intent.fence


def _events_before(records: Records, step: StepRow, intent: EventRow) -> list[EventRow]:
    """Of the same step or move; of the execution where there are none."""
    of_step = {one.id: one for one in records.steps if one.execution == step.execution}
    earlier = [
        event for event in records.events if event.execution == step.execution and event.id < intent.id
    ]
    own = [
        event
        for event in earlier
        if event.step == step.id or (step.move and event.step and of_step[event.step].move == step.move)
    ]
    return own or [event for event in earlier if event.state == "preflight"]


def invariant_09_nothing_starts_after_its_approval_ran_out(records: Records) -> Violations:
    for one in records.executions:
        if one.created_at > one.expires_at:
            yield f"execution {one.id} was started {one.created_at - one.expires_at:.0f} s too late"


def invariant_10_nothing_is_sent_before_the_preflight_has_passed(records: Records) -> Violations:
    for execution in records.executions:
        _, events = records.of(execution)
        begun = next((event.id for event in events if not event.step and event.state == "running"), None)
        for event in events:
            if event.state == "intent" and (begun is None or event.id < begun):
                yield f"execution {execution.id}: {event.message} before its preflight had passed"


def invariant_11_what_was_never_read_is_never_written(records: Records) -> Violations:
    """An execution without steps has seen no cluster that was as approved, so nothing carries its mark."""
    for execution in records.executions:
        steps, _ = records.of(execution)
        marks = [
            call for call in find_writes(records) if execution.owned in json.dumps(call.body) + call.path
        ]
        if not steps and marks:
            yield f"execution {execution.id} has no steps and sent {marks[0].method} {marks[0].path}"


def invariant_12_nothing_begins_while_it_stands_still(records: Records) -> Violations:
    """Paused by a person, a freeze window or the kill switch, waiting for a person, or being undone."""
    for execution in records.executions:
        _, events = records.of(execution)
        state = ""
        for event in events:
            state = event.state if not event.step else state
            begins = event.state == "intent" and event.effect in BEGINNING
            if begins and state in ("paused", "needs_human", "cancelling", "rolling_back"):
                yield f"execution {execution.id} is {state}, and sent {event.message}"
