"""Mutating admission webhooks, called over HTTPS as AdmissionReview v1."""

from __future__ import annotations

from typing import Any

from apps.simulator.api_server.calls import Call
from apps.simulator.api_server.cluster import Cluster


async def mutate(
    cluster: Cluster, call: Call, obj: dict[str, Any], old: dict[str, Any] | None
) -> dict[str, Any]:
    return obj
