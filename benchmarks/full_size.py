"""The main job at the size of a whole trace, on the product as it really runs.

    python -m benchmarks.full_size --nodes CSV --pods CSV [--load 0.85] [--json]

`./dev up` with the trace as its simulated cluster: PostgreSQL, Valkey, web, worker, beat, watcher. Measured
from outside: the first snapshot, an event's way to the page, plans of 50 moves over REST, some moves carried
out, and the memory of each part. Wall time counts against the goals; CPU time stands beside it, because
everything shares this machine with the simulated cluster and with whatever else runs.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import tempfile
import threading
import time
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import psycopg

from apps.kube.kubeconfig import Credentials, read_kubeconfig
from benchmarks.running_console import (
    Events,
    Meter,
    Person,
    Refused,
    ask_cluster,
    console_up,
    processor_share,
)
from console.embedded import free_port

CLUSTER = "demo"
GOALS = {
    "first snapshot": 10.0,
    "event to page": 2.0,
    "plan of 50 moves": 5.0,
    "unlock the waiting gang": 5.0,
    "web": 250.0,
    "worker": 350.0,
    "watcher": 400.0,
}
STALE_TRIES = 4
"""Pods that were deleted for the samples find new nodes for a while: a plan of that time can go stale."""
DRY_RUN_SECONDS = 300
MEMORY = ("web", "worker", "beat", "watcher")


@dataclass(slots=True)
class Figure:
    """goal: at most this much; None for figures that only inform."""

    name: str
    value: float
    unit: str
    goal: float | None = None
    note: str = ""

    @property
    def verdict(self) -> str:
        if self.goal is None:
            return ""
        return "reached" if self.value <= self.goal else "MISSED"


@dataclass(slots=True)
class Report:
    figures: list[Figure] = field(default_factory=list)

    def add(self, name: str, value: float, unit: str = "s", goal: str = "", note: str = "") -> None:
        figure = Figure(name, round(value, 3), unit, GOALS.get(goal), note)
        self.figures.append(figure)
        limit = f"goal {figure.goal:g} {unit}: {figure.verdict}" if figure.goal is not None else ""
        print(f"{name:44s} {value:10.2f} {unit:5s} {limit:26s} {note}", flush=True)


def main() -> None:
    options = _read_options()
    report = Report()
    with tempfile.TemporaryDirectory(prefix="full-size-") as folder:
        os.chmod(folder, 0o711)  # PostgreSQL runs as nobody where root starts it
        data = Path(folder) / "data"
        first = FirstSnapshot(data)
        first.start()
        arguments = ["--nodes", options.nodes, "--pods", options.pods, "--load", str(options.load)]
        arguments += ["--port", str(free_port())]
        with console_up(data, *arguments, "--time-scale", str(options.time_scale)) as (process, ready):
            meter = Meter(process.pid)
            used = meter.cpu_seconds("watcher")
            meter.start()
            _describe(report, ready)
            first.tell(report, f"{used:.1f} s of CPU by the watcher, its start included")
            Measuring(report, ready, options, meter).run()
            time.sleep(2)
            meter.stop()
            _tell_memory(report, meter)
            _tell_storage(report, data)
    missed = [figure.name for figure in report.figures if figure.verdict == "MISSED"]
    print(f"{len(missed)} goals missed: {', '.join(missed)}" if missed else "All goals reached.")
    if options.json:
        rows = [{**asdict(figure), "verdict": figure.verdict} for figure in report.figures]
        print(json.dumps({"processors": os.cpu_count(), "load": os.getloadavg(), "figures": rows}))


def _read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", required=True, help="node list CSV of the trace")
    parser.add_argument("--pods", required=True, help="pod list CSV of the trace")
    parser.add_argument("--load", type=float, default=0.85)
    parser.add_argument("--samples", type=int, default=8, help="events whose way to the page is timed")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long the planner may search")
    parser.add_argument("--moves", type=int, default=3, help="moves to carry out before it is cancelled")
    parser.add_argument("--follow-seconds", type=float, default=180.0, help="for how long at most")
    parser.add_argument("--time-scale", type=float, default=10.0, help="how fast the simulated cluster lives")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


class FirstSnapshot:
    """From the watcher's first words to the first row, found by looking while the console starts."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._seen_at = 0.0

    def start(self) -> None:
        threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        note = self._data / "running.json"
        while not self._seen_at:
            time.sleep(0.05)
            try:
                url = json.loads(note.read_text())["environment"]["DATABASE_URL"]
                with psycopg.connect(url, connect_timeout=3, autocommit=True) as connection:
                    while not self._seen_at:
                        if connection.execute("SELECT 1 FROM clusters_snapshot LIMIT 1").fetchone():
                            self._seen_at = time.time()
                        time.sleep(0.02)
            except (OSError, ValueError, KeyError, psycopg.Error):
                continue  # not there yet

    def tell(self, report: Report, note: str) -> None:
        log = (self._data / "logs" / "watcher.log").read_text()
        began = re.search(r"^(\S+Z)\s.*watching\s+.*cluster=", log, re.M)
        if began is None:
            raise SystemExit("The watcher's log does not say when it began to watch.")
        at = datetime.fromisoformat(began.group(1)).timestamp()
        report.add(
            "first snapshot after the watch began", self._seen_at - at, goal="first snapshot", note=note
        )


