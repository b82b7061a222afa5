"""How fast simulated time runs, and how times are written.

`scale` divides every simulated duration (start of a pod, back-off, heartbeat). The wall clock in
the objects is always the real one. Nothing here sleeps.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime


@dataclass(frozen=True, slots=True)
class Pace:
    scale: float = 1.0

    def seconds(self, simulated: float) -> float:
        return simulated / self.scale

    def heartbeat_seconds(self, nodes: int) -> float:
        """Ten simulated seconds, but never more than a hundred heartbeats a second over all nodes."""
        return max(self.seconds(10.0), 0.25, nodes * 0.01)

    def heartbeat_grace_seconds(self, nodes: int) -> float:
        """How long a node may be silent. The floors keep a busy machine from losing healthy nodes: one
        program beats for all of them in turn, and with little of a processor a round takes far longer."""
        return max(self.seconds(50.0), 4 * self.heartbeat_seconds(nodes), nodes * 0.2, 5.0)


def now() -> datetime:
    return datetime.now(UTC)


def to_text(moment: datetime) -> str:
    """metav1.Time: whole seconds."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def to_micro_text(moment: datetime) -> str:
    """metav1.MicroTime: exactly six decimals, or the API server refuses it."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def from_text(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text.replace("Z", "+00:00")) if text else None


def seconds_since(text: str | None) -> float:
    """Age of an API time in real seconds; 0 when absent."""
    moment = from_text(text)
    return (now() - moment).total_seconds() if moment else 0.0
