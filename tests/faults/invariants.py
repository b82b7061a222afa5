"""The safety rules as assertions over what was recorded, by their numbers. Those that leave no trace in
calls, ledger, audit chain or cluster are shown by other tests: docs/faults.md has a line for each of the 44.

Each gives the violations that it finds, in words; none if the rule held.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from tests.faults.records import OWN_NAMESPACE, Call, EventRow, ExecutionRow, Records, StepRow

TERMINAL = ("succeeded", "cancelled", "rolled_back", "failed")
FINISHED = ("verified", "superseded", "failed", "compensated")
LONGEST_WATCH_SECONDS = 300
EVICTING = ("evict_pod", "preempt_pod")
BEGINNING = ("cordon", "create_hold", "nominate_hold", "ask", "create_webhook", "evict")
CONFIG = "nvidia.com/mig.config"
CORDON = "defrag.gpu.internal/cordon"
HELD = "defrag.gpu.internal/held"
OWNED = "defrag.gpu.internal/owned"
MIGRATION = "defrag.gpu.internal/migration"
GATE = "defrag.gpu.internal/steer"
HOSTNAME = "kubernetes.io/hostname"
GUARDED = ("nodes", "pods", "mutatingwebhookconfigurations")
Violations = Iterator[str]


def _writes(records: Records, kind: str = "") -> list[Call]:
    return [call for call in records.calls if call.is_real and kind in ("", call.kind)]


def _evictions(records: Records) -> list[Call]:
    return [call for call in _writes(records, "pods") if call.is_eviction]


def _approved(records: Records) -> dict[str, str]:
    return {uid: pod for one in records.executions for uid, pod in one.approved_pods.items()}


def _pinned_before(records: Records, at: float) -> set[str]:
    """UIDs of the replacements that we had pinned to their targets by then: by a PATCH, or, where the move
    pins in the webhook's answer, as the ledger tells of the pod that was given up."""
    calls = [call for call in _writes(records, "pods") if call.method == "PATCH" and call.at <= at]
    patched = {call.uid for call in calls if HOSTNAME in (call.spec.get("nodeSelector") or {})}
    answered = [step for step in records.steps if step.params.get("pins_to")]
    return patched | {step.seen["given_up"] for step in answered if step.seen.get("given_up")}


def invariant_01_every_eviction_carries_the_approved_uid(records: Records) -> Violations:
    approved = _approved(records)
    for call in _evictions(records):
        if call.uid not in approved and call.uid not in _pinned_before(records, call.at):
            yield f"{call.path} was asked for with UID {call.uid or 'none'}, which nobody approved"


def invariant_02_every_node_write_names_uid_and_version(records: Records) -> Violations:
    known = {name: uid for one in records.executions for name, uid in one.nodes.items() if uid}
    for call in _writes(records, "nodes"):
        version = (call.body.get("metadata") or {}).get("resourceVersion")
        if not version or not call.uid or known.get(call.name, call.uid) != call.uid:
            yield f"{call.method} {call.path} is guarded by UID {call.uid or 'none'}, version {version}"


def invariant_03_only_approved_pods_are_evicted(records: Records) -> Violations:
    approved = _approved(records)
    for call in _evictions(records):
        named = approved.get(call.uid, f"{call.namespace}/{call.name}")
        if call.was_taken and (
            named != f"{call.namespace}/{call.name}"
            or (call.uid not in approved and call.uid not in _pinned_before(records, call.at))
        ):
            yield f"{call.namespace}/{call.name} was evicted and is not in any approved plan"


def invariant_04_no_workload_pod_is_deleted_or_forced(records: Records) -> Violations:
    for call in _writes(records):
        if call.method == "DELETE" and call.kind == "pods" and call.namespace != OWN_NAMESPACE:
            yield f"DELETE {call.path}: a workload's pod"
        if call.method == "DELETE" and not call.uid:
            yield f"DELETE {call.path} names no UID"
        if call.is_eviction and "gracePeriodSeconds" in (call.body.get("deleteOptions") or {}):
            yield f"{call.path} has a grace period of ours"


