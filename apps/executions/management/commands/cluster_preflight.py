"""`manage.py cluster_preflight NAME`: look at a cluster now and say what plans can be carried out there."""

from __future__ import annotations

import json
from argparse import SUPPRESS
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.clusters.models import Cluster
from apps.executions.cluster_preflight import keeping
from apps.executions.cluster_preflight.lines import Line, Standing, line_to_dict
from apps.executions.shadow.standing import why_shadow
from apps.planner.plain import one_line, visible_lines

SIGNS = {
    Standing.OK: "ok      ",
    Standing.TOLD: "note    ",
    Standing.WARNING: "warning ",
    Standing.PLANNED_ONLY: "planned ",
    Standing.UNKNOWN: "unknown ",
}


class Command(BaseCommand):
    help = "Look at a cluster now: what is found, what it means, what to do. Changes nothing there."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.usage = SUPPRESS  # a wrong argument is answered in one line
        parser.add_argument("name", help="of a registered cluster")
        parser.add_argument("--json", action="store_true", help="answer in JSON on standard output")

    def handle(self, *args: Any, **options: Any) -> None:
        cluster = Cluster.objects.filter(name=options["name"]).first()
        if cluster is None:
            names = ", ".join(Cluster.objects.values_list("name", flat=True)[:20]) or "none"
            raise CommandError(
                one_line(f"there is no cluster {options['name']!r}: registered are {names}"), returncode=2
            )
        row = keeping.look_now(cluster.pk)
        if row.error:
            raise CommandError(one_line(f"{cluster.name} cannot be looked at: {row.error}"), returncode=2)
        lines, shadow = keeping.lines_of(row), why_shadow(cluster)
        if options["json"]:
            answer = {
                "cluster": cluster.name,
                "looked_at": row.looked_at.isoformat() if row.looked_at else None,
            }
            self.stdout.write(
                json.dumps({**answer, "shadow": shadow, "lines": [line_to_dict(line) for line in lines]})
            )
        else:
            self.stdout.write(visible_lines(as_text(lines, shadow)))


def as_text(lines: list[Line], shadow: str) -> str:
    told = [f"In shadow: {shadow}."] if shadow else []
    subject = ""
    for line in lines:
        if line.subject != subject:
            subject = line.subject
            told.append(subject)
        told.append(f"  {SIGNS[line.standing]}{line.found}")
        told += [f"          {text}" for text in (line.means, line.action) if text]
    return "\n".join(told)
