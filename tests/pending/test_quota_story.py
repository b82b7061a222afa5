"""A queue at its quota, over HTTP: a gang waits for quota and gets no plan; with more quota it gets one.

The simulated cluster has Kueue's kinds and a small Kueue that admits by them. 60 GPUs are free all the time.
"""

import pytest
from django.test import Client

from apps.clusters.services import register_cluster
from apps.plans.computing import compute_draft
from tests.api.conftest import Caller
from tests.cluster_fixtures import wait_until
from tests.clusters.looking import picture_of
from tests.plans.situations import person

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("quick_pictures"),
    pytest.mark.timeout(180),
]
QUEUE = "/apis/kueue.x-k8s.io/v1beta1/clusterqueues/team-a"
GANG = "ml/llama-70b"
BACKEND = "django.contrib.auth.backends.ModelBackend"
FULL = "Queue team-a uses 112 of 112 GPUs of flavor a100; the gang asks for 24."


def test_no_plan_while_the_queue_is_at_its_quota_and_one_once_it_is_raised(
    simulated_cluster, watchers, problem
):
    simulated = simulated_cluster(scene="queues", time_scale=20)
    cluster = register_cluster(actor=None, name="sim", kubeconfig=simulated.kubeconfig)
    ada = Caller(Client(), person("ada", "planner", "viewer", cluster=cluster))
    ada.client.force_login(ada.user, BACKEND)

    waiting = wait_until(lambda: asked_about(ada, "quota"), seconds=60)
    assert (waiting["sentence"], waiting["gpus"], waiting["pods"]) == (FULL, 24, 3)
    assert waiting["free_gpus"] == 60
    assert waiting["pod_uids"] == []  # its Job is suspended: nobody has made its pods

    refused = ada.post("plans/", cluster="sim", goal="unlock", workload=GANG)
    assert FULL in problem(refused, 422, "not-admitted")
    everything = plan_for(ada, "")
    assert not everything["moves"]
    assert {"pod": GANG, "reason": FULL} in everything["refused"]
    page = ada.client.get("/clusters/sim/queue/").content.decode()
    assert FULL in page
    assert "Make a plan for llama-70b" not in page

    raise_quota(simulated, 136)
    wait_until(lambda: asked_about(ada, "gpus-scattered"), seconds=60)
    assert "Make a plan for llama-70b" in ada.client.get("/clusters/sim/queue/").content.decode()
    plan = plan_for(ada, GANG)
    assert (plan["unlocked"], len(plan["moves"])) == ([GANG], 9)
    assert picture_of(cluster).queues["Kueue/team-a"].shares[0].used == 136


def asked_about(ada, reason):
    """The gang as the API tells it, once it waits for this reason with all its pods in one row."""
    found = [
        one for one in ada.get("pending/", cluster="sim").json().get("results", ()) if one["key"] == GANG
    ]
    return next((one for one in found if one["reason_code"] == reason and one["pods"] == 3), None)


def plan_for(ada, workload):
    answer = ada.post("plans/", cluster="sim", goal="unlock", workload=workload, seconds=20)
    assert answer.status_code == 201, answer.content
    compute_draft(answer.json()["id"])
    return ada.get(f"plans/{answer.json()['id']}/").json()["version"]["body"]


def raise_quota(simulated, quota):
    groups = simulated.ask("GET", QUEUE)["spec"]["resourceGroups"]
    groups[0]["flavors"][0]["resources"][0]["nominalQuota"] = quota
    simulated.ask("PATCH", QUEUE, {"spec": {"resourceGroups": groups}})
