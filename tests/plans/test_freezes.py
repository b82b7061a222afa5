"""Freeze windows in UTC: across both shifts of the clocks, at midnight, one after the other."""

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.plans.freezes import freeze_at, next_span, tell_window, window_from_dict, zone_of

BERLIN, NEW_YORK, LORD_HOWE = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"
EVERY_DAY = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]


def window(start="22:00", end="06:00", zone=BERLIN, **facts):
    return window_from_dict({"start": start, "end": end, "time_zone": zone, "reason": "quarter end", **facts})


def utc(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def span_at(one, moment):
    return next((span for span in one.spans_near(utc(moment)) if span[0] <= utc(moment) < span[1]), None)


def test_a_night_is_an_hour_shorter_when_the_clocks_go_forward_and_longer_when_they_go_back():
    night = window(weekdays=["sat"])
    assert span_at(night, "2026-03-21 23:30") == (utc("2026-03-21 21:00"), utc("2026-03-22 05:00"))
    assert span_at(night, "2026-03-28 23:30") == (utc("2026-03-28 21:00"), utc("2026-03-29 04:00"))
    assert span_at(night, "2026-10-24 23:30") == (utc("2026-10-24 20:00"), utc("2026-10-25 05:00"))


def test_a_local_time_that_comes_twice_ends_with_the_second_and_begins_with_the_first():
    assert span_at(window("01:00", "02:30", weekdays=["sun"]), "2026-10-24 23:30") == (
        utc("2026-10-24 23:00"),
        utc("2026-10-25 01:30"),
    )
    assert span_at(window("02:30", "05:00", weekdays=["sun"]), "2026-10-25 00:45")[0] == utc(
        "2026-10-25 00:30"
    )


def test_a_local_time_that_is_left_out_is_the_moment_of_the_shift():
    assert span_at(window("02:30", "05:00", weekdays=["sun"]), "2026-03-29 01:00") == (
        utc("2026-03-29 01:00"),
        utc("2026-03-29 03:00"),
    )
    assert span_at(window("02:10", "02:50", weekdays=["sun"]), "2026-03-29 01:00") is None


def test_a_dated_window_is_one_freeze_from_its_first_to_its_last_day():
    holidays = window("18:00", "08:00", first_day="2026-12-23", last_day="2027-01-04")
    assert freeze_at([holidays], utc("2026-12-23 16:59")) is None
    found = freeze_at([holidays], utc("2026-12-29 03:00"))
    assert found.until == utc("2027-01-04 07:00")
    assert found.until_words == "2027-01-04 08:00 Europe/Berlin (2027-01-04 07:00 UTC)"
    assert freeze_at([holidays], utc("2027-01-04 07:00")) is None


def test_windows_that_follow_one_another_are_one_freeze_and_the_next_one_is_known():
    night, day = window("22:00", "06:00", weekdays=["mon"]), window("06:00", "24:00", weekdays=["tue"])
    found = freeze_at([night, day], utc("2026-11-30 22:00"))
    assert found.until == utc("2026-12-01 23:00")
    assert freeze_at([night, day], utc("2026-12-01 23:00")) is None
    (begin, end), which = next_span([night, day], utc("2026-12-01 23:00"))
    assert (begin, end, which) == (utc("2026-12-07 21:00"), utc("2026-12-08 05:00"), night)


def test_a_freeze_that_never_ends_says_so():
    always = window("00:00", "24:00", weekdays=EVERY_DAY)
    found = freeze_at([always], utc("2026-03-28 22:00"))
    assert (found.until, found.until_words) == (None, "further notice")
    assert tell_window(always) == "every day 00:00 to 24:00 Europe/Berlin"


SHIFTS = {  # zone, and the moments at which its clocks are put forward and back
    BERLIN: ("2026-03-29 01:00", "2026-10-25 01:00"),
    NEW_YORK: ("2026-03-08 07:00", "2026-11-01 06:00"),
    LORD_HOWE: ("2026-10-03 15:30", "2026-04-04 15:00"),  # by half an hour only
}
CLOCK = st.integers(0, 24 * 60 - 1)


def is_frozen_by_the_wall(start, end, local):
    minute = local.hour * 60 + local.minute
    return start <= minute < end if start < end else minute >= start or minute < end


@given(
    zone=st.sampled_from(sorted(SHIFTS)),
    which=st.integers(0, 1),
    start=CLOCK,
    end=CLOCK,
    minutes=st.integers(-36 * 60, 36 * 60),
)
def test_whenever_the_clock_on_the_wall_shows_a_frozen_time_it_is_frozen(zone, which, start, end, minutes):
    """Around every shift; beyond the hours that the shift repeats, never longer than the wall says either."""
    shift = utc(SHIFTS[zone][which])
    moment = shift + timedelta(minutes=minutes)
    one = window(
        f"{start // 60:02d}:{start % 60:02d}", f"{end // 60:02d}:{end % 60:02d}", zone, weekdays=EVERY_DAY
    )
    frozen = any(begin <= moment < until for begin, until in one.spans_near(moment))
    told = is_frozen_by_the_wall(start, end, moment.astimezone(zone_of(zone)))
    if told:
        assert frozen
    if frozen and abs(moment - shift) > timedelta(hours=1):
        assert told


@given(start=CLOCK, end=CLOCK, days=st.integers(1, 400), zone=st.sampled_from(sorted(SHIFTS)))
def test_a_dated_window_begins_and_ends_by_the_clock_on_the_wall(start, end, days, zone):
    first = date(2026, 3, 1)
    last = first + timedelta(days=days)
    one = window(
        f"{start // 60:02d}:{start % 60:02d}",
        f"{end // 60:02d}:{end % 60:02d}",
        zone,
        first_day=str(first),
        last_day=str(last),
    )
    ((begin, until),) = one.spans_near(utc("2026-01-01 00:00"))
    local = begin.astimezone(zone_of(zone))
    assert (local.date(), local.hour * 60 + local.minute) == (first, start)
    ends = until.astimezone(zone_of(zone))
    off = abs(
        (ends.replace(tzinfo=None) - datetime.combine(last, datetime.min.time())).total_seconds() / 60 - end
    )
    assert off <= 60  # a time that is left out ends with the shift
    assert freeze_at([one], until - timedelta(seconds=1)).until == until


@pytest.mark.parametrize("moment", ["2026-03-29 00:59", "2026-03-29 01:00", "2026-10-25 00:30"])
def test_a_freeze_has_no_gap_at_the_shift_itself(moment):
    night = window(weekdays=EVERY_DAY)
    assert freeze_at([night], utc(moment)) is not None
