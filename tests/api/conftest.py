"""People, logged in, on two clusters: east is theirs, west is not."""

import pytest

from tests.plans.situations import make_cluster, person


class Caller:
    """A person's REST client. Answers come with their JSON."""

    def __init__(self, client, user):
        self.client, self.user = client, user

    def get(self, path, **query):
        return self.client.get(f"/api/v1/{path}", query)

    def post(self, path, **body):
        return self.send("post", path, **body)

    def send(self, method, path, if_match=None, **body):
        headers = {"if-match": if_match} if if_match else {}
        call = getattr(self.client, method)
        return call(f"/api/v1/{path}", body, content_type="application/json", headers=headers)


@pytest.fixture
def east(db):
    return make_cluster("east")


@pytest.fixture
def west(db):
    return make_cluster("west")


@pytest.fixture
def caller(db, east):
    """caller("ada", "planner"): logged in, with these roles on east."""
    from django.test import Client

    def log_in(name, *roles, cluster=east):
        client = Client()
        user = person(name, *roles, cluster=cluster)
        client.force_login(user)
        return Caller(client, user)

    return log_in


@pytest.fixture
def problem():
    """problem(answer, 404, "not-found"): checks the shape, gives the detail back."""

    def check(answer, status, code):
        assert answer.status_code == status, answer.content
        assert answer["Content-Type"] == "application/problem+json"
        body = answer.json()
        assert body["type"] == f"urn:gpu-defrag-console:problem:{code}"
        assert body["status"] == status
        assert body["title"]
        assert body["instance"] == answer.request["PATH_INFO"]
        return body["detail"]

    return check
