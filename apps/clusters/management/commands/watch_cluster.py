"""Watches the registered clusters until it is told to end."""

from __future__ import annotations

import signal
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from apps.clusters.watcher import Watchers


class Command(BaseCommand):
    help = "Watch all active clusters (or the named ones) and keep their snapshots up to date."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("names", nargs="*", metavar="NAME", help="watch only these clusters")

    def handle(self, *args: Any, **options: Any) -> None:
        watchers = Watchers(options["names"])
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: watchers.stop())
        watchers.run()
