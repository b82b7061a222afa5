"""The pages of tokens and of the API's reference."""

import re
from datetime import timedelta

import pytest
from django.utils import timezone

from apps.accounts.models import ApiToken
from apps.audit.models import AuditEntry
from tests.dashboard.conftest import log_in, make_cluster, make_person
from tests.dashboard.test_grid_pages import text_of

pytestmark = pytest.mark.django_db
WISH = {"name": "nightly", "scopes": ["read", "plan:write"], "reach": "all", "valid_days": "30"}


def test_a_token_is_made_shown_once_used_and_revoked(viewer, cluster, client):
    browser = log_in(viewer)
    assert "You have no token" in text_of(browser.get("/tokens/"))
    made = browser.post("/tokens/", WISH)
    secret = re.search(r"gdc_[0-9a-f]{64}", made.content.decode())[0]
    assert "no-store" in made["Cache-Control"]
    again = browser.get("/tokens/").content.decode()
    assert "nightly" in again
    assert secret not in again
    headers = {"authorization": f"Bearer {secret}"}
    assert client.get("/api/v1/clusters/", headers=headers).json()["count"] == 1
    token = ApiToken.objects.get()
    page = browser.post(f"/tokens/{token.pk}/revoke/", follow=True)
    assert "Token nightly is revoked" in text_of(page)
    assert "it was revoked" in text_of(page)
    assert client.get("/api/v1/clusters/", headers=headers).status_code == 401
    assert secret not in str(list(AuditEntry.objects.values()))


def test_what_cannot_be_made_is_said_and_the_form_is_kept(viewer, cluster):
    make_cluster("gpu-west-1")
    browser = log_in(viewer)
    for wrong, words in (
        ({"scopes": []}, "choose at least one"),
        ({"valid_days": "4000"}, "take 1 to 90"),
        ({"valid_days": "x"}, "take 1 to 90"),
        ({"reach": "some"}, "name at least one"),
    ):
        page = browser.post("/tokens/", {**WISH, **wrong})
        assert words in text_of(page)
        assert 'value="nightly"' in page.content.decode()
    assert not ApiToken.objects.exists()
    browser.post("/tokens/", {**WISH, "reach": "some", "clusters": ["gpu-west-1"]})
    assert [one.name for one in ApiToken.objects.get().clusters.all()] == ["gpu-west-1"]
    assert "you have a token 'nightly' already" in text_of(browser.post("/tokens/", WISH)).lower()


def test_an_old_login_makes_no_token(viewer):
    browser = log_in(viewer)
    session = browser.session
    session["logged_in_at"] = (timezone.now() - timedelta(hours=2)).isoformat()
    session.save()
    assert "Log in again" in text_of(browser.get("/tokens/"))
    assert "your login is too long ago" in text_of(browser.post("/tokens/", WISH)).lower()
    assert not ApiToken.objects.exists()


def test_others_tokens_are_for_admins(viewer, admin):
    log_in(viewer).post("/tokens/", WISH)
    number = ApiToken.objects.get().pk
    other = log_in(make_person("other", "viewer"))
    assert "nightly" not in text_of(other.get("/tokens/"))
    assert other.post(f"/tokens/{number}/revoke/").status_code == 404
    assert "v.ida" in text_of(log_in(admin).get("/tokens/"))
    log_in(admin).post(f"/tokens/{number}/revoke/")
    assert ApiToken.objects.get().revoked_at


def test_the_reference_tells_every_operation_and_who_may_call_it(viewer, client):
    assert client.get("/reference/").status_code == 302
    browser = log_in(viewer)
    assert browser.get("/api/v1/docs/")["Location"] == "/reference/"
    page = browser.get("/reference/")
    text = text_of(page)
    assert "POST /api/v1/plans/ plan:write" in text
    assert "POST /api/v1/tokens/ browser only" in text
    assert "Idempotency-Key" in text
    anchors = set(re.findall(r'id="([^"]+)"', page.content.decode()))
    links = set(re.findall(r'href="#([^"]+)"', page.content.decode())) - {"main"}
    assert links <= anchors


def test_planning_and_deciding_in_the_browser_have_their_rates(planner, picture, settings):
    settings.API_RATES = {**settings.API_RATES, "planning": (1, 3600), "deciding": (1, 3600)}
    browser = log_in(planner)
    ask = {"goal": "free-nodes", "max_moves": "3"}
    browser.post("/clusters/gpu-east-1/plans/", ask)
    again = browser.post("/clusters/gpu-east-1/plans/", ask, follow=True)
    assert "More than 1 in 3600 seconds" in text_of(again)
    number = picture.cluster.plans.get().pk
    browser.post(f"/clusters/gpu-east-1/plans/{number}/withdraw/")
    page = browser.post(f"/clusters/gpu-east-1/plans/{number}/withdraw/", follow=True)
    assert "More than 1 in 3600 seconds" in text_of(page)
