"""Numbers in queries and bodies."""

import pytest

from apps.accounts.parameters import LARGEST, read_whole


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("007", 7), (str(LARGEST), LARGEST)])
def test_a_whole_number_is_read(text, number):
    assert read_whole(text) == number


@pytest.mark.parametrize(
    "text", ["", "-1", "+1", "1.0", "1e3", "٣", str(LARGEST + 1), "0" * 20 + "9" * 30, "9" * 5000]
)
def test_what_is_no_whole_number_or_beyond_any_row_is_refused(text):
    with pytest.raises(ValueError, match="whole number"):
        read_whole(text)
