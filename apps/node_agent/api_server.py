"""The agent's own small way to the API server: reads its Node and that Node's pods, patches the Node.

Standard library only: three requests do not need a client library on every GPU node. Redirects and proxies
are not followed. The token is read anew for each request, since the kubelet renews it.
"""

from __future__ import annotations

import http.client
import json
import ssl
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from apps.node_agent.holders import NodePod

SECONDS = 15
PAGE = 250
MOST_PAGES = 20
LARGEST_ANSWER = 64 * 1024 * 1024
MERGE_PATCH = "application/merge-patch+json"
HINTS = {
    401: "the service account's token is not accepted",
    403: "apply deploy/agent/account.yaml",
    404: "NODE_NAME must be this node's name, from the downward API",
    409: "the Node changed meanwhile; it is tried again",
    422: "another UID means that the Node was made anew meanwhile; it is tried again",
}


class ApiError(Exception):
    pass


@dataclass(frozen=True, slots=True)
class Account:
    """Of the service account: `token` and `ca.crt` stand in the folder."""

    host: str
    port: int
    folder: Path


class ApiServer:
    def __init__(self, account: Account, node_name: str) -> None:
        self.account, self.node_name = account, node_name

    def get_node(self) -> Mapping[str, Any]:
        return self._ask("GET", self._node_path)

    def list_pods(self) -> list[NodePod]:
        """Of this node, in all namespaces."""
        query = {"fieldSelector": f"spec.nodeName={self.node_name}", "limit": str(PAGE)}
        found: list[NodePod] = []
        for _ in range(MOST_PAGES):
            page = self._ask("GET", "/api/v1/pods?" + urllib.parse.urlencode(query))
            found += [_pod(one) for one in page.get("items") or []]
            query["continue"] = (page.get("metadata") or {}).get("continue") or ""
            if not query["continue"]:
                return found
        raise ApiError(f"the list of pods of {self.node_name} has no end")

    def patch_annotations(self, uid: str, annotations: Mapping[str, str]) -> None:
        """Only of the Node with this UID: one made anew under the same name is not written."""
        self._ask("PATCH", self._node_path, {"metadata": {"uid": uid, "annotations": dict(annotations)}})

    @property
    def _node_path(self) -> str:
        return f"/api/v1/nodes/{self.node_name}"

    def _ask(self, method: str, path: str, body: object = None) -> Mapping[str, Any]:
        where = f"{method} {path.partition('?')[0]}"
        try:
            code, text = self._send(method, path, body)
        except (OSError, http.client.HTTPException) as error:
            raise ApiError(f"{where} fails: {error or type(error).__name__}") from error
        if len(text) > LARGEST_ANSWER:
            raise ApiError(f"{where}: the answer is larger than {LARGEST_ANSWER} bytes")
        if code >= 300:
            hint = f" ({HINTS[code]})" if code in HINTS else ""
            raise ApiError(f"{where} is answered {code}{hint}: {text[:300].decode(errors='replace')!r}")
        try:
            found = json.loads(text)
        except ValueError as error:
            raise ApiError(f"{where}: the answer is no JSON") from error
        return found if isinstance(found, dict) else {}

    def _send(self, method: str, path: str, body: object) -> tuple[int, bytes]:
        folder = self.account.folder
        headers = {
            "Authorization": f"Bearer {(folder / 'token').read_text().strip()}",
            "Accept": "application/json",
            "User-Agent": "gpu-defrag-node-agent",
        }
        if body is not None:
            headers["Content-Type"] = MERGE_PATCH
        context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
        connection = http.client.HTTPSConnection(
            self.account.host, self.account.port, timeout=SECONDS, context=context
        )
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            return answer.status, answer.read(LARGEST_ANSWER + 1)
        finally:
            connection.close()


def _pod(found: Mapping[str, Any]) -> NodePod:
    about = found.get("metadata") or {}
    phase = (found.get("status") or {}).get("phase") or ""
    return NodePod(
        str(about.get("namespace", "")), str(about.get("name", "")), str(about.get("uid", "")), str(phase)
    )
