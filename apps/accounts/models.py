"""People and what each may do on which cluster. Fields and constraints only."""

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models import Q


class Role(models.TextChoices):
    """Granted per cluster; see `apps.accounts.rights` for what each may do."""

    VIEWER = "viewer"
    PLANNER = "planner"
    APPROVER = "approver"
    OPERATOR = "operator"
    ADMIN = "admin"
    AUDITOR = "auditor"


class User(AbstractUser):
    """One person. Being a superuser opens no shortcut around approval."""


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
    """

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    key = models.CharField(max_length=200)
    request_digest = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField(null=True)
    body = models.JSONField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "key"], name="one_answer_per_key")]
