"""Durations and GPU time in words."""

from datetime import UTC, datetime, timedelta

import pytest

from apps.dashboard.reading.times import gpu_time
from apps.dashboard.templatetags.console import moment


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(40, "40 GPU-s"), (2400, "40 GPU-min"), (11520, "3.2 GPU-h"), (1_555_200, "432 GPU-h")],
)
def test_gpu_time_is_said_in_gpu_hours(seconds, text):
    assert gpu_time(seconds) == text


def test_a_dated_time_tells_the_day_unless_it_is_today():
    now = datetime.now(UTC)
    assert f">{now:%H:%M:%S} UTC<" in moment(now, "dated")
    later = now + timedelta(days=1)
    assert f">{later.day} {later:%b %H:%M:%S} UTC<" in moment(later, "dated")
