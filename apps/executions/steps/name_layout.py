"""Step ``name_layout``: a configuration that the plan made gets its name in the ConfigMap of mig-manager.

One PATCH, guarded by UID and resourceVersion, that adds one line and changes none. Then the time passes that
kubelets take to bring a mounted ConfigMap up to date, before any node is told the name. Undone by taking that
line out again, and only where no node's label and no other execution names it; after a success it stays,
because mig-manager reads it again whenever it starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings

from apps.clusters.mig_manager import configs_of, digest_of, find_manager, text_of
from apps.executions.context import Context
from apps.executions.decisions import Decision, act, done, moot, stop, wait_long
from apps.executions.mig_labels import CONFIG
from apps.executions.mig_naming import config_map_patch
from apps.executions.models import Step
from apps.executions.sightings import moment, name, uid
from apps.executions.states import TERMINAL, StepKind
from apps.kube.gateway import CONFIG_MAPS, DAEMONSETS, NODES
from apps.kube.mig_config_text import add_config, remove_config
from apps.kube.mig_configs import BadMigConfig, ConfigEntry

Json = dict[str, Any]


@dataclass(frozen=True)
class Facts:
    """held: the ConfigMap, None if it is gone. entries: what the name stands for, None where it is not
    there. problem: why its text cannot be read, "". mounted: the ConfigMap that mig-manager mounts now.
    users: nodes and executions that name the layout; looked for before it is taken out."""

    held: Json | None
    now: datetime
    sync_seconds: float
    entries: tuple[ConfigEntry, ...] | None = None
    problem: str = ""
    mounted: str = ""
    users: tuple[str, ...] = ()


def observe(context: Context, step: Step) -> Facts:
    params, where = step.params, step.params["config_map"]
    space = settings.MIG_MANAGER_NAMESPACE
    held = context.gateway.get_object(CONFIG_MAPS, where["name"], namespace=space)
    sync = float(settings.EXECUTION_MIG_SYNC_SECONDS)
    manager = find_manager(context.gateway.list_objects(DAEMONSETS, namespace=space))
    try:
        entries = configs_of(held, where["name"], where["key"]).get(params["config"])
    except BadMigConfig as error:
        return Facts(held, context.now, sync, problem=str(error), mounted=manager.config_map)
    users = _find_users(context, step)
    return Facts(held, context.now, sync, entries, mounted=manager.config_map, users=users)


def _find_users(context: Context, step: Step) -> tuple[str, ...]:
    config = step.params["config"]
    nodes = context.gateway.list_objects(NODES, label_selector=f"{CONFIG}={config}")
    others = (
        Step.objects.filter(kind__in=(StepKind.NAME_LAYOUT, StepKind.RECONFIGURE_MIG))
        .filter(params__config=config, execution__plan__cluster=context.execution.plan.cluster_id)
        .exclude(execution=context.execution)
        .exclude(execution__state__in=TERMINAL)
        .values_list("execution_id", flat=True)
        .distinct()
    )
    return (*sorted(f"node {name(node)}" for node in nodes), *(f"execution {one}" for one in sorted(others)))


def decide(step: Step, facts: Facts, *, late: bool) -> Decision:
    params, where = step.params, step.params["config_map"]["name"]
    is_sent = "add" in step.observed.get("sent", [])
    problem = _what_changed(step, facts)
    if problem:
        advice = "Nothing was changed on any GPU. Cancel, or set it right and resume."
        return stop(problem, advice, cause="mig-taken")
    if facts.entries is None:
        if is_sent and step.issued_at is not None:
            return stop(
                f"Somebody took {params['config']} out of ConfigMap {where} after it had been added.",
                "Find out who sets that ConfigMap back (GitOps, the GPU operator). Cancel, or give "
                "mig-manager a ConfigMap of its own and plan anew.",
                cause="mig-taken",
            )
        return _decide_adding(step, facts.held or {})
    if digest_of(facts.entries) != params["config_digest"]:
        return stop(
            f"The name {params['config']} stands for something else in ConfigMap {where}.",
            "It is never changed. Cancel and plan anew.",
            cause="mig-taken",
        )
    since = moment(step.observed.get("seen", {}).get("there_since", "")) or facts.now
    if (facts.now - since).total_seconds() < facts.sync_seconds:
        return wait_long(
            f"{params['config']} is in ConfigMap {where}; kubelets take up to {facts.sync_seconds:g} s to "
            "show it to mig-manager",
            there_since=since.isoformat(),
        )
    return done(f"{params['config']} is in ConfigMap {where}, where mig-manager reads it")


def _decide_adding(step: Step, held: Json) -> Decision:
    params, where = step.params, step.params["config_map"]
    try:
        add_config(text_of(held, where["name"], where["key"]), params["line"])
    except BadMigConfig as error:
        return stop(
            f"{params['config']} cannot be added to ConfigMap {where['name']} any more: {error}.",
            f"Cancel, or add this line under mig-configs by hand and resume: {params['line']}",
            cause="mig-taken",
        )
    return act("add", f"add {params['config']} to ConfigMap {where['name']}", held=held)


def _what_changed(step: Step, facts: Facts) -> str:
    where = step.params["config_map"]
    if facts.held is None or uid(facts.held) != where["uid"]:
        return f"ConfigMap {where['name']} is gone or was made anew since the preflight."
    if facts.problem:
        return f"ConfigMap {where['name']} cannot be read any more: {facts.problem}."
    if facts.mounted != where["name"]:
        return f"mig-manager mounts {facts.mounted or 'no ConfigMap'} now, not {where['name']}."
    return ""


def decide_undo(step: Step, facts: Facts) -> Decision:
    config, where = step.params["config"], step.params["config_map"]
    if "add" not in step.observed.get("sent", []):
        return done("it was not this execution that added it")
    if facts.held is None or uid(facts.held) != where["uid"] or (facts.entries is None and not facts.problem):
        return done(f"{config} is not in ConfigMap {where['name']}")
    if facts.users:
        return done(f"{config} stays in ConfigMap {where['name']}: {', '.join(facts.users[:3])} names it")
    try:
        remove_config(text_of(facts.held, where["name"], where["key"]), step.params["line"])
    except BadMigConfig as error:
        return moot(f"{config} stays in ConfigMap {where['name']}: {error}")
    return act("remove", f"take {config} out of ConfigMap {where['name']} again", held=facts.held)


def apply(context: Context, step: Step, decision: Decision) -> None:
    where, held = step.params["config_map"], decision.arguments["held"]
    text = text_of(held, where["name"], where["key"])
    edit = add_config if decision.effect == "add" else remove_config
    patch = config_map_patch(held, where["key"], edit(text, step.params["line"]))
    space = settings.MIG_MANAGER_NAMESPACE
    context.gateway.patch_object(CONFIG_MAPS, where["name"], patch, namespace=space)
