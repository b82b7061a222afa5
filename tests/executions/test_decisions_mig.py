"""What the step that cuts a node's GPUs anew decides, forward and back. No cluster."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from apps.executions.decisions import Verdict
from apps.executions.mig_labels import read_mig_labels
from apps.executions.mig_looking import Facts, Limits
from apps.executions.repairing import steps_to_repair
from apps.executions.states import StepKind, StepState
from apps.executions.steps import reconfigure_mig
from tests.executions.things import step

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LIMITS = Limits(settle=60, mismatch=300, reboot=900, long=600)
ONE, GPU = "nvidia.com/mig-1g.10gb", "nvidia.com/gpu"
PARAMS = {
    "node": "node-a",
    "config": "gpu5",
    "previous": "all-disabled",
    "offers": {ONE: 7, GPU: 7},
    "promise": "node-a offers 7 x 1g.10gb, 7 whole GPUs",
}
BEFORE = {"before": "all-disabled", "before_offers": {GPU: 8}}


def asked(state=StepState.ISSUED, seen=None, sent=("relabel",), **facts):
    """The step after its label was set and the answer came."""
    made = step(
        StepKind.RECONFIGURE_MIG, state=state, move=0, sent=sent, seen={**BEFORE, **(seen or {})}, **PARAMS
    )
    made.issued_at = made.intent_at = NOW - timedelta(seconds=30)
    for name, value in facts.items():
        setattr(made, name, value)
    return made


def fresh():
    return step(StepKind.RECONFIGURE_MIG, move=0, **PARAMS)


def look(config="gpu5", state="", *, offers=None, paused=False, counts=None, **facts):
    labels = {} if config is None else {"nvidia.com/mig.config": config}
    if state:
        labels["nvidia.com/mig.config.state"] = state
    if paused:
        labels["nvidia.com/gpu.deploy.device-plugin"] = "paused-for-mig-change"
    labels |= {f"{name}.count": str(number) for name, number in (counts or {}).items()}
    node = {
        "metadata": {"name": "node-a", "uid": "uid-node-a", "resourceVersion": "5", "labels": labels},
        "status": {"allocatable": {name: str(number) for name, number in (offers or {}).items()}},
    }
    known = {"is_cordoned": True, "is_ours": True}
    return Facts(node, read_mig_labels(node), NOW, LIMITS, **{**known, **facts})


def before(**facts):
    return look("all-disabled", "success", offers={GPU: 8}, **facts)


def after(**facts):
    return look(
        "gpu5", "success", offers={ONE: 7, GPU: 7, "nvidia.com/mig-3g.40gb": 0}, counts={ONE: 7}, **facts
    )


def decide(made, facts, late=False):
    return reconfigure_mig.decide(made, facts, late=late)


def undo(made, facts):
    return reconfigure_mig.decide_undo(made, facts)


def test_the_label_is_set_once_and_its_earlier_value_kept_with_the_intent():
    decision = decide(fresh(), before())
    assert (decision.verdict, decision.effect, decision.is_beginning) == (Verdict.ACT, "relabel", True)
    assert decision.seen["before"] == "all-disabled"
    assert decision.seen["before_offers"] == {GPU: 8}


def test_without_an_earlier_value_that_is_kept_as_well():
    made = step(StepKind.RECONFIGURE_MIG, move=0, **{**PARAMS, "previous": None})
    assert decide(made, look(None, offers={GPU: 8})).seen["before"] is None


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (before(users=("ml/a",)), "ml/a on node node-a holds or may hold a GPU"),
        (before(newcomers=("ml/b",)), "ml/b came onto node node-a"),
        (before(config_changed="The configuration gpu5 is gone."), "is gone"),
        (before(is_cordoned=False), "uncordoned"),
        (before(is_ours=False), "uncordoned"),
        (look("all-balanced", "success", offers={GPU: 8}), "Somebody set mig.config"),
        (look("all-disabled", "pending", offers={GPU: 8}), "Another MIG change"),
        (look("all-disabled", "success", offers={GPU: 8}, paused=True), "Another MIG change"),
        (replace(before(), node=None), "is gone or was made anew"),
    ],
)
def test_nothing_is_sent_while_anything_is_not_as_it_was_approved(facts, words):
    decision = decide(fresh(), facts)
    assert decision.verdict == Verdict.STOP
    assert words in decision.reason
    assert "Nothing was changed" in decision.runbook


def test_operands_that_a_failure_left_paused_are_told_and_repair_is_offered():
    left = look("gpu5", "failed", offers={GPU: 8}, paused=True)
    decision = decide(asked(), left)
    assert (decision.verdict, decision.cause) == (Verdict.STOP, "mig-failed")
    assert "paused: device-plugin" in decision.reason
    assert "Repair does the same for this node alone" in decision.runbook
    assert decision.seen["failed_at"] == "2026-01-01T12:00:00+00:00"
    standing = asked(StepState.BLOCKED)
    standing.observed |= {"needs_person": True, "cause": decision.cause}
    assert steps_to_repair([standing]) == [standing]
    repairing = asked(seen={"repair": "asked"})
    assert decide(repairing, left).effect == "restore"
    restored = asked(seen={"repair": "asked"}, sent=("relabel", "restore"))
    assert (
        decide(restored, before(paused=True)).verdict == Verdict.WAIT
    )  # the earlier layout alone is not enough
    assert decide(restored, before(paused=True, overtime=1)).verdict == Verdict.STOP


def test_a_layout_that_is_lost_while_it_settles_or_after_it_was_believed_counts_as_lost():
    """A reboot takes the instances and leaves label and state as they were."""
    since = {"as_planned_since": (NOW - timedelta(seconds=50)).isoformat()}
    lost = look("gpu5", "success", offers={GPU: 8})
    waiting = decide(asked(seen=since), lost)
    assert (waiting.verdict, waiting.seen["as_planned_since"]) == (Verdict.WAIT, "")
    wrong = {"wrong_since": (NOW - timedelta(seconds=301)).isoformat()}
    assert decide(asked(seen=wrong), lost).cause == "mig-mismatch"


def test_a_pod_on_its_way_out_still_holds_its_gpu_and_is_waited_for():
    decision = decide(fresh(), before(users=("ml/a",), leaving=True))
    assert decision.verdict == Verdict.BLOCKED
    assert "on its way out" in decision.reason


def test_a_cordon_of_somebody_else_is_as_good():
    assert decide(fresh(), before(is_ours=False, was_ours=False)).verdict == Verdict.ACT


def test_after_a_crash_it_is_sent_again_only_where_the_label_shows_that_it_was_not():
    crashed = asked(state=StepState.INTENT, issued_at=None)
    assert decide(crashed, before()).effect == "relabel"
    assert decide(crashed, look("gpu5", "pending")).verdict == Verdict.WAIT
    reverted = decide(asked(), before())
    assert reverted.verdict == Verdict.STOP
    assert "it is not overwritten" in reverted.reason


def test_success_is_believed_when_it_has_stood_for_the_settle_time():
    first = decide(asked(), after())
    assert first.verdict == Verdict.WAIT
    since = first.seen["as_planned_since"]
    assert since == NOW.isoformat()
    stood = replace(after(), now=NOW + timedelta(seconds=61))
    assert decide(asked(seen={"as_planned_since": since}), stood).verdict == Verdict.DONE
    broke = decide(asked(seen={"as_planned_since": since}), look("gpu5", "success", offers={GPU: 8}))
    assert broke.seen["as_planned_since"] == ""


@pytest.mark.parametrize(
    "facts",
    [
        look("all-disabled", "success", offers={GPU: 6}, overtime=1),
        look("all-disabled", "failed"),
        look("gpu5", "failed", users=("ml/a",)),
        look("gpu5", "failed", is_cordoned=False),
    ],
)
def test_a_node_that_never_comes_back_is_left_to_who_opens_it_after_being_told(facts):
    """A GPU that is lost for good, say: the execution must not keep the node from all others for ever."""
    sent = ("relabel", "restore")
    stopped = undo(asked(StepState.COMPENSATING, sent=sent), facts)
    assert stopped.verdict == Verdict.STOP
    told = asked(StepState.COMPENSATING, sent=sent, seen=stopped.seen)
    assert undo(told, replace(facts, is_cordoned=True)).verdict != Verdict.DONE
    opened = undo(told, replace(facts, is_cordoned=False))
    assert (opened.verdict, opened.seen) == (Verdict.DONE, {"kept": True})
    assert undo(told, before(is_cordoned=False)).verdict == Verdict.WAIT


def test_without_an_earlier_value_a_person_decides():
    made = asked(StepState.COMPENSATING, seen={"before": None})
    decision = undo(made, look("gpu5", "failed"))
    assert decision.verdict == Verdict.STOP
    assert "a person decides" in decision.reason


def test_what_was_never_sent_or_is_in_use_already_is_left_as_it_is():
    assert undo(fresh(), before()).verdict == Verdict.DONE
    verified = asked(StepState.COMPENSATING, seen={"verified": True})
    assert undo(verified, after()).effect == "restore"
    assert undo(verified, after(users=("ml/ocr",))).seen == {"kept": True}
    assert undo(verified, after(is_cordoned=False)).seen == {"kept": True}
    opened = undo(asked(StepState.COMPENSATING), look("all-balanced", "success", is_cordoned=False))
    assert opened.seen == {"kept": True}


def test_the_patch_names_the_version_it_saw_and_clears_the_state():
    class Gateway:
        def patch_object(self, kind, name, body):
            self.sent = (kind.plural, name, body)

    class Context:
        gateway = Gateway()

    decision = decide(fresh(), before())
    reconfigure_mig.apply(Context, fresh(), decision)
    assert Context.gateway.sent == (
        "nodes",
        "node-a",
        {
            "metadata": {
                "uid": "uid-node-a",
                "resourceVersion": "5",
                "labels": {"nvidia.com/mig.config": "gpu5", "nvidia.com/mig.config.state": None},
            }
        },
    )
