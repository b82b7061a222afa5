"""An effect whose answer was lost is not repeated: for each one, the look that shows that it went out.

Every effect of every step has a row here; what is sent, and killed in between, over HTTP is `test_crash`.
"""

import re
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from apps.clusters.mig_manager import digest_of
from apps.executions import holds, mig_naming, mig_restoring, names, objects
from apps.executions.decisions import Verdict
from apps.executions.holds import HoldFacts
from apps.executions.kept_rooms import RoomFacts
from apps.executions.models import KeptRoom, Steering
from apps.executions.names import CHECKPOINT, CHECKPOINT_REQUESTED, HOSTNAME
from apps.executions.objects import held_taint, steering_parameter, steering_webhook
from apps.executions.replacements import Found, find_replacement
from apps.executions.states import StepKind
from apps.executions.steps import (
    await_replacement,
    checkpoint,
    cordon_node,
    evict_pod,
    hand_over,
    hold_node,
    hold_target,
    name_layout,
    preempt_pod,
    reconfigure_mig,
    release,
    steer,
)
from tests.executions import test_lower_memory
from tests.executions.test_decisions_mig import asked, look
from tests.executions.test_decisions_nodes import GANG, OURS, TAINT, TOLERANT
from tests.executions.things import PARAMS, hold, node, pod, step

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
GONE = [None, pod(uid="another"), pod(on="node-a", leaving=True)]
HELD_MAP = {"metadata": {"name": "migs", "uid": "uid-map", "resourceVersion": "3"}, "data": {}}
LAYOUT = {
    "config": "made",
    "config_digest": digest_of(()),
    "line": "",
    "config_map": {"name": "migs", "uid": "uid-map", "key": "config.yaml"},
}


def forward(module, kind, facts, *, late=False, sent=(), seen=None, move=1, **params):
    return module.decide(step(kind, move=move, sent=sent, seen=seen, **params), facts, late=late)


def backward(module, kind, facts, *, sent=(), seen=None, move=1, **params):
    return module.decide_undo(step(kind, move=move, sent=sent, seen=seen, **params), facts)


def awaiting(found, *, hold_left=None, steering=None, **how):
    facts = await_replacement.Facts(found, NOW, hold_left, steering, hostname="node-b")
    return forward(await_replacement, StepKind.AWAIT_REPLACEMENT, facts, **how)


def evicting(gone=None, **facts):
    facts = evict_pod.Facts(gone or pod(on="node-a"), HoldFacts(hold(), "7"), steered_for=9.0, **facts)
    return forward(evict_pod, StepKind.EVICT_POD, facts, sent=["evict"])


def handing(found, waiting=(), bound=0, sent=()):
    facts = hand_over.Facts(found, 7, True, list(waiting), bound)
    return forward(hand_over, StepKind.HAND_OVER, facts, move=0, sent=sent, **GANG)


def released(**facts):
    known = {"configuration": None, "steering": None, "hold": None, **facts}
    return forward(release, StepKind.RELEASE, release.Facts(**known))


def steered(found, **params):
    place = SimpleNamespace(steering_url="https://x", ca_bundle="ca")
    known = {**PARAMS, **params}
    is_as_made = found is not None and steer.is_as_made(
        SimpleNamespace(owned="7", place=place), known, found, "https://x"
    )
    traces = release.Facts(found, None, None)
    return forward(steer, StepKind.STEER, steer.Facts(found, "https://x", traces, is_as_made, True), **params)


def ours(**more):
    return {"metadata": {"name": "x", "uid": "u", "labels": {names.OWNED: "7"}}, **more}


