"""`manage.py serve_extender`: the scheduler extender of one cluster, over HTTP or TLS."""

from __future__ import annotations

import ssl
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from aiohttp import web
from django.core.management.base import BaseCommand, CommandError

from apps.clusters.errors import ClusterError
from apps.clusters.queries import active_clusters
from apps.placing.rules import LIMITS
from apps.scheduling.extender.assembling import make_tls
from apps.scheduling.extender.keeping import make_kept_extender
from apps.scheduling.extender.options import WhenStale
from apps.scheduling.extender.policies import POLICIES

LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Command(BaseCommand):
    help = "Serve the scheduler extender of one registered cluster (filter, prioritize, preempt, bind)."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--cluster", required=True, help="name of the cluster")
        parser.add_argument("--listen", default="127.0.0.1:8890", help="HOST:PORT")
        parser.add_argument("--cert", type=Path, help="serve TLS with this certificate")
        parser.add_argument("--key", type=Path)
        parser.add_argument(
            "--client-ca", type=Path, help="only callers with a certificate of this authority are answered"
        )
        row = "instead of the one in the cluster's placement policy"
        parser.add_argument("--policy", choices=sorted(POLICIES), help=f"the scoring policy, {row}")
        parser.add_argument("--when-stale", choices=[str(one) for one in WhenStale], help=row)
        parser.add_argument("--stale-after", type=float, metavar="SECONDS", help=f"age of the picture, {row}")
        parser.add_argument(
            "--bind", action="store_true", help="answer the bind verb, whatever that policy says"
        )
        parser.add_argument(
            "--reserved-mib", type=int, help=f"of each GPU's memory, never given out in shares, {row}"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        host, port = _address(options["listen"])
        cluster = active_clusters().filter(name=options["cluster"]).first()
        if cluster is None:
            raise CommandError(
                f"there is no watched cluster {options['cluster']!r}: register it first, or look at its name",
                returncode=2,
            )
        tls = _tls(options)
        if options["bind"] and tls is None and host not in LOOPBACK:
            raise CommandError(
                "--bind changes the cluster for whoever can call it, and without TLS its address is no "
                "secret: give --cert and --key, or listen on 127.0.0.1",
                returncode=2,
            )
        fixed = _fixed(options)
        # Who is told apart by a certificate, or is on this machine, needs no secret in the address.
        is_open = bool(options["client_ca"]) or host in LOOPBACK
        try:
            app = make_kept_extender(cluster, fixed, is_open=is_open)
        except ClusterError as error:
            raise CommandError(str(error), returncode=2) from None
        where = f"{'https' if tls else 'http'}://{host}:{port}"
        try:
            web.run_app(
                app,
                host=host,
                port=port,
                ssl_context=tls,
                access_log=None,
                print=lambda *_: self.stdout.write(f"extender of {cluster.name} listens on {where}"),
                shutdown_timeout=2,
            )
        except OSError as error:
            raise CommandError(
                f"cannot listen on {host}:{port} ({error.strerror}): choose another --listen", returncode=2
            ) from None


def _fixed(options: dict[str, Any]) -> dict[str, Any]:
    """What was given on the command line, by the name of the option that it fixes."""
    _require_within("--stale-after", options["stale_after"], "stale_after_seconds")
    _require_within("--reserved-mib", options["reserved_mib"], "reserved_mib")
    names = ("policy", "stale_after", "reserved_mib")
    found = {name: options[name] for name in names if options[name] is not None}
    if options["bind"]:
        found["binds"] = True
    if options["when_stale"] is not None:
        found["when_stale"] = WhenStale(options["when_stale"])
    return found


def _require_within(option: str, value: float | None, field: str) -> None:
    """As the placement policy takes it; a negative reserve would give out more memory than there is."""
    low, high = LIMITS[field]
    if value is not None and not low <= value <= high:
        raise CommandError(f"{option} is {value:g}: take {low} to {high}", returncode=2)


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise CommandError(f"--listen wants HOST:PORT, such as 127.0.0.1:8890, not {text!r}", returncode=2)
    return host.strip("[]"), int(port)


def _tls(options: dict[str, Any]) -> ssl.SSLContext | None:
    files = [options["cert"], options["key"]]
    if not any(files):
        if options["client_ca"]:
            raise CommandError("--client-ca wants TLS: give --cert and --key as well", returncode=2)
        return None
    for name, file in zip(("--cert", "--key"), files, strict=True):
        if file is None or not file.is_file():
            raise CommandError(f"{name}: there is no file {file}; TLS wants both", returncode=2)
    if options["client_ca"] and not options["client_ca"].is_file():
        raise CommandError(f"--client-ca: there is no file {options['client_ca']}", returncode=2)
    try:
        return make_tls(str(files[0]), str(files[1]), str(options["client_ca"] or ""))
    except (ssl.SSLError, OSError) as error:
        raise CommandError(f"the certificate cannot be used: {error}", returncode=2) from None
