"""Emptying a node by an approved plan, beside `kubectl drain` of the same node.

    python -m benchmarks.drain [--pods 8] [--start-seconds 2] [--json]

A Deployment of one-GPU pods fills one node, under a disruption budget that lets one of them go at a time;
the only other room is the free half of a second node. The scene is started twice, each time as a simulated
cluster of its own that lives at the speed of a real one: once `kubectl drain` empties the node, once an
execution of this console does (`manage.py reconcile`; PostgreSQL, Valkey and the steering webhook beside it).
Requests are counted by the API server's own log.

Time is told from outside by a third client that watches pods and budget. *Own* time is what nobody but the
drainer is to blame for: while the budget lets a pod go and none goes, while a replacement waits behind our
gate, what comes before the first eviction and after the last pod stands. The rest is waiting for pods.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from apps.kube.kubeconfig import Credentials, read_kubeconfig
from benchmarks.running_console import ask_cluster
from console.embedded import die_with_parent, free_port, start_postgres, start_valkey

Json = dict[str, Any]
ROOT = Path(__file__).resolve().parents[1]
SOURCE, TARGET, NAMESPACE, OWNER = "node-a", "node-b", "work", "web"
MODEL = "a100-sxm4-80gb"
READY_SECONDS = 60
GOAL_SHARE = 0.5
OBSERVER = "benchmark-observer"
PHASES = ("looking first", "dry runs", "carrying out", "verifying")


def main() -> None:
    options = _read_options()
    with tempfile.TemporaryDirectory(prefix="drain-") as folder:
        os.chmod(folder, 0o711)  # PostgreSQL runs as nobody where root starts it
        place = Path(folder)
        dump = place / "scene.json"
        dump.write_text(json.dumps(_scene(options)))
        theirs = _drain_by_kubectl(place, dump)
        ours = _drain_by_console(place, dump, options)
    _tell(theirs, ours, options)
    if options.json:
        print(json.dumps({"kubectl": theirs.as_json(), "console": ours.as_json()}))


def _read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pods", type=int, default=8, help="one-GPU pods on the node; at most 8")
    parser.add_argument("--start-seconds", type=float, default=2.0, help="how long a pod takes to be Ready")
    parser.add_argument("--open", action="store_true", help="a budget that lets all of them go at once")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def _scene(options: argparse.Namespace) -> Json:
    from apps.simulator.scenes.builder import SceneBuilder
    from apps.simulator.scenes.owners import Owner, make_template

    scene = SceneBuilder(seed=5)
    scene.add_node(SOURCE, MODEL, 8, pool="train", rack="r1", zone="east-1a")
    scene.add_node(TARGET, MODEL, 16, pool="train", rack="r1", zone="east-1a", cpu=256, memory_gib=2048)
    marks = {"sim.gpu.internal/start-seconds": f"{options.start_seconds:g}"}
    web = scene.add_owner(
        Owner("Deployment", NAMESPACE, OWNER, make_template(OWNER, gpus=1, annotations=marks))
    )
    for index in range(options.pods):
        scene.put(web, SOURCE, (index,))
    scene.add_budget(web, minAvailable=0 if options.open else options.pods - 1)
    stays = scene.add_owner(Owner("Deployment", "other", "stays", make_template("stays", gpus=8)))
    scene.put(stays, TARGET, tuple(range(8)))
    return {"apiVersion": "v1", "kind": "List", "items": scene.build()}


@dataclass
class Observed:
    """What a third client saw. Times in seconds since the epoch."""

    pods: list[tuple[float, str, Json]] = field(default_factory=list)
    budgets: list[tuple[float, int]] = field(default_factory=list)

    def own_seconds(self, began: float, ended: float, wanted: int) -> float:
        """Between the two: the budget is open, pods are left and none goes; or a pod waits behind a gate;
        or nothing is left to wait for."""
        changes = sorted({began, ended, *(at for at, *_ in self.pods), *(at for at, _ in self.budgets)})
        steps = [at for at in changes if began <= at <= ended]
        pairs = zip(steps, steps[1:], strict=False)
        return sum(b - a for a, b in pairs if self._is_own(a, wanted))

    def _is_own(self, at: float, wanted: int) -> bool:
        pods: dict[str, Json] = {}
        for when, kind, pod in self.pods:
            if when <= at:
                pods[pod["metadata"]["uid"]] = pod
                if kind == "DELETED":
                    del pods[pod["metadata"]["uid"]]
        allowed = next((count for when, count in reversed(self.budgets) if when <= at), 1)
        if any(pod["spec"].get("schedulingGates") for pod in pods.values()):
            return True
        staying = [pod for pod in pods.values() if not pod["metadata"].get("deletionTimestamp")]
        left = [pod for pod in staying if pod["spec"].get("nodeName") == SOURCE]
        moved = [pod for pod in staying if pod["spec"].get("nodeName") == TARGET and _is_ready(pod)]
        if left:
            return allowed > 0
        return len(moved) >= wanted and len(pods) == len(moved)


@dataclass
class Run:
    """Of one drainer. requests: the API server's records of it."""

    name: str
    began: float
    ended: float
    requests: list[Json]
    own_seconds: float
    pods: int
    phases: dict[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        return self.ended - self.began

    def of_phase(self, phase: str) -> list[Json]:
        return [one for one in self.requests if self._phase_of(one) == phase]

    def _phase_of(self, one: Json) -> str:
        if "/eviction" in one["path"] and "dryRun" in one["query"]:
            return "dry runs"
        found = (name for name, (a, b) in self.phases.items() if a <= one["time"] < b)
        return next(found, "carrying out")

    def as_json(self) -> Json:
        return {
            "seconds": round(self.seconds, 2),
            "own_seconds": round(self.own_seconds, 2),
            "own_seconds_per_move": round(self.own_seconds / self.pods, 3),
            "requests": {phase: len(self.of_phase(phase)) for phase in PHASES},
            "by_kind": {phase: dict(count_requests(self.of_phase(phase))) for phase in PHASES},
        }


def count_requests(requests: Sequence[Json]) -> Counter[str]:
    """Keys like "POST pods/eviction 201" or "WATCH pods 200"."""
    counts: Counter[str] = Counter()
    for one in requests:
        verb = one["method"]
        if verb == "GET":
            query = str(one["query"])
            verb = "WATCH" if "watch" in query else verb
        counts[f"{verb} {_resource_of(one['path'])} {one['status']}"] += 1
    return counts


def _resource_of(path: str) -> str:
    """`/api/v1/namespaces/work/pods/x/eviction` -> pods/eviction; a namespace itself -> namespaces."""
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if len(parts) > 2 and parts[0] == "namespaces":
        parts = parts[2:]
    return "/".join([parts[0], *parts[2:3]]) if parts else path


def _is_ready(pod: Json) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


@contextmanager
def _cluster(place: Path, name: str, dump: Path) -> Iterator[tuple[Path, Credentials]]:
    kubeconfig = place / f"{name}.kubeconfig"
    command = [sys.executable, "manage.py", "simulate_cluster", "--port", str(free_port())]
    command += ["--dump", str(dump), "--kubeconfig", str(kubeconfig)]
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "console.settings.test"}
    with (place / f"{name}.log").open("wb") as log:
        child = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=log, stderr=log, preexec_fn=die_with_parent
        )
    try:
        deadline = time.monotonic() + READY_SECONDS
        while not kubeconfig.exists() or not kubeconfig.read_text():
            if child.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"The simulated cluster did not start; see {place / name}.log.")
            time.sleep(0.05)
        yield kubeconfig, read_kubeconfig(kubeconfig.read_text())
    finally:
        child.terminate()
        child.wait(20)


