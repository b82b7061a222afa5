"""Stories run whole consoles, whose data are taken away afterwards."""

from tests.leftovers import _nothing_kept_elsewhere  # noqa: F401
