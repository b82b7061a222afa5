"""Steering rows: which replacement the admission webhook is to gate. One transaction per change.

The webhook (apps.scheduling) calls `take_steering`; runners call the rest.
"""

from __future__ import annotations

from django.db import transaction
from django.db.models import Q

from apps.executions.locks import Lease, hold_fence
from apps.executions.models import Steering
from apps.executions.queries import in_safe_mode


def take_steering(
    *, name: str, secret: str, owner_uid: str, pod_name: str, admission_uid: str
) -> Steering | None:
    """Take the one admission that a steering is good for. None if it is not this pod's, closed or taken.

    One atomic UPDATE, so of many pods at once exactly one is taken; the API server's repetition of the
    same admission takes it again.
    """
    if not owner_uid or not admission_uid or _is_of_old_database(name):
        return None
    named = Q(pod_name="") | Q(pod_name=pod_name)
    free = Q(admitted_uid="") | Q(admitted_uid=admission_uid)
    row = Steering.objects.filter(named, free, name=name, secret=secret, owner_uid=owner_uid, closed_at=None)
    with transaction.atomic():
        if not row.update(admitted_uid=admission_uid):
            return None
    return Steering.objects.filter(name=name).first()


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


def close_steering(lease: Lease, steering: Steering, at: object) -> None:
    """From here on the webhook lets every pod through."""
    with hold_fence(lease):
        Steering.objects.filter(pk=steering.pk, closed_at=None).update(closed_at=at)