def invariant_05_protected_pods_are_left_alone(records: Records) -> Violations:
    moved = {f"{call.namespace}/{call.name}" for call in _evictions(records)}
    for execution in records.executions:
        for pod in execution.protected:
            if pod in moved:
                yield f"{pod} is protected without a waiver for execution {execution.id}, and was evicted"


def invariant_06_nothing_outside_the_plan_is_written(records: Records) -> Violations:
    nodes = {name for one in records.executions for name in one.nodes}
    spaces = {space for one in records.executions for space in one.namespaces} | {OWN_NAMESPACE}
    for call in _writes(records):
        if call.kind == "nodes" and call.name not in nodes:
            yield f"{call.method} {call.path}: no plan has that node"
        if call.kind == "pods" and call.namespace not in spaces:
            yield f"{call.method} {call.path}: no plan has that namespace"


def invariant_07_what_runs_is_what_was_approved(records: Records) -> Violations:
    for one in records.executions:
        if len({one.digest, one.computed_digest, one.decided_digest}) != 1:
            yield f"execution {one.id}: version {one.digest}, approval {one.decided_digest}, "
            yield f"execution {one.id}: its body has {one.computed_digest}"


def invariant_08_each_eviction_is_preceded_by_a_look(records: Records) -> Violations:
    """After the last thing that was written for the same move; or this life of the runner watches pods."""
    pods = [call for call in records.calls if call.method == "GET" and "/pods" in call.path]
    looks = [call.at for call in pods if "watch" not in call.query]
    watches = [call.at for call in pods if "watch" in call.query]
    for step in records.steps:
        if step.kind not in EVICTING:
            continue
        for intent in _intents(records, step):
            before = _events_before(records, step, intent)
            since = max((event.at for event in before), default=0.0)
            if intent.effect != "evict" or any(since <= at <= intent.at for at in looks):
                continue
            born = max((one.at for one in records.events if _is_of_earlier_life(one, intent)), default=0.0)
            if not any(born <= at <= intent.at < at + LONGEST_WATCH_SECONDS for at in watches):
                yield f"pod {step.params.get('pod')} was evicted without a look after {since:.3f}"


def _is_of_earlier_life(event: EventRow, intent: EventRow) -> bool:
    return event.execution == intent.execution and event.fence < intent.fence


def _intents(records: Records, step: StepRow) -> list[EventRow]:
    return [event for event in records.events if event.step == step.id and event.state == "intent"]


def _events_before(records: Records, step: StepRow, intent: EventRow) -> list[EventRow]:
    """Of the same step or move; of the execution where there are none."""
    of_step = {one.id: one for one in records.steps if one.execution == step.execution}
    earlier = [
        event for event in records.events if event.execution == step.execution and event.id < intent.id
    ]
    own = [
        event
        for event in earlier
        if event.step == step.id or (step.move and event.step and of_step[event.step].move == step.move)
    ]
    return own or [event for event in earlier if event.state == "preflight"]


def invariant_09_nothing_starts_after_its_approval_ran_out(records: Records) -> Violations:
    for one in records.executions:
        if one.created_at > one.expires_at:
            yield f"execution {one.id} was started {one.created_at - one.expires_at:.0f} s too late"


def invariant_10_nothing_is_sent_before_the_preflight_has_passed(records: Records) -> Violations:
    for execution in records.executions:
        _, events = records.of(execution)
        begun = next((event.id for event in events if not event.step and event.state == "running"), None)
        for event in events:
            if event.state == "intent" and (begun is None or event.id < begun):
                yield f"execution {execution.id}: {event.message} before its preflight had passed"


def invariant_11_what_was_never_read_is_never_written(records: Records) -> Violations:
    """An execution without steps has seen no cluster that was as approved, so nothing carries its mark."""
    for execution in records.executions:
        steps, _ = records.of(execution)
        marks = [call for call in _writes(records) if execution.owned in json.dumps(call.body) + call.path]
        if not steps and marks:
            yield f"execution {execution.id} has no steps and sent {marks[0].method} {marks[0].path}"


