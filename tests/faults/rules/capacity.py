"""Room, gangs, and what counts as landed: rules 13 to 17."""

from __future__ import annotations

from datetime import UTC, datetime

from tests.faults.records import Call, Records, StepRow
from tests.faults.rules.reading import HELD, Violations, approved_pods, find_evictions, find_writes


def invariant_13_all_destinations_are_held_before_the_first_eviction(records: Records) -> Violations:
    for execution in records.executions:
        steps, events = records.of(execution)
        kinds = {step.id: step.kind for step in steps}
        held: set[int] = set()
        wanted = {step.id for step in steps if step.kind in ("hold_target", "hold_node")}
        for event in events:
            if event.state == "verified" and event.step in wanted:
                held.add(event.step)
            is_first = event.effect == "evict" and kinds.get(event.step) == "evict_pod"
            if event.state == "intent" and is_first and wanted - held:
                yield f"execution {execution.id} evicted while {len(wanted - held)} targets were not held"
                return


def invariant_14_no_member_of_a_gang_is_let_in_alone(records: Records) -> Violations:
    """No pod is let onto a kept node before all nodes of the hand-over are kept."""
    for execution in records.executions:
        steps, events = records.of(execution)
        shared = [step for step in steps if step.kind == "hand_over" and step.state != "superseded"]
        missing = {step.params["node"] for step in shared if step.params.get("is_cordoned")}
        spaces = {space for step in shared for space in step.params.get("namespaces", ())}
        values = {step.params["taint"] for step in shared if "taint" in step.params}
        began, ended = (events[0].at, events[-1].at) if events else (0.0, 0.0)
        for call in find_writes(records) if len(shared) > 1 else []:
            if not began <= call.at <= ended:
                continue
            if call.kind == "nodes" and _names_held(call, "taints", values):
                missing.discard(call.name)
            if call.kind == "pods" and call.namespace in spaces and _names_held(call, "tolerations", values):
                if missing:
                    yield f"{call.path} was let in while {', '.join(sorted(missing))} was not kept"
                return


def _names_held(call: Call, key: str, values: set[str]) -> bool:
    """values: of the taints of hand-overs; a target that is held for moves has another."""
    named = [one.get("value") for one in call.spec.get(key) or [] if one.get("key") == HELD]
    return any(value in values for value in named) if values else bool(named)


def invariant_17_a_replacement_is_what_it_was_taken_for(records: Records) -> Violations:
    pods = {pod["metadata"]["uid"]: pod for pod in records.pods}
    moved = set(approved_pods(records))
    for step in records.steps:
        replacement = step.seen.get("replacement", "")
        if step.kind != "await_replacement" or step.state != "verified" or not replacement:
            continue
        if replacement == step.params.get("uid"):
            yield f"the replacement of {step.params['pod']} is the old pod"
        pod = pods.get(replacement)
        if pod is None or replacement in moved:
            continue
        owners = {one["uid"] for one in pod["metadata"].get("ownerReferences") or [] if one.get("controller")}
        if owners != {step.params["workload_uid"]}:
            yield f"{pod['metadata']['name']} is of another owner than {step.params['pod']}"
        if pod["spec"].get("nodeName") != step.params["target"]:
            yield f"{pod['metadata']['name']} is not on {step.params['target']}"
        if pod["metadata"]["creationTimestamp"] < _evicted_at(records, step):
            yield f"{pod['metadata']['name']} is older than the eviction of {step.params['pod']}"


def _evicted_at(records: Records, step: StepRow) -> str:
    """Second of the first eviction of the move, as the cluster writes times."""
    moved = [
        call.at for call in find_evictions(records) if call.uid == step.params.get("uid") and call.was_taken
    ]
    return f"{datetime.fromtimestamp(int(min(moved)), UTC):%Y-%m-%dT%H:%M:%SZ}" if moved else ""
