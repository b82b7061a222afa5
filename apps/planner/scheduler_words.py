"""What a pod's own scheduler last said about it, taken apart, beside what the snapshot says to its rules.

kube-scheduler asks its rules in a fixed order and counts a node under the first that refuses it, except that
all short resources of a node are named. `Verdict.first` counts so too, so both can be laid side by side.
Not in here: our own main reason (waiting_words), which also knows links, shares and neighbours of GPUs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from apps.planner.fitting import Reason, reason_of
from apps.planner.inventory import Gang, Pod
from apps.planner.movability import DEFAULT_SCHEDULER
from apps.planner.plain import one_line
from apps.planner.resources import counts_devices

MOST_SAID = 2000
HEAD = re.compile(r"^(\d+)/(\d+) nodes are available: ?(.*)$", re.DOTALL)
AFTERWARDS = re.compile(r"[.,]? ?(?:no new claims to deallocate|preemption: ).*$", re.DOTALL)
PREEMPTION = re.compile(r"preemption: (.*)$", re.DOTALL)
PART = re.compile(r"(\d+) (.*)", re.DOTALL)
NODE_STATES = re.compile(r"\{?node\.kubernetes\.io/(not-ready|unreachable)")
KINDS: Mapping[Reason, str] = {
    Reason.CORDONED: "cordoned",
    Reason.TAINT: "taint",
    Reason.NOT_READY: "taint",
    Reason.SELECTOR: "selector",
    Reason.AFFINITY: "selector",
    Reason.PORT: "port",
    Reason.GPU: "gpu",
    Reason.NO_SUCH_GPU: "gpu",
    Reason.MIG: "mig",
    Reason.CPU: "cpu",
    Reason.MEMORY: "memory",
    Reason.STORAGE: "storage",
    Reason.PODS: "pods",
    Reason.OTHER: "other",
    Reason.VOLUME: "volume",
    Reason.SPREAD: "spread",
    Reason.POD_AFFINITY: "pod-affinity",
    Reason.POD_ANTI_AFFINITY: "pod-affinity",
}
"""Reasons that kube-scheduler knows, by what its words can be told apart. The kubelet's taint of a node that
is not Ready is a taint to it."""
ORDER: tuple[tuple[str, ...], ...] = (
    ("cordoned",),
    ("taint",),
    ("selector",),
    ("port",),
    ("gpu", "mig", "cpu", "memory", "storage", "pods", "other"),
    ("volume",),
    ("spread",),
    ("pod-affinity",),
)
"""Its filters as they are asked; of one line each refusal is counted."""
PHRASES: tuple[tuple[str, str], ...] = (
    ("were unschedulable", "cordoned"),
    ("untolerated taint", "taint"),
    ("node affinity/selector", "selector"),
    ("didn't match the requested node name", "selector"),
    ("plugin(s) [NodeAffinity]", "selector"),
    ("free ports", "port"),
    ("topology spread", "spread"),
    ("volume node affinity", "volume"),
    ("no available volume zone", "volume"),
    ("affinity rules", "pod-affinity"),
    ("Too many pods", "pods"),
)
WORDS = {
    "cordoned": "are cordoned",
    "taint": "have a taint that it does not tolerate, or are not Ready",
    "selector": "do not match its selector or affinity",
    "port": "lack its host port",
    "gpu": "lack free GPUs",
    "mig": "lack MIG instances",
    "cpu": "lack CPU",
    "memory": "lack memory",
    "storage": "lack ephemeral storage",
    "pods": "have no place for another pod",
    "other": "lack another resource",
    "volume": "are out of reach of its volume",
    "spread": "would break its spread",
    "pod-affinity": "are ruled out by rules between pods",
}


@dataclass(frozen=True, slots=True)
class Saying:
    """A scheduler's message. nodes: that it counted, None where it is of another form. counts: nodes by its
    own words. preemption: what it says about that."""

    scheduler: str
    message: str
    nodes: int | None = None
    counts: tuple[tuple[int, str], ...] = ()
    preemption: str = ""

    @property
    def by_kind(self) -> Counter[str]:
        """Words that nobody here knows (of an extender, of a plugin) are kept under "unknown"."""
        found = Counter[str]()
        for number, words in self.counts:
            found[_kind_of(words)] += number
        return found


NOTHING_SAID = Saying(DEFAULT_SCHEDULER, "")


def read_saying(scheduler: str, message: str) -> Saying:
    """ "0/6 nodes are available: 3 Insufficient nvidia.com/gpu, 3 node(s) were unschedulable. preemption: …".

    Anything else is kept as a message without counts."""
    found = HEAD.match(message)
    if found is None:
        return Saying(scheduler, one_line(message))
    body = AFTERWARDS.sub("", found.group(3)).rstrip(". ")
    preemption = PREEMPTION.search(found.group(3))
    counts = []
    for part in re.split(r", (?=\d+ )", body):
        told = PART.fullmatch(part)
        if told:
            counts.append((int(told.group(1)), one_line(told.group(2), 200)))
    return Saying(
        scheduler,
        one_line(message),
        int(found.group(2)),
        tuple(counts),
        one_line(preemption.group(1)) if preemption else "",
    )


def _kind_of(words: str) -> str:
    if words.startswith("Insufficient "):
        resource = words.removeprefix("Insufficient ").strip()
        reason = reason_of(resource)
        return "gpu" if reason is Reason.OTHER and counts_devices(resource) else KINDS[reason]
    return next((kind for phrase, kind in PHRASES if phrase in words), "unknown")


def compare(said: Saying, first: Mapping[str, int], nodes: int, fits: int) -> str:
    """Where the scheduler's message and this snapshot differ, and why; "" where they agree.

    first: nodes by kind, counted as kube-scheduler does. nodes: in the snapshot. fits: those that take it.
    """
    if said.scheduler != DEFAULT_SCHEDULER:
        return f"{said.scheduler} has rules of its own: its words are not compared."
    if not said.message:
        return "kube-scheduler has said nothing about it yet."
    if said.nodes is None:
        return "kube-scheduler stopped before it looked at any node, so there are no counts to compare."
    if said.nodes != nodes:
        return (
            f"kube-scheduler counted {said.nodes} nodes, the snapshot has {nodes}: "
            "its message is from before the last change of the nodes."
        )
    theirs = said.by_kind
    unknown = theirs.pop("unknown", 0)
    if unknown:
        return f"{unknown} nodes are refused by an extender or a plugin, whose rules are not asked here."
    if fits:
        return (
            f"{fits} {'node takes' if fits == 1 else 'nodes take'} it by now: kube-scheduler's message is "
            "from before that, and it tries again after the next change."
        )
    differing = [kind for kind in WORDS if theirs[kind] != first.get(kind, 0)]
    if not differing:
        return ""
    kind = differing[0]
    return (
        f"kube-scheduler counted {theirs[kind]} nodes that {WORDS[kind]}, the snapshot {first.get(kind, 0)}: "
        "one of both is older, as it writes its message anew only when it tries again."
    )


def saying_of(pods: tuple[Pod, ...], gang: Gang | None = None) -> Saying:
    """Of the first of its pods about which anything was said; after it what the scheduler wrote into the
    gang's own object (KAI: "OverLimit: ...") and did not say of the pod too."""
    told = next((pod for pod in pods if pod.unschedulable_message), pods[0])
    saying = read_saying(told.scheduler, told.unschedulable_message)
    own = [
        one_line(f"{reason}: {message}" if reason and message else reason or message)
        for reason, message in (gang.refusals if gang else ())
        if not message or message not in told.unschedulable_message
    ]
    whole = "; ".join(filter(None, (saying.message, *dict.fromkeys(own))))
    return replace(saying, message=whole[:MOST_SAID]) if own else saying
