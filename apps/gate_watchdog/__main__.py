"""Runs in the cluster beside the workloads (deploy/watchdog). With --once it looks once and ends."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from apps.gate_watchdog.api_server import ApiServer
from apps.gate_watchdog.watchdog import Watchdog

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class BadSettings(Exception):
    pass


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    options = _parser().parse_args(arguments)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s")
    try:
        watchdog = _watchdog(options, environment)
    except BadSettings as error:
        print(f"gate watchdog: {error}", file=sys.stderr)
        return 2
    if options.once:
        watchdog.look()
        return 0
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    watchdog.run(stop)
    return 0


def _watchdog(options: argparse.Namespace, environment: Mapping[str, str]) -> Watchdog:
    host, port = (
        environment.get("KUBERNETES_SERVICE_HOST", ""),
        environment.get("KUBERNETES_SERVICE_PORT", ""),
    )
    if options.server:
        host, port = _read_server(options.server)
    if not host or not port.isdecimal():
        raise BadSettings("KUBERNETES_SERVICE_HOST and _PORT are not set: run it in a pod, or give --server.")
    if not (options.every > 0 and options.after >= 0 and options.grace >= 0):
        raise BadSettings("--every is more than 0 seconds, --after and --grace are not negative.")
    api = ApiServer(host, int(port), options.account)
    return Watchdog(api, options.after, options.every, options.grace, options.namespace)


def _read_server(text: str) -> tuple[str, str]:
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", str(parts.port or 443)
    except ValueError:
        host = ""
    if not host or parts.scheme != "https":
        raise BadSettings("--server is an https address such as https://10.0.0.1:6443.")
    return host, port


def _parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(prog="python -m apps.gate_watchdog", description=__doc__)
    found.add_argument("--once", action="store_true", help="look once, then end")
    found.add_argument("--after", type=float, default=110.0, help="seconds behind our gate (110)")
    found.add_argument("--every", type=float, default=5.0, help="seconds between two looks (5)")
    found.add_argument("--grace", type=float, default=300.0, help="seconds past a deadline (300)")
    found.add_argument("--namespace", default="gpu-defrag", help="the console's own (gpu-defrag)")
    found.add_argument("--server", default="", help="the API server, outside a pod")
    found.add_argument("--account", type=Path, default=ACCOUNT, help="token and ca.crt (%(default)s)")
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
