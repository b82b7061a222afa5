"""Takes away what an embedded PostgreSQL kept outside the test's own folder.

Started by root it runs as `nobody`, who may not pass pytest's private folders, so its data lies elsewhere and
a note beside it says where (console/embedded.py).
"""

import shutil
from pathlib import Path

import pytest


def remove_data_kept_elsewhere(folder: Path) -> None:
    for note in folder.rglob("elsewhere"):
        shutil.rmtree(note.read_text(), ignore_errors=True)


@pytest.fixture(autouse=True)
def _nothing_kept_elsewhere(tmp_path):
    yield
    remove_data_kept_elsewhere(tmp_path)
