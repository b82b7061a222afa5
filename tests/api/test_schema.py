"""The OpenAPI document: it is made without a complaint, and it names every resource."""

import re

import pytest
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.validation import validate_schema

RESOURCES = {"clusters", "nodes", "snapshots", "fragmentation", "pending", "plans", "executions", "audit"}


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
