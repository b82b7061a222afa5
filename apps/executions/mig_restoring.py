"""Taking a MIG reconfiguration back: the exact earlier value of the label, and nothing if there was none.

Only while the node is still kept and nobody uses its GPUs. A layout that came out as planned and is in use,
or whose node is open again, stays. Pure.
"""

from __future__ import annotations

from apps.executions.decisions import Decision, Verdict, begin, done, moot, stop, wait, wait_long
from apps.executions.mig_labels import UNDER_WAY, tell_observed, tell_offers
from apps.executions.mig_looking import Facts
from apps.executions.models import Step
from apps.executions.sightings import moment

LEFT_ALONE = {"kept": True}
"""Seen: the new layout (or somebody else's) stays on the node."""
TOLD = {"told": True}
"""Seen: a person was told the ways out. Who takes the cordon off after that leaves the node as it is."""


def decide_undo(step: Step, facts: Facts) -> Decision:
    params, labels = step.params, facts.labels
    sent = step.observed.get("sent", [])
    before = _before(step)
    if facts.node is None:
        return moot("the node is gone")
    if "relabel" not in sent:
        return done("its GPUs were not touched")
    if _is_opened_on_purpose(step, facts):
        return done(f"{params['node']} is left as it is: {tell_observed(labels)}", **LEFT_ALONE)
    if labels.config == before:
        return _decide_coming_back(step, facts)
    if labels.config != params["config"]:
        return _decide_foreign(step, facts)
    return _decide_going_back(step, facts)


def decide_repair(step: Step, facts: Facts) -> Decision:
    """The way back for this node alone, asked for by a person; the execution goes on waiting for him."""
    if facts.labels.config == _before(step):
        decision = _decide_coming_back(step, facts)
    elif facts.labels.config != step.params["config"]:
        return _decide_foreign(step, facts)
    else:
        decision = _decide_going_back(step, facts)
    if decision.verdict != Verdict.DONE:
        return decision
    return stop(
        f"Node {step.params['node']} is repaired: {decision.reason}, and no operand is paused. "
        "It stays cordoned.",
        "Resume cuts it again by the plan; cancel or roll back gives it free as it is.",
        cause="mig-repaired",
        repair="done",
    )


def _decide_going_back(step: Step, facts: Facts) -> Decision:
    """The label is ours: may it be taken back?"""
    params, before = step.params, _before(step)
    if _is_settled(step) and (not facts.is_cordoned or facts.users):
        why = f"{' and '.join(facts.users)} uses it" if facts.users else "the node is open again"
        return done(f"the new layout of {params['node']} stays: {why}", **LEFT_ALONE)
    if not facts.is_kept:
        return _decide_opened(step, facts)
    if facts.users and facts.leaving:
        return wait(f"{' and '.join(facts.users)} is on its way out and still holds a GPU")
    if facts.users:
        return _stop(step, facts, f"{' and '.join(facts.users)} holds or may hold a GPU to be cut back.")
    if before is None:
        return _stop(
            step,
            facts,
            "There was no label mig.config before, and taking it away is no way back (the GPU operator would "
            "switch MIG off): a person decides.",
        )
    return begin("restore", f"set mig.config of {params['node']} to {before} again", node=facts.node)


def _decide_coming_back(step: Step, facts: Facts) -> Decision:
    """The label has its earlier value: does the node offer what it did then, and go on doing so?"""
    labels, seen = facts.labels, step.observed.get("seen", {})
    is_answered = labels.state == "success" or "restore" not in step.observed.get("sent", [])
    is_calm = labels.state not in UNDER_WAY and not labels.paused
    if is_answered and is_calm and dict(labels.offers) == seen.get("before_offers"):
        since = moment(seen.get("restored_since", "")) or facts.now
        if (facts.now - since).total_seconds() >= facts.limits.settle:
            words = f"the earlier layout of {step.params['node']} is back: {tell_offers(labels.offers)}"
            return done(words, restored=True)
        return wait_long(
            "the earlier layout is back; watching whether it stays", restored_since=since.isoformat()
        )
    if labels.state == "failed":
        return _stop(step, facts, "mig-manager reported failed on the way back.")
    if facts.overtime > 0:
        return _stop(step, facts, "The earlier layout has not come back before the deadline.")
    return wait(f"waiting for the earlier layout (state {labels.state or 'not told yet'})", restored_since="")


def _decide_foreign(step: Step, facts: Facts) -> Decision:
    if not facts.is_cordoned:
        return done(
            f"somebody else set mig.config of {step.params['node']} and opened it: left so", **LEFT_ALONE
        )
    return _stop(
        step, facts, f"Somebody set mig.config to {facts.labels.config or 'nothing'}: it is not overwritten."
    )


def _decide_opened(step: Step, facts: Facts) -> Decision:
    """Half relaid, and somebody took the cordon off."""
    if facts.labels.state == "success" and facts.labels.as_planned(step.params["offers"]):
        return done(f"{step.params['promise']} and was opened by somebody: left so", **LEFT_ALONE)
    return _stop(step, facts, "Somebody uncordoned the node before its layout was put right.")


def _stop(step: Step, facts: Facts, what: str) -> Decision:
    before = _before(step)
    node = step.params["node"]
    offers = tell_offers(step.observed.get("seen", {}).get("before_offers", {}))
    wanted = f"mig.config {before}, offering {offers}" if before is not None else f"offering {offers}"
    held = "It stays cordoned." if facts.is_cordoned else "It is not cordoned."
    observed = tell_observed(facts.labels)
    return stop(
        f"Node {node} is not put back. {what} Before: {wanted}. Observed: {observed}. {held}",
        f"Put {node} right by hand (the log of mig-manager on it says why), then roll back again. "
        f"To leave it as it is then, kubectl uncordon {node} first.",
        cause="mig-not-restored",
        **TOLD,
    )


def _is_opened_on_purpose(step: Step, facts: Facts) -> bool:
    """By somebody who was told that this leaves the node as it is. What is put right is watched as ever."""
    seen, labels = step.observed.get("seen", {}), facts.labels
    is_right = labels.config == _before(step) and dict(labels.offers) == seen.get("before_offers")
    return bool(seen.get("told")) and not facts.is_cordoned and not is_right


def _before(step: Step) -> str | None:
    value = step.observed.get("seen", {}).get("before")
    return str(value) if value is not None else None


def _is_settled(step: Step) -> bool:
    return bool(step.observed.get("seen", {}).get("verified"))
