"""The newcomer: a cluster connected with a reader's rights, and a dump. Both are seen and planned for;
neither may be changed, and why not is said."""

import json
from pathlib import Path

import pytest
import yaml
from playwright.sync_api import expect

from tests.cluster_fixtures import ask
from tests.flows.chromium import chromium, logged_in
from tests.flows.console_processes import console_up

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]
MINUTE_MS = 60_000
READER = Path(__file__).parents[2] / "deploy" / "rbac" / "reader.yaml"
KINDS = [
    *("/api/v1/nodes", "/api/v1/pods", "/api/v1/namespaces", "/apis/apps/v1/replicasets"),
    *("/apis/apps/v1/deployments", "/apis/apps/v1/statefulsets", "/apis/batch/v1/jobs"),
    *("/apis/policy/v1/poddisruptionbudgets", "/apis/scheduling.x-k8s.io/v1alpha1/podgroups"),
]


def test_a_newcomer_sees_and_plans_but_is_told_why_nothing_may_be_changed(tmp_path, simulated_cluster):
    theirs = simulated_cluster(scene="fragmented")
    with console_up(tmp_path / "data", "--scene", "small") as (_process, ready), chromium() as chrome:
        complaints = []
        page = logged_in(chrome, ready["url"], ready["username"], ready["password"], complaints)

        connect(page, ready, "theirs", reader_kubeconfig(theirs, tmp_path))
        expect(page.get_by_text("25 A100s are free, the best node has 5").first).to_be_visible(
            timeout=MINUTE_MS
        )
        for name, seen in (("Queue", "llama-70b"), ("Fragmentation", "Largest gang")):
            page.get_by_role("link", name=name).first.click()
            expect(page.get_by_text(seen).first).to_be_visible()
        make_plan(page, ready["url"] + "clusters/theirs/")
        page.get_by_role("button", name="Propose").click()
        expect(page.get_by_text("pods/eviction").first).to_be_visible(timeout=MINUTE_MS)

        upload(page, ready, "monday", dump_of(theirs, tmp_path))
        expect(page.get_by_text("A dump, not a live cluster.")).to_be_visible()
        expect(page.get_by_text("25 A100s are free, the best node has 5").first).to_be_visible()
        make_plan(page, ready["url"] + "clusters/monday/")
        expect(page.get_by_text("Propose is off: monday is known from a dump only")).to_be_visible()
        expect(page.get_by_role("button", name="Propose")).to_have_attribute("aria-disabled", "true")

        upload(page, ready, "no-dump", not_a_dump(tmp_path))
        expect(page.get_by_text("There is no Node in it")).to_be_visible()
        assert complaints == []
    written = [
        each for each in ask(theirs.credentials, "GET", "/_sim/requests")["requests"] if is_change(each)
    ]
    assert written == []


def reader_kubeconfig(cluster, folder) -> Path:
    """As docs/connecting.md tells to make it: an account with the rights of deploy/rbac/reader.yaml."""
    documents = [found for found in yaml.safe_load_all(READER.read_text()) if found]
    rules = [rule for role in documents if role["kind"] == "ClusterRole" for rule in role["rules"]]
    allowed = [
        [verb, resource, "*"] for rule in rules for resource in rule["resources"] for verb in rule["verbs"]
    ]
    allowed.append(["create", "selfsubjectaccessreviews"])  # everybody's, by system:basic-user
    account = "system:serviceaccount:gpu-defrag:gpu-defrag-console"
    ask(
        cluster.credentials,
        "POST",
        "/_sim/tokens",
        {"token": "reader", "user": account, "allowed": allowed},
    )
    file = folder / "reader.kubeconfig"
    file.write_text(cluster.kubeconfig.replace(cluster.credentials.token, "reader"))
    return file


def dump_of(cluster, folder) -> Path:
    """What `kubectl get … -A -o json` prints."""
    found = []
    for path in KINDS:
        answer = ask(cluster.credentials, "GET", path)
        head = {"apiVersion": answer["apiVersion"], "kind": answer["kind"].removesuffix("List")}
        found += [{**head, **each} for each in answer["items"]]
    file = folder / "dump.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": found}))
    return file


def not_a_dump(folder) -> Path:
    file = folder / "namespace.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "alone"}}))
    return file


def connect(page, ready, name, file) -> None:
    page.goto(ready["url"] + "clusters/")
    form = page.get_by_role("region", name="Add a cluster")
    form.get_by_label("Name", exact=True).fill(name)
    form.get_by_label("Kubeconfig file").set_input_files(file)
    form.get_by_role("button", name="Add cluster").click()


def upload(page, ready, name, file) -> None:
    page.goto(ready["url"] + "clusters/")
    page.get_by_label("Name for the dump").fill(name)
    page.get_by_label("Files that kubectl wrote").set_input_files(file)
    page.get_by_role("button", name="Read the dump").click()


def make_plan(page, address) -> None:
    page.goto(address)
    page.get_by_role("button", name="Make a plan").first.click()
    expect(page.get_by_text("7, in 2 waves")).to_be_visible(timeout=MINUTE_MS)


def is_change(request) -> bool:
    """The dry run of an eviction is asked for, and changes nothing."""
    asked_rights = request["path"].startswith("/apis/authorization.k8s.io/")
    return (
        request["user"].endswith(":gpu-defrag-console")
        and request["method"] != "GET"
        and not asked_rights
        and '"dryRun"' not in request["body"]
    )
