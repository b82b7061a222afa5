"""Every operation of the schema, with generated input: no failure, and answers as the schema says.

A few examples each, always the same; docs/api.md tells how to run many more against a running console.
"""

from pathlib import Path

import pytest
import schemathesis
from django.core.handlers.wsgi import WSGIHandler
from django.test import Client
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi import checks

from apps.accounts.limits import Scope
from apps.accounts.models import Role
from apps.accounts.tokens import create_token
from apps.executions import services as executions
from apps.fragmentation.tasks import measure_snapshots
from console.api_schema import the_document
from tests.plans.situations import approve, draft, make_cluster, person, proposed

CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
    checks.negative_data_rejection,
    checks.positive_data_acceptance,
]
CONFIG = Path(__file__).parents[2] / "schemathesis.toml"
EXAMPLES = 2
CSRF = "t" * 32


@pytest.fixture
def everyone(transactional_db, settings):
    """Somebody with every role, on a cluster where there is something to see."""
    settings.API_RATES = {kind: (10**6, 60) for kind in settings.API_RATES}
    east = make_cluster("east")
    author = person("author", "planner")
    draft(east, author)
    proposed(east, author)
    plan = approve(proposed(east, author), person("approver", "approver"))
    measure_snapshots()
    everyone = person("everyone", *Role.values)
    executions.start_execution(actor=everyone, plan_id=plan.pk)
    return everyone


def by_session(user):
    browser = Client()
    browser.force_login(user)
    return {
        "cookies": {"sessionid": browser.cookies["sessionid"].value, "csrftoken": CSRF},
        "headers": {"X-CSRFToken": CSRF, "Host": "localhost"},
    }


def by_token(user):
    facts = {"name": "fuzz", "scopes": Scope.values, "valid_days": 1, "logged_in_at": timezone.now()}
    _, secret = create_token(actor=user, **facts)
    return {"headers": {"Authorization": f"Bearer {secret}", "Host": "localhost"}}


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_generated_requests_meet_no_failure(everyone, mode):
    schema = schemathesis.openapi.from_dict(the_document(), config=schemathesis.Config.from_path(str(CONFIG)))
    schema.app = WSGIHandler()
    session, token = by_session(everyone), by_token(everyone)
    count = 0
    # The stream never ends, so it has tests of its own.
    for result in schema.exclude(path="/api/v1/events/").get_all_operations():
        operation = result.ok()
        takes_token = any("token" in way for way in operation.definition.raw["security"])
        count += _probe(operation, mode, token if takes_token else session)
    assert count >= 35


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

    try:
        probe()
    except Unsatisfiable:
        return 0  # it takes nothing that could be wrong
    return 1
