"""The steering webhook: the API server asks it about new pods, it gates (or pins) one per eviction.

A small asyncio server of its own, so that it answers within milliseconds whatever the pages do. The rows are
read in threads and with a deadline; past it, or on any error, the pod is let through unchanged.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import structlog
from aiohttp import web
from aiohttp.web_protocol import RequestPayloadError
from django.db import close_old_connections

from apps.executions.admissions import take_steering
from apps.scheduling.admission import NewPod, Taken, answer, patch_for, read_new_pod, review_uid

log = structlog.get_logger(__name__)
DATABASE_SECONDS = 1.0
"""The API server waits 2 s for us; it must have our answer before."""
LARGEST_REVIEW = 8 * 1024 * 1024
_threads: web.AppKey[ThreadPoolExecutor] = web.AppKey("threads", ThreadPoolExecutor)


def make_app() -> web.Application:
    app = web.Application(client_max_size=LARGEST_REVIEW)
    app[_threads] = ThreadPoolExecutor(8, thread_name_prefix="steering")
    app.router.add_post("/steering/{name}/{secret}", review_pod)
    app.router.add_get("/healthz", tell_health)
    app.on_cleanup.append(_stop_threads)
    return app


def make_tls(certificate: str, key: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    return context


async def tell_health(request: web.Request) -> web.Response:
    return web.Response(text="ok\n")


async def review_pod(request: web.Request) -> web.Response:
    """200 with an AdmissionReview, whatever happened; 400 for a body that is no JSON."""
    try:
        review: Any = json.loads(await request.read())
    except (ValueError, RecursionError, RequestPayloadError):
        return web.json_response({"message": "the body is not an AdmissionReview in JSON"}, status=400)
    uid, pod = review_uid(review), read_new_pod(review)
    taken = None if pod is None else await _take(request, pod)
    if pod is None or taken is None:
        return web.json_response(answer(uid))
    return web.json_response(answer(uid, patch_for(pod, taken)))


async def _take(request: web.Request, pod: NewPod) -> Taken | None:
    """The admission that this pod takes, None if there is none or nobody can tell in time."""
    name, secret = request.match_info["name"], request.match_info["secret"]
    loop = asyncio.get_running_loop()
    asked = loop.run_in_executor(request.app[_threads], _take_in_thread, name, secret, pod)
    try:
        return await asyncio.wait_for(asked, DATABASE_SECONDS)
    except TimeoutError:
        log.warning("a new pod was let through: the database did not answer in time", steering=name)
    except Exception as error:
        # Whatever it is (the database is away, a name that it cannot keep): the pod must not wait for us.
        log.warning("a new pod was let through", steering=name, error=type(error).__name__)
    return None


def _take_in_thread(name: str, secret: str, pod: NewPod) -> Taken | None:
    try:
        taken = take_steering(
            name=name,
            secret=secret,
            owner_uid=pod.owner_uid,
            pod_name=pod.name,
            admission_uid=pod.admission_uid,
        )
    finally:
        close_old_connections()
    if taken is None:
        return None
    params = taken.step.params
    return Taken(taken.name, params.get("pins_to", ""), params.get("taint", ""))


async def _stop_threads(app: web.Application) -> None:
    app[_threads].shutdown(wait=False, cancel_futures=True)
