"""`manage.py release_everything CLUSTER`: take all of ours out of a cluster, and say what is left and why."""

from __future__ import annotations

import json
import time
from argparse import SUPPRESS
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.clusters.errors import ConnectionFailed
from apps.clusters.models import Cluster
from apps.executions import runner
from apps.executions.errors import WrongState
from apps.executions.releasing import Outcome, Wish, open_executions_on, release_everything
from apps.executions.services import cancel_from_server
from apps.kube.errors import KubeError
from apps.planner.plain import one_line, visible_lines

LANDING_SECONDS = 120.0
"""How long cancelled executions get to land what is in the air."""


class Command(BaseCommand):
    help = "Take all of ours out of a cluster: steering, gates, holds, taints, cordons. Can be run again."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.usage = SUPPRESS  # a wrong argument is answered in one line
        parser.add_argument("cluster", help="name of a registered cluster")
        parser.add_argument("--stop-executions", action="store_true", help="cancel open executions first")
        parser.add_argument("--even-mid-mig", action="store_true", help="open nodes between two MIG layouts")
        parser.add_argument("--of-others", action="store_true", help="also what another console left")
        parser.add_argument(
            "--even-while-held", action="store_true", help="also while that console has the cluster's Lease"
        )
        parser.add_argument("--dry-run", action="store_true", help="only say what would be released")
        parser.add_argument("--json", action="store_true", help="answer in JSON on standard output")

    def handle(self, *args: Any, **options: Any) -> None:
        cluster = _find(options["cluster"])
        wish = Wish(
            options["even_mid_mig"],
            options["of_others"],
            options["dry_run"],
            of_stopped=options["stop_executions"],
            even_while_held=options["even_while_held"],
        )
        if not wish.dry_run:
            _end_executions(cluster, options["stop_executions"])
        try:
            outcome = release_everything(actor=None, cluster=cluster, wish=wish)
        except (WrongState, ConnectionFailed, KubeError) as error:
            raise CommandError(
                one_line(f"{cluster.name} was not released to the end: {error}"), returncode=2
            ) from error
        if options["json"]:
            left = [{"what": what, "why": why} for what, why in outcome.left.items()]
            self.stdout.write(json.dumps({"released": outcome.released, "left": left}))
        else:
            self.stdout.write(visible_lines(_as_text(cluster, outcome, wish)))


def _find(wanted: str) -> Cluster:
    cluster = Cluster.objects.filter(name=wanted).first()
    if cluster is None:
        known = ", ".join(Cluster.objects.values_list("name", flat=True)[:20]) or "none"
        raise CommandError(one_line(f"there is no cluster {wanted!r}: registered are {known}"), returncode=2)
    return cluster


def _end_executions(cluster: Cluster, is_allowed: bool) -> None:
    """Cancelled ones land what is in the air and give the rest back by themselves."""
    opened = open_executions_on(cluster)
    if opened and not is_allowed:
        numbers = ", ".join(str(row.pk) for row in opened)
        raise CommandError(
            f"executions are open on {cluster.name}: {numbers}. Cancel them or use --stop-executions.",
            returncode=2,
        )
    for row in opened:
        cancel_from_server(execution_id=row.pk, reason="everything is released")
    deadline = time.monotonic() + LANDING_SECONDS
    while (left := open_executions_on(cluster, of_stopped=True)) and time.monotonic() < deadline:
        for row in left:
            runner.advance(row.pk, seconds=1)
        time.sleep(settings.EXECUTION_POLL_SECONDS)  # a worker may be at it: it is not asked without end


def _as_text(cluster: Cluster, outcome: Outcome, wish: Wish) -> str:
    word = "would release" if wish.dry_run else "released"
    told = [f"{cluster.name}: {word} {len(outcome.released)}, left {len(outcome.left)}"]
    told += [f"  {word} {what}" for what in outcome.released]
    told += [f"  left {what}: {why}" for what, why in outcome.left.items()]
    return "\n".join(told)
