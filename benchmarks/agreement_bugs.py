"""Answers reports of faults through the product's own functions, each topic in its own way.

A report is JSON: `input` (objects of Kubernetes, series of an exporter, a layout …), `expect`, and words
about what went wrong. What is answered here is worked out from the input alone, by what is in it: no
report is known by its name.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from apps.clusters.dumps import read_dump_texts
from apps.clusters.mig_node_answer import answer_node
from apps.planner.costs import DEFAULT_COSTS
from apps.planner.defrag import plan_free_nodes
from apps.planner.finished import group_finished
from apps.planner.inventory import Node
from apps.planner.ledger import node_ledger
from apps.planner.ledger_devices import compute_slices
from apps.planner.ledger_rows import NodeLedger
from apps.planner.mig.catalogue import find_model, models_with
from apps.planner.mig.changing import is_stuck, read_change
from apps.planner.mig.layouts import Cut
from apps.planner.mig.nodes import asked_profiles
from apps.planner.mig.placing import place_counts, why_unplaceable
from apps.planner.mig.reaching import moves_that_make_room, what_fits, why_not_now
from apps.planner.movability import movability
from apps.planner.plan import Move
from apps.planner.resources import is_device_resource
from apps.planner.returning import Moved, find_returns
from apps.planner.snapshot import Snapshot
from apps.planner.waiting import explain_pending

Json = Mapping[str, Any]
Answer = dict[str, Any]
NOON = "2026-03-01T12:00:00Z"
STAND_IN = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1", "uid": "n1"},
    "status": {
        "capacity": {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"},
        "allocatable": {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}
"""For reports that name pods only."""


def answer_bug(path: Path) -> Answer:
    """{"refused": why} where no topic here speaks of such an input."""
    report = json.loads(path.read_text(encoding="utf-8"))
    given, wanted = report["input"], set(report["expect"])
    for needed, promised, answer in TOPICS:
        if needed <= set(given) and (not promised or promised & wanted):
            return answer(given)
    return {"refused": f"no topic speaks of {', '.join(sorted(given))}"}


def open_report(given: Json, *, now: str = "") -> Snapshot:
    """The report's objects as a snapshot, through the reader of dumps. Objects get a UID where they lack one,
    and nodes the host resources that a report leaves out."""
    objects = [*given.get("nodes", ()), *given.get("pods", ())] or [STAND_IN]
    if not given.get("nodes"):
        objects = [STAND_IN, *objects]
    made = []
    for number, raw in enumerate(json.loads(json.dumps(objects))):
        raw["metadata"].setdefault("uid", f"uid-{number}-{raw['metadata']['name']}")
        if raw["kind"] == "Node":
            for part in ("capacity", "allocatable"):
                host = {"cpu": "64", "memory": "512Gi", "pods": "110"}
                raw["status"][part] = {**host, **raw["status"].get(part, {})}
            if now:
                raw["status"]["conditions"][0]["lastHeartbeatTime"] = now
        made.append(raw)
    return read_dump_texts([("report", json.dumps({"kind": "List", "apiVersion": "v1", "items": made}))])


def only_node(snapshot: Snapshot) -> tuple[Node, NodeLedger]:
    node = next(iter(snapshot.nodes.values()))
    return node, node_ledger(snapshot, node)


def place_wanted(given: Json) -> Answer:
    """Can a GPU be cut like that, and where would the instances start?"""
    model = find_model(given["gpu"])
    why = why_unplaceable(model, given["want"])
    layout = place_counts(model, given["want"]) or ()
    return {"legal": not why, "reason": why, "placements": {cut.profile: cut.start for cut in layout}}


def fit_more(given: Json) -> Answer:
    """What fits beside scattered instances, and which one to cut anew elsewhere so that more does."""
    model = find_model(given["gpu"]["model"])
    layout = [Cut(one["start"], one["profile"]) for one in given["gpu"]["instances"]]
    moves = {
        name: found
        for name in what_fits(model, layout)
        if not what_fits(model, layout)[name] and (found := moves_that_make_room(model, layout, name))
    }
    answer: Answer = {"can_fit": what_fits(model, layout)}
    for cut, starts in next(iter(moves.values()), ()):
        moved = [one for one in layout if one != cut] + [Cut(starts[0], cut.profile)]
        answer["after_move"] = {
            "move": {"from": cut.start, "to": list(starts)},
            "can_fit": what_fits(model, moved),
        }
    return answer


def follow_change(given: Json) -> Answer:
    """Where a MIG change stands, for so long."""
    node, _ = only_node(open_report(given))
    change = read_change(node)
    told = answer_node(node)
    stuck = is_stuck(change, float(given.get("started_seconds_ago", 0)) or None)
    return {
        "state": "stuck" if stuck else str(change.stage),
        "action": told["repair"],
        "done": told["done"],
        "reason": f"{told['sentence']} {change.promised} is not offered".strip(),
    }


def change_layout(given: Json) -> Answer:
    snapshot = open_report(given)
    name = given["change"]["node"]
    why = why_not_now(snapshot.nodes[name], snapshot.pods_on(name))
    return {"allowed_now": not why, "reason": why}


def outlive_reboot(given: Json) -> Answer:
    """Holders that were recorded, on the instances that are seen now."""
    record, seen = given["record"], given["observed"]
    matrix = {
        "version": 1,
        "observed_at": NOON,
        "gpus": [{"index": 0, "uuid": "GPU-0"}],
        "links": [["X"]],
        "mig": {"GPU-0": seen["instances"]},
    }
    held = {
        one["uuid"]: [{"namespace": "default", "pod": one["pod"], "uid": f"uid-{one['pod']}"}]
        for one in record["instances"]
    }
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": record["node"],
            "creationTimestamp": NOON,
            "labels": {"nvidia.com/gpu.count": "1", "nvidia.com/mig.strategy": "mixed"},
            "annotations": {
                "topology.gpu.internal/matrix": json.dumps(matrix),
                "topology.gpu.internal/holders": json.dumps(
                    {"version": 1, "observed_at": NOON, "devices": held}
                ),
            },
        },
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }
    pods = [plain_pod(one["pod"], record["node"]) for one in record["instances"]]
    _, ledger = only_node(open_report({"nodes": [node], "pods": pods}))
    valid = sum(len(row.all_takers) for row in ledger.devices)
    lost = sorted({taker.pod for taker in ledger.strays})
    return {"valid_instances": valid, "action": f"held devices that are not there: {', '.join(lost)}"}


def plain_pod(name: str, node: str, requests: Json | None = None) -> Answer:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "c", "resources": {"requests": dict(requests or {})}}],
        },
        "status": {"phase": "Running"},
    }


def count_node(given: Json) -> Answer:
    """GPUs of one node in every number that a report may ask for."""
    snapshot = open_report(given, now=given.get("now", ""))
    node, ledger = only_node(snapshot)
    main = ledger.main
    units = main.units_offered or 0
    names = sorted(name for name in {*node.capacity, *node.allocatable} if is_device_resource(name))
    asked = {name: sum(pod.requests.get(name, 0) for pod in snapshot.pods_on(node.name)) for name in names}
    return {
        "physical": main.physical,
        "cards": main.physical + sum(group.physical for group in ledger.others),
        "total": main.physical,
        "units": units,
        "schedulable": main.schedulable,
        "healthy": main.physical - main.unhealthy - main.withheld,
        "unhealthy": main.unhealthy + main.withheld,
        "free": main.units_free,
        "used": asked if not main.physical else main.units_used,
        "alive": node.stale_since is None if main.alive is None else main.alive,
        "accelerator_resources": names,
    }


def read_register(given: Json) -> Answer:
    """A register annotation by itself, on a node that offers nothing but what it says."""
    node = json.loads(json.dumps(STAND_IN))
    for part in ("capacity", "allocatable"):
        node["status"][part] = {"volcano.sh/vgpu-number": "8"}
    node["metadata"]["annotations"] = {"volcano.sh/node-vgpu-register": given["annotation"]}
    _, ledger = only_node(open_report({"nodes": [node]}))
    return {"devices": ledger.physical, "healthy": all(row.gpu.healthy for row in ledger.devices)}


def count_used(given: Json) -> Answer:
    """Of pods alone: what they hold."""
    _, ledger = only_node(open_report(given))
    return {"used": ledger.main.units_used}


def judge_pods(given: Json) -> Answer:
    """Of pods alone: what each is to the planner."""
    snapshot = open_report(given)
    pods = list(snapshot.pods.values())
    asked = [asked_profiles(pod) for pod in pods]
    return {
        "card_share": pods[0].gpu_milli / 1000,
        "unmovable": [pod.name for pod in pods if not movability(snapshot, pod).movable],
        "gpu_equivalent": sum(map(gpu_equivalent, asked)),
        "whole": sum(pod.requests.get("nvidia.com/gpu", 0) for pod in pods),
    }


def gpu_equivalent(profiles: Mapping[str, int]) -> float:
    models = models_with(set(profiles))
    if not profiles or not models:
        return 0.0
    slices = sum(number * compute_slices(name, models[0]) for name, number in profiles.items())
    return slices / models[0].compute_slices


def explain_wait(given: Json) -> Answer:
    """Does what waits fit, and if not, why?"""
    snapshot = open_report(given)
    waits = next(iter(explain_pending(snapshot)), None)
    if waits is None:
        return {"refused": "nothing waits"}
    fits = None if waits.reason_code == "gpu-memory-unknown" else waits.reason_code == "fits"
    return {"fits": fits, "reason": waits.sentence, "stop": not fits}


def empty_nodes(given: Json) -> Answer:
    """What the planner moves to free nodes. Where a report wants one node emptied, each other node has a pod
    that stays: onto a node that is free itself nothing is moved, since nothing would be gained."""
    nodes = [node["metadata"]["name"] for node in given["nodes"]]
    stays = [plain_pod(f"stays-{name}", name, {"nvidia.com/gpu": "1"}) for name in nodes[1:]]
    beside = stays if "goal" in given else []
    snapshot = open_report({**given, "pods": [*given["pods"], *beside]})
    plan = plan_free_nodes(snapshot, max_moves=10, deadline=lambda: False, policy=DEFAULT_COSTS)
    moved = [move.pod.partition("/")[2] for move in plan.moves]
    left = [pod["metadata"]["name"] for pod in given["pods"] if pod["metadata"]["name"] not in moved]
    return {"moves": moved, "not_moved": left, "evictions": len(moved), **_under(given, snapshot)}


def _under(given: Json, snapshot: Snapshot) -> Answer:
    """Nodes used less than the threshold of a resource that they have."""
    found = []
    for resource, percent in given.get("threshold", {}).items():
        for node in snapshot.nodes.values():
            ledger = node_ledger(snapshot, node)
            for group in (ledger.main, *ledger.others):
                offered = group.units_offered if group.resource == resource else None
                if offered and group.units_used * 100 < percent * offered:
                    found.append(node.name)
    return {"underutilized": found}


def move_again(given: Json) -> Answer:
    """The last move's pod, to where the one before came from."""
    history = [
        Moved(f"{one['pod_owner']}-{at}", f"{one['pod_owner']}-{at + 1}", one["from_"], one["to"])
        for at, one in enumerate(given["history"])
    ]
    last = history[-1]
    uid = last.successor_uid
    move = Move(1, 1, uid, uid, last.target, last.source, gpus=1, cost=0.0, reason="asked again")
    return {"next_move_allowed": not find_returns([move], history)}


