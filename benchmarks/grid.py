"""The cluster grid at the size of a whole trace: server time, bytes, drawing, memory of the web process.

    python -m benchmarks.grid --nodes CSV --pods CSV [--load 0.85] [--requests 30] [--json]

`./dev up` with the trace as its simulated cluster, so the pictures are prepared by its worker as in
production. Server time is the wall time of a request over loopback; the web process's own CPU time stands
beside it, because everything shares this machine with the simulated cluster and with whatever else runs.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import statistics
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

from apps.kube.kubeconfig import read_kubeconfig
from benchmarks.running_console import Events, Meter, Person, ask_cluster, console_up

GRID = "/clusters/demo/"
PICTURE = f"{GRID}picture.json"
CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
]
SERVER_MS, OTHER_MS, DRAWN_MS, WEB_MIB = 100.0, 300.0, 1000.0, 250.0
READY_SECONDS = 120


@dataclass(slots=True)
class Line:
    """values: in the order of measuring. goal: what the median (times) or the value may be at most."""

    name: str
    values: list[float]
    unit: str = "ms"
    goal: float | None = None
    note: str = ""

    def __str__(self) -> str:
        low, middle, high = min(self.values), statistics.median(self.values), max(self.values)
        told = (
            f"{low:9.1f} {middle:9.1f} {high:9.1f}"
            if len(self.values) > 1
            else f"{'':9s} {middle:9.1f} {'':9s}"
        )
        verdict = "" if self.goal is None else "reached" if middle <= self.goal else "MISSED"
        goal = "" if self.goal is None else f"<= {self.goal:g}"
        return f"{self.name:44s} {told} {self.unit:4s} {goal:>8s} {verdict:8s} {self.note}"


@dataclass(slots=True)
class Report:
    lines: list[Line] = field(default_factory=list)

    def add(self, *arguments: Any, **options: Any) -> None:
        self.lines.append(Line(*arguments, **options))
        print(self.lines[-1], flush=True)


def main() -> None:
    options = _read_options()
    report = Report()
    with tempfile.TemporaryDirectory(prefix="grid-") as folder:
        os.chmod(folder, 0o711)  # PostgreSQL runs as nobody where root starts it
        trace = ("--nodes", options.nodes, "--pods", options.pods, "--load", str(options.load))
        with console_up(Path(folder) / "data", *trace) as (process, ready):
            meter = Meter(process.pid)
            meter.start()
            person = Person(ready["url"], ready["username"], ready["password"])
            print(f"{'':44s} {'min':>9s} {'median':>9s} {'max':>9s}")
            _measure_server(report, person, meter, options.requests)
            _measure_new_snapshots(report, person, ready, options.snapshots)
            _measure_drawing(report, person, options.draws)
            _measure_other_pages(report, person, meter, options.requests)
            meter.stop()
            web = meter.usage["web"]
            report.add(
                "memory of the web process, peak",
                [web.peak_pss_mib],
                "MiB",
                WEB_MIB,
                f"RSS {web.rss_mib:.0f}",
            )
    load, processors = os.getloadavg()[1], os.cpu_count() or 1
    if load > 1.5 * processors:
        print(
            f"The load was {load:.1f} on {processors} processors: wall times are too long, CPU times count."
        )
    if options.json:
        print(json.dumps({"processors": os.cpu_count(), "lines": [asdict(line) for line in report.lines]}))


def _read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", required=True, help="node list CSV of the trace")
    parser.add_argument("--pods", required=True, help="pod list CSV of the trace")
    parser.add_argument("--load", type=float, default=0.85)
    parser.add_argument("--requests", type=int, default=30)
    parser.add_argument("--snapshots", type=int, default=5, help="new snapshots whose first visitor is timed")
    parser.add_argument("--draws", type=int, default=5, help="page loads in Chromium")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def _timed(ask: Callable[[], object]) -> float:
    began = time.perf_counter()
    ask()
    return 1000 * (time.perf_counter() - began)


def _measure_server(report: Report, person: Person, meter: Meter, requests: int) -> None:
    report.add("grid page, first after the start", [_timed(lambda: person.get(GRID))], goal=SERVER_MS)
    _wait_until_prepared(person)
    _measure_many(report, meter, "grid page, warm", lambda: person.get(GRID), requests)
    _measure_many(report, meter, "picture, packed", lambda: _fetch(person), requests)
    etag, body = _fetch(person)
    _measure_many(report, meter, "picture, 304", lambda: _fetch(person, etag), requests)
    page = person.get(GRID)
    report.add(
        "bytes of the page", [len(page) / 1024], "KiB", note=f"{len(gzip.compress(page)) / 1024:.1f} packed"
    )
    raw = gzip.decompress(body)
    report.add("bytes of the picture", [len(raw) / 1024], "KiB", note=f"{len(body) / 1024:.1f} packed")
    told = json.loads(raw)["columns"]
    report.add("nodes", [len(told["name"])], "")


def _measure_many(
    report: Report,
    meter: Meter,
    name: str,
    ask: Callable[[], object],
    requests: int,
    goal: float = SERVER_MS,
) -> None:
    meter.sample()
    before = meter.usage["web"].cpu_seconds
    times = [_timed(ask) for _ in range(requests)]
    meter.sample()
    cpu = 1000 * (meter.usage["web"].cpu_seconds - before) / requests
    report.add(name, times, goal=goal, note=f"{cpu:.0f} ms of CPU each")


def _wait_until_prepared(person: Person) -> None:
    """Until the picture of a measured snapshot is there, so that all that follows is the usual case."""
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        if json.loads(gzip.decompress(_fetch(person)[1]))["measured_at"]:
            return
        time.sleep(0.5)
    raise SystemExit(f"No measured picture was prepared within {READY_SECONDS} s.")


def _fetch(person: Person, etag: str = "") -> tuple[str, bytes]:
    """As a browser does: (etag, packed body; empty for 304)."""
    cookies = "; ".join(f"{cookie.name}={cookie.value}" for cookie in person.cookies)
    headers = {"Cookie": cookies, "Accept-Encoding": "gzip", **({"If-None-Match": etag} if etag else {})}
    request = urllib.request.Request(person.url + PICTURE, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return str(answer.headers["ETag"]), bytes(answer.read())
    except urllib.error.HTTPError as error:
        if error.code != 304:
            raise
        return etag, b""


def _measure_new_snapshots(report: Report, person: Person, ready: dict[str, str], snapshots: int) -> None:
    """A pod is deleted by somebody. The page is asked for at once, and again when its picture is told of."""
    credentials = read_kubeconfig(Path(ready["kubeconfig"]).read_text())
    pods = ask_cluster(credentials, "GET", "/api/v1/namespaces/trace/pods")["items"]
    running = [pod["metadata"]["name"] for pod in pods if pod["status"].get("phase") == "Running"]
    events = Events(person, "demo")
    at_once, told, delays = [], [], []
    for name in running[:: max(len(running) // snapshots, 1)][:snapshots]:
        time.sleep(5)
        events.forget()
        ask_cluster(credentials, "DELETE", f"/api/v1/namespaces/trace/pods/{name}")
        snapshot = events.wait_for("snapshot", 60)
        if snapshot is None:
            raise SystemExit("No snapshot followed the deletion of a pod.")
        at_once.append(_timed(lambda: person.get(GRID)))
        prepared = events.wait_for("grid", 60)
        if prepared is None:
            raise SystemExit("No picture followed a snapshot.")
        delays.append(prepared[0] - snapshot[0])
        told.append(_timed(lambda: (person.get(GRID), _fetch(person))))
    report.add("first visitor after a new snapshot", at_once, goal=SERVER_MS)
    report.add("page and picture when it is prepared", told, goal=SERVER_MS)
    report.add("from the snapshot to its picture", delays, "s")


@contextmanager
def _browser(person: Person) -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        context = browser.new_context(viewport={"width": 1440, "height": 900}, base_url=person.url)
        context.add_cookies(
            [
                {"name": cookie.name, "value": cookie.value or "", "url": person.url}
                for cookie in person.cookies
            ]
        )
        yield context.new_page()
        browser.close()


def _measure_drawing(report: Report, person: Person, draws: int) -> None:
    with _browser(person) as page:
        drawn = []
        for _ in range(draws + 1):
            page.goto(GRID)
            page.locator("#now:not(:empty)").wait_for()
            drawn.append(page.evaluate("performance.getEntriesByName('grid-drawn')[0].startTime"))
        report.add("drawn in Chromium, first time", drawn[:1], goal=DRAWN_MS)
        report.add("drawn in Chromium, again", drawn[1:], goal=DRAWN_MS)
        modes = [page.evaluate(REDRAW, mode) for mode in ("heat", "link", "work") * 3]
        report.add("drawn in another colour mode", modes, note="script and canvas")
        report.add("another sort order", [page.evaluate(RESORT, sort) for sort in ("name", "free", "worth")])
        report.add("a step by arrow key", page.evaluate(STEPS), note="cursor, line and panel")


REDRAW = """mode => {
  const began = performance.now();
  document.querySelector(`#filters [value=${mode}]`).click();
  document.getElementById("dense").getContext("2d").getImageData(0, 0, 1, 1);
  return performance.now() - began;
}"""
RESORT = """sort => {
  const began = performance.now(), choice = document.querySelector("#filters [name=sort]");
  choice.value = sort;
  choice.dispatchEvent(new Event("change", { bubbles: true }));
  document.getElementById("dense").getContext("2d").getImageData(0, 0, 1, 1);
  return performance.now() - began;
}"""
STEPS = """() => {
  const canvas = document.getElementById("dense");
  canvas.focus();
  return Array.from({ length: 100 }, () => {
    const began = performance.now();
    canvas.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowDown", bubbles: true }));
    document.body.getBoundingClientRect();
    return performance.now() - began;
  });
}"""


def _measure_other_pages(report: Report, person: Person, meter: Meter, requests: int) -> None:
    name = json.loads(gzip.decompress(_fetch(person)[1]))["columns"]["name"][600]
    pages = {
        "rows view": f"{GRID}?view=rows",
        "node page": f"{GRID}nodes/{name}/",
        "node panel of the rows": f"{GRID}nodes/{name}/panel/",
        "queue": f"{GRID}queue/",
        "fragmentation": f"{GRID}fragmentation/",
        "plans": f"{GRID}plans/",
        "executions": f"{GRID}executions/",
        "clusters": "/clusters/",
        "grid as CSV": f"{GRID}grid.csv",
    }
    for title, path in pages.items():

        def ask(path: str = path) -> object:
            return person.get(path)

        ask()  # the first one after a new snapshot opens it
        _measure_many(report, meter, title, ask, max(3, requests // 3), OTHER_MS)


if __name__ == "__main__":
    main()
