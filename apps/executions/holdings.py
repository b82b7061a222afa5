"""What of ours is in a cluster now: each cordon, taint, gate, hold, steering, label and toleration.

Read from fresh LISTs and joined with this database: what an open execution has is `ours`, what is left of one
that has ended `left over`, and what this database does not know (another console's, an older database's) is
`unknown`. A kind that the credential may not list is told, and the others are read. Looks only; nothing is
taken away here, and nothing kept (`held.looking` does).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import datetime
from functools import partial
from typing import Any

from django.conf import settings

from apps.clusters.gateways import open_gateway
from apps.clusters.models import Cluster
from apps.executions import names
from apps.executions.cluster_preflight.rights import named_rights
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
    read_fence,
    taints,
    tolerations,
)
from apps.executions.states import TERMINAL
from apps.kube.errors import Forbidden, NotFound
from apps.kube.gateway import NAMESPACES, NODES, PODS, PRIORITY_CLASSES, STEERINGS, WEBHOOKS, Gateway, Kind

Json = dict[str, Any]
LONGEST_NUMBER = 18
LONGEST_TEXT = 300
OURS, LEFT_OVER, UNKNOWN, KEPT = "ours", "left over", "unknown", "stays"
KINDS = (
    (NAMESPACES, "namespace", "namespaces of ours"),
    (PRIORITY_CLASSES, "priority class", "priority classes of ours"),
    (WEBHOOKS, "steering configuration", "steering configurations"),
    (STEERINGS, "steering object", "steering objects"),
)
"""Whole objects that we make beside holds; all carry our label."""


@dataclass(frozen=True)
class Held:
    """One trace of ours. where: "node a100-07", "pod ml/lora-3" or the object's own name.

    owned: value of our label, "NUMBER-MARK" of an execution; "" where the trace does not tell.
    since: when it was set, as the trace says; else creation of the object that is or carries it, None for
    traces on nodes that older versions of the console set.
    fence: of the claim that set it, 0 where the trace does not tell.
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
    fence: int = 0


@dataclass
class Reading:
    """unread: a sentence for each kind that the credential may not list, so of which nothing is known."""

    held: list[Held] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)


def holdings_of(cluster: Cluster) -> Reading:
    """By fresh LISTs. Raises ConnectionFailed, and KubeError where the cluster does not answer."""
    gateway = open_gateway(cluster)
    try:
        found = read_holdings(gateway)
    finally:
        gateway.close()
    return Reading(join_executions(found.held, cluster), found.unread)


def read_holdings(gateway: Gateway) -> Reading:
    """What carries one of our names, whoever put it there. Two LISTs of everything, the rest by our label."""
    reading = Reading()
    for kind, look, words in CARRIERS:
        for traces in _if_allowed(kind, words, reading, partial(_carried, gateway, kind, look)):
            reading.held += traces
    for kind, what, words in KINDS:
        for thing in _if_allowed(kind, words, reading, partial(list_labelled, gateway, kind)):
            owned = label(thing, names.OWNED)
            held = Held(what, name(thing), owned, since=_since(thing), deadline=_deadline(thing))
            reading.held.append(held)
    return reading


def _if_allowed(kind: Kind, words: str, reading: Reading, ask: Callable[[], list[Any]]) -> list[Any]:
    try:
        return ask()
    except Forbidden:
        reading.unread.append(_lacking(kind, words))
        return []


def _lacking(kind: Kind, words: str) -> str:
    """What is not seen, which right is missing, and which file grants it."""
    resource = f"{kind.plural}.{kind.group}" if kind.group else kind.plural
    granted = {(one.verb, one.group, one.resource): one.file for one in reversed(named_rights())}
    file = granted.get(("list", kind.group, kind.plural))
    todo = f": kubectl apply -f deploy/rbac/{file}" if file else ""
    return f"{words[:1].upper()}{words[1:]} are not seen: the right to list {resource} is missing{todo}"


def join_executions(found: Iterable[Held], cluster: Cluster) -> list[Held]:
    """Tell each trace's execution, if this database has one of that number and mark on that cluster."""
    told = list(found)
    numbers = {int(number) for one in told if is_number(number := one.owned.partition("-")[0])}
    rows = Execution.objects.filter(plan__cluster=cluster, pk__in=numbers)
    known = {names.owned_value(row.pk, row.created_at): row for row in rows}
    return sorted((_join(one, known.get(one.owned)) for one in told), key=lambda one: (one.where, one.what))


def is_number(text: str) -> bool:
    """Of an execution, as a row keeps it. Anybody who may make a pod may write anything beside our gate."""
    return text.isascii() and text.isdecimal() and len(text) <= LONGEST_NUMBER


def held_to_dict(held: Held) -> Json:
    """As it is kept in a row; times as RFC 3339 text or null."""
    return {key: one.isoformat() if isinstance(one, datetime) else one for key, one in asdict(held).items()}


def held_from_dict(kept: Json) -> Held:
    since, deadline = (moment(str(kept.get(key) or "")) for key in ("since", "deadline"))
    return Held(**kept | {"since": since, "deadline": deadline})


def _join(held: Held, row: Execution | None) -> Held:
    facts = {**held.__dict__}
    if held.owned == STANDING:
        return Held(**facts | {"standing": KEPT})
    if row is None:
        return held
    standing = LEFT_OVER if row.state in TERMINAL else OURS
    deadline = held.deadline or row.deadline_at
    return Held(**facts | {"standing": standing, "execution": row.pk, "deadline": deadline})


def _carried(gateway: Gateway, kind: Kind, look: Callable[[Json], Iterator[Held]]) -> list[list[Held]]:
    return gateway.list_reduced(kind, lambda thing: list(look(thing)))[0]


def traces_on_node(node: Json) -> Iterator[Held]:
    where = f"node {name(node)}"
    if annotation(node, names.CORDON):
        told = cordon(node)
        detail, deadline = str(told.get("reason", ""))[:LONGEST_TEXT], moment(str(told.get("deadline", "")))
        since, fence = moment(str(told.get("since", ""))), read_fence(told.get("fence"))
        yield Held("cordon", where, _owned(told), detail, since, deadline, fence=fence)
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
        steering = migration(pod)[:LONGEST_TEXT]
        owned = steering.removeprefix("steer-").rpartition("-")[0]
        yield Held("gate", where, owned, steering, since, _deadline(pod))
    for one in tolerations(pod):
        if one.get("key") == names.HELD:
            # It cannot be taken back from a pod, and lets it onto nothing once the taint is gone.
            detail = f"{names.HELD}={one.get('value', '')}"
            yield Held("toleration", where, detail=detail, since=since, standing=KEPT)


CARRIERS: tuple[tuple[Kind, Callable[[Json], Iterator[Held]], str], ...] = (
    (NODES, traces_on_node, "cordons and taints of nodes"),
    (PODS, traces_on_pod, "holds, gates and tolerations of pods"),
)
"""Objects of others that our traces are found on."""


def list_labelled(gateway: Gateway, kind: Kind) -> list[Json]:
    """Raises KubeError. Our own kind is asked for in the one namespace that deploy/rbac grants."""
    space = settings.STEERING_NAMESPACE if kind.namespaced else None
    try:
        return gateway.list_objects(kind, namespace=space, label_selector=names.OWNED).objects
    except NotFound:
        return []  # a cluster that lacks our own kind holds none of it


def _owned(told: Json) -> str:
    execution, mark = told.get("execution"), told.get("mark")
    return f"{execution}-{mark}"[:LONGEST_TEXT] if execution and mark else ""


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
