"""URL paths of the Kubernetes API, and what comes behind their question mark."""

from __future__ import annotations

from urllib.parse import quote

from apps.kube.errors import Invalid
from apps.kube.gateway import Kind


def object_path(kind: Kind, name: str = "", *, namespace: str | None = None, subresource: str = "") -> str:
    """The path of a kind's collection, of one object, or of an object's subresource. Names are quoted:
    they may come from a cluster or a person and must not reach another path."""
    if {name, namespace} & {".", ".."}:
        raise Invalid(f"{kind.plural}: {namespace}/{name} is no name of an object.")
    parts = [kind.path]
    if kind.namespaced and namespace:
        parts += ["namespaces", quote(namespace, safe="")]
    parts.append(kind.plural)
    if name:
        parts.append(quote(name, safe=""))
    if subresource:
        parts.append(subresource)
    return "/".join(parts)


def selectors(labels: str, fields: str) -> dict[str, str]:
    named = {"labelSelector": labels, "fieldSelector": fields}
    return {key: value for key, value in named.items() if value}


def dry(dry_run: bool) -> dict[str, str]:
    return {"dryRun": "All"} if dry_run else {}
