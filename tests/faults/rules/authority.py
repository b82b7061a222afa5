"""Who may, and what is written of it: rules 37 to 42."""

from __future__ import annotations

import json
from collections import Counter

from tests.faults.records import Records
from tests.faults.rules.reading import Violations


def invariant_37_nobody_approves_his_own(records: Records) -> Violations:
    for one in records.executions:
        if one.approver in one.authors:
            yield f"the plan of execution {one.id} was approved by one of its authors"


def invariant_41_every_effect_has_its_audit_row(records: Records) -> Violations:
    kinds = {step.id: step.kind for step in records.steps}
    meant: Counter[tuple[str, str]] = Counter()
    for event in records.events:
        if event.state == "intent":
            meant[f"step.{kinds[event.step]}.{event.effect}", str(event.step)] += 1
    written = Counter((one.action, one.subject.rpartition(":")[2]) for one in records.audits)
    for (action, step), times in meant.items():
        if written[action, step] != times:
            yield f"{action} of step {step}: {times} intents, {written[action, step]} audit rows"
    if records.broken_chain:
        yield f"the audit chain is broken: {records.broken_chain}"


def invariant_42_no_secret_is_written_anywhere(records: Records) -> Violations:
    places = {
        "the ledger": " ".join(event.message for event in records.events),
        "the steps": json.dumps([[step.params, step.observed, step.reason] for step in records.steps]),
        "the audit chain": json.dumps([audit.detail for audit in records.audits]),
        "an outcome": json.dumps([one.outcome for one in records.executions]),
    }
    for place, text in places.items():
        for secret in records.secrets:
            if secret and secret in text:
                yield f"{place} holds a secret ({secret[:3]}…)"
