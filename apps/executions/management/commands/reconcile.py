"""`manage.py reconcile`: carry executions forward without any broker."""

from __future__ import annotations

import time
from argparse import SUPPRESS, ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from apps.clusters.models import Cluster
from apps.executions import queries, runner
from apps.executions.cluster_switch import look_at_switch
from apps.executions.flow import Ledger, steps_to_land
from apps.executions.models import Execution
from apps.executions.states import TERMINAL, ExecutionState, StepKind


class Command(BaseCommand):
    help = "Carry open executions forward, without Celery and without a broker."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.usage = SUPPRESS  # a wrong argument is answered in one line
        parser.add_argument("--execution", type=int, help="only this one")
        parser.add_argument(
            "--until-idle", action="store_true", help="stay until it has ended or waits for a person"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        ids = _chosen(options["execution"])
        # A paused execution does not look whether the kill switch in its cluster was lifted: who resumes it
        # goes by what a look like the timer's has kept.
        for cluster in Cluster.objects.filter(plans__executions__in=ids).distinct():
            look_at_switch(cluster)
        while True:
            for execution_id in ids:
                runner.advance(execution_id, stays=options["until_idle"])
            ids = [execution_id for execution_id in ids if _is_busy(execution_id)]
            if not ids or not options["until_idle"]:
                return
            time.sleep(settings.EXECUTION_POLL_SECONDS)


def _chosen(execution_id: int | None) -> list[int]:
    if execution_id is None:
        # The longest unseen first: one that ends this program keeps the next one from nobody else.
        return list(queries.open_executions().values_list("pk", flat=True))
    if not Execution.objects.filter(pk=execution_id).exists():
        raise CommandError(
            f"there is no execution {execution_id}: see the list of executions for its number", returncode=2
        )
    return [execution_id]


def _is_busy(execution_id: int) -> bool:
    execution = Execution.objects.get(pk=execution_id)
    if execution.state in TERMINAL:
        return False
    if execution.state in (ExecutionState.PAUSED, ExecutionState.NEEDS_HUMAN):
        flying = steps_to_land(Ledger(list(execution.steps.all())))
        landing = [step for step in flying if step.kind != StepKind.EVICT_POD]
        return any(not step.observed.get("needs_person") for step in landing)
    return True
