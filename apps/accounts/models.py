"""People, what each may do on which cluster, and their API tokens. Fields and constraints only."""

from __future__ import annotations

from django.contrib.auth.models import AbstractUser
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from knox.models import AbstractAuthToken

from apps.accounts.limits import Scope, TokenLimits


class Role(models.TextChoices):
    """Granted per cluster; see `apps.accounts.rights` for what each may do."""

    VIEWER = "viewer"
    PLANNER = "planner"
    APPROVER = "approver"
    OPERATOR = "operator"
    ADMIN = "admin"
    AUDITOR = "auditor"


class User(AbstractUser):  # type: ignore[django-manager-missing]  # knox types none
    """One person. Being a superuser opens no shortcut around approval.

    token: what the API token allows through which this very request speaks; None in the browser.
    """

    token: TokenLimits | None = None


class RoleGrant(models.Model):
    """`role` for `user` on `cluster`; a grant without a cluster holds on every one."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="grants")
    role = models.CharField(max_length=20, choices=Role.choices)
    cluster = models.ForeignKey(
        "clusters.Cluster", null=True, blank=True, on_delete=models.CASCADE, related_name="+"
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "role", "cluster"], name="one_grant_per_cluster"),
            models.UniqueConstraint(
                fields=["user", "role"], condition=Q(cluster__isnull=True), name="one_grant_everywhere"
            ),
        ]


class RememberedAnswer(models.Model):
    """What a request with an Idempotency-Key was answered, so that sending it again does nothing twice.

    `request_digest`: sha256 of method, path and body. `status` is null while the request is in flight.
    `caller`: "" for the browser, else which token of the person it was.
    """

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    caller = models.CharField(max_length=40, blank=True, default="")
    key = models.CharField(max_length=200)
    request_digest = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField(null=True)
    body = models.JSONField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "caller", "key"], name="one_answer_per_caller_and_key")
        ]


class ApiToken(AbstractAuthToken):
    """One of a person's keys to the REST API: only its digest is kept.

    `is_limited`: holds on `clusters` alone, which may have become none; otherwise on all that the
    person sees. `password_stamp`: fingerprint of the password it was made under; another one ends it.
    """

    id = models.BigAutoField(primary_key=True)
    digest = models.CharField(max_length=128, unique=True)
    name = models.CharField(max_length=60)
    scopes = ArrayField(models.CharField(max_length=20, choices=Scope.choices))
    is_limited = models.BooleanField(default=False)
    clusters = models.ManyToManyField("clusters.Cluster", blank=True, related_name="+")
    password_stamp = models.CharField(max_length=64)
    last_used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["user", "name"], condition=Q(revoked_at__isnull=True), name="one_live_token_per_name"
            )
        ]

    def __str__(self) -> str:
        return f"token {self.pk} of {self.user}"
