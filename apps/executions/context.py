"""What a step's module is given: the cluster's door under a lease, the ledger as it was read, the place
where our own objects live."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings

from apps.executions import names
from apps.executions.cluster_switch import SwitchSight
from apps.executions.console_lease import ConsoleSight
from apps.executions.deadlines import traces_end
from apps.executions.leased_gateway import LeasedGateway
from apps.executions.locks import Lease
from apps.executions.models import Execution, Step
from apps.executions.proving.scheduler_lease import SchedulerSight
from apps.executions.states import StepKind


@dataclass(frozen=True)
class Place:
    """namespace: ours in the cluster. ca_bundle: base64, as a webhook configuration wants it."""

    namespace: str
    steering_url: str
    ca_bundle: str
    settle_seconds: float


@dataclass(frozen=True)
class Context:
    """switch, console: the cluster's own kill switch and whose Lease it is, looked at before each new effect;
    None: nobody looks. scheduler: which one leads; None: nobody looks, so nothing relies on it."""

    gateway: LeasedGateway
    lease: Lease
    execution: Execution
    steps: Sequence[Step]
    now: datetime
    place: Place
    switch: SwitchSight | None = None
    console: ConsoleSight | None = None
    scheduler: SchedulerSight | None = None

    @property
    def mark(self) -> str:
        return names.mark_of(self.execution.pk, self.execution.created_at)

    @property
    def owned(self) -> str:
        """Value of our label on what this execution makes."""
        return names.owned_value(self.execution.pk, self.execution.created_at)

    @property
    def traces_deadline(self) -> str:
        """RFC 3339: from then on a trace of ours in the cluster is stale."""
        end = traces_end(self.execution)
        return end.isoformat() if end else ""

    @property
    def holder(self) -> dict[str, Any]:
        """What a taint of ours says of itself, for whoever finds it."""
        return {
            "execution": self.execution.pk,
            "mark": self.mark,
            "deadline": self.traces_deadline,
            "since": self.now.isoformat(timespec="seconds"),
        }

    def of_move(self, move: int, kind: StepKind) -> Step | None:
        return next((step for step in self.steps if step.move == move and step.kind == kind), None)

    def seen_of(self, move: int, kind: StepKind) -> dict[str, Any]:
        """What the ledger keeps of what was seen by another step of the same move."""
        step = self.of_move(move, kind)
        return step.observed.get("seen", {}) if step is not None else {}


def read_place() -> Place:
    bundle = ""
    if settings.STEERING_CA_FILE:
        bundle = base64.b64encode(Path(settings.STEERING_CA_FILE).read_bytes()).decode()
    return Place(
        namespace=settings.STEERING_NAMESPACE,
        steering_url=settings.STEERING_URL.rstrip("/"),
        ca_bundle=bundle,
        settle_seconds=settings.STEERING_SETTLE_SECONDS,
    )


def step_seconds(kind: str) -> float:
    """How long a step of this kind may take from its first look on."""
    seconds = {
        StepKind.CHECKPOINT: settings.EXECUTION_CHECKPOINT_SECONDS,
        StepKind.AWAIT_REPLACEMENT: settings.EXECUTION_REPLACEMENT_SECONDS,
        StepKind.HAND_OVER: settings.EXECUTION_HAND_OVER_SECONDS,
        StepKind.RECONFIGURE_MIG: settings.EXECUTION_MIG_SECONDS,
    }
    return float(seconds.get(StepKind(kind), settings.EXECUTION_STEP_SECONDS))


def is_late(step: Step, now: datetime) -> bool:
    return step.deadline_at is not None and now > step.deadline_at
