"""The embedded servers: what is kept, and who may come in."""

import psycopg
import pytest

from console.embedded import start_postgres, start_valkey


def test_postgres_keeps_its_data_and_asks_for_its_password(tmp_path):
    server = start_postgres(tmp_path / "pg")
    try:
        with psycopg.connect(server.url) as connection:
            connection.execute("CREATE TABLE kept (x int)")
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(server.url.replace("://postgres:", "://postgres:wrong"))
    finally:
        server.stop()
    assert server.process.poll() is not None

    again = start_postgres(tmp_path / "pg")
    try:
        with psycopg.connect(again.url) as connection:
            assert connection.execute("SELECT count(*) FROM kept").fetchone() == (0,)
    finally:
        again.stop()


def test_valkey_keeps_what_it_was_told_through_a_kill(tmp_path):
    import redis

    server = start_valkey(tmp_path)
    redis.Redis.from_url(server.url).set("a", "1")
    redis.Redis.from_url(server.url).execute_command("WAITAOF", 1, 0, 2000)
    server.process.kill()
    server.process.wait()

    again = start_valkey(tmp_path)
    try:
        assert redis.Redis.from_url(again.url).get("a") == b"1"
    finally:
        again.stop()
