"""How long a scheduler waits for the extender: our handlers beside a no-op handler of the same server.

    python -m benchmarks.extender_speed [--rate 100] [--seconds 20] [--rounds 3] [--policy packing]

Open-loop load from a process of its own: so many pods a second arrive whatever the answers take, each with
one filter call of 497 node names (of 1,213, as kube-scheduler samples them) and one prioritize call of what
passed. A pod then runs on the node with the score 10 and goes after a while; the picture hears of it through
the watch's own code (its events come by a pipe instead of an API server's stream), as pods that come, are
bound, run and go. Latencies count from the moment a call was due. No-op and ours take turns in rounds, since
machines have moods; new pods do not come in the no-op's rounds, though earlier ones go.

Goal: p99 of our handlers at most 20 ms and at most 3 × the no-op's.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import queue
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import IO, Any

import aiohttp
import msgspec
from aiohttp import web

from apps.kube.gateway import NODES, PODS, Json, Kind, WatchEvent
from apps.scheduling.extender.assembling import put_together
from apps.scheduling.extender.options import Options
from apps.scheduling.extender.policies import POLICIES
from apps.scheduling.extender.wire import BindingCall
from console.embedded import die_with_parent, free_port

NODE_COUNT, SAMPLED, RUNNING = 1213, 497, 2000
LIFETIME_SECONDS = 15.0
MOST_P99, MOST_RATIO = 20.0, 3.0
SHAPES = ((1, 4, 16), (1, 8, 32), (2, 16, 64), (4, 32, 128), (8, 64, 256), (1, 2, 8), (2, 8, 96))
"""GPUs, CPU cores and GiB of the pods; those of more than one GPU want NVLink."""
LINK = "defrag.gpu.internal/link"
MATRIX = "topology.gpu.internal/matrix"


class SeededGateway:
    """An API server's part: lists what is seeded, and streams what it is told."""

    def __init__(self, seeded: dict[Kind, list[Json]]) -> None:
        self._seeded = seeded
        self._queues: dict[Kind, queue.SimpleQueue[bytes | None]] = {}

    def prove_identity(self) -> None:
        """It is always there."""

    def list_reduced(self, kind: Kind, reduce: Callable[[Json], Any], **_: Any) -> tuple[list[Any], str]:
        return [reduce(one) for one in self._seeded.get(kind, [])], "1"

    def watch(self, kind: Kind, **_: Any) -> Iterator[WatchEvent]:
        lines = self._queues.setdefault(kind, queue.SimpleQueue())
        while (line := lines.get()) is not None:
            event = json.loads(line)
            yield WatchEvent(event["type"], event["object"])

    def tell(self, kind: Kind, line: bytes) -> None:
        """An event as the stream would bring it."""
        self._queues.setdefault(kind, queue.SimpleQueue()).put(line)

    def end_streams(self) -> None:
        for lines in self._queues.values():
            lines.put(None)

    def close(self) -> None:
        self.end_streams()


# --- the server's process ---


def serve(port: int, policy: str) -> None:
    nodes = [make_node(at) for at in range(NODE_COUNT)]
    gateway = SeededGateway({NODES: nodes, PODS: list(_running_pods(nodes))})
    served = put_together(
        gateway,  # type: ignore[arg-type]
        Options(policy=policy),
        cluster="bench",
        record=never_asked,
    )

    async def noop_filter(request: web.Request) -> web.Response:
        args = json.loads(await request.read())
        answer = {"Nodes": None, "NodeNames": args["NodeNames"], "FailedNodes": {}, "Error": ""}
        return web.json_response(answer)

    async def noop_prioritize(request: web.Request) -> web.Response:
        args = json.loads(await request.read())
        return web.json_response([{"Host": name, "Score": 0} for name in args["NodeNames"]])

    def read_events() -> None:
        """Pods' events, one a line."""
        for line in sys.stdin.buffer:
            gateway.tell(PODS, line)

    served.app.router.add_post("/noop/filter", noop_filter)
    served.app.router.add_post("/noop/prioritize", noop_prioritize)
    threading.Thread(target=read_events, daemon=True).start()
    web.run_app(served.app, host="127.0.0.1", port=port, access_log=None, print=lambda *_: None)


def never_asked(call: BindingCall) -> None:
    raise AssertionError("this load binds nothing through the extender")


