"""The small signs beside words, and the chips that carry a state: shape, word and tint together."""

from __future__ import annotations

from django.utils.safestring import SafeString, mark_safe

from apps.dashboard.reading.marks import Mark
from apps.dashboard.reading.plain import shown

SIGN_OF_TONE = {"ok": "ok", "info": "half", "warn": "tri", "bad": "oct", "": "ring"}


def sign(name: str, extra: str = "") -> SafeString:
    """name: id of a symbol in templates/console/symbols.svg."""
    return mark_safe(
        f'<svg class="i {extra}" viewBox="0 0 16 16" aria-hidden="true"><use href="#{name}"/></svg>'
    )


def chip(word: str, tone: str = "", symbol: str = "") -> SafeString:
    return mark_safe(f'<span class="chip {tone}">{sign(symbol or SIGN_OF_TONE[tone])}{shown(word)}</span>')


def tag(mark: Mark | None) -> SafeString:
    """The workload's code on its hue; nothing for a pod without a mark."""
    return mark_safe(f'<span class="tag b{mark.hue}">{shown(mark.code)}</span>' if mark else "")
