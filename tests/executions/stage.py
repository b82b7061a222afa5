"""The whole way on real processes: a simulated cluster, the steering webhook, PostgreSQL, this console."""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

from django.db import connection

from apps.clusters.services import record_snapshot, register_cluster
from apps.executions import services
from apps.executions.models import Execution
from apps.executions.pictures import take_picture
from apps.planner.defrag import plan_free_nodes, plan_unlock
from apps.planner.mig.planning import plan_mig
from apps.planner.verification import check_plan
from apps.plans import services as plan_services
from apps.plans.titles import title_of_plan
from apps.scheduling.certificates import provide_certificates
from console.embedded import die_with_parent, free_port
from tests.plans.situations import approve, person

ROOT = Path(__file__).parents[2]
CONSOLE_AGENT = "gpu-defrag"


def database_url() -> str:
    """Of the test's own database, for programs of our own beside this one."""
    return "postgres://{USER}:{PASSWORD}@{HOST}:{PORT}/{NAME}".format(**connection.settings_dict)


@contextmanager
def steering_webhook(folder: Path, database: str = "") -> Iterator[SimpleNamespace]:
    """`manage.py serve_steering`. environment: what the console is to be told. database: the test's own if
    not given."""
    files, port = provide_certificates(folder, "127.0.0.1"), free_port()
    url = f"https://127.0.0.1:{port}"
    child = subprocess.Popen(
        [sys.executable, "manage.py", "serve_steering", "--port", str(port)]
        + ["--cert", str(files.certificate), "--key", str(files.key)],
        cwd=ROOT,
        env={
            **os.environ,
            "DATABASE_URL": database or database_url(),
            "DJANGO_SETTINGS_MODULE": "console.settings.test",
        },
        preexec_fn=die_with_parent,
    )
    trust = ssl.create_default_context(cafile=str(files.ca))
    deadline = time.monotonic() + 180
    while True:
        try:
            urllib.request.urlopen(f"{url}/healthz", context=trust, timeout=2).close()
            break
        except OSError:
            assert child.poll() is None, "the webhook ended by itself"
            assert time.monotonic() < deadline, "the webhook did not come up"
            time.sleep(0.1)
    try:
        yield SimpleNamespace(
            url=url, trust=trust, environment={"STEERING_URL": url, "STEERING_CA_FILE": str(files.ca)}
        )
    finally:
        child.terminate()
        child.wait(20)


class Stage:
    """One registered cluster with its people, and the short words that a story needs."""

    def __init__(self, simulated) -> None:
        self.simulated = simulated
        self.gateway = simulated.gateway()
        self.cluster = register_cluster(actor=None, name="sim", kubeconfig=simulated.kubeconfig)
        self.author = person("ada", "planner", cluster=self.cluster)
        self.approver = person("ben", "approver", cluster=self.cluster)
        self.operator = person("omar", "operator", cluster=self.cluster)

    def picture(self):
        return take_picture(
            lambda kind: self.gateway.list_objects(kind).objects, cluster="sim", taken_at=time.time()
        )

    def approved_plan(self, goal="unlock", change=lambda plan, picture: plan):
        """change: gives another plan than the planner's; it is checked as well."""
        picture = self.picture()
        compute = {"unlock": plan_unlock, "free-nodes": plan_free_nodes, "mig": plan_mig}[goal]
        extra = {"workload": None} if goal == "unlock" else {}
        found = change(compute(picture, max_moves=50, deadline=lambda: False, **extra), picture)
        assert found.moves or found.reconfigurations or found.preemptions, found.sentence
        faults = check_plan(picture, found)
        assert not faults, faults
        row = record_snapshot(cluster_id=self.cluster.pk, snapshot=picture)
        type(self.cluster).objects.filter(pk=self.cluster.pk).update(watched_at=row.taken_at)
        plan = plan_services.request_plan(actor=self.author, cluster=self.cluster, goal=goal)
        plan_services.attach_version(
            plan_id=plan.pk,
            number=plan.version_number,
            snapshot=row,
            found=found,
            title=title_of_plan(found, plan.request, picture),
        )
        plan_services.propose_plan(plan_id=plan.pk, actor=self.author)
        plan.refresh_from_db()
        approve(plan, self.approver)
        return plan, found

    def start(self, goal="unlock", **facts):
        plan, found = self.approved_plan(goal, **facts)
        return services.start_execution(actor=self.operator, plan_id=plan.pk), found

    def requests(self, method="", path="") -> list[dict]:
        """What the console asked the cluster, in order."""
        found = self.simulated.ask("GET", "/_sim/requests")["requests"]
        return [
            one
            for one in found
            if CONSOLE_AGENT in one["user_agent"] and method in one["method"] and path in one["path"]
        ]

    def evicted(self) -> list[str]:
        """UIDs of the pods that the API server agreed to evict, dry runs apart."""
        return [
            json.loads(one["body"])["deleteOptions"]["preconditions"]["uid"]
            for one in self.requests("POST", "/eviction")
            if one["status"] == 201 and "dryRun" not in one["query"]
        ]

    def traces(self) -> list[str]:
        """What of ours is still in the cluster (but our namespace and priority classes, which stay)."""
        ask = self.simulated.ask
        found = [
            f"hold {p['metadata']['name']}" for p in ask("GET", "/api/v1/namespaces/gpu-defrag/pods")["items"]
        ]
        hooks = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
        found += [f"webhook {w['metadata']['name']}" for w in ask("GET", hooks)["items"]]
        for node in ask("GET", "/api/v1/nodes")["items"]:
            name = node["metadata"]["name"]
            if "defrag.gpu.internal/cordon" in (node["metadata"].get("annotations") or {}):
                found.append(f"cordon {name}")
            keys = [taint["key"] for taint in node["spec"].get("taints") or []]
            found += [f"taint {name}" for key in keys if key.startswith("defrag.gpu.internal/")]
        for pod in ask("GET", "/api/v1/pods")["items"]:
            gates = [gate["name"] for gate in pod["spec"].get("schedulingGates") or []]
            if "defrag.gpu.internal/steer" in gates:
                found.append(f"gate {pod['metadata']['name']}")
        return found

    @staticmethod
    def told(execution) -> str:
        """The whole ledger, for the message of a failed test."""
        row = Execution.objects.get(pk=execution.pk)
        lines = [f"execution is {row.state}: {row.state_reason}"]
        for step in row.steps.all():
            lines.append(f"{step.position:3} {step.kind:18} m{step.move} {step.state:12} {step.reason}")
        for event in row.events.all():
            lines.append(f"{event.at:%M:%S.%f} {event.step_id or '-':>4} {event.state}: {event.message}")
        return "\n".join(lines)
