"""What waits, and what its queue says: fields that exist, nodes that are gone, quota that is held."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from apps.kube.gateway import (
    CLUSTER_QUEUES,
    COHORTS,
    ELASTIC_QUOTAS,
    FLAVORS,
    KAI_POD_GROUPS,
    KAI_QUEUES,
    LOCAL_QUEUES,
    QUEUED_WORKLOADS,
    VOLCANO_POD_GROUPS,
    VOLCANO_QUEUES,
)
from apps.kube.translate import build_snapshot
from apps.planner.queue_states import list_queue_states
from apps.planner.waiting import explain_pending
from apps.simulator.scenes.kueue_kinds import DEFINITIONS
from tests.cases.reading import read
from tests.kube.objects import node, pod
from tests.kube.queue_objects import (
    GPU,
    cluster_queue,
    flavor,
    kai_queue,
    kueue_workload,
    local_queue,
    volcano_queue,
)

METADATA = (
    *("name", "namespace", "uid", "resourceVersion", "creationTimestamp", "deletionTimestamp"),
    *("labels", "annotations", "ownerReferences"),
)
KAI_AND_VOLCANO = {
    KAI_QUEUES: """spec.parentQueue spec.priority spec.resources.gpu.quota spec.resources.gpu.limit
        spec.resources.gpu.overQuotaWeight spec.resources.cpu spec.resources.memory status.allocated
        status.allocatedNonPreemptible""",
    KAI_POD_GROUPS: """spec.minMember spec.queue spec.preemptibility spec.subGroups.name
        spec.subGroups.minMember status.phase status.schedulingConditions.status
        status.schedulingConditions.reason status.schedulingConditions.message
        status.schedulingConditions.reasons.reason status.schedulingConditions.reasons.message""",
    VOLCANO_QUEUES: """spec.capability spec.deserved spec.guarantee.resource spec.weight spec.parent
        spec.dequeueStrategy spec.priority status.state status.allocated status.pending status.running""",
    VOLCANO_POD_GROUPS: "spec.minMember spec.queue status.phase",
    ELASTIC_QUOTAS: "spec.min spec.max status.used",
}
"""Fields of these kinds, as their API types have them (KAI v2 and v2alpha2, Volcano v1beta1)."""
ONE_READER_FOR_ALL = {
    VOLCANO_POD_GROUPS: {"spec.subGroups", "spec.preemptibility", "status.schedulingConditions"},
}
"""Pod groups of all schedulers are read by one reader, which asks for these; Volcano's have none of them."""
NEWER = {"spec.cohortName"}
"""Kueue's name of it from v1beta2 on; the simulated kinds are v1beta1."""
OLDER = {"spec.parent"}
"""A cohort's parent in v1alpha1."""


class Recorded(dict[str, Any]):
    """Remembers under which path which key was asked for."""

    def __init__(self, found: dict[str, Any], asked: set[str], path: str = "") -> None:
        super().__init__({key: wrap(value, asked, f"{path}{key}.") for key, value in found.items()})
        self._asked, self._path = asked, path

    def get(self, key: str, default: Any = None) -> Any:
        self._asked.add(f"{self._path}{key}")
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self._asked.add(f"{self._path}{key}")
        return super().__getitem__(key)


def wrap(value: Any, asked: set[str], path: str) -> Any:
    if isinstance(value, dict):
        return Recorded(value, asked, path)
    return [wrap(one, asked, path) for one in value] if isinstance(value, list) else value


def paths_of(schema: dict[str, Any], path: str = "") -> set[str]:
    """Every field that a definition names; what keeps anything ends with "*"."""
    if schema.get("x-kubernetes-preserve-unknown-fields") or "additionalProperties" in schema:
        return {f"{path}*"}
    found: set[str] = set()
    for name, part in schema.get("properties", {}).items():
        found |= {f"{path}{name}"} | paths_of(part.get("items", part), f"{path}{name}.")
    return found


