"""The REST API described in a page: the same document as /api/v1/schema/, from no other host, no script."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from apps.dashboard.reading.reference import reference as read_reference
from apps.dashboard.views.shell import page, show


@page
def reference(request: HttpRequest) -> HttpResponse:
    return show(
        request,
        "reference",
        title="REST API",
        here="REST API",
        live_on="never",
        context={"reference": read_reference()},
    )
