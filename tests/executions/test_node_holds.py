"""A target that is kept by a taint: when, and what the steps make of it. No cluster, no database."""

from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from apps.executions import flow
from apps.executions.blueprint import draft_steps
from apps.executions.decisions import Verdict
from apps.executions.flow import Ledger
from apps.executions.names import GATE, HELD, HOSTNAME
from apps.executions.node_holds import choose_taints
from apps.executions.objects import held_taint, keeps_out, pin_and_ungate
from apps.executions.replacements import Found
from apps.executions.states import StepKind, StepState
from apps.executions.steps import await_replacement, cordon_node, evict_pod, hold_node, preempt_pod
from apps.planner.plan import HandOver, Reconfiguration
from apps.planner.terms import Taint, Toleration
from tests.executions import things
from tests.executions.things import step
from tests.plans.situations import picture, plan_of_one_move, pod

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
EVERYTHING = (Toleration(key="", operator="Exists"),)
VALUE = "7-ab"
HELD_NODE = {"taint": VALUE, "reason": "2 moves go there", "moves": [1, 2]}


def waiting(**facts):
    return pod("urgent", "", 1, phase="Pending", ready=False, workload="job", **{"priority": 9, **facts})


def scene(*more, pods=None):
    return picture(pods=[pod("lora", "node-a", 1), pod("train", "node-b", 4), *(pods or ()), *more])


def two_moves():
    plan = plan_of_one_move()
    second = replace(plan.moves[0], order=2, pod_uid="uid-lora-2", pod="ml/lora-2")
    return replace(plan, moves=(plan.moves[0], second)), scene(pod("lora-2", "node-a", 1))


def test_one_move_without_anybody_of_a_higher_rank_keeps_its_room_by_paper():
    assert choose_taints(plan_of_one_move(), scene()) == {}
    assert choose_taints(plan_of_one_move(), scene(waiting(priority=0))) == {}
    assert choose_taints(plan_of_one_move(), scene(waiting(node_selector={"zone": "moon"}))) == {}


def test_who_waits_with_a_higher_rank_is_kept_out_by_a_taint_and_named():
    target = plan_of_one_move().moves[0].target
    found = choose_taints(plan_of_one_move(), scene(waiting()))
    assert list(found) == [target]
    assert "ml/urgent" in found[target]
    assert "higher priority" in found[target]


def test_two_moves_to_one_node_share_its_taint_and_have_no_paper_hold():
    plan, seen = two_moves()
    drafts = draft_steps(plan, seen, owned=VALUE)
    kinds = [draft.kind for draft in drafts]
    assert StepKind.HOLD_TARGET not in kinds
    (kept,) = [draft for draft in drafts if draft.kind == StepKind.HOLD_NODE]
    assert kept.params["reason"] == "2 moves go there"
    assert kept.params["moves"] == [1, 2]
    last = max(at for at, kind in enumerate(kinds) if kind == StepKind.AWAIT_REPLACEMENT)
    assert kinds.index(StepKind.HOLD_NODE) < kinds.index(StepKind.EVICT_POD)
    assert last < kinds.index(StepKind.RELEASE_NODE)
    assert {draft.params["taint"] for draft in drafts if draft.move} == {VALUE}


@pytest.mark.parametrize("why", ["mig", "handed over", "tolerates all", "daemon", "best effort", "taken"])
def test_where_the_taint_would_do_harm_or_nothing_paper_holds_stay(why):
    plan, seen = two_moves()
    target, form = plan.moves[0].target, ""
    if why == "mig":
        plan = replace(plan, reconfigurations=(Reconfiguration(1, target, "0", 0, {}, {}, "wanted"),))
    elif why == "handed over":
        plan = replace(plan, hand_overs=(HandOver(pod_uid="uid-lora", pod="ml/lora", node=target),))
    elif why == "tolerates all":
        seen = scene(pod("lora-2", "node-a", 1), waiting(tolerations=EVERYTHING))
    elif why == "daemon":
        seen = scene(pod("lora-2", "node-a", 1), pod("exporter", target, 0, owner_kind="DaemonSet"))
    elif why == "taken":
        held = replace(
            seen.nodes[target], taints=(*seen.nodes[target].taints, Taint(HELD, "another", "NoSchedule"))
        )
        seen = replace(seen, nodes={**seen.nodes, target: held})
    else:
        form = "best_effort"
    assert choose_taints(plan, seen, owned=VALUE, form=form) == {}


