"""Webhooks over REST, for admins in the browser's session: no token has a scope for them."""

from __future__ import annotations

from typing import Any, cast

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from apps.accounts.ordering import Ordering
from apps.accounts.sessions import require_recent_login
from apps.accounts.strict import checked
from apps.clusters.queries import cluster_for
from apps.webhooks import services
from apps.webhooks.models import Webhook
from apps.webhooks.queries import webhooks_for
from apps.webhooks.serializers import (
    DeliverySerializer,
    NewWebhookSerializer,
    WebhookSerializer,
    WebhookSwitchSerializer,
    WebhookWishSerializer,
)


class WebhookViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, GenericViewSet):
    """Receivers on the clusters that you administer."""

    queryset = Webhook.objects.none()
    serializer_class = WebhookSerializer
    filter_backends = [Ordering]
    ordering_fields = ["id", "name"]
    lookup_value_regex = r"[0-9]{1,18}"

    def get_queryset(self) -> QuerySet[Webhook]:
        return webhooks_for(self.request.user)

    @extend_schema(request=WebhookWishSerializer, responses={201: NewWebhookSerializer})
    def create(self, request: Request) -> Response:
        """Add a receiver, by a recent login. The answer shows its secret, this once."""
        wanted = checked(WebhookWishSerializer, request)
        require_recent_login(request, "add a webhook")
        name = wanted.pop("cluster", None)
        place = cluster_for(request.user, name) if name else None
        row, secret = services.add_webhook(actor=cast(Any, request.user), cluster=place, **wanted)
        body = {**WebhookSerializer(row).data, "secret": secret}
        return Response(body, status=status.HTTP_201_CREATED, headers={"Cache-Control": "no-store"})

    @extend_schema(request=WebhookSwitchSerializer, responses=WebhookSerializer)
    def partial_update(self, request: Request, pk: str) -> Response:
        """Switch it off or on."""
        row = self.get_object()
        wanted = checked(WebhookSwitchSerializer, request, partial=True)
        if "is_active" in wanted:
            services.switch_webhook(actor=request.user, webhook=row, is_active=wanted["is_active"])
        return Response(WebhookSerializer(self.get_object()).data)

    @extend_schema(responses={204: None})
    def destroy(self, request: Request, pk: str) -> Response:
        """Remove it with its deliveries."""
        services.remove_webhook(actor=request.user, webhook=self.get_object())
        return Response(status=status.HTTP_204_NO_CONTENT)

    @extend_schema(responses=DeliverySerializer(many=True))
    @action(detail=True, serializer_class=DeliverySerializer, filter_backends=[])
    def deliveries(self, request: Request, pk: str) -> Response:
        """What it was told and what came of it, newest first; kept for 30 days."""
        page = self.paginate_queryset(self.get_object().deliveries.all()) or []
        return self.get_paginated_response(DeliverySerializer(page, many=True).data)
