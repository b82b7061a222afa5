"""The GPU software of one node: device plugin, feature discovery, node agent, and what each shows.

On a node that a GPU operator looks after, plugin and discovery are pods and work only while theirs
run; on any other node they always do. The plugin reads the layout when it starts, discovery and the
agent read it whenever they report. Not here: who changes a layout, and the kubelet itself (agent).
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

from apps.simulator.controllers.kubelet.devices import CHECKPOINT_ANNOTATION, DeviceLedger
from apps.simulator.controllers.objects import annotations_of, is_running, labels_of, uid_of
from apps.simulator.controllers.pace import Pace
from apps.simulator.hardware import (
    HARDWARE_ANNOTATION,
    HOLDERS_ANNOTATION,
    MATRIX_ANNOTATION,
    labels_for,
    matrix_of,
    unhealthy_indexes,
)
from apps.simulator.mig.features import OWNED, discover_features
from apps.simulator.mig.layout import matrix_mig
from apps.simulator.mig.offers import MIG_PREFIX, list_offers
from apps.simulator.mig.setup import WHOLE_GPU, Setup, setup_of

Json = dict[str, Any]

OPERATOR_NAMESPACE = "gpu-operator"
DEPLOY = "nvidia.com/gpu.deploy."
PLUGIN = "nvidia-device-plugin-daemonset"
DISCOVERY = "gpu-feature-discovery"
_SHARED_GPU = "nvidia.com/gpu.shared"
# How long the kubelet keeps naming the devices of a plugin that went away.
_ENDPOINT_GRACE_SECONDS = 300.0


class GpuStack:
    def __init__(self, node: Json, pace: Pace) -> None:
        self.node = node
        self.pace = pace
        self.setup: Setup | None = setup_of(node)
        # A shared GPU has several holders at once, which this simulation does not keep.
        tracks = self.setup is not None and not self.setup.sharing.is_on
        self.ledger = DeviceLedger(self.setup) if self.setup and tracks else None
        self._serving: dict[str, set[str]] = {PLUGIN: set(), DISCOVERY: set()}
        self._gone: dict[str, tuple[int, float]] = {}
        self._offered: Setup | None = self.setup
        self._is_up = True
        if self.ledger:
            self.ledger.adopt(node)
        self._switch()

    @property
    def grace_seconds(self) -> float:
        return self.pace.seconds(_ENDPOINT_GRACE_SECONDS)

    # --- what happened ---

    def on_node(self, node: Json) -> bool:
        """True when there is something new to report."""
        before, self.node = _private(self.node), node
        if before == _private(node):
            return self._switch()
        known = self.setup
        if HARDWARE_ANNOTATION in annotations_of(node):
            self.setup = setup_of(node)
        elif self.setup:
            self.setup = replace(self.setup, unhealthy=unhealthy_indexes(node))
        if self.ledger and self.setup:
            self.ledger.hardware, self.ledger.unhealthy = self.setup.hardware, self.setup.broken
        if known and self.setup and known.layout != self.setup.layout and not self._is_managed():
            self._offer()
        return self._switch() or self.setup != known

    def on_pod(self, pod: Json) -> bool:
        """True when an operand started or ended."""
        meta = pod["metadata"]
        app = (meta.get("labels") or {}).get("app", "")
        if app not in self._serving or meta["namespace"] != OPERATOR_NAMESPACE:
            return False
        serving, uid = self._serving[app], uid_of(pod)
        was_there = uid in serving
        if is_running(pod):
            serving.add(uid)
        else:
            serving.discard(uid)
        return self._switch() or was_there != (uid in serving)

    def on_pod_gone(self, uid: str) -> bool:
        was_there = any(uid in serving for serving in self._serving.values())
        for serving in self._serving.values():
            serving.discard(uid)
        return self._switch() or was_there

    def on_reboot(self) -> None:
        for serving in self._serving.values():
            serving.clear()
        self._switch()

    def _switch(self) -> bool:
        """The plugin registers or is lost. True when that changed."""
        is_up = not self._is_managed() or bool(self._serving[PLUGIN])
        if is_up == self._is_up:
            return False
        self._is_up = is_up
        if is_up:
            self._offer()
        else:
            moment = asyncio.get_running_loop().time()
            self._gone |= {name: (count, moment) for name, count in self._counts().items()}
        if self.ledger:
            self.ledger.is_offline = not is_up
        return True

    def _offer(self) -> None:
        """The plugin looks at the GPUs anew."""
        before = self._counts()
        self._offered = self.setup
        if self.ledger and self.setup:
            self.ledger.offers = list_offers(self.setup)
        now = self._counts()
        moment = asyncio.get_running_loop().time()
        self._gone |= {name: (count, moment) for name, count in before.items() if name not in now}
        for name in now:
            self._gone.pop(name, None)

    def _is_managed(self) -> bool:
        return f"{DEPLOY}device-plugin" in labels_of(self.node)

    # --- what it shows ---

    def offered(self) -> dict[str, tuple[int, int]]:
        """(capacity, allocatable) of each device resource."""
        if self._offered is None or self.setup is None:
            return {}
        if HARDWARE_ANNOTATION not in annotations_of(self.node):
            return offer_counts(self._offered, self.setup)
        moment = asyncio.get_running_loop().time()
        shown = {
            name: (0, 0)
            for name in (self.node.get("status") or {}).get("capacity") or {}
            if name in (WHOLE_GPU, _SHARED_GPU) or name.startswith(MIG_PREFIX)
        }
        for name, (count, since) in self._gone.items():
            shown[name] = (count if moment - since < self.grace_seconds else 0, 0)
        if self._is_up:
            shown |= offer_counts(self._offered, self.setup)
        return shown

    def _counts(self) -> dict[str, int]:
        counts = offer_counts(self._offered, self._offered) if self._offered else {}
        return {name: count for name, (count, _) in counts.items()}

    def labels(self) -> dict[str, str | None]:
        """None removes one. A node whose hardware is not simulated keeps the labels that it came with."""
        known = labels_of(self.node)
        hardware = self.setup.hardware if self.setup else None
        labels: dict[str, str | None] = dict(labels_for(self.node["metadata"]["name"], hardware))
        if HARDWARE_ANNOTATION not in annotations_of(self.node):
            own = {key: value for key, value in labels.items() if key.startswith("kubernetes.io/")}
            return {key: value for key, value in own.items() if key not in known}
        if self.setup and (not self._is_managed() or self._serving[DISCOVERY]):
            found = discover_features(self.setup)
            labels |= {key: None for key in known if OWNED.match(key) and key not in found}
            labels |= found
        return labels

    def annotations(self) -> Json:
        """What the node agent writes; without one only what the kubelet itself must remember."""
        if not self.setup:
            return {}
        told: Json = {}
        if self.ledger:
            key = HOLDERS_ANNOTATION if self.setup.has_agent else CHECKPOINT_ANNOTATION
            told[key] = self.ledger.to_annotation()
        if self.setup.has_agent and HARDWARE_ANNOTATION in annotations_of(self.node):
            told[MATRIX_ANNOTATION] = matrix_text(self.setup)
        return told

    def holders(self) -> Json:
        assert self.ledger
        assert self.setup
        key = HOLDERS_ANNOTATION if self.setup.has_agent else CHECKPOINT_ANNOTATION
        return {key: self.ledger.to_annotation()}


def offer_counts(offered: Setup, setup: Setup) -> dict[str, tuple[int, int]]:
    """offered: what the plugin saw when it started. setup: what is true now."""
    counts = {}
    for name, units in list_offers(offered).items():
        healthy = sum(1 for unit in units if unit.gpu not in setup.broken)
        sharing = offered.sharing if name == WHOLE_GPU else None
        times = sharing.replicas if sharing else 1
        key = _SHARED_GPU if sharing and sharing.renamed else name
        counts[key] = (len(units) * times, healthy * times)
    return counts


def matrix_text(setup: Setup, observed_at: str = "") -> str:
    seen = {index: cuts for index, cuts in setup.layout.items() if index not in setup.lost}
    mig = matrix_mig(seen, setup.hardware)
    return json.dumps(matrix_of(setup.hardware, setup.broken, observed_at, mig), separators=(",", ":"))


def _private(node: Json) -> dict[str, str]:
    """The simulation's own annotations: all that a setup is read from."""
    return {
        key: text
        for key, text in annotations_of(node).items()
        if key.startswith("sim.gpu.internal/") and key != CHECKPOINT_ANNOTATION
    }
