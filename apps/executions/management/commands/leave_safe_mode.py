"""`manage.py leave_safe_mode CLUSTER`: see what a cluster carries that this database does not know, then go
on."""

from __future__ import annotations

import json
from argparse import SUPPRESS
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.clusters.errors import ConnectionFailed
from apps.clusters.models import Cluster
from apps.executions import safe_mode
from apps.executions.errors import WrongState
from apps.executions.models import ClusterSafety
from apps.kube.errors import KubeError
from apps.planner.plain import one_line, visible_lines


class Command(BaseCommand):
    help = (
        "What a cluster in safe mode carries that this database does not know; with --seen: leave safe mode."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.usage = SUPPRESS  # a wrong argument is answered in one line
        parser.add_argument("cluster", help="name of a registered cluster")
        parser.add_argument("--seen", help="mark of the list that you have looked at: leave safe mode")
        parser.add_argument("--reason", default="", help="why, for the audit ledger")
        parser.add_argument("--json", action="store_true", help="answer in JSON on standard output")

    def handle(self, *args: Any, **options: Any) -> None:
        cluster = _find(options["cluster"])
        try:
            if options["seen"]:
                safe_mode.leave(
                    actor=None, cluster=cluster, seen=options["seen"], reason=options["reason"][:500]
                )
                row = None
            else:
                row = safe_mode.look_and_keep(cluster, is_due=False)
        except (WrongState, ConnectionFailed, KubeError) as error:
            raise CommandError(one_line(f"{cluster.name} stays as it is: {error}"), returncode=2) from error
        if options["json"]:
            self.stdout.write(json.dumps(_as_json(cluster, row)))
        else:
            self.stdout.write(visible_lines(_as_text(cluster, row, has_left=bool(options["seen"]))))


def _find(wanted: str) -> Cluster:
    cluster = Cluster.objects.filter(name=wanted).first()
    if cluster is None:
        known = ", ".join(Cluster.objects.values_list("name", flat=True)[:20]) or "none"
        raise CommandError(one_line(f"there is no cluster {wanted!r}: registered are {known}"), returncode=2)
    return cluster


def _as_json(cluster: Cluster, row: ClusterSafety | None) -> dict[str, Any]:
    if row is None or row.safe_since is None:
        return {"cluster": cluster.name, "since": None}
    return {
        "cluster": cluster.name,
        "since": row.safe_since.isoformat(),
        "reason": row.safe_reason,
        "found": row.safe_found,
        "seen": safe_mode.mark_of(row.safe_found),
    }


def _as_text(cluster: Cluster, row: ClusterSafety | None, *, has_left: bool) -> str:
    if row is None or row.safe_since is None:
        return f"{cluster.name} has left safe mode." if has_left else f"{cluster.name} is not in safe mode."
    told = [f"{cluster.name} is in safe mode since {row.safe_since:%Y-%m-%d %H:%M} UTC: {row.safe_reason}"]
    told += [f"  {one}" for one in row.safe_found] or [
        "  The cluster carries nothing that is not known here."
    ]
    mark = safe_mode.mark_of(row.safe_found)
    return "\n".join([*told, f"If that may be left as it is: leave_safe_mode {cluster.name} --seen {mark}"])
