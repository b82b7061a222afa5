"""`manage.py simulate_cluster`: a simulated cluster to connect the console, kubectl or a test to.

Uses no database. Not here: what a scene contains (scenes) or how the cluster behaves.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import os
import secrets
import signal
import sys
from argparse import ArgumentParser
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NoReturn

from django.core.management.base import BaseCommand

from apps.simulator.client import NODES
from apps.simulator.controllers.scheduler.configuration import SchedulerSettings, read_scheduler_settings
from apps.simulator.faults import NAMED_FAULTS, apply_fault
from apps.simulator.metrics.history import History
from apps.simulator.metrics.service import MetricsService
from apps.simulator.runner import SimulatedCluster, write_private
from apps.simulator.scenes import DEFAULT_SCENE, SCENES, describe_scenes
from apps.simulator.scenes.dump import read_dump
from apps.simulator.scenes.trace import read_trace

TOKEN_VARIABLE = "SIMULATED_CLUSTER_TOKEN"
LOOPBACK_TOKEN = "admin-token"

Json = dict[str, Any]


class Command(BaseCommand):
    help = "Run a simulated Kubernetes cluster: API server, kubelets, scheduler, controllers."
    requires_system_checks: list[str] = []
    requires_migrations_checks = False

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--port", type=int, default=0, help="port to listen on (0: any free one)")
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on (127.0.0.1)")
        parser.add_argument(
            "--advertise",
            default="",
            metavar="NAME",
            help="host name that others reach it by, in certificate and kubeconfig (127.0.0.1)",
        )
        parser.add_argument("--kubeconfig", type=Path, help="write a kubeconfig here, readable only by you")
        parser.add_argument(
            "--token",
            default=os.environ.get(TOKEN_VARIABLE, ""),
            help=f"bearer token of the administrator (better in {TOKEN_VARIABLE}: no process list shows it);"
            f" {LOOPBACK_TOKEN} on loopback, a random one elsewhere",
        )
        _add_what_it_holds(parser)
        parser.add_argument("--time-scale", type=float, default=1.0, help="divides all simulated durations")
        parser.add_argument(
            "--fault",
            action="append",
            default=[],
            help=f"NAME or NAME@NODE, repeatable: {', '.join(NAMED_FAULTS)}",
        )
        parser.add_argument(
            "--metrics-port", type=int, default=0, help="of the simulated Prometheus (0: any)"
        )
        parser.add_argument(
            "--scheduler-config",
            default="",
            metavar="FILE",
            help="a KubeSchedulerConfiguration: the extenders that the simulated scheduler asks",
        )
        parser.add_argument("--json", action="store_true", help="print both addresses, as one line of JSON")
        parser.add_argument("--list-scenes", action="store_true", help="say what there is, and end")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["list_scenes"]:
            for name, line in describe_scenes().items():
                self.stdout.write(f"{name}: {line}")
            return
        # A controller that loses a race says so; only what needs a person's eye is shown.
        logging.getLogger("apps.simulator").setLevel(logging.WARNING)
        try:
            objects = _read_objects(options)
            _check(options)
            told = options["scheduler_config"]
            settings = read_scheduler_settings(told) if told else SchedulerSettings()
            cluster = SimulatedCluster(
                objects,
                port=options["port"],
                token=options["token"] or _usual_token(options["host"]),
                time_scale=options["time_scale"],
                host=options["host"],
                advertised=options["advertise"],
                scheduler=settings,
            )
            asyncio.run(self._run(cluster, options))
        except (ValueError, OSError) as error:
            _refuse(str(error))

    async def _run(self, cluster: SimulatedCluster, options: Json) -> None:
        stopping = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stopping.set)
        if options["kubeconfig"]:
            # One of an earlier run would be taken for this one's.
            options["kubeconfig"].unlink(missing_ok=True)
        async with cluster, _metrics_of(cluster, options) as metrics:
            for text in options["fault"]:
                name, _, node = text.partition("@")
                await apply_fault(cluster, name, node)
            if options["kubeconfig"]:
                write_private(options["kubeconfig"], cluster.server.kubeconfig())
            told = json.dumps({"server": cluster.url, "prometheus": metrics.url})
            self.stdout.write(told if options["json"] else cluster.url)
            self.stdout.flush()
            await stopping.wait()


def _add_what_it_holds(parser: ArgumentParser) -> None:
    parser.add_argument("--scene", default="", help=f"one of {', '.join(SCENES)} ({DEFAULT_SCENE})")
    parser.add_argument(
        "--dump",
        action="append",
        default=[],
        help="start from a file of `kubectl get … -o json|yaml` (repeatable); - reads stdin",
    )
    parser.add_argument("--nodes", help="CSV of nodes: sn, cpu_milli, memory_mib, gpu, model")
    parser.add_argument("--pods", help="CSV of pods: name, cpu_milli, memory_mib, num_gpu, gpu_milli, …")
    parser.add_argument("--load", type=float, default=0.85, help="share of GPUs to fill from --pods")


@asynccontextmanager
async def _metrics_of(cluster: SimulatedCluster, options: Json) -> AsyncIterator[MetricsService]:
    assert cluster.control_plane
    assert cluster.control_plane.context
    nodes = cluster.control_plane.context.informers.store(NODES)
    history = History(nodes, time_scale=options["time_scale"])
    service = MetricsService(
        history, port=options["metrics_port"], host=options["host"], advertised=options["advertise"]
    )
    await service.start()
    try:
        yield service
    finally:
        await service.stop()


def _usual_token(host: str) -> str:
    return LOOPBACK_TOKEN if ipaddress.ip_address(host).is_loopback else secrets.token_urlsafe(32)


def _read_objects(options: Json) -> list[Json]:
    sources = [name for name in ("scene", "dump", "nodes") if options[name]]
    if len(sources) > 1:
        raise ValueError(f"--{sources[0]} and --{sources[1]} exclude each other: give one of them")
    if options["pods"] and not options["nodes"]:
        raise ValueError("--pods needs --nodes: give both CSV files")
    if options["dump"]:
        return read_dump(*options["dump"])
    if options["nodes"]:
        return read_trace(options["nodes"], options["pods"], load=options["load"])
    name = options["scene"] or DEFAULT_SCENE
    if name not in SCENES:
        raise ValueError(f"no scene {name!r}: choose one of {', '.join(SCENES)}")
    return SCENES[name]()


def _check(options: Json) -> None:
    for name in ("port", "metrics_port"):
        if not 0 <= options[name] <= 65535:
            shown = name.replace("_", "-")
            raise ValueError(f"--{shown} is {options[name]}: it must be between 0 and 65535")
    if options["time_scale"] <= 0:
        raise ValueError(f"--time-scale is {options['time_scale']}: it must be above 0")
    for name in options["fault"]:
        if name.partition("@")[0] not in NAMED_FAULTS:
            raise ValueError(f"no fault {name!r}: choose one of {', '.join(NAMED_FAULTS)}")


def _refuse(message: str) -> NoReturn:
    sys.stderr.write(f"simulate_cluster: {message.splitlines()[0]}\n")
    raise SystemExit(2)
