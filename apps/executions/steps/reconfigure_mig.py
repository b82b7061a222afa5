"""Step ``reconfigure_mig``: the GPUs of one node are cut anew, by NVIDIA's mig-manager.

One effect: a PATCH, guarded by UID and resourceVersion, that sets the label mig.config and clears
mig.config.state, so that any state seen afterwards is an answer to it. Sent only while the node is
cordoned, a consistent LIST shows nobody on the GPUs, and label and configuration are as they were at the
preflight. Then mig-manager works; its word "success" is believed when the kubelet offers exactly what was
promised, and goes on doing so for the settle time. All else leaves the node cordoned and asks a person.
Undone by the exact earlier value (`mig_restoring`).
"""

from __future__ import annotations

import shlex
from typing import Any

from django.conf import settings

from apps.executions import mig_restoring
from apps.executions.context import Context
from apps.executions.decisions import Decision, begin, blocked, done, stop, wait, wait_long
from apps.executions.mig_labels import UNDER_WAY, MigLabels, tell_observed, tell_offers
from apps.executions.mig_looking import Facts, look_at_node
from apps.executions.models import Step
from apps.executions.objects import mig_patch
from apps.executions.sightings import moment
from apps.kube.gateway import NODES

Json = dict[str, Any]


def observe(context: Context, step: Step) -> Facts:
    return look_at_node(context, step)


def decide(step: Step, facts: Facts, *, late: bool) -> Decision:
    params, labels = step.params, facts.labels
    if facts.node is None:
        return _stop(step, facts, f"Node {params['node']} is gone or was made anew.", cause="mig-node-gone")
    if not facts.is_kept:
        return _stop(
            step,
            facts,
            f"Somebody uncordoned node {params['node']} while it was being relaid.",
            cause="mig-uncordoned",
        )
    if step.observed.get("seen", {}).get("repair") == "asked":
        return mig_restoring.decide_repair(step, facts)
    if labels.config == params["previous"] and _may_ask(step):
        return _decide_before(step, facts)
    if "relabel" not in step.observed.get("sent", []):
        return _decide_before(step, facts)
    if labels.config != params["config"]:
        return _stop(
            step,
            facts,
            f"Somebody set mig.config of node {params['node']} to {labels.config or 'nothing'} after this "
            f"execution had set it to {params['config']}: it is not overwritten.",
            cause="mig-taken",
        )
    return _decide_waiting(step, facts, late=late)


def _may_ask(step: Step) -> bool:
    """Nothing was sent, the answer to what was sent last is not known, or the node was put back since."""
    if "relabel" not in step.observed.get("sent", []) or step.issued_at is None:
        return True
    is_unanswered = step.intent_at is not None and step.issued_at < step.intent_at
    return is_unanswered or step.observed.get("seen", {}).get("repair") == "done"


def _decide_before(step: Step, facts: Facts) -> Decision:
    """Nothing is sent yet: may it be?"""
    params, labels = step.params, facts.labels
    where = f"node {params['node']}"
    if labels.config != params["previous"]:
        return _stop(
            step,
            facts,
            f"Somebody set mig.config of {where} to {labels.config or 'nothing'}; at the preflight it was "
            f"{params['previous'] or 'not set'}.",
            cause="mig-taken",
        )
    if facts.config_changed:
        return _stop(step, facts, facts.config_changed, cause="mig-taken")
    if labels.state in UNDER_WAY or labels.paused:
        return _stop(step, facts, f"Another MIG change is under way on {where}.", cause="mig-taken")
    if facts.newcomers:
        return _stop(
            step,
            facts,
            f"{' and '.join(facts.newcomers)} came onto {where} after the preflight.",
            cause="newcomer",
        )
    if facts.users:
        return _decide_held(step, facts)
    seen = {
        "before": labels.config,
        "before_state": labels.state,
        "before_offers": dict(labels.offers),
        "as_planned_since": "",
        "wrong_since": "",
        "repair": "",
    }
    return begin(
        "relabel", f"ask mig-manager to cut {where} by {params['config']}", seen=seen, node=facts.node
    )


def _decide_held(step: Step, facts: Facts) -> Decision:
    """Somebody holds, or may hold, a GPU that is to be cut."""
    where = f"node {step.params['node']}"
    if facts.leaving:
        return blocked(
            f"{' and '.join(facts.users)} on {where} is on its way out and still holds a GPU.",
            "It goes on by itself once that pod is gone.",
            cause="mig-leaving",
        )
    return _stop(
        step,
        facts,
        f"{' and '.join(facts.users)} on {where} holds or may hold a GPU to be relaid, or would end with "
        "the node.",
        cause="mig-in-use",
    )


