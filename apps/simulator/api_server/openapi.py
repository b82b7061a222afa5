"""The least of OpenAPI v3 that lets kubectl leave validation to the server (`apply`, `create -f`, `replace`).

It says for every kind which paths take the fieldValidation parameter; it describes no fields.
"""

from __future__ import annotations

from typing import Any

from apps.simulator.api_server.kinds import Kind, KindTable

WRITES = (("post", "post"), ("put", "put"), ("patch", "patch"))
PARAMETERS = [
    {"name": name, "in": "query", "schema": {"type": "string"}}
    for name in ("dryRun", "fieldManager", "fieldValidation")
]


def _prefix(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def index(kinds: KindTable) -> dict[str, Any]:
    """Where the document of each group version is."""
    places = [("", "v1"), *((g, v) for g, versions in kinds.versions().items() for v in versions)]
    paths = {_prefix(g, v): {"serverRelativeURL": f"/openapi/v3/{_prefix(g, v)}"} for g, v in places}
    return {"paths": paths}


def document(kinds: KindTable, group: str, version: str) -> dict[str, Any] | None:
    served = list(kinds.served(group, version))
    if not served:
        return None
    paths: dict[str, Any] = {}
    for kind in served:
        paths.update(_paths(kind))
    info = {"title": "Kubernetes", "version": version}
    return {"openapi": "3.0.0", "info": info, "paths": paths, "components": {"schemas": {}}}


def _paths(kind: Kind) -> dict[str, Any]:
    base = f"/{_prefix(kind.group, kind.version)}"
    if kind.namespaced:
        base += "/namespaces/{namespace}"
    group_kind = {"group": kind.group, "version": kind.version, "kind": kind.kind}
    operations = {
        method: {
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": group_kind,
            "parameters": PARAMETERS,
            "responses": {"200": {"description": "OK"}},
        }
        for method, action in WRITES
    }
    return {
        f"{base}/{kind.plural}": {"post": operations["post"]},
        f"{base}/{kind.plural}/{{name}}": {"put": operations["put"], "patch": operations["patch"]},
    }
