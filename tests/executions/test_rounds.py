"""One row of a timer's round that fails holds up no other."""

import time

import pytest
from celery.exceptions import SoftTimeLimitExceeded

from apps.executions.rounds import act_on_each


def halve(number):
    if number == 3:
        raise RuntimeError("nobody foresaw this")
    if number == 7:
        raise SoftTimeLimitExceeded
    return number // 2


def test_one_that_fails_is_left_out_and_the_others_have_their_turn():
    assert act_on_each([2, 3, 4], halve) == [1, 2]


def test_a_round_that_has_had_its_time_ends_after_the_one_at_hand():
    assert act_on_each([3, 4, 6], halve, until=time.monotonic()) == []
    assert act_on_each([4, 6], halve, until=time.monotonic()) == [2]


def test_the_workers_own_time_limit_ends_the_round():
    with pytest.raises(SoftTimeLimitExceeded):
        act_on_each([2, 7, 4], halve)
