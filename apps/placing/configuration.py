"""The KubeSchedulerConfiguration that makes a cluster's kube-scheduler ask our extender, to be pasted.

Field names as in `kubescheduler.config.k8s.io/v1`. Not here: who may see it.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from django.conf import settings

from apps.placing.models import PlacementPolicy

USUAL_RESOURCES = ("nvidia.com/gpu",)
TIMEOUT = "1s"
"""Our answers take milliseconds; a scheduler that waits longer places nobody meanwhile."""
BINDING_TIMEOUT = "5s"
"""A binding waits for the ledger's lock and the API server. A scheduler that gives it up before that takes
the pod for unbound and looks for another node."""
KUBECONFIG = "/etc/kubernetes/scheduler.conf"
"""Where kubeadm puts the scheduler's own access; a configuration file without it has none."""


@dataclass(frozen=True, slots=True)
class Shown:
    """text: the YAML. url_prefix: "" where none is set. notes: sentences, what to mind before pasting it."""

    text: str
    url_prefix: str
    managed_resources: tuple[str, ...]
    notes: tuple[str, ...]


def show_configuration(policy: PlacementPolicy, url_prefix: str, resources: Sequence[str]) -> Shown:
    """resources: accelerators found in the cluster; the usual one where there are none."""
    managed = tuple(resources) or USUAL_RESOURCES
    prefix = url_prefix or "https://EXTENDER-HOST:PORT/extender/CLUSTER/SECRET"
    body = make_configuration(policy, prefix, managed)
    text = yaml.safe_dump(body, sort_keys=False, width=10_000, allow_unicode=True)
    return Shown(text, url_prefix, managed, tuple(_notes(policy, url_prefix, resources)))


def make_configuration(
    policy: PlacementPolicy, url_prefix: str, resources: Sequence[str], *, kubeconfig: str = KUBECONFIG
) -> dict[str, Any]:
    """What the YAML says. kubeconfig: "" leaves it out."""
    extender: dict[str, Any] = {
        "urlPrefix": url_prefix,
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "weight": policy.weight,
        "nodeCacheCapable": True,
        "ignorable": policy.is_ignorable,
        "httpTimeout": BINDING_TIMEOUT if policy.binds else TIMEOUT,
        "managedResources": [{"name": name, "ignoredByScheduler": False} for name in resources],
    }
    if policy.binds:
        extender["bindVerb"] = "bind"
    if policy.preempts:
        extender["preemptVerb"] = "preempt"
    if url_prefix.startswith("https://"):
        extender["enableHTTPS"] = True
        extender["tlsConfig"] = {"caData": authority()} if authority() else {"insecure": False}
    access = {"clientConnection": {"kubeconfig": kubeconfig}} if kubeconfig else {}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        **access,
        "extenders": [extender],
    }


def authority() -> str:
    """The extender's authority in base64, "" where the setting names no file that can be read."""
    name = settings.EXTENDER_CA_FILE
    if not name or not Path(name).is_file():
        return ""
    return base64.b64encode(Path(name).read_bytes()).decode()


def _notes(policy: PlacementPolicy, url_prefix: str, resources: Sequence[str]) -> list[str]:
    found = []
    if not url_prefix:
        found.append(
            "This console knows no address of its extender: set EXTENDER_URL (and EXTENDER_CA_FILE), start"
            " serve_extender, then look here again."
        )
    elif url_prefix.startswith("https://") and not authority():
        found.append(
            "EXTENDER_CA_FILE names no file that can be read: without caData the scheduler trusts any"
            " certificate, or none of a private authority."
        )
    if not resources:
        found.append("No accelerator was found in this cluster yet: nvidia.com/gpu stands for them.")
    if policy.is_ignorable:
        found.append(
            "ignorable is true: while the extender is away or slow the scheduler places pods by itself, and"
            " nothing that the extender keeps free is kept."
        )
    else:
        found.append(
            "ignorable is false: while the extender is away or slow, no pod that asks for these resources is"
            " placed."
        )
    found.append(
        "The extender must stand before others: one that returns a single node (HAMi's) leaves it nothing to"
        " choose."
    )
    return found
