"""Registers a cluster from a kubeconfig or a dump, for people at the server's command line."""

from __future__ import annotations

import json
import sys
from argparse import SUPPRESS
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.clusters.errors import ClusterError, NameTaken
from apps.clusters.models import Cluster
from apps.clusters.services import register_cluster, register_dump, replace_credentials


class Command(BaseCommand):
    help = "Register a cluster. The kubeconfig is reduced to server, CA, and token or client certificate."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.usage = SUPPRESS  # a wrong argument is answered in one line
        parser.add_argument("name", help="lower-case letters, digits and dashes")
        source = parser.add_mutually_exclusive_group(required=True)
        source.add_argument("--kubeconfig", metavar="FILE", help="- reads standard input")
        source.add_argument(
            "--dump", nargs="+", metavar="FILE", help="look at what kubectl wrote instead of a live cluster"
        )
        parser.add_argument(
            "--replace", action="store_true", help="if it is registered already, give it these credentials"
        )
        parser.add_argument(
            "--rebuilt",
            action="store_true",
            help="like --replace, for a cluster that was built anew: pin its new identity",
        )
        parser.add_argument("--no-check", action="store_true", help="do not connect to it now")
        parser.add_argument(
            "--allow-insecure",
            action="store_true",
            help="accept insecure-skip-tls-verify (never in production)",
        )
        parser.add_argument("--json", action="store_true", help="one JSON line on standard output")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            cluster = self._register(options)
        except ClusterError as error:
            raise CommandError(str(error), returncode=2) from error
        facts = {
            "name": cluster.name,
            "source": cluster.source,
            "server": cluster.server,
            "version": cluster.version,
        }
        if options["json"]:
            self.stdout.write(json.dumps(facts))
        else:
            version = f" ({cluster.version})" if cluster.version else ""
            self.stdout.write(f"Registered {cluster.name}: {cluster.server or 'a dump'}{version}.")

    def _register(self, options: dict[str, Any]) -> Cluster:
        if options["dump"]:
            paths = [(Path(name).name, Path(name).absolute()) for name in options["dump"]]
            return register_dump(actor=None, name=options["name"], paths=paths)
        text = _read_text(options["kubeconfig"])
        insecure = options["allow_insecure"]
        try:
            return register_cluster(
                actor=None,
                name=options["name"],
                kubeconfig=text,
                check=not options["no_check"],
                allow_insecure=insecure,
            )
        except NameTaken:
            if not (options["replace"] or options["rebuilt"]):
                raise
        cluster = Cluster.objects.get(name=options["name"])
        return replace_credentials(
            actor=None,
            cluster_id=cluster.pk,
            kubeconfig=text,
            allow_insecure=insecure,
            rebuilt=options["rebuilt"],
        )


def _read_text(path: str) -> str:
    try:
        return sys.stdin.read() if path == "-" else Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise CommandError(f"{path} cannot be read: {reason}.", returncode=2) from error
