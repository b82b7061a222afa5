"""Before a layout that has no name yet gets one: may it be added to the ConfigMap of mig-manager, and how?

Asks the API server by a dry run of the very patch. Touches nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from django.conf import settings

from apps.clusters.mig_manager import MigManager, digest_of, text_of
from apps.executions.objects import guard
from apps.executions.sightings import uid
from apps.kube import errors
from apps.kube.gateway import CONFIG_MAPS, Gateway
from apps.kube.mig_config_text import add_config, diff_texts, read_line
from apps.kube.mig_configs import BadMigConfig, ConfigEntry
from apps.planner.plan import NamedLayout

Json = dict[str, Any]
BY_HAND = "apply deploy/rbac/mig.yaml with the ConfigMap's name in it, or add this line under mig-configs"


@dataclass(frozen=True)
class NamingFindings:
    """entries: what the name will stand for. params: of the step that adds it, {} where it is there already
    or where it is refused. refusals: why, with the line. diff: of the ConfigMap's text."""

    entries: tuple[ConfigEntry, ...] = ()
    params: Json = field(default_factory=dict)
    refusals: tuple[str, ...] = ()
    diff: str = ""


def examine_naming(layout: NamedLayout, manager: MigManager, gateway: Gateway) -> NamingFindings:
    """Raises KubeError where the cluster cannot be read."""
    where = f"{settings.MIG_MANAGER_NAMESPACE}/{manager.config_map}"
    try:
        entries: Any = read_line(layout.line)[layout.name]
        if layout.name in manager.configs:
            return _taken(layout, manager, entries, where)
        text = text_of(manager.held, manager.config_map, manager.key)
        edited = add_config(text, layout.line)
    except (BadMigConfig, KeyError) as error:
        return _refused(
            layout, f"{layout.name} cannot be added to ConfigMap {where}: {error}", "add this line"
        )
    problem = _why_kept(manager, where) or _why_not_allowed(manager, edited, gateway, where)
    if problem:
        return _refused(layout, problem, BY_HAND)
    params = {
        "config": layout.name,
        "line": layout.line,
        "config_digest": digest_of(entries),
        "config_map": {"name": manager.config_map, "key": manager.key, "uid": uid(manager.held)},
        "nodes": list(layout.nodes),
    }
    return NamingFindings(entries, params, (), diff_texts(text, edited, f"{where} {manager.key}"))


def _taken(layout: NamedLayout, manager: MigManager, entries: Any, where: str) -> NamingFindings:
    if digest_of(manager.configs[layout.name]) == digest_of(entries):
        return NamingFindings(entries)
    problem = f"The name {layout.name} stands for something else in ConfigMap {where} already."
    return NamingFindings(refusals=(f"{problem} It is never changed: take it out by hand, then plan anew.",))


def _why_kept(manager: MigManager, where: str) -> str:
    """Where an addition would not last, or nobody would read it."""
    owners = (manager.held.get("metadata") or {}).get("ownerReferences") or []
    keeper = next((one for one in owners if one.get("controller")), None)
    if keeper is not None:
        return (
            f"ConfigMap {where} belongs to {keeper.get('kind')} {keeper.get('name')}, which sets it back. "
            "Give mig-manager a ConfigMap of its own (migManager.config.name of the GPU operator)"
        )
    if manager.is_snapped:
        return f"mig-manager mounts {where} by a subPath, so its pods never see what is added"
    if manager.held.get("immutable"):
        return f"ConfigMap {where} is immutable"
    return ""


def _why_not_allowed(manager: MigManager, edited: str, gateway: Gateway, where: str) -> str:
    body = config_map_patch(manager.held, manager.key, edited)
    space = settings.MIG_MANAGER_NAMESPACE
    try:
        gateway.patch_object(CONFIG_MAPS, manager.config_map, body, namespace=space, dry_run=True)
    except errors.Forbidden:
        return f"The console's credential may not patch ConfigMap {where}"
    except (errors.Invalid, errors.Conflict, errors.NotFound) as error:
        return f"ConfigMap {where} would not take it: {error}"
    return ""


def config_map_patch(held: Json, key: str, text: str) -> Json:
    """Refused by the API server if anything of it changed since it was read."""
    return {"metadata": guard(held), "data": {key: text}}


def _refused(layout: NamedLayout, problem: str, advice: str) -> NamingFindings:
    return NamingFindings(refusals=(f"{problem}. To go on, {advice}: {layout.line}",))
