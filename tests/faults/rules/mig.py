"""Layouts: rules 24 to 28."""

from __future__ import annotations

from tests.faults.records import Records
from tests.faults.rules.reading import CONFIG, FINISHED, Violations, find_intents, find_relabels, find_writes


def invariant_24_no_relabel_without_a_list_after_the_cordon(records: Records) -> Violations:
    for call in find_relabels(records):
        before = [other for other in records.calls if other.at < call.at]
        cordons = [
            one.at
            for one in before
            if one.is_real and one.kind == "nodes" and one.name == call.name and one.spec.get("unschedulable")
        ]
        since = max(cordons, default=0.0)
        looks = [one for one in before if one.method == "GET" and one.path.endswith("/pods")]
        if not any(one.at > since for one in looks):
            yield f"{call.path} was relabelled without a list of pods after its cordon"


def invariant_25_a_relaid_node_offers_what_was_promised(records: Records) -> Violations:
    """Not where the layout was lost after it was verified: that is drift, and no execution's fault."""
    nodes = {node["metadata"]["name"]: node for node in records.nodes}
    done = {one.id for one in records.executions if one.state == "succeeded"}
    last = {step.params.get("node"): step for step in records.steps if step.kind == "reconfigure_mig"}
    for name, step in last.items():
        if step.state != "verified" or step.execution not in done or name not in nodes:
            continue
        verified = [
            event.at for event in records.events if event.step == step.id and event.state == "verified"
        ]
        if name in records.lost_layouts and records.lost_layouts[name] > max(verified, default=0.0):
            continue
        offered = nodes[name]["status"]["allocatable"]
        for resource, amount in (step.params.get("offers") or {}).items():
            if int(offered.get(resource, 0)) != amount:
                yield f"node {name} offers {offered.get(resource, 0)} {resource}, promised were {amount}"


def invariant_27_a_label_goes_back_to_its_exact_earlier_value(records: Records) -> Violations:
    steps = [step for step in records.steps if step.kind == "reconfigure_mig"]
    for call in find_relabels(records):
        value = call.body["metadata"]["labels"][CONFIG]
        mine = [step for step in steps if step.params.get("node") == call.name]
        if value not in [v for step in mine for v in (step.params.get("config"), step.seen.get("before"))]:
            yield f"{call.path}: mig.config was set to {value}, which is neither planned nor the earlier one"


def invariant_28_a_node_between_two_layouts_stays_cordoned(records: Records) -> Violations:
    opened = [
        call
        for call in find_writes(records, "nodes")
        if "unschedulable" in call.spec and not call.spec["unschedulable"]
    ]
    for step in records.steps:
        if step.kind != "reconfigure_mig" or "relabel" not in step.sent:
            continue
        sent = next((event.at for event in find_intents(records, step) if event.effect == "relabel"), 1e12)
        ends = [event.at for event in records.events if event.step == step.id and event.state in FINISHED]
        for call in opened:
            if call.name == step.params["node"] and sent < call.at < min(ends, default=1e12):
                yield f"node {call.name} was opened by us while it was being relaid"
