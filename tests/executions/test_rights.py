"""deploy/rbac grants what the console asks a cluster for, and nothing else.

The simulated API server enforces the rules of the files, and its request log is judged once more by an
evaluator of our own (with API groups and names, which a token's rules there do not know).
"""

import json
import urllib.parse
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from apps.clusters.services import replace_credentials
from apps.executions import runner, services
from apps.executions.preflight import examine, run_dry_runs
from apps.executions.states import ExecutionState
from apps.kube.kubernetes_gateway import KubernetesGateway
from apps.kube.reviews import RULES
from apps.kube.watching import ClusterWatch
from tests.cluster_fixtures import wait_until
from tests.executions.mig_clusters import idle_node
from tests.executions.test_mig_naming import without_name
from tests.executions.test_mig_story import stage_with  # noqa: F401
from tests.executions.test_stories import carry

pytestmark = pytest.mark.django_db(transaction=True)
FOLDER = Path(__file__).parents[2] / "deploy" / "rbac"
GIVEN_TO_EVERYBODY = {
    ("get", "/version"),
    ("create", "authorization.k8s.io/selfsubjectaccessreviews"),
    ("create", "authorization.k8s.io/selfsubjectrulesreviews"),
}
"""By Kubernetes' own roles system:public-info-viewer and system:basic-user."""


@dataclass(frozen=True)
class Right:
    """namespace, name: "" where they do not matter."""

    verb: str
    resource: str
    namespace: str = ""
    name: str = ""

    def covers(self, verb: str, resource: str, namespace: str, name: str) -> bool:
        return (
            (self.verb, self.resource) == (verb, resource)
            and self.namespace in ("", namespace)
            and self.name in ("", name)
        )


def documents(*files):
    return [found for file in files for found in yaml.safe_load_all((FOLDER / file).read_text()) if found]


def rights(*files) -> set[Right]:
    return {
        Right(verb, f"{group}/{resource}", role["metadata"].get("namespace", ""), name)
        for role in documents(*files)
        if role["kind"] in ("ClusterRole", "Role")
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }


def limit_to(stage, *files):
    """From now on the console's credential is a service account with the rights of these files."""
    add_token(stage, "limited", rights(*files))
    for made in documents(*files):
        if made["kind"] == "Namespace":
            stage.simulated.ask("POST", "/api/v1/namespaces", made)
    own = stage.simulated.credentials.token
    replace_credentials(
        actor=None, cluster_id=stage.cluster.pk, kubeconfig=stage.simulated.kubeconfig.replace(own, "limited")
    )
    stage.cluster.refresh_from_db()
    stage.simulated.ask("DELETE", "/_sim/requests")


def add_token(stage, token, granted):
    allowed = [[one.verb, one.resource.partition("/")[2], one.namespace or "*"] for one in granted]
    allowed += [["create", "selfsubjectaccessreviews"], ["create", "selfsubjectrulesreviews"]]
    user = "system:serviceaccount:gpu-defrag:gpu-defrag-console"
    stage.simulated.ask("POST", "/_sim/tokens", {"token": token, "user": user, "allowed": allowed})


def gateway_with(stage, token):
    found = stage.simulated.credentials
    return KubernetesGateway(server=found.server, ca=found.ca, token=token)


def asked(stage) -> set[tuple[str, str, str, str]]:
    """(verb, group/resource, namespace, name) of each request that the console sent."""
    return {attributes(one) for one in stage.requests()}


def attributes(request) -> tuple[str, str, str, str]:
    """As an API server derives them from method and path."""
    parts = request["path"].strip("/").split("/")
    if parts[0] not in ("api", "apis"):
        return request["method"].lower(), request["path"], "", ""
    group, parts = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 2:
        namespace, parts = parts[1], parts[2:]
    name = parts[1] if len(parts) > 1 else named_by_field(request)
    resource = "/".join([parts[0], *parts[2:]])
    return verb_of(request, len(parts) > 1), f"{group}/{resource}", namespace, name


def query_of(request):
    query = request["query"]
    return dict(urllib.parse.parse_qsl(query)) if isinstance(query, str) else query


def named_by_field(request) -> str:
    """A list or watch of one name is granted by that name."""
    key, _, name = query_of(request).get("fieldSelector", "").partition("=")
    return name if key == "metadata.name" else ""


def verb_of(request, in_path) -> str:
    read = "get" if in_path else "watch" if query_of(request).get("watch") else "list"
    return {"GET": read, "POST": "create", "PATCH": "patch", "DELETE": "delete"}[request["method"]]


def uncovered(stage, granted):
    return sorted(
        one
        for one in asked(stage)
        if one[:2] not in GIVEN_TO_EVERYBODY and not any(right.covers(*one) for right in granted)
    )


def watch_for_a_moment(stage):
    """One whole turn of the watcher's kinds. Gives what it could not read."""
    watch = ClusterWatch(gateway_with(stage, "limited"), on_change=lambda: None)
    watch.start()
    try:
        wait_until(lambda: watch.is_ready or watch.problems(), what="the watch did not become ready")
        wait_until(lambda: {one[1] for one in asked(stage) if one[0] == "watch"} >= WATCHED)
        return watch.problems()
    finally:
        watch.stop()


