"""Reads what kubectl printed of a cluster, without database or cluster."""

from __future__ import annotations

import json
from argparse import SUPPRESS
from typing import Any

from django.core.management.base import CommandParser

from apps.clusters.answering import OfflineCommand
from apps.clusters.dump_answers import answer_dump
from apps.clusters.dump_table import as_table
from apps.clusters.input_files import name_of, read_bytes


class Command(OfflineCommand):
    help = "Read a dump of a cluster: the devices of each node and who may have them, and what pods ask for."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.usage = SUPPRESS  # a wrong argument is answered in one line
        parser.add_argument(
            "files",
            nargs="+",
            metavar="file",
            help="kubectl get nodes,pods,… -A -o json or yaml, or kubectl describe node; - is standard input",
        )
        parser.add_argument("--json", action="store_true", help="answer in JSON on standard output")

    def handle(self, *args: Any, **options: Any) -> None:
        answer = answer_dump([(name_of(path), read_bytes(path)) for path in options["files"]])
        if options["json"]:
            self.stdout.write(json.dumps(answer))
        else:
            self.tell(as_table(answer))
