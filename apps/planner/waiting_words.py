"""Why one workload waits, as a code and one sentence, from what the nodes say to it.

Not in here: the workloads themselves and their order (waiting), what no node could ever hold (never).
"""

from __future__ import annotations

from apps.planner.fitting import Fitting, Reason
from apps.planner.gpu_wishes import BAD_REQUEST
from apps.planner.inventory import LinkClass, Pod
from apps.planner.mig.catalogue import profile_resource
from apps.planner.mig.nodes import asked_profiles, offered_profiles
from apps.planner.naming import family_of
from apps.planner.node_verdicts import Verdict
from apps.planner.quota_words import QUEUE_CODES
from apps.planner.rooms import Rooms, is_open_node
from apps.planner.snapshot import Snapshot
from apps.planner.together import place_together

CODES = {
    Reason.GPU: "gpus-scattered",
    Reason.GPU_MEMORY: "gpu-memory",
    Reason.GPU_MEMORY_UNKNOWN: "gpu-memory-unknown",
    Reason.UNREGISTERED: "not-registered",
    Reason.MIG: "mig",
    Reason.CPU: "cpu",
    Reason.MEMORY: "memory",
    Reason.STORAGE: "storage",
    Reason.LINK: "link",
    Reason.LINK_UNKNOWN: "link-unknown",
    Reason.HOLDERS_UNKNOWN: "link-unknown",
    Reason.SELECTOR: "node-selector",
    Reason.AFFINITY: "node-selector",
    Reason.NO_SUCH_GPU: "no-such-gpu",
    Reason.TAINT: "taint",
    Reason.CORDONED: "cordoned",
    Reason.NOT_READY: "not-ready",
    Reason.STALE: "not-ready",
    Reason.DRIFT: "not-ready",
    Reason.POD_AFFINITY: "pod-affinity",
    Reason.POD_ANTI_AFFINITY: "pod-affinity",
    Reason.SPREAD: "spread",
    Reason.PODS: "pods",
    Reason.PORT: "port",
    Reason.VOLUME: "volume",
    Reason.SAVED_WORK: "no-such-gpu",
    Reason.SCHEDULER: "other-scheduler",
    Reason.CLAIMS: "resource-claims",
    Reason.OTHER: "other-resource",
}
NOT_IN_TURN = {
    "gated": "takes no turn while it is gated",
    "gang-incomplete": "takes no turn while members are missing",
    BAD_REQUEST: "takes no turn while its GPURequest cannot be honoured",
    **dict.fromkeys(QUEUE_CODES, "takes no turn before its queue admits it"),
}
"""Reasons that lie in the workload itself: room would not start it, so it pushes nobody back."""
MOST_NAMED = 3
TOO_LARGE = "too-large"
"""Reason code of what no node could hold even if it were empty."""
UNCHANGEABLE = (Reason.SELECTOR, Reason.AFFINITY, Reason.NO_SUCH_GPU, Reason.TAINT)


def say_why(
    snapshot: Snapshot,
    rooms: Rooms,
    fitting: Fitting,
    key: str,
    pods: tuple[Pod, ...],
    verdict: Verdict,
) -> tuple[str, str]:
    pod = max(pods, key=lambda one: rooms.demand(one).gpus)
    gates = sorted({gate for one in pods for gate in one.gates})
    if gates:
        return "gated", f"It waits behind the scheduling gate {', '.join(gates)}."
    missing = missing_members(snapshot, key, pods)
    if missing:
        return "gang-incomplete", f"The gang lacks {missing} of its members; the others wait for them."
    if not snapshot.nodes:
        return "no-nodes", "The cluster has no node, or none that could be read."
    if verdict.fits and (len(pods) == 1 or _all_fit(rooms, fitting, pods)):
        return "fits", f"It fits on {verdict.fits[0]} now; the scheduler has not placed it yet."
    if verdict.fits:
        return _say_gang(pods, verdict, rooms.demand(pod).gpus)
    return _say_single(rooms, pod, verdict)


def _say_gang(pods: tuple[Pod, ...], verdict: Verdict, gpus: int) -> tuple[str, str]:
    nodes = len(verdict.fits)
    return (
        "gpus-scattered" if gpus else "gang-room",
        f"{_free_words(verdict)}, but only {nodes} {'node has' if nodes == 1 else 'nodes have'} room "
        f"for a member; the gang needs room for {len(pods)} at once.",
    )


