"""What the server says about itself: version, groups, resources, health."""

from __future__ import annotations

import re
from typing import Any

from apps.simulator.api_server.kinds import VERBS, Kind, KindTable

SUBRESOURCE_KINDS = {
    "scale": ("autoscaling", "v1", "Scale"),
    "eviction": ("policy", "v1", "Eviction"),
    "binding": ("", "", "Binding"),
}
SUBRESOURCE_VERBS = {
    "status": ["get", "patch", "update"],
    "scale": ["get", "patch", "update"],
    "finalize": ["update"],
    "log": ["get"],
}


def version_info(git_version: str) -> dict[str, str]:
    match = re.match(r"v(\d+)\.(\d+)", git_version)
    if match is None:
        raise ValueError(f"{git_version!r} is no Kubernetes version; give one such as v1.36.2")
    major, minor = match[1], match[2]
    return {
        "major": major,
        "minor": minor,
        "emulationMajor": major,
        "emulationMinor": minor,
        "minCompatibilityMajor": major,
        "minCompatibilityMinor": str(int(minor) - 1),
        "gitVersion": git_version,
        "gitCommit": "0000000000000000000000000000000000000000",
        "gitTreeState": "clean",
        "buildDate": "2026-08-21T00:00:00Z",
        "goVersion": "go1.26.6",
        "compiler": "gc",
        "platform": "linux/amd64",
    }


def api_versions() -> dict[str, Any]:
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []}


def group_list(kinds: KindTable) -> dict[str, Any]:
    groups = [_group(name, versions) for name, versions in kinds.versions().items()]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def one_group(kinds: KindTable, name: str) -> dict[str, Any] | None:
    versions = kinds.versions().get(name)
    if versions is None:
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)}


def _group(name: str, versions: list[str]) -> dict[str, Any]:
    entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def resource_list(kinds: KindTable, group: str, version: str) -> dict[str, Any] | None:
    resources: list[dict[str, Any]] = []
    for kind in kinds.served(group, version):
        resources.append(_resource(kind))
        resources += [_subresource(kind, name) for name in kind.subresources]
    if not resources:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": sorted(resources, key=lambda r: r["name"]),
    }


def _resource(kind: Kind) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": kind.plural,
        "singularName": kind.kind.lower(),
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(VERBS) if kind.stored else ["create"],
    }
    if kind.short:
        entry["shortNames"] = list(kind.short)
    return entry


def _subresource(kind: Kind, name: str) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": f"{kind.plural}/{name}",
        "singularName": "",
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": SUBRESOURCE_VERBS.get(name, ["create"]),
    }
    if name in SUBRESOURCE_KINDS:
        group, version, entry["kind"] = SUBRESOURCE_KINDS[name]
        if group:
            entry["group"], entry["version"] = group, version
    return entry
