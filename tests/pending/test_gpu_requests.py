"""What a GPURequest asks is shown where its pod waits and where it runs; what is wrong with one is said."""

from apps.clusters.services import record_snapshot
from apps.planner.queues import GpuRequest
from apps.planner.snapshot import Snapshot
from tests.api.conftest import caller, east, problem, west  # noqa: F401
from tests.plans.situations import node, pod


def asking(name, where, request):
    labels = {"app": name, "defrag.gpu.internal/request": request}
    phase = "Running" if where else "Pending"
    return pod(name, where, 1, labels=labels, phase=phase, created_at=1.0)


def test_the_wish_is_shown_on_the_node_and_in_the_queue(east, caller):  # noqa: F811
    pods = [asking("runs", "n1", "big"), asking("waits", "", "big"), asking("lost", "", "gone")]
    picture = Snapshot(
        "east",
        1000.0,
        nodes={"n1": node("n1")},
        pods={one.uid: one for one in pods},
        gpu_requests={"ml/big": GpuRequest("ml/big", model="A100")},
    )
    record_snapshot(cluster_id=east.pk, snapshot=picture)
    ada = caller("ada", "viewer")
    assert "each GPU: A100" in ada.client.get("/clusters/east/nodes/n1/").content.decode()
    page = ada.client.get("/clusters/east/queue/").content.decode()
    assert "each GPU: A100" in page
    assert "There is no GPURequest ml/gone, which its label names" in page
    found = {one["key"]: one for one in ada.get("pending/", cluster="east").json()["results"]}
    assert (found["ml/waits"]["gpu_wish"], found["ml/lost"]["reason_code"]) == ("A100", "gpu-request")
