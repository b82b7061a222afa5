"""Rooms that the cluster's extender keeps for moves, and whether its word on them may be relied on now.

Relied on it is only where the cluster's policy says so, its scheduler was proved to obey and is the same one
still, and the extender said lately, by the database's clock, that it keeps this very room. A room that is not
kept so is closed and never opened again: its move gets a paper hold. Not in here: how the extender keeps it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from apps.executions.context import Context
from apps.executions.locks import Lease, hold_fence
from apps.executions.models import KeptRoom, SchedulerProof, Step
from apps.executions.objects import hold_pod
from apps.executions.proving.asking import newest_proof
from apps.executions.states import TERMINAL, Obedience
from apps.executions.steering_forms import Form, form_of
from apps.placing.models import ExtenderBeat, PlacementPolicy
from apps.placing.queries import placement_policy_of
from apps.placing.states import WhenStale
from apps.planner.resources import is_device_resource

Json = dict[str, Any]
WORD_SECONDS = 8.0
"""How old the extender's word may be: it says it every second while it keeps a room, else every four."""
READ_SECONDS = 10.0
"""How long it may take to say that it keeps a new room."""


@dataclass(frozen=True)
class RoomFacts:
    """row: this move's, None where it never had one. against: why the extender's word is not relied on, "" if
    it is. is_kept: that word names this room. is_new: it was opened so lately that this may still come."""

    row: KeptRoom | None = None
    against: str = "the policy keeps holds on paper"
    is_kept: bool = False
    is_new: bool = False

    @property
    def is_open(self) -> bool:
        return self.row is not None and self.row.closed_at is None

    @property
    def is_confirmed(self) -> bool:
        return self.is_open and self.is_kept and not self.against

    @property
    def may_begin(self) -> bool:
        return self.row is None and not self.against


def look_at_kept_room(context: Context, params: Mapping[str, Any]) -> RoomFacts:
    row = room_of(context, params)
    if row is not None and row.closed_at is not None:
        return RoomFacts(row, "its room was given up before")
    cluster = context.execution.plan.cluster
    policy = placement_policy_of(cluster)
    if row is None and not policy.keeps_rooms:
        return RoomFacts()
    beat = ExtenderBeat.objects.filter(cluster=cluster).first()
    against = _why_not_lasting(context, policy, params) or _why_late(beat, context.now)
    is_kept = row is not None and beat is not None and row.pk in beat.rooms
    is_new = row is not None and (context.now - row.made_at).total_seconds() < READ_SECONDS
    return RoomFacts(row, against, is_kept, is_new)


def room_of(context: Context, params: Mapping[str, Any]) -> KeptRoom | None:
    return KeptRoom.objects.filter(execution=context.execution.pk, name=params["hold"]).first()


def open_room_of(context: Context, params: Mapping[str, Any]) -> KeptRoom | None:
    row = room_of(context, params)
    return row if row is not None and row.closed_at is None else None


def _why_not_lasting(context: Context, policy: PlacementPolicy, params: Mapping[str, Any]) -> str:
    if not policy.keeps_rooms:
        return "the policy keeps holds on paper"
    if policy.when_stale != WhenStale.REFUSE:
        return "the policy lets pods pass while the extender's picture is old"
    if form_of(dict(params)) == Form.BEST_EFFORT:
        return "its replacement is not gated"
    holder = context.scheduler.holder() if context.scheduler is not None else ""
    return why_void(newest_proof(policy.cluster_id), policy.address_number, params["requests"], holder)


def why_void(
    proof: SchedulerProof | None, address_number: int, requests: Mapping[str, int], holder: str
) -> str:
    """Why a proof does not hold for a pod with such requests and the scheduler that leads now (its identity),
    "" if it does."""
    if proof is None or proof.result != Obedience.OBEYS:
        return "the scheduler is not proved to obey the extender"
    if proof.address_number != address_number:
        return "the extender's address was renewed since the proof"
    unproved = [name for name in requests if is_device_resource(name) and name not in proof.resources]
    if unproved:
        return f"the scheduler is not proved to ask the extender about {unproved[0]}"
    if not holder:
        return "which scheduler leads cannot be read"
    return "" if holder == proof.holder else "another scheduler leads than at the proof"


def _why_late(beat: ExtenderBeat | None, now: datetime) -> str:
    if beat is None:
        return "the extender has never said that it runs"
    age = (now - beat.beat_at).total_seconds()
    return f"the extender's last word is {age:.0f} s old" if age > WORD_SECONDS else ""


def requests_of_others(node_uid: str, names: Iterable[str]) -> list[Json]:
    """What open rooms on that node keep, but those of these holds. One of another cluster has another uid."""
    rows = KeptRoom.objects.filter(node_uid=node_uid, closed_at=None).exclude(name__in=names)
    return [row.requests for row in rows.exclude(execution__state__in=TERMINAL)]


def open_room(context: Context, step: Step) -> None:
    """The extender is to keep it from its next look at the rows on."""
    params = step.params
    marks = {"owned": context.owned, "deadline": context.traces_deadline}
    body = hold_pod(params, step_id=step.pk, namespace=context.place.namespace, **marks)
    facts = {
        "name": params["hold"],
        "node": params["target"],
        "node_uid": params["target_uid"],
        "owner_uid": params["workload_uid"],
        "pod": params["pod"],
        "requests": params["requests"],
        "body": body,
        "made_at": context.now,
    }
    with hold_fence(context.lease):
        KeptRoom.objects.get_or_create(execution_id=step.execution_id, move=step.move, defaults=facts)


def close_room(lease: Lease, room: KeptRoom, at: datetime) -> None:
    with hold_fence(lease):
        KeptRoom.objects.filter(pk=room.pk, closed_at=None).update(closed_at=at)
