"""`manage.py held_now [CLUSTER]`: what of ours is in clusters now, by fresh LISTs."""

from __future__ import annotations

import json
from argparse import SUPPRESS
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from apps.clusters.errors import ConnectionFailed
from apps.clusters.models import Cluster
from apps.clusters.queries import active_clusters
from apps.executions import ledger
from apps.executions.holdings import Held, Reading, held_to_dict, holdings_of
from apps.kube.errors import KubeError
from apps.planner.plain import one_line, visible_lines


class Command(BaseCommand):
    help = "What of ours is in a cluster now: cordons, taints, gates, holds, steering. Changes nothing there."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.usage = SUPPRESS  # a wrong argument is answered in one line
        parser.add_argument("cluster", nargs="?", help="name of a registered cluster; all that are watched")
        parser.add_argument("--json", action="store_true", help="answer in JSON on standard output")

    def handle(self, *args: Any, **options: Any) -> None:
        found = [(cluster, _look(cluster)) for cluster in _chosen(options["cluster"])]
        if options["json"]:
            answer = [
                {"cluster": cluster.name, "held": _as_json(reading.held), "unread": reading.unread}
                for cluster, reading in found
            ]
            self.stdout.write(json.dumps(answer, default=str))
        else:
            for cluster, reading in found:
                self.stdout.write(visible_lines(_as_text(cluster, reading)))


def _chosen(wanted: str | None) -> list[Cluster]:
    if wanted is None:
        return list(active_clusters())
    cluster = Cluster.objects.filter(name=wanted).first()
    if cluster is None:
        names = ", ".join(Cluster.objects.values_list("name", flat=True)[:20]) or "none"
        raise CommandError(one_line(f"there is no cluster {wanted!r}: registered are {names}"), returncode=2)
    return [cluster]


def _look(cluster: Cluster) -> Reading:
    try:
        return holdings_of(cluster)
    except (ConnectionFailed, KubeError) as error:
        raise CommandError(one_line(f"{cluster.name} cannot be looked at: {error}"), returncode=2) from error


def _as_json(held: list[Held]) -> list[dict[str, Any]]:
    now = ledger.database_time()
    return [
        {
            **held_to_dict(one),
            "age_seconds": int((now - one.since).total_seconds()) if one.since else None,
            "is_overdue": one.deadline is not None and one.deadline < now,
        }
        for one in held
    ]


def _as_text(cluster: Cluster, reading: Reading) -> str:
    now = ledger.database_time()
    told = [f"{cluster.name}: {len(reading.held)} held"]
    for one in reading.held:
        until = f", until {one.deadline:%Y-%m-%d %H:%M} UTC" if one.deadline else ""
        late = " (overdue)" if one.deadline and one.deadline < now else ""
        owner = f"execution {one.execution}" if one.execution else one.owned or "no owner told"
        told.append(
            f"  {one.what} on {one.where}: {one.standing}, {owner}{until}{late} {one.detail}".rstrip()
        )
    told += [f"  {sentence}" for sentence in reading.unread]
    return "\n".join(told)
