"""The stored account. Fields only; the room's `models` names it beside the others."""

from django.db import models


class GpuHours(models.Model):
    """The account of what one execution cost and brought, from its begin until 24 h after its end.

    `lost_foreseen`, `won_foreseen`: GPU-hours by its plan, null where it foresees none. `losses`, `room`,
    `gains`: as `gpu_hours.losing` and `gaining` keep them (gains by pod UID). `looks`: when the cluster's
    picture was looked at, epoch seconds. `sums`: as of the last look. `closed_at`: nothing more is looked at.
    """

    execution = models.OneToOneField("executions.Execution", on_delete=models.CASCADE, related_name="hours")
    lost_foreseen = models.FloatField(null=True)
    won_foreseen = models.FloatField(null=True)
    losses = models.JSONField(default=list)
    room = models.JSONField(default=dict)
    gains = models.JSONField(default=dict)
    looks = models.JSONField(default=list)
    sums = models.JSONField(default=dict)
    looked_at = models.DateTimeField(null=True)
    closed_at = models.DateTimeField(null=True, db_index=True)
