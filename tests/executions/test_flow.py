"""In which order steps may be looked at, and what is dropped or undone when an execution stops."""

import itertools
from datetime import UTC, datetime

import pytest

from apps.executions import flow
from apps.executions.flow import Ledger
from apps.executions.states import ALLOWED, TERMINAL, ExecutionState, StepKind, StepState
from tests.executions.things import step

MOVE = (
    StepKind.CHECKPOINT,
    StepKind.STEER,
    StepKind.EVICT_POD,
    StepKind.AWAIT_REPLACEMENT,
    StepKind.RELEASE,
)


def an_execution(*, moves=((1, 1), (2, 1), (3, 2))):
    """One node to free, the moves as (number, wave), one hand-over, one release of a node at the end."""
    steps = [step(StepKind.CORDON_NODE, move=0, wave=0)]
    steps += [step(StepKind.HOLD_TARGET, move=move, wave=wave) for move, wave in moves]
    steps += [step(kind, move=move, wave=wave) for move, wave in moves for kind in MOVE]
    steps += [step(StepKind.HAND_OVER, move=0, wave=0), step(StepKind.RELEASE, move=0, wave=0)]
    for number, one in enumerate(steps, start=1):
        one.pk = one.position = number
    return steps


def finish(steps, *kinds, move=None, state=StepState.VERIFIED):
    for one in steps:
        if one.kind in kinds and (move is None or one.move == move):
            one.state = state
            if one.kind == StepKind.EVICT_POD:
                one.observed["sent"] = ["evict"]


def named(steps):
    return [(one.kind.value if hasattr(one.kind, "value") else one.kind, one.move) for one in steps]


def test_all_cordons_then_all_holds_come_before_the_first_move():
    steps = an_execution()
    assert named(flow.steps_to_run(Ledger(steps))) == [("cordon_node", 0)]
    finish(steps, StepKind.CORDON_NODE)
    assert named(flow.steps_to_run(Ledger(steps))) == [
        ("hold_target", 1),
        ("hold_target", 2),
        ("hold_target", 3),
    ]
    finish(steps, StepKind.HOLD_TARGET, move=1)
    assert named(flow.steps_to_run(Ledger(steps))) == [("hold_target", 2), ("hold_target", 3)]


def test_no_eviction_can_run_while_any_destination_is_not_held():
    for states in itertools.product((StepState.PENDING, StepState.BLOCKED, StepState.VERIFIED), repeat=3):
        steps = an_execution()
        finish(steps, StepKind.CORDON_NODE)
        holds = [one for one in steps if one.kind == StepKind.HOLD_TARGET]
        for one, state in zip(holds, states, strict=True):
            one.state = state
        may_move = any(one.kind in MOVE for one in flow.steps_to_run(Ledger(steps)))
        assert may_move == (set(states) == {StepState.VERIFIED})


def test_moves_of_a_wave_run_together_and_the_next_wave_waits():
    steps = an_execution()
    finish(steps, StepKind.CORDON_NODE, StepKind.HOLD_TARGET)
    finish(steps, StepKind.CHECKPOINT, move=1, state=StepState.SUPERSEDED)
    assert named(flow.steps_to_run(Ledger(steps))) == [("steer", 1), ("checkpoint", 2)]
    finish(steps, *MOVE, move=1)
    assert named(flow.steps_to_run(Ledger(steps))) == [("checkpoint", 2)]
    finish(steps, *MOVE, move=2)
    assert named(flow.steps_to_run(Ledger(steps))) == [("checkpoint", 3)]


def test_the_hand_over_comes_after_the_last_move_and_the_final_release_after_verification():
    steps = an_execution()
    finish(steps, StepKind.CORDON_NODE, StepKind.HOLD_TARGET)
    for move in (1, 2, 3):
        finish(steps, *MOVE, move=move)
    assert named(flow.steps_to_run(Ledger(steps))) == [("hand_over", 0)]
    finish(steps, StepKind.HAND_OVER)
    assert flow.steps_to_run(Ledger(steps)) == []
    assert named(Ledger(steps).final) == [("release", 0)]


def test_only_moves_whose_eviction_went_out_are_landed():
    steps = an_execution()
    finish(steps, StepKind.CORDON_NODE, StepKind.HOLD_TARGET)
    finish(steps, StepKind.CHECKPOINT, StepKind.STEER, StepKind.EVICT_POD, move=1)
    finish(steps, StepKind.CHECKPOINT, StepKind.STEER, move=2)
    assert named(flow.steps_to_land(Ledger(steps))) == [("await_replacement", 1)]
    dropped = flow.steps_to_drop(Ledger(steps), keep_landing=True)
    assert not [one for one in dropped if one.move == 1]
    assert ("evict_pod", 2) in named(dropped)
    assert ("await_replacement", 1) in named(flow.steps_to_drop(Ledger(steps), keep_landing=False))


def test_an_eviction_that_may_have_gone_out_is_looked_at_before_anything_is_dropped():
    steps = an_execution()
    finish(steps, StepKind.CORDON_NODE, StepKind.HOLD_TARGET)
    finish(steps, StepKind.CHECKPOINT, StepKind.STEER, move=1)
    finish(steps, StepKind.EVICT_POD, move=1, state=StepState.INTENT)
    assert named(flow.steps_to_land(Ledger(steps))) == [("evict_pod", 1)]


