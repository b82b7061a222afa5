"""NVIDIA's mig-manager as far as it counts for us: is it there, how does it behave, what does it know.

Reads its DaemonSet and the ConfigMap that this mounts. Whether a node may be relaid: see executions.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from posixpath import basename, dirname
from typing import Any

import structlog
from django.conf import settings

from apps.clusters.errors import ConnectionFailed
from apps.clusters.gateways import open_gateway
from apps.clusters.models import Cluster
from apps.kube.errors import Forbidden, KubeError
from apps.kube.gateway import CONFIG_MAPS, DAEMONSETS, Gateway, Kind
from apps.kube.mig_configs import BadMigConfig, ConfigEntry, find_configs

log = structlog.get_logger(__name__)
Json = dict[str, Any]
USUAL_FILE = "/mig-parted-config/config.yaml"
Get = Callable[..., Json | None]
Configs = Mapping[str, tuple[ConfigEntry, ...]]


@dataclass(frozen=True)
class MigManager:
    """problem: why nothing can be asked of it, "" if it can. uid: of its DaemonSet.

    config_map, key: where the named configurations stand; held: that ConfigMap itself, {} while it was not
    read. is_snapped: its pods see the file as it was when they started. reboots, stops_clients: its flags
    WITH_REBOOT and WITH_SHUTDOWN_HOST_GPU_CLIENTS, which make a change one of the whole node.
    """

    problem: str = ""
    uid: str = ""
    config_map: str = ""
    key: str = ""
    configs: Configs = field(default_factory=dict)
    held: Json = field(default_factory=dict)
    is_snapped: bool = False
    reboots: bool = False
    stops_clients: bool = False

    @property
    def flags(self) -> str:
        named = (("WITH_REBOOT", self.reboots), ("WITH_SHUTDOWN_HOST_GPU_CLIENTS", self.stops_clients))
        return " and ".join(name for name, is_set in named if is_set)


def read_manager(gateway: Gateway) -> MigManager:
    """Raises KubeError where the cluster cannot be read; what is missing or refused is told as a problem."""
    space = settings.MIG_MANAGER_NAMESPACE
    manager = find_manager(_list(gateway, DAEMONSETS, space))
    if manager.problem:
        return manager
    name = manager.config_map
    try:
        held = gateway.get_object(CONFIG_MAPS, name, namespace=space)
        configs = configs_of(held, name, manager.key)
    except Forbidden:
        return replace(
            manager,
            problem=f"The console's credential may not get ConfigMap {space}/{name}, which names the "
            "layouts: apply deploy/rbac/mig.yaml, with that name in it.",
        )
    except BadMigConfig as error:
        return replace(manager, problem=f"ConfigMap {space}/{name} cannot be read: {error}.")
    return replace(manager, configs=configs, held=held or {})


def find_manager(daemonsets: Iterable[Json]) -> MigManager:
    """What its own DaemonSet says, among those of its namespace; the configurations are not read."""
    space, wanted = settings.MIG_MANAGER_NAMESPACE, settings.MIG_MANAGER_DAEMONSET
    found = next((one for one in daemonsets if one["metadata"]["name"] == wanted), None)
    if found is None:
        return MigManager(f"mig-manager is absent: there is no DaemonSet {wanted} in {space}.")
    pod = ((found.get("spec") or {}).get("template") or {}).get("spec") or {}
    containers = pod.get("containers") or []
    values = {one.get("name"): str(one.get("value", "")) for c in containers for one in c.get("env") or []}
    path = values.get("CONFIG_FILE") or USUAL_FILE
    name, is_snapped = _mounted(pod, containers, path)
    manager = MigManager(
        uid=str(found["metadata"].get("uid", "")),
        config_map=name,
        key=basename(path),
        is_snapped=is_snapped,
        reboots=_is_true(values.get("WITH_REBOOT", "")),
        stops_clients=_is_true(values.get("WITH_SHUTDOWN_HOST_GPU_CLIENTS", "")),
    )
    if not name:
        return replace(manager, problem=f"DaemonSet {wanted} mounts no ConfigMap at {dirname(path)}.")
    return manager


def named_layouts(cluster: Cluster) -> Configs:
    """The named configurations of a cluster's mig-parted, for a planner that prefers layouts with a name.

    Empty wherever they cannot be read now: then nothing is preferred.
    """
    try:
        gateway = open_gateway(cluster)
    except ConnectionFailed:
        return {}
    try:
        return read_manager(gateway).configs
    except KubeError as error:
        log.info("named MIG layouts cannot be read", cluster=cluster.name, reason=str(error))
        return {}
    finally:
        gateway.close()


def read_configs(get_object: Get, name: str, key: str) -> Configs:
    """Raises BadMigConfig (also where it is gone) and KubeError."""
    return configs_of(get_object(CONFIG_MAPS, name, namespace=settings.MIG_MANAGER_NAMESPACE), name, key)


def configs_of(held: Json | None, name: str, key: str) -> Configs:
    """held: the ConfigMap, None if it is gone. Raises BadMigConfig."""
    return find_configs(text_of(held, name, key)) or {}


def text_of(held: Json | None, name: str, key: str) -> str:
    """Raises BadMigConfig where there is no such text."""
    text = ((held or {}).get("data") or {}).get(key)
    if not isinstance(text, str):
        raise BadMigConfig(f"{settings.MIG_MANAGER_NAMESPACE}/{name} has no {key}")
    return text


def digest_of(entries: Iterable[ConfigEntry]) -> str:
    """Tells whether a name still stands for the layout that it stood for."""
    text = json.dumps([asdict(entry) for entry in entries], sort_keys=True, default=list)
    return hashlib.sha256(text.encode()).hexdigest()


def why_config_changed(get_object: Get, params: Json) -> str:
    """A sentence if the named configuration is not what it was at the preflight. Raises KubeError."""
    name, where = params["config"], params["config_map"]
    try:
        configs = read_configs(get_object, where["name"], where["key"])
    except BadMigConfig as error:
        return f"ConfigMap {where['name']} cannot be read any more: {error}."
    except Forbidden:
        return f"ConfigMap {where['name']} may not be read any more."
    if name not in configs:
        return f"The configuration {name} is gone from ConfigMap {where['name']}."
    if digest_of(configs[name]) != params["config_digest"]:
        return f"The configuration {name} of ConfigMap {where['name']} says something else now."
    return ""


def _list(gateway: Gateway, kind: Kind, namespace: str) -> list[Json]:
    try:
        return gateway.list_objects(kind, namespace=namespace).objects
    except Forbidden as error:
        raise KubeError(f"{error} Without it nobody knows whether mig-manager is there.") from error


def _mounted(pod: Json, containers: list[Json], path: str) -> tuple[str, bool]:
    """Name of the ConfigMap that some container has at this file, and whether by a subPath: such a file
    is never brought up to date."""
    places = (path, dirname(path))
    mounts = {
        one.get("name"): bool(one.get("subPath"))
        for container in containers
        for one in container.get("volumeMounts") or []
        if str(one.get("mountPath", "")).rstrip("/") in places
    }
    for volume in pod.get("volumes") or []:
        if volume.get("name") in mounts and volume.get("configMap"):
            return str(volume["configMap"].get("name", "")), mounts[volume["name"]]
    return "", False


def _is_true(text: str) -> bool:
    return text.strip().lower() == "true"
