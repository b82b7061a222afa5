"""What of ours is in a cluster now: each cordon, taint, gate, hold, steering, label and toleration.

Read from fresh LISTs and joined with this database: what an open execution has is `ours`, what is left of one
that has ended `left over`, and what this database does not know (another console's, an older database's) is
`unknown`. Looks only; nothing is taken away here.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from apps.clusters.gateways import open_gateway
from apps.clusters.models import Cluster
from apps.executions import names
from apps.executions.models import Execution
from apps.executions.objects import STANDING
from apps.executions.sightings import (
    annotation,
    cordon,
    is_gated,
    label,
    migration,
    moment,
    name,
    namespace,
    nominated,
    taints,
    tolerations,
)
from apps.executions.states import TERMINAL
from apps.kube.errors import NotFound
from apps.kube.gateway import NAMESPACES, NODES, PODS, PRIORITY_CLASSES, STEERINGS, WEBHOOKS, Gateway, Kind

Json = dict[str, Any]
OURS, LEFT_OVER, UNKNOWN, KEPT = "ours", "left over", "unknown", "stays"
KINDS = (
    (NAMESPACES, "namespace"),
    (PRIORITY_CLASSES, "priority class"),
    (WEBHOOKS, "steering configuration"),
    (STEERINGS, "steering object"),
)
"""Whole objects that we make beside holds; all carry our label."""


@dataclass(frozen=True)
class Held:
    """One trace of ours. where: "node a100-07", "pod ml/lora-3" or the object's own name.

    owned: value of our label, "NUMBER-MARK" of an execution; "" where the trace does not tell.
    since: when it was set, as the trace says; else creation of the object that is or carries it, None for
    traces on nodes that older versions of the console set.
    standing: `ours`, `left over`, `unknown`, or `stays` for what outlives executions by intent.
    """

    what: str
    where: str
    owned: str = ""
    detail: str = ""
    since: datetime | None = None
    deadline: datetime | None = None
    standing: str = UNKNOWN
    execution: int | None = None


def holdings_of(cluster: Cluster) -> list[Held]:
    """By fresh LISTs. Raises ConnectionFailed and KubeError."""
    gateway = open_gateway(cluster)
    try:
        found = list(read_holdings(gateway))
    finally:
        gateway.close()
    return join_executions(found, cluster)


def read_holdings(gateway: Gateway) -> Iterator[Held]:
    """What carries one of our names, whoever put it there. Two LISTs of everything, the rest by our label."""
    nodes, _ = gateway.list_reduced(NODES, _traces_on(traces_on_node))
    pods, _ = gateway.list_reduced(PODS, _traces_on(traces_on_pod))
    for traces in (*nodes, *pods):
        yield from traces
    for kind, what in KINDS:
        for thing in _labelled(gateway, kind):
            owned = label(thing, names.OWNED)
            yield Held(what, name(thing), owned, since=_since(thing), deadline=_deadline(thing))


def join_executions(found: Iterable[Held], cluster: Cluster) -> list[Held]:
    """Tell each trace's execution, if this database has one of that number and mark on that cluster."""
    known = {
        names.owned_value(row.pk, row.created_at): row
        for row in Execution.objects.filter(plan__cluster=cluster)
    }
    return sorted((_join(one, known.get(one.owned)) for one in found), key=lambda one: (one.where, one.what))


def _join(held: Held, row: Execution | None) -> Held:
    facts = {**held.__dict__}
    if held.owned == STANDING:
        return Held(**facts | {"standing": KEPT})
    if row is None:
        return held
    standing = LEFT_OVER if row.state in TERMINAL else OURS
    deadline = held.deadline or row.deadline_at
    return Held(**facts | {"standing": standing, "execution": row.pk, "deadline": deadline})


def _traces_on(look: Callable[[Json], Iterator[Held]]) -> Callable[[Json], list[Held]]:
    return lambda thing: list(look(thing))


def traces_on_node(node: Json) -> Iterator[Held]:
    where = f"node {name(node)}"
    if annotation(node, names.CORDON):
        told = cordon(node)
        detail, deadline = str(told.get("reason", "")), moment(str(told.get("deadline", "")))
        yield Held("cordon", where, _owned(told), detail, moment(str(told.get("since", ""))), deadline)
    holder = _read(annotation(node, names.HELD_BY))
    for taint in taints(node):
        if taint.get("key") == names.HELD:
            value = str(taint.get("value", ""))
            mine = holder if holder.get("value") == value else {}
            deadline = moment(str(mine.get("deadline", "")))
            since = moment(str(mine.get("since", "")))
            yield Held("taint", where, _owned(mine), f"{names.HELD}={value}", since, deadline)


def traces_on_pod(pod: Json) -> Iterator[Held]:
    where, since = f"pod {namespace(pod)}/{name(pod)}", _since(pod)
    if label(pod, names.OWNED):
        detail = f"keeps room on {nominated(pod)}" if nominated(pod) else "keeps no room"
        yield Held("hold", where, label(pod, names.OWNED), detail, since, _deadline(pod))
    if is_gated(pod):
        steering = migration(pod)
        owned = steering.removeprefix("steer-").rpartition("-")[0]
        yield Held("gate", where, owned, steering, since, _deadline(pod))
    for one in tolerations(pod):
        if one.get("key") == names.HELD:
            yield Held("toleration", where, detail=f"{names.HELD}={one.get('value', '')}", since=since)


def _labelled(gateway: Gateway, kind: Kind) -> list[Json]:
    try:
        return gateway.list_objects(kind, label_selector=names.OWNED).objects
    except NotFound:
        return []  # a cluster that lacks our own kind holds none of it


def _owned(told: Json) -> str:
    execution, mark = told.get("execution"), told.get("mark")
    return f"{execution}-{mark}" if execution and mark else ""


def _since(thing: Json) -> datetime | None:
    return moment(str((thing.get("metadata") or {}).get("creationTimestamp", "")))


def _deadline(thing: Json) -> datetime | None:
    return moment(annotation(thing, names.DEADLINE))


def _read(text: str) -> Json:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
