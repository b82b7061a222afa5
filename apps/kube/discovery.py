"""Whether an API server has a kind at all, which it tells everybody who is logged in.

Not in here: whether one may read it (own_rights).
"""

from __future__ import annotations

from collections.abc import Callable

from apps.kube.connection import Request
from apps.kube.errors import NotFound
from apps.kube.gateway import Json, Kind


def is_served(read: Callable[[Request], Json], kind: Kind) -> bool:
    """In any of its versions. read: sends a request and gives the object that comes back."""
    for version in kind.versions:
        try:
            found = read(Request("GET", version.path)).get("resources")
        except NotFound:
            continue
        if any(isinstance(one, dict) and one.get("name") == kind.plural for one in found or ()):
            return True
    return False
