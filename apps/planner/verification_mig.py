"""An independent check of what a plan of goal mig relays and starts.

Its own legality, from the rows of the placement tables alone, and its own count of instances. Shares
nothing with the planner of that goal but the rows of the tables and facts. Moves as such, and who may stand
beside whom: see verification.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from apps.planner.inventory import Gpu, Node, Pod, Tie
from apps.planner.mig.catalogue import MODELS, UnknownModel, find_model
from apps.planner.mig.models import MigModel, Profile
from apps.planner.outcome import wants_device
from apps.planner.plan import Plan, Reconfiguration
from apps.planner.snapshot import Snapshot

PREFIX = "nvidia.com/mig-"


def check_mig_plan(snapshot: Snapshot, plan: Plan) -> list[str]:
    """Every violation found, one sentence each."""
    faults: list[str] = []
    named: set[tuple[str, int]] = set()
    for one in plan.reconfigurations:
        faults += _check_cut(snapshot, one)
        if (one.node, one.index) in named:
            faults.append(f"GPU {one.index} of {one.node} is relaid twice")
        named.add((one.node, one.index))
    if [one.order for one in plan.reconfigurations] != list(range(1, len(plan.reconfigurations) + 1)):
        faults.append("the order of the reconfigurations has gaps")
    if faults:
        return faults
    return [*_check_users(snapshot, plan), *_check_rooms(snapshot, plan)]


def _check_cut(snapshot: Snapshot, one: Reconfiguration) -> list[str]:
    node = snapshot.nodes.get(one.node)
    gpu = next((gpu for gpu in node.gpus if gpu.index == one.index), None) if node else None
    if node is None or gpu is None or one.gpu not in (gpu.uuid, str(gpu.index)):
        return [f"{one.node} has no GPU {one.gpu}"]
    faults: list[str] = []
    if not node.ready or node.unschedulable or node.stale_since is not None or not gpu.healthy:
        faults.append(f"GPU {one.index} of {one.node} is not fit to be relaid")
    if node.mig_strategy != "mixed":
        faults.append(f"{one.node} does not offer instances by profile (mig.strategy)")
    if dict(one.before) != dict(_instances(node, gpu)):
        faults.append(f"GPU {one.index} of {one.node} is not cut as the plan says")
    model = MODELS.get(one.model)
    try:
        is_that = find_model(node.model) is model
    except UnknownModel:
        is_that = False
    if model is None or not is_that:
        return [*faults, f"{one.node} does not have GPUs of the model {one.model}"]
    uncertain = any(str(word) != "recorded" for word in (model.names, model.placements))
    if uncertain and not one.needs_confirmation:
        faults.append(f"layouts of {one.model} are not certain, and nobody is asked to confirm them")
    if not is_legal(model, one.after):
        faults.append(f"{dict(one.after)} is no legal layout of {one.model}")
    return faults


def is_legal(model: MigModel, counts: Mapping[str, int]) -> bool:
    """Whether some set of start slices holds exactly these instances, by trying them."""
    rows = {row.name: row for row in model.profiles}
    if not counts or any(name not in rows or number < 1 for name, number in counts.items()):
        return False
    wanted = [rows[name] for name, number in counts.items() for _ in range(number)]
    if any(number > rows[name].most for name, number in counts.items()):
        return False
    if sum(1 for row in wanted if row.media) > 1 or (
        model.shares_engines and not _engines_suffice(model, wanted)
    ):
        return False
    return len(wanted) <= model.axis and _seats_exist(sorted(wanted, key=lambda row: row.name), 0, -1)


def _seats_exist(wanted: list[Profile], taken: int, last: int) -> bool:
    """Bit n of `taken` is memory slice n; equal profiles in ascending order only."""
    if not wanted:
        return True
    row, rest = wanted[0], wanted[1:]
    for start in row.starts:
        bits = ((1 << row.memory_slices) - 1) << start
        if start > last and not taken & bits:
            is_equal = bool(rest) and rest[0].name == row.name
            if _seats_exist(rest, taken | bits, start if is_equal else -1):
                return True
    return False


def _engines_suffice(model: MigModel, wanted: list[Profile]) -> bool:
    for name in ("decoders", "encoders", "jpeg", "optical_flow"):
        have = max(getattr(row.engines, name) or 0 for row in model.profiles)
        if sum(getattr(row.engines, name) or 0 for row in wanted) > have:
            return False
    return True


def _check_users(snapshot: Snapshot, plan: Plan) -> list[str]:
    """Nobody's instance is touched while he uses it."""
    faults: list[str] = []
    moved = {move.pod_uid for move in plan.moves}
    for one in plan.reconfigurations:
        node = snapshot.nodes[one.node]
        gpu = next(gpu for gpu in node.gpus if gpu.index == one.index)
        gone = moved if one.after_moves else set()
        faults += [
            f"GPU {one.index} of {one.node} is relaid while {who} uses it"
            for uid, who in sorted(find_users(snapshot, node, gpu).items())
            if uid not in gone
        ]
    return faults