def invariant_12_nothing_begins_while_it_stands_still(records: Records) -> Violations:
    """Paused by a person, a freeze window or the kill switch, waiting for a person, or being undone."""
    for execution in records.executions:
        _, events = records.of(execution)
        state = ""
        for event in events:
            state = event.state if not event.step else state
            begins = event.state == "intent" and event.effect in BEGINNING
            if begins and state in ("paused", "needs_human", "cancelling", "rolling_back"):
                yield f"execution {execution.id} is {state}, and sent {event.message}"


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
        for call in _writes(records) if len(shared) > 1 else []:
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
    moved = set(_approved(records))
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
    moved = [call.at for call in _evictions(records) if call.uid == step.params.get("uid") and call.was_taken]
    return f"{datetime.fromtimestamp(int(min(moved)), UTC):%Y-%m-%dT%H:%M:%SZ}" if moved else ""


def invariant_19_only_our_own_cordons_are_removed(records: Records) -> Violations:
    ours: set[str] = set()
    for call in _writes(records, "nodes"):
        if call.spec.get("unschedulable") is True:
            ours.add(call.name)
        elif "unschedulable" in call.spec and call.name not in ours:
            yield f"{call.path} was uncordoned, and we never cordoned it"


def invariant_20_cordoned_before_stays_cordoned(records: Records) -> Violations:
    before = {name for one in records.executions for name in one.cordoned_before}
    ours = {call.name for call in _writes(records, "nodes") if call.spec.get("unschedulable") is True}
    for call in _writes(records, "nodes"):
        if call.name in before - ours and "unschedulable" in call.spec:
            yield f"{call.path} was cordoned before the plan, and we opened it"
    for step in records.steps:
        if step.kind == "cordon_node" and step.state == "superseded" and "cordon" in step.sent:
            yield f"node {step.params['node']} is another's, and our cordon was sent all the same"


def invariant_21_every_cordon_says_whose_why_and_until_when(records: Records) -> Violations:
    for call in _writes(records, "nodes"):
        if call.spec.get("unschedulable") is not True:
            continue
        text = ((call.body.get("metadata") or {}).get("annotations") or {}).get(CORDON)
        try:
            told = json.loads(text or "{}")
        except ValueError:
            told = {}
        missing = [key for key in ("execution", "mark", "reason", "deadline", "fence") if not told.get(key)]
        if missing:
            yield f"{call.path} was cordoned without {', '.join(missing)}"


def invariant_22_nothing_of_an_ended_execution_is_left(records: Records) -> Violations:
    """Whatever ended it: no cordon, hold, gate, taint or webhook carries its mark."""
    for execution in records.executions:
        if execution.state in TERMINAL:
            yield from _left_by(execution, records)
    ended = all(one.state in TERMINAL for one in records.executions)
    for node in records.nodes if ended else []:
        for taint in node["spec"].get("taints") or []:
            if taint["key"] == HELD:
                yield f"taint {HELD} on node {node['metadata']['name']}"


def _left_by(execution: ExecutionRow, records: Records) -> Violations:
    number, _, mark = execution.owned.partition("-")
    for node in records.nodes:
        text = (node["metadata"].get("annotations") or {}).get(CORDON, "{}")
        told = json.loads(text)
        if str(told.get("execution")) == number and told.get("mark") == mark:
            yield f"cordon of ended execution {number} on node {node['metadata']['name']}"
    for thing in (*records.pods, *records.webhooks):
        name, labels = thing["metadata"]["name"], thing["metadata"].get("labels") or {}
        if labels.get(OWNED) == execution.owned and "deletionTimestamp" not in thing["metadata"]:
            yield f"{name} of ended execution {number}"
        steering = (thing["metadata"].get("annotations") or {}).get(MIGRATION, "")
        gates = [gate["name"] for gate in (thing.get("spec") or {}).get("schedulingGates") or []]
        if steering.startswith(f"steer-{execution.owned}-") and GATE in gates:
            yield f"{name} waits behind the gate of ended execution {number}"


