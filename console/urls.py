"""Every address of the console."""

from django.urls import include, path

from console.api_router import router

urlpatterns = [path("api/v1/", include(router.urls))]
