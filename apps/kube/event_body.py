"""How a Kubernetes Event looks that tells an owner what the console does."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import UTC, datetime

from apps.kube.connection import USER_AGENT
from apps.kube.gateway import Json


def event_body(
    involved: Mapping[str, str], *, reason: str, message: str, name: str = "", kind: str = "Normal"
) -> Json:
    """involved: kind, apiVersion, name, uid and (unless cluster-scoped) namespace. name: of the event itself;
    one that is told again under the same name is refused by the API server, so nothing is told twice.
    kind: Normal or Warning."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": name or f"{involved['name'][:200]}.{uuid.uuid4().hex[:16]}",
            "namespace": involved.get("namespace") or "default",
        },
        "involvedObject": dict(involved),
        "reason": reason,
        "message": message[:1000],
        "type": kind,
        "source": {"component": USER_AGENT},
        "reportingComponent": USER_AGENT,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