def _decide_waiting(step: Step, facts: Facts, *, late: bool) -> Decision:
    """The label is ours: what has mig-manager made of it?"""
    labels, seen = facts.labels, step.observed.get("seen", {})
    if labels.state == "failed":
        at = facts.now.isoformat(timespec="seconds")
        return _stop(step, facts, "mig-manager reported failed.", cause="mig-failed", failed_at=at)
    if labels.state == "success" and labels.as_planned(step.params["offers"]):
        since = moment(seen.get("as_planned_since", "")) or facts.now
        if (facts.now - since).total_seconds() >= facts.limits.settle:
            return done(f"{step.params['promise']}, and has for {facts.limits.settle:g} s", verified=True)
        return wait_long("cut as planned; watching whether it stays so", as_planned_since=since.isoformat())
    if late:
        return _decide_late(step, facts)
    if labels.state == "success" and not labels.paused:
        since = moment(seen.get("wrong_since", "")) or facts.now
        if (facts.now - since).total_seconds() >= facts.limits.mismatch:
            return _stop(
                step,
                facts,
                "mig-manager reported success, but the node does not offer what was promised.",
                cause="mig-mismatch",
            )
        return wait(
            "mig-manager reported success; the kubelet does not offer it yet",
            as_planned_since="",
            wrong_since=since.isoformat(),
        )
    return wait(_tell_wait(step, facts), as_planned_since="", wrong_since="", **_rebooting(labels))


def _decide_late(step: Step, facts: Facts) -> Decision:
    """A reboot adds to the time, whether it is going on now or was seen before."""
    rebooted = facts.labels.state == "rebooting" or step.observed.get("seen", {}).get("rebooting")
    if rebooted and facts.overtime < facts.limits.reboot:
        return wait_long(
            "the node reboots for the mode change: more time is given", **_rebooting(facts.labels)
        )
    return _stop(
        step, facts, "mig-manager has not finished before the deadline of this step.", cause="mig-late"
    )


def _tell_wait(step: Step, facts: Facts) -> str:
    labels = facts.labels
    words = f"mig-manager is at work (state {labels.state or 'not told yet'})"
    asked = step.intent_at
    if asked is not None and (facts.now - asked).total_seconds() > facts.limits.long:
        return f"{words}, for more than {facts.limits.long / 60:g} min: see whether it hangs"
    return words


def _rebooting(labels: MigLabels) -> Json:
    return {"rebooting": True} if labels.state == "rebooting" else {}


def _stop(step: Step, facts: Facts, what: str, *, cause: str, **seen: Any) -> Decision:
    """What happened, what was promised and observed, what is still held, what to do. seen: kept in the
    ledger."""
    params = step.params
    node = params["node"]
    observed = f" Observed: {tell_observed(facts.labels)}." if facts.node is not None else ""
    held = f" Held: node {node} stays cordoned." if facts.is_cordoned else f" Node {node} is not cordoned."
    reason = f"{what} Promised: {params['promise']}.{observed}{held}"
    if "relabel" not in step.observed.get("sent", []):
        return stop(
            reason, "Nothing was changed on its GPUs. Cancel, or set it right and resume.", cause=cause
        )
    before = step.observed.get("seen", {}).get("before")
    back = (
        f"Roll back: that sets mig.config to {before} again and waits for {_tell_before(step)}"
        if before is not None
        else "There is no earlier value of mig.config to go back to: decide by hand what the node is to be"
    )
    where = shlex.quote(f"spec.nodeName={node}")
    pod = f"kubectl -n {shlex.quote(settings.MIG_MANAGER_NAMESPACE)} get pods --field-selector {where}"
    repair = "Repair does the same for this node alone. " if before is not None else ""
    return stop(
        reason,
        f"See the log of mig-manager there (its pod: {pod}). {back}. {repair}Or put the node right by hand, "
        "leave the label as it is, and resume.",
        cause=cause,
        **seen,
    )


def _tell_before(step: Step) -> str:
    return tell_offers(step.observed.get("seen", {}).get("before_offers", {}))


def decide_undo(step: Step, facts: Facts) -> Decision:
    return mig_restoring.decide_undo(step, facts)


def apply(context: Context, step: Step, decision: Decision) -> None:
    value = step.params["config"] if decision.effect == "relabel" else step.observed["seen"]["before"]
    patch = mig_patch(decision.arguments["node"], value)
    context.gateway.patch_object(NODES, step.params["node"], patch)
