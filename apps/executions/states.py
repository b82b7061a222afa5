"""The lives of an execution and of a step, drawn once.

Execution:
QUEUED --> PREFLIGHT --> RUNNING <--> PAUSED
   RUNNING --> VERIFYING --> SUCCEEDED
   any open state --> CANCELLING --> CANCELLED
   RUNNING | PAUSED --> ROLLING_BACK --> ROLLED_BACK
   any open state --> FAILED | NEEDS_HUMAN (a person closes it)

Step:
PENDING --> INTENT --> ISSUED --> VERIFIED
   INTENT | ISSUED --> BLOCKED --> INTENT | ISSUED   (waits for the cluster, is tried again)
   PENDING | INTENT | ISSUED | BLOCKED --> SUPERSEDED (somebody else did it, or it no longer matters)
   ... --> FAILED; VERIFIED | ISSUED --> COMPENSATING --> COMPENSATED

INTENT is committed before the request leaves. A step found in INTENT after a crash may or may not
have reached the cluster, so it is observed before it is sent again.
"""

from django.db import models


class ExecutionState(models.TextChoices):
    QUEUED = "queued"
    PREFLIGHT = "preflight"
    RUNNING = "running"
    PAUSED = "paused"
    VERIFYING = "verifying"
    SUCCEEDED = "succeeded"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"
    ROLLING_BACK = "rolling_back"
    ROLLED_BACK = "rolled_back"
    FAILED = "failed"
    NEEDS_HUMAN = "needs_human"


TERMINAL = {
    ExecutionState.SUCCEEDED,
    ExecutionState.CANCELLED,
    ExecutionState.ROLLED_BACK,
    ExecutionState.FAILED,
}


class StepState(models.TextChoices):
    PENDING = "pending"
    INTENT = "intent"
    ISSUED = "issued"
    VERIFIED = "verified"
    BLOCKED = "blocked"
    SUPERSEDED = "superseded"
    FAILED = "failed"
    COMPENSATING = "compensating"
    COMPENSATED = "compensated"


class StepKind(models.TextChoices):
    """In the order in which a move walks them."""

    HOLD_TARGET = "hold_target"
    CORDON_NODE = "cordon_node"
    CHECKPOINT = "checkpoint"
    STEER = "steer"
    EVICT_POD = "evict_pod"
    AWAIT_REPLACEMENT = "await_replacement"
    HAND_OVER = "hand_over"
    RELEASE = "release"
