"""What the steps decide about nodes: cordon, hand-over, release. No cluster, no database."""

import json

from apps.executions.decisions import Verdict
from apps.executions.names import held_value
from apps.executions.objects import (
    held_taint,
    taint_patch,
    tolerates_held,
    toleration_patch,
    uncordon_patch,
    untaint_patch,
)
from apps.executions.states import StepKind
from apps.executions.steps import cordon_node, hand_over, release_cordon
from tests.executions.things import node, pod, step

OURS = {"execution": 7, "reason": "", "deadline": "", "fence": 3}


def cordon_facts(found, *, fence=3):
    return cordon_node.Facts(found, OURS, 7, fence)


def decide_cordon(found, **facts):
    return cordon_node.decide(step(StepKind.CORDON_NODE, move=0), cordon_facts(found, **facts), late=False)


def test_an_open_node_is_cordoned_with_our_annotation():
    assert decide_cordon(node()).effect == "cordon"


def test_our_own_cordon_is_recognised_after_a_crash_and_not_sent_again():
    decision = decide_cordon(node(cordoned=True, cordon=OURS))
    assert decision.verdict == Verdict.DONE
    assert decision.seen["cordoned"] is True


def test_a_cordon_of_somebody_else_is_left_alone():
    decision = decide_cordon(node(cordoned=True))
    assert decision.verdict == Verdict.DONE
    assert decision.seen["cordoned"] is False


def test_a_node_made_anew_under_its_name_stops():
    assert decide_cordon(node(uid="another")).verdict == Verdict.STOP
    assert decide_cordon(None).verdict == Verdict.STOP


def test_a_node_that_somebody_uncordoned_is_not_fought_over():
    assert decide_cordon(node(cordoned=False, cordon=OURS)).verdict == Verdict.STOP


def test_a_cordon_with_a_newer_fence_means_that_an_old_database_runs():
    decision = decide_cordon(node(cordoned=True, cordon={**OURS, "fence": 9}), fence=3)
    assert decision.verdict == Verdict.STOP
    assert "older than the cluster" in decision.reason


def test_only_our_own_cordon_is_taken_off():
    target = step(StepKind.RELEASE, move=0)
    ours = release_cordon.decide(target, cordon_facts(node(cordoned=True, cordon=OURS)), late=False)
    theirs = release_cordon.decide(target, cordon_facts(node(cordoned=True)), late=False)
    other_run = {**OURS, "execution": 8}
    others = release_cordon.decide(target, cordon_facts(node(cordoned=True, cordon=other_run)), late=False)
    assert (ours.effect, theirs.verdict, others.verdict) == ("uncordon", Verdict.DONE, Verdict.DONE)


GANG = {
    "is_cordoned": True,
    "keys": ["ml/gang"],
    "namespaces": ["ml"],
    "wanted": 2,
    "display": "ml/gang",
    "taint": held_value("ml/gang"),
}
TAINT = held_taint(GANG["taint"])
TOLERANT = {"spec": {"tolerations": [{"key": TAINT["key"], "value": TAINT["value"]}]}}


def decide_hand_over(found, *, waiting=(), bound=0, sent=(), late=False, was_cordoned=True):
    facts = hand_over.Facts(found, 7, was_cordoned, list(waiting), bound)
    return hand_over.decide(step(StepKind.HAND_OVER, move=0, sent=sent, **GANG), facts, late=late)


def test_the_hand_over_walks_taint_toleration_uncordon_wait_untaint():
    bare, let_in = pod("gang-0"), pod("gang-0", **TOLERANT)
    ours = {"cordoned": True, "cordon": OURS}
    walk = [
        decide_hand_over(node(**ours), waiting=[bare]),
        decide_hand_over(node(**ours, taints=[TAINT]), waiting=[bare]),
        decide_hand_over(node(**ours, taints=[TAINT]), waiting=[let_in]),
        decide_hand_over(node(taints=[TAINT]), waiting=[let_in], sent=["taint", "uncordon"]),
        decide_hand_over(node(taints=[TAINT]), bound=2, sent=["taint", "uncordon"]),
        decide_hand_over(node(), bound=2, sent=["taint", "uncordon", "untaint"]),
    ]
    assert [decision.effect or decision.verdict for decision in walk] == [
        "taint",
        "tolerate",
        "uncordon",
        Verdict.WAIT,
        "untaint",
        Verdict.DONE,
    ]


def test_the_node_is_not_opened_before_every_waiting_pod_is_let_in():
    waiting = [pod("gang-0", **TOLERANT), pod("gang-1")]
    decision = decide_hand_over(node(cordoned=True, cordon=OURS, taints=[TAINT]), waiting=waiting)
    assert decision.effect == "tolerate"
    assert decision.arguments["pod"]["metadata"]["name"] == "gang-1"


