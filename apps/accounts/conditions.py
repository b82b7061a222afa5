"""ETag, If-None-Match and If-Match: do not send what the caller has, do not change what he has not seen."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from typing import Any

from django.conf import settings
from django.utils.http import parse_etags
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.errors import PreconditionFailed, PreconditionNeeded

IF_MATCH = OpenApiParameter(
    "If-Match",
    {"type": "string", "minLength": 1, "example": "*"},
    OpenApiParameter.HEADER,
    required=True,
    description='The ETag of what you looked at, so that nobody\'s change is overwritten; "*" for any.',
)
IF_MATCH_OPTIONAL = OpenApiParameter(
    "If-Match",
    {"type": "string", "example": "*"},
    OpenApiParameter.HEADER,
    description="Refuse with 412 if it is no longer what you looked at.",
)
IF_NONE_MATCH = OpenApiParameter(
    "If-None-Match",
    {"type": "string"},
    OpenApiParameter.HEADER,
    description="An ETag that you have: if it still holds, the answer is 304 without a body.",
)
ETAG = OpenApiParameter(
    "ETag",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    required=True,
    response=[200],
    description="For If-None-Match or If-Match.",
)
CONDITIONAL = [IF_NONE_MATCH, ETAG]


@cache
def program_digest() -> str:
    """Of the program's own text: after an upgrade no answer of an older shape may pass for unchanged. The
    release's number would do only if nobody ever forgot it."""
    digest = hashlib.sha256()
    for path in sorted((settings.BASE_DIR / "apps").rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def tag_of(*facts: Any) -> str:
    """An ETag that is another one as soon as one of the facts is, or the program that words them."""
    text = json.dumps([program_digest(), *facts], default=str, sort_keys=True)
    return f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'


def unchanged(request: Request, tag: str) -> Response | None:
    """The answer 304 if the caller has it already."""
    known = parse_etags(request.headers.get("If-None-Match", ""))
    if tag in {one.removeprefix("W/") for one in known} or known == ["*"]:
        return Response(status=status.HTTP_304_NOT_MODIFIED, headers={"ETag": tag})
    return None


def require_match(request: Request, tag: str, *, is_needed: bool = True) -> None:
    """Raises PreconditionNeeded without If-Match, PreconditionFailed if it names another state."""
    text = request.headers.get("If-Match", "")
    if not text:
        if is_needed:
            raise PreconditionNeeded("send If-Match with the ETag of what you looked at: GET it first")
        return
    wanted = parse_etags(text)
    if tag not in wanted and wanted != ["*"]:
        raise PreconditionFailed("it has changed since you looked at it: GET it again, then decide")
