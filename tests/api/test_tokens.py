"""API tokens: who makes them, what they open, and everything that ends them."""

import json
import threading
import time
from datetime import timedelta

import pytest
from django.db import connections, transaction
from django.test import Client
from django.utils import timezone

from apps.accounts.errors import TokenNameTaken
from apps.accounts.limits import Scope
from apps.accounts.models import ApiToken, RememberedAnswer, RoleGrant
from apps.accounts.services import grant_role
from apps.accounts.tokens import create_token, rename_token
from apps.audit.models import AuditEntry
from apps.plans.errors import RecentLoginNeeded
from apps.plans.models import Plan
from tests.plans.situations import approve, picture, proposed, see

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def unhurried(settings):
    """Every test counts from nought: callers have the same numbers in each."""
    settings.API_RATES = {kind: (10_000, 3600) for kind in settings.API_RATES}


@pytest.fixture
def ada(caller):
    return caller("ada", "planner", "operator")


def make(user, *scopes, clusters=None, name="night", days=30):
    return create_token(
        actor=user,
        name=name,
        scopes=scopes or Scope.values,
        valid_days=days,
        clusters=clusters,
        logged_in_at=timezone.now(),
    )


class Tool:
    """A program with a token and no cookie."""

    def __init__(self, secret):
        self.headers = {"authorization": f"Bearer {secret}"}
        self.client = Client(enforce_csrf_checks=True)

    def get(self, path, **query):
        return self.client.get(f"/api/v1/{path}", query, headers=self.headers)

    def post(self, path, key="", **body):
        headers = {**self.headers, **({"idempotency-key": key} if key else {})}
        return self.client.post(f"/api/v1/{path}", body, content_type="application/json", headers=headers)


def test_a_token_is_made_in_the_session_shown_once_and_kept_as_a_digest(ada, east, problem, caplog):
    answer = ada.post("tokens/", name="night", scopes=["read", "plan:write"], clusters=["east"], valid_days=7)
    assert answer.status_code == 201, answer.content
    assert answer["Cache-Control"] == "no-store"
    made = answer.json()
    secret = made["secret"]
    assert (made["person"], made["clusters"], made["scopes"]) == ("ada", ["east"], ["read", "plan:write"])
    row = ApiToken.objects.get()
    assert secret not in json.dumps([row.digest, row.token_key, row.password_stamp])
    assert abs(row.expiry - timezone.now() - timedelta(days=7)) < timedelta(minutes=1)

    assert Tool(secret).get("clusters/").json()["count"] == 1
    listed = ada.get("tokens/").json()["results"]
    assert "secret" not in listed[0]
    assert listed[0]["last_used_at"]
    entry = AuditEntry.objects.get(action="token.created")
    assert (entry.actor.username, entry.detail["clusters"]) == ("ada", ["east"])
    Tool(secret + "0").get("clusters/")
    assert "request_finished" in caplog.text
    everything = json.dumps(list(AuditEntry.objects.values_list("detail", "subject"))) + caplog.text
    assert secret not in everything
    assert secret[:15] not in everything
    problem(ada.post("tokens/", name="night", scopes=["read"]), 409, "token-name-taken")


@pytest.mark.parametrize(
    ("wish", "status", "code"),
    [
        ({"scopes": []}, 422, "invalid"),
        ({"scopes": ["admin"]}, 422, "invalid"),
        ({"valid_days": 91}, 422, "unusable-token"),
        ({"clusters": []}, 422, "unusable-token"),
        ({"clusters": ["west"]}, 404, "not-found"),
        ({"name": "\u202e"}, 422, "unusable-token"),
    ],
)
def test_a_token_that_cannot_be_made_says_why(ada, west, wish, status, code, problem):
    problem(ada.post("tokens/", **{"name": "x", "scopes": ["read"], **wish}), status, code)
    assert not ApiToken.objects.exists()


def test_making_one_takes_a_recent_login_and_no_token(ada, problem):
    session = ada.client.session
    session["logged_in_at"] = (timezone.now() - timedelta(hours=2)).isoformat()
    session.save()
    problem(ada.post("tokens/", name="x", scopes=["read"]), 403, "recent-login-needed")
    token, secret = make(ada.user)
    tool = Tool(secret)
    problem(tool.post("tokens/", name="y", scopes=["read"]), 403, "scope-needed")
    problem(tool.post(f"tokens/{token.pk}/revoke/"), 403, "scope-needed")
    assert ApiToken.objects.filter(revoked_at=None).count() == 1
    assert AuditEntry.objects.filter(action="denied", actor=ada.user).count() == 3


