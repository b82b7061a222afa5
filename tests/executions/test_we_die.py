"""We die holding gates: the watchdog, which knows neither our database nor us, gives them back."""

import base64
from urllib.parse import urlsplit

import pytest
import yaml

from apps.executions.models import Execution
from apps.executions.states import ExecutionState, StepKind
from apps.gate_watchdog.api_server import ApiServer
from apps.gate_watchdog.watchdog import Watchdog
from tests.cluster_fixtures import wait_until
from tests.executions.test_stories import carry, carry_until, has_sent

pytestmark = pytest.mark.django_db(transaction=True)
GATE = "defrag.gpu.internal/steer"


def watchdog_of(stage, folder, **settings):
    cluster = yaml.safe_load(stage.simulated.kubeconfig)["clusters"][0]["cluster"]
    (folder / "token").write_text(stage.simulated.credentials.token)
    (folder / "ca.crt").write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
    parts = urlsplit(cluster["server"])
    return Watchdog(ApiServer(parts.hostname, parts.port, folder), **settings)


def gated(stage):
    pods = stage.simulated.ask("GET", "/api/v1/pods")["items"]
    return [
        pod for pod in pods if GATE in [gate["name"] for gate in pod["spec"].get("schedulingGates") or []]
    ]


def test_we_die_holding_gates_and_every_pod_is_freed_unpinned_and_nothing_is_done_twice(stage, tmp_path):
    """From right after an eviction nobody of us looks at anything until the owner has long scaled up."""
    execution, plan = stage.start()
    carry_until(execution, lambda: has_sent(execution, StepKind.EVICT_POD, "evict") and gated(stage))
    evicted, steered = stage.evicted(), gated(stage)
    pattern = steered[0]
    for number in range(7):  # as the standing policy gates what the owner makes while we are gone
        about = {"name": f"scaled-up-{number}", "annotations": pattern["metadata"]["annotations"]}
        spec = {"schedulingGates": [{"name": GATE}], "containers": [{"name": "main", "image": "x"}]}
        where = f"/api/v1/namespaces/{pattern['metadata']['namespace']}/pods"
        stage.simulated.ask("POST", where, {"metadata": about, "spec": spec})
    now = [0.0]
    dog = watchdog_of(stage, tmp_path, clock=lambda: now[0])
    wait_until(lambda: len(gated(stage)) >= 7 + len(evicted), seconds=30, what="all replacements are gated")
    dog.look()
    held = {pod["metadata"]["uid"] for pod in gated(stage)}
    now[0] = 109.0
    dog.look()
    assert held <= {pod["metadata"]["uid"] for pod in gated(stage)}, "not one second before its time"
    now[0] = 115.0
    dog.look()
    assert not held & {pod["metadata"]["uid"] for pod in gated(stage)}
    pods = stage.simulated.ask("GET", "/api/v1/pods")["items"]
    freed = [pod for pod in pods if pod["metadata"]["uid"] in held]
    assert len(freed) == len(held) >= 8
    assert not [pod for pod in freed if "kubernetes.io/hostname" in (pod["spec"].get("nodeSelector") or {})]
    carry(execution, seconds=60)
    execution.refresh_from_db()
    assert stage.evicted()[: len(evicted)] == evicted
    assert len(set(stage.evicted())) == len(stage.evicted())
    assert execution.state in (ExecutionState.SUCCEEDED, ExecutionState.NEEDS_HUMAN), stage.told(execution)


def test_cordons_and_holds_of_ours_go_by_their_deadline_while_nobody_is_there(stage, tmp_path):
    execution, plan = stage.start()
    carry_until(execution, lambda: has_sent(execution, StepKind.STEER, "create_webhook"))
    assert {trace.partition(" ")[0] for trace in stage.traces()} >= {"hold", "webhook", "cordon"}
    dog = watchdog_of(stage, tmp_path, grace=0.0)
    assert dog.look() == 0, "the deadline lies hours ahead"
    dog = watchdog_of(stage, tmp_path, grace=-24 * 3600.0)
    dog.look()
    assert stage.traces() == []
    carry(execution, seconds=30)
    execution.refresh_from_db()
    assert execution.state == ExecutionState.NEEDS_HUMAN, stage.told(execution)
    assert stage.evicted() == []
    assert Execution.objects.count() == 1
