"""The watchdog's own way to the API server. Standard library only; redirects and proxies are not followed.

The token is read anew for each request, since the kubelet renews it.
"""

from __future__ import annotations

import http.client
import json
import ssl
import urllib.parse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]
SECONDS = 15
PAGE = 500
MOST_PAGES = 400
LARGEST_ANSWER = 64 * 1024 * 1024
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


class ApiError(Exception):
    """status: 0 where there was no answer."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class ApiServer:
    """folder: `token` and `ca.crt` stand there, as a service account finds them in its pod."""

    host: str
    port: int
    folder: Path

    def list_objects(self, path: str, selector: str = "", *, fields: str = "") -> list[Json]:
        """All of a list. None at all where the cluster does not know the kind. fields: a field selector."""
        query = {"limit": str(PAGE)} | ({"labelSelector": selector} if selector else {})
        query |= {"fieldSelector": fields} if fields else {}
        found: list[Json] = []
        for _ in range(MOST_PAGES):
            try:
                page = self.ask("GET", f"{path}?{urllib.parse.urlencode(query)}")
            except ApiError as error:
                if error.status == 404:
                    return []
                raise
            found += [one for one in page.get("items") or [] if isinstance(one, dict)]
            query["continue"] = str((page.get("metadata") or {}).get("continue") or "")
            if not query["continue"]:
                return found
        raise ApiError(f"the list {path} has no end")

    def ask(self, method: str, path: str, body: Json | None = None, content: str = MERGE) -> Json:
        where = f"{method} {path.partition('?')[0]}"
        try:
            status, text = self._send(method, path, body, content)
        except (OSError, http.client.HTTPException) as error:
            raise ApiError(f"{where} fails: {error or type(error).__name__}") from error
        if status >= 300:
            raise ApiError(f"{where} is answered {status}: {text[:300].decode(errors='replace')!r}", status)
        try:
            found = json.loads(text)
        except ValueError as error:
            raise ApiError(f"{where}: the answer is no JSON") from error
        return found if isinstance(found, dict) else {}

    def _send(self, method: str, path: str, body: Json | None, content: str) -> tuple[int, bytes]:
        headers = {
            "Authorization": f"Bearer {(self.folder / 'token').read_text().strip()}",
            "Accept": "application/json",
            "User-Agent": "gpu-defrag-gate-watchdog",
        }
        if body is not None:
            headers["Content-Type"] = content if method == "PATCH" else "application/json"
        context = ssl.create_default_context(cafile=str(self.folder / "ca.crt"))
        connection = http.client.HTTPSConnection(self.host, self.port, timeout=SECONDS, context=context)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            return answer.status, answer.read(LARGEST_ANSWER)
        finally:
            connection.close()
