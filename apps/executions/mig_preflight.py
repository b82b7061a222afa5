"""Before a node is relaid: can it be, by which named configuration, and does anybody use it? Touches nothing.

Gives for each node of a MIG plan what its step needs, or the sentences why it is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from apps.clusters.mig_manager import MigManager, digest_of, read_manager
from apps.executions.mig_labels import CONFIG, UNDER_WAY, as_resources, tell_offers
from apps.executions.mig_naming import NamingFindings, examine_naming
from apps.kube.gateway import Gateway
from apps.planner.inventory import Node, Pod
from apps.planner.mig.catalogue import MODELS
from apps.planner.mig.named import (
    Layouts,
    entry_to_add,
    find_named,
    present_layouts,
    resources_after,
    wanted_layouts,
)
from apps.planner.mig.nodes import PAUSED, STATE
from apps.planner.plan import Plan, Reconfiguration
from apps.planner.resources import asks_gpu
from apps.planner.snapshot import Snapshot
from apps.planner.verification_mig import find_users

Json = dict[str, Any]
CAPABLE = "nvidia.com/mig.capable"
Named = tuple[str, NamingFindings]
STATIC_OWNERS = ("DaemonSet", "Node")
"""Pods that a reboot brings back by themselves."""


@dataclass(frozen=True)
class NodeFindings:
    """params: of the node's step, {} where it is refused. note: what a reviewer should know. diff: of the
    ConfigMap to which its layout is added first, "" where it has a name."""

    node: str
    node_uid: str
    refusals: tuple[str, ...] = ()
    params: Json = field(default_factory=dict)
    note: str = ""
    diff: str = ""


def examine_layouts(plan: Plan, picture: Snapshot, gateway: Gateway) -> list[NodeFindings]:
    """One for each node that the plan relays. Raises KubeError where the cluster cannot be read."""
    cuts = cuts_by_node(plan)
    if not cuts:
        return []
    manager = read_manager(gateway)
    named = {} if manager.problem else _examine_namings(plan, manager, gateway)
    moved = {move.pod_uid for move in plan.moves}
    return [
        _examine_node(name, mine, picture, manager, moved, named.get(name)) for name, mine in cuts.items()
    ]


def _examine_namings(plan: Plan, manager: MigManager, gateway: Gateway) -> dict[str, Named]:
    """By node: the configuration that the plan made for it, and what was found about adding it."""
    found: dict[str, Named] = {}
    for layout in plan.layouts:
        found |= dict.fromkeys(layout.nodes, (layout.name, examine_naming(layout, manager, gateway)))
    return found


def cuts_by_node(plan: Plan) -> dict[str, list[Reconfiguration]]:
    """A node has one label for all of its GPUs, so what is relaid on it is relaid at once."""
    found: dict[str, list[Reconfiguration]] = {}
    for one in plan.reconfigurations:
        found.setdefault(one.node, []).append(one)
    return found


def _examine_node(
    name: str,
    cuts: list[Reconfiguration],
    picture: Snapshot,
    manager: MigManager,
    moved: set[str],
    made: Named | None = None,
) -> NodeFindings:
    """made: the configuration that the plan made for the node, where none had a name."""
    node = picture.nodes.get(name)
    if node is None:
        return NodeFindings(name, cuts[0].node_uid, (f"Node {name} is gone.",))
    present, wanted = present_layouts(node), wanted_layouts(node, cuts)
    refusals = [*_why_not_able(node, wanted.values()), *_why_not_managed(node, picture, manager)]
    config, touched, configs = "", frozenset(one.index for one in cuts), manager.configs
    model = MODELS.get(cuts[0].model)
    if not manager.problem and model is not None:
        configs = {made[0]: made[1].entries} if made else manager.configs
        config, named = find_named(configs, present, wanted, model) or ("", frozenset())
        touched |= named
        is_refused = made is not None and made[1].refusals
        refusals += made[1].refusals if made and is_refused else []
        refusals += [] if is_refused else _why_not_named(node, config, present, wanted, manager)
    refusals += _why_in_use(node, touched, picture, manager, moved)
    if refusals or not config:
        return NodeFindings(name, node.uid, tuple(refusals))
    digest = digest_of(configs[config])
    params = _params(node, cuts, picture, manager, (config, digest), touched)
    if made is not None and made[1].params:
        params["naming"] = made[1].params
    diff = made[1].diff if made is not None else ""
    return NodeFindings(name, node.uid, (), params, _note(node, config, is_new=bool(diff)), diff)


def _why_not_able(node: Node, layouts: Iterable[Mapping[str, int]]) -> list[str]:
    if node.labels.get(CAPABLE) != "true":
        return [f"Node {node.name} is not MIG capable (the label {CAPABLE} does not say true)."]
    alike = len({tuple(sorted(one.items())) for one in layouts}) == 1
    if node.mig_strategy == "single" and not alike:
        return [
            f"Node {node.name} has mig.strategy single, and its GPUs would be cut unevenly: that gives "
            "MIG-INVALID and no resources at all."
        ]
    if node.mig_strategy != "mixed":
        return [
            f"Node {node.name} has mig.strategy {node.mig_strategy or 'not told'}: only mixed offers "
            "instances by profile."
        ]
    return []


def _why_not_managed(node: Node, picture: Snapshot, manager: MigManager) -> list[str]:
    if manager.problem:
        return [manager.problem]
    reasons = []
    its_pods = [pod for pod in picture.pods_on(node.name) if pod.workload == manager.uid]
    if not any(pod.ready for pod in its_pods):
        what = "is not Ready" if its_pods else "is absent"
        reasons.append(f"mig-manager {what} on node {node.name}: nobody would act on the label.")
    state = node.labels.get(STATE, "")
    paused = sorted(name for name, value in node.labels.items() if value == PAUSED)
    if state in UNDER_WAY or paused:
        reasons.append(
            f"A MIG change is under way or stuck on node {node.name} already (state {state or 'not told'}"
            f"{', paused: ' + ', '.join(paused) if paused else ''})."
        )
    return reasons


def _why_in_use(
    node: Node, touched: frozenset[int], picture: Snapshot, manager: MigManager, moved: set[str]
) -> list[str]:
    """Who would still be on the GPUs when they are cut, and whether anything tells that."""
    here = [pod for pod in picture.pods_on(node.name) if pod.uid not in moved]
    hit = [pod.key for pod in here if would_be_hit(pod, manager)]
    if manager.flags and hit:
        return [
            f"mig-manager runs with {manager.flags}, so the whole node {node.name} goes down, and "
            f"{_names(hit)} would still be on it."
        ]
    users: dict[str, str] = {}
    for gpu in node.gpus:
        if gpu.index in touched:
            users |= find_users(picture, node, gpu)
    names = [who for uid, who in users.items() if uid not in moved]
    if not names:
        return []
    proof = "" if node.holdings is not None else ", and nothing proves which GPU that is"
    return [
        f"{_names(names)} on node {node.name} would not be moved and may hold a GPU that is to be "
        f"relaid{proof}."
    ]


def would_be_hit(pod: Pod, manager: MigManager) -> bool:
    """Whether a change of any GPU of its node ends the pod, by what mig-manager's flags say."""
    if pod.hold or pod.owner_kind in STATIC_OWNERS:
        return False
    return manager.reboots or asks_gpu(pod)


