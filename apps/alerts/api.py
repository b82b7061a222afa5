"""Alerts over REST: read only."""

from __future__ import annotations

import django_filters
from django.db.models import QuerySet
from rest_framework.viewsets import ReadOnlyModelViewSet

from apps.accounts.moments import MomentFilter
from apps.accounts.ordering import Ordering
from apps.alerts.models import Alert
from apps.alerts.queries import alerts_for
from apps.alerts.serializers import AlertSerializer
from apps.alerts.states import Kind


class AlertFilter(django_filters.FilterSet):
    cluster = django_filters.CharFilter(field_name="cluster__name")
    kind = django_filters.MultipleChoiceFilter(choices=Kind.choices)
    open = django_filters.ChoiceFilter(
        choices=[("true", "open"), ("false", "cleared")],
        method="of_state",
    )
    since = MomentFilter(field_name="raised_at", lookup_expr="gte")
    until = MomentFilter(field_name="raised_at", lookup_expr="lt")

    class Meta:
        model = Alert
        fields: list[str] = []

    def of_state(self, found: QuerySet[Alert], name: str, value: str) -> QuerySet[Alert]:
        return found.filter(cleared_at__isnull=value == "true")


class AlertViewSet(ReadOnlyModelViewSet):
    """What is or was wrong on the clusters that you see, the newest first."""

    queryset = Alert.objects.none()
    serializer_class = AlertSerializer
    filterset_class = AlertFilter
    filter_backends = [django_filters.rest_framework.DjangoFilterBackend, Ordering]
    ordering_fields = ["id", "raised_at", "cleared_at"]
    lookup_value_regex = r"[0-9]{1,18}"

    def get_queryset(self) -> QuerySet[Alert]:
        return alerts_for(self.request.user)
