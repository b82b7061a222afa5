"""Says where a cluster's telemetry is read from, for people at the server's command line."""

from __future__ import annotations

import sys
from argparse import SUPPRESS
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.clusters.models import Cluster
from apps.telemetry.errors import TelemetryError
from apps.telemetry.services import connect_prometheus


class Command(BaseCommand):
    help = "Read the telemetry of a cluster from a Prometheus; an empty address: from nowhere any more."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.usage = SUPPRESS  # a wrong argument is answered in one line
        parser.add_argument("name", help="of the registered cluster")
        parser.add_argument("address", help="https://host:port of its Prometheus, or ''")
        parser.add_argument(
            "--token-stdin", action="store_true", help="read a bearer token from standard input"
        )
        parser.add_argument("--no-check", action="store_true", help="do not ask it now")

    def handle(self, *args: Any, **options: Any) -> None:
        cluster = Cluster.objects.filter(name=options["name"]).first()
        if cluster is None:
            raise CommandError(f"there is no cluster {options['name']!r}: register it first", returncode=2)
        token = sys.stdin.readline().strip() if options["token_stdin"] else None
        try:
            source = connect_prometheus(
                actor=None,
                cluster_id=cluster.pk,
                address=options["address"],
                token=token,
                answers=not options["no_check"],
            )
        except TelemetryError as error:
            raise CommandError(str(error), returncode=2) from error
        told = f"is read from {source.address}" if source else "is read from nowhere"
        self.stdout.write(f"The telemetry of {cluster.name} {told}.")
