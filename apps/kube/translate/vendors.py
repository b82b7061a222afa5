"""Which cards a resource name of a node stands for, and in what form: whole, shared, cut or as a part.

Two names may stand for one card (`nvidia.com/gpu` and `nvidia.com/gpu.shared`): they meet in one `Cards`.
How many of them there are is `counting`'s part.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from apps.planner.mig.nodes import MIG_PREFIX
from apps.planner.resources import PARTS_OF_DEVICES, VENDORS, is_device_resource


class Form(StrEnum):
    """What one unit of a resource is. PARTITION: a piece of a card of fixed size, cut by its vendor's tool.
    PART: memory, cores or per cent of cards, over all of them."""

    WHOLE = "whole"
    SHARE = "share"
    MIG = "mig"
    PARTITION = "partition"
    PART = "part"


@dataclass(frozen=True, slots=True)
class Cards:
    """One kind of card on a node. kind: "" unless the vendor's resources tell chips or drivers apart."""

    vendor: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Meaning:
    cards: Cards
    form: Form


NVIDIA = Cards("nvidia")
VENDORS_BY_DOMAIN = {
    **VENDORS,
    "volcano.sh": "nvidia",
    "k8s.amazonaws.com": "nvidia",
    "aliyun.com": "nvidia",
    "alibabacloud.com": "nvidia",
    "koordinator.sh": "nvidia",
    "kubernetes.io": "nvidia",
    "tke.cloud.tencent.com": "nvidia",
    "tencent.com": "nvidia",
    "aws.amazon.com": "aws",
    "google.com": "google",
    "qualcomm.com": "qualcomm",
    "baidu.com": "kunlun",
    "metax.com": "metax",
}
"""Who makes the cards behind a domain. Plugins of these clouds and schedulers deal out NVIDIA's cards,
unless the node says otherwise (`KOORDINATOR_VENDOR`)."""
KOORDINATOR = ("koordinator.sh/", "kubernetes.io/")
KOORDINATOR_VENDOR = "node.koordinator.sh/gpu-vendor"
SPOKEN_VENDORS = {"huawei": "ascend", "kunlunxin": "kunlun", "moorethreads": "mthreads"}
SHARES = re.compile(
    r"(^|[.-])v?(gpu[.-]shared?|vgpu|vgpu-number|sgpu|vmlu|mlu\.share|drs-gcu|vgcu|shared-gcu|vxpu)$"
)
PARTITIONS = re.compile(
    r"^(?:[sdtqc]px_nps\d|(?:.+\.)?mim-.+|.+-\d+c(?:\.\d+cpu.*)?|.+-vir\d+.*|dcu-(?:share|mig)-.+)$"
)
PARTS_BY_THEMSELVES = re.compile(
    r"^(?:koordinator\.sh/|kubernetes\.io/gpu-?|(?:tke\.cloud\.)?tencent\.com/(?:qgpu|vcuda)-core$|aliyun\.com/gpu-|alibabacloud\.com/gpu-|volcano\.sh/vgpu-|hygon\.com/dcucores$"
    r"|metax-tech\.com/vcore$|mthreads\.com/sgpu-core$|.+\.v[cC]ore$)"
)
ASCEND_CHIP = re.compile(r"^(.+?)(?:-(?:memory|core|\d+c(?:\..+)?))?$")
ILUVATAR_CHIP = re.compile(r"^(.+?)(?:-vgpu|\.vmem|\.vcore)$")


@lru_cache(maxsize=4096)
def meaning_of(resource: str) -> Meaning | None:
    """None for what is no accelerator. Koordinator's and unknown vendors' names are read as they come."""
    if not is_device_resource(resource):
        return None
    domain, _, short = resource.lower().partition("/")
    vendor = VENDORS_BY_DOMAIN.get(domain, domain)
    form = _form_of(resource.lower(), domain, short)
    return Meaning(Cards(vendor, _kind_of(vendor, domain, short, form)), form)


def _form_of(resource: str, domain: str, short: str) -> Form:
    if resource.startswith(MIG_PREFIX):
        return Form.MIG
    if PARTITIONS.match(short) and domain in VENDORS:
        return Form.PARTITION
    if any(word in short for word in PARTS_OF_DEVICES) or "millicores" in short:
        return Form.PART
    if resource in ("koordinator.sh/gpu", "kubernetes.io/gpu") or SHARES.search(short):
        return Form.SHARE
    return Form.WHOLE