def _say_single(rooms: Rooms, pod: Pod, verdict: Verdict) -> tuple[str, str]:
    demand, main = rooms.demand(pod), verdict.main
    if main is None:
        return "unknown", "No node takes it."
    if demand.gpus and main is Reason.GPU:
        return _say_gpus(demand.gpus, verdict)
    if main in (Reason.LINK, Reason.LINK_UNKNOWN, Reason.HOLDERS_UNKNOWN):
        wish = demand.link or LinkClass.NODE
        if main is Reason.LINK:
            return "link", f"No node has a group of {demand.gpus} free GPUs tied by {wish}."
        return "link-unknown", f"It wants {demand.gpus} GPUs tied by {wish}, and the links are not known."
    if main is Reason.MIG:
        return CODES[main], _say_mig(rooms, pod)
    total = len([room for room in rooms.by_node.values() if is_open_node(room.node)])
    if main is Reason.GPU_MEMORY_UNKNOWN:
        return CODES[main], f"Whether {_name_nodes(rooms)} may take it is not known: {main}."
    if main is Reason.CLAIMS:
        return CODES[main], f"It wants {' and '.join(pod.claim_wishes) or 'devices'}, {main}."
    if main in UNCHANGEABLE:
        return CODES[main], f"None of the {len(rooms.by_node)} nodes may run it: {main}."
    where = f"No node of {total} takes it" if total else "No node is open now"
    return CODES[main], f"{where}; most often: {main}."


def _name_nodes(rooms: Rooms) -> str:
    names = [name for name, room in rooms.by_node.items() if is_open_node(room.node) and room.node.gpus]
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def _say_gpus(wanted: int, verdict: Verdict) -> tuple[str, str]:
    if verdict.most_on_a_node < wanted:
        where = " that it may use" if verdict.has_larger else ""
        largest = f"the largest has {verdict.most_on_a_node}"
        return TOO_LARGE, f"No node{where} has {wanted} GPUs; {largest}."
    if verdict.free_gpus >= wanted:
        return "gpus-scattered", f"{_free_words(verdict)}, the best node has {verdict.best_free}."
    verb = "is" if verdict.free_gpus == 1 else "are"
    free = f"{verdict.free_gpus or 'none'} {verb} free{free_where(verdict.free_elsewhere)}"
    return "not-enough-gpus", f"It wants {wanted} {_gpu_word(wanted, verdict)}, {free}."


def _say_mig(rooms: Rooms, pod: Pod) -> str:
    """What it asks for, and how many such instances stand idle on nodes that are open."""
    said: list[str] = []
    opened = [room for room in rooms.by_node.values() if is_open_node(room.node)]
    for profile, number in sorted(asked_profiles(pod).items()):
        name = profile_resource(profile)
        idle = sum(max(room.left.get(name, 0), 0) for room in opened)
        cut = sum(offered_profiles(room.node).get(profile, 0) for room in opened)
        have = f"{idle or 'none'} of {cut} free" if cut else "no open node offers any"
        said.append(f"{number} x {profile} ({have})")
    return f"It wants {' and '.join(said)}."


def _free_words(verdict: Verdict) -> str:
    verb = "is" if verdict.free_gpus == 1 else "are"
    word = _gpu_word(verdict.free_gpus, verdict)
    return f"{verdict.free_gpus} {word} {verb} free{free_where(verdict.free_elsewhere)}"


def free_where(elsewhere: int) -> str:
    """Said wherever more is free than is counted, since other pages tell all of it."""
    return " on nodes that it may use" if elsewhere else ""


def _gpu_word(count: int, verdict: Verdict) -> str:
    """ "A100s" where all the nodes that may run it have one model, else "GPUs"."""
    word = "GPU"
    if len(verdict.models) == 1:
        word = family_of(next(iter(verdict.models))) or "GPU"
    return word if count == 1 else f"{word}s"


def missing_members(snapshot: Snapshot, key: str, pods: tuple[Pod, ...]) -> int:
    """How many members a gang lacks before it may start at all."""
    gang = snapshot.gangs.get(key)
    if gang is None:
        return 0
    return max(0, gang.min_members - snapshot.running_members[key] - len(pods))


def _all_fit(rooms: Rooms, fitting: Fitting, pods: tuple[Pod, ...]) -> bool:
    """Whether all of them can start at once, each on the tightest node that takes it."""
    mark = rooms.checkpoint()
    is_room = place_together(rooms, fitting, pods) is not None
    rooms.undo(mark)
    return is_room
