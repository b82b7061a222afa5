"""Which console may change the cluster, and whether this one could say so there at all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from django.conf import settings

from apps.executions.cluster_preflight.lines import Line, Standing
from apps.executions.cluster_preflight.rights import Right
from apps.executions.console_standing import Known
from apps.executions.lease_body import NAME

SUBJECT = "Consoles"


def is_about_lease(right: Right) -> bool:
    return (right.resource, right.group) == ("leases", "coordination.k8s.io")


def judge_consoles(missing: Sequence[Right], known: Known) -> Iterator[Line]:
    lacking = [right.verb for right in missing if is_about_lease(right)]
    where = f"Lease {settings.STEERING_NAMESPACE}/{NAME}"
    if lacking:
        yield Line(
            SUBJECT, Standing.PLANNED_ONLY,
            f"The console may not {' or '.join(lacking)} the {where}, by which consoles keep out of each "
            "other's way.",
            "Everything is planned only: another console could change the same nodes at the same time.",
            "kubectl apply -f deploy/rbac/executor.yaml",
        )  # fmt: skip
    elif known.safe_since is not None:
        yield Line(
            SUBJECT, Standing.PLANNED_ONLY, f"Safe mode: {known.safe_reason}.",
            "Nothing at all is sent to the cluster.",
            "Restore the newest database, or look below at what the cluster carries and leave safe mode.",
        )  # fmt: skip
    elif known.holder:
        yield Line(
            SUBJECT, Standing.WARNING, f"Another console has the cluster: {known.holder}, by {where}.",
            f"This one ({known.identity}) sends nothing new.",
            "Go on there, or stop that console: this one takes over a minute later.",
        )  # fmt: skip
    elif known.until is not None:
        yield Line(
            SUBJECT, Standing.OK, f"This console ({known.identity}) alone may change the cluster, by {where}."
        )
    else:
        yield Line(
            SUBJECT, Standing.TOLD, f"No console is known to have the cluster. {known.error}".rstrip(),
            f"This one ({known.identity}) takes {where} by a timer, and before it sends anything.",
        )  # fmt: skip
