"""GPU-hours of an execution: what its plan foresaw, what moved pods lost, what ran in the room made by it."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from apps.executions import ledger, services
from apps.executions.gpu_hours import gaining, losing
from apps.executions.gpu_hours.losing import Departure, Loss
from apps.executions.gpu_hours.measuring import measure_due, read_departures
from apps.executions.gpu_hours.predicting import foresee, gpus_of
from apps.executions.gpu_hours.summing import sum_up, unseen_seconds
from apps.executions.gpu_hours.telling import Standing, sum_hours, tell, tell_hours
from apps.executions.models import Execution, GpuHours, Step
from apps.executions.states import StepKind, StepState
from apps.planner.plan import Preemption
from tests.plans.situations import (
    approve,
    make_cluster,
    person,
    picture,
    plan_of_one_move,
    pod,
    proposed,
    see,
)

HOUR = 3600.0
T0 = 1_800_000_000.0
"""When the plan was made."""


def before(*pods):
    return replace(picture(pods=list(pods)), taken_at=T0)


def lora(where="node-a", **facts):
    return pod("lora", where, 2, **{"started_at": T0 - 3 * HOUR, **facts})


def waiting(name="train", **facts):
    return pod(name, "", 4, phase="Pending", ready=False, started_at=None, **facts)


def test_a_plan_foresees_work_and_a_restart_of_each_pod_and_at_most_a_day_of_what_it_unlocks():
    plan = plan_of_one_move(unlocked=("ml/train",), unlocked_gpus=4)
    found = foresee(plan, before(lora(), waiting()))
    assert found.lost == pytest.approx(2 * (3 * HOUR + 47) / HOUR, abs=0.001)
    assert found.won == 4 * 24
    saved = foresee(plan_of_one_move(), before(lora(checkpointed_at=T0 - 600)))
    assert saved.lost == pytest.approx(2 * 647 / HOUR, abs=0.001)
    assert saved.won is None
    cut = plan_of_one_move(unlocked=("ml/train",), unlocked_gpus=0)
    wants = replace(waiting(), requests={"nvidia.com/mig-3g.40gb": 1})
    assert foresee(cut, before(lora(), wants)).won == pytest.approx(24 * 3 / 7, abs=0.001)


@pytest.mark.parametrize(
    ("facts", "gpus"),
    [
        ({}, 2.0),
        ({"gpu_milli": 500, "requests": {"nvidia.com/gpu": 1}}, 0.5),
        ({"requests": {"nvidia.com/mig-3g.40gb": 1}}, 3 / 7),
        ({"requests": {"cpu": 1000}}, 0.0),
    ],
)
def test_gpus_are_counted_as_whole_ones_shares_and_parts(facts, gpus):
    assert gpus_of(lora(**facts)) == pytest.approx(gpus)


def losses(plan=None, *pods):
    return losing.begin_losses(plan or plan_of_one_move(), before(*(pods or (lora(),))))


def left(found, evicted, **known):
    return losing.with_ledger(found, {"uid-lora": Departure(T0 + evicted, **known)})


def test_a_moved_pod_loses_its_work_since_the_start_and_the_time_until_its_successor_is_ready():
    (one,) = left(losses(), HOUR, back_at=T0 + HOUR + 180)
    assert one.work_hours == pytest.approx(2 * 4)
    assert one.away_hours == pytest.approx(2 * 180 / HOUR)
    assert not one.is_open


def test_the_checkpoint_that_it_was_asked_for_counts_and_an_older_one_does_not():
    (one,) = left(losses(), HOUR, saved_at=T0 + HOUR - 60)
    assert (one.work_hours, one.has_checkpoint) == (pytest.approx(2 * 60 / HOUR), True)
    (one,) = left(losses(None, lora(checkpointed_at=T0 - 60)), HOUR, saved_at=T0 - HOUR)
    assert one.work_hours == pytest.approx(2 * (HOUR + 60) / HOUR)


def test_of_a_pod_that_has_not_left_yet_a_newer_checkpoint_is_seen_by_a_look():
    (one,) = losing.with_look(losses(), before(lora(checkpointed_at=T0 + 60)), T0 + 120)
    assert (one.saved_at, one.work_hours, one.away_hours) == (T0 + 60, 0.0, 0.0)


def test_no_more_than_a_day_of_work_is_counted_as_lost():
    (one,) = left(losses(None, lora(started_at=T0 - 90 * HOUR)), 0)
    assert one.work_hours == 2 * 24


def look(found, *pods, at, **owner):
    seen = before(*pods)
    if owner and "rs-lora" in seen.workloads:
        seen.workloads["rs-lora"] = replace(seen.workloads["rs-lora"], **owner)
    return losing.with_look(found, seen, T0 + at)


def test_without_a_successor_in_the_ledger_looks_tell_when_its_workload_is_whole_again():
    stays = lora("node-c", uid="other")
    found = left(losses(None, lora(), stays), 0)
    away = look(found, stays, at=900, replicas=2)
    assert (away[0].is_open, away[0].away_hours) == (True, pytest.approx(2 * 900 / HOUR))
    fresh = lora("node-b", uid="new", started_at=T0 + 1000)
    (back,) = look(away, stays, fresh, at=1800, replicas=2)
    assert (back.is_open, back.away_hours) == (False, pytest.approx(2 * 1000 / HOUR))
    assert look([back], stays, at=2700, replicas=2) == [back]


@pytest.mark.parametrize("owner", [{"replicas": 1}, None])
def test_a_workload_that_wants_fewer_pods_or_is_gone_waits_for_nobody(owner):
    stays = lora("node-c", uid="other")
    found = left(losses(None, lora(), stays), 0)
    seen = [stays] if owner else []
    (one,) = look(found, *seen, at=900, **(owner or {}))
    assert (one.is_given_up, one.away_hours) == (True, 0.0)


def test_a_pod_of_no_owner_that_gave_way_lost_its_work_and_is_not_waited_for():
    plan = plan_of_one_move(
        moves=(), preemptions=(Preemption(1, "uid-lora", "ml/lora", "node-a", 2, 0, 1.0, "gives way"),)
    )
    (one,) = look(left(losses(plan, lora(workload="")), 0), at=900)
    assert (one.work_hours, one.away_hours, one.is_open) == (pytest.approx(6), 0.0, False)


def test_looking_twice_at_the_same_changes_nothing():
    found = left(losses(), 0)
    once = look(found, at=900)
    assert look(once, at=900) == once


ROOM = gaining.room_of(plan_of_one_move(unlocked=("ml/train",)), before(lora(), waiting(), waiting("else")))


def gained(known, *pods, at, moved=()):
    return gaining.with_look(known, ROOM, before(*pods), since=T0, until=T0 + at, moved=moved)


def test_what_the_plan_unlocked_counts_from_its_start_to_the_last_look_at_which_it_ran():
    train = replace(waiting(), node_name="node-c", phase="Running", started_at=T0 + 100)
    first = gained({}, train, at=1000)
    assert {one.pod: one.hours for one in first.values()} == {"ml/train": pytest.approx(4 * 900 / HOUR)}
    later = gained(first, train, at=1900)
    assert later["uid-train"].hours == pytest.approx(4 * 1800 / HOUR)
    assert gained(later, at=2800) == later


def test_a_later_pod_of_the_same_workload_counts_and_what_waited_unnamed_does_not():
    again = replace(waiting(uid="new"), node_name="node-c", phase="Running", started_at=T0 + 100)
    other = replace(waiting("else"), node_name="node-c", phase="Running", started_at=T0 + 100)
    found = gained({}, again, other, at=1000)
    assert [(one.uid, one.is_unlocked) for one in found.values()] == [("new", True)]


def test_pods_that_a_rollout_makes_anew_are_no_gain_beyond_those_that_waited():
    """One of the workload waited; three that ran are replaced by its owner, and the first ends later."""
    facts = {"node_name": "node-c", "phase": "Running"}
    anew = [replace(waiting(uid=f"r{n}"), **facts, started_at=T0 + 100 * n) for n in (1, 2, 3)]
    first = gained({}, anew[1], anew[2], at=1000)
    assert list(first) == ["r2"]
    second = gained(first, *anew, at=1900)
    assert {uid: one.until - T0 for uid, one in second.items()} == {"r2": 1900}, "it stays the one"
    third = gained(second, anew[0], anew[2], at=2800)
    assert sum(one.hours for one in third.values()) == pytest.approx(4 * (1700 + 900) / HOUR)
    train = replace(waiting(), **facts, started_at=T0 + 50)
    assert list(gained({}, train, *anew, at=1000)) == ["uid-train"]
    older = gaining.read_room({"uids": ["uid-train"], "workloads": sorted(ROOM.workloads)})
    assert len(gaining.with_look({}, older, before(*anew), since=T0, until=T0 + 900)) == 3


def test_on_a_freed_node_whoever_came_since_counts_but_not_a_replacement_and_not_who_ran_before():
    came = pod("guest", "node-a", 8, started_at=T0 + 100)
    ran = pod("old", "node-a", 1, started_at=T0 - 100)
    landed = pod("landed", "node-a", 1, started_at=T0 + 100)
    found = gained({}, came, ran, landed, at=1000, moved=("uid-landed",))
    assert [(one.pod, one.is_unlocked) for one in found.values()] == [("ml/guest", False)]


def test_sums_tell_work_and_waiting_apart_and_what_was_unlocked_from_the_rest():
    gone = left(losses(), HOUR, back_at=T0 + 2 * HOUR)
    stayed = Loss("uid-b", "ml/b", "rs-b", 8, T0, False, 1, True)
    gains = [
        gaining.Gain("a", "ml/a", 4, True, T0, T0 + HOUR),
        gaining.Gain("b", "ml/b", 1, False, T0, T0 + 2 * HOUR),
    ]
    assert sum_up([*gone, stayed], gains) == {
        "work": 8.0, "away": 2.0, "unlocked": 4.0, "freed": 2.0, "left": 1, "without_checkpoint": 1,
        "still_away": 0,
    }  # fmt: skip


def test_time_between_looks_that_are_too_far_apart_is_unseen():
    looks = [T0 + at for at in (900, 1800, 9000, 9900)]
    assert unseen_seconds(looks, T0, T0 + 10_800) == 7200
    assert unseen_seconds(looks, T0, T0 + 20_000) == 7200 + 10_100
    assert unseen_seconds([], T0, T0 + 86_400) == 86_400
    assert unseen_seconds([T0 + 900 * n for n in range(1, 96)], T0, T0 + 86_400) == 0


def at(seconds):
    return datetime.fromtimestamp(T0 + seconds, UTC)


@pytest.mark.parametrize(
    ("ended", "looks", "now", "standing"),
    [
        (None, [], 600, Standing.NOT_YET),
        (None, [900], 1000, Standing.MEASURING),
        (100, [900], 1000, Standing.MEASURING),
        (100, [], 90_000, Standing.UNKNOWN),
        (100, [900], 90_000, Standing.PARTLY),
        (100, [900 * number for number in range(1, 97)], 90_000, Standing.KNOWN),
    ],
)
def test_what_is_known_is_said_as_known(ended, looks, now, standing):
    sums = sum_up([], []) if looks else {}
    hours = GpuHours(looks=[T0 + one for one in looks], sums=sums)
    told = tell(at(0), None if ended is None else at(ended), hours, at(now))
    assert told.standing == standing
    assert (told.lost is None, told.won is None) == (not looks, not looks)


def step(kind, state=StepState.VERIFIED, *, issued=10, finished=20, seen=None):
    return Step(
        kind=kind, state=state, params={"uid": "uid-lora"}, observed={"seen": seen or {}},
        issued_at=at(issued), finished_at=at(finished),
    )  # fmt: skip


def test_the_ledger_tells_who_left_when_and_when_a_successor_was_ready():
    asked = step(StepKind.CHECKPOINT, seen={"checkpointed_at": at(5).isoformat()})
    walk = [asked, step(StepKind.EVICT_POD), step(StepKind.AWAIT_REPLACEMENT, finished=70)]
    assert read_departures(walk) == {"uid-lora": Departure(T0 + 10, T0 + 70, T0 + 5)}
    never = [step(StepKind.EVICT_POD, StepState.SUPERSEDED)]
    assert read_departures(never) == {}
    late = [step(StepKind.EVICT_POD), step(StepKind.AWAIT_REPLACEMENT, StepState.BLOCKED)]
    assert read_departures(late) == {"uid-lora": Departure(T0 + 10, None, None)}


@pytest.mark.django_db(transaction=True)
def test_an_execution_is_followed_by_the_pictures_that_are_there_until_a_day_after_its_end(monkeypatch):
    """No cluster is behind these rows: whatever would ask one fails."""
    cluster = make_cluster()
    plan = proposed(cluster, person("ada", "planner", cluster=cluster))
    approve(plan, person("ben", "approver", cluster=cluster))
    execution = services.start_execution(actor=person("omar", "operator", cluster=cluster), plan_id=plan.pk)
    assert (measure_due(), tell_hours(execution)) == (0, None)

    began = timezone.now() - timedelta(minutes=10)
    Execution.objects.filter(pk=execution.pk).update(started_at=began)
    execution.refresh_from_db()
    for kind in (StepKind.EVICT_POD, StepKind.AWAIT_REPLACEMENT):
        Step.objects.create(
            execution=execution, position=execution.steps.count() + 1, kind=kind, state=StepState.VERIFIED,
            target="pod", params={"uid": "uid-lora"}, observed={"seen": {"replacement": "uid-new"}},
            issued_at=began, finished_at=began + timedelta(seconds=60),
        )  # fmt: skip
    guest = pod("guest", "node-a", 8, started_at=began.timestamp() + 300)
    landed = pod("lora", "node-b", 1, uid="uid-new")
    see(cluster, picture(pods=[landed, guest, pod("serve", "node-c", 8)]))
    assert (measure_due(), measure_due()) == (1, 0)  # the next look is due in a quarter of an hour
    told = tell_hours(execution)
    assert (told.standing, told.left, told.won_unlocked) == (Standing.MEASURING, 1, 0.0)
    assert told.lost_away == pytest.approx(60 / HOUR, abs=0.001)
    assert told.won_freed == pytest.approx(8 * 300 / HOUR, abs=0.05)

    ended = began + timedelta(seconds=120)
    Execution.objects.filter(pk=execution.pk).update(finished_at=ended, state="succeeded")
    execution.refresh_from_db()
    monkeypatch.setattr(ledger, "database_time", lambda: ended + timedelta(hours=30))
    assert measure_due() == 0  # the picture is a day old
    told = tell_hours(execution)
    assert told.standing == Standing.PARTLY
    assert told.unseen_hours == pytest.approx(24, abs=0.3)
    assert told.won_freed == pytest.approx(8 * 300 / HOUR, abs=0.05)
    total = sum_hours(cluster)
    assert (total.measured, total.pending, total.unknown, total.won) == (1, 0, 0, round(told.won, 1))
    assert GpuHours.objects.get().closed_at is not None
