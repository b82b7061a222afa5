"""The /_sim/ endpoints: request log, faults and tokens of the simulated cluster. No real server has them."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from apps.simulator.api_server.access import user_from_json
from apps.simulator.api_server.calls import Answer
from apps.simulator.api_server.statuses import PlainNotFound, bad_request, method_not_allowed
from apps.simulator.api_server.store import encode

if TYPE_CHECKING:
    from apps.simulator.api_server.server import ApiServer

Action = Callable[["ApiServer", dict[str, Any], dict[str, str]], dict[str, Any] | Awaitable[dict[str, Any]]]


async def answer_control(
    server: ApiServer, method: str, path: str, body: bytes, query: dict[str, str]
) -> Answer:
    actions: dict[str, dict[str, Action]] = {
        "/_sim/requests": {"GET": _show_requests, "DELETE": _forget_requests},
        "/_sim/faults": {"GET": _show_faults, "POST": _change_faults, "DELETE": _clear_faults},
        "/_sim/tokens": {"POST": _add_token},
    }
    if path not in actions:
        raise PlainNotFound
    action = actions[path].get(method)
    if action is None:
        raise method_not_allowed()
    try:
        data = json.loads(body) if body.strip() else {}
        if not isinstance(data, dict):
            raise ValueError("the body must be a JSON object")
        result = action(server, data, query)
        return Answer(200, encode(await result if isinstance(result, Awaitable) else result))
    except (ValueError, KeyError, TypeError, re.error) as error:
        raise bad_request(f"{path}: {error}") from None


def _show_requests(server: ApiServer, data: dict[str, Any], query: dict[str, str]) -> dict[str, Any]:
    """All requests, or those since a time (seconds) and with a matching user agent."""
    since, agent = float(query.get("since", 0)), re.compile(query.get("user_agent_regex", ""))
    chosen = [r.as_json() for r in server.requests if r.time >= since and agent.search(r.user_agent)]
    return {"requests": chosen}


def _forget_requests(server: ApiServer, data: dict[str, Any], query: dict[str, str]) -> dict[str, Any]:
    server.requests.clear()
    return {"requests": []}


def _show_faults(server: ApiServer, data: dict[str, Any], query: dict[str, str]) -> dict[str, Any]:
    listed = [fault.as_json() for fault in server.faults.active.values()]
    return {"faults": [*listed, *(server.named_faults.listed() if server.named_faults else [])]}


async def _clear_faults(server: ApiServer, data: dict[str, Any], query: dict[str, str]) -> dict[str, Any]:
    server.faults.clear()
    if server.named_faults:
        await server.named_faults.clear()
    return {"faults": []}


async def _change_faults(server: ApiServer, data: dict[str, Any], query: dict[str, str]) -> dict[str, Any]:
    """Adds a fault, or removes the one that {"remove": name} names. Two act on open watches at once.
    A named fault of the machines is told by its name alone, and perhaps its node and its times."""
    if server.named_faults and server.named_faults.knows(data):
        return await server.named_faults.change(data)
    if "remove" in data:
        return {"removed": server.faults.remove(str(data["remove"]))}
    if data.get("action") == "expire-watches":
        pattern = re.compile((data.get("match") or {}).get("path_regex", ""))
        return {"expired": server.watches.expire_all(server.cluster, pattern.search)}
    fault = server.faults.add(data)
    if fault.action == "silence-watches":
        for watcher in server.watches.open:
            watcher.silent = watcher.silent or bool(fault.path.search(watcher.path))
    return fault.as_json()


def _add_token(server: ApiServer, data: dict[str, Any], query: dict[str, str]) -> dict[str, Any]:
    user = user_from_json(data)
    server.tokens[str(data["token"])] = user
    return {"user": user.name}
