"""The HTTPS front of the simulated cluster: connections, tokens, faults, the request log, start and stop."""

from __future__ import annotations

import asyncio
import base64
import logging
import time
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from aiohttp import web

from apps.simulator.api_server import discovery, openapi
from apps.simulator.api_server.access import ADMIN, ADMINS, NOBODY, NOBODY_TOKEN, User, authenticate
from apps.simulator.api_server.bootstrap import initial_objects
from apps.simulator.api_server.calls import Answer
from apps.simulator.api_server.certificates import issue_certificate
from apps.simulator.api_server.cluster import Cluster
from apps.simulator.api_server.control import answer_control
from apps.simulator.api_server.decoding import BODY_LIMIT
from apps.simulator.api_server.faults import Fault, Faults, NamedFaults
from apps.simulator.api_server.routes import handler_of, make_call
from apps.simulator.api_server.statuses import ApiError, PlainNotFound
from apps.simulator.api_server.store import Store, encode
from apps.simulator.api_server.watching import Watches, begin_watch, stream

LOGGED_REQUESTS = 50_000
LOGGED_BODY = 8_192
LOG = logging.getLogger(__name__)
QUIET = logging.getLogger("simulator.api_server.http")
QUIET.propagate = False
QUIET.addHandler(logging.NullHandler())


@dataclass
class RequestRecord:
    """One request as it came, and the HTTP code it got (0 where the connection was broken instead)."""

    time: float
    user_agent: str
    user: str
    method: str
    path: str
    query: dict[str, str]
    body: bytes
    status: int = 0

    def as_json(self) -> dict[str, Any]:
        return {**self.__dict__, "body": self.body.decode(errors="replace")}