def contract_of(plural: str) -> set[str]:
    (definition,) = (one for one in DEFINITIONS if one["spec"]["names"]["plural"] == plural)
    return paths_of(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"])


def is_known(path: str, known: set[str]) -> bool:
    if path.startswith("metadata."):
        return path.split(".")[1] in METADATA
    is_above = any(one.startswith(f"{path}.") for one in known)
    is_below = any(path.startswith(one[:-1]) for one in known if one.endswith("*"))
    return path in known or path == "metadata" or is_above or is_below


SUSPENDED = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": "24 more needed"}
BACK_OFF = {
    "requeueState": {"count": 1, "requeueAt": "2026-01-02T00:00:00Z"},
    "admissionChecks": [{"name": "prov", "state": "Pending"}],
}


@pytest.mark.parametrize(
    ("kind", "things"),
    [
        (CLUSTER_QUEUES, [cluster_queue(cohort="all", borrowing=1, lending=1)]),
        (LOCAL_QUEUES, [local_queue()]),
        (COHORTS, [{"metadata": {"name": "all"}, "spec": {"parentName": "top", "resourceGroups": []}}]),
        (FLAVORS, [flavor(nodeLabels={"a": "b"}, nodeTaints=[{"key": "k"}], tolerations=[{"key": "k"}])]),
        (
            QUEUED_WORKLOADS,
            [
                kueue_workload(conditions=[SUSPENDED], status=BACK_OFF),
                kueue_workload("b", admitted_by="team-a"),
            ],
        ),
    ],
)
def test_only_fields_that_kueue_has_are_read(kind, things):
    """kueue#5139: a status was read from a field that does not exist, and was "Unknown" for ever."""
    asked: set[str] = set()
    build_snapshot("c1", {kind: [Recorded(one, asked) for one in things]}, taken_at=1.0)
    known = contract_of(kind.plural) | NEWER | (OLDER if kind == COHORTS else set())
    assert {path for path in asked if not is_known(path, known)} == set()
    assert len({path for path in asked if path.startswith(("spec.", "status."))}) > 1


@pytest.mark.parametrize(
    ("kind", "thing"),
    [
        (KAI_QUEUES, kai_queue(parent="root", quota=1, limit=2, overQuotaWeight=1)),
        (VOLCANO_QUEUES, volcano_queue(capability={GPU: 1}, deserved={GPU: 1}, guarantee={"resource": {}})),
        (
            ELASTIC_QUOTAS,
            {"metadata": {"name": "e"}, "spec": {"min": {GPU: 1}, "max": {}}, "status": {"used": {}}},
        ),
        (
            KAI_POD_GROUPS,
            {
                "metadata": {"name": "g", "namespace": "ml", "uid": "u"},
                "spec": {"subGroups": [{"name": "s", "minMember": 1}]},
                "status": {"schedulingConditions": [{"reasons": [{"reason": "OverLimit", "message": "m"}]}]},
            },
        ),
        (VOLCANO_POD_GROUPS, {"metadata": {"name": "g", "uid": "u"}, "spec": {}, "status": {}}),
    ],
)
def test_only_fields_that_kai_volcano_and_elastic_quotas_have_are_read(kind, thing):
    asked: set[str] = set()
    build_snapshot("c1", {kind: [Recorded(thing, asked)]}, taken_at=1.0)
    known = {*KAI_AND_VOLCANO[kind].split(), *ONE_READER_FOR_ALL.get(kind, ())}
    known |= {f"{path}.*" for path in known}
    assert {path for path in asked if not is_known(path, known)} == set()
    assert any(path.startswith(("spec.", "status.")) for path in asked)


def test_a_workload_that_names_a_node_which_is_gone_is_told_so():
    """kueue PR#10435: it waited for ever, and nothing said why."""
    gone = {"nodeSelector": {"kubernetes.io/hostname": "node-gone"}}
    snapshot = read(
        node(),
        flavor(),
        cluster_queue(quota=112),
        local_queue(),
        kueue_workload(pods=1, spec=gone),
    )
    (found,) = explain_pending(snapshot)
    assert (found.key, found.has_pods) == ("team-a/llama", False)
    assert found.reason_code == "node-selector"
    assert "kubernetes.io/hostname=node-gone" in found.sentence


def test_a_gpu_of_a_pod_that_ends_is_not_given_out_again_before_it_is_gone():
    """kueue#10076: its quota was free at once, and too much was admitted."""
    ended = kueue_workload("gone", conditions=[{"type": "Finished", "status": "True"}])
    ending = pod(
        "gone-0",
        gpus=8,
        on="node-a",
        owner=("Job", "gone"),
        metadata={"deletionTimestamp": "2026-01-02T00:00:00Z"},
    )
    things = [node(), flavor(), cluster_queue(quota=8), local_queue(), kueue_workload(pods=1), ended]
    assert explain_pending(read(*things))[0].reason_code == "not-admitted"
    (found,) = explain_pending(read(*things, ending))
    assert found.reason_code == "quota"
    assert found.sentence.startswith("Queue team-a uses 8 of 8 GPUs")


def test_what_waits_takes_nobodys_quota():
    """koordinator#1150: what was pending counted as running, and blocked itself."""
    waiting = [kueue_workload(f"w{at}", pods=1, created=f"2026-01-02T00:00:0{at}Z") for at in range(3)]
    snapshot = read(
        *(node(f"node-{at}") for at in "abc"),
        flavor(),
        cluster_queue(quota=16, used=0),
        local_queue(),
        *waiting,
    )
    (state,) = list_queue_states(snapshot)
    assert (state.parts[0].share.used, state.parts[0].left) == (0, 16)
    codes = {one.key: one.reason_code for one in explain_pending(snapshot)}
    assert codes == {
        "team-a/w0": "not-admitted",
        "team-a/w1": "not-admitted",
        "team-a/w2": "behind-others",
    }
    backing_off = replace(snapshot.queued["team-a/job-w0"], tried_again_at=snapshot.taken_at + 60)
    later = replace(snapshot, queued={**snapshot.queued, "team-a/job-w0": backing_off})
    codes = {one.key: one.reason_code for one in explain_pending(later)}
    assert codes["team-a/w2"] == "not-admitted"  # who may not be tried yet keeps no place
