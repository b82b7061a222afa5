"""Runs on a GPU node (deploy/agent). With --once --print it shows both annotations and writes nothing."""

from __future__ import annotations

import argparse
import json
import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from apps.node_agent.agent import Agent, Places
from apps.node_agent.api_server import Account, ApiError, ApiServer
from apps.node_agent.devices import DriverUnreachable

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
NODE = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


class BadSettings(Exception):
    pass


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    try:
        agent = _agent(options, environment)
        if options.print:
            return _show(agent)
        if options.once:
            agent.step()
            return 0
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        agent.run(stop)
        return 0
    except BadSettings as error:
        print(f"node agent: {error}", file=sys.stderr)
        return 2
    except (ApiError, DriverUnreachable) as error:
        print(f"node agent: {error}", file=sys.stderr)
        return 1


def _show(agent: Agent) -> int:
    """Both annotations as one JSON object; 1 if one of them could not be made."""
    sight = agent.look()
    for sentence in sight.problems:
        print(f"node agent: {sentence}", file=sys.stderr)
    print(json.dumps(sight.documents, indent=1, ensure_ascii=False))
    return 0 if len(sight.documents) == 2 else 1


def _agent(options: argparse.Namespace, environment: Mapping[str, str]) -> Agent:
    node = environment.get("NODE_NAME", "")
    if not NODE.fullmatch(node):
        raise BadSettings("NODE_NAME is no name of a node: set it from spec.nodeName by the downward API.")
    host, port = (
        environment.get("KUBERNETES_SERVICE_HOST", ""),
        environment.get("KUBERNETES_SERVICE_PORT", ""),
    )
    if not host or not port.isdecimal():
        raise BadSettings("KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set: run it in a pod.")
    if not 1 <= options.every <= options.refresh:
        raise BadSettings("--every is at least 1 second and at most --refresh.")
    if not options.nvidia_smi.is_absolute():
        raise BadSettings("--nvidia-smi is an absolute path.")
    api = ApiServer(Account(host, int(port), options.account), node)
    places = Places(options.socket, options.nvidia_smi, options.sys)
    return Agent(api, places, every=options.every, refresh=options.refresh)


def _parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(prog="python -m apps.node_agent", description=__doc__)
    found.add_argument("--once", action="store_true", help="look and write once, then end")
    found.add_argument(
        "--print", action="store_true", help="with --once: show both annotations, write nothing"
    )
    found.add_argument("--every", type=float, default=30.0, help="seconds between two looks (30)")
    found.add_argument(
        "--refresh", type=float, default=300.0, help="seconds after which it writes in any case (300)"
    )
    places = Places()
    found.add_argument("--socket", type=Path, default=places.socket, help="the kubelet's (%(default)s)")
    found.add_argument("--nvidia-smi", type=Path, default=places.nvidia_smi, help="(%(default)s)")
    found.add_argument("--sys", type=Path, default=places.sys, help="where sysfs is (%(default)s)")
    found.add_argument("--account", type=Path, default=ACCOUNT, help="token and ca.crt (%(default)s)")
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
