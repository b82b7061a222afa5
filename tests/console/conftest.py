"""Some of these start an embedded PostgreSQL of their own."""

from tests.leftovers import _nothing_kept_elsewhere  # noqa: F401