@contextmanager
def _observing(credentials: Credentials) -> Iterator[Observed]:
    seen = Observed()
    pods, budgets = f"/api/v1/namespaces/{NAMESPACE}/pods", "/apis/policy/v1/poddisruptionbudgets"

    def note_pod(at: float, kind: str, pod: Json) -> None:
        seen.pods.append((at, kind, pod))

    def note_budget(at: float, kind: str, budget: Json) -> None:
        seen.budgets.append((at, int((budget.get("status") or {}).get("disruptionsAllowed", 0))))

    for path, note in ((pods, note_pod), (budgets, note_budget)):
        threading.Thread(target=_watch, args=(credentials, path, note), daemon=True).start()
    deadline = time.monotonic() + 10
    while not (seen.pods and seen.budgets) and time.monotonic() < deadline:
        time.sleep(0.02)
    yield seen


def _watch(credentials: Credentials, path: str, note: Any) -> None:
    context = ssl.create_default_context(cadata=credentials.ca)
    request = urllib.request.Request(f"{credentials.server}{path}?watch=1&timeoutSeconds=600")
    request.add_header("Authorization", f"Bearer {credentials.token}")
    request.add_header("User-Agent", OBSERVER)
    try:
        with urllib.request.urlopen(request, context=context, timeout=600) as answer:
            for line in answer:
                event = json.loads(line)
                note(time.time(), event["type"], event["object"])
    except (OSError, ValueError):
        return  # the cluster ended