def test_a_scope_opens_what_it_names_and_nothing_else(ada, east, problem):
    see(east)
    reader, planner, runner = (
        Tool(make(ada.user, scope, name=scope)[1]) for scope in ("read", "plan:write", "execution:control")
    )
    body = {"cluster": "east", "goal": "free-nodes"}
    assert reader.get("plans/").status_code == 200
    answer = reader.post("plans/", **body)
    assert "plan:write" in problem(answer, 403, "scope-needed")
    assert 'scope="plan:write"' in answer["WWW-Authenticate"]
    problem(planner.get("plans/"), 403, "scope-needed")
    assert planner.post("plans/", **body).status_code == 201
    problem(planner.post("executions/", plan=1), 403, "scope-needed")
    problem(runner.post("executions/", plan=999), 404, "not-found")
    problem(runner.post("plans/", **body), 403, "scope-needed")
    requested = AuditEntry.objects.get(action="plan.requested")
    assert requested.detail["by_token"]["name"] == "plan:write"


def test_a_token_may_no_more_than_its_person(ada, bob_tool, east, problem):
    see(east)
    tool, user = bob_tool
    assert tool.get("clusters/").json()["count"] == 1
    problem(tool.post("plans/", cluster="east", goal="free-nodes"), 403, "denied")
    RoleGrant.objects.filter(user=user).delete()
    assert tool.get("clusters/").json()["count"] == 0


@pytest.fixture
def bob_tool(caller):
    bob = caller("bob", "viewer").user
    return Tool(make(bob)[1]), bob


def test_a_limited_token_sees_its_clusters_alone(ada, east, west, problem):
    for role in ("planner", "auditor", "admin"):
        grant_role(user=ada.user, role=role)
    tool = Tool(make(ada.user, clusters=["west"])[1])
    see(east)
    assert [one["name"] for one in tool.get("clusters/").json()["results"]] == ["west"]
    problem(tool.get("clusters/east/"), 404, "not-found")
    problem(tool.get("nodes/", cluster="east"), 404, "not-found")
    problem(tool.post("plans/", cluster="east", goal="free-nodes"), 404, "not-found")
    see(west)
    assert tool.post("plans/", cluster="west", goal="free-nodes").status_code == 201
    assert {one["cluster"] for one in tool.get("audit/").json()["results"]} == {"west"}
    Plan.objects.all().delete()
    west.delete()
    assert tool.get("clusters/").json()["count"] == 0


@pytest.mark.parametrize("end", ["revoked", "expired", "password", "off"])
def test_what_ends_a_token(ada, end, problem):
    token, secret = make(ada.user)
    tool = Tool(secret)
    assert tool.get("clusters/").status_code == 200
    if end == "revoked":
        assert ada.post(f"tokens/{token.pk}/revoke/").json()["ended_because"] == "it was revoked"
    elif end == "expired":
        ApiToken.objects.update(expiry=timezone.now() - timedelta(seconds=1))
    elif end == "password":
        ada.user.set_password("another long password")
        ada.user.save(update_fields=["password"])
    else:
        ada.user.is_active = False
        ada.user.save()
    answer = tool.get("clusters/")
    assert end in problem(answer, 401, "token-refused")
    assert answer["WWW-Authenticate"].startswith("Bearer ")


@pytest.mark.parametrize(
    "header",
    ["Bearer gdc_nothing", "Bearer", "Bearer a b", "bearer \xff\xfe", f"Bearer {'x' * 5000}", "Basic YTpi"],
)
def test_what_is_no_token_is_refused(client, header, problem):
    answer = client.get("/api/v1/clusters/", headers={"authorization": header})
    problem(answer, 401, "login-needed" if header.startswith("Basic") else "token-refused")


def test_beside_a_token_no_cookie_counts(ada, caller, problem):
    bob = caller("bob", "viewer")
    token, secret = make(bob.user, "read")
    both = Tool(secret).headers
    made = json.dumps({"name": "x", "scopes": ["read"]})
    answer = ada.client.post("/api/v1/tokens/", made, content_type="application/json", headers=both)
    problem(answer, 403, "scope-needed")
    assert [one["person"] for one in ada.client.get("/api/v1/tokens/", headers=both).json()["results"]] == [
        "bob"
    ]
    bob.post(f"tokens/{token.pk}/revoke/")
    problem(ada.client.get("/api/v1/clusters/", headers=both), 401, "token-refused")


def test_a_token_rejects_and_withdraws_but_never_approves(ada, caller, east, problem):
    chief = caller("chief", "approver").user
    _, secret = make(chief, "plan:write")
    plan = proposed(east, ada.user)
    tool, digest = Tool(secret), plan.versions.get().digest
    problem(tool.post(f"plans/{plan.pk}/approve/", digest=digest), 403, "scope-needed")
    from apps.accounts.tokens import recognise_token

    with pytest.raises(RecentLoginNeeded, match="token"):
        approve(plan, recognise_token(secret.encode()))
    answer = tool.post(f"plans/{plan.pk}/reject/", digest=digest, comment="no")
    assert answer.json()["state"] == "rejected"


