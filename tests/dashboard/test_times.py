"""Durations and GPU time in words."""

import pytest

from apps.dashboard.reading.times import gpu_time


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(40, "40 GPU-s"), (2400, "40 GPU-min"), (11520, "3.2 GPU-h"), (1_555_200, "432 GPU-h")],
)
def test_gpu_time_is_said_in_gpu_hours(seconds, text):
    assert gpu_time(seconds) == text
