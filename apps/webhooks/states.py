"""What people can be told of, and by which entries of the ledger."""

EVENTS: dict[str, tuple[str, ...]] = {
    "plan.submitted": ("plan.proposed",),
    "plan.approved": ("plan.approved",),
    "plan.rejected": ("plan.rejected",),
    "execution.started": ("execution.started",),
    "execution.stopped": ("execution.paused", "execution.needs_human"),
    "execution.ended": (
        "execution.succeeded",
        "execution.cancelled",
        "execution.rolled_back",
        "execution.failed",
    ),
    "alert.raised": ("alert.raised",),
    "alert.cleared": ("alert.cleared",),
    "owner.told": ("owner.told",),
}
EVENT_OF = {action: event for event, actions in EVENTS.items() for action in actions}