def test_a_daemon_that_tolerates_everything_bars_nothing():
    plan, seen = two_moves()
    daemon = pod("proxy", plan.moves[0].target, 0, owner_kind="DaemonSet", tolerations=EVERYTHING)
    assert choose_taints(plan, scene(pod("lora-2", "node-a", 1), daemon), owned=VALUE)


def test_a_taint_of_somebody_else_is_neither_used_nor_removed():
    kept = step(StepKind.HOLD_NODE, move=0, **HELD_NODE)
    theirs = hold_node.Facts(things.node(taints=[held_taint("another")]))
    assert hold_node.decide(kept, theirs, late=False).verdict == Verdict.STOP
    assert not hold_node.decide_undo(kept, theirs).effect
    assert hold_node.decide(kept, hold_node.Facts(things.node()), late=False).effect == "taint_target"


def test_a_taint_of_ours_that_somebody_made_a_mere_wish_keeps_nobody_out_and_is_removed_all_the_same():
    kept = step(StepKind.HOLD_NODE, move=0, **HELD_NODE)
    wish = hold_node.Facts(things.node(taints=[held_taint(VALUE) | {"effect": "PreferNoSchedule"}]))
    told = hold_node.decide(kept, wish, late=False)
    assert (told.verdict, told.cause) == (Verdict.STOP, "taint-removed")
    assert f"kubectl taint node node-a {HELD}={VALUE}:NoSchedule" in told.runbook
    assert hold_node.decide_undo(kept, wish).effect == "untaint_target"
    assert not keeps_out(wish.node, VALUE)
    assert keeps_out(things.node(taints=[held_taint(VALUE) | {"effect": "NoExecute"}]), VALUE)


@pytest.mark.parametrize(
    ("node", "there", "cause"),
    [
        (None, (), "node-gone"),
        (things.node(uid="another", cordoned=True, cordon={"execution": 7}), (), "node-gone"),
        (things.node(), (), "uncordoned"),
        (things.node(cordoned=True, cordon={"execution": 8}), (), "uncordoned"),
        (things.node(cordoned=True, cordon={"execution": 7}), ("ml/late",), "newcomer"),
        (things.node(cordoned=True, cordon={"execution": 7}), (), None),
    ],
)
def test_a_source_that_is_not_kept_any_more_is_told_by_its_own_cause(monkeypatch, node, there, cause):
    monkeypatch.setattr(cordon_node, "find_newcomers", lambda *args: there)
    gateway = SimpleNamespace(get_object=lambda *args: node)
    context = SimpleNamespace(gateway=gateway, execution=SimpleNamespace(pk=7), mark="")
    changed = cordon_node.what_changed(context, step(StepKind.CORDON_NODE, move=0, seen={"cordoned": True}))
    assert (changed and changed.cause) == cause
    if changed is not None:
        decision = evicting(source_changed=changed)
        assert (decision.verdict, decision.cause) == (Verdict.STOP, cause)
        assert decision.runbook.endswith("this pod was not evicted.")
        given = preempt_pod.Facts(things.pod(on="node-a"), changed)
        assert preempt_pod.decide(step(StepKind.PREEMPT_POD), given, late=False).cause == cause


def evicting(**changes):
    facts = evict_pod.Facts(things.pod(on="node-a"), None, steered_for=9.0)
    return evict_pod.decide(step(StepKind.EVICT_POD, taint=VALUE), replace(facts, **changes), late=False)


