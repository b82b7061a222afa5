"""Once, in order, and told: rules 29 to 35."""

from __future__ import annotations

from collections import Counter

from tests.faults.records import OWN_NAMESPACE, Call, EventRow, ExecutionRow, Records, StepRow
from tests.faults.rules.reading import (
    CONFIG,
    EVICTING,
    GUARDED,
    TERMINAL,
    Violations,
    find_evictions,
    find_relabels,
    find_writes,
)


def invariant_29_no_effect_happens_twice(records: Records) -> Violations:
    for uid, times in Counter(call.uid for call in find_evictions(records) if call.was_taken).items():
        if times > 1:
            yield f"the pod with UID {uid} was evicted {times} times"
    last: dict[str, str] = {}
    for call in find_relabels(records):
        value = call.body["metadata"]["labels"][CONFIG]
        if call.was_taken and last.get(call.name) == value:
            yield f"node {call.name} was relabelled to {value} twice"
        if call.was_taken:
            last[call.name] = value
    made = Counter(
        f"{call.path} {(call.body.get('metadata') or {}).get('name')}"
        for call in find_writes(records)
        if call.method == "POST" and not call.is_eviction and call.was_taken and call.kind in GUARDED
    )
    removed = Counter(
        call.name for call in find_writes(records) if call.method == "DELETE" and call.was_taken
    )
    for thing, times in made.items():
        if times > 1 + removed[thing.rpartition(" ")[2]] and removed[thing.rpartition(" ")[2]] == 0:
            yield f"{thing} was made {times} times"


def invariant_30_the_intent_comes_first_and_the_outcome_before_the_next(records: Records) -> Violations:
    steps = {step.id: step for step in records.steps}
    intents = [event for event in records.events if event.state == "intent"]
    freed = sum(audit.action == "pod.freed" for audit in records.audits)
    ranks: Counter[str] = Counter()
    for call in sorted(find_writes(records), key=lambda one: one.at):
        if call.kind not in GUARDED:
            continue
        ranks[call.path] += 1
        meant = [e for e in intents if e.at <= call.at and _acts_on(steps[e.step], call)]
        if len(meant) + freed < ranks[call.path]:
            yield f"{call.method} {call.path} left before its intent was written"
    yield from _unanswered(records)


def _acts_on(step: StepRow, call: Call) -> bool:
    params = step.params
    if call.kind == "nodes":
        return call.name == params.get("node")
    if call.kind == "mutatingwebhookconfigurations":
        return call.name in ("", params.get("webhook"))
    if call.namespace == OWN_NAMESPACE:
        return call.name in ("", params.get("hold"))
    if call.is_eviction:
        return step.kind in (*EVICTING, "await_replacement") and call.namespace == params.get("namespace")
    return call.namespace in (params.get("namespace"), *params.get("namespaces", ()))


def _unanswered(records: Records) -> Violations:
    """Two intents of one claim without a word about the first between them."""
    for execution in records.executions:
        waiting: dict[int, EventRow] = {}
        _, events = records.of(execution)
        for event in events:
            if event.state != "intent":
                waiting = {fence: one for fence, one in waiting.items() if one.step != event.step}
                continue
            if event.fence in waiting:
                yield f"execution {execution.id}: {event.message} before the outcome of the last"
            waiting[event.fence] = event


def invariant_31_a_stale_claim_writes_nothing(records: Records) -> Violations:
    for execution in records.executions:
        _, events = records.of(execution)
        newest = 0
        for event in events:
            if event.fence < newest:
                yield f"execution {execution.id}: claim {event.fence} wrote after claim {newest}"
            newest = max(newest, event.fence)


def invariant_34_what_cannot_be_undone_is_told(records: Records) -> Violations:
    for execution in records.executions:
        if execution.state not in ("cancelled", "rolled_back"):
            continue
        gone = {call.uid for call in find_evictions(records) if call.was_taken}
        evicted = _evicted_by(records, execution)
        told = set(execution.outcome.get("not_undone", []))
        for uid in sorted(gone & evicted):
            if execution.approved_pods[uid] not in told:
                yield f"execution {execution.id} does not tell that it evicted {execution.approved_pods[uid]}"


def _evicted_by(records: Records, execution: ExecutionRow) -> set[str]:
    steps, _ = records.of(execution)
    mine = [step for step in steps if step.kind in EVICTING and "evict" in step.sent]
    return {step.params["uid"] for step in mine}


def invariant_35_ended_is_ended(records: Records) -> Violations:
    for execution in records.executions:
        _, events = records.of(execution)
        ends = [event.id for event in events if not event.step and event.state in TERMINAL]
        if len(ends) > 1:
            yield f"execution {execution.id} ended {len(ends)} times"
        later = [event for event in events if ends and event.id > ends[0]]
        if later:
            yield f"execution {execution.id} had ended, and then: {later[0].state} {later[0].message}"
