"""How long `./dev up` waits for its parts, and what it says meanwhile."""

import os
import sys

import pytest

from console import children
from console.children import SECONDS_TO_START, Child, StartFailed
from console.up import read_options, seconds_to_start


def test_a_large_cluster_gets_longer_to_come_up(tmp_path):
    nodes, pods = tmp_path / "nodes.csv", tmp_path / "pods.csv"
    nodes.write_text("sn,cpu_milli,memory_mib,gpu,model\n" + "n,64000,1000,8,T4\n" * 1199)
    pods.write_text("")
    of_list = read_options(["--nodes", str(nodes), "--pods", str(pods)])
    assert seconds_to_start(read_options([])) == SECONDS_TO_START
    assert seconds_to_start(of_list) == SECONDS_TO_START + 300


def test_it_says_that_it_still_waits_and_gives_up_in_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(children, "SECONDS_BETWEEN_WORDS", 0.05)
    sleeping = [sys.executable, "-c", "import time; time.sleep(60)"]
    child = Child("watcher", sleeping, dict(os.environ), tmp_path / "log")
    child.start()
    told = []
    try:
        with pytest.raises(StartFailed, match="watcher was not ready within 1 s"):
            child.wait_until(lambda: False, 0.6, told.append)
    finally:
        child.end()
    assert told[0] == "Still waiting for watcher (0 s, 1 s at most) ..."
