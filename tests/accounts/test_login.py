"""Logging in and out, the time that a session remembers, and the limit on attempts."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.services import create_person
from apps.accounts.sessions import logged_in_at

pytestmark = pytest.mark.django_db
PASSWORD = "correct horse battery"


@pytest.fixture
def ada():
    return create_person(username="ada", password=PASSWORD)


def log_in(client, password=PASSWORD, **query):
    return client.post("/login/", {"username": "ada", "password": password, **query})


def session_time(client):
    class Request:
        session = client.session

    return logged_in_at(Request)


def test_a_login_is_remembered_with_its_time_and_leads_on(ada, client):
    answer = log_in(client, next="/api/v1/clusters/")
    assert (answer.status_code, answer["Location"]) == (302, "/api/v1/clusters/")
    assert timezone.now() - session_time(client) < timedelta(seconds=10)
    assert client.get("/api/v1/clusters/").status_code == 200


def test_logging_in_again_renews_the_time_of_the_session(ada, client):
    log_in(client)
    session = client.session
    session["logged_in_at"] = (timezone.now() - timedelta(days=1)).isoformat()
    session.save()
    assert client.get("/login/").status_code == 200
    log_in(client)
    assert timezone.now() - session_time(client) < timedelta(seconds=10)


def test_a_session_that_tells_no_time_has_none(client):
    assert session_time(client) is None


def test_a_login_leads_to_no_other_host(ada, client):
    assert "evil" not in log_in(client, next="https://evil.example/")["Location"]


def test_logging_out_takes_a_post_and_ends_the_session(ada, client):
    log_in(client)
    assert client.get("/logout/").status_code == 405
    assert client.get("/api/v1/clusters/").status_code == 200
    client.post("/logout/")
    assert client.get("/api/v1/clusters/").status_code == 401


def test_after_eight_wrong_passwords_the_right_one_is_refused_too(ada):
    client = Client()
    for _ in range(7):
        assert log_in(client, "wrong").status_code == 200
    assert log_in(client, "wrong").status_code == 429
    answer = log_in(client)
    assert answer.status_code == 429
    assert "quarter of an hour" in answer.content.decode()
    assert client.get("/api/v1/clusters/").status_code == 401


def test_an_inactive_person_does_not_get_in(ada, client):
    ada.is_active = False
    ada.save()
    assert log_in(client).status_code == 200
    assert client.get("/api/v1/clusters/").status_code == 401


def test_a_name_that_nobody_can_have_is_wrong_and_breaks_nothing(client, db):
    answer = client.post("/login/", {"username": "a" * 5000, "password": PASSWORD})
    assert answer.status_code == 200
    assert "password" in " ".join(answer.context["form"].non_field_errors())
