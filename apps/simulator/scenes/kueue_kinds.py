"""Kueue's kinds as a cluster has them once it is installed: definitions whose schemas name real fields alone.

What a schema does not name is dropped by the API server, so whoever reads a field that Kueue does not have
reads nothing here either. Field names after Kueue's API v1beta1. Not here: its controller.
"""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]
API = "kueue.x-k8s.io/v1beta1"
TEXT: Json = {"type": "string"}
COUNT: Json = {"type": "integer"}
SWITCH: Json = {"type": "boolean"}
AMOUNT: Json = {"x-kubernetes-int-or-string": True}
AMOUNTS: Json = {"type": "object", "additionalProperties": AMOUNT}
TEXTS: Json = {"type": "object", "additionalProperties": TEXT}
ANYTHING: Json = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def fields(**known: Json) -> Json:
    return {"type": "object", "properties": known}


def listed(entry: Json) -> Json:
    return {"type": "array", "items": entry}


CONDITIONS = listed(
    fields(
        type=TEXT, status=TEXT, reason=TEXT, message=TEXT, lastTransitionTime=TEXT, observedGeneration=COUNT
    )
)
STOP_POLICY: Json = {"type": "string", "enum": ["None", "Hold", "HoldAndDrain"]}
QUOTA = fields(name=TEXT, nominalQuota=AMOUNT, borrowingLimit=AMOUNT, lendingLimit=AMOUNT)
GROUPS = listed(
    fields(coveredResources=listed(TEXT), flavors=listed(fields(name=TEXT, resources=listed(QUOTA))))
)
USAGE = listed(fields(name=TEXT, resources=listed(fields(name=TEXT, total=AMOUNT, borrowed=AMOUNT))))
PREEMPTION = fields(reclaimWithinCohort=TEXT, withinClusterQueue=TEXT, borrowWithinCohort=fields(policy=TEXT))
QUEUE_SPEC = fields(
    resourceGroups=GROUPS,
    cohort=TEXT,
    queueingStrategy={"type": "string", "enum": ["StrictFIFO", "BestEffortFIFO"]},
    namespaceSelector=ANYTHING,
    preemption=PREEMPTION,
    stopPolicy=STOP_POLICY,
)
QUEUE_STATUS = fields(
    conditions=CONDITIONS,
    flavorsReservation=USAGE,
    flavorsUsage=USAGE,
    pendingWorkloads=COUNT,
    reservingWorkloads=COUNT,
    admittedWorkloads=COUNT,
)
TAINT = fields(key=TEXT, value=TEXT, effect=TEXT)
TOLERATION = fields(key=TEXT, operator=TEXT, value=TEXT, effect=TEXT, tolerationSeconds=COUNT)
POD_SET = fields(name=TEXT, count=COUNT, minCount=COUNT, template=ANYTHING)
ASSIGNMENT = fields(name=TEXT, flavors=TEXTS, resourceUsage=AMOUNTS, count=COUNT, topologyAssignment=ANYTHING)
WORKLOAD_SPEC = fields(
    podSets=listed(POD_SET),
    queueName=TEXT,
    priorityClassName=TEXT,
    priorityClassSource=TEXT,
    priority=COUNT,
    active=SWITCH,
)
WORKLOAD_STATUS = fields(
    conditions=CONDITIONS,
    admission=fields(clusterQueue=TEXT, podSetAssignments=listed(ASSIGNMENT)),
    requeueState=fields(count=COUNT, requeueAt=TEXT),
    admissionChecks=listed(fields(name=TEXT, state=TEXT, message=TEXT, lastTransitionTime=TEXT)),
)


def _define(kind: str, plural: str, scope: str, spec: Json, status: Json | None = None) -> Json:
    parts = {"spec": spec} | ({"status": status} if status else {})
    version: Json = {
        "name": API.partition("/")[2],
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": parts}},
    }
    if status:
        version["subresources"] = {"status": {}}
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.kueue.x-k8s.io"},
        "spec": {"group": "kueue.x-k8s.io", "scope": scope, "names": names, "versions": [version]},
    }


DEFINITIONS: tuple[Json, ...] = (
    _define("ClusterQueue", "clusterqueues", "Cluster", QUEUE_SPEC, QUEUE_STATUS),
    _define(
        "LocalQueue",
        "localqueues",
        "Namespaced",
        fields(clusterQueue=TEXT, stopPolicy=STOP_POLICY),
        fields(conditions=CONDITIONS, pendingWorkloads=COUNT, admittedWorkloads=COUNT),
    ),
    _define(
        "ResourceFlavor",
        "resourceflavors",
        "Cluster",
        fields(nodeLabels=TEXTS, nodeTaints=listed(TAINT), tolerations=listed(TOLERATION), topologyName=TEXT),
    ),
    _define("Cohort", "cohorts", "Cluster", fields(parentName=TEXT, resourceGroups=GROUPS), fields()),
    _define("Workload", "workloads", "Namespaced", WORKLOAD_SPEC, WORKLOAD_STATUS),
)
