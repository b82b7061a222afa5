"""A worker's turn at a proof: pods of our own, what the scheduler does with them, what that shows.

Every pod's intent stands in the ledger before it is made. Whatever happens, the pods are deleted at the end
of the turn, by UID; a turn that died is done anew by the timer, which begins by deleting what it left.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import structlog
from django.conf import settings
from django.db import transaction
from django.db.models import F, Q
from django.db.models.functions import Now

from apps.audit import services as audit
from apps.clusters.errors import ConnectionFailed
from apps.clusters.gateways import open_gateway
from apps.clusters.notices import publish
from apps.executions import console_lease, ledger
from apps.executions.errors import HeldByPolicy
from apps.executions.holds import what_is_strange
from apps.executions.models import SchedulerProof
from apps.executions.names import OWNED, priority_class_name
from apps.executions.objects import hold_class
from apps.executions.proving import probes
from apps.executions.proving.asking import TOPIC, require_may_prove
from apps.executions.proving.probes import Part, Seen, Sighting
from apps.executions.proving.scheduler_lease import NAME, NAMESPACE, read_holder
from apps.executions.sightings import label, uid
from apps.executions.states import Obedience
from apps.kube.errors import AlreadyExists, KubeError
from apps.kube.gateway import PODS, PRIORITY_CLASSES, Gateway
from apps.placing.models import ExtenderBeat

log = structlog.get_logger(__name__)
TURN_SECONDS = 240.0
"""Longer than a turn may take: whoever began is dead by then."""
TRIES = 3
KNOWN_SECONDS, PART_SECONDS = 20.0, 45.0
"""How long the extender may take to read of the proof, and the scheduler to say something of a pod."""
LOOK_SECONDS = 0.2


class ShowsNothing(Exception):
    """Neither obedience nor disobedience was seen; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Outcome:
    result: Obedience
    words: str
    holder: str = ""


def due_proofs() -> list[int]:
    return list(SchedulerProof.objects.filter(_is_due()).order_by("pk").values_list("pk", flat=True))


def _is_due() -> Q:
    is_free = Q(begun_at=None) | Q(begun_at__lt=Now() - timedelta(seconds=TURN_SECONDS))
    return Q(ended_at=None) & is_free


def work_on_proof(proof_id: int) -> bool:
    """One worker's turn. False if another one is at it, or it has ended."""
    due = SchedulerProof.objects.filter(_is_due(), pk=proof_id)
    if not due.update(begun_at=Now(), tries=F("tries") + 1):
        return False
    row = SchedulerProof.objects.select_related("cluster", "asked_by").get(pk=proof_id)
    _end(row, _carry_out(row))
    publish(row.cluster.name, TOPIC, {})
    return True


def _end(row: SchedulerProof, outcome: Outcome) -> None:
    with transaction.atomic(durable=True):
        open_row = SchedulerProof.objects.filter(pk=row.pk, ended_at=None)
        facts = {"result": outcome.result, "words": outcome.words, "holder": outcome.holder}
        if open_row.update(ended_at=Now(), **facts):
            _audit(row, "scheduler.proof_ended", {"proof": row.pk, **facts})


def _audit(row: SchedulerProof, action: str, detail: dict[str, object]) -> None:
    audit.record(
        actor=row.asked_by, action=action, subject=row.cluster, cluster=row.cluster.name, detail=detail
    )


def _carry_out(row: SchedulerProof) -> Outcome:
    if row.tries > TRIES:
        return Outcome(
            Obedience.UNPROVEN, f"It was begun {TRIES} times and never ended: see the worker's log"
        )
    try:
        gateway = open_gateway(row.cluster)
    except ConnectionFailed as error:
        return Outcome(Obedience.UNPROVEN, f"The cluster cannot be reached: {error}")
    proving = _Proving(row, gateway)
    try:
        return proving.prove()
    except (ShowsNothing, HeldByPolicy) as error:
        return Outcome(Obedience.UNPROVEN, str(error))
    except KubeError as error:
        return Outcome(Obedience.UNPROVEN, f"The cluster refused or did not answer: {error}")
    finally:
        proving.clean_up()
        gateway.close()


