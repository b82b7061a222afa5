"""Plans and executions over REST: every refusal is a problem with its own type and one clear sentence."""

import json

import pytest
from django.test import Client

from apps.audit.models import AuditEntry
from apps.plans.computing import compute_draft
from apps.plans.models import Plan
from tests.plans.situations import approve, draft, person, picture, proposed, see

pytestmark = pytest.mark.django_db


@pytest.fixture
def ada(caller):
    return caller("ada", "planner")


@pytest.fixture
def bob(caller):
    return caller("bob", "approver")


def test_a_plan_is_asked_for_computed_and_proposed(ada, east):
    see(east)
    answer = ada.post("plans/", cluster="east", goal="free-nodes", max_moves=5)
    assert answer.status_code == 201
    plan = answer.json()
    assert (plan["state"], plan["progress"], plan["version"]) == ("draft", "computing", None)
    assert plan["request"] == {
        "goal": "free-nodes",
        "workload": "",
        "max_moves": 5,
        "seconds": 10.0,
        "may_preempt": False,
    }

    compute_draft(plan["id"])
    plan = ada.get(f"plans/{plan['id']}/").json()
    assert plan["progress"] == "ready"
    assert plan["version"]["body"]["moves"][0]["pod"] == "ml/lora"
    assert ada.get(f"plans/{plan['id']}/comparison/").json()["changes"] == []

    plan = ada.post(f"plans/{plan['id']}/propose/").json()
    assert (plan["state"], plan["proposed_by"]) == ("proposed", "ada")
    assert plan["expires_at"] > plan["proposed_at"]
    listed = ada.get("plans/", state="proposed", cluster="east").json()["results"]
    assert [one["id"] for one in listed] == [plan["id"]]
    assert ada.get("plans/", state="draft").json()["count"] == 0


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"goal": "free-nodes"}, "cluster"),
        ({"cluster": "east", "goal": "tidy"}, "goal"),
        ({"cluster": "east", "goal": "free-nodes", "max_moves": 0}, "max_moves"),
        ({"cluster": "east", "goal": "free-nodes", "max_moves": "many"}, "max_moves"),
        ({"cluster": "east", "goal": "free-nodes", "seconds": 1e9}, "seconds"),
        ({"cluster": "east", "goal": "free-nodes", "max_move": 5}, "max_move"),
    ],
)
def test_a_value_that_cannot_be_used_is_named(ada, east, body, field, problem):
    see(east)
    answer = ada.post("plans/", **body)
    assert problem(answer, 422, "invalid").startswith(f"{field}: ")
    assert [one["field"] for one in answer.json()["errors"]] == [field]


def test_a_body_that_is_no_json_is_a_problem(ada, problem):
    answer = ada.client.post("/api/v1/plans/", "{", content_type="application/json")
    problem(answer, 400, "bad-request")
    answer = ada.client.post("/api/v1/plans/", "a=1", content_type="application/x-www-form-urlencoded")
    problem(answer, 415, "unsupported-media-type")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ('{"goal": "' + "x" * 1024 * 1024 + '"}', 413, "too-large"),
        ("[" * 100_000, 400, "bad-request"),
        ('{"seconds": NaN}', 400, "bad-request"),
        ('{"cluster": "a\\u0000", "goal": "free-nodes"}', 422, "invalid"),
        ('{"cluster": "a\\ud800", "goal": "free-nodes"}', 422, "invalid"),
        ("[]", 422, "invalid"),
        ("\xff", 400, "bad-request"),
    ],
    ids=["too large", "too deep", "no number", "NUL", "half a character", "no object", "no UTF-8"],
)
def test_a_hostile_body_is_a_problem_and_no_failure(ada, body, status, code, problem):
    answer = ada.client.post("/api/v1/plans/", body.encode("latin-1"), content_type="application/json")
    problem(answer, status, code)


def test_one_person_has_at_most_ten_plans_in_computing(ada, east, problem):
    see(east)
    for _ in range(10):
        assert ada.post("plans/", cluster="east", goal="free-nodes").status_code == 201
    problem(ada.post("plans/", cluster="east", goal="free-nodes"), 429, "too-many-drafts")
    compute_draft(Plan.objects.first().pk)
    assert ada.post("plans/", cluster="east", goal="free-nodes").status_code == 201


def test_domain_refusals_have_their_own_types(ada, bob, east, west, problem):
    post = {"cluster": "east", "goal": "free-nodes"}
    problem(ada.post("plans/", **post), 409, "nothing-known")
    see(east)
    problem(ada.post("plans/", **post, workload="ml/x"), 422, "invalid-plan-request")
    problem(ada.post("plans/", **{**post, "cluster": "west"}), 404, "not-found")
    problem(bob.post("plans/", **post), 403, "denied")

    plan = draft(east, ada.user)
    problem(bob.post(f"plans/{plan.pk}/propose/"), 403, "denied")
    problem(bob.post(f"plans/{plan.pk}/reject/", digest="x"), 409, "wrong-state")
    ada.post(f"plans/{plan.pk}/propose/")
    problem(bob.post(f"plans/{plan.pk}/reject/", digest="x"), 409, "digest-mismatch")
    problem(bob.post(f"plans/{plan.pk}/withdraw/"), 403, "denied")
    denials = AuditEntry.objects.filter(action="denied", actor=bob.user)
    assert denials.count() == 3


