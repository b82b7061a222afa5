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
from benchmarks.running_console import Events, Meter, Person, ask_cluster, console_up

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
        arguments = ("--nodes", options.nodes, "--pods", options.pods, "--load", str(options.load))
        with console_up(data, *arguments, "--time-scale", str(options.time_scale)) as (process, ready):
            meter = Meter(process.pid)
            meter.start()
            _describe(report, ready)
            first.tell(report)
            _measure(report, ready, options)
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
    parser.add_argument("--moves", type=int, default=3, help="moves to carry out before it is cancelled")
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

    def tell(self, report: Report) -> None:
        log = (self._data / "logs" / "watcher.log").read_text()
        began = re.search(r"^(\S+Z)\s.*watching\s+.*cluster=", log, re.M)
        if began is None:
            raise SystemExit("The watcher's log does not say when it began to watch.")
        at = datetime.fromisoformat(began.group(1)).timestamp()
        report.add("first snapshot after the watch began", self._seen_at - at, goal="first snapshot")


def _describe(report: Report, ready: dict[str, str]) -> None:
    credentials = _credentials(ready)
    nodes = ask_cluster(credentials, "GET", "/api/v1/nodes")["items"]
    pods = ask_cluster(credentials, "GET", "/api/v1/pods")["items"]
    gpus = sum(int(node["status"]["capacity"].get("nvidia.com/gpu", 0)) for node in nodes)
    report.add("nodes", len(nodes), "")
    report.add("GPUs", gpus, "")
    report.add("pods", len(pods), "")


def _credentials(ready: dict[str, str]) -> Credentials:
    return read_kubeconfig(Path(ready["kubeconfig"]).read_text())


def _measure(report: Report, ready: dict[str, str], options: argparse.Namespace) -> None:
    planner = Person(ready["url"], ready["username"], ready["password"])
    events = Events(planner, CLUSTER)
    for round_ in ("cold", "warm"):
        began = time.monotonic()
        page = planner.get(f"/clusters/{CLUSTER}/")
        report.add(f"grid page, {round_}", time.monotonic() - began, note=f"{len(page) >> 10} KiB")
    _measure_events(report, planner, events, _credentials(ready), options.samples)
    gang = f"trace/{_waiting_gang(planner)}"
    _measure_plan(report, planner, "unlock the waiting gang", goal="unlock", workload=gang)
    plan = _measure_plan(report, planner, "plan of 50 moves", goal="free-nodes")
    if plan["progress"] == "ready":
        _carry_out(report, planner, ready, plan, options.moves)


def _waiting_gang(person: Person) -> str:
    waiting = person.ask(f"/api/v1/pending/?cluster={CLUSTER}")["results"]
    return str(next((one["key"] for one in waiting if "gang" in one["key"]), waiting[0]["key"])).split("/")[
        -1
    ]


def _measure_events(
    report: Report, person: Person, events: Events, credentials: Credentials, samples: int
) -> None:
    """A pod is deleted by somebody; how long until the page and the API no longer show it as running."""
    pods = ask_cluster(credentials, "GET", "/api/v1/namespaces/trace/pods")["items"]
    running = [pod for pod in pods if pod["spec"].get("nodeName") and pod["status"]["phase"] == "Running"]
    heard: list[float] = []
    shown: list[float] = []
    for pod in running[:: max(len(running) // samples, 1)][:samples]:
        time.sleep(2.5)  # the burst of the sample before is over
        events.forget()
        began = time.monotonic()
        path = f"/api/v1/namespaces/trace/pods/{pod['metadata']['name']}"
        ask_cluster(credentials, "DELETE", path)
        node, uid = pod["spec"]["nodeName"], pod["metadata"]["uid"]
        while True:
            event = events.wait_for("snapshot", 30)
            if event is None:
                raise SystemExit(f"No snapshot showed that {path} was deleted.")
            if not _shows_running(person, node, uid):
                break
        heard.append(event[0] - began)
        page = person.get(f"/clusters/{CLUSTER}/nodes/{node}/")
        assert page
        shown.append(time.monotonic() - began)
    for name, times in (("the browser hears of it", heard), ("API and node page show it", shown)):
        report.add(f"event: {name}, median", statistics.median(times), goal="event to page")
        report.add(f"event: {name}, worst of {len(times)}", max(times), goal="event to page")


def _shows_running(person: Person, node: str, uid: str) -> bool:
    pods = person.ask(f"/api/v1/nodes/{node}/?cluster={CLUSTER}")["pods"]
    return any(pod["uid"] == uid and not pod["is_terminating"] for pod in pods)


def _measure_plan(report: Report, person: Person, name: str, **wishes: Any) -> dict[str, Any]:
    """From the request to a version that can be read; worker, check and storage included."""
    began = time.monotonic()
    plan = person.post("/api/v1/plans/", {"cluster": CLUSTER, "max_moves": 50, "seconds": 10, **wishes})
    while plan["progress"] == "computing":
        time.sleep(0.05)
        plan = person.ask(f"/api/v1/plans/{plan['id']}/")
    took = time.monotonic() - began
    body = (plan["version"] or {}).get("body", {})
    note = (
        f"{len(body.get('moves', ()))} moves, {len(body.get('freed_nodes', ()))} nodes freed, "
        f"gap {body.get('gap', 0):.2f}{', proven optimal' if body.get('proven_optimal') else ''}"
        if body
        else str(plan["state_reason"])[:60]
    )
    report.add(name, took, goal=name, note=note)
    return dict(plan)


def _carry_out(
    report: Report, planner: Person, ready: dict[str, str], plan: dict[str, Any], wanted: int
) -> None:
    approver = Person(ready["url"], ready["approver_username"], ready["approver_password"])
    began = time.monotonic()
    planner.post(f"/api/v1/plans/{plan['id']}/propose/", {})
    where = f"/clusters/{CLUSTER}/plans/{plan['id']}"
    while b"Dry run" not in approver.get(f"{where}/"):
        if time.monotonic() - began > 60:
            raise SystemExit("The dry run of the proposed plan did not come.")
        time.sleep(0.2)
    report.add("dry run of the evictions shown", time.monotonic() - began)
    approver.submit(f"{where}/approve/", digest=plan["version"]["digest"], comment="benchmark")
    began = time.monotonic()
    started = planner.post("/api/v1/executions/", {"plan": plan["id"]})
    while True:
        execution = planner.ask(f"/api/v1/executions/{started['id']}/")
        done = [step for step in execution["steps"] if step["kind"] == "await_replacement"]
        done = [step for step in done if step["state"] == "verified"]
        if len(done) >= wanted or execution["finished_at"] or time.monotonic() - began > 120:
            break
        time.sleep(0.2)
    report.add(
        f"{len(done)} moves carried out", time.monotonic() - began, note=f"execution is {execution['state']}"
    )
    if not execution["finished_at"]:
        planner.post(f"/api/v1/executions/{started['id']}/cancel/", {"reason": "benchmark ends"})


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
