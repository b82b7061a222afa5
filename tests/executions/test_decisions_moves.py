"""What the steps of one move decide. No cluster; of the database the rooms that an extender keeps: none."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from apps.executions.budget_waits import find_nowhere, wait_for_budget
from apps.executions.decisions import Verdict, act
from apps.executions.holds import HoldFacts, repair_hold
from apps.executions.models import Steering
from apps.executions.names import CHECKPOINT, CHECKPOINT_DONE, CHECKPOINT_REQUESTED, GATE, HOSTNAME
from apps.executions.objects import hold_pod, pin_and_ungate, steering_webhook
from apps.executions.replacements import Found, find_replacement
from apps.executions.room import (
    decide_without_any_target,
    decide_without_target,
    look_at_all_rooms,
    look_at_room,
    look_at_room_of,
)
from apps.executions.spare import why_no_room
from apps.executions.standing import is_still_awaited
from apps.executions.states import StepKind
from apps.executions.steps import await_replacement, checkpoint, evict_pod, hold_target, release
from apps.executions.undoing import tell_left
from apps.kube.gateway import PODS
from tests.executions.things import PARAMS, hold, node, pod, step

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
GOOD_HOLD = HoldFacts(hold(), "7")


def test_a_hold_is_made_in_the_order_namespace_class_pod_nomination():
    walk = [
        HoldFacts(None, "7", has_namespace=False, has_class=False),
        HoldFacts(None, "7", has_class=False),
        HoldFacts(None, "7"),
        HoldFacts(hold(nominated=""), "7"),
    ]
    effects = [repair_hold(facts, PARAMS).effect for facts in walk]
    assert effects == ["create_namespace", "create_class", "create_hold", "nominate_hold"]
    assert repair_hold(GOOD_HOLD, PARAMS) is None


def test_a_strange_pod_under_the_name_of_a_hold_stops():
    assert repair_hold(HoldFacts(hold(owned="8"), "7"), PARAMS).verdict == Verdict.STOP


def test_a_hold_asks_for_what_the_pod_asks_for_and_fits_nowhere():
    body = hold_pod(PARAMS, owned="7", step_id=3, namespace="gpu-defrag")
    resources = body["spec"]["containers"][0]["resources"]
    assert resources["requests"] == {"cpu": "1000m", "memory": "1024", "nvidia.com/gpu": "1"}
    assert resources["limits"] == {"nvidia.com/gpu": "1"}
    assert body["spec"]["nodeSelector"] == {"defrag.gpu.internal/never": "true"}


def evict_facts(**changes):
    facts = evict_pod.Facts(pod(on="node-a"), GOOD_HOLD, ["uid-lora-1"], steered_for=9.0, settle_seconds=0.5)
    return replace(facts, **changes)


def decide_eviction(*, sent=(), **changes):
    return evict_pod.decide(step(StepKind.EVICT_POD, sent=sent), evict_facts(**changes), late=False)


def test_a_hold_is_done_only_when_the_target_has_the_room_beside_all_others():
    stands = hold_target.Facts(GOOD_HOLD)
    target = step(StepKind.HOLD_TARGET)
    assert hold_target.decide(target, stands, late=False).verdict == Verdict.DONE
    gone = replace(stands, no_room="target node-b has only 0 of nvidia.com/gpu left, 1 are needed")
    decision = hold_target.decide(target, gone, late=False)
    assert (decision.verdict, decision.cause) == (Verdict.BLOCKED, "no-room")
    assert "nothing was evicted" in decision.runbook


class Cluster:
    """Two targets of 8 GPUs and pods on them or promised to them, as a gateway gives them."""

    def __init__(self, *pods, nodes=()):
        self.pods, self.nodes = pods, {one["metadata"]["name"]: one for one in nodes}

    def get_object(self, kind, name):
        return self.nodes.get(name, node(name))

    def list_objects(self, kind, *, field_selector):
        wanted = field_selector.partition("=")[2]
        return [one for one in self.pods if one["spec"].get("nodeName", "") == wanted]


def seen_by(cluster, *steps, **facts):
    execution = SimpleNamespace(pk=7)
    return SimpleNamespace(gateway=cluster, steps=steps, execution=execution, mark="m", **facts)


def evictions(*moves, **facts):
    """moves: target, GPUs."""
    return [
        step(
            StepKind.EVICT_POD,
            move=number,
            target=target,
            target_uid=f"uid-{target}",
            hold=f"hold-{number}",
            requests={"nvidia.com/gpu": gpus},
            **facts,
        )
        for number, (target, gpus) in enumerate(moves, start=1)
    ]


def test_before_the_first_eviction_every_target_has_the_room_of_all_moves_to_it():
    ours = pod("hold-1", gpus=4, nominated="node-b")
    two = evictions(("node-b", 4), ("node-c", 8))
    assert look_at_all_rooms(seen_by(Cluster(ours), *two)) == ""
    taken = pod("stranger", on="node-c", gpus=1)
    assert "target node-c has only 7" in look_at_all_rooms(seen_by(Cluster(ours, taken), *two))
    promised = pod("other", nominated="node-c", gpus=1)
    assert "target node-c has only 7" in look_at_all_rooms(seen_by(Cluster(promised), *two))
    same = evictions(("node-b", 4), ("node-b", 5))
    assert "8 of nvidia.com/gpu left, 9 are needed" in look_at_all_rooms(seen_by(Cluster(ours), *same))
    gone = evictions(("node-b", 4), ("node-c", 8))
    gone[0].observed["sent"] = ["evict"]
    assert look_at_all_rooms(seen_by(Cluster(taken), *gone)) == ""  # from then on each looks at its own


def test_before_the_first_eviction_a_later_target_that_is_gone_stops_it_at_once(monkeypatch):
    """Not until the deadline: no waiting brings a node back, and the pod would leave for half a plan."""
    two = evictions(("node-b", 4), ("node-c", 8))
    here = pod("lora-1", on="node-a")
    cluster = Cluster(here, nodes=[node("node-c", uid="another")])
    nodes = cluster.get_object
    cluster.list_owned_pods = lambda *args: [here]
    cluster.get_object = lambda kind, name, **how: here if kind == PODS else nodes(kind, name)
    context = seen_by(cluster, *two, place=SimpleNamespace(settle_seconds=0))
    for name in ("look_at_hold", "find_stolen", "steered_since"):
        monkeypatch.setattr(evict_pod, name, lambda *args: None)
    monkeypatch.setattr(evict_pod, "find_gated", lambda *args: ())
    monkeypatch.setattr(evict_pod.steer, "why_not_in_force", lambda *args: "")
    found = evict_pod.observe(context, two[0]).no_target
    decision = decide_eviction(no_target=found, no_room="the target node is gone or was made anew")
    assert (decision.verdict, decision.cause) == (Verdict.STOP, "node-gone")
    assert "Target node-c, where ml/lora-1 is to go, is gone or was made anew" in decision.reason
    assert "no pod was evicted" in decision.runbook
    two[1].observed["sent"] = ["evict"]
    assert decide_without_any_target(context) is None, "from then on each looks at its own"


def test_a_relaid_node_behind_our_own_cordon_has_room_for_a_hold_and_no_other_cordon_does():
    (move,) = evictions(("node-b", 4))
    for mark, said in (("m", ""), ("of another", "target node-b is cordoned")):
        closed = node("node-b", cordoned=True, cordon={"execution": 7, "mark": mark})
        seen = seen_by(Cluster(nodes=[closed]), move)
        assert look_at_room(seen, move.params, is_opened_later=True) == said
        assert look_at_room(seen, move.params) == "target node-b is cordoned"


def test_an_eviction_is_sent_when_everything_stands_and_remembers_the_siblings():
    decision = decide_eviction()
    assert decision.effect == "evict"
    assert decision.seen == {"siblings": ["uid-lora-1"]}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"hold": HoldFacts(hold(nominated=""), "7")}, "nominate_hold"),
        ({"hold": HoldFacts(None, "7")}, "create_hold"),
        ({"no_room": "target node-b is not Ready"}, Verdict.BLOCKED),
        ({"no_gate": "It is gone."}, Verdict.STOP),
        ({"steered_for": 0.1}, Verdict.WAIT),
        ({"pod": pod(on="node-c")}, Verdict.STOP),
        ({"pod": pod(on="node-a", owner="another")}, Verdict.STOP),
        ({"pod": pod(on="node-a", gpus=2)}, Verdict.STOP),
    ],
)
def test_nothing_is_evicted_while_a_precondition_fails(changes, expected):
    decision = decide_eviction(**changes)
    assert (decision.effect or decision.verdict) == expected


@pytest.mark.parametrize("found", [None, node("node-b", uid="another")])
def test_a_target_that_is_gone_is_told_as_gone_and_not_waited_for(found):
    context = SimpleNamespace(gateway=SimpleNamespace(get_object=lambda *args: found))
    gone = decide_without_target(context, PARAMS)
    assert (gone.verdict, gone.cause) == (Verdict.STOP, "node-gone")
    assert "Target node-b is gone or was made anew" in gone.reason
    waits = {"no_room": "the target node is gone or was made anew", "is_kept": False}
    assert decide_eviction(**waits, no_target=gone) is gone
    held = hold_target.Facts(HoldFacts(None, "7"), no_target=gone)
    assert hold_target.decide(step(StepKind.HOLD_TARGET), held, late=False) is gone
    there = SimpleNamespace(gateway=SimpleNamespace(get_object=lambda *args: node("node-b")))
    assert decide_without_target(there, PARAMS) is None


@pytest.mark.parametrize("gone", [None, pod(uid="another"), pod(on="node-a", leaving=True)])
def test_after_a_crash_an_eviction_that_happened_is_seen_and_not_repeated(gone):
    assert decide_eviction(sent=["evict"], pod=gone).verdict == Verdict.DONE


@pytest.mark.parametrize("gone", [None, pod(uid="another"), pod(on="node-a", leaving=True)])
def test_a_pod_that_left_by_itself_is_not_evicted(gone):
    decision = decide_eviction(pod=gone)
    assert decision.verdict == Verdict.MOOT
    assert decision.seen["left_by_itself"]


def test_after_a_crash_before_the_request_the_eviction_is_sent():
    assert decide_eviction(sent=["evict"]).effect == "evict"


def test_a_finished_pod_satisfies_its_step():
    assert decide_eviction(pod=pod(on="node-a", phase="Succeeded")).verdict == Verdict.MOOT


def test_room_is_told_from_what_is_bound_on_the_target():
    three = [pod(f"other-{n}", on="node-b", gpus=2) for n in range(3)]
    wanted = {"nvidia.com/gpu": 3}
    assert "2 of nvidia.com/gpu left" in why_no_room(node("node-b"), three, wanted, node_uid="uid-node-b")
    assert why_no_room(node("node-b"), three[:2], wanted, node_uid="uid-node-b") == ""
    assert "made anew" in why_no_room(node("node-b"), [], wanted, node_uid="x")
    assert "cordoned" in why_no_room(node("node-b", cordoned=True), [], wanted, node_uid="uid-node-b")


def wait_facts(found, **changes):
    facts = await_replacement.Facts(found, NOW, hold(), Steering(name="steer-7-1"), hostname="node-b")
    return replace(facts, **changes)


def decide_wait(found, *, late=False, sent=(), seen=None, **changes):
    target = step(StepKind.AWAIT_REPLACEMENT, sent=sent, seen=seen, **changes.pop("params", {}))
    return await_replacement.decide(target, wait_facts(found, **changes), late=late)


def test_a_gated_replacement_is_nominated_then_the_hold_goes_then_it_is_pinned():
    gated = pod("lora-2", gated=True, steering="steer-7-1")
    kept = pod("lora-2", gated=True, steering="steer-7-1", nominated="node-b")
    walk = [
        decide_wait(Found(gated, by_gate=True)),
        decide_wait(Found(kept, by_gate=True)),
        decide_wait(Found(kept, by_gate=True), hold=None),
    ]
    assert [decision.effect for decision in walk] == ["nominate", "delete_hold", "pin"]


def test_the_one_patch_narrows_and_drops_only_our_gate():
    patch = pin_and_ungate(pod("lora-2", gated=True), "node-b")
    assert patch["spec"]["nodeSelector"] == {HOSTNAME: "node-b"}
    assert patch["spec"]["schedulingGates"] == [{"$patch": "delete", "name": GATE}]
    assert patch["metadata"] == {"uid": "uid-lora-2", "resourceVersion": "9"}


def test_a_stranger_that_our_gate_caught_is_freed_first():
    stranger = pod("lora-0", gated=True, steering="steer-7-1")
    replacement = pod("lora-2", gated=True, steering="steer-7-1")
    decision = decide_wait(Found(replacement, [stranger], by_gate=True))
    assert decision.effect == "free_pod"
    assert decision.arguments["pod"] is stranger


def test_without_a_label_of_its_own_the_target_cannot_be_pinned_to():
    gated = pod("lora-2", gated=True, steering="steer-7-1")
    assert decide_wait(Found(gated, by_gate=True), hostname="").effect == "free_pod"


def test_no_pod_stays_behind_our_gate_past_the_deadline():
    gated = pod("lora-2", gated=True, steering="steer-7-1")
    assert decide_wait(Found(gated, by_gate=True), late=True).effect == "free_pod"


def test_a_replacement_counts_when_it_is_ready_on_the_target():
    landed = pod("lora-2", on="node-b", ready=True, steering="steer-7-1")
    assert decide_wait(Found(landed, by_gate=True)).verdict == Verdict.DONE
    starting = pod("lora-2", on="node-b", steering="steer-7-1")
    assert decide_wait(Found(starting, by_gate=True)).verdict == Verdict.WAIT
    assert decide_wait(Found(landed, by_gate=True), is_old_gone=False).verdict == Verdict.WAIT


def test_ready_counts_only_after_the_owners_min_ready_seconds():
    landed = Found(pod("lora-2", on="node-b", ready=True), by_gate=True)
    slow = {"min_ready_seconds": 10}
    first = decide_wait(landed, params=slow)
    assert first.verdict == Verdict.WAIT
    later = {"ready_since": (NOW - timedelta(seconds=11)).isoformat()}
    assert decide_wait(landed, params=slow, seen=later).verdict == Verdict.DONE


def test_a_replacement_that_the_gate_missed_is_taken_on_the_target_and_told_elsewhere():
    assert decide_wait(Found(pod("lora-2", on="node-b", ready=True))).verdict == Verdict.DONE
    kept = frozenset({"node-a", "node-c"})
    elsewhere = decide_wait(Found(pod("lora-2", on="node-c", ready=True)), kept=kept)
    assert elsewhere.verdict == Verdict.STOP
    assert "the gate did not catch it" in elsewhere.reason


def test_a_replacement_that_came_ungated_and_hurts_nothing_elsewhere_is_left_there_once_it_is_ready():
    """It never counts as landed: the step is superseded, not verified."""
    kept = frozenset({"node-a"})
    ready = Found(pod("lora-2", on="node-c", ready=True))
    taken = decide_wait(ready, kept=kept)
    assert (taken.verdict, taken.seen["landed_on"]) == (Verdict.MOOT, "node-c")
    starting = Found(pod("lora-2", on="node-c"))
    assert decide_wait(starting, kept=kept).verdict == Verdict.WAIT
    assert decide_wait(starting, kept=kept, late=True).verdict == Verdict.STOP
    assert decide_wait(ready, kept=kept, params={"min_ready_seconds": 10}).verdict == Verdict.WAIT
    for wrong in (pod("lora-2", on="node-a", ready=True), pod("lora-2", on="node-c", ready=True, gpus=2)):
        assert decide_wait(Found(wrong), kept=kept).verdict == Verdict.STOP
    assert decide_wait(ready, kept=kept, params={"form": "best_effort"}).verdict == Verdict.STOP


def test_a_replacement_with_other_devices_does_not_count():
    assert decide_wait(Found(pod("lora-2", on="node-b", ready=True, gpus=2))).verdict == Verdict.STOP


def test_an_admission_whose_pod_never_came_is_opened_again():
    taken = Steering(name="steer-7-1", admitted_uid="a")
    first = decide_wait(Found(None), steering=taken)
    since = (NOW - timedelta(seconds=6)).isoformat()
    second = decide_wait(Found(None), steering=taken, seen={"missing_since": since})
    assert (first.verdict, second.effect) == (Verdict.WAIT, "open_again")


def test_a_long_grace_of_the_old_pod_is_waited_for_past_the_deadline():
    landed = Found(pod("lora-2", on="node-b", ready=True), by_gate=True)
    for found in (landed, Found(None)):
        decision = decide_wait(found, is_old_gone=False, late=True)
        assert (decision.verdict, decision.is_patient) == (Verdict.WAIT, True)


def test_without_a_replacement_a_person_is_told_at_the_deadline():
    assert decide_wait(Found(None)).verdict == Verdict.WAIT
    assert decide_wait(Found(None), late=True).verdict == Verdict.STOP
    assert decide_wait(Found(None), late=True, left_by_itself=True).verdict == Verdict.MOOT
    assert decide_wait(Found(None), has_finished=True).verdict == Verdict.MOOT


def test_an_old_pod_that_a_finalizer_keeps_is_named_while_waiting_and_at_the_deadline():
    kept = {"kept_by": ("corp.example/backup",)}
    assert decide_wait(Found(None), **kept).reason.endswith("the old pod is kept by corp.example/backup")
    told = decide_wait(Found(None), late=True, **kept)
    assert (told.verdict, told.cause) == (Verdict.STOP, "replacement-missing")
    assert "corp.example/backup" in told.reason
    assert "quota" not in told.runbook


@pytest.mark.parametrize(
    ("cause", "awaited"), [("replacement-missing", True), ("replacement-differs", False)]
)
def test_what_was_waited_for_too_long_stands_until_it_comes(cause, awaited):
    """Looked at again, a replacement that is still missing is no "nothing in the way any more"."""
    row = step(StepKind.AWAIT_REPLACEMENT)
    row.observed["cause"] = cause
    now, late = decide_wait(Found(None)), decide_wait(Found(None), late=True)
    assert is_still_awaited(row, now, late) is awaited
    row.observed["cause"] = "step-deadline"
    assert is_still_awaited(row, now, now)


def test_a_pinned_pod_whose_room_was_taken_is_evicted_once_so_that_a_free_one_comes():
    stuck = pod(
        "lora-2", steering="steer-7-1", nominated="node-b", spec={"nodeSelector": {HOSTNAME: "node-b"}}
    )
    lost = {"hold": None, "no_room": "target node-b has only 0 of nvidia.com/gpu left", "late": True}
    found = Found(stuck, by_gate=True)
    assert decide_wait(found, sent=["pin"], **lost).effect == "evict_replacement"
    assert decide_wait(found, sent=["pin", "evict_replacement"], **lost).verdict == Verdict.STOP


def test_a_replacement_that_lands_between_two_looks_takes_no_room_from_itself_and_is_not_evicted():
    """Else, late under load, one eviction more than there are moves."""
    stuck = pod("lora-2", steering="steer-7-1", gpus=8, spec={"nodeSelector": {HOSTNAME: "node-b"}})
    landed = pod("lora-2", on="node-b", gpus=8)
    wanted = PARAMS | {"requests": {"nvidia.com/gpu": 8}}
    assert look_at_room_of(stuck, seen_by(Cluster(landed)), wanted) == ""
    taken = pod("stranger", on="node-b", gpus=1)
    assert "only 7 of nvidia.com/gpu left" in look_at_room_of(stuck, seen_by(Cluster(taken)), wanted)
    sent = []
    door = SimpleNamespace(evict_pod=lambda *args, **facts: sent.append((args, facts)))
    decision = act("evict_replacement", "x", pod=stuck)
    await_replacement.apply(SimpleNamespace(gateway=door), step(StepKind.AWAIT_REPLACEMENT), decision)
    assert sent == [(("ml", "lora-2"), {"uid": "uid-lora-2", "version": "9"})]


def search(pods, **changes):
    known = {"marks": {"steer-7-1"}, "owner": "uid-rs", "siblings": ["uid-old"], "taken": [], "known": ""}
    return find_replacement(pods, **{**known, **changes})


def test_the_replacement_is_told_by_our_mark_from_siblings_strangers_and_other_moves():
    mine = pod("mine", gated=True, steering="steer-7-1", created="2026-01-01T00:00:05Z")
    before = pod("old", gated=True, steering="steer-7-1")
    other = pod("other", gated=True, steering="steer-7-2")
    found = search([before, other, mine])
    assert found.pod is mine
    assert found.by_gate
    assert list(found.strangers) == [before]


def test_of_two_gated_pods_the_older_one_is_the_replacement_and_stays_it():
    first = pod("first", gated=True, steering="steer-7-1", created="2026-01-01T00:00:01Z")
    second = pod("second", gated=True, steering="steer-7-1", created="2026-01-01T00:00:02Z")
    assert search([second, first]).pod is first
    assert search([second, first], known="uid-second").pod is second


def test_a_missed_gate_is_told_only_after_an_eviction_and_never_takes_another_moves_pod():
    new, old = pod("new"), pod("old")
    assert search([new, old]).pod is new
    assert search([new, old], taken=["uid-new"]).pod is None
    assert search([new, old], siblings=None).pod is None
    assert search([pod("new", leaving=True), old]).pod is None


def test_a_replacement_that_failed_is_none_and_the_owners_next_pod_is():
    refused = pod("first", steering="steer-7-1", on="node-b", phase="Failed")
    assert search([refused, pod("second")], known="uid-first").pod["metadata"]["name"] == "second"


def test_what_is_left_of_a_move_goes_in_a_fixed_order():
    closed = Steering(name="steer-7-1", closed_at=NOW)
    gated = pod("late", gated=True, steering="steer-7-1")
    configuration = {"metadata": {"name": "w", "uid": "u"}}
    walk = [
        release.Facts(configuration, Steering(name="steer-7-1"), hold(), [gated]),
        release.Facts(None, Steering(name="steer-7-1"), hold(), [gated]),
        release.Facts(None, closed, hold(), [gated]),
        release.Facts(None, closed, hold()),
        release.Facts(None, closed, None, closed_for=1.0),
        release.Facts(None, closed, None, closed_for=9.0),
        release.Facts(None, closed, None, closed_for=1.0, has_landed=True),
    ]
    decisions = [release.decide(step(StepKind.RELEASE), facts, late=False) for facts in walk]
    assert [decision.effect or decision.verdict for decision in decisions] == [
        "delete_webhook",
        "close_steering",
        "free_pod",
        "delete_hold",
        Verdict.WAIT,
        Verdict.DONE,
        Verdict.DONE,
    ]


def test_a_replacement_that_is_pinned_and_has_no_node_is_told_when_it_is_stopped():
    """Nobody lands it any more, and where the target is gone or full it would wait for ever."""
    mine = {"steering": "steer-7-1", "spec": {"nodeSelector": {HOSTNAME: "node-b"}}}
    pods = [
        pod("waits", **mine),
        pod("bound", on="node-b", **mine),
        pod("gone", leaving=True, **mine),
        pod("free", steering="steer-7-1"),
        pod("theirs", spec=mine["spec"]),
    ]
    (waiting,) = release.find_pinned(pods, {"steer-7-1"})
    facts = release.Facts(None, None, None, pinned=(f"ml/{waiting['metadata']['name']} to node-b",))
    decision = release.decide_undo(step(StepKind.STEER), facts)
    assert (decision.verdict, decision.seen) == (Verdict.DONE, {"pinned": "ml/waits to node-b"})
    told = tell_left([step(StepKind.STEER, seen=decision.seen), step(StepKind.STEER, seen=decision.seen)])
    assert told.count("ml/waits to node-b") == 1
    assert "delete it: its owner makes a free one" in told


def test_a_budget_that_a_pod_without_a_node_keeps_closed_names_that_pod():
    """Our own holds may keep the only room that it could take: then each waits for the other."""
    pods = [
        pod("lora-9"),
        pod("bound", on="node-a"),
        pod("ours", gated=True, steering="steer-7-1"),
        pod("pinned", steering="steer-7-2"),
        pod("ends", leaving=True),
        pod("theirs", owner="uid-other"),
    ]
    assert find_nowhere(pods, step(StepKind.EVICT_POD)) == "lora-9"
    budget = {
        "metadata": {"name": "web", "namespace": "ml", "uid": "b", "resourceVersion": "1", "generation": 1},
        "spec": {"minAvailable": 2, "selector": {}},
        "status": {
            "observedGeneration": 1,
            "disruptionsAllowed": 0,
            "currentHealthy": 2,
            "desiredHealthy": 2,
        },
    }
    mine = pod("lora-1", on="node-a", ready=True)
    gateway = SimpleNamespace(
        get_object=lambda *args, **how: mine,
        list_objects=lambda *args, **how: [budget],
        list_owned_pods=lambda *args: [mine, *pods],
    )
    told = wait_for_budget(SimpleNamespace(gateway=gateway), step(StepKind.EVICT_POD))
    assert told.cause == "budget-used-up"
    assert told.reason.endswith("lora-9 waits for a node.")
    assert "it waits for us and we for it: cancel" in told.runbook


def decide_checkpoint(found, *, seen=None, late=False):
    facts = checkpoint.Facts(found, "2026-01-01T12:00:00Z")
    return checkpoint.decide(step(StepKind.CHECKPOINT, seen=seen), facts, late=late)


def test_only_a_pod_that_opts_in_is_asked_to_save_its_work():
    assert decide_checkpoint(pod(on="node-a")).verdict == Verdict.MOOT
    asked = decide_checkpoint(pod(on="node-a", annotations={CHECKPOINT: "true"}))
    assert (asked.effect, asked.seen) == ("ask", {"asked_at": "2026-01-01T12:00:00Z"})


def test_an_old_answer_is_not_taken_for_a_new_one():
    old = {
        CHECKPOINT: "true",
        CHECKPOINT_REQUESTED: "2025-01-01T00:00:00Z",
        CHECKPOINT_DONE: "2025-01-01T00:00:09Z",
    }
    seen = {"asked_at": "2026-01-01T12:00:00Z"}
    assert decide_checkpoint(pod(on="node-a", annotations=old), seen=seen).effect == "ask"
    asked = {**old, CHECKPOINT_REQUESTED: "2026-01-01T12:00:00Z"}
    assert decide_checkpoint(pod(on="node-a", annotations=asked), seen=seen).verdict == Verdict.WAIT
    assert (
        decide_checkpoint(pod(on="node-a", annotations=asked), seen=seen, late=True).verdict == Verdict.STOP
    )
    saved = {**asked, CHECKPOINT_DONE: "2026-01-01T12:00:30.5+00:00"}
    assert decide_checkpoint(pod(on="node-a", annotations=saved), seen=seen).verdict == Verdict.DONE


def test_the_webhook_meets_one_owner_in_one_namespace_and_lets_through_on_failure():
    body = steering_webhook(PARAMS, owned="7", address="https://x", ca_bundle="Y2E=")
    (hook,) = body["webhooks"]
    assert hook["failurePolicy"] == "Ignore"
    assert hook["timeoutSeconds"] == 2
    assert [c["name"] for c in hook["matchConditions"]] == ["owner"]
    assert "o.uid == 'uid-rs'" in hook["matchConditions"][0]["expression"].replace('"', "'")
    named = steering_webhook({**PARAMS, "pod_name": "db-0"}, owned="7", address="x", ca_bundle="")
    assert "db-0" in named["webhooks"][0]["matchConditions"][1]["expression"]
