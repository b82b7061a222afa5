"""Opens a stored source as a client of its Prometheus."""

from __future__ import annotations

from django.conf import settings

from apps.clusters.credentials import unseal_text
from apps.prometheus.client import Client
from apps.prometheus.connection import Connection
from apps.telemetry.models import Source


def open_client(source: Source) -> Client:
    """Raises BadAddress, or ConnectionFailed where the stored token cannot be decrypted."""
    connection = Connection(
        source.address,
        token=unseal_text(source.credential, what=f"the Prometheus of {source.cluster.name}"),
        ca=source.ca_certificate,
        connect_seconds=settings.TELEMETRY_CONNECT_SECONDS,
        read_seconds=settings.TELEMETRY_READ_SECONDS,
    )
    return Client(connection, budget_seconds=settings.TELEMETRY_BUDGET_SECONDS)
