"""Finds the device of a node that a pod's annotation, a claim or an exporter names, by UUID or by number."""

from __future__ import annotations

from apps.planner.inventory import Gpu, HeldDevice, MigInstance, Node
from apps.planner.ledger_devices import part_of_profile
from apps.planner.mig.models import MigModel
from apps.planner.mig.use import model_of
from apps.planner.shares import WHOLE

Found = tuple[str, int | None, int | None]
"""Device as holdings name it; its share in milli-GPU (None: no share of the cores is set); memory in MiB."""
MAIN = "main"


class Places:
    """The devices of one node by all their names."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._kinds: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._instances: dict[str, Gpu] = {}
        for gpu in node.gpus:
            self._note(gpu, MAIN, f"GPU {gpu.index}")
            for one in gpu.instances:
                if one.uuid:
                    self._instances[one.uuid] = gpu
                    self._kinds[one.uuid] = MAIN
                    self._names[one.uuid] = f"the instance {one.profile} of GPU {gpu.index}"
        for group in node.others:
            for gpu in group.gpus:
                self._note(gpu, group.resource, f"device {gpu.index} of {group.resource}")
        self._folded = {key.lower(): key for key in self._kinds}
        self.has_uuids = any(not key.startswith("#") for key in self._kinds)

    def _note(self, gpu: Gpu, kind: str, name: str) -> None:
        self._kinds.setdefault(gpu.key, kind)
        self._names.setdefault(gpu.key, name)

    def key_of(self, uuid: str) -> str | None:
        return uuid if uuid in self._kinds else self._folded.get(uuid.lower())

    def kind_of(self, device: str) -> str:
        """Which of the node's kinds of devices it is; "" for one that the node does not have."""
        return self._kinds.get(device, "")

    def name_of(self, device: str) -> str:
        return self._names.get(device, device)

    def find(self, held: HeldDevice) -> Found | None:
        """None where the node has no such device, or nobody tells which of them it is."""
        key = self._key_by_any_name(held)
        if key is None:
            return None
        if key in self._instances:
            return key, WHOLE, held.memory_mib
        if held.profile:
            return self._find_cut(key, held)
        if held.milli is None:
            return key, None if held.memory_mib is not None else WHOLE, held.memory_mib
        return key, min(held.milli, WHOLE), held.memory_mib

    def _key_by_any_name(self, held: HeldDevice) -> str | None:
        if held.uuid:
            found = self.key_of(held.uuid)
            if found is not None or held.index is None or self.has_uuids:
                return found
        if held.index is None:
            return None
        group = next(
            (one for one in self.node.others if held.resource and one.resource == held.resource), None
        )
        gpus = group.gpus if group else self.node.gpus
        return next((gpu.key for gpu in gpus if gpu.index == held.index), None)

    def _find_cut(self, key: str, held: HeldDevice) -> Found:
        """A MIG instance named by its parent: the one that stands there, else its part of the parent."""
        gpu = next((one for one in self.node.gpus if one.key == key), None)
        instance = _instance_at(gpu, held) if gpu is not None else None
        if instance is not None:
            return instance.uuid, WHOLE, held.memory_mib
        model = model_of(self.node)[0]
        memory = held.memory_mib
        if memory is None and gpu is not None:
            memory = _memory_of(held.profile, gpu, model)
        return key, int(part_of_profile(held.profile, model)), memory


def _instance_at(gpu: Gpu, held: HeldDevice) -> MigInstance | None:
    same = [one for one in gpu.instances if one.uuid and one.profile == held.profile]
    if held.start_slice is not None:
        return next((one for one in same if one.start_slice == held.start_slice), None)
    return same[0] if len(same) == 1 else None


def _memory_of(profile: str, gpu: Gpu, model: MigModel | None) -> int | None:
    known = model.by_name.get(profile) if model else None
    if known is None or model is None or gpu.memory_mib is None:
        return None
    return gpu.memory_mib * known.memory_slices // model.axis