def _describe(report: Report, ready: dict[str, str]) -> None:
    credentials = _credentials(ready)
    nodes = ask_cluster(credentials, "GET", "/api/v1/nodes")["items"]
    pods = ask_cluster(credentials, "GET", "/api/v1/pods")["items"]
    gpus = sum(int(node["status"]["capacity"].get("nvidia.com/gpu", 0)) for node in nodes)
    report.add("nodes", len(nodes), "")
    report.add("GPUs", gpus, "")
    report.add("pods", len(pods), "")
    report.add("share of a processor that is to be had", processor_share(), "", note="1 on an idle machine")


def _credentials(ready: dict[str, str]) -> Credentials:
    return read_kubeconfig(Path(ready["kubeconfig"]).read_text())


class Measuring:
    """Asks the running console, as a planner and an approver would."""

    def __init__(
        self, report: Report, ready: dict[str, str], options: argparse.Namespace, meter: Meter
    ) -> None:
        self.report, self.ready, self.options, self.meter = report, ready, options, meter
        self.credentials = _credentials(ready)
        self.planner = Person(ready["url"], ready["username"], ready["password"])
        self.events = Events(self.planner, CLUSTER)

    def run(self) -> None:
        for visit in ("cold", "warm"):
            began = time.monotonic()
            page = self.planner.get(f"/clusters/{CLUSTER}/")
            self.report.add(f"grid page, {visit}", time.monotonic() - began, note=f"{len(page) >> 10} KiB")
        self.time_events()
        waiting = self.planner.ask(f"/api/v1/pending/?cluster={CLUSTER}")["results"]
        gang = next((one["key"] for one in waiting if "gang" in one["key"]), waiting[0]["key"])
        self.time_plan("unlock the waiting gang", goal="unlock", workload=gang)
        for _ in range(STALE_TRIES):
            plan = self.time_plan("plan of 50 moves", goal="free-nodes")
            if plan["progress"] != "ready":
                return
            if self.propose(plan):
                self.carry_out(plan)
                return
        raise SystemExit(f"The cluster never came to rest: {STALE_TRIES} plans went stale before a review.")

    def propose(self, plan: dict[str, Any]) -> bool:
        """False where the cluster has changed under it."""
        try:
            self.planner.post(f"/api/v1/plans/{plan['id']}/propose/", {})
        except Refused as error:
            if "plan-is-stale" not in str(error):
                raise
            return False
        return True

    def time_events(self) -> None:
        """A pod is deleted by somebody; how long until the page and the API no longer show it running."""
        pods = ask_cluster(self.credentials, "GET", "/api/v1/namespaces/trace/pods")["items"]
        running = [pod for pod in pods if pod["spec"].get("nodeName") and pod["status"]["phase"] == "Running"]
        samples = self.options.samples
        times: list[tuple[float, float]] = []
        used = 0.0
        for pod in running[:: max(len(running) // samples, 1)][:samples]:
            time.sleep(2.5)  # the burst of the sample before is over
            before = self.meter.cpu_seconds("watcher", "web", "worker")
            times.append(self._time_event(pod))
            used += self.meter.cpu_seconds("watcher", "web", "worker") - before
        note = f"{used / len(times):.2f} s of CPU by watcher, web and worker"
        for at, name in enumerate(("the browser hears of it", "API and node page show it")):
            column = [each[at] for each in times]
            self.report.add(
                f"event: {name}, median", statistics.median(column), goal="event to page", note=note
            )
            self.report.add(f"event: {name}, worst of {len(times)}", max(column), goal="event to page")

    def _time_event(self, pod: dict[str, Any]) -> tuple[float, float]:
        self.events.forget()
        began = time.monotonic()
        path = f"/api/v1/namespaces/trace/pods/{pod['metadata']['name']}"
        ask_cluster(self.credentials, "DELETE", path)
        node, uid = pod["spec"]["nodeName"], pod["metadata"]["uid"]
        while True:
            event = self.events.wait_for("snapshot", 180)
            if event is None:
                raise SystemExit(f"No snapshot showed that {path} was deleted.")
            if not self._shows_running(node, uid):
                break
        self.planner.get(f"/clusters/{CLUSTER}/nodes/{node}/")
        return event[0] - began, time.monotonic() - began

    def _shows_running(self, node: str, uid: str) -> bool:
        pods = self.planner.ask(f"/api/v1/nodes/{node}/?cluster={CLUSTER}")["pods"]
        return any(pod["uid"] == uid and not pod["is_terminating"] for pod in pods)

    def time_plan(self, name: str, **wishes: Any) -> dict[str, Any]:
        """From the request to a version that can be read; worker, check and storage included."""
        began, used = time.monotonic(), self.meter.cpu_seconds("worker")
        request = {"cluster": CLUSTER, "max_moves": 50, "seconds": self.options.seconds, **wishes}
        plan = self.planner.post("/api/v1/plans/", request)
        while plan["progress"] == "computing":
            time.sleep(0.05)
            plan = self.planner.ask(f"/api/v1/plans/{plan['id']}/")
        took, used = time.monotonic() - began, self.meter.cpu_seconds("worker") - used
        body = (plan["version"] or {}).get("body", {})
        words = f"{used:.1f} s of CPU by the worker; {str(plan['state_reason'])[:60]}"
        if body:
            words = (
                f"{used:.1f} s of CPU by the worker; {len(body['moves'])} moves, {len(body['freed_nodes'])} "
                f"nodes freed, gap {body['gap']:.2f}{', proven optimal' if body['proven_optimal'] else ''}"
            )
        self.report.add(name, took, goal=name, note=words)
        return dict(plan)

    def carry_out(self, plan: dict[str, Any]) -> None:
        approver = Person(self.ready["url"], self.ready["approver_username"], self.ready["approver_password"])
        began = time.monotonic()
        where = f"/clusters/{CLUSTER}/plans/{plan['id']}"
        while b"Dry run" not in approver.get(f"{where}/"):
            if time.monotonic() - began > DRY_RUN_SECONDS:
                raise SystemExit("The dry run of the proposed plan did not come.")
            time.sleep(0.5)
        self.report.add("dry run of the evictions shown", time.monotonic() - began)
        approver.submit(f"{where}/approve/", digest=plan["version"]["digest"], comment="benchmark")
        self._follow(plan)

    def _follow(self, plan: dict[str, Any]) -> None:
        ask_cluster(self.credentials, "DELETE", "/_sim/requests")
        used = self.meter.cpu_seconds("worker")
        began, ran_at, told = time.monotonic(), 0.0, 0
        started = self.planner.post("/api/v1/executions/", {"plan": plan["id"]})
        while True:
            execution = self.planner.ask(f"/api/v1/executions/{started['id']}/")
            if execution["steps"] and not ran_at:
                ran_at = time.monotonic()
                self.report.add("preflight of the execution", ran_at - began)
            done = [step for step in execution["steps"] if step["kind"] == "await_replacement"]
            done = [step for step in done if step["state"] == "verified"]
            if (minutes := int(time.monotonic() - began) // 60) > told:
                told = minutes
                print(f"  after {minutes} min: {execution['state']}, {len(done)} moves", flush=True)
            late = time.monotonic() - began > self.options.follow_seconds
            if len(done) >= self.options.moves or execution["finished_at"] or late:
                break
            time.sleep(3)  # an answer with all steps and events takes the web a while
        page_began = time.monotonic()
        page = self.planner.get(f"/clusters/{CLUSTER}/executions/{started['id']}/")
        note = f"{len(page) >> 10} KiB, {len(execution['steps'])} steps, {len(execution['events'])} events"
        self.report.add("page of the execution", time.monotonic() - page_began, note=note)
        words = f"execution is {execution['state']} {execution['state_reason'][:60]}"
        self.report.add(f"{len(done)} moves carried out", time.monotonic() - began, note=words)
        used = self.meter.cpu_seconds("worker") - used
        self.report.add(
            "CPU of the worker, preflight included", used, note=f"{used / max(len(done), 1):.2f} s a move"
        )
        self._tell_requests(max(len(done), 1))
        if not execution["finished_at"]:
            self.planner.post(f"/api/v1/executions/{started['id']}/cancel/", {"reason": "benchmark ends"})

    def _tell_requests(self, moves: int) -> None:
        """By the API server's own log, since the execution was started."""
        asked = ask_cluster(self.credentials, "GET", "/_sim/requests")["requests"]
        ours = [one for one in asked if "gpu-defrag" in one["user_agent"]]
        sent = [one for one in ours if one["method"] != "GET" and "dryRun" not in one["query"]]
        sent = [one for one in sent if "reviews" not in one["path"]]
        watches = sum("watch" in one["query"] for one in ours)
        self.report.add("writes of the execution", len(sent), "", note=f"{len(sent) / moves:.1f} a move")
        note = f"{watches} watches; preflight, dry runs, verification and watcher included"
        self.report.add("requests of the console meanwhile", len(ours), "", note=note)


def _tell_memory(report: Report, meter: Meter) -> None:
    for name, usage in meter.usage.items():
        report.add(
            f"memory of {name}, peak",
            usage.peak_pss_mib,
            "MiB",
            goal=name if name in MEMORY else "",
            note=f"PSS of {usage.processes} processes; now {usage.pss_mib:.0f} (RSS {usage.rss_mib:.0f}), "
            f"{usage.cpu_seconds:.1f} s of CPU",
        )


def _tell_storage(report: Report, data: Path) -> None:
    url = json.loads((data / "running.json").read_text())["environment"]["DATABASE_URL"]
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT count(*), avg(octet_length(body)) FROM clusters_snapshot").fetchone()
    assert row is not None
    report.add("snapshots recorded", row[0], "")
    report.add("size of a stored snapshot", float(row[1]) / 1024, "KiB")


if __name__ == "__main__":
    main()
