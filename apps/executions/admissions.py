"""Steering rows: which replacements the admission webhook is to gate. One transaction per change.

The webhook (apps.scheduling) calls `take_steering`; runners call the rest. The rows of one owner's moves
share a name and a secret, and a new pod takes any of them that is open.
"""

from __future__ import annotations

from datetime import datetime

from django.db import transaction
from django.db.models import Case, Exists, OuterRef, Q, Value, When

from apps.executions.locks import Lease, hold_fence
from apps.executions.models import Steering, Step
from apps.executions.queries import in_safe_mode
from apps.executions.states import StepKind


def take_steering(
    *, name: str, secret: str, owner_uid: str, pod_name: str, admission_uid: str
) -> Steering | None:
    """Take one of the admissions that are open under this name. None if there is none for this pod.

    One is open from the moment that its pod's eviction is meant: before that there is nothing to replace.
    One atomic UPDATE, so of many pods at once as many are taken as are open; the API server's repetition of
    the same admission takes its own again.
    """
    if not owner_uid or not admission_uid or _is_of_old_database(name):
        return None
    named = Q(pod_name="") | Q(pod_name=pod_name)
    free = Q(admitted_uid="") | Q(admitted_uid=admission_uid)
    evicted = Step.objects.filter(
        execution=OuterRef("step__execution"),
        move=OuterRef("step__move"),
        kind=StepKind.EVICT_POD,
        observed__sent__contains="evict",
    )
    rows = Steering.objects.filter(
        named, free, Exists(evicted), name=name, secret=secret, owner_uid=owner_uid, closed_at=None
    ).order_by(Case(When(admitted_uid=admission_uid, then=Value(0)), default=Value(1)), "pk")
    with transaction.atomic():
        # A row that is being changed right now is waited for only where no other is open.
        for passes_over in (True, False):
            one = rows.select_for_update(skip_locked=passes_over, of=("self",)).values("pk")[:1]
            if Steering.objects.filter(pk__in=one).update(admitted_uid=admission_uid):
                found = Steering.objects.select_related("step").filter(name=name)
                return found.filter(admitted_uid=admission_uid).first()
    return None


def _is_of_old_database(name: str) -> bool:
    """In safe mode nobody lands what would be gated: it is let through."""
    place = (
        Steering.objects.filter(name=name).values_list("step__execution__plan__cluster", flat=True).first()
    )
    return place is not None and in_safe_mode(place)


def open_again(lease: Lease, steering: Steering) -> None:
    """The admitted pod never came to be, or was no replacement: the next one is to be gated."""
    with hold_fence(lease):
        Steering.objects.filter(pk=steering.pk, closed_at=None, admitted_uid=steering.admitted_uid).update(
            admitted_uid=""
        )


def close_steering(lease: Lease, steering: Steering, at: datetime) -> None:
    """From here on the webhook gates one pod of that owner less. Where the move's pod took another's row, it
    is that admission which is over, and the other one is open again."""
    with hold_fence(lease):
        row = Steering.objects.select_for_update().filter(pk=steering.pk, closed_at=None).first()
        if row is None:
            return
        others = Steering.objects.select_for_update().filter(name=row.name, closed_at=None)
        spent = others.exclude(admitted_uid="").order_by("pk").first() if not row.admitted_uid else None
        if spent is not None:
            row.admitted_uid, spent.admitted_uid = spent.admitted_uid, ""
            spent.save(update_fields=["admitted_uid"])
        row.closed_at = at
        row.save(update_fields=["admitted_uid", "closed_at"])