OF_OTHER_SCHEDULERS = {
    "scheduling.volcano.sh/podgroups",
    "scheduling.run.ai/podgroups",
    "scheduling.k8s.io/podgroups",
    "scheduling.k8s.io/workloads",
    "scheduling.koordinator.sh/devices",
    "scheduling.x-k8s.io/elasticquotas",
    "scheduling.run.ai/queues",
    "scheduling.volcano.sh/queues",
    *(
        f"kueue.x-k8s.io/{one}"
        for one in ["clusterqueues", "cohorts", "localqueues", "resourceflavors", "workloads"]
    ),
}
"""This cluster lacks these: they are asked for, and as they do not exist not followed."""
TOLD_BESIDE = "/events"
OF_OLDER_SERVERS = Right("list", "/configmaps", "gpu-defrag", "kill-switch")
"""Where a watch cannot begin with the list (before 1.34)."""
RENEWED = Right("patch", "coordination.k8s.io/leases", "gpu-defrag", "console")
"""Every ten seconds, which an execution may not last (test_console_lease)."""
WATCHED = {right.resource for right in rights("reader.yaml") if right.verb == "watch"} - OF_OTHER_SCHEDULERS


def test_an_execution_needs_exactly_what_the_executor_is_granted(stage):
    limit_to(stage, "reader.yaml", "executor.yaml")
    assert watch_for_a_moment(stage) == ()
    execution, _plan = stage.start()
    carry(execution)
    assert execution.state == ExecutionState.SUCCEEDED, stage.told(execution)
    assert stage.traces() == []
    # Two looks of the preflight, each with what is granted everywhere and what in our own namespace.
    assert [one["path"].rpartition("/")[2] for one in stage.requests("POST", "reviews")] == [RULES.plural] * 4

    granted = rights("reader.yaml", "executor.yaml")
    assert uncovered(stage, granted) == []
    used = asked(stage)
    # Objects are asked for one by one only where the live view does not know (test_live_view).
    unused = [
        right for right in granted if right.verb != "get" and not any(right.covers(*one) for one in used)
    ]
    # Owners are told by a timer of its own (test_owner_notices).
    unused = [right for right in unused if right.resource != TOLD_BESIDE]
    unused = [right for right in unused if right not in (OF_OLDER_SERVERS, RENEWED)]
    assert {right.resource for right in unused} == OF_OTHER_SCHEDULERS
    assert {right.verb for right in unused} == {"watch"}


def test_cutting_gpus_anew_needs_two_rights_more_for_one_named_object(stage_with, settings):  # noqa: F811
    stage = stage_with(idle_node)
    limit_to(stage, "reader.yaml", "executor.yaml")
    settings.EXECUTION_MIG_SYNC_SECONDS = 2
    plan, _found = stage.approved_plan("mig", change=without_name)
    (refused,) = run_dry_runs(version_id=plan.versions.get().pk)
    assert "apply deploy/rbac/mig.yaml" in refused.message

    add_token(stage, "limited", rights("reader.yaml", "executor.yaml", "mig.yaml"))
    execution = services.start_execution(actor=stage.operator, plan_id=plan.pk)
    carry(execution)
    assert execution.state == ExecutionState.SUCCEEDED, stage.told(execution)
    assert uncovered(stage, rights("reader.yaml", "executor.yaml", "mig.yaml")) == []
    assert [
        right for right in rights("mig.yaml") if not any(right.covers(*one) for one in asked(stage))
    ] == []
    assert {(right.verb, right.name) for right in rights("mig.yaml")} == {
        ("get", "default-mig-parted-config"),
        ("patch", "default-mig-parted-config"),
    }


def test_a_reader_sees_and_plans_and_is_told_what_it_may_not(stage):
    limit_to(stage, "reader.yaml")
    assert watch_for_a_moment(stage) == ()
    assert uncovered(stage, rights("reader.yaml")) == []

    plan, found = stage.approved_plan()
    runs = run_dry_runs(version_id=plan.versions.get().pk)
    of_pods = [run for run in runs if run.pod_uid in {move.pod_uid for move in found.moves}]
    assert [run.allowed for run in of_pods] == [False] * len(found.moves)
    assert all('cannot create resource "pods/eviction"' in run.message for run in of_pods)
    (whole,) = [run for run in runs if run not in of_pods]
    assert whole.pod == "the plan"
    assert "may not patch nodes" in whole.message

    execution, _plan = stage.start()
    runner.advance(execution.pk, seconds=20)
    execution.refresh_from_db()
    assert execution.state == ExecutionState.FAILED
    assert "may not patch nodes" in execution.state_reason
    assert stage.evicted() == []
    assert stage.traces() == []


def test_a_plan_is_refused_before_it_begins_where_one_right_of_the_executor_is_missing(stage):
    plan, _found = stage.approved_plan()
    version = plan.versions.get()
    granted = rights("reader.yaml", "executor.yaml")
    for number, missing in enumerate(sorted(rights("executor.yaml"), key=str)):
        if missing.name or missing.resource == TOLD_BESIDE:
            continue  # a look at one named object, or what no execution waits for: nothing asks beforehand
        add_token(stage, f"without-{number}", granted - {missing})
        refusals = examine(version, gateway_with(stage, f"without-{number}")).refusals
        resource = missing.resource.partition("/")[2]
        told = f"The console's credential may not {missing.verb} {resource}."
        assert any(told in refusal for refusal in refusals), missing


def test_the_files_grant_no_secrets_no_exec_and_no_wildcard():
    granted = rights("reader.yaml", "executor.yaml", "mig.yaml")
    assert not [right for right in granted if "*" in (right.verb, right.resource)]
    text = json.dumps([right.resource for right in granted])
    assert not [word for word in ("secrets", "exec", "attach", "portforward", "roles", "*") if word in text]
    assert {right.verb for right in rights("reader.yaml")} == {"get", "list", "watch"}
    deletes = {(right.resource, right.namespace) for right in granted if right.verb == "delete"}
    assert deletes == {
        ("/pods", "gpu-defrag"),
        ("admissionregistration.k8s.io/mutatingwebhookconfigurations", ""),
    }