def test_a_stale_plan_says_what_changed(ada, east, problem):
    plan = draft(east, ada.user)
    see(east, picture(pods=[]))
    assert ada.get(f"plans/{plan.pk}/comparison/").json()["changes"] == [
        "ml/lora is gone (move 1)",
    ]
    detail = problem(ada.post(f"plans/{plan.pk}/propose/"), 409, "plan-is-stale")
    assert "ml/lora is gone (move 1)" in detail
    assert ada.get(f"plans/{plan.pk}/").json()["state"] == "stale"


def test_approval_happens_in_the_browser_alone(ada, bob, east, problem):
    plan = proposed(east, ada.user)
    version = plan.versions.get()
    detail = problem(bob.post(f"plans/{plan.pk}/approve/", digest=version.digest), 403, "forbidden")
    assert detail.endswith(f" open /clusters/east/plans/{plan.pk}/")
    assert ada.client.get(detail.rpartition(" ")[2]).status_code == 200
    plan.refresh_from_db()
    assert plan.state == "proposed"


def test_reject_withdraw_and_revise(ada, bob, east):
    one, two, three = (proposed(east, ada.user) for _ in range(3))
    digest = one.versions.get().digest
    rejected = bob.post(f"plans/{one.pk}/reject/", digest=digest, comment="Not today.").json()
    assert (rejected["state"], rejected["state_reason"]) == ("rejected", "Not today.")
    assert rejected["decisions"][0]["decided_by"] == "bob"
    assert ada.post(f"plans/{two.pk}/withdraw/", reason="Changed my mind.").json()["state"] == "withdrawn"
    etag = ada.get(f"plans/{three.pk}/")["ETag"]
    revised = ada.post(f"plans/{three.pk}/revise/", if_match=etag, max_moves=3).json()
    assert (revised["state"], revised["version_number"], revised["version"]) == ("draft", 2, None)


def test_a_plan_elsewhere_looks_absent(ada, west, problem):
    plan = draft(west, person("author", "planner"))
    for path in (f"plans/{plan.pk}/", f"plans/{plan.pk}/comparison/", f"plans/{plan.pk + 99}/"):
        problem(ada.get(path), 404, "not-found")
    for verb in ("propose", "reject", "withdraw", "revise", "approve"):
        body = {"digest": "x"} if verb == "reject" else {}
        problem(ada.post(f"plans/{plan.pk}/{verb}/", **body), 404, "not-found")
    assert ada.get("plans/").json()["count"] == 0
    problem(ada.get("plans/999999999999999999/"), 404, "not-found")
    assert not AuditEntry.objects.filter(action="denied").exists()


def test_a_write_without_the_csrf_token_is_refused(ada, east, problem):
    see(east)
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(ada.user)
    body = json.dumps({"cluster": "east", "goal": "free-nodes"})
    answer = strict.post("/api/v1/plans/", body, content_type="application/json")
    assert "CSRF" in problem(answer, 403, "forbidden")
    assert not Plan.objects.exists()


def test_an_execution_is_started_read_and_steered(ada, bob, caller, east, west, problem):
    oz = caller("oz", "operator")
    plan = proposed(east, ada.user)
    problem(oz.post("executions/", plan=plan.pk), 409, "wrong-state")
    approve(plan, bob.user)
    problem(ada.post("executions/", plan=plan.pk), 403, "denied")
    answer = oz.post("executions/", plan=plan.pk)
    assert answer.status_code == 201, answer.content
    execution = answer.json()
    assert (execution["plan"], execution["state"], execution["started_by"]) == (plan.pk, "queued", "oz")
    assert execution["digest"] == plan.versions.get().digest
    problem(oz.post("executions/", plan=plan.pk), 409, "wrong-state")

    listed = ada.get("executions/", cluster="east", state="queued").json()["results"]
    assert [one["id"] for one in listed] == [execution["id"]]
    problem(ada.post(f"executions/{execution['id']}/cancel/", reason="no"), 403, "denied")
    cancelled = oz.post(f"executions/{execution['id']}/cancel/", reason="Wrong evening.").json()
    assert cancelled["state"] == "cancelling"
    assert isinstance(cancelled["steps"], list)
    problem(oz.post(f"executions/{execution['id']}/resume/"), 409, "wrong-state")

    stranger = caller("stranger", "operator", cluster=west)
    problem(stranger.get(f"executions/{execution['id']}/"), 404, "not-found")
    problem(stranger.post(f"executions/{execution['id']}/pause/"), 404, "not-found")
    problem(stranger.post("executions/", plan=plan.pk), 404, "not-found")
