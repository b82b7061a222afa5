"""Cordons, taints, and what is left: rules 19 to 23."""

from __future__ import annotations

import json
from collections import Counter

from tests.faults.records import ExecutionRow, Records
from tests.faults.rules.reading import CORDON, GATE, HELD, MIGRATION, OWNED, TERMINAL, Violations, find_writes


def invariant_19_only_our_own_cordons_are_removed(records: Records) -> Violations:
    ours: set[str] = set()
    for call in find_writes(records, "nodes"):
        if call.spec.get("unschedulable") is True:
            ours.add(call.name)
        elif "unschedulable" in call.spec and call.name not in ours:
            yield f"{call.path} was uncordoned, and we never cordoned it"


def invariant_20_cordoned_before_stays_cordoned(records: Records) -> Violations:
    before = {name for one in records.executions for name in one.cordoned_before}
    ours = {call.name for call in find_writes(records, "nodes") if call.spec.get("unschedulable") is True}
    for call in find_writes(records, "nodes"):
        if call.name in before - ours and "unschedulable" in call.spec:
            yield f"{call.path} was cordoned before the plan, and we opened it"
    for step in records.steps:
        if step.kind == "cordon_node" and step.state == "superseded" and "cordon" in step.sent:
            yield f"node {step.params['node']} is another's, and our cordon was sent all the same"


def invariant_21_every_cordon_says_whose_why_and_until_when(records: Records) -> Violations:
    for call in find_writes(records, "nodes"):
        if call.spec.get("unschedulable") is not True:
            continue
        text = ((call.body.get("metadata") or {}).get("annotations") or {}).get(CORDON)
        try:
            told = json.loads(text or "{}")
        except ValueError:
            told = {}
        missing = [key for key in ("execution", "mark", "reason", "deadline", "fence") if not told.get(key)]
        if missing:
            yield f"{call.path} was cordoned without {', '.join(missing)}"


def invariant_22_nothing_of_an_ended_execution_is_left(records: Records) -> Violations:
    """Whatever ended it: no cordon, hold, gate, taint or webhook carries its mark."""
    for execution in records.executions:
        if execution.state in TERMINAL:
            yield from _left_by(execution, records)
    ended = all(one.state in TERMINAL for one in records.executions)
    for node in records.nodes if ended else []:
        for taint in node["spec"].get("taints") or []:
            if taint["key"] == HELD:
                yield f"taint {HELD} on node {node['metadata']['name']}"


def _left_by(execution: ExecutionRow, records: Records) -> Violations:
    number, _, mark = execution.owned.partition("-")
    for node in records.nodes:
        text = (node["metadata"].get("annotations") or {}).get(CORDON, "{}")
        told = json.loads(text)
        if str(told.get("execution")) == number and told.get("mark") == mark:
            yield f"cordon of ended execution {number} on node {node['metadata']['name']}"
    for thing in (*records.pods, *records.webhooks):
        name, labels = thing["metadata"]["name"], thing["metadata"].get("labels") or {}
        if labels.get(OWNED) == execution.owned and "deletionTimestamp" not in thing["metadata"]:
            yield f"{name} of ended execution {number}"
        steering = (thing["metadata"].get("annotations") or {}).get(MIGRATION, "")
        gates = [gate["name"] for gate in (thing.get("spec") or {}).get("schedulingGates") or []]
        if steering.startswith(f"steer-{execution.owned}-") and GATE in gates:
            yield f"{name} waits behind the gate of ended execution {number}"


def invariant_23_nothing_is_in_two_plans_at_once(records: Records) -> Violations:
    states = {one.id: one.state for one in records.executions}
    for subject, times in Counter(subject for _, subject in records.claims).items():
        if times > 1:
            yield f"{subject} is claimed {times} times"
    for execution, subject in records.claims:
        if states.get(execution) in TERMINAL:
            yield f"execution {execution} has ended and still claims {subject}"
