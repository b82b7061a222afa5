"""What happened, as plain rows: the API calls that the cluster logged, the console's ledger, its audit chain,
and what is left in the cluster. The invariants are asserted over these and over nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
CONSOLE_AGENT = "gpu-defrag"
OWN_NAMESPACE = "gpu-defrag"


@dataclass(frozen=True)
class Call:
    """One request of the console. at: seconds by the cluster's clock. status: 500 also where the
    connection was cut after the request had acted."""

    at: float
    method: str
    path: str
    status: int
    body: Json = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    user: str = "admin"

    @property
    def is_real(self) -> bool:
        """It may have changed something: no read, no dry run, no question about rights."""
        return self.method != "GET" and "dryRun" not in self.query and "reviews" not in self.path

    @property
    def is_eviction(self) -> bool:
        return self.method == "POST" and self.path.endswith("/eviction") and self.is_real

    @property
    def was_taken(self) -> bool:
        return 200 <= self.status < 300

    @property
    def kind(self) -> str:
        """nodes, pods, mutatingwebhookconfigurations, namespaces, …"""
        parts = self._parts()
        return parts[0] if parts else ""

    @property
    def namespace(self) -> str:
        parts = self.path.strip("/").split("/")
        return parts[parts.index("namespaces") + 1] if "namespaces" in parts[:-2] else ""

    @property
    def name(self) -> str:
        parts = self._parts()
        return parts[1] if len(parts) > 1 else ""

    @property
    def uid(self) -> str:
        """The UID that guards it, "" if none does."""
        options = self.body.get("deleteOptions") or self.body
        found = (options.get("preconditions") or {}).get("uid") or (self.body.get("metadata") or {}).get(
            "uid"
        )
        return str(found or "")

    @property
    def spec(self) -> Json:
        return dict(self.body.get("spec") or {})

    def sets_label(self, key: str) -> bool:
        return key in ((self.body.get("metadata") or {}).get("labels") or {})

    def _parts(self) -> list[str]:
        parts = self.path.strip("/").split("/")
        parts = parts[2:] if parts[:1] == ["api"] else parts[3:]
        return parts[2:] if parts[:1] == ["namespaces"] and len(parts) > 2 else parts


@dataclass(frozen=True)
class StepRow:
    id: int
    execution: int
    kind: str
    state: str
    move: int = 0
    params: Json = field(default_factory=dict)
    observed: Json = field(default_factory=dict)
    reason: str = ""

    @property
    def seen(self) -> Json:
        return dict(self.observed.get("seen") or {})

    @property
    def sent(self) -> list[str]:
        return list(self.observed.get("sent") or [])


@dataclass(frozen=True)
class EventRow:
    """step: 0 where it is the execution's own."""

    id: int
    execution: int
    step: int
    at: float
    fence: int
    state: str
    message: str = ""

    @property
    def effect(self) -> str:
        return self.message.partition(":")[0]


@dataclass(frozen=True)
class AuditRow:
    action: str
    subject: str
    detail: Json = field(default_factory=dict)


@dataclass(frozen=True)
class ExecutionRow:
    """approved: what the approved version names. protected: of the pods to be moved, those that are protected
    and for which the version has no waiver. cordoned_before: nodes that were cordoned when it was planned."""

    id: int
    owned: str
    state: str
    approved_pods: Mapping[str, str] = field(default_factory=dict)
    nodes: Mapping[str, str] = field(default_factory=dict)
    namespaces: frozenset[str] = frozenset()
    protected: tuple[str, ...] = ()
    cordoned_before: frozenset[str] = frozenset()
    digest: str = "d"
    computed_digest: str = "d"
    decided_digest: str = "d"
    approver: int = 3
    authors: frozenset[int] = frozenset({1})
    created_at: float = 0.0
    expires_at: float = 1e12
    outcome: Json = field(default_factory=dict)


@dataclass(frozen=True)
class Records:
    calls: list[Call] = field(default_factory=list)
    executions: list[ExecutionRow] = field(default_factory=list)
    steps: list[StepRow] = field(default_factory=list)
    events: list[EventRow] = field(default_factory=list)
    audits: list[AuditRow] = field(default_factory=list)
    claims: list[tuple[int, str]] = field(default_factory=list)
    nodes: list[Json] = field(default_factory=list)
    pods: list[Json] = field(default_factory=list)
    webhooks: list[Json] = field(default_factory=list)
    secrets: tuple[str, ...] = ()
    broken_chain: str = ""
    lost_layouts: Mapping[str, float] = field(default_factory=dict)
    """node -> when a fault that was made on purpose was seen to have taken its MIG layout."""

    def of(self, execution: ExecutionRow) -> tuple[list[StepRow], list[EventRow]]:
        steps = [step for step in self.steps if step.execution == execution.id]
        return steps, [event for event in self.events if event.execution == execution.id]

    def step(self, step_id: int) -> StepRow:
        return next(step for step in self.steps if step.id == step_id)