def test_a_landing_that_waits_for_a_person_does_not_hold_up_a_cancel():
    steps = an_execution()
    finish(steps, *MOVE[:3], move=1)
    waiting = next(one for one in steps if one.kind == StepKind.AWAIT_REPLACEMENT and one.move == 1)
    waiting.state = StepState.BLOCKED
    waiting.observed["needs_person"] = True
    assert waiting in flow.steps_to_drop(Ledger(steps), keep_landing=True)


def test_what_left_traces_is_undone_last_first():
    steps = an_execution()
    finish(steps, StepKind.CORDON_NODE, StepKind.HOLD_TARGET)
    finish(steps, StepKind.STEER, move=1)
    undone = []
    while together := flow.steps_to_undo(Ledger(steps)):
        undone.append(named(together))
        for one in together:
            one.state = StepState.COMPENSATED
    assert undone == [
        [("steer", 1)],
        [("hold_target", 3), ("hold_target", 2), ("hold_target", 1)],
        [("cordon_node", 0)],
    ]


def test_terminal_states_lead_nowhere():
    assert all(not ALLOWED[state] for state in TERMINAL)


@pytest.mark.parametrize("state", [state for state in ExecutionState if state not in TERMINAL])
def test_every_open_state_can_reach_an_end(state):
    reached, edge = set(), {state}
    while edge:
        reached |= edge
        edge = {after for one in edge for after in ALLOWED[one]} - reached
    assert reached & TERMINAL


def a_mig_execution():
    """One node relaid before the moves and opened for them, another one after."""
    steps = an_execution(moves=((1, 1),))
    early = step(StepKind.RECONFIGURE_MIG, move=0, wave=0, before_moves=True)
    opened = step(StepKind.RELEASE, move=0, wave=0, before_moves=True)
    late = step(StepKind.RECONFIGURE_MIG, move=0, wave=0, before_moves=False)
    steps = [steps[0], early, steps[1], opened, *steps[2:-2], late, *steps[-2:]]
    for number, one in enumerate(steps, start=1):
        one.pk = one.position = number
    return steps, early, opened, late


def test_gpus_are_relaid_before_the_holds_and_after_the_moves():
    steps, early, opened, late = a_mig_execution()
    walked = []
    while to_run := flow.steps_to_run(Ledger(steps)):
        walked.append(to_run)
        for one in to_run:
            one.state = StepState.VERIFIED
    assert [one for turn in walked for one in turn] == steps[:-1]
    assert walked[1] == [early]
    assert walked[3] == [opened]
    assert walked[-2] == [late]
    assert Ledger(steps).final == steps[-1:]


def test_a_node_between_two_layouts_is_told_and_undone_before_its_cordon():
    steps, early, _opened, late = a_mig_execution()
    finish(steps, StepKind.CORDON_NODE)
    early.state, early.observed = StepState.BLOCKED, {"sent": ["relabel"], "needs_person": True}
    assert [flow.is_relaying(one) for one in (early, late)] == [True, False]
    assert late in flow.steps_to_drop(Ledger(steps), keep_landing=True)
    assert flow.steps_to_undo(Ledger(steps)) == [early]
    early.state = StepState.COMPENSATED
    assert not flow.is_relaying(early)
    assert flow.steps_to_undo(Ledger(steps))[0].kind == StepKind.CORDON_NODE


def test_a_node_on_its_way_back_is_not_looked_at_as_one_that_is_relaid():
    one = step(StepKind.RECONFIGURE_MIG, state=StepState.ISSUED, move=0, sent=("relabel",))
    one.intent_at = one.issued_at = datetime(2026, 1, 1, tzinfo=UTC)
    assert flow.goes_on_relaying(one)
    one.state, one.observed["sent"] = StepState.COMPENSATING, ["relabel", "restore"]
    assert not flow.goes_on_relaying(one)
    assert flow.is_relaying(one)  # so its execution is not ended by its deadline


def test_one_node_is_relaid_alone_until_it_came_out_as_planned_then_a_few_at_once(settings):
    settings.EXECUTION_MIG_NODES_AT_ONCE = 2
    steps = [step(StepKind.RECONFIGURE_MIG, move=0, before_moves=True) for _ in range(4)]
    naming = step(StepKind.NAME_LAYOUT, move=0)
    book = Ledger([naming, step(StepKind.CORDON_NODE, move=0), *steps])
    assert flow.steps_to_run(book) == [naming]
    naming.state = book.steps[1].state = StepState.VERIFIED
    assert flow.steps_to_run(book) == steps[:1]
    steps[0].state = StepState.ISSUED
    assert flow.steps_to_run(book) == steps[:1]
    steps[0].state = StepState.VERIFIED
    assert flow.steps_to_run(book) == steps[1:3]
    steps[1].state = steps[2].state = StepState.ISSUED
    assert flow.steps_to_run(book) == steps[1:3]
    steps[1].state = StepState.VERIFIED
    assert flow.steps_to_run(book) == steps[2:4]
