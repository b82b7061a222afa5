"""Looks at the node again and again; writes its two annotations when they changed, or have grown old.

Each half stands alone: without the driver the holders are still told, without the kubelet the matrix is. What
cannot be seen is not written, so its `observed_at` grows old, which the console shows.
"""

from __future__ import annotations

import json
import logging
import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from apps.node_agent.api_server import ApiError, ApiServer
from apps.node_agent.devices import Device, DriverUnreachable, recall
from apps.node_agent.holders import HOLDERS, build_holders, steady_pods
from apps.node_agent.matrix import MATRIX, Links, build_matrix, read_links
from apps.node_agent.nvml import read_driver
from apps.node_agent.pod_resources import KubeletUnreachable, read_grants

log = logging.getLogger("node_agent")
LARGEST = 256 * 1024
"""What Kubernetes allows for all annotations of an object together."""
LONGEST_PAUSE = 300.0
MIG_STATE = "nvidia.com/mig.config.state"
MIG_AT_WORK = ("pending", "rebooting")


@dataclass(frozen=True, slots=True)
class Places:
    socket: Path = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
    nvidia_smi: Path = Path("/usr/bin/nvidia-smi")
    sys: Path = Path("/sys")


@dataclass(slots=True)
class Sight:
    """What one look saw. documents: by annotation; one that could not be made is missing."""

    node: Mapping[str, Any]
    documents: dict[str, dict[str, Any]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


class Agent:
    """every: seconds between two looks. refresh: after how many unchanged annotations are written
    again."""

    def __init__(
        self,
        api: ApiServer,
        places: Places,
        *,
        every: float = 30.0,
        refresh: float = 300.0,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.api, self.places, self.clock = api, places, clock
        self.every, self.refresh = every, refresh
        self.devices: tuple[Device, ...] = ()
        self._links: tuple[object, Links] | None = None
        self._written: dict[str, Any] = {}
        self._written_at: datetime | None = None
        self._said: set[str] = set()

    def run(self, stop: threading.Event) -> None:
        """Until told to stop. Raises DriverUnreachable if only a new container can help."""
        failures = 0
        while not stop.is_set():
            try:
                self.step()
                failures = 0
            except ApiError as error:
                failures += 1
                log.error("%s", error)
            pause = min(self.every * 2 ** min(failures, 10), max(self.every, LONGEST_PAUSE))
            stop.wait(pause * random.uniform(0.8, 1.2))  # not all nodes at once

    def step(self) -> bool:
        """One look; whether something was written. Raises ApiError."""
        sight = self.look()
        self._say(sight.problems)
        fresh = {name: _without_time(document) for name, document in sight.documents.items()}
        age = (self.clock() - self._written_at).total_seconds() if self._written_at else None
        if age is not None and 0 <= age < self.refresh and fresh == self._written:
            return False
        annotations = self._fitting(sight)
        if annotations:
            self.api.patch_annotations(sight.node["metadata"]["uid"], annotations)
            log.info("wrote %s", " and ".join(annotations))
        self._written, self._written_at = fresh, self.clock()
        return bool(annotations)

    def look(self) -> Sight:
        """Raises ApiError; a DriverUnreachable that a new container cures."""
        sight = Sight(self.api.get_node())
        moment = self.clock().strftime("%Y-%m-%dT%H:%M:%SZ")
        state = (sight.node["metadata"].get("labels") or {}).get(MIG_STATE)
        if state in MIG_AT_WORK:
            sight.problems.append(
                f"{MIG_STATE} is {state}: the driver is left alone, {MATRIX} is not written"
            )
        else:
            self._look_at_driver(sight, moment)
        self._look_at_kubelet(sight, moment)
        return sight

    def _look_at_driver(self, sight: Sight, moment: str) -> None:
        try:
            driver = read_driver()
        except DriverUnreachable as error:
            if error.needs_restart:
                raise
            sight.problems.append(f"{error} {MATRIX} is not written")
            return
        self.devices = recall(driver.devices, self.devices)
        sight.problems += driver.problems
        if not self.devices:
            sight.problems.append(f"the driver shows no GPU: {MATRIX} is not written")
            return
        state = [(one.uuid, one.healthy, bool(one.instances)) for one in self.devices]
        if self._links is None or self._links[0] != state or self._is_due():
            self._links = (state, read_links(self.places.nvidia_smi, driver))
        links = self._links[1]
        if links.problem:
            sight.problems.append(links.problem)
        sight.documents[MATRIX] = build_matrix(self.devices, links, sys=self.places.sys, observed_at=moment)

    def _look_at_kubelet(self, sight: Sight, moment: str) -> None:
        before = {(pod.namespace, pod.name): pod.uid for pod in self.api.list_pods()}
        try:
            grants = read_grants(self.places.socket)
        except KubeletUnreachable as error:
            sight.problems.append(f"{error} {HOLDERS} is not written")
            return
        pods = steady_pods(before, self.api.list_pods() if grants.given else ())
        found = build_holders(grants, pods, self.devices, observed_at=moment)
        sight.problems += found.problems
        sight.documents[HOLDERS] = found.document

    def _is_due(self) -> bool:
        age = (self.clock() - self._written_at).total_seconds() if self._written_at else self.refresh
        return not 0 <= age < self.refresh

    def _fitting(self, sight: Sight) -> dict[str, str]:
        """The annotations as text, without what would make the Node's annotations too large together."""
        others = sight.node["metadata"].get("annotations") or {}
        told = {name: value for name, value in others.items() if name not in sight.documents}
        size = sum(len(name.encode()) + len(value.encode()) for name, value in told.items())
        found: dict[str, str] = {}
        for name, document in sight.documents.items():
            text = to_text(document)
            length = len(name.encode()) + len(text.encode())
            if size + length > LARGEST:
                log.error(
                    "%s is not written: with its %d bytes the Node's annotations would be larger than %d",
                    *(name, length, LARGEST),
                )
                continue
            size += length
            found[name] = text
        return found

    def _say(self, problems: list[str]) -> None:
        """Each problem once, until it went away."""
        for sentence in problems:
            if sentence not in self._said:
                log.warning("%s", sentence)
        self._said = set(problems)


def to_text(document: Mapping[str, Any]) -> str:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


def _without_time(document: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name != "observed_at"}
