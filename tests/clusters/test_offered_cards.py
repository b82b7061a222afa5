"""Which of a node's cards are offered, as `read_dump` tells: under another name, or without a plugin."""

import io
import json

import pytest
from django.core.management import call_command


@pytest.fixture
def read(tmp_path):
    def of(amounts, labels):
        ready = [{"type": "Ready", "status": "True"}]
        status = {"capacity": amounts, "allocatable": amounts, "conditions": ready}
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "n", "labels": labels},
            "status": status,
        }
        path = tmp_path / "node.json"
        path.write_text(json.dumps(node))
        printed = io.StringIO()
        call_command("read_dump", str(path), json=True, stdout=printed)
        (found,) = json.loads(printed.getvalue())["nodes"]
        return found

    return of


def test_cards_under_another_name_are_not_unhealthy(read):
    amounts = {"amd.com/gpu": "2", "amd.com/cpx_nps1": "16"}
    labels = {"amd.com/gpu.product-name": "AMD_Instinct_MI300X_OAM"}
    found = read(amounts, labels)
    assert (found["physical_gpus"], found["whole_gpus_allocatable"], found["unhealthy_gpus"]) == (4, 2, 0)


def test_cards_that_only_the_cloud_tells_of_are_there_and_not_offered(read):
    labels = {"cloud.google.com/gke-accelerator": "nvidia-l4", "cloud.google.com/gke-accelerator-count": "2"}
    found = read({"cpu": "8"}, labels)
    assert (found["vendor"], found["physical_gpus"], found["whole_gpus_allocatable"]) == ("nvidia", 2, 0)
