"""A tour of kubectl through the simulated cluster: run by a test, and the source of docs/kubectl.md.

python -m tests.simulator.kubectl_tour > docs/kubectl.md
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tests.cluster_fixtures import wait_until
from tests.nursery import ROOT

KUBECTL = Path(sys.executable).parent / "kubectl"
SHOWN_LINES = 14
WIDTH = 118

NODES = "\n---\n".join(
    f"""apiVersion: v1
kind: Node
metadata:
  name: tour-{number}
  annotations: {{sim.gpu.internal/hardware: "l40s:4"}}"""
    for number in (1, 2)
)
DEPLOYMENT = """apiVersion: apps/v1
kind: Deployment
metadata: {name: guarded, namespace: tour}
spec:
  replicas: 2
  selector: {matchLabels: {app: guarded}}
  template:
    metadata: {labels: {app: guarded}}
    spec:
      nodeSelector: {tour: "yes"}
      containers:
      - name: main
        image: registry.example/guarded:1
        resources: {limits: {nvidia.com/gpu: "1"}}
"""
BUDGET = """apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: guarded, namespace: tour}
spec:
  maxUnavailable: 1
  selector: {matchLabels: {app: guarded}}
"""


@dataclass(frozen=True)
class Step:
    """words: must be in the output. code: how kubectl must end, -1 for either way. stdin: what it reads."""

    command: str
    words: tuple[str, ...] = ()
    code: int = 0
    stdin: str = ""
    title: str = ""


@dataclass(frozen=True)
class Done:
    step: Step
    code: int
    output: str


STEPS = (
    Step("get nodes", ("gpu-1", "Ready"), title="Looking"),
    Step("get nodes -o wide -l topology.kubernetes.io/rack=r1", ("containerd://",)),
    Step("get nodes -o jsonpath={.items[*].metadata.name}", ("gpu-1 gpu-2 gpu-3",)),
    Step("get pods -A -o wide --sort-by=.spec.nodeName", ("NOMINATED NODE", "tuner-0")),
    Step("get pods -n work --field-selector spec.nodeName=gpu-4", ("pinned-0",)),
    Step("get pod -n work tuner-0 -o yaml", ("kind: Pod", "qosClass")),
    Step("get deploy,rs,sts,ds,jobs,pdb,podgroups -A", ("statefulset.apps/pinned", "job.batch/big-train")),
    Step("get priorityclasses,leases -A", ("PreemptLowerPriority",)),
    Step("get events -A", ("FailedScheduling", "pod/big-train")),
    Step("describe node gpu-1", ("nvidia.com/gpu", "Allocated resources", "KubeletReady")),
    Step("describe pod -n work tuner-0", ("Controlled By:  StatefulSet/tuner", "nvidia.com/gpu")),
    Step("apply -f -", ("node/tour-1 created",), stdin=NODES, title="Changing"),
    Step("wait --for=condition=Ready node/tour-1 node/tour-2 --timeout=30s", ("condition met",)),
    Step("label node tour-1 tour=yes", ("labeled",)),
    Step("annotate node tour-1 note=hello", ("annotated",)),
    Step("create namespace tour", ("namespace/tour created",)),
    Step("apply --server-side -f -", ("guarded serverside-applied",), stdin=DEPLOYMENT),
    Step("rollout status -n tour deploy/guarded --timeout=60s", ("successfully rolled out",)),
    Step("apply -f -", ("guarded created",), stdin=BUDGET),
    Step("get pods -n tour -o wide", ("tour-1",)),
    Step('patch deploy -n tour guarded -p {"metadata":{"labels":{"a":"b"}}}', ("patched",)),
    Step("taint node tour-2 held=gang:NoSchedule", ("tainted",)),
    Step("taint node tour-2 held-", ("untainted",)),
    Step("label node tour-2 tour=yes", ("labeled",)),
    Step("cordon tour-1", ("cordoned",), title="A node is emptied past a budget of one at a time"),
    Step("get nodes -l tour=yes", ("SchedulingDisabled", "v1.36.2")),
    Step(
        "drain tour-1 --ignore-daemonsets --timeout=90s",
        ("Cannot evict pod as it would violate the pod's disruption budget", "node/tour-1 drained"),
    ),
    Step("uncordon tour-1", ("uncordoned",)),
    Step("get pods -n tour -o wide", ("tour-2",)),
    Step("scale -n tour deploy/guarded --replicas=1", ("scaled",)),
    Step("wait -n tour --for=jsonpath={.status.readyReplicas}=1 deploy/guarded --timeout=60s", ("met",)),
    Step("get pods -n tour --watch --output-watch-events --request-timeout=3s", ("ADDED",), code=-1),
    Step("delete deploy -n tour guarded --cascade=foreground --timeout=60s", ("deleted",)),
    Step("delete namespace tour --timeout=90s", ("deleted",)),
    Step("delete node tour-1 tour-2", ("deleted",)),
    Step("auth can-i create pods/eviction", ("yes",), title="Asking the server about itself"),
    Step("auth can-i --list", ("Resources",)),
    Step("auth whoami", ("kubernetes-admin",)),
    Step("api-resources --api-group=apps", ("statefulsets", "sts")),
    Step("version", ("Server Version: v1.36.2",)),
    Step("get --raw /readyz", ("ok",)),
    Step("logs -n work tuner-0", ("connection refused",), code=1, title="What is not there, and says so"),
    Step("exec -n work tuner-0 -- date", ("error",), code=1),
    Step("top nodes", ("Metrics API not available",), code=1),
    Step("explain pod.spec", ("not found in OpenAPI schema",), code=1),
)


def run(steps: tuple[Step, ...] = STEPS) -> list[Done]:
    """Each step against a cluster of its own that is ended afterwards."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        config = folder / "kubeconfig"
        options = ("--scene", "small", "--time-scale", "10", "--kubeconfig", str(config))
        environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "console.settings.test", "SECRET_KEY": "x"}
        cluster = subprocess.Popen(
            [sys.executable, "manage.py", "simulate_cluster", *options],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.DEVNULL,
        )
        try:
            wait_until(config.exists, seconds=60, what="the simulated cluster")
            return [_run_one(step, config, folder) for step in steps]
        finally:
            cluster.terminate()
            cluster.wait(20)


def _run_one(step: Step, config: Path, folder: Path) -> Done:
    command = [str(KUBECTL), f"--kubeconfig={config}", f"--cache-dir={folder}", *step.command.split()]
    done = subprocess.run(
        command,
        input=step.stdin or None,
        stdin=None if step.stdin else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    return Done(step, done.returncode, done.stdout)


def write_page(done: list[Done]) -> str:
    lines = [
        "# kubectl and the simulated cluster",
        "",
        "Made by `python -m tests.simulator.kubectl_tour > docs/kubectl.md`; a test takes the same tour.",
        "Long outputs are cut (…). kubectl comes with the development requirements.",
    ]
    for each in done:
        if each.step.title:
            lines += ["", f"## {each.step.title}"]
        lines += ["", "```", *_shown(each), "```"]
    return "\n".join(lines) + "\n"


def _shown(done: Done) -> list[str]:
    given = [f"  {line}" for line in done.step.stdin.splitlines()]
    found = [line.rstrip() for line in done.output.rstrip().splitlines()]
    cut = [line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…" for line in found[:SHOWN_LINES]]
    more = ["…"] if len(found) > SHOWN_LINES else []
    ending = [f"(ends with {done.code})"] if done.code else []
    return [f"$ kubectl {done.step.command}", *given, *cut, *more, *ending]


if __name__ == "__main__":
    sys.stdout.write(write_page(run()))