def test_nothing_is_evicted_once_somebody_took_the_taint_off():
    assert evicting().effect == "evict"
    gone = evicting(is_kept=False)
    assert (gone.verdict, gone.cause) == (Verdict.STOP, "taint-removed")


def awaiting(found):
    facts = await_replacement.Facts(Found(found, by_gate=True), NOW, hostname="node-b")
    return await_replacement.decide(step(StepKind.AWAIT_REPLACEMENT, taint=VALUE), facts, late=False)


def test_a_gated_replacement_is_pinned_and_let_in_by_its_one_patch_without_a_nomination():
    gated = things.pod("lora-2", gated=True, steering="steer-7-1", spec={"tolerations": [{"key": "x"}]})
    assert awaiting(gated).effect == "pin"
    spec = pin_and_ungate(gated, "node-b", VALUE)["spec"]
    assert spec["nodeSelector"] == {HOSTNAME: "node-b"}
    assert spec["schedulingGates"] == [{"$patch": "delete", "name": GATE}]
    assert [(one["key"], one.get("value")) for one in spec["tolerations"]] == [("x", None), (HELD, VALUE)]


def test_the_webhook_pins_only_where_all_that_is_steered_together_goes_to_one_kept_node():
    plan, seen = two_moves()
    shared = {uid: replace(one, workload="rs-lora") for uid, one in seen.pods.items() if "lora" in uid}
    seen = replace(seen, pods={**seen.pods, **shared})
    pins = lambda **form: {d.params.get("pins_to") for d in draft_steps(plan, seen, owned=VALUE, **form)}  # noqa: E731
    assert pins() - {None} == {"node-b"}
    assert pins(form="parameter") == {None}
    apart = replace(plan, moves=(plan.moves[0], replace(plan.moves[1], target="node-c")))
    assert {d.params.get("pins_to") for d in draft_steps(apart, seen, owned=VALUE)} == {None}


def test_what_the_webhook_pinned_is_evicted_once_where_its_room_was_taken():
    found = things.pod(
        "lora-2",
        steering="steer-7-1",
        spec={"nodeSelector": {HOSTNAME: "node-b"}, "tolerations": [{"key": HELD, "value": VALUE}]},
    )
    facts = await_replacement.Facts(Found(found, by_gate=True), NOW, no_room="target node-b is full")
    wait = step(StepKind.AWAIT_REPLACEMENT, taint=VALUE, pins_to="node-b")
    assert await_replacement.decide(wait, facts, late=False).verdict == Verdict.WAIT
    assert await_replacement.decide(wait, facts, late=True).effect == "evict_replacement"


def test_a_replacement_that_came_ungated_is_let_onto_the_closed_target():
    assert awaiting(things.pod("lora-2")).effect == "let_in"


def test_the_taint_goes_with_the_last_of_its_moves_and_stands_before_the_first():
    kinds = (StepKind.STEER, StepKind.EVICT_POD, StepKind.AWAIT_REPLACEMENT, StepKind.RELEASE)
    steps = [step(StepKind.HOLD_NODE, move=0, wave=0, **HELD_NODE)]
    steps += [step(kind, move=move, wave=wave) for move, wave in ((1, 1), (2, 1), (3, 2)) for kind in kinds]
    steps += [step(StepKind.RELEASE_NODE, move=0, wave=0, **HELD_NODE)]
    for number, one in enumerate(steps, start=1):
        one.pk = one.position = number
    assert [one.kind for one in flow.steps_to_run(Ledger(steps))] == [StepKind.HOLD_NODE]
    steps[0].state = StepState.VERIFIED
    for one in steps:
        if one.move == 1:
            one.state = StepState.VERIFIED
    assert [one.move for one in flow.steps_to_run(Ledger(steps))] == [2]
    for one in steps:
        if one.move == 2:
            one.state = StepState.VERIFIED
    assert [(one.kind, one.move) for one in flow.steps_to_run(Ledger(steps))] == [
        (StepKind.RELEASE_NODE, 0),
        (StepKind.STEER, 3),
    ]