def compare_links(given: Json) -> Answer:
    """Nodes of one model whose network cards do not lie as those of the others; rows are GPUs."""
    nodes = []
    for name, rows in given["nodes"].items():
        size = range(len(rows))
        told = {
            "version": 1,
            "observed_at": NOON,
            "gpus": [{"index": at, "uuid": f"GPU-{name}-{at}"} for at in size],
            "links": [["X" if one == other else "SYS" for other in size] for one in size],
            "nics": [{"name": f"mlx5_{at}", "numa": None} for at in range(len(rows[0]))],
            "nic_links": rows,
        }
        amounts = {"nvidia.com/gpu": str(len(rows))}
        nodes.append(plain_node(name, amounts, {"topology.gpu.internal/matrix": json.dumps(told)}))
    told = _ask_objects(nodes)
    return {"odd": [one["node"] for one in told.get("odd_links", ())]}


def find_ghost_pods(given: Json) -> Answer:
    """A scheduler's memory of pods, as the holders that a node is said to have."""
    snapshot = open_report(given)
    _, ledger = only_node(snapshot)
    held = {
        f"GPU-{pod}-{at}": [{"uid": pod}]
        for pod, number in given["scheduler_cache"].items()
        for at in range(number)
    }
    told = {"version": 1, "observed_at": NOON, "devices": held}
    raw = json.loads(json.dumps(given["nodes"][0]))
    raw["metadata"]["annotations"] = {"topology.gpu.internal/holders": json.dumps(told)}
    ghosts = _ask_objects([raw, *given["pods"]]).get("ghosts", ())
    return {"used": ledger.main.units_used, "ghost": [one["uid"] for one in ghosts]}


