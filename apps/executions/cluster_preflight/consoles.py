"""Which console may change the cluster, and whether this one could say so there at all.

Rights are looked at and kept like all lines; which console has it changes within seconds and costs no
request, so that is reckoned whenever the lines are shown.
"""

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


def judge_lease_rights(missing: Sequence[Right]) -> Iterator[Line]:
    lacking = [right.verb for right in missing if is_about_lease(right)]
    if lacking:
        yield Line(
            SUBJECT, Standing.PLANNED_ONLY,
            f"The console may not {' or '.join(lacking)} the {_where()}, by which consoles keep out of each "
            "other's way.",
            "Everything is planned only: another console could change the same nodes at the same time.",
            "kubectl apply -f deploy/rbac/executor.yaml",
        )  # fmt: skip


def add_console(kept: Sequence[Line], known: Known) -> list[Line]:
    """Lines of an earlier look with the one that is known now: before them all, unless a right is missing."""
    lines = [one for one in kept if one.subject != SUBJECT or one.standing == Standing.PLANNED_ONLY]
    if not lines or any(one.subject == SUBJECT for one in lines):
        return lines
    return [judge_console(known), *lines]


def judge_console(known: Known) -> Line:
    if known.safe_since is not None:
        return Line(
            SUBJECT, Standing.PLANNED_ONLY, f"Safe mode: {known.safe_reason}.",
            "Nothing at all is sent to the cluster.",
            "Restore the newest database, or look below at what the cluster carries and leave safe mode.",
        )  # fmt: skip
    if known.holder:
        return Line(
            SUBJECT, Standing.WARNING, f"Another console has the cluster: {known.holder}, by {_where()}.",
            f"This one ({known.identity}) sends nothing new.",
            "Go on there, or stop that console: this one takes over a minute later.",
        )  # fmt: skip
    if known.until is not None:
        return Line(
            SUBJECT,
            Standing.OK,
            f"This console ({known.identity}) alone may change the cluster, by {_where()}.",
        )
    return Line(
        SUBJECT, Standing.TOLD, f"No console is known to have the cluster. {known.error}".rstrip(),
        f"This one ({known.identity}) takes {_where()} by a timer, and before it sends anything.",
    )  # fmt: skip


def _where() -> str:
    return f"Lease {settings.STEERING_NAMESPACE}/{NAME}"
