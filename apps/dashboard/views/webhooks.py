"""Webhooks: adding one, whose secret that very answer shows alone; switching, removing, sending again."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods, require_POST

from apps.accounts.errors import Denied, NotVisible
from apps.accounts.sessions import require_recent_login
from apps.clusters.queries import cluster_for, visible_clusters
from apps.dashboard.views.saying import refuse, refusing, tell
from apps.dashboard.views.shell import page, person_of, show
from apps.webhooks import services
from apps.webhooks.models import Delivery, Webhook
from apps.webhooks.queries import webhooks_for
from apps.webhooks.states import EVENTS
from apps.wire.webhook_post import WebhookRefused

SHOWN = 20


@page
@require_http_methods(["GET", "HEAD", "POST"])
def webhook_list(request: HttpRequest) -> HttpResponse:
    """POST adds one and shows its secret in the answer: it is never shown again, so it cannot redirect."""
    made: dict[str, Any] = _add(request) if request.method == "POST" else {}
    rows = list(webhooks_for(request.user)[:200])
    return show(
        request,
        "webhooks",
        title="Webhooks",
        here="Webhooks",
        live_on="never",
        context={
            "rows": [(row, list(row.deliveries.all()[:SHOWN])) for row in rows],
            "events": list(EVENTS),
            "places": visible_clusters(request.user),
            "wanted": {} if made else request.POST,
            **made,
        },
    )


def _add(request: HttpRequest) -> dict[str, Any]:
    name = request.POST.get("cluster", "")
    try:
        require_recent_login(request, "add a webhook")
        row, secret = services.add_webhook(
            actor=person_of(request),
            name=request.POST.get("name", ""),
            url=request.POST.get("url", "").strip(),
            events=request.POST.getlist("events"),
            cluster=cluster_for(request.user, name) if name else None,
        )
    except NotVisible:
        raise
    except (Denied, WebhookRefused) as error:
        refuse(request, error)
        return {}
    return {"made": row, "secret": secret}


@page
@require_POST
def change(request: HttpRequest, number: int, verb: str) -> HttpResponse:
    row = webhooks_for(request.user).filter(pk=number).first()
    if row is None or verb not in ("on", "off", "remove", "again"):
        raise Http404(f"nobody can {verb} webhook {number}")
    with refusing(request):
        tell(request, _act(request, row, verb))
    return redirect("webhooks")


def _act(request: HttpRequest, row: Webhook, verb: str) -> str:
    actor = person_of(request)
    if verb == "remove":
        services.remove_webhook(actor=actor, webhook=row)
        return f"Webhook {row.name} is removed."
    if verb == "again":
        wanted = request.POST.get("delivery", "")
        number = int(wanted) if wanted.isascii() and wanted.isdecimal() and len(wanted) < 19 else 0
        delivery = Delivery.objects.filter(webhook=row, pk=number).select_related("webhook__cluster").first()
        if delivery is None:
            raise Http404(f"there is no delivery {wanted} of webhook {row.pk}")
        services.send_again(actor=actor, delivery=delivery)
        return "It is sent again within seconds, under the same id."
    services.switch_webhook(actor=actor, webhook=row, is_active=verb == "on")
    return f"Webhook {row.name} is {verb}."
