"""Watches the registered clusters until it is told to end."""

from __future__ import annotations

import signal
from argparse import SUPPRESS
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.clusters.queries import active_clusters
from apps.clusters.watcher import Watchers


class Command(BaseCommand):
    help = "Watch all active clusters (or the named ones) and keep their snapshots up to date."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.usage = SUPPRESS  # a wrong argument is answered in one line
        parser.add_argument("names", nargs="*", metavar="NAME", help="watch only these clusters")

    def handle(self, *args: Any, **options: Any) -> None:
        known = {cluster.name for cluster in active_clusters()}
        unknown = [name for name in options["names"] if name not in known]
        if unknown:
            raise CommandError(f"there is no active cluster {unknown[0]!r}: register it first", returncode=2)
        watchers = Watchers(options["names"])
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: watchers.stop())
        watchers.run()