class _Proving:
    def __init__(self, row: SchedulerProof, gateway: Gateway) -> None:
        self._row, self._gateway = row, gateway
        self._owned = probes.owned_by_proof(row.pk)

    def prove(self) -> Outcome:
        """Raises ShowsNothing, HeldByPolicy, KubeError."""
        self._require_console()
        self.clean_up()
        self._wait_for_extender()
        holder = self._read_holder()
        self._provide_class()
        for part in Part:
            found = self._ask(part)
            against = _judge(part, found)
            if against is not None:
                return Outcome(*against, holder)
        if self._read_holder() != holder:
            raise ShowsNothing("Another scheduler took over meanwhile: prove it once more")
        told = ", ".join(self._row.resources)
        return Outcome(
            Obedience.OBEYS, f"The scheduler asks the extender about {told}, and waits for it", holder
        )

    def _require_console(self) -> None:
        """As before everything new: nothing forbids it, and this console has the cluster. It makes our
        namespace as well."""
        require_may_prove(self._row.cluster)
        standing = console_lease.look(self._row.cluster, self._gateway)
        if standing.word != console_lease.Word.HELD:
            why = f": {standing.error}" if standing.error else ""
            raise ShowsNothing(f"This console does not have the Lease of the cluster{why}")

    def _wait_for_extender(self) -> None:
        beats = ExtenderBeat.objects.filter(cluster=self._row.cluster, proof=self._row.pk)
        fresh = beats.filter(beat_at__gte=Now() - timedelta(seconds=KNOWN_SECONDS))
        until = time.monotonic() + KNOWN_SECONDS
        while not fresh.exists():
            if time.monotonic() > until:
                raise ShowsNothing(
                    "The extender does not say that it knows of the proof: start serve_extender for this "
                    "cluster, and ask for the proof again"
                )
            time.sleep(LOOK_SECONDS)

    def _read_holder(self) -> str:
        holder = read_holder(self._gateway)
        if not holder:
            raise ShowsNothing(
                f"There is no Lease {NAMESPACE}/{NAME} that says which scheduler leads, so nobody could tell "
                "when it is started anew with another file: let it elect a leader (leaderElect: true)"
            )
        return holder

    def _provide_class(self) -> None:
        wanted = hold_class(probes.PRIORITY)
        found = self._gateway.get_object(PRIORITY_CLASSES, priority_class_name(probes.PRIORITY))
        if found is None:
            self._intend({"priority_class": wanted["metadata"]["name"]})
            with contextlib.suppress(AlreadyExists):
                self._gateway.create_object(PRIORITY_CLASSES, wanted)
        elif strange := what_is_strange(found, probes.PRIORITY):
            raise ShowsNothing(f"{strange} Delete that class (holds alone use it)")

    def _ask(self, part: Part) -> dict[str, Sighting]:
        """By resource: what the scheduler did with a pod that names it."""
        named = probes.names_of_pods(self._row.pk, self._row.resources, part)
        deadline = (ledger.database_time() + timedelta(seconds=TURN_SECONDS)).isoformat()
        self._intend({"part": part.value, "pods": sorted(named.values())})
        for resource, name in named.items():
            body = probes.probe_pod(
                name,
                part,
                resource,
                token=self._row.token,
                owned=self._owned,
                namespace=settings.STEERING_NAMESPACE,
                deadline=deadline,
            )
            self._gateway.create_object(PODS, body, namespace=settings.STEERING_NAMESPACE)
        until = time.monotonic() + PART_SECONDS
        while True:
            found = {resource: self._look(name, part) for resource, name in named.items()}
            is_over = all(one.seen != Seen.QUIET for one in found.values())
            if is_over or time.monotonic() > until or any(one.seen == Seen.BOUND for one in found.values()):
                return found
            time.sleep(LOOK_SECONDS)

    def _look(self, name: str, part: Part) -> Sighting:
        pod = self._gateway.get_object(PODS, name, namespace=settings.STEERING_NAMESPACE)
        return probes.look_at_probe(pod, part, self._row.token)

    def _intend(self, detail: dict[str, object]) -> None:
        with transaction.atomic(durable=True):
            _audit(self._row, "scheduler.proof_probes", {"proof": self._row.pk, **detail})

    def clean_up(self) -> None:
        """Whatever of this proof is in the cluster goes. What cannot be deleted now ends by itself: the gate
        watchdog deletes it past its deadline, a kubelet ends what is bound."""
        space = settings.STEERING_NAMESPACE
        for part in Part:
            for name in probes.names_of_pods(self._row.pk, self._row.resources, part).values():
                try:
                    pod = self._gateway.get_object(PODS, name, namespace=space)
                    if pod is not None and label(pod, OWNED) == self._owned:
                        self._gateway.delete_own_object(PODS, name, uid=uid(pod), namespace=space)
                except KubeError as error:
                    log.warning("a pod of a proof was not deleted", pod=name, reason=str(error))


def _judge(part: Part, found: Mapping[str, Sighting]) -> tuple[Obedience, str] | None:
    """What this part shows against the scheduler, None where it did as the extender said. Raises ShowsNothing
    where it said nothing that could be told."""
    for resource, one in found.items():
        if one.seen == Seen.BOUND and part == Part.ASKS:
            return Obedience.NEVER_ASKS, (
                f"The scheduler bound a pod that names {resource} without asking the extender: holds stay on "
                "paper. Give it the configuration below (managedResources), and prove it again"
            )
        if one.seen == Seen.BOUND:
            return Obedience.IGNORES, (
                "The scheduler goes on alone while the extender does not answer (ignorable: true): holds "
                "stay on paper. Give it ignorable: false, and prove it again"
            )
    for resource, one in found.items():
        if one.seen == Seen.QUIET:
            said = f'it said "{one.words}"' if one.words else "it said nothing"
            raise ShowsNothing(
                f"The scheduler did nothing with a pod that names {resource} within {PART_SECONDS:.0f} s "
                f"that shows whether it obeys ({said}): see its log, and prove it again"
            )
    return None