def find_users(snapshot: Snapshot, node: Node, gpu: Gpu) -> dict[str, str]:
    """Who holds the GPU or a part of it, name by uid; everybody on the node where that is not known."""
    mine = _uuids(gpu)
    everybody = {pod.uid: pod.key for pod in snapshot.pods_on(node.name) if _may_hold(pod)}
    named = {
        holding.pod_uid: everybody.get(holding.pod_uid, "somebody")
        for holding in node.holdings or ()
        if holding.device in mine
    }
    if len(node.gpus) == 1:
        return {**named, **everybody}
    devices = {uuid for other in node.gpus for uuid in _uuids(other)}
    found = Counter(holding.pod_uid for holding in node.holdings or () if holding.device in devices)
    if any(found[uid] < _devices(snapshot.pods[uid], node) for uid in everybody):
        return {**named, **everybody}
    return named


def _may_hold(pod: Pod) -> bool:
    """Devices by resource claim stand in no request, but they make the pod stay."""
    return not pod.hold and (wants_device(pod) or Tie.CLAIMS in pod.ties)


def _uuids(gpu: Gpu) -> set[str]:
    return {gpu.uuid, *(one.uuid for one in gpu.instances)} - {""}


def _devices(pod: Pod, node: Node) -> int:
    return (
        sum(
            amount
            for name, amount in pod.requests.items()
            if name.startswith(PREFIX) or name == node.gpu_resource
        )
        or 1
    )


@dataclass(slots=True)
class _Stock:
    """What a node offers of each resource, and what is asked of it."""

    offered: dict[str, Counter[str]] = field(default_factory=dict)
    asked: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def faults(self, when: str, names: Iterable[str]) -> list[str]:
        return [
            f"{when}: {name} has {self.offered[name][resource]} of {resource}, {amount} are asked"
            for name in sorted(set(names))
            for resource, amount in sorted(self.asked[name].items())
            if amount > self.offered[name][resource]
        ]


def _check_rooms(snapshot: Snapshot, plan: Plan) -> list[str]:
    faults: list[str] = []
    draining = {one.node for one in plan.reconfigurations if one.after_moves}
    early = _stock(snapshot, [one for one in plan.reconfigurations if not one.after_moves])
    final = _stock(snapshot, plan.reconfigurations)
    for move in plan.moves:
        pod = snapshot.pods[move.pod_uid]
        if move.target in draining:
            faults.append(f"{move.pod} moves onto {move.target}, which is being drained")
        early.asked[move.target].update(_requests(pod))
        final.asked[move.source].subtract(_requests(pod))
        final.asked[move.target].update(_requests(pod))
    for one in plan.hand_overs:
        final.asked[one.node].update(_requests(snapshot.pods[one.pod_uid]))
    targets = [move.target for move in plan.moves]
    touched = [*targets, *(one.node for one in plan.hand_overs), *(one.node for one in plan.reconfigurations)]
    return faults + early.faults("while pods move", targets) + final.faults("at the end", touched)


def _stock(snapshot: Snapshot, cuts: Iterable[Reconfiguration]) -> _Stock:
    stock = _Stock()
    for name, node in snapshot.nodes.items():
        stock.offered[name] = Counter(dict(node.allocatable))
        for pod in snapshot.pods_on(name):
            if not pod.hold:
                stock.asked[name].update(_requests(pod))
    emptied: set[str] = set()
    for one in cuts:
        node, offered = snapshot.nodes[one.node], stock.offered[one.node]
        if not any(gpu.instances for gpu in node.gpus) and one.node not in emptied:
            # Which GPU has which instances is not known: all of the node's go.
            emptied.add(one.node)
            for resource in [name for name in offered if name.startswith(PREFIX)]:
                offered[resource] = 0
        if not one.before and offered[node.gpu_resource] > 0:
            offered[node.gpu_resource] -= 1
        offered.subtract({_resource(profile): number for profile, number in one.before.items()})
        offered.update({_resource(profile): number for profile, number in one.after.items()})
    return stock


def _requests(pod: Pod) -> dict[str, int]:
    return {**{name: amount for name, amount in pod.requests.items() if amount > 0}, "pods": 1}


def _instances(node: Node, gpu: Gpu) -> Mapping[str, int]:
    """What the GPU is cut into; the only GPU of a node, when nobody knows where, by what is offered."""
    if len(node.gpus) == 1 and all(one.start_slice is None for one in gpu.instances):
        offers = {name.removeprefix(PREFIX): amount for name, amount in node.allocatable.items() if amount}
        names = {
            _resource(row.name).removeprefix(PREFIX): row.name
            for model in MODELS.values()
            for row in model.profiles
        }
        return {names[name]: amount for name, amount in offers.items() if name in names}
    return Counter(one.profile for one in gpu.instances)


def _resource(profile: str) -> str:
    return PREFIX + profile.replace("+", ".")