def invariant_23_nothing_is_in_two_plans_at_once(records: Records) -> Violations:
    states = {one.id: one.state for one in records.executions}
    for subject, times in Counter(subject for _, subject in records.claims).items():
        if times > 1:
            yield f"{subject} is claimed {times} times"
    for execution, subject in records.claims:
        if states.get(execution) in TERMINAL:
            yield f"execution {execution} has ended and still claims {subject}"


def _relabels(records: Records) -> list[Call]:
    return [call for call in _writes(records, "nodes") if call.sets_label(CONFIG)]


def invariant_24_no_relabel_without_a_list_after_the_cordon(records: Records) -> Violations:
    for call in _relabels(records):
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
    for call in _relabels(records):
        value = call.body["metadata"]["labels"][CONFIG]
        mine = [step for step in steps if step.params.get("node") == call.name]
        if value not in [v for step in mine for v in (step.params.get("config"), step.seen.get("before"))]:
            yield f"{call.path}: mig.config was set to {value}, which is neither planned nor the earlier one"


def invariant_28_a_node_between_two_layouts_stays_cordoned(records: Records) -> Violations:
    opened = [
        call
        for call in _writes(records, "nodes")
        if "unschedulable" in call.spec and not call.spec["unschedulable"]
    ]
    for step in records.steps:
        if step.kind != "reconfigure_mig" or "relabel" not in step.sent:
            continue
        sent = next((event.at for event in _intents(records, step) if event.effect == "relabel"), 1e12)
        ends = [event.at for event in records.events if event.step == step.id and event.state in FINISHED]
        for call in opened:
            if call.name == step.params["node"] and sent < call.at < min(ends, default=1e12):
                yield f"node {call.name} was opened by us while it was being relaid"


def invariant_29_no_effect_happens_twice(records: Records) -> Violations:
    for uid, times in Counter(call.uid for call in _evictions(records) if call.was_taken).items():
        if times > 1:
            yield f"the pod with UID {uid} was evicted {times} times"
    last: dict[str, str] = {}
    for call in _relabels(records):
        value = call.body["metadata"]["labels"][CONFIG]
        if call.was_taken and last.get(call.name) == value:
            yield f"node {call.name} was relabelled to {value} twice"
        if call.was_taken:
            last[call.name] = value
    made = Counter(
        f"{call.path} {(call.body.get('metadata') or {}).get('name')}"
        for call in _writes(records)
        if call.method == "POST" and not call.is_eviction and call.was_taken and call.kind in GUARDED
    )
    removed = Counter(call.name for call in _writes(records) if call.method == "DELETE" and call.was_taken)
    for thing, times in made.items():
        if times > 1 + removed[thing.rpartition(" ")[2]] and removed[thing.rpartition(" ")[2]] == 0:
            yield f"{thing} was made {times} times"


def invariant_30_the_intent_comes_first_and_the_outcome_before_the_next(records: Records) -> Violations:
    steps = {step.id: step for step in records.steps}
    intents = [event for event in records.events if event.state == "intent"]
    freed = sum(audit.action == "pod.freed" for audit in records.audits)
    ranks: Counter[str] = Counter()
    for call in sorted(_writes(records), key=lambda one: one.at):
        if call.kind not in GUARDED:
            continue
        ranks[call.path] += 1
        meant = [e for e in intents if e.at <= call.at and _acts_on(steps[e.step], call)]
        if len(meant) + freed < ranks[call.path]:
            yield f"{call.method} {call.path} left before its intent was written"
    yield from _unanswered(records)


def _acts_on(step: StepRow, call: Call) -> bool:
    params = step.params
    if call.kind == "nodes":
        return call.name == params.get("node")
    if call.kind == "mutatingwebhookconfigurations":
        return call.name in ("", params.get("webhook"))
    if call.namespace == OWN_NAMESPACE:
        return call.name in ("", params.get("hold"))
    if call.is_eviction:
        return step.kind in (*EVICTING, "await_replacement") and call.namespace == params.get("namespace")
    return call.namespace in (params.get("namespace"), *params.get("namespaces", ()))


