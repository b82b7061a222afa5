"""Answers that were made before they were asked for: sent as they lie in the row, or not at all."""

from __future__ import annotations

import gzip

from django.http import HttpRequest, HttpResponse, HttpResponseNotModified
from django.utils.cache import patch_vary_headers
from django.utils.http import parse_etags, quote_etag

from apps.dashboard.models import GridPicture


def prepared_answer(request: HttpRequest, ready: GridPicture) -> HttpResponse:
    """304 where the browser has it already; packed where it takes that, as all browsers do.

    The tag names the bytes, so each of the two forms has its own.
    """
    is_packed = "gzip" in request.headers.get("Accept-Encoding", "")
    etag = quote_etag(ready.etag if is_packed else f"{ready.etag}-plain")
    known = parse_etags(request.headers.get("If-None-Match", ""))
    if etag in (one.removeprefix("W/") for one in known):
        answer: HttpResponse = HttpResponseNotModified()
    else:
        body = bytes(ready.body)
        answer = HttpResponse(body if is_packed else gzip.decompress(body), content_type="application/json")
        if is_packed:
            answer["Content-Encoding"] = "gzip"
    answer["ETag"] = etag
    answer["Cache-Control"] = "private, no-cache"
    patch_vary_headers(answer, ["Accept-Encoding", "Cookie"])
    return answer
