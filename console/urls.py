"""Every address of the console."""

from django.urls import include, path, re_path
from django.views.generic import RedirectView

from apps.clusters.events import events
from console.api_errors import no_such_address
from console.api_router import router
from console.api_schema import SchemaView
from console.health import healthz, readyz
from console.metrics.view import metrics

handler400 = "console.api_errors.bad_request"
handler500 = "console.api_errors.server_error"

urlpatterns = [
    path("healthz", healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
    path("metrics", metrics, name="metrics"),
    path("api/v1/events/", events, name="events"),
    path("api/v1/schema/", SchemaView.as_view(), name="schema"),
    path("api/v1/docs/", RedirectView.as_view(pattern_name="reference")),
    path("api/v1/", include(router.urls)),
    re_path(r"^api/", no_such_address),
    path("", include("apps.accounts.urls")),
    path("", include("apps.dashboard.urls")),
]