def call_of(told: Json) -> Call:
    """From one entry of GET /_sim/requests."""
    try:
        body = json.loads(told["body"]) if told["body"] else {}
    except ValueError:
        body = {}
    return Call(
        told["time"],
        told["method"],
        told["path"],
        told["status"],
        body if isinstance(body, dict) else {},
        told["query"],
        told["user"],
    )


def gather(ask: Callable[..., Any], cluster_id: int, secrets: tuple[str, ...] = ()) -> Records:
    """Everything that is known of one cluster. ask(method, path): past the console, to the cluster."""
    from apps.audit.models import AuditEntry
    from apps.audit.queries import verify_chain
    from apps.executions.models import Claim, Execution, Steering, Step, StepEvent

    mine = {"execution__plan__cluster": cluster_id}
    told = ask("GET", "/_sim/requests")["requests"]
    rows = Execution.objects.filter(plan__cluster=cluster_id).select_related("plan", "version__snapshot")
    verdict = verify_chain()
    steerings = Steering.objects.filter(**{f"step__{key}": value for key, value in mine.items()})
    return Records(
        calls=[call_of(one) for one in told if CONSOLE_AGENT in one["user_agent"]],
        executions=[_execution_row(row) for row in rows.order_by("pk")],
        steps=[
            StepRow(s.pk, s.execution_id, s.kind, s.state, s.move, s.params, s.observed, s.reason)
            for s in Step.objects.filter(**mine).order_by("execution", "position")
        ],
        events=[
            EventRow(e.pk, e.execution_id, e.step_id or 0, e.at.timestamp(), e.fence, e.state, e.message)
            for e in StepEvent.objects.filter(**mine).order_by("pk")
        ],
        audits=[AuditRow(a.action, a.subject, a.detail) for a in AuditEntry.objects.order_by("pk")],
        claims=list(Claim.objects.filter(**mine).values_list("execution_id", "subject")),
        nodes=ask("GET", "/api/v1/nodes")["items"],
        pods=ask("GET", "/api/v1/pods")["items"],
        webhooks=ask("GET", "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations")["items"],
        secrets=(*secrets, *steerings.values_list("secret", flat=True)),
        broken_chain="" if verdict.is_intact else str(verdict),
    )


def _execution_row(row: Any) -> ExecutionRow:
    from apps.clusters.queries import open_snapshot
    from apps.executions import names
    from apps.planner.plan_json import digest as digest_of
    from apps.plans.queries import open_plan

    plan, version = open_plan(row.version), row.version
    picture = open_snapshot(version.snapshot)
    nodes = {one.source: one.source_uid for one in plan.moves}
    nodes |= {one.target: one.target_uid for one in plan.moves}
    nodes |= {one.node: one.node_uid for one in (*plan.hand_overs, *plan.reconfigurations, *plan.preemptions)}
    nodes |= {name: picture.nodes[name].uid for name in plan.freed_nodes}
    leaving = [*plan.moves, *plan.preemptions]
    pods = {one.pod_uid: one.pod for one in leaving}
    touched = [one.pod for one in (*leaving, *plan.hand_overs)]
    waived = {one.pod_uid for one in getattr(plan, "waivers", ())}
    decision = version_decision(row)
    people = {row.plan.created_by_id, row.plan.edited_by_id, row.plan.proposed_by_id}
    return ExecutionRow(
        id=row.pk,
        owned=names.owned_value(row.pk, row.created_at),
        state=row.state,
        approved_pods=pods,
        nodes=nodes,
        namespaces=frozenset(pod.partition("/")[0] for pod in touched),
        protected=tuple(pods[uid] for uid in pods if picture.pods[uid].protections and uid not in waived),
        cordoned_before=frozenset(name for name, node in picture.nodes.items() if node.unschedulable),
        digest=version.digest,
        computed_digest=digest_of(version.body),
        decided_digest=decision.digest if decision else "",
        approver=decision.decided_by_id if decision else 0,
        authors=frozenset(one for one in people if one is not None),
        created_at=row.created_at.timestamp(),
        expires_at=row.plan.expires_at.timestamp() if row.plan.expires_at else 1e12,
        outcome=row.outcome,
    )


def version_decision(row: Any) -> Any:
    from apps.plans.models import Decision

    return Decision.objects.filter(version=row.version, verdict="approved").first()
