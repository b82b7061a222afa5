"""Ten thousand nodes and sixty thousand pods: what a snapshot, its measures and its plans cost there.

    python -m benchmarks.ten_thousand [--nodes 10000] [--pods 60000] [--seed 1] [--limits 1 5 10] [--json]

The watcher's parts (from the API's JSON to a row in PostgreSQL), the measures, the queue, and plans under
time limits. Where there is a plain way, its cost in the same run is the baseline of the ratio. Times are
CPU seconds of one thread, limits too, because the machine is shared; wall time stands beside them.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from apps.clusters.packing import Opener, Packer
from apps.clusters.pictures import summarise
from apps.kube.gateway import PODS, Kind, WatchEvent
from apps.kube.object_store import ObjectStore
from apps.kube.translate import Translator
from apps.planner.defrag import plan_free_nodes, plan_unlock
from apps.planner.fragmentation import measure
from apps.planner.plan import Plan
from apps.planner.snapshot import Snapshot
from apps.planner.verification import check_plan
from apps.planner.waiting import explain_pending
from benchmarks.large_cluster import GANG, LargeCluster
from benchmarks.running_console import processor_share
from console.embedded import start_postgres, start_valkey

TAKEN_AT = 1_767_268_900.0
MOVES = 50
Answer = TypeVar("Answer")


@dataclass(slots=True)
class Row:
    name: str
    cpu_seconds: float
    wall_seconds: float
    rss_mib: float
    ratio: float | None
    note: str


@dataclass(slots=True)
class Table:
    rows: list[Row] = field(default_factory=list)

    def time(
        self,
        name: str,
        work: Callable[[], Answer],
        *,
        against: str = "",
        say: Callable[[Answer], str] = lambda _: "",
    ) -> Answer:
        """against: an earlier row, the plain way; the ratio says how many times cheaper this one is."""
        wall, cpu = time.monotonic(), time.process_time()
        answer = work()
        cpu, wall = time.process_time() - cpu, time.monotonic() - wall
        base = next((row.cpu_seconds for row in self.rows if row.name == against), None)
        ratio = None if base is None else round(base / max(cpu, 1e-4), 1)
        note = say(answer) + (f" ({ratio:g} times cheaper than: {against})" if ratio is not None else "")
        self.rows.append(Row(name, round(cpu, 3), round(wall, 3), round(_rss(), 1), ratio, note.strip()))
        print(f"{name:42s} {cpu:8.2f} s CPU {wall:8.2f} s {_rss():7.0f} MiB  {note}", flush=True)
        return answer


def main() -> None:
    options = _read_options()
    share = processor_share()
    print(
        f"{options.nodes} nodes, {options.pods} pods, seed {options.seed}; this program gets {share:.2f} of"
    )
    print(
        f"a processor ({os.cpu_count()} here, load {os.getloadavg()[0]:.1f}): wall times are so much worse."
    )
    table = Table()
    with tempfile.TemporaryDirectory(prefix="ten-thousand-") as folder:
        os.chmod(folder, 0o711)
        listing = Path(folder) / "objects.jsonl"
        subprocess.run(
            [sys.executable, "-m", "benchmarks.ten_thousand", "--write", str(listing), *sys.argv[1:]]
        )
        snapshot = _watch(table, listing)
        body = _store(table, snapshot)
        _record(table, snapshot, Path(folder))
    picture = Opener().open(body)
    table.time(
        "measure fragmentation", lambda: measure(picture), say=lambda found: f"ratio {found.ratio:.2f}"
    )
    table.time("explain the queue", lambda: explain_pending(picture), say=lambda all_: f"{len(all_)} wait")
    _plan(table, picture, options.limits)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"Peak memory of this program, which does the work of watcher, worker and web: {peak:.0f} MiB")
    if options.json:
        rows = [asdict(row) for row in table.rows]
        print(json.dumps({"processor_share": share, "peak_rss_mib": peak, "rows": rows}))


def _read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--pods", type=int, default=60_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limits", type=float, nargs="+", default=[1, 5, 10], help="seconds for a plan")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        _write(options)
        raise SystemExit
    return options


def _write(options: argparse.Namespace) -> None:
    """The cluster as lines of JSON, by a program of its own, whose memory is not counted."""
    cluster = LargeCluster(nodes=options.nodes, pods=options.pods, seed=options.seed)
    with options.write.open("w") as file:
        for kind, objects in cluster.objects.items():
            file.write(
                json.dumps([kind.group, kind.version, kind.plural, kind.namespaced, len(objects)]) + "\n"
            )
            file.writelines(json.dumps(raw) + "\n" for raw in objects)


def _watch(table: Table, listing: Path) -> Snapshot:
    stores = table.time(
        "list: JSON to kept objects",
        lambda: _read_listing(listing),
        say=lambda found: f"{listing.stat().st_size >> 20} MiB of JSON",
    )
    translator = Translator()

    def build() -> Snapshot:
        kept = {kind: store.objects() for kind, store in stores.items()}
        return translator.build("large", kept, taken_at=TAKEN_AT)

    table.time("snapshot: all objects translated", build)
    raw = stores[PODS].objects()[0].open()
    raw["metadata"] |= {"resourceVersion": "999999999", "labels": {"app": "changed"}}
    stores[PODS].apply(WatchEvent("MODIFIED", raw))
    return table.time("snapshot after one event", build, against="snapshot: all objects translated")


def _read_listing(listing: Path) -> dict[Kind, ObjectStore]:
    stores: dict[Kind, ObjectStore] = {}
    with listing.open() as file:
        for head in file:
            *kind, count = json.loads(head)
            store = stores[Kind(*kind)] = ObjectStore(Kind(*kind))
            store.replace_all([store.keep(json.loads(file.readline())) for _ in range(count)])
    return stores


def _store(table: Table, snapshot: Snapshot) -> bytes:
    packer, opener = Packer(), Opener()
    table.time("digest, everything new", lambda: packer.digest(snapshot))
    first = table.time(
        "pack, everything new", lambda: packer.pack(snapshot), say=lambda body: f"{len(body) / 2**20:.1f} MiB"
    )
    changed = _with_one_change(snapshot)
    table.time("digest after one change", lambda: packer.digest(changed), against="digest, everything new")
    second = table.time("pack after one change", lambda: packer.pack(changed), against="pack, everything new")
    table.time("open, everything new", lambda: opener.open(first))
    table.time("open after one change", lambda: opener.open(second), against="open, everything new")
    table.time("summary for lists and tiles", lambda: summarise(changed))
    return second


def _with_one_change(snapshot: Snapshot) -> Snapshot:
    pod = snapshot.pods[min(snapshot.pods)]
    return snapshot.with_pods([replace(pod, priority=pod.priority + 1)])


def _record(table: Table, snapshot: Snapshot, folder: Path) -> None:
    """In PostgreSQL, as the watcher does it: the first row, and the next one after a change."""
    servers = [start_postgres(folder / "postgres"), start_valkey(folder / "valkey")]
    try:
        os.environ |= {
            "DATABASE_URL": servers[0].url,
            "REDIS_URL": servers[1].url,
            "SECRET_KEY": "benchmark-" * 8,
            "DJANGO_SETTINGS_MODULE": "console.settings.production",
        }
        import django

        django.setup()
        from django.core.management import call_command

        call_command("migrate", verbosity=0)
        from apps.clusters.models import Cluster
        from apps.clusters.services import record_snapshot

        cluster, packer = Cluster.objects.create(name="large", server="https://127.0.0.1:1"), Packer()

        def record(one: Snapshot) -> Any:
            return record_snapshot(cluster_id=cluster.pk, snapshot=one, packer=packer)

        table.time("row in PostgreSQL, everything new", lambda: record(snapshot))
        changed = replace(_with_one_change(snapshot), taken_at=TAKEN_AT + 1)
        table.time(
            "row in PostgreSQL after one change",
            lambda: record(changed),
            against="row in PostgreSQL, everything new",
        )
    finally:
        for server in servers:
            server.stop()


def _plan(table: Table, picture: Snapshot, limits: list[float]) -> None:
    asked: dict[str, Callable[[Callable[[], bool]], Plan]] = {
        f"free nodes, {MOVES} moves": lambda late: plan_free_nodes(picture, max_moves=MOVES, deadline=late),
        f"free nodes, {10 * MOVES} moves": lambda late: plan_free_nodes(
            picture, max_moves=10 * MOVES, deadline=late
        ),
        "unlock the gang": lambda late: plan_unlock(picture, workload=GANG, max_moves=MOVES, deadline=late),
        f"unlock all that waits, {MOVES} moves": lambda late: plan_unlock(
            picture, workload=None, max_moves=MOVES, deadline=late
        ),
    }
    for name, ask in asked.items():
        _plan_within(table, picture, name, ask, limits)


def _plan_within(
    table: Table,
    picture: Snapshot,
    name: str,
    ask: Callable[[Callable[[], bool]], Plan],
    limits: list[float],
) -> None:
    """More time is of no use after a proof."""
    for limit in limits:
        plan = table.time(f"{name}, within {limit:g} s", partial(_ask_within, ask, limit), say=_words)
        if plan.proven_optimal:
            break
    check = partial(check_plan, picture, plan)
    faults = table.time(f"{name}: check", check, say=lambda found: f"{len(found)} faults")
    if faults:
        raise SystemExit(faults[0])


def _ask_within(ask: Callable[[Callable[[], bool]], Plan], seconds: float) -> Plan:
    return ask(_deadline(seconds))


def _deadline(seconds: float) -> Callable[[], bool]:
    end = time.process_time() + seconds
    return lambda: time.process_time() >= end


def _words(plan: Plan) -> str:
    gain = f"{plan.unlocked_gpus} GPUs unlocked" if plan.unlocked else f"{len(plan.freed_nodes)} nodes freed"
    proof = "proven optimal" if plan.proven_optimal else f"gap {plan.gap:.2f}"
    return f"{len(plan.moves)} moves, {gain}, {proof}"


def _rss() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


if __name__ == "__main__":
    main()
