"""What exporters' labels say of who holds what: told by a later stage, which the settings name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog
from django.conf import settings
from django.db import DatabaseError
from django.utils.module_loading import import_string

from apps.clusters.models import Cluster
from apps.kube.translate.holders import Sighting

Told = tuple[str, str, str, str, float]
"""Namespace, pod, device (UUID), container, and when it was seen."""
logger = structlog.get_logger(__name__)


def find_sightings(cluster: Cluster) -> dict[str, Sequence[Sighting]]:
    """By the name of the node. The picture does not wait for telemetry: a trouble of it means none."""
    if not settings.DEVICE_SIGHTINGS:
        return {}
    tell: Callable[[Cluster], dict[str, list[Told]]] = import_string(settings.DEVICE_SIGHTINGS)
    try:
        return {node: [Sighting(*one) for one in told] for node, told in tell(cluster).items()}
    except DatabaseError:
        raise
    except Exception:
        logger.exception("the sightings of exporters cannot be read", cluster=cluster.name)
        return {}
