"""What the REST API takes as a body: JSON, and not much of it."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, BinaryIO

from django.conf import settings
from rest_framework.exceptions import APIException, ParseError
from rest_framework.parsers import JSONParser


class TooLarge(APIException):
    status_code = 413


class SmallJSON(JSONParser):
    """DRF reads the stream past Django's own limit, so the limit is kept here."""

    def parse(
        self,
        stream: BinaryIO | Any,
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        body = stream.read(limit + 1)
        if len(body) > limit:
            raise TooLarge(f"the body has more than {limit} bytes")
        try:
            return super().parse(io.BytesIO(body), media_type, dict(parser_context or {}))
        except RecursionError as error:
            raise ParseError("JSON parse error: it is nested too deeply") from error
