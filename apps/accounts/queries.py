"""Every read of people and their roles. No rule about what a role may do (`rights`), no changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.models import Model, Q

from apps.accounts.models import RoleGrant
from apps.accounts.rights import Action, actions_of, roles_with

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser
    from django.contrib.auth.models import AnonymousUser

    Person = AbstractBaseUser | AnonymousUser


def cluster_model() -> type[Model]:
    """The clusters that grants point to: a later stage, so it is reached through the grant."""
    return RoleGrant._meta.get_field("cluster").related_model


def may(user: Person, action: str, cluster: Model | None) -> bool:
    """Whether `user` may do `action` on `cluster`; without one, on the console as a whole.

    The whole console asks for a grant that holds on every cluster. Being a superuser counts for nothing.
    """
    if not user.is_authenticated or not user.is_active:
        return False
    where = Q(cluster__isnull=True) if cluster is None else Q(cluster__isnull=True) | Q(cluster=cluster)
    return RoleGrant.objects.filter(where, user_id=user.pk, role__in=roles_with(action)).exists()


def actions_on(user: Person, cluster: Model) -> frozenset[Action]:
    """All that `user` may do on `cluster`, in one query: for pages that show or explain many buttons."""
    if not user.is_authenticated or not user.is_active:
        return frozenset()
    where = Q(cluster__isnull=True) | Q(cluster=cluster)
    return actions_of(RoleGrant.objects.filter(where, user_id=user.pk).values_list("role", flat=True))


def clusters_visible_to(user: Person, action: str = Action.SEE) -> frozenset[int]:
    """Ids of the clusters on which `user` may do `action`; by default those that he sees at all."""
    if not user.is_authenticated or not user.is_active:
        return frozenset()
    grants = RoleGrant.objects.filter(user_id=user.pk, role__in=roles_with(action))
    ids = set(grants.values_list("cluster_id", flat=True))
    if None in ids:
        return frozenset(cluster_model()._default_manager.values_list("pk", flat=True))
    return frozenset(ids)
