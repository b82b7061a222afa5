"""Pods in which another scheduler has a say: planned and shown, refused until an adapter is proved."""

from __future__ import annotations

from collections.abc import Iterator

from apps.executions.checks.looking import Look, Objection
from apps.executions.other_schedulers.refusing import refuse_others


def check_other_schedulers(look: Look) -> Iterator[Objection]:
    for uid, sentence in refuse_others(look.plan, look.picture, look.gateway).items():
        yield Objection(sentence, uid)
