"""Where an older API server answers differently: what differs between 1.28 and 1.36 and clients notice."""

import pytest

from tests.simulator.api_server.conftest import NS, Client, ServerThread, pod

LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"


@pytest.fixture
def old_api():
    thread = ServerThread(version="v1.28.0")
    client = Client(thread)
    yield client
    client.close()
    thread.stop()


def test_version_1_28_answers_in_its_own_way(old_api):
    assert old_api.get("/version").json["gitVersion"] == "v1.28.0"
    assert old_api.get(f"{NS}/pods", resourceVersion="abc").code == 500
    assert "generation" not in old_api.post(f"{NS}/pods", pod(nodeName="n1")).json["metadata"]
    assert "generation" not in old_api.delete(f"{NS}/pods/p").json["metadata"]
    old_api.post(LEASES, {"metadata": {"name": "l"}, "spec": {}})
    assert "Invalid value: 0x0: must be" in old_api.put(f"{LEASES}/l", {"metadata": {"name": "l"}}).message
    streaming = {"watch": "1", "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    assert old_api.get(f"{NS}/pods", **streaming).code == 422


def test_a_text_that_is_no_version_is_refused():
    with pytest.raises(ValueError, match="is no Kubernetes version"):
        ServerThread(version="latest")
