import json

import pytest

from apps.planner.plan import Goal, Move, Plan
from apps.planner.plan_json import digest, plan_from_dict, plan_to_answer, plan_to_dict

PLAN = Plan(Goal.UNLOCK, moves=(Move(1, 1, "uid", "ns/pod", "a1", "a2", 1, 47.0, "because"),), cost=47.0)


def test_a_plan_goes_to_json_text_and_back():
    assert plan_from_dict(json.loads(json.dumps(plan_to_dict(PLAN)))) == PLAN


def test_the_digest_does_not_depend_on_the_order_of_keys_but_on_every_value():
    data = plan_to_dict(PLAN)
    turned = dict(reversed(list(data.items())))

    assert digest(data) == digest(turned)
    assert digest(data) != digest({**data, "cost": 48.0})
    assert len(digest(data)) == 64


def test_a_number_that_is_none_is_never_signed():
    with pytest.raises(ValueError, match="JSON"):
        digest({"cost": float("nan")})


def test_the_answer_of_the_command_has_the_promised_keys():
    answer = plan_to_answer(PLAN, 0.12345)

    promised = (
        "goal moves freed_nodes unlocked unlocked_gpus reconfigurations cost lower_bound gap "
        "proven_optimal seconds refused"
    )
    assert set(promised.split()) <= set(answer)
    assert {"order", "wave", "pod", "uid", "source", "target", "reason"} <= set(answer["moves"][0])
    assert answer["seconds"] == 0.123


def test_what_is_no_plan_is_refused():
    with pytest.raises(KeyError):
        plan_from_dict({"goal": "unlock"})
