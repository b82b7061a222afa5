"""One log line for each refused or failed request: its method and path, never its query.

A query may hold what somebody should not have put there: a token, a password.
"""

from __future__ import annotations

from django.http import HttpRequest
from django_structlog import middlewares


class RequestMiddleware(middlewares.RequestMiddleware):
    @staticmethod
    def format_request(request: HttpRequest) -> str:
        return f"{request.method} {request.path}"