def _unanswered(records: Records) -> Violations:
    """Two intents of one claim without a word about the first between them."""
    for execution in records.executions:
        waiting: dict[int, EventRow] = {}
        _, events = records.of(execution)
        for event in events:
            if event.state != "intent":
                waiting = {fence: one for fence, one in waiting.items() if one.step != event.step}
                continue
            if event.fence in waiting:
                yield f"execution {execution.id}: {event.message} before the outcome of the last"
            waiting[event.fence] = event


def invariant_31_a_stale_claim_writes_nothing(records: Records) -> Violations:
    for execution in records.executions:
        _, events = records.of(execution)
        newest = 0
        for event in events:
            if event.fence < newest:
                yield f"execution {execution.id}: claim {event.fence} wrote after claim {newest}"
            newest = max(newest, event.fence)


def invariant_34_what_cannot_be_undone_is_told(records: Records) -> Violations:
    for execution in records.executions:
        if execution.state not in ("cancelled", "rolled_back"):
            continue
        gone = {call.uid for call in _evictions(records) if call.was_taken}
        evicted = _evicted_by(records, execution)
        told = set(execution.outcome.get("not_undone", []))
        for uid in sorted(gone & evicted):
            if execution.approved_pods[uid] not in told:
                yield f"execution {execution.id} does not tell that it evicted {execution.approved_pods[uid]}"


def _evicted_by(records: Records, execution: ExecutionRow) -> set[str]:
    steps, _ = records.of(execution)
    mine = [step for step in steps if step.kind in EVICTING and "evict" in step.sent]
    return {step.params["uid"] for step in mine}


def invariant_35_ended_is_ended(records: Records) -> Violations:
    for execution in records.executions:
        _, events = records.of(execution)
        ends = [event.id for event in events if not event.step and event.state in TERMINAL]
        if len(ends) > 1:
            yield f"execution {execution.id} ended {len(ends)} times"
        later = [event for event in events if ends and event.id > ends[0]]
        if later:
            yield f"execution {execution.id} had ended, and then: {later[0].state} {later[0].message}"


def invariant_37_nobody_approves_his_own(records: Records) -> Violations:
    for one in records.executions:
        if one.approver in one.authors:
            yield f"the plan of execution {one.id} was approved by one of its authors"


def invariant_41_every_effect_has_its_audit_row(records: Records) -> Violations:
    kinds = {step.id: step.kind for step in records.steps}
    meant: Counter[tuple[str, str]] = Counter()
    for event in records.events:
        if event.state == "intent":
            meant[f"step.{kinds[event.step]}.{event.effect}", str(event.step)] += 1
    written = Counter((one.action, one.subject.rpartition(":")[2]) for one in records.audits)
    for (action, step), times in meant.items():
        if written[action, step] != times:
            yield f"{action} of step {step}: {times} intents, {written[action, step]} audit rows"
    if records.broken_chain:
        yield f"the audit chain is broken: {records.broken_chain}"


def invariant_42_no_secret_is_written_anywhere(records: Records) -> Violations:
    places = {
        "the ledger": " ".join(event.message for event in records.events),
        "the steps": json.dumps([[step.params, step.observed, step.reason] for step in records.steps]),
        "the audit chain": json.dumps([audit.detail for audit in records.audits]),
        "an outcome": json.dumps([one.outcome for one in records.executions]),
    }
    for place, text in places.items():
        for secret in records.secrets:
            if secret and secret in text:
                yield f"{place} holds a secret ({secret[:3]}…)"


INVARIANTS: dict[int, Callable[[Records], Violations]] = {
    int(re.match(r"invariant_(\d+)", name)[1]): check  # type: ignore[index]
    for name, check in sorted(globals().items())
    if name.startswith("invariant_")
}


def find_violations(records: Records, *, without: tuple[int, ...] = ()) -> dict[int, list[str]]:
    """By number of the rule; empty if all held. without: rules that a fault breaks by itself."""
    found: dict[int, list[str]] = defaultdict(list)
    for number, check in INVARIANTS.items():
        if number not in without:
            found[number] += check(records)
    return {number: told for number, told in found.items() if told}
