"""API tokens over REST. A token may list what its person has; making and ending them takes the browser."""

from __future__ import annotations

from typing import cast

import django_filters
from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import mixins, serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from apps.accounts.conditions import CONDITIONAL, ETAG, IF_MATCH, require_match, tag_of, unchanged
from apps.accounts.idempotency import IDEMPOTENCY_KEY, once_per_key
from apps.accounts.limits import Scope
from apps.accounts.models import ApiToken, User
from apps.accounts.ordering import Ordering
from apps.accounts.queries import clusters_of, tokens_for
from apps.accounts.sessions import logged_in_at
from apps.accounts.strict import StrictSerializer, checked
from apps.accounts.tokens import create_token, ended_because, rename_token, revoke_token

MOST_DAYS = 36500


class TokenSerializer(serializers.ModelSerializer):
    """clusters: names it is limited to, null for every cluster that its person sees.

    ended_because: empty while it holds. key_start: the secret's first characters, to know it by.
    """

    person = serializers.CharField(source="user.username")
    scopes = serializers.ListField(child=serializers.ChoiceField(choices=Scope.values))
    clusters = serializers.SerializerMethodField()
    created_at = serializers.DateTimeField(source="created")
    expires_at = serializers.DateTimeField(source="expiry")
    key_start = serializers.CharField(source="token_key")
    ended_because = serializers.SerializerMethodField()

    class Meta:
        model = ApiToken
        fields = [
            "id",
            "name",
            "person",
            "scopes",
            "clusters",
            "key_start",
            "created_at",
            "expires_at",
            "last_used_at",
            "revoked_at",
            "ended_because",
        ]
        read_only_fields = fields

    def get_clusters(self, token: ApiToken) -> list[str] | None:
        return clusters_of(token)

    def get_ended_because(self, token: ApiToken) -> str:
        return ended_because(token)


class NewTokenSerializer(TokenSerializer):
    """secret: shown this once. Empty where an Idempotency-Key repeats the answer."""

    secret = serializers.CharField()

    class Meta(TokenSerializer.Meta):
        fields = [*TokenSerializer.Meta.fields, "secret"]
        read_only_fields = fields


class TokenRequestSerializer(StrictSerializer):
    """clusters: names to limit it to; null or left out for every cluster that you see."""

    name = serializers.CharField(max_length=60)
    scopes = serializers.ListField(
        child=serializers.ChoiceField(choices=Scope.values), min_length=1, max_length=3
    )
    valid_days = serializers.IntegerField(min_value=1, max_value=MOST_DAYS, default=30)
    clusters = serializers.ListField(
        child=serializers.CharField(max_length=63), allow_null=True, default=None, max_length=500
    )


class TokenNameSerializer(StrictSerializer):
    name = serializers.CharField(max_length=60)


class TokenFilter(django_filters.FilterSet):
    person = django_filters.CharFilter(field_name="user__username")

    class Meta:
        model = ApiToken
        fields: list[str] = []


class TokenViewSet(mixins.ListModelMixin, GenericViewSet):
    """Your tokens; those of everybody for an admin of the whole console. Never their secrets."""

    queryset = ApiToken.objects.none()
    serializer_class = TokenSerializer
    filterset_class = TokenFilter
    filter_backends = [django_filters.rest_framework.DjangoFilterBackend, Ordering]
    ordering_fields = ["id", "name", "created", "expiry", "last_used_at"]
    lookup_value_regex = r"[0-9]{1,18}"

    def get_queryset(self) -> QuerySet[ApiToken]:
        return tokens_for(self.request.user)

    @extend_schema(parameters=CONDITIONAL, responses=TokenSerializer)
    def retrieve(self, request: Request, pk: str) -> Response:
        token = self.get_object()
        return unchanged(request, _tag(token)) or _told(token)

    @extend_schema(
        request=TokenRequestSerializer,
        responses={201: NewTokenSerializer},
        parameters=[IDEMPOTENCY_KEY],
        examples=[
            OpenApiExample(
                "One that plans on one cluster",
                value={"name": "nightly planner", "scopes": ["read", "plan:write"], "clusters": ["gpu-east"]},
                request_only=True,
            )
        ],
    )
    @once_per_key
    def create(self, request: Request) -> Response:
        """Make a token. Only in the browser's session, within an hour of logging in."""
        wanted = checked(TokenRequestSerializer, request)
        token, secret = create_token(
            actor=cast(User, request.user),
            logged_in_at=logged_in_at(request._request),
            **wanted,
        )
        body = {**TokenSerializer(token).data, "secret": secret}
        return Response(body, status=status.HTTP_201_CREATED, headers={"Cache-Control": "no-store"})

    @extend_schema(request=TokenNameSerializer, responses=TokenSerializer, parameters=[IF_MATCH, ETAG])
    def partial_update(self, request: Request, pk: str) -> Response:
        """Give it another name. Only in the browser's session."""
        wanted = checked(TokenNameSerializer, request, partial=True)
        token = self.get_object()
        require_match(request, _tag(token))
        renamed = rename_token(
            actor=cast(User, request.user),
            token_id=token.pk,
            check=lambda row: require_match(request, _tag(row)),
            name=wanted.get("name", token.name),
        )
        return _told(renamed)

    @extend_schema(request=None, responses=TokenSerializer)
    @action(detail=True, methods=["post"])
    def revoke(self, request: Request, pk: str) -> Response:
        """It opens nothing from now on, and stays in the list. Only in the browser's session."""
        return _told(revoke_token(actor=cast(User, request.user), token_id=self.get_object().pk))


def _tag(token: ApiToken) -> str:
    """Not of last_used_at, which would let every use overtake an edit."""
    return tag_of(token.pk, token.name, token.revoked_at, ended_because(token))


def _told(token: ApiToken) -> Response:
    return Response(TokenSerializer(token).data, headers={"ETag": _tag(token)})
