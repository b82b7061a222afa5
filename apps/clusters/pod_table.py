"""What `read_dump` answers about pods, claims and groups, as lines for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

POD_HEADS = ("POD", "NODE", "PHASE", "ASKS", "SHARE", "GIVEN", "HOLDS")
MOST_DEVICES = 4


def pod_rows(answer: dict[str, Any]) -> list[tuple[str, ...]]:
    """With the heads; empty without pods that have to do with devices."""
    rows = [_row(pod) for pod in answer["pods"] if _is_of_devices(pod)]
    return [POD_HEADS, *rows] if rows else []


def lines_beside(answer: dict[str, Any]) -> Iterator[str]:
    """Warnings of pods, then what claims, slices and groups tell."""
    for pod in answer["pods"]:
        yield from (f"{_name(pod)}: {text}" for text in pod["warnings"])
    others = sum(1 for pod in answer["pods"] if not _is_of_devices(pod))
    if others:
        yield f"{others} {'pod asks' if others == 1 else 'pods ask'} for no devices"
    for pool in answer.get("pools", ()):
        yield pool["problem"] or _pool_line(pool)
    for workload in answer.get("workloads", ()):
        count = workload["devices_per_pod"]
        told = "an unknown number of" if count is None else count
        yield (
            f"{workload['kind']} {workload['namespace']}/{workload['name']}: {workload['replicas']} pods, "
            f"each with {told} devices by claims"
        )
    for claim in answer.get("claims", ()):
        given = ", ".join(one["device"] for one in claim["allocated"]) or "nothing yet"
        yield f"claim {claim['key']}: {claim['asks']}; given {given}, {len(claim['reserved_for'])} users"
    for group in answer.get("groups", ()):
        yield f"gang {group['key']}: needs {group['min']}, has {group['pods']} pods"
    for company in answer.get("companies", ()):
        name = f"{company['kind']} {company['namespace']}/{company['group']}"
        note = f"; {company['note']}" if "note" in company else ""
        yield f"{name}: {company['gpus_running']} GPUs run, {company['gpus_pending']} wait{note}"


def _is_of_devices(pod: dict[str, Any]) -> bool:
    return bool(
        pod["effective"]
        or pod["devices"]
        or pod["card_share"]
        or pod["gpu_memory_mib"]
        or pod.get("wants_by_claims")
    )


def _name(pod: dict[str, Any]) -> str:
    return "/".join(filter(None, (pod["namespace"], pod["name"])))


def _row(pod: dict[str, Any]) -> tuple[str, ...]:
    asks = [f"{amount} {name}" for name, amount in pod["effective"].items()]
    asks += [
        f"{amount} {name} (annotation)" for name, amount in pod.get("effective_by_annotation", {}).items()
    ]
    asks += pod.get("wants_by_claims", ())
    share = [f"{pod['card_share']:g} of a card"] if pod["card_share"] else []
    share += [f"{pod['gpu_memory_mib']} MiB"] if pod["gpu_memory_mib"] else []
    given = [_device(one) for one in pod["devices"][:MOST_DEVICES]]
    given += ["…"] if len(pod["devices"]) > MOST_DEVICES else []
    held = "a part, unknown" if pod["holds_gpu"] is None else f"{pod['holds_gpu']:g}"
    holds = "a placeholder" if pod["is_reservation"] else held
    return (
        _name(pod),
        pod["node"] or "-",
        (pod["phase"] or "unknown") + (", terminating" if pod["terminating"] else ""),
        ", ".join(asks) or "-",
        ", ".join(share) or "-",
        ", ".join(dict.fromkeys(given)) or "-",
        holds,
    )


def _device(one: dict[str, Any]) -> str:
    number = f"number {one['index']}" if one["index"] is not None else ""
    name = one["uuid"] or number or one.get("part") or "an unnamed device"
    return f"{name} ({one['profile']})" if one["profile"] else str(name)


def _pool_line(pool: dict[str, Any]) -> str:
    memory = f", {pool['memory_mib']} MiB" if pool["memory_mib"] else ""
    cards = pool["physical_gpus"]
    return f"pool {pool['pool']} of {pool['driver']}: {cards} {'GPU' if cards == 1 else 'GPUs'}{memory}"