def test_an_idempotency_key_belongs_to_its_token_and_tells_nothing_after_the_role(ada, east, problem):
    see(east)
    one, two = (Tool(make(ada.user, name=name)[1]) for name in ("one", "two"))
    body = {"cluster": "east", "goal": "free-nodes"}
    first = one.post("plans/", key="k", **body)
    assert one.post("plans/", key="k", **body).json() == first.json()
    assert two.post("plans/", key="k", **body).json()["id"] != first.json()["id"]
    RoleGrant.objects.all().delete()
    problem(one.post("plans/", key="k", **body), 404, "not-found")


def test_a_remembered_answer_holds_no_secret(ada):
    body = json.dumps({"name": "x", "scopes": ["read"]})
    first, again = (
        ada.client.post(
            "/api/v1/tokens/", body, content_type="application/json", headers={"idempotency-key": "k"}
        ).json()
        for _ in range(2)
    )
    assert (first["id"], again["secret"]) == (again["id"], "")
    assert first["secret"] not in json.dumps(RememberedAnswer.objects.get().body)


def test_renaming_asks_for_what_was_seen(ada, problem):
    token, _ = make(ada.user)
    path = f"tokens/{token.pk}/"
    problem(ada.send("patch", path, name="day"), 428, "precondition-needed")
    etag = ada.get(path)["ETag"]
    assert ada.send("patch", path, if_match=etag, name="day").json()["name"] == "day"
    problem(ada.send("patch", path, if_match=etag, name="dusk"), 412, "precondition-failed")
    assert ada.client.get(f"/api/v1/{path}", headers={"if-none-match": etag}).status_code == 200
    etag = ada.get(path)["ETag"]
    answer = ada.client.get(f"/api/v1/{path}", headers={"if-none-match": etag})
    assert (answer.status_code, answer.content) == (304, b"")


def test_others_tokens_look_absent_except_to_an_admin_of_the_console(ada, caller, problem):
    token, secret = make(ada.user)
    eve, root = caller("eve", "admin"), caller("root", "admin", cluster=None)
    problem(eve.get(f"tokens/{token.pk}/"), 404, "not-found")
    problem(eve.post(f"tokens/{token.pk}/revoke/"), 404, "not-found")
    assert root.get("tokens/", person="ada").json()["count"] == 1
    root.post(f"tokens/{token.pk}/revoke/")
    problem(Tool(secret).get("clusters/"), 401, "token-refused")


def test_too_many_calls_are_told_when_to_come_back(ada, east, settings, problem):
    settings.API_RATES = {**settings.API_RATES, "calls": (2, 3600), "planning": (1, 3600)}
    tool, other = Tool(make(ada.user)[1]), Tool(make(ada.user, name="other")[1])
    body = {"cluster": "east", "goal": "free-nodes"}
    see(east, picture())
    assert tool.post("plans/", **body).status_code == 201
    answer = tool.post("plans/", **body)
    problem(answer, 429, "too-many-requests")
    assert 0 < int(answer["Retry-After"]) <= 3600
    problem(tool.get("clusters/"), 429, "too-many-requests")
    assert other.get("clusters/").status_code == 200


def test_refusals_count_as_calls_so_that_nobody_fills_the_ledger(ada, settings, problem):
    settings.API_RATES = {**settings.API_RATES, "calls": (2, 3601)}
    tool = Tool(make(ada.user, "read")[1])
    answers = [tool.post("executions/", plan=1).status_code for _ in range(4)]
    assert answers == [403, 403, 429, 429]
    assert AuditEntry.objects.filter(action="denied").count() == 2


def test_a_redis_that_is_away_stops_nobody(ada, settings, monkeypatch):
    from redis import Redis

    from apps.accounts import rates

    away = Redis.from_url("redis://127.0.0.1:1/0", socket_connect_timeout=0.2)
    monkeypatch.setattr(rates, "_client", lambda: away)
    assert Tool(make(ada.user)[1]).get("clusters/").status_code == 200


@pytest.mark.django_db(transaction=True)
def test_a_name_that_another_token_takes_at_that_moment_is_refused(ada):
    token, _ = make(ada.user)
    is_taken = threading.Event()

    def take():
        facts = {"expiry": timedelta(days=1), "scopes": ["read"], "password_stamp": ""}
        with transaction.atomic():
            ApiToken.objects.create(user=ada.user, name="day", **facts)
            is_taken.set()
            time.sleep(0.3)
        connections.close_all()

    other = threading.Thread(target=take)
    other.start()
    is_taken.wait(10)
    with pytest.raises(TokenNameTaken, match="there is a token 'day' already"):
        rename_token(actor=ada.user, token_id=token.pk, name="day")
    other.join()
