"""The incident bundle: all that is known of one execution, in one file to send to whoever helps.

No secrets are in it: no credential, no steering address or secret, no request body. Cluster text is
neutralised in the CSV files.
"""

from __future__ import annotations

import csv
import io
import json
import platform
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import datetime
from importlib.metadata import version
from tempfile import SpooledTemporaryFile
from typing import IO, Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import QuerySet

from apps.accounts import queries as accounts
from apps.accounts.models import User
from apps.accounts.rights import Action
from apps.accounts.services import authorize, denials_recorded
from apps.audit import services as audit
from apps.audit.models import AuditEntry
from apps.clusters import queries as clusters
from apps.clusters.models import Snapshot
from apps.executions.models import DryRun, Execution, OwnerNotice, SentRequest, Step, StepEvent
from apps.executions.request_log import LOOKS_KEPT
from apps.planner.plain import cell_text
from apps.plans.models import Decision
from apps.plans.policies import policy_of

KEEPERS = (Action.OPERATE, Action.AUDIT, Action.APPROVE)
"""Whoever acts on executions of the cluster, signs for them or audits them."""
IN_MEMORY = 8 * 1024 * 1024
SETTINGS_SHOWN = ("EXECUTION_", "MIG_MANAGER_", "KUBE_", "SNAPSHOT_")
SETTINGS_NAMED = ("STEERING_NAMESPACE", "STEERING_SETTLE_SECONDS")
READ_ME = """Incident bundle of execution {number} on {cluster}.

execution.json  the execution, its outcome, what is promised and found; the plan's request and change ticket
steps.csv       the ledger: every step with its state, times, what was last seen
events.csv      what happened, in order
requests.csv    what was asked of the API server, no bodies; the first {looks} looks; status 0: no answer
plan.json       the version that was approved; its sha256 digest is in execution.json
approvals.json  who decided on which digest
dry-runs.csv    what the cluster answered before
notices.csv     what owners were told
audit.csv       the entries of the audit ledger about this execution and its plan
snapshot-before.json, snapshot-after.json   the cluster as the planner saw it; missing where none is kept
settings.json   limits, time-outs and the cluster's policy (as they are now)
versions.json   of the console, its libraries, the database and the cluster
"""


@denials_recorded()
def make_bundle(*, execution: Execution, actor: User) -> IO[bytes]:
    """A zip, at its beginning, to be closed by the caller. Raises Denied."""
    cluster = execution.plan.cluster
    if not accounts.actions_on(actor, cluster) & set(KEEPERS):
        authorize(actor, Action.OPERATE, cluster, subject=execution)
    with transaction.atomic(durable=True):
        audit.record(actor=actor, action="execution.bundle", subject=execution, cluster=cluster.name)
    file = SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - the caller closes it
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as bundle:
        folder = f"execution-{execution.pk}"
        for name, text in _files(execution):
            bundle.writestr(f"{folder}/{name}", text)
    file.seek(0)
    return file


def _files(execution: Execution) -> Iterator[tuple[str, str]]:
    from_execution = {"execution": execution}
    yield "README.txt", _read_me(execution)
    yield "execution.json", _json(_tell_execution(execution))
    yield "steps.csv", _csv(Step.objects.filter(**from_execution), STEP_COLUMNS)
    yield "events.csv", _csv(StepEvent.objects.filter(**from_execution), EVENT_COLUMNS)
    yield "requests.csv", _csv(SentRequest.objects.filter(**from_execution), REQUEST_COLUMNS)
    yield "plan.json", _json(execution.version.body)
    yield "approvals.json", _json([_tell_decision(one) for one in execution.plan.decisions.all()])
    yield "dry-runs.csv", _csv(DryRun.objects.filter(version=execution.version), DRY_RUN_COLUMNS)
    yield "notices.csv", _csv(OwnerNotice.objects.filter(**from_execution), NOTICE_COLUMNS)
    yield "audit.csv", _csv(_entries_of(execution), AUDIT_COLUMNS)
    for name, row in (("before", execution.version.snapshot), ("after", _snapshot_after(execution))):
        if row is not None:
            yield f"snapshot-{name}.json", _json(clusters.open_snapshot(row))
    yield "settings.json", _json(_tell_settings(execution))
    yield "versions.json", _json(_tell_versions(execution))


