"""How the cluster's own scheduler is helped: the extender's policy, the configuration to paste, why a pod is
where it is. Everybody who sees the cluster reads it, its admins edit it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.views.decorators.http import require_POST

from apps.accounts import queries as accounts
from apps.accounts.rates import require_rate
from apps.accounts.rights import Action
from apps.clusters import queries as clusters
from apps.clusters.models import Cluster
from apps.dashboard.reading.placement import key_of, tell_facts, tell_verdicts, where_now
from apps.dashboard.views.saying import refusing, tell
from apps.dashboard.views.shell import page, person_of, show
from apps.executions.errors import HeldByPolicy
from apps.executions.errors import WrongState as NotNow
from apps.executions.proving.asking import order_proof, proof_standing
from apps.placing import services
from apps.placing.api import configuration_for
from apps.placing.errors import InvalidPlacement
from apps.placing.models import PlacementPolicy, Verdict
from apps.placing.queries import placement_policy_of, standing_of, verdicts_of_pod
from apps.placing.rules import LIMITS, SWITCHES
from apps.placing.states import Scoring, WhenStale
from apps.plans.errors import WrongState

LIVE_ON = "sse:policy throttle:1s, every 15s"
VERDICTS_SHOWN = 30
CHANGED = "somebody changed this policy since you opened the page: look again, then save"


@page
def placement(request: HttpRequest, cluster: str) -> HttpResponse:
    place = clusters.cluster_for(request.user, cluster)
    policy, snapshot = placement_policy_of(place), clusters.latest_snapshot(place)
    is_admin = Action.ADMINISTER in accounts.actions_on(request.user, place)
    pod = request.GET.get("pod", "")[:320] or key_of(snapshot, request.GET.get("uid", ""))
    verdicts = verdicts_of_pod(place, pod) if pod else _newest(place)
    answer = show(
        request,
        "placement",
        title="Placement",
        here="Placement",
        cluster=place,
        snapshot_row=snapshot,
        live_on=LIVE_ON,
        context={
            "policy": policy,
            "stands": standing_of(place, policy, timezone.now()),
            "proof": proof_standing(place),
            "facts": tell_facts(policy),
            "configuration": configuration_for(place, shows_secret=is_admin),
            "may_edit": is_admin and place.is_live,
            "scorings": Scoring.choices,
            "stales": WhenStale.choices,
            "limits": LIMITS,
            "pod": pod,
            "verdicts": tell_verdicts(verdicts),
            "where": where_now(snapshot, pod),
        },
    )
    # What an admin sees holds the address's secret.
    answer["Cache-Control"] = "no-store"
    return answer


def _newest(place: Cluster) -> list[Verdict]:
    return list(Verdict.objects.filter(cluster=place)[:VERDICTS_SHOWN])


@page
@require_POST
def change(request: HttpRequest, cluster: str, verb: str) -> HttpResponse:
    place = clusters.cluster_for(request.user, cluster)
    act = VERBS.get(verb)
    if act is None:
        raise Http404(f"nobody can {verb} a placement policy")
    with refusing(request, InvalidPlacement, WrongState, NotNow, HeldByPolicy):
        require_rate("deciding", request.user)
        tell(request, act(request, place))
    return redirect("placement", place.name)


def _save(request: HttpRequest, place: Cluster) -> str:
    sent = request.POST
    wishes: dict[str, Any] = {name: sent.get(name, "") for name in ("scoring", "when_stale")}
    wishes |= {name: sent.get(name) == "yes" for name in SWITCHES}
    wishes |= {name: _number(name, sent.get(name, "")) for name in LIMITS}
    services.change_placement_policy(
        actor=person_of(request), cluster=place, wishes=wishes, check=_unchanged(request)
    )
    return (
        "The policy is saved. The extender follows within seconds; paste the configuration where it changed."
    )


def _renew(request: HttpRequest, place: Cluster) -> str:
    services.renew_address(actor=person_of(request), cluster=place, check=_unchanged(request))
    return (
        "The address has a new secret: paste the configuration below, the old address is refused from now on."
    )


def _prove(request: HttpRequest, place: Cluster) -> str:
    order_proof(actor=person_of(request), cluster=place)
    return "A worker asks the scheduler now, with pods of the console: the answer comes here in a minute."


def _unchanged(request: HttpRequest) -> Callable[[PlacementPolicy], None]:
    looked_at = request.POST.get("version", "")

    def check(row: PlacementPolicy) -> None:
        if str(row.version) != looked_at:
            raise WrongState(CHANGED)

    return check


def _number(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise InvalidPlacement(name, f"{name.replace('_', ' ')} must be a whole number, not {text[:20]!r}")
    return int(text)


VERBS: dict[str, Callable[[HttpRequest, Cluster], str]] = {
    "save": _save,
    "renew-address": _renew,
    "prove": _prove,
}