def make_node(at: int) -> Json:
    name = f"gpu-{at:04d}"
    links = [["X" if one == other else "NV18" for other in range(8)] for one in range(8)]
    gpus = [{"index": one, "uuid": f"GPU-{at}-{one}", "numa": one // 4} for one in range(8)]
    amounts = {"cpu": "128", "memory": "1024Gi", "pods": "110", "nvidia.com/gpu": "8"}
    matrix = {
        "version": 1,
        "observed_at": "2026-01-01T00:00:00Z",
        "source": "nvml",
        "gpus": gpus,
        "links": links,
    }
    return {
        "metadata": {
            "name": name,
            "uid": f"node-{at}",
            "resourceVersion": "1",
            "labels": {"kubernetes.io/hostname": name, "nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"},
            "annotations": {MATRIX: json.dumps(matrix)},
        },
        "spec": {},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def make_pod(name: str, shape: int) -> Json:
    gpus, cores, gib = SHAPES[shape % len(SHAPES)]
    requests = {"cpu": str(cores), "memory": f"{gib}Gi", "nvidia.com/gpu": str(gpus)}
    probe = {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10}
    env = [{"name": f"SETTING_{at}", "value": f"value-of-setting-{at}"} for at in range(20)]
    container = {
        "name": "main",
        "image": "registry.internal/team/train:1.2.3",
        "env": env,
        "resources": {"requests": requests, "limits": requests},
        "readinessProbe": probe,
        "livenessProbe": probe,
    }
    return {
        "metadata": {
            "name": name,
            "namespace": "bench",
            "uid": f"uid-{name}",
            "resourceVersion": "1",
            "labels": {"app": f"app-{shape}"},
            "annotations": {LINK: "nvlink"} if gpus > 1 else {},
            "ownerReferences": [
                {"kind": "ReplicaSet", "name": f"app-{shape}", "uid": f"rs-{shape}", "controller": True}
            ],
        },
        "spec": {
            "containers": [container],
            "schedulerName": "default-scheduler",
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
        },
        "status": {"phase": "Pending"},
    }


def _bound(pod: Json, node: str, phase: str) -> Json:
    return {**pod, "spec": {**pod["spec"], "nodeName": node}, "status": {"phase": phase}}


def _running_pods(nodes: list[Json]) -> Iterator[Json]:
    draw = random.Random(1)
    for at in range(RUNNING):
        node = nodes[draw.randrange(len(nodes))]["metadata"]["name"]
        yield _bound(make_pod(f"old-{at}", draw.choice((0, 1, 2, 5))), node, "Running")


# --- the load's process ---


class Load:
    """events: where the server reads what happens to pods."""

    def __init__(self, url: str, session: aiohttp.ClientSession, rate: float, events: IO[bytes]) -> None:
        self.url, self.session, self.rate, self._events = url, session, rate, events
        self._revision = 1_000_000
        self.names = [f"gpu-{at:04d}" for at in range(NODE_COUNT)]
        self.number = 0
        self.lives: set[asyncio.Task[None]] = set()
        self.unplaced = 0

    async def run(self, seconds: float, prefix: str) -> dict[str, list[float]]:
        """Milliseconds of each call, by verb."""
        took: dict[str, list[float]] = {"filter": [], "prioritize": []}
        began, cycles = time.perf_counter(), []
        for at in range(int(seconds * self.rate)):
            due = began + at / self.rate
            await asyncio.sleep(max(due - time.perf_counter(), 0))
            cycles.append(asyncio.create_task(self._cycle(due, prefix, took)))
        await asyncio.gather(*cycles)
        return took

    async def _cycle(self, due: float, prefix: str, took: dict[str, list[float]]) -> None:
        self.number += 1
        number = self.number
        pod = make_pod(f"new-{number}", number * 7 // 3)
        if not prefix:
            self._tell("ADDED", pod)
        start = number * SAMPLED % NODE_COUNT
        names = (self.names + self.names)[start : start + SAMPLED]
        found = await self._post(f"{prefix}/filter", {"Pod": pod, "Nodes": None, "NodeNames": names})
        took["filter"].append((time.perf_counter() - due) * 1000)
        due = time.perf_counter()
        fitting = found["NodeNames"]
        if len(fitting) > 1:
            body = {"Pod": pod, "Nodes": None, "NodeNames": fitting}
            scores = await self._post(f"{prefix}/prioritize", body)
            took["prioritize"].append((time.perf_counter() - due) * 1000)
            fitting = [max(scores, key=lambda one: one["Score"])["Host"]]
        if prefix:
            return
        if not fitting:
            self.unplaced += 1
            return
        life = asyncio.create_task(self._live(pod, fitting[0]))
        self.lives.add(life)
        life.add_done_callback(self.lives.discard)

    async def _live(self, pod: Json, node: str) -> None:
        self._tell("MODIFIED", _bound(pod, node, "Pending"))
        await asyncio.sleep(0.5)
        self._tell("MODIFIED", _bound(pod, node, "Running"))
        await asyncio.sleep(LIFETIME_SECONDS * random.uniform(0.5, 1.5))
        self._tell("DELETED", _bound(pod, node, "Succeeded"))

    def _tell(self, type_: str, pod: Json) -> None:
        self._revision += 1
        metadata = {**pod["metadata"], "resourceVersion": str(self._revision)}
        event = {"type": type_, "object": {**pod, "metadata": metadata}}
        self._events.write(msgspec.json.encode(event) + b"\n")
        self._events.flush()

    async def _post(self, path: str, body: Any) -> Any:
        async with self.session.post(self.url + path, data=msgspec.json.encode(body)) as answer:
            text = await answer.read()
            assert answer.status == 200, text
            return msgspec.json.decode(text) if text else None


async def measure(url: str, options: argparse.Namespace, events: IO[bytes]) -> None:
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        await _await_ready(session, url)
        load = Load(url, session, options.rate, events)
        kinds = {"no-op": "/noop", "ours": ""}
        took: dict[str, dict[str, list[float]]] = {name: {} for name in kinds}
        for prefix in kinds.values():
            await load.run(3, prefix)
        for _ in range(options.rounds):
            for name, prefix in kinds.items():
                for verb, found in (await load.run(options.seconds / options.rounds, prefix)).items():
                    took[name].setdefault(verb, []).extend(found)
        for life in list(load.lives):
            life.cancel()
    report(took, load, options)


async def _await_ready(session: aiohttp.ClientSession, url: str) -> None:
    for _ in range(600):
        try:
            async with session.get(f"{url}/healthz") as answer:
                if answer.status == 200:
                    return
        except aiohttp.ClientError:
            """It is not up yet."""
        await asyncio.sleep(0.1)
    sys.exit("the extender's server did not become ready within 60 s")


def report(took: dict[str, dict[str, list[float]]], load: Load, options: argparse.Namespace) -> None:
    print(
        f"{NODE_COUNT} nodes, {RUNNING} pods at first, {SAMPLED} names a call, {options.rate:g} pods/s for "
        f"{options.seconds:g} s each, policy {options.policy}; {load.unplaced} pods found no node"
    )
    print(f"{'':>12} {'calls':>7} {'no-op p50':>10} {'p99':>8} {'ours p50':>10} {'p99':>8} {'ratio p99':>13}")
    worst, most = 0.0, 0.0
    for verb in took["ours"]:
        ours, noop = took["ours"][verb], took["no-op"][verb]
        ratio = quantile(ours, 0.99) / quantile(noop, 0.99)
        worst, most = max(worst, quantile(ours, 0.99)), max(most, ratio)
        print(
            f"{verb:>12} {len(ours):7} {quantile(noop, 0.5):7.2f} ms {quantile(noop, 0.99):5.2f} ms "
            f"{quantile(ours, 0.5):7.2f} ms {quantile(ours, 0.99):5.2f} ms {ratio:13.2f}"
        )
    said = "reached" if worst <= MOST_P99 and most <= MOST_RATIO else "NOT reached"
    print(f"goal p99 ≤ {MOST_P99:g} ms and ≤ {MOST_RATIO:g} × the no-op's: {said}")


def quantile(values: list[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * part), len(ordered) - 1)] if ordered else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rate", type=float, default=100.0, help="pods a second")
    parser.add_argument("--seconds", type=float, default=20.0, help="of load on each of the two")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--policy", choices=sorted(POLICIES), default="packing")
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.policy)
        return
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "benchmarks.extender_speed",
        "--serve",
        str(port),
        "--policy",
        options.policy,
    ]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, preexec_fn=die_with_parent)
    assert server.stdin is not None
    try:
        asyncio.run(measure(f"http://127.0.0.1:{port}", options, server.stdin))
    finally:
        server.stdin.close()
        server.terminate()
        server.wait(10)


if __name__ == "__main__":
    main()
