"""What stands in no cluster: the REST API described (the same document as /api/v1/schema/), the runbooks."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse

from apps.dashboard.reading.reference import reference as read_reference
from apps.dashboard.views.shell import page, show
from apps.executions.causes import CAUSES


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


@page
def runbooks(request: HttpRequest) -> HttpResponse:
    return show(
        request,
        "runbooks",
        title="Runbooks",
        here="",
        live_on="never",
        context={"causes": CAUSES.values()},
    )
