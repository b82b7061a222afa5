"""What many tests share."""

import pytest
from hypothesis import HealthCheck, settings

from tests.cluster_fixtures import api_server, new_api_server, simulated_cluster  # noqa: F401
from tests.faults.reporting import (  # noqa: F401
    name_faults,
    pytest_configure,
    pytest_terminal_summary,
)

LONG = ("tests/flows/", "tests/deploy/")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whole stories come first: two workers share the tests, and whoever begins a long one last is
    waited for by the other. The stories' browser must be closed before that of the browser tests opens."""
    items.sort(key=lambda one: not one.nodeid.startswith(LONG))
    name_faults(items)


settings.register_profile("busy", suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")
"""How long a draw takes says how busy the machine is."""
settings.register_profile("thorough", max_examples=5000, suppress_health_check=[HealthCheck.too_slow])
"""Fifty times as many examples, for `--hypothesis-profile thorough`."""


KEPT = ("django_content_type", "auth_permission")
"""What migrating writes, and no test changes."""


@pytest.fixture(scope="session", autouse=True)
def _an_empty_database_for_every_test():
    """Between tests with real transactions all tables are emptied: by DELETE, which takes a tenth of the time
    that TRUNCATE needs for so many small tables. The ledger's triggers would refuse either.

    The product has no way around them; only this emptying switches them off, as a superuser of the
    database could.
    """
    from django.core.management.commands import flush
    from django.db.backends.postgresql.operations import DatabaseOperations

    original, emit = DatabaseOperations.sql_flush, flush.emit_post_migrate_signal

    def sql_flush(self, style, tables, **options):
        names = [self.quote_name(table) for table in tables if table not in KEPT]
        # Who is still writing is waited for, as TRUNCATE would.
        lock = f"LOCK TABLE {', '.join(names)} IN SHARE MODE"
        emptied = "; ".join(f"DELETE FROM {name}" for name in names)
        return ["SET LOCAL session_replication_role = replica", lock, emptied]

    DatabaseOperations.sql_flush = sql_flush
    flush.emit_post_migrate_signal = lambda *arguments, **options: None
    yield
    DatabaseOperations.sql_flush = original
    flush.emit_post_migrate_signal = emit
