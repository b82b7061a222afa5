"""What a check of the preflight is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from apps.executions.steering_forms import Choice, choose_form
from apps.kube.errors import NotFound
from apps.kube.gateway import Gateway, Json, Kind
from apps.kube.object_store import KeptObject
from apps.kube.own_rights import OwnRights
from apps.planner.inventory import Pod, Workload
from apps.planner.movability import MovabilityRules
from apps.planner.plan import Move, Plan, Preemption
from apps.planner.snapshot import Snapshot
from apps.planner.waiving import waive
from apps.plans.models import PlanVersion


@dataclass(frozen=True, slots=True)
class Objection:
    """Why the plan may not begin here and now: one sentence with what, where and what to do.

    pod_uid: of the approved pod that it is about, "" where it is about the whole plan. is_note: nothing is
    refused for it; whoever decides should know.
    """

    sentence: str
    pod_uid: str = ""
    is_note: bool = False


@dataclass(frozen=True)
class Look:
    """One look at the cluster. picture: from LISTs made now. rules: with the plan's waivers in force. now:
    the database's clock. read: such lists as checks ask for again."""

    version: PlanVersion
    plan: Plan
    picture: Snapshot
    gateway: Gateway
    now: datetime
    read: Mapping[Kind, Sequence[KeptObject]] = field(default_factory=dict)
    _listed: dict[Kind, list[Json]] = field(default_factory=dict)

    @cached_property
    def rules(self) -> MovabilityRules:
        return MovabilityRules(waive(self.picture, self.plan.waivers))

    @cached_property
    def leaving(self) -> list[Pod]:
        """The approved pods that are there: those that move, then those that give way."""
        both: list[Move | Preemption] = [*self.plan.moves, *self.plan.preemptions]
        return [self.picture.pods[one.pod_uid] for one in both if one.pod_uid in self.picture.pods]

    @cached_property
    def moving(self) -> list[Pod]:
        """Of these, the ones for which a replacement comes."""
        return [self.picture.pods[m.pod_uid] for m in self.plan.moves if m.pod_uid in self.picture.pods]

    @cached_property
    def steering(self) -> Choice:
        """How replacements are steered here; asked of the cluster once. Raises KubeError."""
        return choose_form(self.gateway, self.rights)

    @cached_property
    def rights(self) -> OwnRights:
        """What our credential may, as of this look."""
        return OwnRights(self.gateway)

    def owner_of(self, pod: Pod) -> Workload | None:
        return self.picture.workloads.get(pod.workload)

    def name_of_owner(self, pod: Pod) -> str:
        """ "Deployment ml/web" for a pod of its ReplicaSet: what a person looks for."""
        owner = self.owner_of(pod)
        parent = self.picture.workloads.get(owner.parent) if owner is not None else None
        kind = parent.kind if parent is not None else pod.owner_kind
        return f"{kind} {pod.namespace}/{self.picture.workload_name(pod)}"

    def listed(self, kind: Kind) -> list[Json]:
        """All objects of a kind as the API gives them, read once (what the picture was made from without what
        `kube.trimming` leaves out); none where the cluster lacks the kind. Raises KubeError."""
        if kind not in self._listed and kind in self.read:
            self._listed[kind] = [one.open() for one in self.read[kind]]
        if kind not in self._listed:
            try:
                self._listed[kind] = self.gateway.list_objects(kind).objects
            except NotFound:
                self._listed[kind] = []
        return self._listed[kind]


Check = Callable[[Look], Iterable[Objection]]