def _requests_of(credentials: Credentials, agent: str) -> list[Json]:
    found = ask_cluster(credentials, "GET", "/_sim/requests")["requests"]
    return [one for one in found if agent in one["user_agent"] and not one["path"].startswith("/_sim")]


def _drain_by_kubectl(place: Path, dump: Path) -> Run:
    program = shutil.which("kubectl")
    if program is None:
        raise SystemExit("There is no kubectl on this machine: it is what this is compared with.")
    with _cluster(place, "kubectl", dump) as (kubeconfig, credentials), _observing(credentials) as seen:
        wanted = _count_pods(seen)
        began = time.time()
        command = [program, "--kubeconfig", str(kubeconfig), "drain", SOURCE, "--ignore-daemonsets"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        ended = time.time()
        if done.returncode:
            raise SystemExit(f"kubectl drain failed: {done.stderr[-500:]}")
        return Run(
            "kubectl drain",
            began,
            ended,
            _requests_of(credentials, "kubectl"),
            seen.own_seconds(began, ended, wanted),
            wanted,
        )


def _count_pods(seen: Observed) -> int:
    return len({pod["metadata"]["uid"] for _, _, pod in seen.pods})


def _drain_by_console(place: Path, dump: Path, options: argparse.Namespace) -> Run:
    postgres, valkey = start_postgres(place / "postgresql"), start_valkey(place / "valkey")
    port = free_port()
    certificates = place / "steering"
    os.environ |= {
        "DJANGO_SETTINGS_MODULE": "console.settings.test",
        "DATABASE_URL": postgres.url,
        "REDIS_URL": valkey.url,
        "STEERING_URL": f"https://127.0.0.1:{port}",
        "STEERING_CA_FILE": str(certificates / "ca.crt"),
    }
    try:
        _migrate(certificates)
        with (
            _steering(port, certificates),
            _cluster(place, "console", dump) as (kubeconfig, credentials),
            _observing(credentials) as seen,
        ):
            wanted = _count_pods(seen)
            execution = _start_execution(kubeconfig)
            ask_cluster(credentials, "DELETE", "/_sim/requests")
            command = [
                sys.executable,
                "manage.py",
                "reconcile",
                "--until-idle",
                "--execution",
                str(execution.pk),
            ]
            subprocess.run(command, cwd=ROOT, check=True, timeout=600)
            return _read_run(execution, seen, _requests_of(credentials, "gpu-defrag"), wanted)
    finally:
        valkey.stop()
        postgres.stop()


def _migrate(certificates: Path) -> None:
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0, interactive=False)
    with open(os.devnull, "w") as nowhere:
        call_command("make_steering_certificate", folder=certificates, host="127.0.0.1", stdout=nowhere)


@contextmanager
def _steering(port: int, certificates: Path) -> Iterator[None]:
    command = [sys.executable, "manage.py", "serve_steering", "--port", str(port)]
    command += ["--cert", str(certificates / "tls.crt"), "--key", str(certificates / "tls.key")]
    child = subprocess.Popen(command, cwd=ROOT, preexec_fn=die_with_parent)
    trust = ssl.create_default_context(cafile=str(certificates / "ca.crt"))
    try:
        deadline = time.monotonic() + READY_SECONDS
        while True:
            try:
                urllib.request.urlopen(f"https://127.0.0.1:{port}/healthz", context=trust, timeout=2).close()
                break
            except (OSError, urllib.error.URLError):
                if child.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit("The steering webhook did not start.") from None
                time.sleep(0.1)
        yield
    finally:
        child.terminate()
        child.wait(20)


