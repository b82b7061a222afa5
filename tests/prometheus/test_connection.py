"""A Prometheus whose answer drips in holds nobody."""

from contextlib import closing

import pytest

from apps.prometheus.connection import Connection
from apps.prometheus.errors import Unreachable
from tests.dripping import PLACES, dripping


@pytest.mark.parametrize(("first", "again"), PLACES)
def test_an_answer_that_drips_in_is_given_up(first, again):
    with dripping(first, again) as port:
        asked = Connection(f"http://127.0.0.1:{port}", connect_seconds=0.2, read_seconds=0.2)
        with closing(asked), pytest.raises(Unreachable, match="no answer within|too slow"):
            asked.get("/api/v1/query")
