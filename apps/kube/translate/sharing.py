"""In which way a node's cards are divided between pods, in one word."""

from __future__ import annotations

import re
from collections.abc import Mapping

from apps.kube.translate.products import Product
from apps.kube.translate.registers import Register
from apps.kube.translate.vendors import Offer

STRATEGY_LABELS = ("nvidia.com/gpu.sharing-strategy", "cloud.google.com/gke-gpu-sharing-strategy")
MIG_STRATEGY_LABEL = re.compile(r"^nvidia\.com/mig-[\w.]+\.sharing-strategy$")
BY_RESOURCE = (
    ("volcano.sh/vgpu", "volcano-vgpu"),
    ("koordinator.sh/", "koordinator"),
    ("kubernetes.io/gpu", "koordinator"),
    ("tke.cloud.tencent.com/qgpu", "qgpu"),
    ("tencent.com/vcuda", "vcuda"),
    ("aliyun.com/gpu-mem", "gpushare"),
    ("alibabacloud.com/gpu-milli", "gpushare"),
    ("k8s.amazonaws.com/vgpu", "mps"),
    ("metax-tech.com/sgpu", "sgpu"),
    ("mthreads.com/sgpu", "sgpu"),
    ("gpu.intel.com/", "shared-dev"),
)
BY_NATURE = ("koordinator", "gpushare", "volcano-vgpu", "sgpu", "qgpu", "vcuda")
"""Ways of sharing in which a card is divisible whatever the number of its units."""


def sharing_of(
    offer: Offer,
    resource: str,
    labels: Mapping[str, str],
    product: Product,
    register: Register | None,
    shares: int,
) -> str:
    """ "" for whole cards."""
    if offer.cards.vendor == "nvidia" and resource.startswith("nvidia.com/"):
        keys = (*STRATEGY_LABELS, *(key for key in sorted(labels) if MIG_STRATEGY_LABEL.match(key)))
        told = next((labels[key] for key in keys if labels.get(key, "none") not in ("", "none")), "")
        if told:
            return told[:40]
        if product.is_shared:
            return "time-slicing"
    if register is not None:
        return register.scheduler if shares > 1 or register.scheduler == "volcano-vgpu" else ""
    if offer.amount("nvidia.com/gpucores") and shares > 1:
        return "hami"
    by_name = _by_resource(offer, resource)
    if by_name in BY_NATURE or (by_name and shares > 1):
        return by_name
    if shares > 1:
        return "time-slicing" if offer.cards.vendor == "nvidia" else "shared"
    return ""


def _by_resource(offer: Offer, resource: str) -> str:
    if offer.amount("nvidia.com/gpu") > 0 and resource == "nvidia.com/gpu":
        return ""
    names = [resource, *sorted(offer.forms)]
    return next(
        (
            word
            for start, word in BY_RESOURCE
            for name in names
            if name.startswith(start) and offer.amount(name)
        ),
        "",
    )