def fail_in_a_loop(given: Json) -> Answer:
    """Many pods of one workload that failed alike, beside those that run."""
    pods = list(given["pods"])
    for number in range(given["failed_pods"]):
        pod = json.loads(json.dumps(given["pods"][0]))
        pod["metadata"] |= {"name": f"failed-{number}", "uid": f"uid-failed-{number}"}
        pod["status"] = {"phase": "Failed", "reason": "UnexpectedAdmissionError"}
        pods.append(pod)
    snapshot = open_report({**given, "pods": pods})
    _, ledger = only_node(snapshot)
    return {"used": ledger.main.units_used, "groups": len(group_finished(snapshot))}


def count_partitions(given: Json) -> Answer:
    """Options of one partitionable card, which share its counters."""
    used = [{"counterSet": given["counter_set"], "counters": {"memory": {"value": "1Gi"}}}]
    devices = [
        {
            "name": one["name"],
            "attributes": {"type": {"string": "gpu" if at == 0 else "mig"}},
            "capacity": {"memory": {"value": one["mem"]}},
            "consumesCounters": used,
        }
        for at, one in enumerate(given["devices"])
    ]
    slice_ = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "n1-gpu", "uid": "slice"},
        "spec": {
            "driver": "gpu.nvidia.com",
            "nodeName": "n1",
            "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
            "sharedCounters": [
                {"name": given["counter_set"], "counters": {"memory": {"value": given["devices"][0]["mem"]}}}
            ],
            "devices": devices,
        },
    }
    bare = plain_node("n1", {}, {})
    snapshot = read_dump_texts([("report", json.dumps({"kind": "List", "items": [bare, slice_]}))])
    node, ledger = only_node(snapshot)
    memory = {gpu.memory_mib for gpu in node.gpus}
    return {
        "physical": ledger.physical,
        "memory": f"{sum(one or 0 for one in memory) // 1024}Gi" if None not in memory else None,
    }


