"""What is looked at in a cluster right before anything new is sent: its kill switch, and its Lease."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext

from apps.clusters.models import Cluster
from apps.executions.cluster_switch import keep, why_unread
from apps.executions.console_standing import is_held, seconds_held
from apps.executions.context import Context
from apps.executions.decisions import Decision, blocked
from apps.executions.leased_gateway import seconds_per_call
from apps.executions.states import ExecutionState

UNREADABLE = "kill-switch-unreadable"
LEASE_UNREADABLE = "lease-unreadable"


def prove_age(context: Context) -> None:
    """Before what lands or undoes: see `ConsoleSight.prove`."""
    if context.console is not None:
        context.lease.ensure(seconds_per_call())
        context.console.prove()


def only_while_ours(context: Context, during: Collection[str]) -> AbstractContextManager[None]:
    """Around the sending of what is new: between its intent and its request another console may have taken
    the cluster. What lands or undoes needs no Lease."""
    if context.console is None or ExecutionState.RUNNING not in during:
        return nullcontext()
    cluster = context.execution.plan.cluster
    return context.gateway.while_ours(lambda: seconds_held(cluster))


def why_unsure(context: Context, cluster: Cluster) -> Decision | None:
    """Keeps what is seen; what to record instead where nobody knows whether something forbids it."""
    return _look_at_switch(context, cluster) or _look_at_console(context, cluster)


def _look_at_switch(context: Context, cluster: Cluster) -> Decision | None:
    """What to record instead where nobody knows whether it is on."""
    if context.switch is None:
        return None
    seen = context.switch.look()
    keep(cluster, seen)
    why = why_unread(cluster, seen)
    if not why:
        return None
    return blocked(
        f"nothing is sent while the kill switch in the cluster cannot be read: {why}",
        "It goes on by itself once that can be read again.",
        cause=UNREADABLE,
        retry_seconds=1,
    )


def _look_at_console(context: Context, cluster: Cluster) -> Decision | None:
    """What to record instead where it is not sure that no other console may change the cluster."""
    if context.console is None:
        return None
    seconds = seconds_per_call()
    context.lease.ensure(seconds)
    standing = context.console.look()
    if not is_held(cluster, seconds):
        standing = context.console.look(is_enough=False)
        if not is_held(cluster, seconds):
            return blocked(
                "nothing new is sent while this console does not have the Lease of the cluster"
                f"{f': {standing.error}' if standing.error else ''}",
                "It goes on by itself once the Lease can be renewed again.",
                cause=LEASE_UNREADABLE,
                retry_seconds=1,
            )
    return None
