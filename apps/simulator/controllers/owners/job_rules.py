"""The rules of a Job: which pods count as failed, what a podFailurePolicy says, how long to wait.

Pure: no calls, no clock.
"""

from __future__ import annotations

from typing import Any

from apps.simulator.controllers.objects import condition_of, is_terminating, phase_of

Json = dict[str, Any]

TRACKING = "batch.kubernetes.io/job-tracking"
_BACKOFF_SECONDS = 10.0
_MAX_BACKOFF_SECONDS = 600.0


def is_failed(job: Json, pod: Json) -> bool:
    """By default a terminating pod counts as failed at once and is replaced at once."""
    if phase_of(pod) == "Failed":
        return True
    return is_terminating(pod) and phase_of(pod) != "Succeeded" and not replaces_only_failed(job)


def replaces_only_failed(job: Json) -> bool:
    """podReplacementPolicy Failed; the default as soon as there is a podFailurePolicy."""
    spec = job["spec"]
    policy = spec.get("podReplacementPolicy") or ("Failed" if spec.get("podFailurePolicy") else "")
    return policy == "Failed"


def action_for(job: Json, pod: Json) -> str:
    """Count, Ignore or FailJob: the first rule of the podFailurePolicy that matches."""
    for rule in (job["spec"].get("podFailurePolicy") or {}).get("rules") or []:
        if _matches_codes(rule.get("onExitCodes"), pod) or _matches_conditions(rule, pod):
            return rule["action"]
    return "Count"


def backoff_seconds(failures: int) -> float:
    """Simulated seconds to wait after the given number of failures in a row."""
    if failures <= 0:
        return 0.0
    return min(_BACKOFF_SECONDS * 2 ** (failures - 1), _MAX_BACKOFF_SECONDS)


def is_finished(job: Json) -> bool:
    return any((condition_of(job, kind) or {}).get("status") == "True" for kind in ("Complete", "Failed"))


def wanted_pods(job: Json, succeeded: int, active: int) -> int:
    """How many pods should be active now."""
    spec = job["spec"]
    parallelism = spec.get("parallelism", 1)
    if spec.get("completions") is None:
        # A work queue: after the first success no new pods start.
        return active if succeeded else parallelism
    return max(0, min(parallelism, spec["completions"] - succeeded))


def is_complete(job: Json, succeeded: int, active: int) -> bool:
    completions = job["spec"].get("completions")
    if completions is None:
        return succeeded > 0 and active == 0
    return succeeded >= completions


def _matches_codes(wanted: Json | None, pod: Json) -> bool:
    if not wanted:
        return False
    for status in (pod.get("status") or {}).get("containerStatuses") or []:
        ended = (status.get("state") or {}).get("terminated")
        if not ended or ended["exitCode"] == 0:
            continue
        if wanted.get("containerName") not in (None, status["name"]):
            continue
        if (ended["exitCode"] in wanted["values"]) == (wanted["operator"] == "In"):
            return True
    return False


def _matches_conditions(rule: Json, pod: Json) -> bool:
    for pattern in rule.get("onPodConditions") or []:
        condition = condition_of(pod, pattern["type"])
        if condition and condition["status"] == pattern.get("status", "True"):
            return True
    return False
