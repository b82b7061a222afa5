"""`/metrics`: for whoever has METRICS_TOKEN, or for anybody where METRICS_OPEN says so; else not there."""

from __future__ import annotations

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.utils.crypto import constant_time_compare
from django.views.decorators.http import require_safe
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from console.metrics.collecting import RowsCollector


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """Text that Prometheus reads (the older format, or OpenMetrics where it asks for that)."""
    if not settings.METRICS_OPEN:
        if not settings.METRICS_TOKEN:
            raise Http404("metrics are off: set METRICS_TOKEN or METRICS_OPEN")
        if not _has_token(request):
            words = "Metrics need the token of METRICS_TOKEN: send Authorization: Bearer TOKEN.\n"
            headers = {"WWW-Authenticate": 'Bearer realm="metrics"'}
            return HttpResponse(words, status=401, content_type="text/plain; charset=utf-8", headers=headers)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(RowsCollector())
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    answer = HttpResponse(encode(registry), content_type=content_type)
    answer.headers["Cache-Control"] = "no-store"
    return answer


def _has_token(request: HttpRequest) -> bool:
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    return scheme.lower() == "bearer" and constant_time_compare(given.strip(), settings.METRICS_TOKEN)
