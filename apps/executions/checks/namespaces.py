"""Namespaces that would refuse a replacement: being deleted, or with a quota that has no room for it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from django.conf import settings

from apps.executions.checks.looking import Look, Objection
from apps.executions.checks.owners import child_text
from apps.kube.gateway import NAMESPACES, QUOTAS
from apps.planner.inventory import Pod
from apps.planner.resources import parse_quantity

Json = dict[str, Any]
OF_LIMITS = "limits."
OF_REQUESTS = "requests."


def check_namespaces(look: Look) -> Iterator[Objection]:
    leaving = {child_text(one, "metadata", "name") for one in look.listed(NAMESPACES) if _is_leaving(one)}
    for pod in look.leaving:
        if pod.namespace in leaving:
            yield Objection(
                f"Namespace {pod.namespace} is being deleted: nothing can be made in it. Ask for a new plan.",
                pod.uid,
            )
    ours = settings.STEERING_NAMESPACE
    if look.moving and ours in leaving:
        yield Objection(f"Namespace {ours} is being deleted, and holds are made there: wait for its end.")


def _is_leaving(namespace: Json) -> bool:
    return child_text(namespace, "status", "phase") == "Terminating" or bool(
        child_text(namespace, "metadata", "deletionTimestamp")
    )


def check_quotas(look: Look) -> Iterator[Objection]:
    """A replacement takes the place of its pod in the quota, so a full one is no hindrance; one that is
    overdrawn (it was lowered later) is. Holds are made in our own namespace, all beside each other."""
    by_namespace: dict[str, list[Json]] = defaultdict(list)
    for quota in look.listed(QUOTAS):
        by_namespace[child_text(quota, "metadata", "namespace")].append(quota)
    for pod in look.moving:
        for quota in by_namespace.get(pod.namespace, ()):
            if covers(quota, pod):
                yield from _overdrawn(quota, pod)
    ours = settings.STEERING_NAMESPACE
    for quota in by_namespace.get(ours, ()):
        yield from _no_room_for_holds(look, quota)


def _overdrawn(quota: Json, pod: Pod) -> Iterator[Objection]:
    for name, hard, used in amounts(quota):
        if used > hard and _asked(pod, name):
            yield Objection(
                f"Quota {child_text(quota, 'metadata', 'name')} of {pod.namespace} is overdrawn ({name}: "
                f"{_shown(quota, 'used', name)} of {_shown(quota, 'hard', name)} used): it would refuse the "
                "replacement. Have it raised, or let other pods end first.",
                pod.uid,
            )
            return


def _no_room_for_holds(look: Look, quota: Json) -> Iterator[Objection]:
    wanted: Counter[str] = Counter()
    for pod in look.moving:
        if covers(quota, pod):
            wanted.update({name: _asked(pod, name) for name, _hard, _used in amounts(quota)})
    for name, hard, used in amounts(quota):
        if wanted[name] and used + wanted[name] > hard:
            yield Objection(
                f"Quota {child_text(quota, 'metadata', 'name')} of {settings.STEERING_NAMESPACE} has no room "
                f"for the holds of this plan ({name}: {_shown(quota, 'used', name)} of "
                f"{_shown(quota, 'hard', name)} used): raise it, or take it away."
            )
            return


def amounts(quota: Json) -> list[tuple[str, int, int]]:
    """(name in the quota, hard, used) of what can be read; CPU in millicores, memory in bytes."""
    status = quota.get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    found = []
    for name in sorted(hard):
        limit, taken = _amount(name, hard[name]), _amount(name, used.get(name, "0"))
        if limit is not None and taken is not None:
            found.append((name, limit, taken))
    return found


def _amount(name: str, text: object) -> int | None:
    try:
        return parse_quantity(str(text), _resource(name))
    except (ValueError, ArithmeticError):
        return None


def _resource(name: str) -> str:
    return name.removeprefix(OF_REQUESTS).removeprefix(OF_LIMITS)


def _asked(pod: Pod, name: str) -> int:
    """How much of what the quota counts the pod takes. Its limits are not known here: they count as its
    requests."""
    if name in ("pods", "count/pods"):
        return 1
    return int(pod.requests.get(_resource(name), 0))


def covers(quota: Json, pod: Pod) -> bool:
    """Whether the quota counts this pod. A scope that cannot be told counts it."""
    spec = quota.get("spec") or {}
    if "BestEffort" in (spec.get("scopes") or []):
        return False  # who asks for devices is no best effort
    for one in (spec.get("scopeSelector") or {}).get("matchExpressions") or []:
        if one.get("scopeName") == "BestEffort":
            return False
        if one.get("scopeName") == "PriorityClass" and not _holds(one, pod.priority_class):
            return False
    return True


def _holds(term: Mapping[str, Any], priority_class: str) -> bool:
    values, operator = term.get("values") or [], term.get("operator")
    if operator == "In":
        return priority_class in values
    if operator == "NotIn":
        return priority_class not in values
    return bool(priority_class) == (operator != "DoesNotExist")


def _shown(quota: Json, part: str, name: str) -> str:
    return str(((quota.get("status") or {}).get(part) or {}).get(name, "0"))[:40]
