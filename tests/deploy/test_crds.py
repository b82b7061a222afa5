"""Our own kinds: the chart, the simulated API server and the file for kubectl install the same."""

from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest
import yaml

from apps.simulator.api_server.bootstrap import GPU_REQUEST_CRD

DEPLOY = Path(__file__).parents[2] / "deploy"
SHIPPED = DEPLOY / "crds" / "gpurequests.yaml"


def without_descriptions(found: Any) -> Any:
    if isinstance(found, dict):
        return {key: without_descriptions(value) for key, value in found.items() if key != "description"}
    return [without_descriptions(one) for one in found] if isinstance(found, list) else found


def test_every_way_to_install_gpu_requests_installs_the_same():
    assert (DEPLOY / "helm/gpu-defrag-console/crds/gpurequests.yaml").read_text() == SHIPPED.read_text()
    assert without_descriptions(yaml.safe_load(SHIPPED.read_text())) == GPU_REQUEST_CRD


def test_the_simulated_api_server_serves_it_and_refuses_what_is_no_amount(api_server):
    space = "/apis/defrag.gpu.internal/v1alpha1/namespaces/default/gpurequests"
    head = {"apiVersion": "defrag.gpu.internal/v1alpha1", "kind": "GPURequest"}
    api_server.ask("POST", space, {**head, "metadata": {"name": "big"}, "spec": {"gpuMem": 20000}})
    assert [one["spec"] for one in api_server.ask("GET", space)["items"]] == [{"gpuMem": 20000}]
    for memory in (-5, "20Gi"):
        bad = {**head, "metadata": {"name": "bad"}, "spec": {"gpuMem": memory}}
        with pytest.raises(HTTPError) as refused:
            api_server.ask("POST", space, bad)
        assert refused.value.code == 422
