"""Our own names in a cluster: labels, annotations, gate, taint. Values only."""

from __future__ import annotations

import hashlib

OWNED = "defrag.gpu.internal/owned"
HOLD = "defrag.gpu.internal/hold"
NEVER = "defrag.gpu.internal/never"
GATE = "defrag.gpu.internal/steer"
MIGRATION = "defrag.gpu.internal/migration"
CORDON = "defrag.gpu.internal/cordon"
HELD = "defrag.gpu.internal/held"
CHECKPOINT = "defrag.gpu.internal/checkpoint"
CHECKPOINT_REQUESTED = "defrag.gpu.internal/checkpoint-requested"
CHECKPOINT_DONE = "defrag.gpu.internal/checkpoint-done"
HOSTNAME = "kubernetes.io/hostname"


def held_value(key: str) -> str:
    """Value of the hand-over taint for a gang or pod: its key may hold what a taint may not."""
    return hashlib.sha256(key.encode()).hexdigest()[:16]


def hold_name(execution_id: int, move: int) -> str:
    return f"hold-{execution_id}-{move}"


def steering_name(execution_id: int, move: int) -> str:
    return f"steer-{execution_id}-{move}"


def webhook_name(steering: str) -> str:
    return f"gpu-defrag-{steering}"


def priority_class_name(value: int) -> str:
    return f"gpu-defrag-hold-{'m' if value < 0 else ''}{abs(value)}"
