"""Every REST resource of the project, in the order of the flow."""

from rest_framework.routers import DefaultRouter

router = DefaultRouter()
