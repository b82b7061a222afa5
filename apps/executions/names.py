"""Our own names in a cluster: labels, annotations, gate, taint. Values only."""

from __future__ import annotations

import hashlib
from datetime import datetime

OWNED = "defrag.gpu.internal/owned"
HOLD = "defrag.gpu.internal/hold"
NEVER = "defrag.gpu.internal/never"
GATE = "defrag.gpu.internal/steer"
MIGRATION = "defrag.gpu.internal/migration"
CORDON = "defrag.gpu.internal/cordon"
HELD = "defrag.gpu.internal/held"
HELD_BY = "defrag.gpu.internal/held-by"
DEADLINE = "defrag.gpu.internal/deadline"
FORM = "defrag.gpu.internal/form"
STEERING_POLICY = "gpu-defrag-steering"
CHECKPOINT = "defrag.gpu.internal/checkpoint"
CHECKPOINT_REQUESTED = "defrag.gpu.internal/checkpoint-requested"
CHECKPOINT_DONE = "defrag.gpu.internal/checkpoint-done"
PROOF = "defrag.gpu.internal/proof"
"""On a pod of a proof: "TOKEN.PART"."""
HOSTNAME = "kubernetes.io/hostname"


def held_value(key: str) -> str:
    """Value of the hand-over taint for a gang or pod: its key may hold what a taint may not."""
    return hashlib.sha256(key.encode()).hexdigest()[:16]


def mark_of(execution_id: int, created_at: datetime) -> str:
    """Tells this execution from one with the same number of another console, or of an earlier database."""
    return hashlib.sha256(f"{execution_id} {created_at.timestamp():.6f}".encode()).hexdigest()[:8]


def owned_value(execution_id: int, created_at: datetime) -> str:
    """Value of our label on whatever an execution makes in a cluster."""
    return f"{execution_id}-{mark_of(execution_id, created_at)}"


def hold_name(owned: str, move: int) -> str:
    return f"hold-{owned}-{move}"


def steering_name(owned: str, move: int) -> str:
    """move: the first of those that are steered together."""
    return f"steer-{owned}-{move}"


def webhook_name(steering: str) -> str:
    return f"gpu-defrag-{steering}"


def priority_class_name(value: int) -> str:
    return f"gpu-defrag-hold-{'m' if value < 0 else ''}{abs(value)}"
