"""Causes at a node whose GPUs are cut anew: it stays cordoned until a person has decided."""

from __future__ import annotations

from apps.executions.cause import AGAIN, BY_ITSELF, LEFT, Cause, Way

BACK = (Way.ROLL_BACK, Way.RESUME, Way.CANCEL)

OF_MIG = (
    Cause(
        "mig-in-use",
        "A GPU that is to be cut is held",
        "A pod holds it, or nothing proves that it does not. No label was set.",
        "Wait where the pod is on its way out; else cancel, or resume once it has left.",
        (Way.WAIT, *AGAIN),
    ),
    Cause(
        "mig-taken",
        "Somebody else changes the layout of this node",
        "The label nvidia.com/mig.config or the named configuration is not what it was, or a change is under "
        "way. It is never overwritten.",
        "Find out who sets it (GitOps, another operator). Then resume if it is right, roll back or cancel.",
        BACK,
    ),
    Cause(
        "mig-failed",
        "mig-manager reported failed",
        "The node is between two layouts and stays cordoned.",
        "Read mig-manager's log on that node. Roll back sets the exact earlier value and waits for it.",
        BACK,
    ),
    Cause(
        "mig-repaired",
        "The earlier layout is back on this node",
        "Its change hung or failed and was taken back. Operands run again; the node is still cordoned.",
        "Find out why it failed. Resume cuts it again by the plan; cancel or roll back gives it free.",
        (Way.RESUME, Way.CANCEL, Way.ROLL_BACK),
    ),
    Cause(
        "mig-mismatch",
        "mig-manager reported success, the kubelet offers something else",
        "The device plugin has not followed, or another configuration was applied.",
        "Look at the device plugin's pod on that node. Resume looks again; roll back restores the earlier "
        "layout.",
        BACK,
    ),
    Cause(
        "mig-late",
        "mig-manager has not finished in time",
        "It hangs, or the node reboots longer than allowed. The node stays cordoned.",
        "Read mig-manager's log. Resume gives it its time again; roll back restores the earlier layout.",
        BACK,
    ),
    Cause(
        "mig-uncordoned",
        "Somebody opened a node that is being cut anew",
        "Pods can land on GPUs that are about to vanish.",
        "See who is on it now. Cordon it and resume, or roll back.",
        BACK,
    ),
    Cause(
        "mig-node-gone",
        "A node that is being cut anew is gone",
        "It was deleted or made anew under its name.",
        "Cancel, and ask for a new plan.",
        (Way.CANCEL, Way.ROLL_BACK, Way.SETTLE),
    ),
    Cause(
        "mig-not-restored",
        "The earlier layout does not come back",
        "Undoing stands still: there is no earlier value, somebody changed the label, or mig-manager fails. "
        "The node stays cordoned.",
        "Put the node right by hand. Then roll back again, or tell here that you have dealt with it: its "
        "cordon is taken off and the rest is undone.",
        LEFT,
    ),
    Cause(
        "mig-leaving",
        "A pod on its way out still holds a GPU",
        "It is waited for; no label was set.",
        "Nothing to do: it goes on once that pod is gone.",
        BY_ITSELF,
    ),
)
