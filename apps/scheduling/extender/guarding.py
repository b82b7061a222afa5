"""Who may ask the extender: only a scheduler that knows the address, since an answer may bind a pod.

The verbs stand below `/extender/CLUSTER/SECRET/`; any other address is not there. What says how the program
is (health, metrics) stays open. Not in here: which secret is right (whoever knows the row).
"""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from apps.scheduling.extender.server import LARGEST_CALL

Knows = Callable[[str, str], bool]


def guard(inner: web.Application, knows: Knows, *, is_open: bool = False) -> web.Application:
    """knows: of a cluster's name and a secret. is_open: the bare addresses are answered as well, where
    callers are told apart otherwise (by their certificates)."""
    app = web.Application(client_max_size=LARGEST_CALL)
    app.cleanup_ctx.extend(inner.cleanup_ctx)
    verbs = {}
    for route in inner.router.routes():
        path = route.resource.canonical if route.resource else ""
        if route.method == "POST":
            verbs[path.removeprefix("/")] = route.handler
        if is_open or route.method == "GET":
            app.router.add_route(route.method, path, route.handler)

    async def ask(request: web.Request) -> web.StreamResponse:
        told = request.match_info
        handler = verbs.get(told["verb"])
        if handler is None or not knows(told["cluster"], told["secret"]):
            raise web.HTTPNotFound(
                text="nobody answers here: see the extender's address on the cluster's page\n"
            )
        answer: web.StreamResponse = await handler(request)
        return answer

    app.router.add_post("/extender/{cluster}/{secret}/{verb}", ask)
    return app
