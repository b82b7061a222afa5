"""What many tests share."""

import pytest
from hypothesis import settings

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


settings.register_profile("thorough", max_examples=5000)
"""Fifty times as many examples, for `--hypothesis-profile thorough`."""


@pytest.fixture(scope="session", autouse=True)
def _an_empty_ledger_for_every_test():
    """Between tests with real transactions all tables are emptied, which the ledger's triggers refuse.

    The product has no way around them; only this emptying switches them off, as an owner of the
    database could.
    """
    from django.db.backends.postgresql.operations import DatabaseOperations

    original = DatabaseOperations.sql_flush

    def sql_flush(self, style, tables, **options):
        statements = original(self, style, tables, **options)
        if "audit_auditentry" not in tables:
            return statements
        off, on = (f"ALTER TABLE audit_auditentry {word} TRIGGER USER" for word in ("DISABLE", "ENABLE"))
        return [off, *statements, on]

    DatabaseOperations.sql_flush = sql_flush
    yield
    DatabaseOperations.sql_flush = original
