"""The HTTP server on loopback that a console's metrics source is pointed to: no password, as in a cluster.

/api/v1/…                     Prometheus' API
/exporters/NODE/metrics       the exporter of one node
"""

from __future__ import annotations

import asyncio
import json
import time
from urllib.parse import parse_qs, quote, unquote

from aiohttp import web

from apps.simulator.metrics.exporter import exporter_text
from apps.simulator.metrics.history import History
from apps.simulator.metrics.http_api import Parameters, PrometheusApi

LIMIT = 64 * 1024
FORMS = ("query", "query_range", "series", "labels")
EXPOSITION = "text/plain; version=0.0.4; charset=utf-8"


class MetricsService:
    """host: where it listens. advertised: the host that its addresses name."""

    def __init__(
        self, history: History, *, port: int = 0, host: str = "127.0.0.1", advertised: str = ""
    ) -> None:
        self._history = history
        self._api = PrometheusApi(history, lambda node: f"{self.url}/exporters/{quote(node)}/metrics")
        self.port, self._host, self._advertised = port, host, advertised or "127.0.0.1"
        self._runner: web.ServerRunner | None = None

    @property
    def url(self) -> str:
        return f"http://{self._advertised}:{self.port}"

    async def start(self) -> None:
        server = web.Server(self._answer, access_log=None)
        self._runner = web.ServerRunner(server, shutdown_timeout=2)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self.port)
        await site.start()
        sockets = site._server.sockets if site._server else ()  # type: ignore[attr-defined]
        self.port = next(iter(sockets)).getsockname()[1]

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        parts = [unquote(part) for part in request.rel_url.raw_path.split("/") if part]
        if parts in (["-", "ready"], ["-", "healthy"]):
            return web.Response(text=f"Prometheus Server is {parts[1].title()}.\n")
        if len(parts) == 3 and (parts[0], parts[2]) == ("exporters", "metrics"):
            return self._export(parts[1])
        if parts[:2] != ["api", "v1"]:
            return web.Response(status=404, text="404 page not found\n")
        path = "/".join(parts[2:])
        parameters = await _read_parameters(request, path)
        # Large ranges take a while: the cluster beside goes on meanwhile.
        code, body = await asyncio.to_thread(self._api.answer, path, parameters)
        return web.Response(
            status=code, text=json.dumps(body, separators=(",", ":")), content_type="application/json"
        )

    def _export(self, node: str) -> web.Response:
        shown = self._history.exporter_series(node)
        if not shown:
            return web.Response(status=404, text=f"no exporter answers on node {node!r}\n")
        text = exporter_text(shown, time.time())
        return web.Response(body=text.encode(), headers={"Content-Type": EXPOSITION})


async def _read_parameters(request: web.BaseRequest, path: str) -> Parameters:
    parameters = parse_qs(request.rel_url.raw_query_string, keep_blank_values=True)
    if request.method == "POST" and path in FORMS:
        body = await request.content.read(LIMIT)
        for name, found in parse_qs(body.decode(errors="replace"), keep_blank_values=True).items():
            parameters.setdefault(name, []).extend(found)
    return parameters
