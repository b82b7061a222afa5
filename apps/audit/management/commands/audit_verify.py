"""`manage.py audit_verify`: reads the whole ledger and says whether anybody touched it."""

from __future__ import annotations

import json
from argparse import SUPPRESS
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.audit.queries import verify_chain


class Command(BaseCommand):
    help = "Check the ledger's hash chain. Exit status 1 when it is broken, naming the first broken entry."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.usage = SUPPRESS  # a wrong argument is answered in one line
        parser.add_argument("--json", action="store_true", help="print one line of JSON")
        parser.add_argument(
            "--head", default="", help="a hash printed by an earlier run; it must still be there"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        verdict = verify_chain(known_head=options["head"])
        if options["json"]:
            self.stdout.write(json.dumps(verdict.as_dict()))
        elif verdict.is_intact:
            self.stdout.write(f"The ledger is intact: {verdict.entries} entries, head {verdict.head}")
        if not verdict.is_intact:
            where = f"entry {verdict.broken_id}" if verdict.broken_id is not None else "its end"
            raise CommandError(f"The ledger is broken at {where}: {verdict.reason}.", returncode=1)
