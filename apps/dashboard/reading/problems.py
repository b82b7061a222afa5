"""What the watcher could not read, as lines for the page: what, where, and what to do."""

from __future__ import annotations

from dataclasses import dataclass

from apps.clusters.models import Cluster


@dataclass(frozen=True, slots=True)
class Problem:
    tone: str
    symbol: str
    what: str
    detail: str


def tell_problems(cluster: Cluster) -> list[Problem]:
    """The watcher's own words. The rest of the picture stands beside them."""
    if not cluster.is_live:
        return [
            Problem(
                "warn",
                "tri",
                "A dump, not a live cluster.",
                f"{cluster.name} is shown as a file told it: plans can be made and read, not carried out.",
            )
        ]
    lines = []
    if not cluster.is_active:
        lines.append(
            Problem(
                "warn", "lock", "Watching is switched off.", f"{cluster.name} is registered but not active."
            )
        )
    if cluster.watch_error:
        lines.append(Problem("bad", "oct", f"Cluster {cluster.name} cannot be watched.", cluster.watch_error))
    for problem in cluster.problems:
        message = problem.get("message", "") if isinstance(problem, dict) else str(problem)
        kind = problem.get("kind", "") if isinstance(problem, dict) else ""
        if cluster.watch_error and (cluster.watch_error in message or message in cluster.watch_error):
            continue  # a cluster that is away is told once, not once more for each kind
        what = f"{kind} cannot be read" if kind else "A part cannot be read"
        lines.append(Problem("warn", "tri", f"{what}.", message.removeprefix(f"{what}: ")))
    return lines
