"""A hold: room that is kept on a node, by an unbound pod of ours that is nominated there (a paper hold), or
by the cluster's extender where its scheduler is proved to obey (docs/execution.md).

Used by the step that makes it and by the eviction that relies on it. Looks and decides; the single
effects are sent by `send_hold_effect`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from apps.executions import names
from apps.executions.context import Context
from apps.executions.decisions import Decision, act, stop, wait
from apps.executions.kept_rooms import RoomFacts, close_room, look_at_kept_room, open_room
from apps.executions.models import KeptRoom, Step
from apps.executions.objects import console_namespace, hold_class, hold_pod, nomination
from apps.executions.sightings import is_leaving, label, node_of, nominated, uid
from apps.kube.errors import AlreadyExists
from apps.kube.gateway import NAMESPACES, NODES, PODS, PRIORITY_CLASSES

Json = dict[str, Any]


@dataclass(frozen=True)
class HoldFacts:
    """owned: what our label says on what is this execution's.
    has_namespace, has_class: what a hold needs first; looked for only while there is no hold.
    strange_class: why a priority class of that name is not the one that a hold needs, "" if it is.
    room: what the extender keeps instead."""

    hold: Json | None
    owned: str
    has_namespace: bool = True
    has_class: bool = True
    strange_class: str = ""
    room: RoomFacts = RoomFacts()

    @property
    def is_ours(self) -> bool:
        return self.hold is not None and label(self.hold, names.OWNED) == self.owned


def look_at_hold(context: Context, params: Json) -> HoldFacts:
    gateway, space = context.gateway, context.place.namespace
    hold, room = gateway.get_object(PODS, params["hold"], namespace=space), look_at_kept_room(context, params)
    if hold is not None or room.is_confirmed:
        return HoldFacts(hold, context.owned, room=room)
    has_namespace = gateway.get_object(NAMESPACES, space) is not None
    ranked = gateway.get_object(PRIORITY_CLASSES, names.priority_class_name(params["priority"]))
    strange = what_is_strange(ranked, params["priority"]) if ranked is not None else ""
    return HoldFacts(None, context.owned, has_namespace, ranked is not None, strange, room)


def what_is_strange(ranked: Json, priority: int) -> str:
    """A hold of another rank keeps no room, and one that may preempt would chase pods away."""
    found = ranked.get("value", 0), ranked.get("preemptionPolicy")
    if found == (priority, "Never"):
        return ""
    name = ranked["metadata"]["name"]
    return f"Priority class {name} has value {found[0]} and preemption {found[1]}, not {priority} and Never."


def own_hold(context: Context, params: Json) -> Json | None:
    """The paper hold of a move whose target no taint keeps."""
    if params.get("taint"):
        return None
    hold = context.gateway.get_object(PODS, params["hold"], namespace=context.place.namespace)
    return hold if hold is not None and label(hold, names.OWNED) == context.owned else None


def why_still_kept(hold: Json | None) -> str:
    """Of a room that a deleted hold keeps from the pod that it was for, "" where none does."""
    if hold is None or not is_leaving(hold):
        return ""
    return "our hold is deleted and has not gone, so its room is still kept (see its finalizers)"


def tell_strange_hold(params: Json) -> str:
    """Of a pod under the name of a hold: what stays of it once the execution has ended."""
    return f"pod {params['hold']}, which may keep room on {params['target']} and does not carry our label"


def repair_hold(facts: HoldFacts, params: Json) -> Decision | None:
    """The next effect towards a confirmed hold; None once it is confirmed."""
    hold, target, room = facts.hold, params["target"], facts.room
    if room.is_confirmed:
        return None
    if room.is_open:
        return _decide_open_room(room, params)
    if hold is None:
        return _decide_without(facts, params)
    if not facts.is_ours or node_of(hold):
        return stop(
            f"Pod {params['hold']} in the console's namespace is not the paper hold that belongs there.",
            "Look at that pod, delete it by hand if it is stray, then resume.",
            cause="hold-taken",
        )
    if is_leaving(hold):
        return wait("an earlier hold of the same name is leaving")
    if nominated(hold) != target:
        return act("nominate_hold", f"keep room for {params['pod']} on {target}", hold=hold)
    return None


def _decide_without(facts: HoldFacts, params: Json) -> Decision:
    if facts.room.may_begin:
        return act("keep_room", f"the extender keeps room for {params['pod']} on {params['target']}")
    if not facts.has_namespace:
        return act("create_namespace", "make the console's own namespace")
    if not facts.has_class:
        return act("create_class", f"make the priority class for holds of rank {params['priority']}")
    if facts.strange_class:
        return stop(
            facts.strange_class,
            "Delete that priority class (holds alone use it), then resume.",
            cause="hold-taken",
        )
    return act("create_hold", f"make the pod that holds room for {params['pod']}")


def _decide_open_room(room: RoomFacts, params: Json) -> Decision:
    if room.is_new and not room.against:
        return wait(f"the extender has not said yet that it keeps room for {params['pod']}")
    why = room.against or "the extender does not say that it keeps this room"
    return act("close_room", f"{why}: the hold goes on paper", room=room.row)


def give_over(hold: Json | None, room: KeptRoom | None, words: str) -> Decision | None:
    """What still keeps room that somebody has by now, or nobody needs; None where nothing does."""
    if hold is not None and not is_leaving(hold):
        return act("delete_hold", words, hold=hold)
    return act("close_room", words, room=room) if room is not None else None


def send_hold_effect(context: Context, step: Step, decision: Decision) -> bool:
    """Send one of the effects named above. False if it is not one of them."""
    gateway, params, space = context.gateway, step.params, context.place.namespace
    try:
        if decision.effect == "create_namespace":
            gateway.create_object(NAMESPACES, console_namespace(space))
        elif decision.effect == "create_class":
            gateway.create_object(PRIORITY_CLASSES, hold_class(params["priority"]))
        elif decision.effect == "create_hold":
            marks = {"owned": context.owned, "deadline": context.traces_deadline}
            body = hold_pod(params, step_id=step.pk, namespace=space, **marks)
            gateway.create_object(PODS, body, namespace=space)
        elif decision.effect == "keep_room":
            open_room(context, step)
        elif decision.effect == "close_room":
            close_room(context.lease, decision.arguments["room"], context.now)
        elif decision.effect == "delete_hold":
            delete_hold(context, decision.arguments["hold"])
        elif decision.effect == "nominate_hold":
            patch = nomination(decision.arguments["hold"], params["target"])
            gateway.patch_object(PODS, params["hold"], patch, namespace=space, subresource="status")
        else:
            return False
    except AlreadyExists:
        pass  # a look before this effect, an object after it: somebody made the same thing
    return True


def unique_hostname(context: Context, params: Json) -> str:
    """The target's hostname label, proven to be no other node's; "" where it is not."""
    target = context.gateway.get_object(NODES, params["target"])
    hostname = label(target, names.HOSTNAME) if target is not None else ""
    if not hostname or uid(target) != params["target_uid"]:
        return ""
    same = context.gateway.list_objects(NODES, label_selector=f"{names.HOSTNAME}={hostname}")
    return hostname if [uid(node) for node in same] == [params["target_uid"]] else ""


def delete_hold(context: Context, hold: Json) -> None:
    gateway, space = context.gateway, context.place.namespace
    gateway.delete_own_object(PODS, hold["metadata"]["name"], uid=uid(hold), namespace=space)
