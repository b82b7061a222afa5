"""The main story, whole: a gang waits, a plan is made, approved by somebody else, carried out, verified.

Through HTTP and a real browser, on the console as `./dev up` runs it, against the simulated cluster of
40 mixed nodes. What is asserted at the end was read from the Kubernetes API and from its request log.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import expect

from apps.kube.kubeconfig import read_kubeconfig
from tests.cluster_fixtures import ask
from tests.flows.chromium import chromium, logged_in
from tests.flows.console_processes import ROOT, console_up, environment_of, logs_of

pytestmark = [pytest.mark.browser, pytest.mark.timeout(420)]
GANG = "llama-70b"
MINUTE_MS = 60_000


def test_a_gang_that_waits_gets_its_nodes_by_seven_approved_moves(tmp_path):
    data, complaints = tmp_path / "data", []
    with (
        console_up(data, "--scene", "fragmented", "--time-scale", "10") as (_process, ready),
        chromium() as chrome,
    ):
        cluster = read_kubeconfig(Path(ready["kubeconfig"]).read_text())
        before = all_pods(cluster)
        planner = logged_in(chrome, ready["url"], ready["username"], ready["password"], complaints)
        expect(planner.get_by_text("25 A100s are free, the best node has 5")).to_be_visible()

        plan_url = make_and_propose_plan(planner)
        approve_as_somebody_else(chrome, ready, plan_url, complaints)
        carry_out(planner, plan_url, logs=lambda: logs_of(data))

        planner.goto(ready["url"])
        expect(planner.get_by_text("1 free, 0 whole")).to_be_visible()
        assert complaints == []
        check_cluster(cluster, before)
        check_requests(cluster, before)
        check_ledger(data)


def make_and_propose_plan(page) -> str:
    page.get_by_role("button", name="Make a plan").first.click()
    expect(page.get_by_role("button", name="Propose")).to_be_visible(timeout=MINUTE_MS)
    expect(page.get_by_text("7, in 2 waves")).to_be_visible()
    expect(page.get_by_text("proven optimal")).to_be_visible()
    page.get_by_role("button", name="Propose").click()
    expect(page.get_by_text("Proposed, waits for approval")).to_be_visible()
    return page.url


def approve_as_somebody_else(chrome, ready, plan_url, complaints) -> None:
    page = logged_in(chrome, ready["url"], ready["approver_username"], ready["approver_password"], complaints)
    page.goto(plan_url)
    expect(page.get_by_text("Dry run: all 7 evictions would be allowed")).to_be_visible(timeout=MINUTE_MS)
    page.get_by_label("Comment").fill("Read all seven moves.")
    page.get_by_role("button", name="Approve 7 moves").click()
    expect(page.get_by_text("Approved", exact=True)).to_be_visible()


def carry_out(page, plan_url, logs) -> None:
    page.goto(plan_url)
    page.get_by_role("button", name="Start 7 moves").click()
    try:
        # The page follows by itself: nothing is reloaded from here on.
        expect(page.get_by_text("Succeeded", exact=True)).to_be_visible(timeout=3 * MINUTE_MS)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{page.inner_text('main')}\n{logs()}") from None
    expect(page.get_by_text("7 of 7 moves done")).to_be_visible()


def all_pods(cluster) -> dict[str, dict]:
    """Every pod by uid."""
    return {pod["metadata"]["uid"]: pod for pod in ask(cluster, "GET", "/api/v1/pods")["items"]}


def check_cluster(cluster, before) -> None:
    """The gang runs on three whole nodes, nobody is lost, nothing of ours is left behind."""
    after = all_pods(cluster)
    gang = [
        pod
        for pod in after.values()
        if pod["metadata"]["labels"].get("scheduling.x-k8s.io/pod-group") == GANG
    ]
    assert len({pod["spec"]["nodeName"] for pod in gang}) == 3
    assert {pod["status"]["phase"] for pod in gang} == {"Running"}
    assert len([uid for uid in before if uid not in after]) == 7
    assert len(after) == len(before)
    nodes = ask(cluster, "GET", "/api/v1/nodes")["items"]
    assert "defrag.gpu.internal/" not in json.dumps([node["spec"] for node in nodes])
    assert all("defrag.gpu.internal/cordon" not in node["metadata"].get("annotations", {}) for node in nodes)
    unschedulable = [node["metadata"]["name"] for node in nodes if node["spec"].get("unschedulable")]
    assert unschedulable == ["a100-15"]
    assert ask(cluster, "GET", "/api/v1/namespaces/gpu-defrag/pods")["items"] == []
    webhooks = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
    assert ask(cluster, "GET", webhooks)["items"] == []
    assert not [pod for pod in after.values() if pod["spec"].get("schedulingGates")]


def check_requests(cluster, before) -> None:
    """Seven evictions, each of a pod that was there, by UID, none twice; no pod of anybody deleted."""
    sent = [
        request
        for request in ask(cluster, "GET", "/_sim/requests")["requests"]
        if request["user_agent"].startswith("gpu-defrag-console") and request["method"] != "GET"
    ]
    evictions = [body(request)["deleteOptions"] for request in sent if request["path"].endswith("/eviction")]
    evictions = [options for options in evictions if not options.get("dryRun")]
    uids = [options["preconditions"]["uid"] for options in evictions]
    assert len(uids) == len(set(uids)) == 7
    assert set(uids) <= set(before)
    assert all("gracePeriodSeconds" not in options for options in evictions)
    deleted = [
        request["path"] for request in sent if request["method"] == "DELETE" and "/pods/" in request["path"]
    ]
    assert all("/namespaces/gpu-defrag/pods/hold-" in path for path in deleted)
    patched = [request for request in sent if request["method"] == "PATCH" and "/nodes/" in request["path"]]
    assert all({"uid", "resourceVersion"} <= set(body(request)["metadata"]) for request in patched)


def body(request) -> dict:
    return json.loads(request["body"])


def check_ledger(data) -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "audit_verify", "--json"],
        cwd=ROOT,
        env=environment_of(data),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