def _why_not_named(
    node: Node, config: str, present: Layouts, wanted: Layouts, manager: MigManager
) -> list[str]:
    if not config:
        line = entry_to_add(present, wanted, manager.configs)
        return [
            f"No named configuration of ConfigMap {manager.config_map} cuts node {node.name} as planned. Add "
            f"this line under mig-configs: {line}"
        ]
    if node.labels.get(CONFIG) == config:
        return [
            f"The label {CONFIG} of node {node.name} is {config} already although the node is not cut so: "
            "mig-manager acts on a change only. Set another configuration by hand first, then plan anew."
        ]
    return []


def _note(node: Node, config: str, *, is_new: bool) -> str:
    added = f"{config} is added to mig-manager's ConfigMap first, see there; " if is_new else ""
    if CONFIG in node.labels:
        return f"{added}{CONFIG} becomes {config}; a roll back restores {node.labels[CONFIG]}"
    return (
        f"{added}{CONFIG} becomes {config}; the node has no such label now, so there is no value to go back "
        "to: if the change fails, a person decides"
    )


def _params(
    node: Node,
    cuts: list[Reconfiguration],
    picture: Snapshot,
    manager: MigManager,
    named: tuple[str, str],
    touched: frozenset[int],
) -> Json:
    """named: the configuration and its digest."""
    offers = as_resources(resources_after(node, cuts))
    return {
        "node": node.name,
        "node_uid": node.uid,
        "config": named[0],
        "config_map": {"name": manager.config_map, "key": manager.key},
        "config_digest": named[1],
        "previous": node.labels.get(CONFIG),
        "gpus": sorted(touched),
        "is_whole_node": bool(manager.flags) or any(one.whole_node for one in cuts),
        "offers": offers,
        "known": sorted(pod.uid for pod in picture.pods_on(node.name) if asks_gpu(pod)),
        "promise": f"{node.name} offers {tell_offers(offers)}",
        "before_moves": not any(one.after_moves for one in cuts),
    }


def _names(names: Iterable[str], most: int = 3) -> str:
    listed = sorted(names)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return f"{', '.join(listed[:most])}{more}"
