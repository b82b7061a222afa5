"""Reads receivers for those who look after them."""

from __future__ import annotations

from typing import Any

from django.db.models import Q, QuerySet

from apps.accounts.queries import clusters_visible_to, may
from apps.accounts.rights import Action
from apps.webhooks.models import Webhook


def webhooks_for(user: Any) -> QuerySet[Webhook]:
    """Those of the clusters that `user` administers; those of the whole console for its admins."""
    found = Q(cluster_id__in=clusters_visible_to(user, Action.ADMINISTER))
    if may(user, Action.ADMINISTER, None):
        found |= Q(cluster=None)
    return Webhook.objects.filter(found).select_related("cluster", "created_by").defer("cluster__credential")
