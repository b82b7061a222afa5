"""Every address of the console."""

from django.urls import include, path

from console.api_router import router
from console.health import healthz, readyz

urlpatterns = [
    path("healthz", healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
    path("api/v1/", include(router.urls)),
]
