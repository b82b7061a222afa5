"""What else carrying plans out stands on: disruption budgets, MIG, metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from apps.clusters.mig_manager import MigManager
from apps.executions.cluster_preflight.lines import Line, Standing
from apps.planner.movability import UNREAD
from apps.planner.snapshot import Snapshot

BUDGETS, MIG, METRICS = "Disruption budgets", "MIG", "Metrics"


def judge_budgets(picture: Snapshot | None) -> Iterator[Line]:
    if picture is None:
        return
    for plural, sentence in UNREAD.items():
        if picture.cannot_read(plural):
            yield Line(
                BUDGETS, Standing.PLANNED_ONLY, sentence, "No pod counts as movable.",
                "kubectl apply -f deploy/rbac/reader.yaml",
            )  # fmt: skip
            return
    closed = sum(1 for budget in picture.budgets.values() if budget.disruptions_allowed < 1)
    many = len(picture.budgets)
    found = f"{many} disruption {'budget is' if many == 1 else 'budgets are'} read"
    yield Line(
        BUDGETS, Standing.OK, f"{found}; {closed} of them allow nothing now." if closed else f"{found}.",
        "Pods under a budget that allows nothing are left alone." if closed else "",
    )  # fmt: skip


def judge_mig(picture: Snapshot | None, manager: MigManager | None) -> Iterator[Line]:
    """manager: None where no node of the cluster can be cut."""
    if picture is None:
        return
    capable = [node for node in picture.nodes.values() if node.labels.get("nvidia.com/mig.capable") == "true"]
    if not capable or manager is None:
        yield Line(MIG, Standing.TOLD, "No node says that its GPUs can be cut (nvidia.com/mig.capable).")
        return
    strategies = Counter(node.mig_strategy or "not told" for node in capable)
    told = ", ".join(
        f"{count} {'node' if count == 1 else 'nodes'} {name}" for name, count in sorted(strategies.items())
    )
    uneven = any(name != "mixed" for name in strategies)
    yield Line(
        MIG, Standing.TOLD if uneven else Standing.OK, f"mig.strategy: {told}.",
        "Only nodes with the strategy mixed are cut anew; the others are planned only." if uneven else "",
        "Set mig.strategy=mixed in the GPU operator." if uneven else "",
    )  # fmt: skip
    if manager.problem:
        yield Line(
            MIG, Standing.PLANNED_ONLY, manager.problem,
            "MIG layouts are planned only; moves are not concerned.",
            "Install or mend mig-manager (NVIDIA's GPU operator) if GPUs are to be cut anew here.",
        )  # fmt: skip
    elif manager.flags:
        yield Line(
            MIG, Standing.WARNING, f"mig-manager runs with {manager.flags}.",
            "Cutting one GPU anew stops every user of its node: the whole node is drained first.",
        )  # fmt: skip
    else:
        yield Line(MIG, Standing.OK, f"mig-manager is there and knows {len(manager.configs)} named layouts.")


def judge_metrics(is_connected: bool, error: str) -> Iterator[Line]:
    if not is_connected:
        yield Line(
            METRICS, Standing.TOLD, "No Prometheus is connected.",
            "Use of the GPUs is not measured; plans go by requests, as the scheduler does.",
            "Name its address on the page Clusters.",
        )  # fmt: skip
    elif error:
        yield Line(
            METRICS, Standing.WARNING, f"Its Prometheus cannot be read: {error}", "Use is not measured now."
        )
    else:
        yield Line(METRICS, Standing.OK, "Its Prometheus is read.")