def _start_execution(kubeconfig: Path) -> Any:
    """A plan that frees the node, approved by somebody else, and started."""
    from django.utils import timezone

    from apps.accounts.models import RoleGrant, User
    from apps.clusters.gateways import open_gateway
    from apps.clusters.services import record_snapshot, register_cluster
    from apps.executions import services
    from apps.executions.pictures import take_picture
    from apps.planner.defrag import plan_free_nodes
    from apps.plans.services import approve_plan, attach_version, propose_plan, request_plan
    from apps.plans.titles import title_of_plan

    cluster = register_cluster(actor=None, name="bench", kubeconfig=kubeconfig.read_text())
    people = [User.objects.create(username=name) for name in ("ada", "ben")]
    for user, roles in zip(people, (("planner", "operator"), ("approver",)), strict=True):
        for role in roles:
            RoleGrant.objects.create(user=user, role=role, cluster=cluster)
    gateway = open_gateway(cluster)
    picture = take_picture(
        lambda kind: gateway.list_objects(kind).objects, cluster=cluster.name, taken_at=time.time()
    )
    gateway.close()
    found = plan_free_nodes(picture, max_moves=50, deadline=lambda: False)
    if found.freed_nodes != (SOURCE,):
        raise SystemExit(f"The planner freed {found.freed_nodes}, not {SOURCE}: {found.sentence}")
    row = record_snapshot(cluster_id=cluster.pk, snapshot=picture)
    type(cluster).objects.filter(pk=cluster.pk).update(watched_at=row.taken_at)
    plan = request_plan(actor=people[0], cluster=cluster, goal="free-nodes")
    title = title_of_plan(found, plan.request, picture)
    version = attach_version(
        plan_id=plan.pk, number=plan.version_number, snapshot=row, found=found, title=title
    )
    propose_plan(plan_id=plan.pk, actor=people[0])
    approve_plan(
        plan_id=plan.pk,
        approver=people[1],
        digest=version.digest,
        comment="a benchmark",
        logged_in_at=timezone.now(),
    )
    return services.start_execution(actor=people[0], plan_id=plan.pk)


def _read_run(execution: Any, seen: Observed, requests: list[Json], wanted: int) -> Run:
    """The phases are the execution's own states, by its ledger."""
    from apps.executions.models import Execution

    row = Execution.objects.get(pk=execution.pk)
    if row.state != "succeeded":
        raise SystemExit(f"The execution is {row.state}: {row.state_reason}")
    states = {event.state: event.at.timestamp() for event in row.events.filter(step=None).order_by("pk")}
    running, verifying, ended = states["running"], states["verifying"], row.finished_at.timestamp()
    phases = {"looking first": (0.0, running), "verifying": (verifying, _uncordon_began(row, ended))}
    return Run(
        "console",
        running,
        ended,
        requests,
        seen.own_seconds(running, ended, wanted),
        wanted,
        phases,
    )


def _uncordon_began(row: Any, ended: float) -> float:
    """The comparison with what was promised is over when the first cordon is taken off."""
    last = row.events.filter(state="intent", step__kind="release", step__move=0).order_by("pk").first()
    return last.at.timestamp() - 0.01 if last is not None else ended


def _tell(theirs: Run, ours: Run, options: argparse.Namespace) -> None:
    for run in (theirs, ours):
        print(f"\n{run.name}: {run.seconds:.1f} s, of which {run.own_seconds:.2f} s its own", flush=True)
        for phase in PHASES:
            counted = count_requests(run.of_phase(phase))
            if counted:
                print(f"  {phase}: {counted.total()} requests")
                for words, count in sorted(counted.items()):
                    print(f"    {count:4d}  {words}")
    there, here = len(theirs.of_phase("carrying out")), len(ours.of_phase("carrying out"))
    print(f"\n{options.pods} pods{'':34s}{'kubectl drain':>14s} {'console':>10s} {'ratio':>8s}")
    rows = [
        ("requests while carrying out", there, here, GOAL_SHARE),
        ("per move", there / theirs.pods, here / ours.pods, None),
        ("refused evictions", _refused(theirs), _refused(ours), None),
        ("seconds", theirs.seconds, ours.seconds, None),
        ("own seconds per move", theirs.own_seconds / theirs.pods, ours.own_seconds / ours.pods, 1.0),
    ]
    for name, left, right, goal in rows:
        ratio = f"{right / left:8.2f}" if left else f"{'':8s}"
        verdict = ""
        if goal is not None and left:
            verdict = f"goal {goal:g}: {'reached' if right / left <= goal else 'MISSED'}"
        print(f"  {name:40s}{left:14.2f} {right:10.2f} {ratio} {verdict}")
    apart = ", ".join(f"{name} {len(ours.of_phase(name))}" for name in PHASES if name != "carrying out")
    print(f"  the console's requests that kubectl has no like of: {apart}")


def _refused(run: Run) -> int:
    return sum("/eviction" in one["path"] and one["status"] == 429 for one in run.of_phase("carrying out"))


if __name__ == "__main__":
    main()
