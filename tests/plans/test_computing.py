"""From a draft to its version: the worker's lease, the planner, the check, and what is kept."""

import json
from base64 import b64decode
from datetime import timedelta

import pytest
from django.conf import settings
from django.utils import timezone
from redis import Redis

from apps.plans import services
from apps.plans.computing import compute_draft
from apps.plans.models import Plan
from apps.plans.queries import current_version, open_plan, progress_of
from apps.plans.tasks import compute_requested_plans
from tests.plans.situations import make_cluster, node, person, picture, pod, see

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster():
    return make_cluster()


@pytest.fixture
def author():
    return person("author", "planner")


def asked(cluster, author, **wish):
    return services.request_plan(actor=author, cluster=cluster, **{"goal": "free-nodes", **wish})


def test_a_draft_becomes_a_plan_that_frees_the_node(cluster, author):
    row = see(cluster)
    plan = asked(cluster, author)
    assert compute_draft(plan.pk) is True
    plan.refresh_from_db()
    version = current_version(plan)
    found = open_plan(version)
    assert [(move.pod, move.source, move.target) for move in found.moves] == [("ml/lora", "node-a", "node-b")]
    assert found.freed_nodes == ("node-a",)
    assert (plan.title, version.snapshot, version.snapshot_digest) == ("Free 1 A100 node", row, row.digest)
    assert compute_draft(plan.pk) is False


def test_unlock_makes_room_for_what_waits(cluster, author):
    waits = pod("llama", "", 8, phase="Pending", ready=False)
    see(cluster, picture(pods=[*picture().pods.values(), waits]))
    plan = asked(cluster, author, goal="unlock", workload="ml/llama")
    compute_draft(plan.pk)
    plan.refresh_from_db()
    found = open_plan(current_version(plan))
    assert found.unlocked == ("ml/llama",)
    assert [one.pod for one in found.hand_overs] == ["ml/llama"]
    assert "llama" in plan.title


def test_nothing_to_do_is_an_answer(cluster, author):
    see(cluster, picture(nodes=[node("node-a")], pods=[pod("serve", "node-a", 8)]))
    plan = asked(cluster, author)
    compute_draft(plan.pk)
    plan.refresh_from_db()
    assert progress_of(plan, current_version(plan)) == "empty"
    assert plan.state_reason.endswith(".")
    assert plan.title.startswith("Nothing to move")


def test_a_workload_that_does_not_wait_ends_in_a_sentence(cluster, author):
    see(cluster)
    plan = asked(cluster, author, goal="unlock", workload="ml/unheard-of")
    compute_draft(plan.pk)
    plan.refresh_from_db()
    assert progress_of(plan, current_version(plan)) in ("empty", "failed")
    assert "ml/unheard-of" in plan.state_reason


def test_the_lease_keeps_a_second_worker_away_until_it_ends(cluster, author):
    see(cluster)
    plan = asked(cluster, author)
    assert services.claim_draft(plan_id=plan.pk).computing_attempts == 1
    assert services.claim_draft(plan_id=plan.pk) is None
    Plan.objects.update(computing_until=timezone.now() - timedelta(seconds=1))
    assert services.claim_draft(plan_id=plan.pk).computing_attempts == 2


def test_a_draft_that_kills_its_workers_is_given_up_with_a_reason(cluster, author):
    see(cluster)
    plan = asked(cluster, author)
    for _ in range(3):
        assert services.claim_draft(plan_id=plan.pk) is not None
        Plan.objects.update(computing_until=timezone.now() - timedelta(seconds=1))
    assert services.claim_draft(plan_id=plan.pk) is None
    plan.refresh_from_db()
    assert progress_of(plan, current_version(plan)) == "failed"
    assert "stopped 3 times" in plan.state_reason


def test_the_timer_finds_a_draft_whose_message_was_lost(cluster, author):
    see(cluster)
    plan = asked(cluster, author)
    withdrawn = asked(cluster, author)
    services.withdraw_plan(plan_id=withdrawn.pk, actor=author)
    compute_requested_plans()
    assert current_version(plan) is not None
    assert current_version(withdrawn) is None


@pytest.mark.django_db(transaction=True)
def test_a_worker_is_woken_when_the_request_is_committed(cluster, author):
    see(cluster)
    broker = Redis.from_url(settings.REDIS_URL)
    broker.delete("planning")
    plan = asked(cluster, author)
    # Other tests may use the same broker at the same time.
    messages = [json.loads(message) for message in broker.lrange("planning", 0, -1)]
    mine = [one for one in messages if json.loads(b64decode(one["body"]))[0] == [plan.pk]]
    assert [one["headers"]["task"] for one in mine] == ["apps.plans.tasks.compute_plan"]
    assert Plan.objects.get(pk=plan.pk).state == "draft"
    broker.delete("planning")
