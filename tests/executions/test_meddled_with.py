"""What others did to objects of ours: finalizers put on, our label or note taken off, nonsense written in."""

import json
from types import SimpleNamespace

import pytest

from apps.executions import services
from apps.executions.decisions import Verdict
from apps.executions.holds import HoldFacts
from apps.executions.models import Step
from apps.executions.objects import steering_webhook
from apps.executions.replacements import Found
from apps.executions.states import ExecutionState, StepKind
from apps.executions.steps import await_replacement, cordon_node, hold_target, release, steer
from apps.executions.stops import list_stops
from tests.executions.test_decisions_moves import NOW
from tests.executions.test_decisions_nodes import OURS, decide_cordon
from tests.executions.test_stories import carry, carry_until
from tests.executions.things import PARAMS, hold, node, pod, step

State = ExecutionState
OWNED, NOTE = "defrag.gpu.internal/owned", "defrag.gpu.internal/cordon"
HOLDS = "/api/v1/namespaces/gpu-defrag/pods"


@pytest.mark.parametrize("fence", ["abc", [9], {"a": 1}, None, "9", 2**53, 10**40, 1.5])
def test_nonsense_for_a_fence_is_no_newer_life(fence):
    assert decide_cordon(node(cordoned=True, cordon={**OURS, "fence": fence})).verdict == Verdict.DONE


@pytest.mark.parametrize(("owned", "is_told"), [("7-x1", True), ("8-y2", False), ("", False)])
@pytest.mark.parametrize("note", ["{not json", "[1]", ""])
def test_a_cordon_whose_note_was_changed_stays_and_is_told_where_our_label_shows_it(note, owned, is_told):
    found = node(cordoned=True)
    found["metadata"]["annotations"] = {NOTE: note}
    found["metadata"]["labels"] = {OWNED: owned}
    facts = cordon_node.Facts(found, OURS, 7, 3, "x1")
    decision = cordon_node.decide_undo(step(StepKind.CORDON_NODE, move=0), facts)
    assert decision.verdict == Verdict.DONE
    assert ("no longer carries our note" in decision.seen.get("left", "")) is is_told


def leaving(thing):
    thing["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x.io/keep"]}
    return thing


def test_what_is_deleted_already_is_not_deleted_again():
    gone = leaving(hold())
    undone = hold_target.decide_undo(step(StepKind.HOLD_TARGET), hold_target.Facts(HoldFacts(gone, "7")))
    configuration = leaving({"metadata": {"name": "gpu-defrag-s"}})
    landed = [
        release.decide(step(StepKind.RELEASE), release.Facts(None, None, gone), late=False),
        release.decide(step(StepKind.RELEASE), release.Facts(configuration, None, None), late=False),
    ]
    for decision in (undone, *landed):
        assert (decision.verdict, decision.cause) == (Verdict.WAIT, "deletion-stuck")


def test_a_hold_that_does_not_go_is_told_where_it_keeps_the_replacement_away():
    known = await_replacement.Facts(Found(pod(nominated="node-b")), NOW, hold=leaving(hold()), no_room="full")
    unplaced = await_replacement.decide(step(StepKind.AWAIT_REPLACEMENT), known, late=True)
    assert "our hold is deleted and has not gone" in unplaced.reason


@pytest.mark.django_db(transaction=True)
def test_what_others_did_to_our_objects_is_told_and_nothing_is_claimed_that_is_not_so(stage, settings):
    settings.EXECUTION_STEP_SECONDS = 3
    execution, _ = stage.start()
    carry_until(execution, lambda: _are_verified(execution, StepKind.HOLD_TARGET))
    kept, lost, *_ = [Step.objects.filter(execution=execution, kind=StepKind.HOLD_TARGET)[n] for n in (0, 1)]
    cordoned = Step.objects.filter(execution=execution, kind=StepKind.CORDON_NODE).first().params["node"]
    ask = stage.simulated.ask
    ask("PATCH", f"{HOLDS}/{kept.params['hold']}", {"metadata": {"finalizers": ["x.io/keep"]}})
    ask("PATCH", f"{HOLDS}/{lost.params['hold']}", {"metadata": {"labels": {OWNED: None}}})
    ask("PATCH", f"/api/v1/nodes/{cordoned}", {"metadata": {"annotations": {NOTE: json.dumps("mine")}}})

    services.roll_back(execution_id=execution.pk, actor=stage.operator, reason="no")
    assert carry(execution).state == State.NEEDS_HUMAN, stage.told(execution)
    assert execution.cause == "deletion-stuck"
    stop = list_stops(execution, list(execution.steps.all()))[0]
    assert f"hold {kept.params['hold']} is deleted and has not gone" in stop.seen
    assert len(stage.requests("DELETE", kept.params["hold"])) == 1

    ask("PATCH", f"{HOLDS}/{kept.params['hold']}", {"metadata": {"finalizers": None}})
    services.roll_back(execution_id=execution.pk, actor=stage.operator, reason="they are off")
    assert carry(execution).state == State.ROLLED_BACK, stage.told(execution)
    assert f"pod {lost.params['hold']}, which may keep room on" in execution.state_reason
    assert f"the cordon of node {cordoned}, which no longer carries our note" in execution.state_reason
    assert stage.traces() == [f"hold {lost.params['hold']}", f"cordon {cordoned}"]


def _are_verified(execution, kind):
    found = Step.objects.filter(execution=execution, kind=kind)
    return found.exists() and all(one.state == "verified" for one in found)


def _is_steered(execution):
    """The first move is about to be evicted; later ones are steered only then."""
    return Step.objects.filter(execution=execution, kind=StepKind.STEER, state="verified").exists()


HOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
CHANGES = [
    lambda hook: hook["clientConfig"].update(url="https://127.0.0.1:9/x"),
    lambda hook: hook.update(objectSelector={"matchLabels": {"nobody": "has"}}),
    lambda hook: hook.update(matchConditions=[]),
]


@pytest.mark.parametrize("change", CHANGES)
def test_what_decides_whose_pods_are_gated_is_compared_and_what_a_server_adds_is_not(change):
    place = SimpleNamespace(steering_url="https://x", ca_bundle="ca")
    context = SimpleNamespace(owned="7", place=place)
    found = steering_webhook(PARAMS, owned="7", address="https://x/a", ca_bundle="ca")
    found["webhooks"][0] |= {"matchPolicy": "Equivalent", "objectSelector": {}}
    assert steer.is_as_made(context, PARAMS, found, "https://x/a")
    change(found["webhooks"][0])
    (named,) = steer.what_differs(context, PARAMS, found, "https://x/a")
    assert named in {"clientConfig", "objectSelector", "matchConditions"}


@pytest.mark.django_db(transaction=True)
def test_nothing_is_evicted_once_somebody_changed_whom_the_api_server_asks(stage):
    execution, _ = stage.start()
    carry_until(execution, lambda: _is_steered(execution))
    ask = stage.simulated.ask
    for found in ask("GET", HOOKS)["items"]:
        CHANGES[0](found["webhooks"][0])
        ask("PATCH", f"{HOOKS}/{found['metadata']['name']}", {"webhooks": found["webhooks"]})
    assert carry(execution).state == State.NEEDS_HUMAN, stage.told(execution)
    assert execution.cause == "steering-gone"
    assert "was changed by somebody (" in execution.state_reason
    assert not [call for call in stage.requests("POST", "/eviction") if "dryRun" not in call["query"]]