def _kind_of(vendor: str, domain: str, short: str, form: Form) -> str:
    if vendor == "ascend" and (found := ASCEND_CHIP.match(short)):
        return found[1]
    if vendor == "iluvatar" and (found := ILUVATAR_CHIP.match(short)):
        return found[1]
    if vendor == "intel":
        return short if short in ("i915", "xe") else ""
    if domain == "nvidia.com":
        return "" if short in ("gpu", "gpu.shared") or form in (Form.MIG, Form.PART) else short
    if domain not in VENDORS_BY_DOMAIN and form is not Form.PART:
        return short
    return ""


def tells_of_cards(name: str) -> bool:
    """Whether a part of cards is only offered where cards are, and is asked for by itself."""
    return PARTS_BY_THEMSELVES.match(name) is not None


@dataclass(frozen=True, slots=True)
class Offer:
    """All names under which one kind of card is offered. units, offered: what the node has of each
    name, and what it hands out of it."""

    cards: Cards
    forms: Mapping[str, Form]
    units: Mapping[str, int]
    offered: Mapping[str, int]

    def named(self, *forms: Form) -> list[str]:
        return [name for name in sorted(self.forms) if self.forms[name] in forms]

    def amount(self, name: str) -> int:
        return self.units.get(name, 0)

    @property
    def main(self) -> str:
        """The name by which a pod asks for these cards: the first that is handed out, whole before shared. A
        name that only the capacity still has may be left over from another way of sharing."""
        names = [
            name
            for form in (Form.WHOLE, Form.SHARE, Form.PARTITION)
            for name in sorted(self.named(form), key=lambda name: (name != "nvidia.com/gpu", name))
        ]
        names = names or [name for name in self.named(Form.PART) if tells_of_cards(name)]
        handed_out = [name for name in names if self.offered.get(name, 0) > 0]
        standing = [name for name in names if self.amount(name) > 0]
        return next(iter([*handed_out, *standing, *names]), "")


def offers_of(
    capacity: Mapping[str, int], allocatable: Mapping[str, int], labels: Mapping[str, str]
) -> list[Offer]:
    """What a node offers, NVIDIA's first, then by vendor and kind."""
    forms: dict[Cards, dict[str, Form]] = {}
    for name in {**capacity, **allocatable}:
        meaning = meaning_of(name)
        if meaning is not None:
            forms.setdefault(_cards_of(name, meaning, labels), {})[name] = meaning.form
    _join_parts(forms)
    return [
        Offer(cards, names, _pick(capacity, names), _pick(allocatable, names))
        for cards, names in sorted(forms.items(), key=lambda entry: _rank(entry[0]))
        if any(form is not Form.PART or tells_of_cards(name) for name, form in names.items())
    ]


def _cards_of(name: str, meaning: Meaning, labels: Mapping[str, str]) -> Cards:
    if name.startswith(KOORDINATOR) and (told := labels.get(KOORDINATOR_VENDOR, "").lower()):
        return Cards(SPOKEN_VENDORS.get(told, told)[:40])
    return meaning.cards


def _join_parts(forms: dict[Cards, dict[str, Form]]) -> None:
    """Memory or cores of a vendor without a kind belong to its only kind; so do Koordinator's names."""
    for cards in [one for one in forms if not one.kind]:
        kinds = [one for one in forms if one.vendor == cards.vendor and one.kind]
        only_parts = all(form is Form.PART for form in forms[cards].values())
        koordinators = all(name.startswith(KOORDINATOR) for name in forms[cards])
        if koordinators and not kinds:
            # It names no vendor on the node: it deals out the cards that another plugin offers there.
            kinds = [one for one in forms if one != cards]
        if len(kinds) == 1 and (only_parts or koordinators):
            forms[kinds[0]].update(forms.pop(cards))


def _pick(amounts: Mapping[str, int], names: Iterable[str]) -> dict[str, int]:
    return {name: amounts[name] for name in names if name in amounts}


def _rank(cards: Cards) -> tuple[bool, bool, str, str]:
    known = cards.vendor in VENDORS_BY_DOMAIN.values()
    return cards.vendor != "nvidia", not known, cards.vendor, cards.kind
