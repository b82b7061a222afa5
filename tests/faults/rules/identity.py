"""Who is touched: rules 1 to 6."""

from __future__ import annotations

from tests.faults.records import OWN_NAMESPACE, Records
from tests.faults.rules.reading import Violations, approved_pods, find_evictions, find_writes, pinned_before


def invariant_01_every_eviction_carries_the_approved_uid(records: Records) -> Violations:
    approved = approved_pods(records)
    for call in find_evictions(records):
        if call.uid not in approved and call.uid not in pinned_before(records, call.at):
            yield f"{call.path} was asked for with UID {call.uid or 'none'}, which nobody approved"


def invariant_02_every_node_write_names_uid_and_version(records: Records) -> Violations:
    known = {name: uid for one in records.executions for name, uid in one.nodes.items() if uid}
    for call in find_writes(records, "nodes"):
        version = (call.body.get("metadata") or {}).get("resourceVersion")
        if not version or not call.uid or known.get(call.name, call.uid) != call.uid:
            yield f"{call.method} {call.path} is guarded by UID {call.uid or 'none'}, version {version}"


def invariant_03_only_approved_pods_are_evicted(records: Records) -> Violations:
    approved = approved_pods(records)
    for call in find_evictions(records):
        named = approved.get(call.uid, f"{call.namespace}/{call.name}")
        if call.was_taken and (
            named != f"{call.namespace}/{call.name}"
            or (call.uid not in approved and call.uid not in pinned_before(records, call.at))
        ):
            yield f"{call.namespace}/{call.name} was evicted and is not in any approved plan"


def invariant_04_no_workload_pod_is_deleted_or_forced(records: Records) -> Violations:
    for call in find_writes(records):
        if call.method == "DELETE" and call.kind == "pods" and call.namespace != OWN_NAMESPACE:
            yield f"DELETE {call.path}: a workload's pod"
        if call.method == "DELETE" and not call.uid:
            yield f"DELETE {call.path} names no UID"
        if call.is_eviction and "gracePeriodSeconds" in (call.body.get("deleteOptions") or {}):
            yield f"{call.path} has a grace period of ours"


def invariant_05_protected_pods_are_left_alone(records: Records) -> Violations:
    moved = {f"{call.namespace}/{call.name}" for call in find_evictions(records)}
    for execution in records.executions:
        for pod in execution.protected:
            if pod in moved:
                yield f"{pod} is protected without a waiver for execution {execution.id}, and was evicted"


def invariant_06_nothing_outside_the_plan_is_written(records: Records) -> Violations:
    nodes = {name for one in records.executions for name in one.nodes}
    spaces = {space for one in records.executions for space in one.namespaces} | {OWN_NAMESPACE}
    for call in find_writes(records):
        if call.kind == "nodes" and call.name not in nodes:
            yield f"{call.method} {call.path}: no plan has that node"
        if call.kind == "pods" and call.namespace not in spaces:
            yield f"{call.method} {call.path}: no plan has that namespace"
