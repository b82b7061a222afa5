"""Every read of people, their roles and tokens. No rule about what a role may do (`rights`), no changes.

A person who speaks through an API token may do no more than the token allows: asked here, so that it
holds wherever rights are asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.models import Model, Q, QuerySet

from apps.accounts.limits import limits_of
from apps.accounts.models import ApiToken, RoleGrant
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
    limits = limits_of(user)
    if limits is not None and not limits.allow(action, None if cluster is None else cluster.pk):
        return False
    where = Q(cluster__isnull=True) if cluster is None else Q(cluster__isnull=True) | Q(cluster=cluster)
    return RoleGrant.objects.filter(where, user_id=user.pk, role__in=roles_with(action)).exists()


def actions_on(user: Person, cluster: Model) -> frozenset[Action]:
    """All that `user` may do on `cluster`, in one query: for pages that show or explain many buttons."""
    if not user.is_authenticated or not user.is_active:
        return frozenset()
    where = Q(cluster__isnull=True) | Q(cluster=cluster)
    granted = actions_of(RoleGrant.objects.filter(where, user_id=user.pk).values_list("role", flat=True))
    limits = limits_of(user)
    if limits is None:
        return granted
    return frozenset(action for action in granted if limits.allow(action, cluster.pk))


def clusters_visible_to(user: Person, action: str = Action.SEE) -> frozenset[int]:
    """Ids of the clusters on which `user` may do `action`; by default those that he sees at all."""
    if not user.is_authenticated or not user.is_active:
        return frozenset()
    grants = RoleGrant.objects.filter(user_id=user.pk, role__in=roles_with(action))
    ids = set(grants.values_list("cluster_id", flat=True))
    if None in ids:
        ids = set(cluster_model()._default_manager.values_list("pk", flat=True))
    limits = limits_of(user)
    return frozenset(ids if limits is None else {pk for pk in ids if limits.allow(action, pk)})


def tokens_for(user: Person) -> QuerySet[ApiToken]:
    """API tokens that `user` may see: his own; those of everybody for an admin of the whole console."""
    found = ApiToken.objects.select_related("user").prefetch_related("clusters")
    return found if may(user, Action.ADMINISTER, None) else found.filter(user_id=user.pk)


def clusters_of(token: ApiToken) -> list[str] | None:
    """Names of the clusters that a token is limited to; None for every one that its person sees."""
    return sorted(one.name for one in token.clusters.all()) if token.is_limited else None