def test_nobody_is_let_in_before_every_node_is_kept():
    ours = node(cordoned=True, cordon=OURS, taints=[TAINT])
    for found in (ours, node(taints=[TAINT])):
        facts = hand_over.Facts(found, 7, True, [pod("gang-0")], 0, are_others_kept=False)
        decision = hand_over.decide(
            step(StepKind.HAND_OVER, move=0, sent=["uncordon"], **GANG), facts, late=False
        )
        assert (decision.verdict, decision.seen) == (Verdict.WAIT, {"kept": True})


def test_a_taint_that_was_refused_is_sent_again_and_one_that_stood_is_not():
    open_node = {**GANG, "is_cordoned": False}
    facts = hand_over.Facts(node(), 7, True, [pod("gang-0")], 0)
    refused = step(StepKind.HAND_OVER, move=0, sent=["taint"], **open_node)
    taken_off = step(StepKind.HAND_OVER, move=0, sent=["taint"], seen={"kept": True}, **open_node)
    assert hand_over.decide(refused, facts, late=False).effect == "taint"
    assert hand_over.decide(taken_off, facts, late=False).verdict == Verdict.STOP


def test_past_its_deadline_taint_and_cordon_go_and_the_step_tells():
    waiting = [pod("gang-0")]
    first = decide_hand_over(node(cordoned=True, cordon=OURS, taints=[TAINT]), waiting=waiting, late=True)
    second = decide_hand_over(node(cordoned=True, cordon=OURS), waiting=waiting, late=True)
    last = decide_hand_over(node(), waiting=waiting, late=True)
    assert (first.effect, second.effect, last.verdict) == ("untaint", "uncordon", Verdict.STOP)
    assert "anybody may use the node" in last.reason


def test_resumed_after_its_deadline_it_looks_for_the_gang_and_blames_nobody_for_the_taint():
    taken_off = step(
        StepKind.HAND_OVER, move=0, sent=["taint", "uncordon", "untaint"], seen={"kept": True}, **GANG
    )
    waits = hand_over.Facts(node(), 7, True, [pod("gang-0")], 0)
    assert hand_over.decide(taken_off, waits, late=False).verdict == Verdict.WAIT
    again = hand_over.decide(taken_off, waits, late=True)
    assert (again.verdict, again.cause) == (Verdict.STOP, "gang-not-started")
    has_come = hand_over.Facts(node(), 7, True, [], 2)
    assert hand_over.decide(taken_off, has_come, late=False).verdict == Verdict.DONE


def test_a_node_that_somebody_opened_before_the_hand_over_stops_it():
    assert decide_hand_over(node(), waiting=[pod("gang-0")]).verdict == Verdict.STOP


def test_a_node_cordoned_by_somebody_else_is_not_handed_over():
    decision = decide_hand_over(node(cordoned=True), waiting=[pod("gang-0")], was_cordoned=False)
    assert decision.verdict == Verdict.MOOT


def test_other_taints_of_the_node_survive_ours():
    other = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}
    tainted = taint_patch(node(taints=[other]), GANG["taint"], {"execution": 7, "deadline": "soon"})
    assert tainted["spec"]["taints"] == [other, TAINT]
    assert untaint_patch(node(taints=[other, TAINT]), GANG["taint"])["spec"]["taints"] == [other]
    note = json.loads(tainted["metadata"].pop("annotations")["defrag.gpu.internal/held-by"])
    assert note == {"execution": 7, "deadline": "soon", "value": GANG["taint"]}
    assert tainted["metadata"].pop("labels") == {"defrag.gpu.internal/owned": "7-x"}
    assert tainted["metadata"] == {"uid": "uid-node-a", "resourceVersion": "5"}


def test_our_label_leaves_a_node_with_the_last_of_ours():
    both = node(cordoned=True, cordon=OURS, taints=[TAINT])
    assert "labels" not in untaint_patch(both, GANG["taint"])["metadata"]
    assert "labels" not in uncordon_patch(both)["metadata"]
    gone = {"defrag.gpu.internal/owned": None}
    assert untaint_patch(node(taints=[TAINT]), GANG["taint"])["metadata"]["labels"] == gone
    assert uncordon_patch(node(cordoned=True, cordon=OURS))["metadata"]["labels"] == gone


def test_a_toleration_is_added_to_those_that_are_there():
    there = {"key": "other", "operator": "Exists"}
    patched = toleration_patch(pod("gang-0", spec={"tolerations": [there]}), GANG["taint"])
    assert patched["spec"]["tolerations"][0] == there
    assert tolerates_held({"spec": patched["spec"]}, GANG["taint"])


def test_a_node_is_not_opened_while_its_taint_keeps_nobody_out():
    wish, let_in = TAINT | {"effect": "PreferNoSchedule"}, pod("g-1", **TOLERANT)
    behind = node(cordoned=True, cordon=OURS, taints=[wish])
    assert decide_hand_over(behind, waiting=[let_in]).effect == "taint"
    opened = decide_hand_over(node(taints=[wish]), waiting=[let_in], sent=["taint", "uncordon"])
    assert opened.effect != "uncordon"
    assert decide_hand_over(node(taints=[wish]), bound=2, sent=["taint", "uncordon"]).effect == "untaint"
