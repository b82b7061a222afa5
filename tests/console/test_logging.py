"""What a failure leaves in the log: where it happened, never the values that were at hand there."""

import json
import os
import subprocess
import sys

import pytest

PROGRAM = """
import logging
import django
import structlog

django.setup()

def fail(password):
    kept = [password, {"token": password}]
    raise ValueError("it failed")

for log in (logging.getLogger("django.request"), structlog.get_logger("console")):
    try:
        fail("-".join(["hunter", "2"]))
    except ValueError:
        log.error("a request failed", exc_info=True)
"""


@pytest.mark.parametrize("as_json", ["0", "1"])
def test_a_traceback_tells_no_values(as_json):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "console.settings.test", "LOG_JSON": as_json},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr.count("ValueError: it failed") == 2
    assert "hunter-2" not in done.stderr
    if as_json == "1":
        lines = [json.loads(line) for line in done.stderr.splitlines()]
        assert [line["event"] for line in lines] == ["a request failed"] * 2


@pytest.mark.django_db
def test_what_stands_in_a_query_is_not_logged(client, caplog):
    """Somebody may put a token there, although none is read from it."""
    assert client.get("/api/v1/plans/?token=hunter-2").status_code == 401
    told = [str(record.msg) for record in caplog.records]
    assert any("GET /api/v1/plans/" in words for words in told)
    assert "hunter-2" not in " ".join(told)
