"""/metrics parses, follows the rows, takes a bounded number of queries, and is closed without its token."""

import re
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from apps.alerts.models import Alert
from apps.alerts.services import look
from apps.executions.holdings import LEFT_OVER, Held, held_to_dict
from apps.executions.models import ClusterHoldings, Execution, Step
from apps.executions.request_log import RequestLog
from apps.kube.sent import Sent
from apps.plans.models import ClusterPolicy
from tests.dashboard.conftest import make_cluster, make_picture
from tests.dashboard.test_execution_pages import approved, running  # noqa: F401

pytestmark = pytest.mark.django_db(transaction=True)
ROOT = Path(__file__).parents[2]
TOKEN = "a-long-token-of-this-test"
MOST_QUERIES = 19
"""As docs/metrics.md says."""


def families():
    answer = Client().get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    assert answer.status_code == 200
    return list(text_string_to_metric_families(answer.content.decode()))


def scrape():
    """(name without our prefix, label values in the order of their alphabet) -> value"""
    return {
        (sample.name.removeprefix("gpu_defrag_"), *sorted(sample.labels.values())): sample.value
        for family in families()
        for sample in family.samples
    }


def value(told, name, *labels):
    return told[name, *sorted(labels)]


@pytest.fixture(autouse=True)
def token(settings):
    settings.METRICS_TOKEN = TOKEN


def test_it_is_closed_without_its_token_and_absent_without_a_setting(settings):
    assert Client().get("/metrics").status_code == 401
    assert Client().get("/metrics", headers={"Authorization": "Bearer other"}).status_code == 401
    assert Client().post("/metrics").status_code == 405
    settings.METRICS_TOKEN = ""
    assert Client().get("/metrics", headers={"Authorization": "Bearer "}).status_code == 404
    settings.METRICS_OPEN = True
    assert Client().get("/metrics").status_code == 200


def test_the_values_are_those_of_the_rows(cluster, running):  # noqa: F811
    now, place = timezone.now(), cluster.name
    waiting = Step.objects.filter(execution=running, state="blocked").first()
    waiting.observed |= {"cause": "budget-used-up"}
    waiting.save()
    held = [held_to_dict(Held("cordon", f"node {n}", "1-x", "", now - timedelta(hours=n), now, LEFT_OVER))
            for n in (1, 2)]  # fmt: skip
    ClusterHoldings.objects.create(cluster=cluster, held=held, looked_at=now, unread=["Pods are not seen"])
    ClusterPolicy.objects.update_or_create(cluster=cluster, defaults={"stopped_at": now, "stop_reason": "x"})
    log = RequestLog(SimpleNamespace(execution_id=running.pk, fence=1), cluster.pk)
    for status in (200, 201, 201, 0):
        log.note(Sent(now, "POST", "/x", status))
        log.write()
    look()
    told = scrape()
    assert value(told, "executions", place, "running") == 1
    assert value(told, "stops", place, "budget-used-up") == 1
    kinds = Step.objects.filter(execution=running, kind="evict_pod", state="verified").count()
    assert value(told, "open_execution_steps", place, "evict_pod", "verified") == kinds > 0
    assert (
        value(told, "held", place, "cordon", "left over"),
        value(told, "held_overdue", place, "cordon", "left over"),
    ) == (2, 2)
    assert 7200 <= value(told, "held_oldest_seconds", place, "cordon", "left over") < 7800
    assert value(told, "holdings_unread", place) == 1
    assert value(told, "kill_switch", place, "console") == 1
    answers = [value(told, "api_requests_total", place, "POST", code) for code in ("200", "201", "0")]
    assert answers == [1, 2, 1]
    for kind in Alert.objects.filter(cleared_at=None, cluster=cluster).values_list("kind", flat=True):
        assert [told[key] for key in told if key[0] == "alerts" and {place, kind} < set(key)] == [1]
    assert value(told, "audit_chain_intact") == 1
    assert value(told, "timer_look_timestamp_seconds") >= now.timestamp() - 1
    assert value(told, "gpus", place, "physical") > value(told, "fragmentation_gpus", place) > 0
    Execution.objects.update(state="succeeded", finished_at=now)
    after = scrape()
    assert value(after, "executions", place, "succeeded") == 1
    assert not [key for key in after if key[0] in ("stops", "open_execution_steps")]


def test_the_number_of_queries_does_not_grow_with_the_rows(cluster, running):  # noqa: F811
    with CaptureQueriesContext(connection) as before:
        scrape()
    for number in range(5):
        other = make_cluster(f"other-{number}")
        make_picture(other)
        ClusterHoldings.objects.create(cluster=other, held=[], looked_at=timezone.now())
    with CaptureQueriesContext(connection) as after:
        scrape()
    assert len(after) == len(before) <= MOST_QUERIES


def test_every_metric_is_documented_and_the_shipped_rules_name_known_ones(cluster, running):  # noqa: F811
    page = (ROOT / "docs" / "metrics.md").read_text()
    known = {family.name.removeprefix("gpu_defrag_") for family in families()}
    counters = {family.name.removeprefix("gpu_defrag_") for family in families() if family.type == "counter"}
    listed = set(
        re.findall(
            r"`([a-z_]+)`",
            "\n".join(line.split("|")[1] for line in page.splitlines() if line.startswith("| `")),
        )
    )
    assert {name.removesuffix("_total") for name in listed} == known
    assert {name for name in listed if name.endswith("_total")} == {f"{name}_total" for name in counters}
    (group,) = yaml.safe_load((ROOT / "deploy" / "prometheus" / "rules.yaml").read_text())["groups"]
    for rule in group["rules"]:
        named = re.findall(r"gpu_defrag_([a-z_]+)", rule["expr"])
        assert named
        assert {name.removesuffix("_total") for name in named} <= known, rule["alert"]
