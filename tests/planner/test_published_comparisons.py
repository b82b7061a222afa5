"""The scenes beside published figures: the engine's own rules, on clusters small enough to follow by hand."""

import pytest

from apps.planner.replay.asks import Ask
from apps.planner.replay.fgd import Fgd
from apps.planner.replay.nodes import EmptyNode
from benchmarks.event_scene import CHECKPOINT_SECONDS, RESTART_SECONDS, Job, LeastAllocated, Scene, Ways
from benchmarks.published_comparisons import KINDS, draw_jobs, main

STOCK = Ways(LeastAllocated, preempts=True)
OURS = Ways(Fgd, plans=True, preempts=True)
HOUR = 3600.0


def nodes(number):
    return [EmptyNode(f"n{at}", 128_000, 1024 * 1024, 8) for at in range(number)]


def job(number, gpus, at, seconds=10 * HOUR, priority=0):
    return Job(number, Ask(14_000 * gpus, 98_304 * gpus, 1000, gpus), at, seconds, priority)


def run(number, jobs, ways, hours=20.0):
    scene = Scene(nodes(number), jobs, ways, hours * HOUR)
    scene.run()
    return scene


def test_spread_pods_keep_a_large_job_waiting_and_packed_ones_do_not():
    def jobs():
        return [job(1, 1, 0), job(2, 1, 1), job(3, 8, 2)]

    spread = run(2, jobs(), Ways(LeastAllocated))
    assert spread.jobs[2].started == 10 * HOUR  # when the first small job ends
    packed = run(2, jobs(), Ways(Fgd))
    assert packed.jobs[2].started == 2
    assert packed.moves == 0


def test_a_move_makes_room_and_costs_what_was_not_kept():
    late = [job(1, 1, 0, 3 * HOUR), job(2, 1, 1, 3 * HOUR), job(3, 8, 2 * HOUR + 60)]
    scene = run(2, late, Ways(LeastAllocated, plans=True))
    assert scene.moves == 1
    assert scene.jobs[2].started == 2 * HOUR + 300  # at the next plan
    moved = next(one for one in scene.jobs if one.interruptions)
    assert moved.done == 4 * CHECKPOINT_SECONDS
    assert RESTART_SECONDS > 0


def test_a_more_important_job_interrupts_where_there_is_no_room_and_moves_where_there_is():
    full = [job(1, 8, 0), job(2, 8, 1), job(3, 8, HOUR, priority=1000)]
    assert run(2, full, STOCK).preempted == 1
    scattered = [job(1, 1, 0), job(2, 1, 1), job(3, 8, HOUR, priority=1000)]
    assert run(2, scattered, STOCK).preempted == 1
    eased = run(2, [job(1, 1, 0), job(2, 1, 1), job(3, 8, HOUR, priority=1000)], OURS)
    assert (eased.preempted, eased.jobs[2].started) == (0, HOUR)


def test_the_same_seed_draws_the_same_jobs_for_both():
    kind = KINDS["mixed"]
    one, two = (draw_jobs(kind, 64, 10 * HOUR, 3) for _ in range(2))
    assert one == two
    asked = sum(each.seconds * each.ask.gpu_milli / 1000 for each in one)
    assert asked == pytest.approx(64 * 10 * HOUR * kind.load, rel=0.1)


def test_it_prints_both_sides_with_the_seed(capsys):
    main(["--seeds", "1", "--nodes", "2", "--hours", "2", "--scene", "large"])
    told = capsys.readouterr().out
    assert "2 nodes of 8 GPUs, 2.0 h, seeds 0 to 0" in told
    assert "8-GPU jobs started within 10 min       61 % -> 94 %" in told
    with pytest.raises(SystemExit) as refused:
        main(["--nodes", "0"])
    assert refused.value.code == 2
