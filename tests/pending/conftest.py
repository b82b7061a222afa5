"""A running watcher and REST clients, as the tests of clusters and of the API have them."""

from tests.api.conftest import problem  # noqa: F401
from tests.clusters.conftest import quick_pictures, watchers  # noqa: F401
