"""Causes at a step that moves a pod or keeps a node: what to make of them."""

from __future__ import annotations

from apps.executions.cause import AGAIN, BY_ITSELF, GIVE_UP, LEFT, Cause, Way

OF_STEPS = (
    Cause(
        "budget-used-up",
        "The disruption budget has no pod to spare",
        "The API server refused the eviction (429). It is asked again by itself, as often as it takes until "
        "the step's deadline.",
        "Find which pod of the workload is not Ready. When it is, this goes on by itself.",
        BY_ITSELF,
    ),
    Cause(
        "several-budgets",
        "Two disruption budgets cover one pod",
        "The API server refuses every eviction of such a pod, whatever the budgets say.",
        "Have the owner leave one PodDisruptionBudget over it, then resume.",
        AGAIN,
    ),
    Cause(
        "waits-for-turn",
        "It waits for its turn",
        "The policy limits how many evicted pods may be in the air at once.",
        "Nothing to do: it goes on when another pod has landed.",
        BY_ITSELF,
    ),
    Cause(
        "owner-busy",
        "The workload is not settled",
        "Its owner is in the middle of a rollout or a change of size, or has lost pods otherwise. "
        "The pod was "
        "not evicted; it is looked at again by itself.",
        "Look at the owner's rollout. When all its pods are Ready, this goes on by itself.",
        BY_ITSELF,
    ),
    Cause(
        "pod-changed",
        "The pod is not the one that was approved",
        "It stands elsewhere, has another owner or asks for other resources than when the plan was signed. "
        "It was not evicted.",
        "Cancel and ask for a new plan.",
        GIVE_UP,
    ),
    Cause(
        "protected",
        "The policy protects the pod now",
        "Its namespace was protected, or preemption forbidden, after the plan was approved. It was not "
        "evicted.",
        "Cancel and ask for a new plan. If the policy is wrong, have an admin change it, then resume.",
        GIVE_UP,
    ),
    Cause(
        "node-drifted",
        "The node is not as it is expected",
        "It shows fewer or other devices than before, so it is no safe place to move to or from.",
        "See the node's page. If it is meant to be so, accept it there and resume; else cancel.",
        GIVE_UP,
    ),
    Cause(
        "node-gone",
        "The node is gone or was made anew",
        "A node of the same name with another UID is another node. Nothing is done on it.",
        "Cancel and ask for a new plan.",
        GIVE_UP,
    ),
    Cause(
        "newcomer",
        "A pod came onto a node that is being freed",
        "Before it was cordoned, or past the cordon: by a toleration, or by naming the node itself. The node "
        "would not be free as approved. Nothing was evicted for it.",
        "Cancel and ask for a new plan, or resume once that pod has left.",
        GIVE_UP,
    ),
    Cause(
        "uncordoned",
        "Somebody took our cordon off",
        "We never fight over a node: it is left as it is.",
        "Talk to whoever did it (kubectl get node -o yaml shows by managedFields). Then resume or cancel.",
        AGAIN,
    ),
    Cause(
        "database-old",
        "The database is older than the cluster",
        "The cluster carries a number of ours that this database has not given yet: an old backup runs, or a "
        "copy of this database elsewhere. The cluster is in safe mode: nothing is sent, not even to land.",
        "Restore the newest database. Where there is none, an admin looks at what the cluster carries (page "
        "Preflight) and leaves safe mode; then look again here.",
        AGAIN,
    ),
    Cause(
        "no-room",
        "The target has no room now",
        "Something else took it, or the node is not Ready or was cordoned. The pod was not evicted; it is "
        "looked at again by itself.",
        "Make room on the target; or cancel.",
        BY_ITSELF,
    ),
    Cause(
        "hold-taken",
        "An object under the name of our hold is not ours",
        "A pod or a priority class of that name exists and differs from what we make. It is not used and not "
        "removed.",
        "Look whose it is; delete it by hand if it is stray, then resume.",
        AGAIN,
    ),
    Cause(
        "steering-taken",
        "Another console may steer this cluster",
        "What steers replacements exists under our name and carries another execution's mark.",
        "Find out whose it is; delete it if nobody knows it, then resume.",
        AGAIN,
    ),
    Cause(
        "steering-gone",
        "What steers the replacement was deleted or changed",
        "Without it the replacement could land anywhere. The pod was not evicted.",
        "Find out who does that (GitOps, a cleaner). Cancel, then ask for a new plan: it is not made anew.",
        GIVE_UP,
    ),
    Cause(
        "checkpoint-silent",
        "The workload does not answer the request to save its work",
        "It opted in to checkpoints and has not told that it saved. It was not evicted.",
        "Look at the workload's log. Resume waits once more; or cancel.",
        AGAIN,
    ),
    Cause(
        "replacement-missing",
        "No replacement has appeared",
        "The pod was evicted and its owner has made no new one.",
        "Look at the owner: scaled down, deleted, at its quota? Mend it, then resume; or cancel.",
        AGAIN,
    ),
    Cause(
        "replacement-pending",
        "The replacement finds no node",
        "It exists and the scheduler does not place it.",
        "Read the pod's events. Make room and resume; cancel frees it from the pin.",
        AGAIN,
    ),
    Cause(
        "replacement-elsewhere",
        "The replacement runs on another node",
        "The workload is whole. What the plan promised is not.",
        "Nothing urgent. Cancel gives the held room back; then ask for a new plan.",
        GIVE_UP,
    ),
    Cause(
        "replacement-differs",
        "The replacement asks for other devices",
        "Its owner was changed between the approval and the eviction.",
        "Talk to the owner. Cancel and ask for a new plan.",
        GIVE_UP,
    ),
    Cause(
        "replacement-not-ready",
        "The replacement does not become Ready",
        "It stands on its target and its own checks fail or its image does not come.",
        "Read the pod's events and log. Resume waits on; cancel leaves it there and gives the rest back.",
        AGAIN,
    ),
    Cause(
        "gang-not-started",
        "Who should get the freed node did not start",
        "The hand-over's time is over: our taint and cordon were taken off and anybody may use the node.",
        "Read the events of the waiting pods. Ask for a new plan if the node was taken.",
        GIVE_UP,
    ),
    Cause(
        "taint-removed",
        "Somebody took our taint off, or changed it",
        "The node was kept for a workload that had not started yet, or for pods that move there.",
        "See who is on it now. Resume if that is right, or cancel.",
        AGAIN,
    ),
    Cause(
        "deletion-stuck",
        "Something of ours is deleted and does not go",
        "The cluster took the deletion, and finalizers that somebody put on the object keep it. It is not "
        "deleted again and again.",
        "Have whoever put the finalizers there take them off; then resume or roll back. Or tell that you "
        "have dealt with it.",
        (Way.RESUME, *LEFT, Way.CANCEL),
    ),
    Cause(
        "owner-changed",
        "The owner is not as it was approved",
        "Its template asks for another amount of GPU memory than the plan says, or the owner is gone. What "
        "somebody else set is never overwritten.",
        "Find out who sets it (its owner, GitOps). Cancel, and ask for a new plan if it still waits.",
        GIVE_UP,
    ),
    Cause(
        "owner-runs",
        "A pod of the owner runs by now",
        "Less is asked for only while none of its pods has a node: a change of the template would restart "
        "those that have one. Nothing was changed.",
        "Cancel. If other pods of it still wait, that is their owner's to change.",
        GIVE_UP,
    ),
    Cause(
        "step-deadline",
        "The time of this step is over",
        "It waited for the cluster longer than it may. Nothing was forced.",
        "Read what it waited for. Resume gives it its whole time again; or cancel.",
        AGAIN,
    ),
    Cause(
        "never-answered",
        "The same request was begun many times and never answered",
        "The worker died each time before it could write down an answer.",
        "Read the worker's log for why it dies (memory, a bug). Then resume or cancel.",
        AGAIN,
    ),
)
