"""Who may do what: the one authorisation function, and every change of people and roles."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ValidationError
from django.db import connection, transaction

from apps.accounts.errors import Denied, LastAdmin, NotVisible, UnusableName
from apps.accounts.models import Role, RoleGrant, User
from apps.accounts.queries import may
from apps.accounts.rights import Action
from apps.audit import services as audit

if TYPE_CHECKING:
    from django.db.models import Model


def authorize(user: Any, action: str, cluster: Model | None, *, subject: str | Model = "") -> None:
    """Return if `user` may do `action` on `cluster` (None: on the console as a whole).

    Raises NotVisible where the cluster is not even visible to that person, else Denied. The refusal
    goes into the ledger at once, or, inside a transaction that is about to be rolled back, when it
    leaves `denials_recorded` or reaches the web's edge.
    """
    if may(user, action, cluster):
        return
    name = getattr(cluster, "name", "")
    facts: dict[str, Any] = {
        "actor": user if user.is_authenticated else None,
        "action": action,
        "cluster": name,
        "subject": audit.name_subject(subject) if subject else f"cluster {name}" if name else "console",
    }
    if cluster is not None and not may(user, Action.SEE, cluster):
        denied: Denied = NotVisible(f"there is no cluster {name!r} that you can see", **facts)
    else:
        place = f"on cluster {name}" if cluster is not None else "on the console as a whole"
        denied = Denied(f"you may not {action} {place}: ask an admin for a role that may", **facts)
    if not connection.in_atomic_block:
        record_denial(denied)
    raise denied


def record_denial(denied: Denied) -> None:
    """Write a refusal into the ledger, once. Call it outside the transaction that it rolled back.

    A look-up that found nothing names nobody, and is no attempt to do anything: it is left out.
    """
    if denied.is_recorded or denied.actor is None:
        return
    with transaction.atomic():
        audit.record(
            actor=denied.actor,
            action="denied",
            subject=denied.subject or "console",
            cluster=denied.cluster,
            detail={"wanted": denied.action, "reason": str(denied), "kind": type(denied).__name__},
        )
    denied.is_recorded = True


@contextmanager
def denials_recorded() -> Iterator[None]:
    """Put around a durable transaction: a refusal inside is recorded after the roll-back."""
    try:
        yield
    except Denied as denied:
        record_denial(denied)
        raise


@denials_recorded()
@transaction.atomic(durable=True)
def create_person(*, username: str, password: str, actor: User | None = None) -> User:
    """Add a person, without any role. `actor` None is somebody at the server's command line.

    Raises UnusableName for a name that is taken or malformed.
    """
    if actor is not None:
        authorize(actor, Action.ADMINISTER, None)
    person = User(username=username)
    person.set_password(password)
    try:
        person.full_clean(exclude=["password"])
    except ValidationError as error:
        raise UnusableName(f"{username!r} cannot be added: {' '.join(error.messages)}") from error
    person.save()
    audit.record(actor=actor, action="person.created", subject=person, detail={"username": username})
    return person


@denials_recorded()
@transaction.atomic(durable=True)
def grant_role(
    *, user: User, role: str, cluster: Model | None = None, actor: User | None = None
) -> RoleGrant:
    """Let `user` act as `role` on `cluster` (None: on every one). Granting twice changes nothing."""
    if actor is not None:
        authorize(actor, Action.ADMINISTER, cluster, subject=user)
    grant, is_new = RoleGrant.objects.get_or_create(user=user, role=Role(role), cluster_id=_id(cluster))
    if is_new:
        _record_role(actor, "role.granted", user, role, cluster)
    return grant


@denials_recorded()
@transaction.atomic(durable=True)
def revoke_role(*, user: User, role: str, cluster: Model | None = None, actor: User | None = None) -> None:
    """Take `role` away again. Raises LastAdmin rather than leave the console without any admin."""
    if actor is not None:
        authorize(actor, Action.ADMINISTER, cluster, subject=user)
    # Two admins who revoke each other at the same moment must not both succeed.
    holders = _lock_admins()
    if cluster is None and role == Role.ADMIN:
        _refuse_last(user, holders)
    gone, _ = RoleGrant.objects.filter(user=user, role=role, cluster_id=_id(cluster)).delete()
    if gone:
        _record_role(actor, "role.revoked", user, role, cluster)


@denials_recorded()
@transaction.atomic(durable=True)
def set_person_active(*, user: User, is_active: bool, actor: User | None = None) -> None:
    """Switch a person off, who then opens nothing by session or token, or on again; his roles stay.

    Raises LastAdmin rather than leave the console without any admin.
    """
    if actor is not None:
        authorize(actor, Action.ADMINISTER, None, subject=user)
    holders = _lock_admins()
    if not is_active:
        _refuse_last(user, holders)
    if User.objects.filter(pk=user.pk).exclude(is_active=is_active).update(is_active=is_active):
        action = "person.switched-on" if is_active else "person.switched-off"
        audit.record(actor=actor, action=action, subject=user, detail={"username": user.username})


def _lock_admins() -> set[int]:
    """Ids of those active people who administer the whole console, who stay so until the transaction ends."""
    rows = RoleGrant.objects.select_for_update(of=("self",)).filter(role=Role.ADMIN, cluster__isnull=True)
    list(rows.order_by("pk"))
    active = RoleGrant.objects.filter(role=Role.ADMIN, cluster__isnull=True, user__is_active=True)
    return set(active.values_list("user_id", flat=True))


def _refuse_last(user: User, holders: set[int]) -> None:
    if holders == {user.pk}:
        raise LastAdmin(f"{user} is the last admin of the whole console: make somebody else admin first")


def _record_role(actor: User | None, action: str, user: User, role: str, cluster: Model | None) -> None:
    name = getattr(cluster, "name", "")
    audit.record(
        actor=actor,
        action=action,
        subject=user,
        cluster=name,
        detail={"username": user.username, "role": str(role), "cluster": name or "every cluster"},
    )


def _id(cluster: Model | None) -> Any:
    return None if cluster is None else cluster.pk
