"""A running watcher for the tests of this folder."""

import threading

import pytest

from apps.clusters.watcher import Watchers


@pytest.fixture
def quick_pictures(settings):
    settings.SNAPSHOT_MIN_INTERVAL_SECONDS = 0.05
    settings.SNAPSHOT_HEARTBEAT_SECONDS = 0.5
    settings.KUBE_CONNECT_SECONDS = 1
    settings.KUBE_READ_SECONDS = 2


@pytest.fixture
def watchers():
    """`Watchers` in a thread, ended before the database is emptied."""
    found = Watchers()
    thread = threading.Thread(target=found.run)
    thread.start()
    yield found
    found.stop()
    thread.join(30)
    assert not thread.is_alive()
