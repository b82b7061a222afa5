"""Every operation of the schema, with generated input: no failure, and answers as the schema says."""

import pytest
import schemathesis
from django.core.handlers.wsgi import WSGIHandler
from django.test import Client
from drf_spectacular.generators import SchemaGenerator
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks

from apps.accounts.models import Role
from apps.executions import services as executions
from apps.fragmentation.tasks import measure_snapshots
from tests.plans.situations import approve, draft, make_cluster, person, proposed

CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]
EXAMPLES = 5
TOKEN = "t" * 32


@pytest.fixture
def schema(transactional_db):
    """The API as somebody with every role sees it, on a cluster where there is something to see."""
    east = make_cluster("east")
    author = person("author", "planner")
    draft(east, author)
    proposed(east, author)
    plan = approve(proposed(east, author), person("approver", "approver"))
    measure_snapshots()
    everyone = person("everyone", *Role.values)
    executions.start_execution(actor=everyone, plan_id=plan.pk)
    browser = Client()
    browser.force_login(everyone)
    caller = {
        "cookies": {"sessionid": browser.cookies["sessionid"].value, "csrftoken": TOKEN},
        "headers": {"X-CSRFToken": TOKEN, "Host": "localhost"},
    }
    loaded = schemathesis.openapi.from_dict(SchemaGenerator().get_schema(request=None, public=True))
    loaded.app = WSGIHandler()
    # The stream never ends, so it has tests of its own.
    return loaded.exclude(path="/api/v1/events/"), caller


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_generated_requests_meet_no_failure(schema, mode):
    operations, caller = schema
    count = 0
    for result in operations.get_all_operations():
        count += 1
        _probe(result.ok(), mode, caller)
    assert count >= 20


def _probe(operation, mode, caller):
    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def probe(case):
        answer = case.call(**caller)
        case.validate_response(answer, checks=CHECKS)

    probe()
