"""Takes everything of ours out of a cluster: steering, gates, holds, taints, cordons, in this order.

Level-triggered: each round looks afresh and sends the effects that a look shows to be missing, each guarded
by uid and resourceVersion and told in the audit ledger before; so it may be run again after a crash anywhere.
Executions that are still open are not ended here (`release_everything` the command does that before).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models.functions import Now

from apps.accounts.rights import Action
from apps.accounts.services import authorize, denials_recorded
from apps.audit import services as audit
from apps.clusters.gateways import open_gateway
from apps.clusters.models import Cluster
from apps.executions import names
from apps.executions.console_lease import find_other
from apps.executions.console_standing import lease_seconds
from apps.executions.errors import WrongState
from apps.executions.holdings import (
    OURS,
    UNKNOWN,
    Held,
    join_executions,
    list_labelled,
    traces_on_node,
    traces_on_pod,
)
from apps.executions.lease_body import NAME, tell_console
from apps.executions.mig_labels import read_mig_labels
from apps.executions.models import Execution, Steering
from apps.executions.objects import free_node_patch, ungate
from apps.executions.queries import in_safe_mode
from apps.executions.sightings import label, name, namespace, node_of, uid
from apps.executions.states import TERMINAL, ExecutionState
from apps.kube.errors import Conflict, Forbidden, KubeError, NotFound
from apps.kube.gateway import NODES, PODS, STEERINGS, WEBHOOKS, Gateway, Kind

Json = dict[str, Any]
ROUNDS = 8
SETTLE_SECONDS = 3.0
"""An admission under way when the steering went may still bring a gated pod."""
ALREADY = (
    "the toleration of a pod cannot be taken back; it lets the pod onto nothing once our taints are gone"
)


@dataclass(frozen=True)
class Wish:
    """even_mid_mig: also open nodes between two MIG layouts. of_others: also what this database does
    not know; even_while_held: also while another console that lives has the cluster's Lease. of_stopped: also
    what open executions have that stopped and wait for a person."""

    even_mid_mig: bool = False
    of_others: bool = False
    dry_run: bool = False
    of_stopped: bool = False
    even_while_held: bool = False


@dataclass(frozen=True)
class Effect:
    """One request. told: what it takes away."""

    told: tuple[Held, ...]
    uid: str
    send: Callable[[], object]

    @property
    def words(self) -> str:
        return f"{', '.join(sorted({one.what for one in self.told}))} on {self.told[0].where}"


@dataclass
class Outcome:
    """released: in the order in which it was done (or, by dry run, would be). left: (what, why)."""

    released: list[str] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)


def open_executions_on(cluster: Cluster, *, of_stopped: bool = False) -> list[Execution]:
    """of_stopped: but those that wait for a person and send nothing meanwhile."""
    rows = list(Execution.objects.filter(plan__cluster=cluster).exclude(state__in=TERMINAL).order_by("pk"))
    return [row for row in rows if not (of_stopped and row.state == ExecutionState.NEEDS_HUMAN)]


@denials_recorded()
def release_everything(*, actor: Any, cluster: Cluster, wish: Wish) -> Outcome:
    """actor: an admin of the cluster, or None for somebody at the server's command line.

    Raises Denied, WrongState while executions are open, in safe mode, or where it may be another console's
    that lives; ConnectionFailed, and KubeError where the cluster cannot be looked at."""
    if actor is not None:
        authorize(actor, Action.ADMINISTER, cluster, subject=cluster)
    if in_safe_mode(cluster.pk) and not wish.dry_run:
        raise WrongState(
            f"{cluster.name} is in safe mode: this database does not know what is under way there. Leave "
            f"safe mode first (manage.py leave_safe_mode {cluster.name})."
        )
    opened = open_executions_on(cluster, of_stopped=wish.of_stopped)
    if opened and not wish.dry_run:
        numbers = ", ".join(str(row.pk) for row in opened)
        raise WrongState(f"executions are open on {cluster.name}: {numbers}. Cancel them first.")
    gateway = open_gateway(cluster)
    try:
        return _release(gateway, actor, cluster, wish)
    finally:
        gateway.close()


def _release(gateway: Gateway, actor: Any, cluster: Cluster, wish: Wish) -> Outcome:
    outcome, has_steered = Outcome(), False
    if not wish.dry_run:
        rows = Steering.objects.filter(step__execution__plan__cluster=cluster, closed_at=None)
        rows.update(closed_at=Now())
    for _ in range(ROUNDS):
        outcome.left.clear()
        held = why_held_by_other(cluster, gateway, wish)
        if held and not wish.dry_run:
            raise WrongState(held)
        if held:
            outcome.left["what another console left"] = held
        effects = list(_missing(gateway, cluster, wish, outcome))
        if wish.dry_run:
            outcome.released = [effect.words for effect in effects]
            return outcome
        if not effects and not has_steered:
            return outcome
        has_steered = any(one.what.startswith("steering") for effect in effects for one in effect.told)
        for effect in effects:
            _send(effect, actor, cluster, outcome)
        if has_steered:
            time.sleep(SETTLE_SECONDS)
    return outcome


def why_held_by_other(cluster: Cluster, gateway: Gateway, wish: Wish) -> str:
    """Why nothing of others may be taken away now: whoever has the Lease may be in the middle of it. "" where
    nobody has it, or only our own is to go. Raises KubeError: what cannot be read forbids."""
    if not wish.of_others or wish.even_while_held:
        return ""
    other = find_other(cluster, gateway)
    if other is None:
        return ""
    lease = f"Lease {settings.STEERING_NAMESPACE}/{NAME}"
    return (
        f"another console has {cluster.name}: {tell_console(other.holder, other.renewed_by)}, by {lease}, "
        "and may be at work there. Release there, or stop that console "
        f"and ask again {other.seconds or lease_seconds()} s later while this console's workers run; at the "
        "server, manage.py release_everything --of-others --even-while-held goes by it"
    )


def _send(effect: Effect, actor: Any, cluster: Cluster, outcome: Outcome) -> None:
    owners = sorted({one.owned for one in effect.told})
    detail = {"what": effect.words, "uid": effect.uid, "of": owners}
    with transaction.atomic(durable=True):
        audit.record(
            actor=actor, action="cluster.released", subject=cluster, cluster=cluster.name, detail=detail
        )
    try:
        effect.send()
        outcome.released.append(effect.words)
    except (Conflict, NotFound):
        outcome.left[effect.words] = "it changed while it was released: run this again"
    except KubeError as error:
        outcome.left[effect.words] = str(error)


def _missing(gateway: Gateway, cluster: Cluster, wish: Wish, outcome: Outcome) -> Iterator[Effect]:
    """Steering first, so that no new pod is gated; nodes last, so that freed pods find their room."""
    sift = _sieve(cluster, wish, outcome)
    for kind, what in ((WEBHOOKS, "steering configuration"), (STEERINGS, "steering object")):
        for thing in _labelled(gateway, kind, what, outcome):
            mine = sift([Held(what, name(thing), label(thing, names.OWNED))])
            if mine:
                yield Effect(mine, uid(thing), _delete(gateway, kind, thing))
    pods = [pod for pod in gateway.list_reduced(PODS, _keep(traces_on_pod))[0] if pod is not None]
    for is_hold in (False, True):
        for pod in pods:
            mine = sift(list(traces_on_pod(pod)))
            if is_hold and _is_paper(pod) and any(one.what == "hold" for one in mine):
                yield Effect(_only(mine, "hold"), uid(pod), _delete(gateway, PODS, pod))
            elif not is_hold and any(one.what == "gate" for one in mine):
                yield Effect(_only(mine, "gate"), uid(pod), _free(gateway, pod))
    for node in gateway.list_reduced(NODES, _keep(traces_on_node))[0]:
        if node is not None:
            yield from _node_effects(gateway, node, sift, wish, outcome)


def _node_effects(
    gateway: Gateway,
    node: Json,
    sift: Callable[[list[Held]], tuple[Held, ...]],
    wish: Wish,
    outcome: Outcome,
) -> Iterator[Effect]:
    """One patch for all of ours on it: only where all of it may go."""
    found = list(traces_on_node(node))
    mine = sift(found)
    if not mine:
        return
    if len(mine) < len(found):
        outcome.left[f"traces on {found[0].where}"] = "some of them are another console's: use --of-others"
        return
    if is_mid_mig(node) and not wish.even_mid_mig:
        outcome.left[f"{', '.join(one.what for one in mine)} on {mine[0].where}"] = (
            "the node is between two MIG layouts, and pods that came in would break the change: "
            "repair it first, or use --even-mid-mig"
        )
        return
    yield Effect(mine, uid(node), lambda: gateway.patch_object(NODES, name(node), free_node_patch(node)))


def is_mid_mig(node: Json) -> bool:
    """A layout is asked for, and mig-manager has not said that it stands. A state that is missing was cleared
    by whoever asked."""
    found = read_mig_labels(node)
    return bool(found.paused) or (found.config is not None and found.state != "success")


def _sieve(cluster: Cluster, wish: Wish, outcome: Outcome) -> Callable[[list[Held]], tuple[Held, ...]]:
    """Which of the traces on one object may be taken away; why not is told in the outcome."""

    def sift(found: list[Held]) -> tuple[Held, ...]:
        mine = []
        running = {row.pk for row in open_executions_on(cluster, of_stopped=wish.of_stopped)}
        for one in join_executions(found, cluster):
            where = f"{one.what} on {one.where}"
            if one.what == "toleration":
                outcome.left[where] = ALREADY
            elif one.standing == UNKNOWN and not wish.of_others:
                outcome.left[where] = "this console's database does not know it: use --of-others"
            elif one.standing == OURS and one.execution in running and not wish.dry_run:
                outcome.left[where] = f"execution {one.execution} began meanwhile: cancel it, then run again"
            elif one.owned != "console":
                mine.append(one)
        return tuple(mine)

    return sift


def _keep(look: Callable[[Json], Iterator[Held]]) -> Callable[[Json], Json | None]:
    return lambda thing: thing if any(True for _ in look(thing)) else None


def _is_paper(pod: Json) -> bool:
    """A hold is on no node and in our own namespace; no other pod is deleted, whatever its labels say."""
    is_there = namespace(pod) == settings.STEERING_NAMESPACE and not node_of(pod)
    return is_there and bool(label(pod, names.HOLD))


def _only(found: tuple[Held, ...], what: str) -> tuple[Held, ...]:
    return tuple(one for one in found if one.what == what)


def _labelled(gateway: Gateway, kind: Kind, what: str, outcome: Outcome) -> list[Json]:
    try:
        return list_labelled(gateway, kind)
    except Forbidden as error:
        outcome.left[f"every {what}"] = f"this credential may not look: {error}"
        return []


def _delete(gateway: Gateway, kind: Kind, thing: Json) -> Callable[[], object]:
    space = namespace(thing) or None
    return lambda: gateway.delete_own_object(kind, name(thing), uid=uid(thing), namespace=space, seen=thing)


def _free(gateway: Gateway, pod: Json) -> Callable[[], object]:
    space = namespace(pod)
    return lambda: gateway.patch_object(PODS, name(pod), ungate(pod), namespace=space, strategic=True)
