"""Opens the gateway of a registered cluster from its stored credentials."""

from __future__ import annotations

from django.conf import settings

from apps.clusters.credentials import unseal
from apps.clusters.errors import ConnectionFailed
from apps.clusters.models import Cluster
from apps.kube.kubeconfig import Credentials
from apps.kube.kubernetes_gateway import KubernetesGateway


def open_gateway(cluster: Cluster) -> KubernetesGateway:
    """A gateway that answers for exactly this cluster (its UID is pinned). Connects on first use.

    Raises ConnectionFailed if the credential cannot be decrypted, or there is none. Close it after use.
    """
    if not cluster.is_live:
        raise ConnectionFailed(f"{cluster.name} is known from a dump only: there is nothing to connect to.")
    credentials = unseal(cluster.credential, server=cluster.server, ca=cluster.ca_certificate)
    return open_with(credentials, pinned_uid=cluster.kube_system_uid)


def open_with(credentials: Credentials, *, pinned_uid: str = "") -> KubernetesGateway:
    """A gateway from credentials that are not stored (yet)."""
    return KubernetesGateway(
        server=credentials.server,
        ca=credentials.ca,
        token=credentials.token,
        client_certificate=credentials.client_certificate,
        client_key=credentials.client_key,
        tls_server_name=credentials.tls_server_name,
        skip_tls_verify=credentials.skip_tls_verify,
        connect_seconds=settings.KUBE_CONNECT_SECONDS,
        read_seconds=settings.KUBE_READ_SECONDS,
        pinned_uid=pinned_uid,
    )
