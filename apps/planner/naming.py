"""What a GPU model is called in sentences and headings. Pure text."""

from __future__ import annotations

PRODUCT_LABELS = (
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "accelerator/huawei-npu-type",
    "cloud.google.com/gke-accelerator",
    "gpu.intel.com/product",
    "gpu.nvidia.com/class",
    "alibabacloud.com/gpu-card-model",
)
"""Node labels that tell the model, the most exact first; pods choose a model by them."""


def shown_model(model: str) -> str:
    """Without the vendor's name in front: "A100-SXM4-80GB" for "NVIDIA-A100-SXM4-80GB"."""
    return model.removeprefix("NVIDIA-")


def family_of(model: str) -> str:
    """The one word people use: "A100"; "" if the model is not known."""
    return shown_model(model).partition("-")[0]
