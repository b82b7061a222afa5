"""A pytest plugin that gives the tests a real PostgreSQL and a real Redis-compatible server.

It starts the ones from the wheels unless DATABASE_URL / REDIS_URL are set. Loaded with
`-p tests.services`, so it runs before Django reads its settings. xdist's workers inherit the address of
PostgreSQL and take a database of their own (pytest-django's suffix); each has a Redis-compatible server of
its own, because what is published there is heard in every database of one server.
"""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

os.environ["DJANGO_SETTINGS_MODULE"] = "console.settings.test"

from console.embedded import start_postgres, start_valkey  # noqa: E402
from tests.leftovers import remove_data_kept_elsewhere  # noqa: E402

OWN_FOLDER = "CONSOLE_TESTS_FOLDER"
"""Set where the Redis-compatible server is ours and not given from outside."""

if "PYTEST_XDIST_WORKER" not in os.environ:
    _folder = Path(tempfile.mkdtemp(prefix="console-tests-"))
    _started = []
    if "DATABASE_URL" not in os.environ:
        _server = start_postgres(_folder / "postgres", durable=False)
        _started.append(_server)
        os.environ["DATABASE_URL"] = _server.url
    if "REDIS_URL" not in os.environ:
        _server = start_valkey(_folder / "valkey")
        _started.append(_server)
        os.environ |= {"REDIS_URL": _server.url, OWN_FOLDER: str(_folder)}

    def _stop() -> None:
        for server in reversed(_started):
            server.stop()
        remove_data_kept_elsewhere(_folder)
        shutil.rmtree(_folder, ignore_errors=True)

    atexit.register(_stop)
elif OWN_FOLDER in os.environ:
    _worker = start_valkey(Path(os.environ[OWN_FOLDER]) / os.environ["PYTEST_XDIST_WORKER"])
    os.environ["REDIS_URL"] = _worker.url
    atexit.register(_worker.stop)