CALLED = ours(webhooks=steering_webhook(PARAMS, owned="7", address="https://x", ca_bundle="ca")["webhooks"])
PARAMETER = {"form": "parameter"}
SPEC = steering_parameter({**PARAMS, **PARAMETER}, owned="7", deadline="")["spec"]
GATED = pod("lora-2", gated=True, steering="steer-7-1", nominated="node-b")
FREED = pod("lora-2", steering="steer-7-1", nominated="node-b", spec={"nodeSelector": {HOSTNAME: "node-b"}})
CLOSED = Steering(name="steer-7-1", closed_at=NOW)
REPLACED = pod("lora-2", steering="steer-7-1", leaving=True)
ASKED = pod(on="node-a", annotations={CHECKPOINT: "true", CHECKPOINT_REQUESTED: "2026-01-01T12:00:00Z"})
KEEPING = {"taint": "7-ab", "reason": "2 moves go there", "moves": [1, 2]}
LET_IN = pod("lora-2", spec={"tolerations": [{"key": names.HELD, "value": "7-ab"}]})
KEPT = {"cordoned": True, "cordon": OURS, "taints": [TAINT]}
SENT_MIG = {"sent": ("relabel", "restore")}
SEARCH = {"marks": {"steer-7-1"}, "owner": "uid-rs", "siblings": [], "taken": [], "known": "uid-lora-2"}


def keeping(found):
    return forward(hold_node, StepKind.HOLD_NODE, hold_node.Facts(found), move=0, **KEEPING)


def cordoning(found):
    return forward(cordon_node, StepKind.CORDON_NODE, cordon_node.Facts(found, OURS, 7, 3), move=0)


def hold_facts(found, owned, **facts):
    return hold_target.Facts(HoldFacts(found, owned, **facts))


def holding(facts):
    return forward(hold_target, StepKind.HOLD_TARGET, facts)


def lowering(found, *pods):
    return test_lower_memory.look(found, *pods, sent=["lower", "renew"])


