"""Where a cluster's extender is reached. The address carries a secret: whoever asks may let us bind pods.

kube-scheduler can send no token, so the secret stands in the path, behind TLS. It follows from the console's
own key and the number in the policy's row: nothing secret is stored, and a new number makes the old useless.
"""

from __future__ import annotations

from hmac import compare_digest

from django.conf import settings
from django.utils.crypto import salted_hmac

from apps.clusters.models import Cluster
from apps.placing.models import PlacementPolicy

HIDDEN = "SECRET"
"""Stands for the secret where it is not shown."""


def secret_of(policy: PlacementPolicy) -> str:
    said = f"{policy.cluster_id}/{policy.address_number}"
    return salted_hmac("apps.placing.extender", said, algorithm="sha256").hexdigest()[:40]


def is_secret_of(policy: PlacementPolicy, told: str) -> bool:
    return compare_digest(secret_of(policy).encode(), told.encode())


def path_of(cluster: Cluster, secret: str) -> str:
    return f"/extender/{cluster.name}/{secret}"


def url_prefix_of(policy: PlacementPolicy, *, shows_secret: bool) -> str:
    """ "" where this console has no extender's address (EXTENDER_URL)."""
    if not settings.EXTENDER_URL:
        return ""
    secret = secret_of(policy) if shows_secret else HIDDEN
    base = settings.EXTENDER_URL.replace("{cluster}", policy.cluster.name).rstrip("/")
    return base + path_of(policy.cluster, secret)
