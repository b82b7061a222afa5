"""Parts of a page that hold what a person types: they are exchanged only when they have changed.

The part carries a key of what it shows; a refetch sends it back, and the same key is answered
with 204, so nobody loses a half-written comment to a new snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from apps.accounts import queries as accounts
from apps.clusters.models import Cluster


def part_unchanged(request: HttpRequest, key: str) -> bool:
    return request.GET.get("was") == key


def show_part(
    request: HttpRequest, template: str, cluster: Cluster, context: Mapping[str, Any]
) -> HttpResponse:
    may = accounts.actions_on(request.user, cluster)
    return render(request, template, {"cluster": cluster, "may": may, "is_fragment": True, **context})
