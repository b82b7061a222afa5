"""Whether whoever has kubectl can stop this console from within the cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from django.conf import settings

from apps.executions.cluster_preflight.lines import Line, Standing
from apps.executions.cluster_preflight.rights import Right
from apps.executions.cluster_switch import NAME, Seen

SUBJECT = "Kill switch"


def is_about_switch(right: Right) -> bool:
    """Its lack keeps no plan from being carried out."""
    return (right.resource, right.name) == ("configmaps", NAME)


def judge_switch(missing: Sequence[Right], seen: Seen) -> Iterator[Line]:
    """seen: what a look found just now, `Seen()` where nobody looked."""
    lacking = [right.verb for right in missing if is_about_switch(right) and right.verb != "list"]
    where = f"ConfigMap {settings.STEERING_NAMESPACE}/{NAME}"
    if lacking:
        yield Line(
            SUBJECT, Standing.WARNING,
            f"There is no kill switch in the cluster: the console may not {' or '.join(lacking)} {where}.",
            "Only somebody who can reach this console can stop it (page Policies).",
            "kubectl apply -f deploy/rbac/executor.yaml",
        )  # fmt: skip
    elif seen.error:
        yield Line(
            SUBJECT, Standing.UNKNOWN, f"{where} cannot be read now: {seen.error}",
            "Nothing new is sent to the cluster while that lasts.",
        )  # fmt: skip
    elif seen.is_on:
        yield Line(
            SUBJECT, Standing.WARNING, f"It is on: {where}. {seen.reason}".rstrip(),
            "Nothing new is begun; what is in the air is landed.",
            f"Whoever made it lifts it: kubectl -n {settings.STEERING_NAMESPACE} delete configmap {NAME}",
        )  # fmt: skip
    else:
        command = f"kubectl -n {settings.STEERING_NAMESPACE} create configmap {NAME}"
        yield Line(
            SUBJECT, Standing.OK, "Whoever may make a ConfigMap in our namespace can stop the console.",
            f"{command} --from-literal=stop=true --from-literal=reason=...",
        )  # fmt: skip
