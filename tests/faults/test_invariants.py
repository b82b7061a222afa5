"""Each assertion holds on a record of an execution that did well, and fails on one that breaks its rule."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.faults.invariants import INVARIANTS, find_violations
from tests.faults.records import AuditRow, Call, EventRow, ExecutionRow, Records, StepRow
from tests.faults.rules.reading import CONFIG, CORDON, HELD, HOSTNAME, OWNED

NODE, TARGET, SPACE = "/api/v1/nodes/node-a", "/api/v1/nodes/node-b", "/api/v1/namespaces/ml/pods"
HOLD = "/api/v1/namespaces/gpu-defrag/pods"
CORDON_TEXT = json.dumps({"execution": 7, "mark": "ab", "reason": "freed", "deadline": "2026", "fence": 1})


def guarded(uid="uid-node-a", **body):
    return {"metadata": {"uid": uid, "resourceVersion": "5", **body.pop("metadata", {})}, **body}


def cordon(at, **metadata):
    body = guarded(spec={"unschedulable": True}, metadata={"annotations": {CORDON: CORDON_TEXT}} | metadata)
    return Call(at, "PATCH", NODE, 200, body)


def eviction(at, uid="uid-lora", name="lora", status=201, **options):
    body = {"deleteOptions": {"preconditions": {"uid": uid}, **options}}
    return Call(at, "POST", f"{SPACE}/{name}/eviction", status, body)


def relabel(at, value="cut"):
    return Call(at, "PATCH", NODE, 200, guarded(metadata={"labels": {CONFIG: value}}))


def uncordon(at, path=NODE, uid="uid-node-a"):
    return Call(at, "PATCH", path, 200, guarded(uid, spec={"unschedulable": None}))


def list_pods(at):
    return Call(at, "GET", "/api/v1/pods", 200)


def pod(name, uid, node, *, owner="rs", created="1970-01-01T00:00:08Z", **metadata):
    owners = [{"uid": owner, "controller": True}]
    known = {"name": name, "uid": uid, "ownerReferences": owners, "creationTimestamp": created}
    return {"metadata": known | metadata, "spec": {"nodeName": node}}


PARAMS = {
    "pod": "ml/lora", "namespace": "ml", "name": "lora", "uid": "uid-lora", "target": "node-b",
    "workload_uid": "rs", "hold": "hold-7-ab-1", "webhook": "hook",
}  # fmt: skip
CUT, WHOLE = {"node": "node-a", "config": "cut", "offers": {"x": 7}}, {"before": "whole"}
KEPT = {"is_cordoned": True, "namespaces": ["q"]}
STEPS = [
    StepRow(1, 7, "cordon_node", "verified", params={"node": "node-a"}, observed={"sent": ["cordon"]}),
    StepRow(2, 7, "reconfigure_mig", "verified", params=CUT, observed={"sent": ["relabel"], "seen": WHOLE}),
    StepRow(3, 7, "hold_target", "verified", 1, PARAMS),
    StepRow(4, 7, "evict_pod", "verified", 1, PARAMS, {"sent": ["evict"]}),
    StepRow(5, 7, "await_replacement", "verified", 1, PARAMS, {"seen": {"replacement": "uid-new"}}),
    StepRow(6, 7, "hand_over", "verified", params={**KEPT, "node": "node-a"}),
    StepRow(7, 7, "hand_over", "verified", params={**KEPT, "node": "node-c"}),
    StepRow(8, 7, "release", "verified", params={"node": "node-a"}),
]  # fmt: skip
WALK = [
    (0, "preflight", ""), (0, "running", ""),
    (1, "intent", "cordon: x"), (1, "issued", "cordon: ok"), (1, "verified", ""),
    (2, "intent", "relabel: x"), (2, "issued", "relabel: ok"), (2, "verified", ""),
    (3, "intent", "create_hold: x"), (3, "issued", "create_hold: ok"), (3, "verified", ""),
    (4, "intent", "evict: x"), (4, "issued", "evict: ok"), (4, "verified", ""),
    (5, "verified", ""),
    (6, "intent", "taint: x"), (6, "issued", "taint: ok"),
    (7, "intent", "taint: x"), (7, "issued", "taint: ok"),
    (6, "intent", "tolerate: x"), (6, "issued", "tolerate: ok"),
    (8, "intent", "uncordon: x"), (8, "issued", "uncordon: ok"),
    (0, "succeeded", ""),
]  # fmt: skip
EVENTS = [EventRow(n, 7, step, n / 2, 1, state, text) for n, (step, state, text) in enumerate(WALK, start=1)]
KINDS = {step.id: step.kind for step in STEPS}
AUDITS = [
    AuditRow(f"step.{KINDS[event.step]}.{event.effect}", f"executions.Step:{event.step}")
    for event in EVENTS
    if event.state == "intent"
]
CALLS = [
    list_pods(0.6),
    cordon(1.6),
    list_pods(1.8),
    relabel(3.1),
    Call(4.6, "POST", HOLD, 201, {"metadata": {"name": "hold-7-ab-1"}}),
    list_pods(5.8),
    eviction(6.1),
    Call(8.1, "PATCH", NODE, 200, guarded(spec={"taints": [{"key": HELD}]})),
    Call(9.1, "PATCH", "/api/v1/nodes/node-c", 200, guarded("uid-node-c", spec={"taints": [{"key": HELD}]})),
    Call(
        10.1, "PATCH", "/api/v1/namespaces/q/pods/w", 200, guarded("w", spec={"tolerations": [{"key": HELD}]})
    ),
    uncordon(11.2),
]
GOOD = Records(
    calls=CALLS,
    executions=[
        ExecutionRow(
            7,
            "7-ab",
            "succeeded",
            {"uid-lora": "ml/lora"},
            {"node-a": "uid-node-a", "node-b": "uid-node-b", "node-c": "uid-node-c"},
            frozenset({"ml", "q"}),
            cordoned_before=frozenset({"node-b"}),
            outcome={"not_undone": ["ml/lora"]},
        )
    ],
    steps=STEPS,
    events=EVENTS,
    audits=AUDITS,
    nodes=[{"metadata": {"name": "node-a"}, "spec": {}, "status": {"allocatable": {"x": "7"}}}],
    pods=[pod("lora-2", "uid-new", "node-b")],
    secrets=("hush",),
)


def with_call(*calls):
    return replace(GOOD, calls=[*CALLS, *calls])


def without_call(*numbers):
    return replace(GOOD, calls=[call for number, call in enumerate(CALLS) if number not in numbers])


def with_execution(**facts):
    return replace(GOOD, executions=[replace(GOOD.executions[0], **facts)])


def with_events(*walk):
    rows = [EventRow(n, 7, s, n / 2, 1, state, text) for n, (s, state, text) in enumerate(walk, start=1)]
    return replace(GOOD, events=rows)


def with_step(number, **facts):
    return replace(GOOD, steps=[replace(s, **facts) if s.id == number else s for s in STEPS])


def moved(step, *, before):
    """The walk with the events of one step before those of another."""
    mine = [one for one in WALK if one[0] == step]
    rest = [one for one in WALK if one[0] != step]
    at = next(number for number, one in enumerate(rest) if one[0] == before)
    return with_events(*rest[:at], *mine, *rest[at:])


TAINTED = {
    "metadata": {"name": "n"},
    "spec": {"taints": [{"key": HELD}]},
    "status": {"allocatable": {"x": 7}},
}
CORDONED = {"metadata": {"name": "n", "annotations": {CORDON: CORDON_TEXT}}, "spec": {}}
GATED = {
    "metadata": {"name": "p", "uid": "u", "annotations": {"defrag.gpu.internal/migration": "steer-7-ab-1"}},
    "spec": {"schedulingGates": [{"name": "defrag.gpu.internal/steer"}]},
}
VIOLATIONS = [
    (1, with_call(eviction(7, uid="uid-other", status=409))),
    (1, with_call(eviction(7, uid=""))),
    (2, with_call(Call(7, "PATCH", NODE, 200, {"metadata": {"uid": "uid-node-a"}}))),
    (2, with_call(Call(7, "PATCH", NODE, 200, guarded("uid-of-an-earlier-node")))),
    (3, with_call(eviction(7, uid="uid-other", name="other"))),
    (3, with_call(eviction(7, name="other"))),
    (4, with_call(Call(7, "DELETE", f"{SPACE}/lora", 200, {"preconditions": {"uid": "uid-lora"}}))),
    (4, with_call(Call(7, "DELETE", f"{HOLD}/hold-7-ab-1", 200))),
    (4, with_call(eviction(7, gracePeriodSeconds=0))),
    (5, with_execution(protected=("ml/lora",))),
    (6, with_call(Call(7, "PATCH", "/api/v1/nodes/node-z", 200, guarded()))),
    (6, with_call(Call(7, "PATCH", "/api/v1/namespaces/bank/pods/x", 200, guarded()))),
    (7, with_execution(computed_digest="changed")),
    (7, with_execution(decided_digest="of another version")),
    (8, replace(GOOD, calls=[call for call in CALLS if call.at != 5.8])),
    (9, with_execution(created_at=20, expires_at=10)),
    (10, with_events(WALK[0], *WALK[2:])),
    (11, replace(GOOD, calls=CALLS[4:5], steps=[], events=[])),
    (12, with_events(*WALK[:11], (0, "paused", ""), *WALK[11:])),
    (13, moved(4, before=3)),
    (14, without_call(8)),
    (17, replace(GOOD, pods=[pod("lora-2", "uid-new", "node-c")])),
    (17, replace(GOOD, pods=[pod("lora-2", "uid-new", "node-b", owner="another")])),
    (17, replace(GOOD, pods=[pod("lora-2", "uid-new", "node-b", created="1970-01-01T00:00:02Z")])),
    (17, with_step(5, observed={"seen": {"replacement": "uid-lora"}})),
    (19, without_call(1)),
    (20, with_call(uncordon(12, TARGET, "uid-node-b"))),
    (20, with_step(1, state="superseded")),
    (21, with_call(cordon(12, annotations={}))),
    (22, replace(GOOD, nodes=[TAINTED])),
    (22, replace(GOOD, nodes=[CORDONED])),
    (22, replace(GOOD, pods=[GATED])),
    (22, replace(GOOD, pods=[pod("hold", "u", "", labels={OWNED: "7-ab"})])),
    (22, replace(GOOD, webhooks=[{"metadata": {"name": "hook", "labels": {OWNED: "7-ab"}}}])),
    (23, replace(GOOD, claims=[(7, "sim:pod:x")])),
    (23, replace(with_execution(state="running"), claims=[(7, "sim:pod:x"), (8, "sim:pod:x")])),
    (24, without_call(2)),
    (25, with_step(2, params={"node": "node-a", "config": "cut", "offers": {"x": 3}})),
    (27, with_call(relabel(12, "something"))),
    (28, with_call(uncordon(3.5))),
    (29, with_call(eviction(7))),
    (29, with_call(relabel(7))),
    (29, with_call(Call(7, "POST", HOLD, 201, {"metadata": {"name": "hold-7-ab-1"}}))),
    (30, replace(GOOD, calls=[cordon(1.4), *CALLS[2:]])),
    (30, with_call(eviction(7, status=500))),
    (30, with_events(*WALK[:3], *WALK[5:6], *WALK[3:5], *WALK[6:])),
    (31, replace(GOOD, events=[replace(EVENTS[0], fence=2), *EVENTS[1:]])),
    (34, with_execution(state="cancelled", outcome={"not_undone": []})),
    (35, with_events(*WALK, (4, "intent", "evict: x"))),
    (35, with_events(*WALK, (0, "cancelled", ""))),
    (37, with_execution(authors=frozenset({1, 3}))),
    (41, replace(GOOD, audits=AUDITS[1:])),
    (41, replace(GOOD, broken_chain="row 3 was changed")),
    (42, replace(GOOD, audits=[*AUDITS, AuditRow("x", "y", {"why": "the token is hush"})])),
    (42, with_step(4, observed={"sent": ["evict"], "seen": {"said": "hush"}})),
]  # fmt: skip


def test_a_record_without_a_fault_breaks_nothing():
    assert find_violations(GOOD) == {}


@pytest.mark.parametrize(
    ("number", "records"), VIOLATIONS, ids=lambda one: one if isinstance(one, int) else ""
)
def test_a_record_that_breaks_a_rule_is_found(number, records):
    assert list(INVARIANTS[number](records))


def test_every_assertion_has_a_record_that_it_refuses():
    assert {number for number, _ in VIOLATIONS} == set(INVARIANTS)


def test_a_replacement_that_we_had_pinned_may_be_evicted_once_more():
    pin = Call(7, "PATCH", f"{SPACE}/lora-2", 200, guarded("uid-new", spec={"nodeSelector": {HOSTNAME: "b"}}))
    again = eviction(8, uid="uid-new", name="lora-2")
    records = with_call(pin, again)
    assert not list(INVARIANTS[1](records))
    assert not list(INVARIANTS[3](records))
    assert list(INVARIANTS[3](with_call(again)))


def test_so_may_one_that_was_pinned_when_it_was_made():
    again = eviction(8, uid="uid-new", name="lora-2")
    for pins_to, is_fine in (("b", True), ("", False)):
        seen = {"seen": {"given_up": "uid-new"}}
        known = StepRow(99, 7, "await_replacement", "superseded", 1, {"pins_to": pins_to}, seen)
        records = replace(with_call(again), steps=[*GOOD.steps, known])
        assert [bool(list(INVARIANTS[number](records))) for number in (1, 3)] == [not is_fine] * 2


@pytest.mark.parametrize(
    ("node", "at", "is_fine"), [("node-a", 5, True), ("node-a", 3.9, False), ("node-b", 5, False)]
)
def test_a_layout_that_was_lost_after_it_was_verified_is_nobodys_fault(node, at, is_fine):
    cut = with_step(2, params={"node": "node-a", "config": "cut", "offers": {"x": 3}})
    found = list(INVARIANTS[25](replace(cut, lost_layouts={node: at})))
    assert bool(found) != is_fine


def test_an_open_watch_is_a_look_and_one_that_ended_long_ago_is_none():
    unseen = [call for call in CALLS if call.at != 5.8]
    for opened, is_fine in ((0.6, True), (-400.0, False)):
        watch = Call(opened, "GET", "/api/v1/pods", 200, query={"watch": "1"})
        assert bool(list(INVARIANTS[8](replace(GOOD, calls=[watch, *unseen[1:]])))) != is_fine


def test_a_rule_that_a_fault_breaks_by_itself_can_be_left_out():
    assert find_violations(with_execution(created_at=20, expires_at=10), without=(9,)) == {}
