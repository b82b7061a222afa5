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