class ApiServer:
    """A Kubernetes API server with a certificate authority of its own.

    `host` is the address it listens on; `advertised` the host name in its certificate and kubeconfig that
    others reach it by (loopback where empty).
    `token` is the administrator's; "nobody-token" is known and may do nothing; `extra_tokens` maps further
    bearer tokens to users with their rules.
    """

    def __init__(
        self,
        port: int = 0,
        token: str = "admin-token",
        extra_tokens: Mapping[str, User] | None = None,
        version: str = "v1.36.2",
        *,
        host: str = "127.0.0.1",
        advertised: str = "",
    ) -> None:
        self.host, self.advertised = host, advertised
        self.port, self.token = port, token
        self.tokens: dict[str, User] = {NOBODY_TOKEN: NOBODY, token: ADMIN, **(extra_tokens or {})}
        self.version_info = discovery.version_info(version)
        self.certificate = issue_certificate(("localhost", advertised) if advertised else ("localhost",))
        self.cluster = Cluster(self.certificate.ca_pem, minor=int(self.version_info["minor"]))
        self.faults, self.watches = Faults(), Watches()
        self.named_faults: NamedFaults | None = None
        self.requests: deque[RequestRecord] = deque(maxlen=LOGGED_REQUESTS)
        self._runner: web.ServerRunner | None = None
        self.cluster.seed(initial_objects())

    @property
    def ca_pem(self) -> str:
        return self.certificate.ca_pem

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def store(self) -> Store:
        return self.cluster.store

    def seed(self, objects: Iterable[dict[str, Any]]) -> None:
        """Stores a scene's objects, status included; uids and creationTimestamps are kept when given."""
        self.cluster.seed(objects)

    def kubeconfig(self, *, token: str = "", name: str = "simulated") -> str:
        """A kubeconfig with everything inline: server, CA and token."""
        server = f"https://{self.advertised}:{self.port}" if self.advertised else self.url
        authority = base64.b64encode(self.ca_pem.encode()).decode()
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {"name": name, "cluster": {"server": server, "certificate-authority-data": authority}}
            ],
            "users": [{"name": name, "user": {"token": token or self.token}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "current-context": name,
        }
        return yaml.safe_dump(config, sort_keys=False)

    async def start(self) -> None:
        self.cluster.loop = asyncio.get_running_loop()
        server = web.Server(self._answer, access_log=None, logger=QUIET, keepalive_timeout=120)
        self._runner = web.ServerRunner(server, shutdown_timeout=2)
        await self._runner.setup()
        context = self.certificate.server_context()
        site = web.TCPSite(self._runner, self.host, self.port, ssl_context=context, backlog=1024)
        await site.start()
        sockets = site._server.sockets if site._server else ()  # type: ignore[attr-defined]
        self.port = next(iter(sockets)).getsockname()[1]

    async def stop(self) -> None:
        self.watches.end_all()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        await self.cluster.close()

    # --- one request

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        agent = request.headers.get("User-Agent", "")
        query = dict(request.query)
        record = RequestRecord(time.time(), agent, "", request.method, request.path, query, b"")
        self.requests.append(record)
        try:
            user = authenticate(self.tokens, request.headers.get("Authorization", ""))
            record.user = user.name
            body = await _read_body(request)
            record.body = body[:LOGGED_BODY]
            response = await self._with_faults(request, query, user, body, record)
        except ApiError as error:
            response = _send(Answer(error.code, encode(error.body()), error.headers))
        except PlainNotFound:
            response = _send(Answer(404, b"404 page not found\n", {}, "text/plain"))
        except Exception as error:  # a defect of this server: told to the client and to the operator
            LOG.exception("%s %s failed", request.method, request.path)
            failure = ApiError(500, f"Internal error occurred: {error!r}", "InternalError")
            response = _send(Answer(500, encode(failure.body())))
        record.status = record.status or response.status
        return response

    async def _with_faults(
        self, request: web.BaseRequest, query: dict[str, str], user: User, body: bytes, record: RequestRecord
    ) -> web.StreamResponse:
        if request.path.startswith("/_sim/"):
            if ADMINS not in user.groups:
                raise ApiError(403, f"{request.path} is the administrator's", "Forbidden")
            return _send(await answer_control(self, request.method, request.path, body, query))
        fault = self.faults.take(request.method, request.path, record.user_agent)
        if fault is not None:
            if fault.action == "delay":
                await asyncio.sleep(float(fault.settings.get("seconds", 1)))
            elif fault.action == "status":
                raise fault_error(fault)
            elif fault.action == "reset":
                return _break(request)
        response = await self._act(request, query, user, body, record, fault)
        if fault is not None and fault.action == "act-then-reset":
            return _break(request)
        return response

    async def _act(
        self,
        request: web.BaseRequest,
        query: dict[str, str],
        user: User,
        body: bytes,
        record: RequestRecord,
        fault: Fault | None,
    ) -> web.StreamResponse:
        fixed = self._fixed_answer(request.path, request.method)
        if fixed is not None:
            return _send(fixed)
        call = make_call(self.cluster.kinds, request.method, request.path, query, request.headers, body, user)
        if call.verb != "watch":
            answer = await handler_of(call)(self.cluster, call)
            if fault is not None and fault.action == "lagging-read" and request.method == "GET":
                answer = fault.answers.setdefault(request.path_qs, answer)
            return _send(answer)
        watcher = begin_watch(self.cluster, call)
        watcher.path = request.path
        if fault is not None and fault.action == "truncate-watch":
            watcher.cut_after = int(fault.settings.get("after_events", 0))
        if fault is not None and fault.action == "silence-watches":
            watcher.silent = True
        record.status = 200
        return await stream(self.cluster, self.watches, watcher, request)

    def _fixed_answer(self, path: str, method: str) -> Answer | None:
        """Discovery and health."""
        kinds, parts = self.cluster.kinds, [part for part in path.split("/") if part]
        content: dict[str, Any] | None = None
        if path in ("/healthz", "/readyz", "/livez"):
            return Answer(200, b"ok", content_type="text/plain")
        if path == "/version":
            content = self.version_info
        elif parts == ["api"]:
            content = discovery.api_versions()
        elif parts == ["apis"]:
            content = discovery.group_list(kinds)
        elif parts == ["api", "v1"]:
            content = discovery.resource_list(kinds, "", "v1")
        elif parts[:2] == ["openapi", "v3"]:
            content = self._openapi(parts[2:])
        elif len(parts) == 2 and parts[0] == "apis":
            content = discovery.one_group(kinds, parts[1])
        elif len(parts) == 3 and parts[0] == "apis":
            content = discovery.resource_list(kinds, parts[1], parts[2])
        else:
            return None
        if content is None or method != "GET":
            raise PlainNotFound
        return Answer(200, encode(content))

    def _openapi(self, parts: list[str]) -> dict[str, Any] | None:
        kinds = self.cluster.kinds
        if not parts:
            return openapi.index(kinds)
        return openapi.document(kinds, parts[1] if len(parts) == 3 else "", parts[-1])


def fault_error(fault: Fault) -> ApiError:
    settings = fault.settings
    code = int(settings.get("code", 500))
    headers = {"Retry-After": str(settings["retry_after"])} if "retry_after" in settings else {}
    message = str(settings.get("message", f"{fault.name}: this request was refused by a fault"))
    return ApiError(code, message, str(settings.get("reason", "")), settings.get("details"), headers)


async def _read_body(request: web.BaseRequest) -> bytes:
    """The whole body; one over the limit is still read to its end, so that the client can hear the answer."""
    if not request.can_read_body:
        return b""
    chunks, size = [], 0
    async for chunk in request.content.iter_any():
        size += len(chunk)
        if size <= BODY_LIMIT:
            chunks.append(chunk)
    if size > BODY_LIMIT:
        message = f"Request entity too large: limit is {BODY_LIMIT}"
        raise ApiError(413, message, "RequestEntityTooLarge")
    return b"".join(chunks)


def _send(answer: Answer) -> web.Response:
    content_type = answer.content_type
    headers = {"Content-Type": content_type, **answer.headers}
    if content_type == "text/plain":
        headers["Content-Type"] = "text/plain; charset=utf-8"
    return web.Response(status=answer.code, body=answer.body, headers=headers)


def _break(request: web.BaseRequest) -> web.Response:
    """Ends the connection without an answer."""
    if request.transport is not None:
        request.transport.abort()
    return web.Response(status=500)
