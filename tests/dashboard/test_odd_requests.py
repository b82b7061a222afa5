"""Requests that no page of ours makes: each gets a clear refusal, none an error of the server."""

import pytest
from django.test import Client

from apps.plans.services import drafting
from tests.dashboard.conftest import EVERY_ROLE, log_in, make_person
from tests.dashboard.test_grid_pages import text_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def client(picture):
    return log_in(make_person("all", *EVERY_ROLE))


@pytest.mark.parametrize(
    "address",
    ["/audit/?cluster=%00", "/audit/?actor=a%00", "/clusters/gpu-east-1/?find=%00", "/?cluster=%00"],
)
def test_an_address_with_a_nul_is_not_understood(client, address):
    answer = client.get(address)
    assert answer.status_code == 400
    assert "Go back" in text_of(answer)


@pytest.mark.parametrize("field", ["workload", "goal", "max_moves", "anything"])
def test_a_form_with_a_nul_is_not_understood(client, field):
    answer = client.post("/clusters/gpu-east-1/plans/", {"goal": "unlock", field: "ml/a\x00b"})
    assert answer.status_code == 400


def test_a_form_that_is_too_large_is_told_so(client):
    answer = client.post("/clusters/gpu-east-1/plans/", {"goal": "unlock", "workload": "x" * 2**21})
    assert answer.status_code == 400
    assert "1 MiB" in text_of(answer)


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "TRACE", "OPTIONS", "NONSENSE"])
@pytest.mark.parametrize("address", ["/", "/clusters/gpu-east-1/", "/audit/", "/healthz", "/readyz"])
def test_pages_take_no_other_method(client, address, method):
    answer = client.generic(method, address)
    assert answer.status_code == 405
    assert "GET" in answer["Allow"]


@pytest.mark.parametrize("told", ["http://[", "//evil.example/x", "javascript:alert(1)", ""])
def test_a_refetch_after_the_session_leads_to_no_other_place(picture, told):
    answer = Client().get("/clusters/gpu-east-1/", headers={"HX-Request": "true", "HX-Current-URL": told})
    assert answer.status_code == 204
    assert answer["HX-Redirect"] == "/login/?next=%2F"


def test_one_draft_too_many_is_one_line_on_the_page(client, monkeypatch):
    monkeypatch.setattr(drafting, "MOST_DRAFTS", 1)
    client.post("/clusters/gpu-east-1/plans/", {"goal": "unlock"})
    answer = client.post("/clusters/gpu-east-1/plans/", {"goal": "unlock"}, follow=True)
    assert "wait for one of them" in text_of(answer)
