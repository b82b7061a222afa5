"""URL paths of the Kubernetes API."""

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