def plain_node(name: str, amounts: Json, annotations: Json) -> Answer:
    host = {"cpu": "64", "memory": "512Gi", "pods": "110", **amounts}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": name, "annotations": dict(annotations)},
        "status": {
            "capacity": host,
            "allocatable": host,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _ask_objects(objects: list[Any]) -> Answer:
    from benchmarks.agreement import ask_command

    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    return _ask_text("read_dump", text, ask_command)


def measure_series(given: Json) -> Answer:
    from benchmarks.agreement import ask_command

    told = _ask_text("read_metrics", "\n".join(given["metrics"]) + "\n", ask_command)
    unit = told["devices"][0]["units"][0]
    util = unit["utilisation_percent"]
    return {
        "key": unit["key"],
        "owner": unit["workloads"][0]["pod"] if unit["workloads"] else None,
        "util": util / 100 if util is not None and unit["instance"] else util,
        "active": util / 100 if util is not None else None,
        "idle": None if util is None else util == 0,
        "mem_used": unit["used_mib"],
    }


def view_from_inside(given: Json) -> Answer:
    """The device's own use beside what a container sees of itself."""
    from benchmarks.agreement import ask_command

    card, host, inside = given["card_mib"], given["host_mib"], given["container_mib"]
    text = (
        f'DCGM_FI_DEV_FB_USED{{gpu="0",UUID="GPU-1"}} {host}\n'
        f'DCGM_FI_DEV_FB_FREE{{gpu="0",UUID="GPU-1"}} {card - host}\n'
        f'vGPU_device_memory_usage_in_bytes{{deviceuuid="GPU-1",podname="p"}} {inside * 2**20}\n'
    )
    return {
        "free_mib_max": _ask_text("read_metrics", text, ask_command)["devices"][0]["units"][0][
            "free_mib_most"
        ]
    }


def _ask_text(command: str, text: str, ask: Callable[[str, Path], Answer]) -> Answer:
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        return ask(command, Path(file.name))


TOPICS: tuple[tuple[set[str], set[str], Callable[[Json], Answer]], ...] = (
    ({"gpu", "want"}, {"legal"}, place_wanted),
    ({"gpu"}, {"can_fit"}, fit_more),
    ({"record", "observed"}, set(), outlive_reboot),
    ({"nodes", "change"}, set(), change_layout),
    ({"nodes"}, {"state", "done"}, follow_change),
    ({"nodes", "pods"}, {"moves", "evictions"}, empty_nodes),
    ({"nodes", "pods"}, {"fits", "stop"}, explain_wait),
    ({"nodes"}, {"odd"}, compare_links),
    ({"nodes", "scheduler_cache"}, set(), find_ghost_pods),
    ({"nodes", "failed_pods"}, set(), fail_in_a_loop),
    ({"devices", "counter_set"}, set(), count_partitions),
    ({"nodes"}, set(), count_node),
    ({"pods"}, {"used"}, count_used),
    ({"pods"}, set(), judge_pods),
    ({"annotation"}, set(), read_register),
    ({"history"}, set(), move_again),
    ({"metrics"}, set(), measure_series),
    ({"container_mib", "host_mib"}, set(), view_from_inside),
)
"""Keys of the input, keys that are asked (one of them at least; none: any), what answers; the first wins."""
