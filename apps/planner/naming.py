"""What a GPU model is called in sentences and headings. Pure text."""

from __future__ import annotations


def shown_model(model: str) -> str:
    """Without the vendor's name in front: "A100-SXM4-80GB" for "NVIDIA-A100-SXM4-80GB"."""
    return model.removeprefix("NVIDIA-")


def family_of(model: str) -> str:
    """The one word people use: "A100"; "" if the model is not known."""
    return shown_model(model).partition("-")[0]
