"""Idempotency-Key: the same request twice makes one thing, also when both come at once."""

import threading
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from apps.accounts.models import RememberedAnswer
from apps.plans.models import Plan
from tests.plans.situations import make_cluster, person, see

BODY = {"cluster": "east", "goal": "free-nodes"}


def ask(client, key, **body):
    return client.post(
        "/api/v1/plans/", {**BODY, **body}, content_type="application/json", headers={"idempotency-key": key}
    )


@pytest.fixture
def ada(caller, east):
    return caller("ada", "planner").client


def test_the_same_request_again_gets_the_first_answer(ada, east):
    see(east)
    first, again = ask(ada, "k1"), ask(ada, "k1")
    assert (first.status_code, again.status_code) == (201, 201)
    assert again.json() == first.json()
    assert again["Idempotency-Replayed"] == "true"
    assert Plan.objects.count() == 1
    ask(ada, "k2")
    assert Plan.objects.count() == 2


def test_the_same_key_with_another_body_is_refused(ada, east, problem):
    see(east)
    ask(ada, "k1")
    problem(ask(ada, "k1", max_moves=7), 422, "idempotency-key-reused")
    assert Plan.objects.count() == 1


def test_a_key_belongs_to_its_person(ada, caller, east):
    see(east)
    ask(ada, "k1")
    assert ask(caller("eve", "planner").client, "k1").status_code == 201
    assert Plan.objects.count() == 2


def test_what_was_refused_may_be_tried_again(ada, east, problem):
    problem(ask(ada, "k1"), 409, "nothing-known")
    see(east)
    assert ask(ada, "k1").status_code == 201


def test_a_request_in_flight_is_told_so_until_it_is_given_up(ada, east, problem):
    see(east)
    ask(ada, "k1")
    RememberedAnswer.objects.update(status=None, body=None)
    problem(ask(ada, "k1"), 409, "idempotency-key-in-flight")
    RememberedAnswer.objects.update(created_at=timezone.now() - timedelta(minutes=11))
    assert ask(ada, "k1").status_code == 201


def test_an_answer_is_kept_for_a_day(ada, east):
    see(east)
    ask(ada, "k1")
    RememberedAnswer.objects.update(created_at=timezone.now() - timedelta(hours=25))
    ask(ada, "k1")
    assert Plan.objects.count() == 2


def test_a_key_that_is_too_long_is_refused(ada, east, problem):
    assert "200 characters" in problem(ask(ada, "k" * 201), 422, "invalid")


@pytest.mark.django_db(transaction=True)
def test_of_many_at_once_one_is_carried_out():
    see(make_cluster("east"))
    user = person("ada", "planner")
    gate, codes = threading.Barrier(6), []

    def send():
        try:
            client = Client()
            client.force_login(user)
            gate.wait(10)
            codes.append(ask(client, "k1").status_code)
        finally:
            connection.close()

    threads = [threading.Thread(target=send) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(codes) == 6
    assert set(codes) <= {201, 409}
    assert 201 in codes
    assert Plan.objects.count() == 1
