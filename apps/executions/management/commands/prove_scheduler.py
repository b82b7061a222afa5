"""`manage.py prove_scheduler CLUSTER`: whether its scheduler asks our extender, and waits for it."""

from __future__ import annotations

import json
from argparse import SUPPRESS
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.clusters.queries import active_clusters
from apps.executions.errors import HeldByPolicy, WrongState
from apps.executions.models import SchedulerProof
from apps.executions.proving.asking import order_proof
from apps.executions.proving.working import work_on_proof
from apps.executions.states import Obedience
from apps.planner.plain import one_line


class Command(BaseCommand):
    help = (
        "Prove with pods of the console that a cluster's scheduler asks the extender and waits for it. "
        "Exit status 0: it does, 1: it does not, 2: nothing was shown."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.usage = SUPPRESS  # a wrong argument is answered in one line
        parser.add_argument("cluster", help="name of a watched cluster")
        parser.add_argument("--json", action="store_true", help="answer in JSON on standard output")

    def handle(self, *args: Any, **options: Any) -> None:
        cluster = active_clusters().filter(name=options["cluster"]).first()
        if cluster is None:
            raise CommandError(
                one_line(f"there is no watched cluster {options['cluster']!r}: look at its name"),
                returncode=2,
            )
        try:
            asked = order_proof(actor=None, cluster=cluster)
        except (WrongState, HeldByPolicy) as error:
            raise CommandError(one_line(f"nothing was sent: {error}"), returncode=2) from error
        work_on_proof(asked.pk)
        row = SchedulerProof.objects.get(pk=asked.pk)
        if row.ended_at is None:
            raise CommandError(
                "a worker is at this proof as well: its answer comes on the page", returncode=2
            )
        if options["json"]:
            told = {"cluster": cluster.name, "result": row.result, "words": row.words, "holder": row.holder}
            self.stdout.write(json.dumps(told))
        else:
            self.stdout.write(one_line(f"{cluster.name}: {row.words}."))
        if row.result != Obedience.OBEYS:
            raise SystemExit(2 if row.result == Obedience.UNPROVEN else 1)
