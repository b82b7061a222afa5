"""PCI device ids by which mig-parted's default configuration tells GPU models apart."""

from __future__ import annotations

from collections.abc import Mapping

from apps.planner.mig.catalogue import MODELS
from apps.planner.mig.models import MigModel

_IDS: Mapping[str, tuple[str, ...]] = {
    "A30-24GB": ("20B7",),
    "A100-40GB": ("20B0", "20B1", "20F1", "20F6"),
    "A100-80GB": ("20B2", "20B5", "20F3", "20F5"),
    "H100-80GB": ("2322", "2324", "2330", "2331"),
    "H100-94GB": ("2321", "233A"),
    "H100-96GB": ("2329", "233D", "2342"),
    "GH200-144GB": ("2348",),
    "H200-141GB": ("2335", "233B"),
    "B200-180GB": ("2901",),
    "GB200-186GB": ("2941",),
    "B300-269GB": ("3182",),
    "GB300-278GB": ("31C2",),
    "RTX-PRO-6000-Blackwell-96GB": ("2BB5",),
}
_BY_ID = {f"0X{number}10DE": MODELS[name] for name, numbers in _IDS.items() for number in numbers}


def model_of_device(pci_id: str) -> MigModel | None:
    """pci_id: as a device-filter writes it ("0x20B210DE"); None where it is not known."""
    return _BY_ID.get(pci_id.strip().upper())


def ids_of_model(model: MigModel) -> frozenset[str]:
    """Every PCI id that cards of this model are known by, as a device-filter writes it, in capitals."""
    return frozenset(f"0X{number}10DE" for number in _IDS.get(model.name, ()))
