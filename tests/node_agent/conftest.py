"""The machine that each test starts from."""

import pynvml
import pytest

from tests.node_agent.kubelet import Kubelet
from tests.node_agent.machine import make_machine


@pytest.fixture
def kubelet(tmp_path):
    started = Kubelet(tmp_path / "kubelet.sock")
    yield started
    started.stop()


@pytest.fixture
def machine(tmp_path, api_server, kubelet, monkeypatch):
    made = make_machine(tmp_path, api_server, kubelet)
    monkeypatch.setattr(pynvml, "nvmlLib", made.library)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    yield made
    assert made.library.open == 0, "the agent keeps NVML open: no GPU of the node can be reset"
