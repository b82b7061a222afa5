"""Where a cluster has maintenance windows, nothing new begins outside them; local times hold all the year."""

from datetime import UTC, datetime, timedelta

import pytest

from apps.plans.errors import InvalidPolicy
from apps.plans.models import ClusterPolicy
from apps.plans.policies import FREEZE, OUTSIDE, ban_of
from apps.plans.policy_rules import checked_policy
from tests.plans.situations import make_cluster

pytestmark = pytest.mark.django_db
SUNDAYS = {
    "weekdays": ["sun"],
    "start": "01:00",
    "end": "05:00",
    "time_zone": "Europe/Berlin",
    "reason": "low",
}


def ban(at, **facts):
    return ban_of(ClusterPolicy(cluster=make_cluster(), maintenance_windows=[SUNDAYS], **facts), at)


@pytest.mark.parametrize(
    ("at", "is_open"),
    [
        (datetime(2026, 6, 6, 22, 59, tzinfo=UTC), False),
        (datetime(2026, 6, 6, 23, 0, tzinfo=UTC), True),  # 01:00 in Berlin, summer
        (datetime(2026, 6, 7, 2, 59, tzinfo=UTC), True),
        (datetime(2026, 6, 7, 3, 0, tzinfo=UTC), False),
        (datetime(2026, 12, 5, 23, 30, tzinfo=UTC), False),
        (datetime(2026, 12, 6, 0, 0, tzinfo=UTC), True),  # 01:00 in Berlin, winter
        (datetime(2026, 3, 29, 0, 0, tzinfo=UTC), True),  # the clocks go forward inside: an hour less
        (datetime(2026, 3, 29, 2, 59, tzinfo=UTC), True),
        (datetime(2026, 3, 29, 3, 0, tzinfo=UTC), False),
        (datetime(2026, 10, 25, 3, 59, tzinfo=UTC), True),  # and back: an hour more
        (datetime(2026, 10, 25, 4, 0, tzinfo=UTC), False),
    ],
)
def test_it_is_open_by_the_local_clock(at, is_open):
    assert (ban(at) is None) is is_open


def test_the_ban_names_the_next_window_in_local_time_and_in_utc():
    found = ban(datetime(2026, 6, 3, 12, 0, tzinfo=UTC))
    at = "2026-06-07 01:00 Europe/Berlin (2026-06-06 23:00 UTC)"
    assert (found.kind, found.until) == (OUTSIDE, datetime(2026, 6, 6, 23, 0, tzinfo=UTC))
    assert found.sentence == f"No maintenance window of east is open before {at}: low"
    assert found.short == f"paused until the maintenance window at {at} (low)"
    assert found.ends_by_itself


def test_a_freeze_goes_before_an_open_window():
    dated = {"first_day": "2026-06-07", "last_day": "2026-06-07", "start": "00:00", "end": "24:00"}
    frozen = {"freeze_windows": [{**dated, "time_zone": "UTC", "reason": "quarter end"}]}
    assert ban(datetime(2026, 6, 7, 1, 0, tzinfo=UTC), **frozen).kind == FREEZE


def test_windows_that_are_over_allow_nothing_any_more():
    dated = {"first_day": "2020-01-01", "last_day": "2020-01-02", "start": "00:00", "end": "24:00"}
    policy = ClusterPolicy(
        cluster=make_cluster(), maintenance_windows=[{**dated, "time_zone": "UTC", "reason": "once"}]
    )
    found = ban_of(policy, datetime(2020, 1, 1, tzinfo=UTC) + timedelta(days=9))
    assert (found.kind, found.until) == (OUTSIDE, None)
    assert found.sentence == "No maintenance window of east is open, and none comes"


def test_a_window_that_cannot_be_used_says_which():
    with pytest.raises(InvalidPolicy, match="maintenance window 1: .*is no time zone"):
        checked_policy({"maintenance_windows": [{**SUNDAYS, "time_zone": "Berlin"}]})
