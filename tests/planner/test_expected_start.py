"""When what waits would start, by replaying the ends that are known; or why that is not known."""

from dataclasses import replace
from statistics import median

from apps.planner.expected_start import Facts, expect_starts
from apps.planner.queue_order import order_queue
from apps.planner.run_lengths import MOST_RUNS, expected_length, joined, kind_of_run, runs_in
from apps.planner.start_times import StartTimes, measure_starts
from apps.planner.waiting import explain_pending
from tests.drawing import cluster, running, waiting
from tests.planner.test_quota import kueue, scene, wanted

NOW = 1_000_000.0


def expect(drawing, *groups, pods=None, extra=(), earlier=None, starts=None, late=lambda: False, nodes=None):
    seen = cluster(drawing, *groups, pods=pods, extra=extra, nodes=nodes, taken_at=NOW)
    facts = Facts(earlier or runs_in(seen), StartTimes(measure_starts(seen), starts or {}))
    return expect_starts(seen, explain_pending(seen), facts, late)


def says(seconds, begun=NOW - 100):
    return {"expected_seconds": seconds, "scheduled_at": begun, "ready_at": begun}


def test_the_ends_are_replayed_in_their_order_and_the_start_itself_counts():
    found = expect(
        "a1 aabb\na2 cccc",
        waiting("ml/four", gpus=4),
        pods={"a1-a": says(200), "a1-b": says(700), "a2-c": says(5000)},
    )["ml/four"]
    assert (found.placed_at, found.ready_at) == (NOW + 600, NOW + 647)
    assert found.words == (
        "when a1 is left: as its annotation says; 47 s to be Ready (the average of pods with GPUs)"
    )


def test_it_is_the_schedulers_turn_that_counts_and_who_does_not_fit_is_passed_over():
    groups = [
        waiting("ml/big", gpus=8, priority=1, created_at=NOW - 9),
        waiting("ml/old", gpus=2, created_at=NOW - 8, expected_seconds=1000),
        waiting("ml/new", gpus=2, created_at=NOW - 7),
    ]
    found = expect("a1 aa", *groups, pods={"a1-a": says(200)})
    assert found["ml/old"].placed_at == NOW + 100
    assert found["ml/new"].placed_at == NOW + 1100
    assert found["ml/new"].words.startswith("when a1 is left: ml/old ends before it")
    assert found["ml/big"].words == "never: no node of this cluster can run it"


def test_a_gang_waits_till_all_its_members_have_room():
    gang = waiting("ml/gang", gpus=2, count=2)
    found = expect("a1 aa\na2 bb", gang, pods={"a1-a": says(200), "a2-b": says(900)})["ml/gang"]
    assert found.placed_at == NOW + 800


def test_lengths_come_from_earlier_runs_of_the_same_kind_that_lasted_as_long():
    done = [
        running(f"train-{at}", "a2", gpus=2, phase="Succeeded", owner_kind="Job", workload="", ready=False)
        for at in range(4)
    ]
    lengths = (50.0, 300.0, 400.0, 900.0)
    done = [
        replace(pod, scheduled_at=NOW - 5000, finished_at=NOW - 5000 + length)
        for pod, length in zip(done, lengths, strict=True)
    ]
    runs = {"name": "train-9", "owner_kind": "Job", "workload": "", "scheduled_at": NOW - 100}
    found = expect("a1 aa\na2 ..", waiting("x/y", gpus=2), pods={"a1-a": runs}, extra=done, nodes=CLOSED)
    assert found["x/y"].placed_at == NOW + 300  # the median of those over 100 s
    assert "the median of 3 earlier runs (6 min)" in found["x/y"].words


CLOSED = {"a2": {"unschedulable": True}}


def test_a_deadline_says_the_latest_and_what_serves_has_no_end():
    by_deadline = {"most_seconds": 500, "started_at": NOW - 100, "scheduled_at": NOW - 100}
    found = expect("a1 aa", waiting("x/y", gpus=2), pods={"a1-a": by_deadline})["x/y"]
    assert (found.placed_at, found.is_latest) == (NOW + 400, True)
    pod = running("web", "a1", gpus=1)
    seen = cluster("a1 .", extra=[pod])
    assert expected_length(seen, pod, {kind_of_run(seen, pod): (1.0, 2.0, 3.0)}) is None


def test_why_a_start_is_not_known():
    said = {
        key: one.words
        for key, one in expect(
            "a1 aab.",
            waiting("x/y", gpus=4),
            waiting("x/gated", gpus=1, gates=("q",)),
            pods={"a1-a": says(200)},
        ).items()
    }
    assert said["x/y"] == (
        "not known, because the end of 1 of the 2 pods on the node that it may use is not known"
    )
    assert said["x/gated"] == "not known, because it waits behind a gate"
    moves = expect("a1 a.\na2 B.", waiting("x/y", gpus=2), pods={"a1-a": says(1)}, nodes=CLOSED)["x/y"]
    assert moves.placed_at is None  # its end passed unseen: it is not known any more
    late = expect("a1 aa", waiting("x/y", gpus=2), pods={"a1-a": says(200)}, late=lambda: True)["x/y"]
    assert late.words == "not known, because the ends that are known were not followed so far"


def test_what_has_no_pods_yet_has_a_place_in_the_order_and_no_start():
    seen = scene(kueue(quota=136), waits=[wanted()])
    found = explain_pending(seen)
    place = order_queue(seen, found)["team-a/llama"]
    assert (place.position, place.scheduler_position) == (1, None)
    assert place.words.endswith("3 pods at once, takes no turn before its queue admits it")
    start = expect_starts(seen, found, Facts({}, StartTimes()), lambda: False)["team-a/llama"]
    assert start.words == "not known, because its queue has not admitted it"


def test_starts_are_measured_per_image_and_node_then_per_image():
    facts = {"image": "reg/train:1", "scheduled_at": NOW - 500}
    measured = [
        running("one", "a1", ready_at=NOW - 380, **facts),
        running("two", "a2", ready_at=NOW - 400, **facts),
        running("flapped", "a2", **{**facts, "scheduled_at": NOW - 90_000, "ready_at": NOW}),
    ]
    seen = cluster("a1 .\na2 .\na3 .", extra=measured)
    starts = StartTimes(measure_starts(seen))
    (pod,) = waiting("x/y", gpus=1, image="reg/train:1")
    assert starts.of(pod, "a1") == (120.0, "measured with this image on a1")
    assert starts.of(pod, "a3") == (110.0, "measured with this image on other nodes")
    assert starts.of(replace(pod, image="other"), "a1")[0] == 47.0
    assert starts.of(waiting("x/z", gpus=0)[0], "a1")[0] == 6.0


def test_of_very_many_runs_the_long_ones_keep_their_part():
    kept = tuple(float(length) for length in range(1, 2 * MOST_RUNS))
    found = joined(({"ml/train": kept}, {"ml/train": (0.0,)}))["ml/train"]
    assert len(found) <= MOST_RUNS
    assert abs(median(found) - MOST_RUNS) <= 1
