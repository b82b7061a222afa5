"""The policy of a cluster: everybody who sees the cluster reads it, its admins edit it.

Every edit names the version that was looked at, so that nobody's change is overwritten unseen. What cannot be
used comes back with the form as it was sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST

from apps.accounts import queries as accounts
from apps.accounts.rates import require_rate
from apps.accounts.rights import Action
from apps.clusters import queries as clusters
from apps.clusters.models import Cluster
from apps.dashboard.reading.policies import list_panels, tell_facts, tell_paused, tell_standing
from apps.dashboard.views.saying import refuse, refusing, tell
from apps.dashboard.views.shell import page, person_of, show
from apps.executions.cluster_switch import ban_of_switch
from apps.plans import services
from apps.plans.disruption import UNAVAILABLE, limits_from
from apps.plans.errors import InvalidPolicy, WrongState
from apps.plans.freezes import DAYS, zone_names
from apps.plans.models import ClusterPolicy
from apps.plans.policies import policy_of
from apps.plans.policy_rules import LIMITS, WINDOWS

LIVE_ON = "sse:policy throttle:1s, sse:execution throttle:2s, every 30s"
MINUTES = 60
DAY_NAMES = {"mon": "Mon", "tue": "Tue", "wed": "Wed", "thu": "Thu", "fri": "Fri", "sat": "Sat", "sun": "Sun"}


@page
def policies(request: HttpRequest, cluster: str) -> HttpResponse:
    return _show(request, clusters.cluster_for(request.user, cluster))


def _show(request: HttpRequest, place: Cluster, wanted: Mapping[str, Any] | None = None) -> HttpResponse:
    """wanted: what was sent and could not be used, to be mended."""
    policy = policy_of(place)
    rights = accounts.actions_on(request.user, place)
    told = [*policy.freeze_windows, *policy.maintenance_windows]
    zone = told[-1]["time_zone"] if told else "UTC"
    context = {
        "policy": policy,
        "facts": tell_facts(policy),
        "window_panels": list_panels(policy),
        "budgets": [limit.words for limit in limits_from(policy.disruption_budgets)],
        "may_edit": Action.ADMINISTER in rights,
        "may_stop": bool({Action.ADMINISTER, Action.OPERATE} & rights),
        "paused": tell_paused(place),
        "in_cluster": ban.sentence if (ban := ban_of_switch(place)) is not None else "",
        "namespace": settings.STEERING_NAMESPACE,
        "zones": zone_names(),
        "days": DAY_NAMES.items(),
        "form": {"time_zone": zone, **_form_of(policy), **(wanted or {})},
        "limits": LIMITS,
    }
    return show(
        request,
        "policies",
        title="Policies",
        here="Policies",
        cluster=place,
        snapshot_row=clusters.latest_snapshot(place),
        live_on=LIVE_ON,
        context=context,
    )


def _form_of(policy: ClusterPolicy) -> dict[str, Any]:
    seconds, rest = policy.approval_expires_after_seconds, policy.workload_cool_down_seconds
    return {
        "protected_namespaces": "\n".join(policy.protected_namespaces),
        "max_moves_per_plan": policy.max_moves_per_plan,
        "max_seconds_per_plan": policy.max_seconds_per_plan,
        "may_preempt": "yes" if policy.may_preempt else "",
        "only_offered": "yes" if policy.only_offered else "",
        "requires_ticket": "yes" if policy.requires_ticket else "",
        "max_concurrent_executions": policy.max_concurrent_executions,
        "max_evictions_in_flight": policy.max_evictions_in_flight,
        "max_evictions_per_hour": policy.max_evictions_per_hour,
        "max_moves_per_workload_per_day": policy.max_moves_per_workload_per_day,
        "disruption_budgets": "\n".join(_budget_line(told) for told in policy.disruption_budgets),
        "cool_down_minutes": rest // MINUTES if rest else None,
        "fallback_after_seconds": policy.fallback_after_seconds,
        "fallback_above_mib": policy.fallback_above_mib,
        "fallback_step_mib": policy.fallback_step_mib,
        "approval_minutes": seconds // MINUTES if seconds else None,
    }


@page
def standing(request: HttpRequest, cluster: str) -> HttpResponse:
    """The banner alone, which every page of the cluster asks for again."""
    place = clusters.cluster_for(request.user, cluster)
    return render(request, "console/standing.html", {"cluster": place, "standing": tell_standing(place)})


@page
@require_POST
def change(request: HttpRequest, cluster: str, verb: str) -> HttpResponse:
    place = clusters.cluster_for(request.user, cluster)
    act = VERBS.get(verb)
    if act is None:
        raise Http404(f"nobody can {verb} a policy")
    with refusing(request, WrongState):
        require_rate("deciding", request.user)
        try:
            tell(request, act(request, place))
        except InvalidPolicy as error:
            refuse(request, error)
            sent = {name: text for name, text in request.POST.items() if name != "csrfmiddlewaretoken"}
            wanted = {**sent, "weekdays": request.POST.getlist("weekdays"), "verb": verb}
            return _show(request, place, wanted)
    return redirect("policies", place.name)


def _save(request: HttpRequest, place: Cluster) -> str:
    names = request.POST.get("protected_namespaces", "").replace(",", " ").split()
    minutes = _number(request, "approval_minutes")
    wishes: dict[str, Any] = {
        name: _number(request, name) for name in LIMITS if name.startswith(("max_", "fallback_"))
    }
    rest = _number(request, "cool_down_minutes")
    wishes["approval_expires_after_seconds"] = None if minutes is None else minutes * MINUTES
    wishes["workload_cool_down_seconds"] = None if rest is None else rest * MINUTES
    wishes["disruption_budgets"] = _budgets(request.POST.get("disruption_budgets", ""))
    wishes["may_preempt"] = request.POST.get("may_preempt") == "yes"
    wishes["only_offered"] = request.POST.get("only_offered") == "yes"
    wishes["requires_ticket"] = request.POST.get("requires_ticket") == "yes"
    _change(request, place, {"protected_namespaces": names, **wishes})
    return "The policy is saved. Plans that break it go stale within seconds."


def _budgets(text: str) -> list[dict[str, Any]]:
    """One a line: scope, name, number, and "in_flight" where only our own evictions count."""
    found = []
    for number, line in enumerate(filter(None, map(str.strip, text.splitlines())), start=1):
        words = line.split()
        if not 3 <= len(words) <= 4 or not (words[2].isascii() and words[2].isdigit() and len(words[2]) < 6):
            raise InvalidPolicy(
                "disruption_budgets",
                f"disruption budget {number}: write scope, name and number, such as namespace prod-* 2",
            )
        counts = words[3] if len(words) == 4 else UNAVAILABLE
        found.append({"scope": words[0], "name": words[1], "at_most": int(words[2]), "counts": counts})
    return found


def _budget_line(told: Mapping[str, Any]) -> str:
    counts = "" if told["counts"] == UNAVAILABLE else f" {told['counts']}"
    return f"{told['scope']} {told['name']} {told['at_most']}{counts}"


def _number(request: HttpRequest, name: str) -> int | None:
    text = request.POST.get(name, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InvalidPolicy(
            name, f"{name.replace('_', ' ')} must be a whole number or empty, not {text[:20]!r}"
        )
    return int(text)


def _add_window(request: HttpRequest, place: Cluster) -> str:
    sent = request.POST
    told: dict[str, Any] = {
        name: sent.get(name, "").strip() for name in ("start", "end", "time_zone", "reason")
    }
    told["start"], told["end"] = told["start"] or "00:00", told["end"] or "24:00"
    if sent.get("kind") == "once":
        told |= {"first_day": sent.get("first_day", ""), "last_day": sent.get("last_day", "")}
    else:
        told["weekdays"] = [day for day in DAYS if day in sent.getlist("weekdays")]
    field = _windows_field(request)
    windows = getattr(policy_of(place), field)
    _change(request, place, {field: [*windows, told]})
    return f"The {WINDOWS[field]} is added."


def _remove_window(request: HttpRequest, place: Cluster) -> str:
    number = _number(request, "number")
    field = _windows_field(request)
    windows = getattr(policy_of(place), field)
    if number is None or number >= len(windows):
        raise WrongState(f"that {WINDOWS[field]} is not there any more: look again")
    _change(request, place, {field: [*windows[:number], *windows[number + 1 :]]})
    return f"The {WINDOWS[field]} is removed."


def _windows_field(request: HttpRequest) -> str:
    field = request.POST.get("windows", "") or "freeze_windows"
    if field not in WINDOWS:
        raise InvalidPolicy(field, f"{field[:40]!r} is no kind of window")
    return field


def _change(request: HttpRequest, place: Cluster, wishes: Mapping[str, Any]) -> None:
    looked_at = request.POST.get("version", "")

    def check(row: ClusterPolicy) -> None:
        if str(row.version) != looked_at:
            raise WrongState("somebody changed this policy since you opened the page: look again, then save")

    services.change_policy(actor=person_of(request), cluster=place, wishes=wishes, check=check)


def _stop(request: HttpRequest, place: Cluster) -> str:
    services.stop_cluster(actor=person_of(request), cluster=place, reason=request.POST.get("reason", ""))
    return "The kill switch is on: nothing new is sent to the cluster."


def _release(request: HttpRequest, place: Cluster) -> str:
    services.release_cluster(actor=person_of(request), cluster=place, reason=request.POST.get("reason", ""))
    return "The kill switch is off. Executions that it paused wait for an operator to resume them."


VERBS: dict[str, Callable[[HttpRequest, Cluster], str]] = {
    "save": _save,
    "add-window": _add_window,
    "remove-window": _remove_window,
    "stop": _stop,
    "release": _release,
}