STEP_COLUMNS = (
    "position", "wave", "move", "kind", "target", "state", "reason", "attempts", "intent_at", "issued_at",
    "finished_at", "retry_at", "deadline_at", "params", "observed",
)  # fmt: skip
EVENT_COLUMNS = ("id", "at", "fence", "step__position", "state", "message")
REQUEST_COLUMNS = ("at", "fence", "position", "method", "path", "status", "note")
DRY_RUN_COLUMNS = ("at", "pod", "pod_uid", "allowed", "message")
NOTICE_COLUMNS = ("created_at", "sent_at", "move", "way", "word", "name", "message", "attempts", "error")
AUDIT_COLUMNS = ("id", "at", "actor__username", "action", "subject", "cluster", "detail", "hash")


def _read_me(execution: Execution) -> str:
    return READ_ME.format(number=execution.pk, cluster=execution.plan.cluster.name, looks=LOOKS_KEPT)


def _tell_execution(execution: Execution) -> dict[str, Any]:
    plan, version = execution.plan, execution.version
    named = (
        "id", "state", "state_reason", "cause", "is_frozen", "created_at", "started_at", "finished_at",
        "deadline_at", "visited_at", "fence", "outcome",
    )  # fmt: skip
    return {
        **{name: getattr(execution, name) for name in named},
        "started_by": execution.started_by.get_username(),
        "cluster": plan.cluster.name,
        "plan": plan.pk,
        "plan_title": plan.title,
        "plan_state": plan.state,
        "request": plan.request,
        "change_ticket": plan.change_ticket,
        "version": version.number,
        "digest": version.digest,
    }


def _tell_decision(row: Decision) -> dict[str, Any]:
    return {
        "version": row.version.number,
        "digest": row.digest,
        "verdict": row.verdict,
        "comment": row.comment,
        "decided_by": row.decided_by.get_username(),
        "decided_at": row.decided_at,
    }


def _entries_of(execution: Execution) -> QuerySet[AuditEntry]:
    """About the execution, its steps and its plan."""
    steps = [audit.name_subject(step) for step in execution.steps.only("pk")]
    mine = [audit.name_subject(execution), audit.name_subject(execution.plan)]
    return AuditEntry.objects.filter(subject__in=[*mine, *steps]).order_by("id")


def _snapshot_after(execution: Execution) -> Snapshot | None:
    if execution.finished_at is None:
        return None
    later = Snapshot.objects.filter(cluster=execution.plan.cluster, taken_at__gte=execution.finished_at)
    return later.order_by("id").first()


def _tell_settings(execution: Execution) -> dict[str, Any]:
    shown = {
        name: getattr(settings, name)
        for name in dir(settings)
        if name.startswith(SETTINGS_SHOWN) or name in SETTINGS_NAMED
    }
    policy = policy_of(execution.plan.cluster)
    told = {field.name: getattr(policy, field.name) for field in policy._meta.fields if not field.is_relation}
    return {"settings": shown, "policy": told}


def _tell_versions(execution: Execution) -> dict[str, Any]:
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version")
        database = cursor.fetchone()[0]
    libraries = ("django", "celery", "urllib3", "psycopg")
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in libraries},
        "postgresql": database,
        "cluster": execution.plan.cluster.version,
        "at": datetime.now().astimezone(),
    }


def _json(value: Any) -> str:
    return json.dumps(value, default=_plain, ensure_ascii=False, indent=1)


def _plain(value: Any) -> Any:
    """What JSON does not know: parts of the planner's snapshot, moments, sets."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _csv(rows: QuerySet[Any], columns: Sequence[str]) -> str:
    file = io.StringIO()
    writer = csv.writer(file)
    writer.writerow([name.replace("__", ".") for name in columns])
    for values in rows.values_list(*columns).iterator(chunk_size=2000):
        writer.writerow([_cell(value) for value in values])
    return file.getvalue()


def _cell(value: Any) -> object:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping | list):
        return cell_text(json.dumps(value, default=_plain, ensure_ascii=False))
    return cell_text(value)
