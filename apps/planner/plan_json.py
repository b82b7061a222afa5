"""A plan as JSON, the same way back, and the digest that an approval binds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from apps.planner.plan import (
    Alternative,
    Goal,
    HandOver,
    Lowering,
    Move,
    NamedLayout,
    Plan,
    Preemption,
    Reconfiguration,
    Refusal,
    Waiver,
)


def plan_to_dict(plan: Plan) -> dict[str, Any]:
    """Plain JSON values; `plan_from_dict` gives the equal plan back."""
    return {
        "goal": str(plan.goal),
        "moves": [asdict(move) for move in plan.moves],
        "freed_nodes": list(plan.freed_nodes),
        "unlocked": list(plan.unlocked),
        "unlocked_gpus": plan.unlocked_gpus,
        "hand_overs": [asdict(one) for one in plan.hand_overs],
        "reconfigurations": [_cut_to_dict(one) for one in plan.reconfigurations],
        "cost": plan.cost,
        "lower_bound": plan.lower_bound,
        "gap": plan.gap,
        "proven_optimal": plan.proven_optimal,
        "relaxed": list(plan.relaxed),
        "refused": [asdict(one) for one in plan.refused],
        "sentence": plan.sentence,
        "measures": dict(plan.measures),
        "waivers": [{**asdict(one), "protections": list(one.protections)} for one in plan.waivers],
        "preemptions": [asdict(one) for one in plan.preemptions],
        "runner_up": _alternative_to_dict(plan.runner_up),
        "layouts": [{**asdict(one), "nodes": list(one.nodes)} for one in plan.layouts],
        "lowerings": [_lists(asdict(one)) for one in plan.lowerings],
    }


def plan_from_dict(data: Mapping[str, Any]) -> Plan:
    """Raises KeyError or TypeError when the data is not a plan of ours. Older bodies know neither
    preemptions nor a runner-up nor layouts nor lowerings."""
    return Plan(
        goal=Goal(data["goal"]),
        moves=tuple(Move(**move) for move in data["moves"]),
        freed_nodes=tuple(data["freed_nodes"]),
        unlocked=tuple(data["unlocked"]),
        unlocked_gpus=data["unlocked_gpus"],
        hand_overs=tuple(HandOver(**one) for one in data["hand_overs"]),
        reconfigurations=tuple(_cut_from_dict(one) for one in data["reconfigurations"]),
        cost=data["cost"],
        lower_bound=data["lower_bound"],
        gap=data["gap"],
        proven_optimal=data["proven_optimal"],
        relaxed=tuple(data["relaxed"]),
        refused=tuple(Refusal(**one) for one in data["refused"]),
        sentence=data["sentence"],
        measures=dict(data["measures"]),
        waivers=tuple(waiver_from_dict(one) for one in data.get("waivers", ())),
        preemptions=tuple(Preemption(**one) for one in data.get("preemptions", ())),
        runner_up=_alternative_from_dict(data.get("runner_up")),
        layouts=tuple(
            NamedLayout(**{**one, "nodes": tuple(one["nodes"])}) for one in data.get("layouts", ())
        ),
        lowerings=tuple(_lowering_from_dict(one) for one in data.get("lowerings", ())),
    )


def plan_to_answer(plan: Plan, seconds: float) -> dict[str, Any]:
    """As the `make_plan` command answers; the keys are a promise. seconds: how long it took."""
    answer = plan_to_dict(plan)
    answer["moves"] = [
        {**{name: value for name, value in move.items() if name != "pod_uid"}, "uid": move["pod_uid"]}
        for move in answer["moves"]
    ]
    return {**answer, "seconds": round(seconds, 3)}


def waiver_from_dict(data: Mapping[str, Any]) -> Waiver:
    return Waiver(**{**data, "protections": tuple(data["protections"])})


def _lists(facts: Mapping[str, Any]) -> dict[str, Any]:
    """As JSON gives it back."""
    return {name: list(value) if isinstance(value, tuple) else value for name, value in facts.items()}


def _lowering_from_dict(data: Mapping[str, Any]) -> Lowering:
    many = {name: tuple(data[name]) for name in ("pods", "pod_uids", "nodes")}
    return Lowering(**{**data, **many})


def _alternative_to_dict(one: Alternative | None) -> dict[str, Any] | None:
    return None if one is None else {**asdict(one), "nodes": list(one.nodes)}


def _alternative_from_dict(data: Mapping[str, Any] | None) -> Alternative | None:
    return None if data is None else Alternative(**{**data, "nodes": tuple(data["nodes"])})


def _cut_to_dict(one: Reconfiguration) -> dict[str, Any]:
    """`from` and `to` are the promised keys; Python has a word of its own for the first."""
    facts = asdict(one)
    before, after = facts.pop("before"), facts.pop("after")
    return {**facts, "from": before, "to": after}


def _cut_from_dict(data: Mapping[str, Any]) -> Reconfiguration:
    facts = dict(data)
    return Reconfiguration(before=facts.pop("from"), after=facts.pop("to"), **facts)


def digest(data: Mapping[str, Any]) -> str:
    """sha256 (hex) of the canonical JSON: sorted keys, no spaces, UTF-8, no NaN."""
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
