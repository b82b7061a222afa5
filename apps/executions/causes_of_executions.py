"""Causes that concern a whole execution: pauses, ends before anything was touched, ends that differ."""

from __future__ import annotations

from apps.executions.cause import AGAIN, BY_ITSELF, LEFT, Cause, Way

OF_EXECUTIONS = (
    Cause(
        "paused-by-person",
        "A person paused it",
        "Nothing new is started. Evicted pods are still landed; holds, gates and cordons stay.",
        "Ask whoever paused it. Resume goes on where it stood; cancel gives everything back.",
        (Way.RESUME, Way.CANCEL, Way.ROLL_BACK),
    ),
    Cause(
        "freeze-window",
        "A freeze window holds it",
        "The cluster's policy lets nothing be started now. It goes on by itself when the window ends.",
        "Wait. To give the held room back earlier, cancel.",
        (Way.WAIT, Way.CANCEL, Way.ROLL_BACK),
    ),
    Cause(
        "node-maintained",
        "Somebody else works on one of its nodes",
        "A driver upgrade, kured, Karpenter or the cluster-autoscaler has the node in hands. Nothing new is "
        "started; evicted pods are still landed. It is never fought.",
        "Wait until that is over, then resume: everything is looked at anew. If the node does not come back, "
        "cancel.",
        AGAIN,
    ),
    Cause(
        "kill-switch",
        "The kill switch stopped it",
        "Somebody stopped all changes on this cluster. It does not go on by itself, not even after the "
        "switch is off.",
        "Ask whoever threw it (page Policies). Once it is off, resume or cancel.",
        AGAIN,
    ),
    Cause(
        "kill-switch-cluster",
        "The kill switch in the cluster is on",
        "Somebody with kubectl stopped all changes on this cluster by a ConfigMap. It does not go on by "
        "itself, not even after that is gone.",
        "Ask whoever made it: its reason, and kubectl get configmap kill-switch -o yaml "
        "--show-managed-fields. Once it is deleted, resume or cancel.",
        AGAIN,
    ),
    Cause(
        "kill-switch-unreadable",
        "The kill switch in the cluster cannot be read",
        "It could be read before, so nobody knows whether it is on, and nothing new is sent. What is in the "
        "air is landed.",
        "Give the right back (kubectl apply -f deploy/rbac/executor.yaml) or see what is wrong with the API "
        "server. It goes on by itself once it can be read again.",
        BY_ITSELF,
    ),
    Cause(
        "another-console",
        "Another console has the cluster",
        "One console at a time may change a cluster, by a Lease in it. The other one has renewed it within "
        "a minute, so this one sends nothing new. What is in the air is landed.",
        "Go on in the other console, or stop that one (or take the cluster out of it): this one takes over "
        "a minute later by itself. If nobody knows the other one, throw the kill switch in the cluster.",
        BY_ITSELF,
    ),
    Cause(
        "lease-unreadable",
        "The cluster's Lease cannot be kept",
        "Nobody knows whether another console changes the cluster, so nothing new is sent. What is in the "
        "air is landed.",
        "Give the right back (kubectl apply -f deploy/rbac/executor.yaml) or see what is wrong with the API "
        "server. It goes on by itself once the Lease can be renewed.",
        BY_ITSELF,
    ),
    Cause(
        "failures-in-row",
        "The same step failed several times in a row",
        "The cluster answered the same request with an error again and again. Nothing is hurt; nothing new "
        "is started.",
        "Read the answer: a right that is missing, an admission policy, an API server in trouble. Mend that, "
        "then resume.",
        AGAIN,
    ),
    Cause(
        "right-lost",
        "Who started it may not operate any more",
        "Rights are asked before every step, and the person who started it has lost the operator role.",
        "Somebody with the operator role cancels it; or give the role back and resume.",
        (Way.CANCEL, Way.ROLL_BACK, Way.RESUME),
    ),
    Cause(
        "not-as-promised",
        "It is not as it was promised",
        "All steps are done, and fresh lists show something else than what was approved. Our cordons still "
        "stand, so that nobody takes the room meanwhile.",
        "Compare what was promised with what was found. If it is right meanwhile, look again. Otherwise "
        "cancel: that opens the nodes and ends it with the difference on record.",
        (Way.RESUME, Way.CANCEL, Way.ROLL_BACK),
    ),
    Cause(
        "gang-in-part",
        "A gang was left short of members",
        "Everything of ours is given back, but a gang of which this execution evicted members has fewer "
        "Ready ones than it needs, so it does not work.",
        "See why the missing member does not start. Then cancel or roll back once more, which closes this.",
        (Way.CANCEL, Way.ROLL_BACK),
    ),
    Cause(
        "undo-refused",
        "Giving back is refused again and again",
        "The execution is being stopped, and the cluster answers what it sends for that with the same error. "
        "What is still held stands beside it.",
        "Mend what the answer names (a right taken away, an admission policy), then roll back again. Or take "
        "away by hand what is still held, and tell that you have dealt with it.",
        LEFT,
    ),
    Cause(
        "undo-unreachable",
        "The cluster does not answer while things are given back",
        "The execution is being stopped, and nobody could be asked until its deadline. Nothing can be said "
        "of the cluster; what is still held stands beside it by the ledger.",
        "When it answers again, roll back again: everything is looked at anew, nothing is done twice. If the "
        "cluster is gone for good, tell that you have dealt with it.",
        LEFT,
    ),
    Cause(
        "cluster-closed",
        "There is no way into the cluster",
        "Its credential is missing or cannot be read here, so nothing can be looked at or sent.",
        "Give the cluster a credential again (its page), then resume or roll back: everything is looked at "
        "anew.",
        AGAIN,
    ),
    Cause(
        "console-failed",
        "The console's own code fails at it",
        "An error of the console itself came several times in a row, so nothing more is tried. The cluster "
        "has refused nothing; what is held stays held.",
        "Read the worker's log: it names the error, which is to be reported. Resume tries again; cancel "
        "gives everything back. If nothing was begun, start the plan again once that is mended.",
        (*AGAIN, Way.RESTART),
    ),
    Cause(
        "worker-dies",
        "Its workers die at it",
        "Several workers in a row ended while they looked at it, and nothing was done in between, so no "
        "further one is spent. The cluster has refused nothing; what is held stays held.",
        "See why workers end: the kernel's log (out of memory), the limits of their containers, their own "
        "log. Then resume or cancel. If nothing was begun, start the plan again.",
        (*AGAIN, Way.RESTART),
    ),
    Cause(
        "execution-deadline",
        "Its own deadline has passed",
        "It was cancelled by itself, so that nothing of ours stays past its time.",
        "Read which step it waited for; ask for a new plan when that is mended.",
        (Way.ANEW,),
    ),
    Cause(
        "plan-changed",
        "The cluster is not as it was approved",
        "The preflight looked afresh and found something changed. Nothing was touched; the plan is stale.",
        "Ask for a new plan: a stale one is never bent to fit.",
        (Way.ANEW,),
    ),
    Cause(
        "preflight-refused",
        "The preflight refused to begin",
        "A right, a disruption budget, an address or a rule of the policy stands against it. Nothing was "
        "touched, and the approval still stands.",
        "Mend what it names, then start the plan again.",
        (Way.RESTART, Way.ANEW),
    ),
    Cause(
        "cluster-unreadable",
        "The cluster could not be read",
        "What cannot be looked at is not changed. Nothing was touched, and the approval still stands.",
        "See the cluster's page: address, certificate, credential. Then start the plan again.",
        (Way.RESTART, Way.ANEW),
    ),
    Cause(
        "stopped-by-person",
        "A person stopped it",
        "It was cancelled or rolled back. What was evicted stays evicted; its owners replace it.",
        "See that what was evicted runs again. The last line says whether the plan can be started again.",
        (Way.RESTART, Way.ANEW),
    ),
)
