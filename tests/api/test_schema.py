"""The OpenAPI document: it is made without a complaint, and it names every resource."""

import re

import pytest
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.validation import validate_schema

from console.api_router import router

RESOURCES = {
    *("clusters", "nodes", "gpus", "snapshots", "fragmentation", "pending", "what-if"),
    *("plans", "executions", "policies", "audit", "tokens", "events", "schema"),
}
VERBS = {"get", "post", "put", "patch", "delete"}


@pytest.fixture
def schema(settings):
    GENERATOR_STATS.reset()
    return SchemaGenerator().get_schema(request=None, public=True)


def test_the_schema_is_made_without_errors_and_warnings(schema):
    complaints = {**GENERATOR_STATS._error_cache, **GENERATOR_STATS._warn_cache}
    assert complaints == {}
    validate_schema(schema)


def test_every_resource_is_in_it(schema):
    assert {path.split("/")[3] for path in schema["paths"]} >= RESOURCES


def served():
    """(method, path) of everything below /api/v1/ that the code answers, as the schema writes paths."""
    for pattern in router.urls:
        route = str(pattern.pattern)
        if "format" in route or route == "^$":
            continue
        path = re.sub(r"\(\?P<(\w+)>[^/]*\)", r"{\1}", route.strip("^$")).replace("{pk}", "{id}")
        for method in VERBS & set(getattr(pattern.callback, "actions", ())):
            yield method, f"/api/v1/{path}"


def test_the_schema_tells_exactly_what_the_code_answers(schema):
    told = {
        (method, path) for path, methods in schema["paths"].items() for method in methods if method in VERBS
    }
    beside = {("get", "/api/v1/events/"), ("get", "/api/v1/schema/")}
    assert told == set(served()) | beside


def test_every_operation_is_described_and_tells_its_problems_and_who_may_call_it(schema):
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            assert operation.get("description"), (method, path)
            assert {"401", "403", "404", "429", "default"} <= set(operation["responses"]), (method, path)
            assert {"session": []} in operation["security"], (method, path)
    plan = schema["paths"]["/api/v1/plans/"]
    assert {"token": ["plan:write"]} in plan["post"]["security"]
    assert {"token": ["read"]} in plan["get"]["security"]
    assert schema["paths"]["/api/v1/plans/{id}/approve/"]["post"]["security"] == [{"session": []}]
    assert schema["paths"]["/api/v1/tokens/"]["post"]["security"] == [{"session": []}]
    assert {"412", "428"} <= set(schema["paths"]["/api/v1/plans/{id}/revise/"]["post"]["responses"])


def test_field_names_carry_their_units(schema):
    """A bare memory, age, wait, cpu or cost in seconds would leave the reader guessing."""
    bare = re.compile(r"^(memory|age|wait|waiting|cpu|duration|timeout|size)$")
    for name, component in schema["components"]["schemas"].items():
        for field in component.get("properties", {}):
            assert not bare.match(field), f"{name}.{field}"


def test_the_schema_is_for_people_who_are_logged_in(client, db, django_user_model):
    assert client.get("/api/v1/schema/").status_code == 401
    client.force_login(django_user_model.objects.create(username="ada"))
    answer = client.get("/api/v1/schema/", headers={"accept": "application/json"})
    assert answer.status_code == 200
