"""MIG changes that are stuck, failed or not to be believed: what is wrong, and what a person does now.

mig-manager never says that it gave up, so time decides. Not in here: how a change's stage is read
(planner/mig/changing), since when it lasts (mig_change).
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.conf import settings

from apps.dashboard.reading.mig import MigNode
from apps.dashboard.reading.words import listing
from apps.planner.mig.changing import Change, Stage, is_stuck

NO_RETRY = (
    "Setting the same label value again is no retry. Let mig-manager read it anew by deleting its pod on "
    "this node, or set the exact earlier value to roll back; deleting the label is no rollback."
)


@dataclass(frozen=True, slots=True)
class Trouble:
    """What is wrong with one node's MIG, and what to do, step by step. tone: warn or bad."""

    node: str
    tone: str
    what: str
    why: str
    steps: tuple[str, ...]
    command: str = ""


def list_troubles(nodes: Sequence[MigNode], since: Mapping[str, datetime], now: datetime) -> list[Trouble]:
    """since: of changes under way, by the node's name. The bad ones first, then by node."""
    found = []
    for one in nodes:
        begun = since.get(one.node.name)
        trouble = _trouble(one, (now - begun).total_seconds() if begun is not None else None)
        if trouble is not None:
            found.append(trouble)
    return sorted(found, key=lambda trouble: (trouble.tone != "bad", trouble.node))


def _trouble(one: MigNode, seconds: float | None) -> Trouble | None:
    """seconds: for so long a change has been in its stage, None if nobody saw it begin."""
    change, name, minutes = one.change, one.node.name, (seconds or 0.0) / 60
    if not is_stuck(change, seconds):
        return None
    if change.stage is Stage.INVALID:
        return _invalid(name, one)
    timed = {Stage.PENDING: _wedged, Stage.ASKED: _unanswered, Stage.REBOOTING: _not_back}
    if change.stage in timed:
        return timed[change.stage](name, change, minutes)
    return _failed(name, change) if change.stage is Stage.FAILED else _wrong(name, change)


def _logs(name: str) -> str:
    """The pod itself: the log of a DaemonSet is that of any one of its pods."""
    return f"{_pods_on(name)}  # then: logs --since=30m of the pod of {settings.MIG_MANAGER_DAEMONSET}"


def _pods_on(name: str) -> str:
    where = shlex.quote(f"spec.nodeName={name}")
    return f"{_in_namespace()} get pods -o wide --field-selector {where}"


def _in_namespace() -> str:
    return f"kubectl -n {shlex.quote(settings.MIG_MANAGER_NAMESPACE)}"


def _config(change: Change) -> str:
    return f"“{change.config}”" if change.config else "that nobody named"


def _wedged(name: str, change: Change, minutes: float) -> Trouble:
    held = f" with operands paused ({listing(change.paused)})" if change.paused else ""
    return Trouble(
        name,
        "bad",
        f"{name} hangs in its MIG change {_config(change)}: pending for {minutes:.0f} min{held}.",
        "mig-manager waits at most 5 min for each operand, then ends without a word: the node stays pending "
        "and offers no GPUs until somebody acts.",
        (
            "See which GPU pod or operand on the node does not end, and end it.",
            NO_RETRY,
            "If an execution of the console made this change, roll it back or resume it from its page.",
        ),
        _pods_on(name),
    )


def _unanswered(name: str, change: Change, minutes: float) -> Trouble:
    return Trouble(
        name,
        "bad",
        f"Nobody answers on {name}: mig.config {_config(change)} was set {minutes:.0f} min ago.",
        "No mig.config.state has appeared, so no mig-manager has seen the label.",
        (
            f"See whether the DaemonSet {settings.MIG_MANAGER_DAEMONSET} runs on this node, and whether the "
            "node's label nvidia.com/gpu.deploy.mig-manager is true.",
            "Once it runs, it reads the label by itself.",
        ),
        f"{_in_namespace()} get daemonset {shlex.quote(settings.MIG_MANAGER_DAEMONSET)}",
    )


def _not_back(name: str, change: Change, minutes: float) -> Trouble:
    return Trouble(
        name,
        "bad",
        f"{name} has been rebooting for its MIG change {_config(change)} for {minutes:.0f} min.",
        "Some models switch MIG on only after a reboot; this one has not come back.",
        ("Look at the machine's console; the change goes on by itself once the node is back.",),
        f"kubectl describe node {shlex.quote(name)}",
    )


def _failed(name: str, change: Change) -> Trouble:
    return Trouble(
        name,
        "bad",
        f"mig-manager failed on {name} with the layout {_config(change)}.",
        "Usual causes: a process still uses a GPU, the ConfigMap has no layout of this name, or the layout "
        "does not fit the model.",
        ("Read why in mig-manager's log.", NO_RETRY),
        _logs(name),
    )


def _invalid(name: str, one: MigNode) -> Trouble:
    strategy = one.node.mig_strategy or "single"
    return Trouble(
        name,
        "bad",
        f"{name} offers no GPUs: MIG-INVALID under mig.strategy={strategy}.",
        "With the single strategy every GPU of a node must be cut into the same one profile.",
        (
            "Choose a layout that cuts all its GPUs alike, or the mixed strategy for this node.",
            "The pods on it keep running; new ones cannot come.",
        ),
        f"kubectl get node {shlex.quote(name)} -L nvidia.com/mig.config -L nvidia.com/gpu.product",
    )


def _wrong(name: str, change: Change) -> Trouble:
    said = [
        f"labels count {label} × {profile}, the kubelet offers {has}"
        for profile, (label, has) in change.differing.items()
    ]
    said += [
        f"{seen} × {profile} stand on the GPUs, the kubelet offers {has}"
        for profile, (seen, has) in change.unseen.items()
        if profile not in change.differing
    ]
    if change.promised:
        said.insert(0, f"its name promises {change.promised}, and that is not what is offered")
    if change.paused:
        said.insert(0, f"operands are still paused ({listing(change.paused)})")
    return Trouble(
        name,
        "warn",
        f"{name} says success for {_config(change)}, but {listing(said, 3)}.",
        "The state can be left over from an earlier change; plans leave this node alone until it agrees.",
        (
            "Restart the device plugin and GPU Feature Discovery on this node; they read the GPUs anew.",
            "If it still disagrees, let mig-manager apply the layout again by deleting its pod on this node.",
        ),
        f"kubectl get node {shlex.quote(name)} -o jsonpath='{{.status.allocatable}}'",
    )