LEAVING = test_lower_memory.pod()
LEAVING["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"


def naming(entries):
    return name_layout.Facts(HELD_MAP, NOW, 60.0, entries, mounted="migs")


# effect: what the next look finds once it went out, decided upon
SHOWN = {
    "cordon": lambda: cordoning(node(cordoned=True, cordon=OURS)),
    "uncordon": lambda: backward(
        cordon_node, StepKind.CORDON_NODE, cordon_node.Facts(node(), OURS, 7, 3), move=0
    ),
    "create_namespace": lambda: holding(hold_facts(None, "7", has_class=False)),
    "create_class": lambda: holding(hold_facts(None, "7")),
    "create_hold": lambda: holding(hold_facts(hold(nominated=""), "7")),
    "nominate_hold": lambda: holding(hold_facts(hold(), "7")),
    "keep_room": lambda: holding(hold_facts(None, "7", room=RoomFacts(KeptRoom(), "", is_kept=True))),
    "close_room": lambda: holding(hold_facts(None, "7", room=RoomFacts(KeptRoom(closed_at=NOW), "late"))),
    "delete_hold": lambda: backward(hold_target, StepKind.HOLD_TARGET, hold_facts(None, "7")),
    "ask": lambda: forward(
        checkpoint,
        StepKind.CHECKPOINT,
        checkpoint.Facts(ASKED, "2026-01-01T12:00:09Z"),
        sent=["ask"],
        seen={"asked_at": "2026-01-01T12:00:00Z"},
    ),
    "create_webhook": lambda: steered(CALLED),
    "create_parameter": lambda: steered(ours(spec=SPEC), **PARAMETER),
    "delete_webhook": lambda: released(steering=Steering(name="steer-7-1")),
    "delete_parameter": lambda: forward(
        release, StepKind.RELEASE, release.Facts(None, Steering(name="steer-7-1"), None), **PARAMETER
    ),
    "close_steering": lambda: released(steering=CLOSED),
    "free_pod": lambda: awaiting(Found(GATED, [], by_gate=True)),
    "open_again": lambda: awaiting(Found(None), steering=Steering(name="steer-7-1")),
    "evict": lambda: evicting(GONE[2]),
    "evict_replacement": lambda: awaiting(
        find_replacement([REPLACED], **SEARCH), late=True, sent=["pin", "evict_replacement"]
    ),
    "nominate": lambda: awaiting(Found(GATED, by_gate=True), hold_left=hold()),
    "pin": lambda: awaiting(Found(FREED, by_gate=True), sent=["pin"]),
    "taint": lambda: handing(node(**KEPT), [pod("gang-0")]),
    "tolerate": lambda: handing(node(**KEPT), [pod("gang-0", **TOLERANT)]),
    "untaint": lambda: handing(node(), bound=2, sent=["taint", "uncordon", "untaint"]),
    "taint_target": lambda: keeping(node(taints=[held_taint("7-ab")])),
    "untaint_target": lambda: backward(
        hold_node, StepKind.HOLD_NODE, hold_node.Facts(node()), move=0, **KEEPING
    ),
    "let_in": lambda: awaiting(Found(LET_IN), taint="7-ab"),
    "add": lambda: forward(name_layout, StepKind.NAME_LAYOUT, naming(()), move=0, sent=["add"], **LAYOUT),
    "remove": lambda: backward(
        name_layout, StepKind.NAME_LAYOUT, naming(None), move=0, sent=["add", "remove"], **LAYOUT
    ),
    "lower": lambda: lowering(test_lower_memory.owner("6")),
    "renew": lambda: lowering(test_lower_memory.owner("6"), LEAVING),
    "relabel": lambda: reconfigure_mig.decide(asked(issued_at=None), look("gpu5", "pending"), late=False),
    "restore": lambda: reconfigure_mig.decide_undo(asked(**SENT_MIG), look("all-disabled", "pending")),
}


@pytest.mark.parametrize("effect", SHOWN)
def test_what_went_out_is_seen_and_not_sent_again(effect):
    decision = SHOWN[effect]()
    assert decision.effect != effect, decision


@pytest.mark.parametrize("gone", GONE[:2])
def test_no_pod_is_evicted_twice_whatever_stands_under_its_name_now(gone):
    facts = evict_pod.Facts(gone)
    assert not forward(evict_pod, StepKind.EVICT_POD, facts, sent=["evict"]).effect
    assert not forward(preempt_pod, StepKind.PREEMPT_POD, preempt_pod.Facts(gone), sent=["evict"]).effect


def test_a_node_that_was_opened_to_its_gang_is_not_opened_again():
    opened = handing(node(taints=[TAINT]), [pod("gang-0", **TOLERANT)], sent=["taint", "uncordon"])
    assert not opened.effect


def test_who_gives_way_and_ends_is_not_evicted_again():
    leaving = preempt_pod.Facts(pod(on="node-a", leaving=True))
    assert not forward(preempt_pod, StepKind.PREEMPT_POD, leaving, sent=["evict"]).effect
    ended = preempt_pod.Facts({**pod(on="node-a", leaving=True), "status": {"phase": "Failed"}})
    assert forward(preempt_pod, StepKind.PREEMPT_POD, ended, sent=["evict"]).verdict == Verdict.DONE
    assert forward(preempt_pod, StepKind.PREEMPT_POD, ended).verdict == Verdict.MOOT


def test_every_effect_of_every_step_has_its_row():
    """By the source: whoever adds an effect says here what shows that it went out."""
    folder = Path(hold_target.__file__).parent
    files = [*folder.glob("*.py"), Path(holds.__file__), Path(mig_restoring.__file__)]
    text = "\n".join(file.read_text() for file in files)
    named = set(re.findall(r'\b(?:act|begin)\(\s*"(\w+)"', text))
    named |= set(re.findall(r'effect = "(\w+)" if \w+ else "(\w+)"', text)[0])
    assert named == set(SHOWN)


WRITES = {
    "pin": objects.pin_and_ungate(GATED, "node-b"),
    "pin and let in": objects.pin_and_ungate(GATED, "node-b", "7-ab"),
    "free": objects.ungate(GATED),
    "nominate": objects.nomination(GATED, "node-b"),
    "tolerate": objects.toleration_patch(pod("gang-0"), "v"),
    "ask": objects.checkpoint_request(ASKED, "2026-01-01T12:00:00Z"),
    "cordon": objects.cordon_patch(node(), OURS),
    "uncordon": objects.uncordon_patch(node(cordoned=True, cordon=OURS)),
    "taint": objects.taint_patch(node(), "v", {"execution": 7, "mark": "m"}),
    "untaint": objects.untaint_patch(node(taints=[held_taint("v")]), "v"),
    "relabel": objects.mig_patch(node(), "gpu5"),
    "name": mig_naming.config_map_patch(HELD_MAP, "config.yaml", ""),
}


@pytest.mark.parametrize("write", WRITES)
def test_of_two_migrators_the_one_that_read_earlier_is_refused(write):
    """Each patch says of which object, in which state, it speaks: the API server answers 409 otherwise."""
    assert {"uid", "resourceVersion"} <= set(WRITES[write]["metadata"])
