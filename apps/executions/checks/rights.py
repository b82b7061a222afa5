"""Whether the credential has every right that carrying a plan out takes, asked before anything is touched.

What steering takes depends on its form: `steering`. Asked anew at each look, in one request per namespace
where the cluster can list what it grants (`kube.own_rights`).
"""

from __future__ import annotations

from collections.abc import Iterator

from django.conf import settings

from apps.executions.checks.looking import Look, Objection
from apps.kube.gateway import AUTOSCALERS, LEASES, NODES, PODS, PRIORITY_CLASSES, QUOTAS, Kind


def check_rights(look: Look) -> Iterator[Objection]:
    ours = settings.STEERING_NAMESPACE
    needed: list[tuple[str, Kind, str, str]] = [
        ("get", NODES, "", ""),
        ("patch", NODES, "", ""),
        ("get", PODS, "", ""),
        ("create", PODS, "eviction", ""),
        ("patch", PODS, "", ""),
        ("patch", PODS, "status", ""),
        ("create", LEASES, "", ours),
        ("create", PODS, "", ours),
        ("delete", PODS, "", ours),
        ("get", PRIORITY_CLASSES, "", ""),
        ("create", PRIORITY_CLASSES, "", ""),
        ("list", QUOTAS, "", ""),
        ("list", AUTOSCALERS, "", ""),
    ]
    for verb, kind, sub, namespace in needed:
        if not look.rights.may(verb, kind, subresource=sub, namespace=namespace):
            what = f"{kind.plural}{'/' + sub if sub else ''}"
            yield Objection(f"The console's credential may not {verb} {what}.")
