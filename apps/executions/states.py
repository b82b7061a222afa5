"""The lives of an execution and of a step, drawn once.

Execution:
QUEUED --> PREFLIGHT --> RUNNING <--> PAUSED
   PAUSED --> PAUSED   (a person makes the pause of a freeze window a lasting one)
   RUNNING --> VERIFYING --> SUCCEEDED
   RUNNING | VERIFYING | CANCELLING | ROLLING_BACK --> NEEDS_HUMAN   (a person resumes, cancels or rolls back)
   any open state --> CANCELLING --> CANCELLED
   any open state --> ROLLING_BACK --> ROLLED_BACK
   QUEUED | PREFLIGHT --> FAILED   (nothing was touched)

Step:
PENDING --> INTENT --> ISSUED --> VERIFIED
   INTENT | ISSUED --> BLOCKED --> INTENT | ISSUED   (waits for the cluster, is tried again)
   PENDING | INTENT | ISSUED | BLOCKED --> SUPERSEDED (somebody else did it, or it no longer matters)
   ... --> FAILED; VERIFIED | ISSUED --> COMPENSATING --> COMPENSATED
   COMPENSATING --> SUPERSEDED   (a person put right by hand what could not be undone)

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

_STOPS = {ExecutionState.CANCELLING, ExecutionState.ROLLING_BACK}

ALLOWED: dict[ExecutionState, set[ExecutionState]] = {
    ExecutionState.QUEUED: {ExecutionState.PREFLIGHT, ExecutionState.FAILED, *_STOPS},
    ExecutionState.PREFLIGHT: {ExecutionState.RUNNING, ExecutionState.FAILED, *_STOPS},
    ExecutionState.RUNNING: {
        ExecutionState.PAUSED,
        ExecutionState.VERIFYING,
        ExecutionState.NEEDS_HUMAN,
        *_STOPS,
    },
    ExecutionState.PAUSED: {
        ExecutionState.PAUSED,
        ExecutionState.RUNNING,
        ExecutionState.NEEDS_HUMAN,
        *_STOPS,
    },
    ExecutionState.VERIFYING: {ExecutionState.SUCCEEDED, ExecutionState.NEEDS_HUMAN, *_STOPS},
    ExecutionState.NEEDS_HUMAN: {ExecutionState.RUNNING, *_STOPS},
    ExecutionState.CANCELLING: {
        ExecutionState.CANCELLED,
        ExecutionState.ROLLING_BACK,
        ExecutionState.NEEDS_HUMAN,
    },
    ExecutionState.ROLLING_BACK: {ExecutionState.ROLLED_BACK, ExecutionState.NEEDS_HUMAN},
    ExecutionState.SUCCEEDED: set(),
    ExecutionState.CANCELLED: set(),
    ExecutionState.ROLLED_BACK: set(),
    ExecutionState.FAILED: set(),
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


FINISHED = {StepState.VERIFIED, StepState.SUPERSEDED, StepState.FAILED, StepState.COMPENSATED}
"""Nothing more is to be done for a step in one of these."""

STEP_ALLOWED: dict[StepState, set[StepState]] = {
    StepState.PENDING: {StepState.INTENT, StepState.VERIFIED, StepState.BLOCKED, StepState.SUPERSEDED},
    StepState.INTENT: {
        StepState.ISSUED,
        StepState.VERIFIED,
        StepState.BLOCKED,
        StepState.SUPERSEDED,
        StepState.FAILED,
        StepState.COMPENSATING,
    },
    StepState.ISSUED: {
        StepState.INTENT,
        StepState.VERIFIED,
        StepState.BLOCKED,
        StepState.SUPERSEDED,
        StepState.FAILED,
        StepState.COMPENSATING,
    },
    StepState.BLOCKED: {
        StepState.INTENT,
        StepState.ISSUED,
        StepState.VERIFIED,
        StepState.SUPERSEDED,
        StepState.FAILED,
        StepState.COMPENSATING,
    },
    StepState.VERIFIED: {StepState.COMPENSATING},
    StepState.FAILED: {StepState.COMPENSATING},
    StepState.SUPERSEDED: set(),
    StepState.COMPENSATING: {StepState.COMPENSATED, StepState.SUPERSEDED},
    StepState.COMPENSATED: set(),
}


class StepKind(models.TextChoices):
    """In the order in which an execution walks them: nodes, then each move, then the pods that give way, then
    the freed nodes. GPUs are
    cut anew before the moves (where nobody uses them) or after them (where the moves drain them)."""

    CORDON_NODE = "cordon_node"
    HOLD_TARGET = "hold_target"
    CHECKPOINT = "checkpoint"
    STEER = "steer"
    EVICT_POD = "evict_pod"
    AWAIT_REPLACEMENT = "await_replacement"
    HAND_OVER = "hand_over"
    RELEASE = "release"
    RECONFIGURE_MIG = "reconfigure_mig", "Reconfigure MIG"
    PREEMPT_POD = "preempt_pod"
    NAME_LAYOUT = "name_layout"
    HOLD_NODE = "hold_node"
    RELEASE_NODE = "release_node"
    LOWER_MEMORY = "lower_memory"


SUCCESSES = {
    StepKind.LOWER_MEMORY,
    StepKind.AWAIT_REPLACEMENT,
    StepKind.RECONFIGURE_MIG,
    StepKind.PREEMPT_POD,
    StepKind.HAND_OVER,
}
"""Verified, one of these shows that changes of the cluster work: failures are counted anew from there."""


class Obedience(models.TextChoices):
    """What a cluster's scheduler was seen to do with our extender's answers."""

    OBEYS = "obeys", "it asks the extender, and waits while that does not answer"
    IGNORES = "ignores", "it asks the extender, and goes on alone where that does not answer (ignorable)"
    NEVER_ASKS = "never-asks", "it does not ask the extender"
    UNPROVEN = "unproven", "nothing was proved"
