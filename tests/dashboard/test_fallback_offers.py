"""What is offered less GPU memory, as people and programs see it, and what the policy says about it."""

from dataclasses import replace

import pytest

from apps.plans.errors import InvalidRequest
from apps.plans.models import ClusterPolicy
from apps.plans.policies import what_forbids
from apps.plans.request_rules import checked_request
from tests.dashboard.conftest import log_in, make_picture
from tests.dashboard.test_grid_pages import text_of
from tests.planner.test_fallback import BUSY, plan_for, seen, share

pytestmark = pytest.mark.django_db
JOB = {"workload": "uid-job", "kind": "Job"}


def waiting_now(cluster):
    found = seen(BUSY, share("web-1", 7), share("batch-1", 9, **JOB))
    make_picture(cluster, replace(found, cluster=cluster.name))


def test_the_queue_offers_it_beside_the_page(viewer, cluster):
    waiting_now(cluster)
    client = log_in(viewer)
    page = client.get("/clusters/gpu-east-1/queue/").content.decode()
    assert 'hx-get="/clusters/gpu-east-1/queue/less-memory/"' in page
    part = text_of(client.get("/clusters/gpu-east-1/queue/less-memory/"))
    assert "It asks for 7,168 MiB; with 6,144 MiB it could start now, on share-1." in part
    assert "Not offered It belongs to a Job, whose template is immutable" in part
    assert "Plan this change" not in part  # a viewer sees and asks for nothing


def test_programs_read_the_same(viewer, cluster):
    waiting_now(cluster)
    answer = log_in(viewer).get("/api/v1/fallbacks/?cluster=gpu-east-1").json()
    batch, web = sorted(answer["results"], key=lambda one: one["workload"])
    assert (web["owner"], web["asks_mib"], web["offers_mib"], web["starts_pods"], web["nodes"]) == (
        "Deployment ml/web",
        7168,
        6144,
        1,
        ["share-1"],
    )
    assert (batch["offers_mib"], batch["starts_pods"]) == (None, None)
    assert "immutable" in batch["why_not"]


def test_a_request_names_one_workload_and_waives_nothing():
    asked = {"goal": "lower-memory", "max_moves": 50, "seconds": 10.0}
    assert checked_request(workload="ml/web-1", **asked)["goal"] == "lower-memory"
    with pytest.raises(InvalidRequest, match="is for one workload that waits"):
        checked_request(workload="", **asked)
    with pytest.raises(InvalidRequest, match="nothing to waive"):
        checked_request(workload="ml/web-1", waivers=[{"pod": "ml/web-1"}], **asked)


def test_the_policy_forbids_what_it_does_not_offer(cluster):
    plan = plan_for(seen(BUSY, share("web-1", 7)))
    assert what_forbids(ClusterPolicy(cluster=cluster), plan) == []
    (why,) = what_forbids(ClusterPolicy(cluster=cluster, fallback_above_mib=8000), plan)
    assert why.startswith("ml/web asks for 7,168 MiB and the policy offers less above 8,000 only")
    (why,) = what_forbids(ClusterPolicy(cluster=cluster, protected_namespaces=["ml"]), plan)
    assert why.startswith("ml/web must not be changed now")
