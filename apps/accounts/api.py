"""The ledger over REST, for auditors. Here and not in `audit`, because rights stand above the ledger."""

from __future__ import annotations

import django_filters
from django.db.models import QuerySet
from rest_framework.viewsets import ReadOnlyModelViewSet

from apps.accounts.moments import MomentFilter
from apps.accounts.ordering import Ordering
from apps.accounts.queries import cluster_model, clusters_visible_to, may
from apps.accounts.rights import Action
from apps.accounts.serializers import AuditEntrySerializer
from apps.audit.models import AuditEntry
from apps.audit.queries import entries_visible


class AuditFilter(django_filters.FilterSet):
    cluster = django_filters.CharFilter()
    actor = django_filters.CharFilter(field_name="actor__username")
    action = django_filters.CharFilter()
    subject = django_filters.CharFilter()
    since = MomentFilter(field_name="at", lookup_expr="gte")
    until = MomentFilter(field_name="at", lookup_expr="lt")

    class Meta:
        model = AuditEntry
        fields: list[str] = []


class AuditViewSet(ReadOnlyModelViewSet):
    """Entries of the clusters that the caller may audit; an auditor of the whole console sees all."""

    queryset = AuditEntry.objects.none()
    serializer_class = AuditEntrySerializer
    filterset_class = AuditFilter
    filter_backends = [django_filters.rest_framework.DjangoFilterBackend, Ordering]
    ordering_fields = ["id", "at"]
    lookup_value_regex = r"[0-9]{1,18}"

    def get_queryset(self) -> QuerySet[AuditEntry]:
        user = self.request.user
        if may(user, Action.AUDIT, None):
            return entries_visible(None)
        ids = clusters_visible_to(user, Action.AUDIT)
        names = cluster_model()._default_manager.filter(pk__in=ids).values_list("name", flat=True)
        return entries_visible(set(names))
