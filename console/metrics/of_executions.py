"""Executions, plans, steps, what stands still, and requests to API servers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from django.db.models import Count, Min
from django.db.models.functions import Coalesce
from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from apps.executions.causes import cause_of
from apps.executions.models import ApiRequestCount, Execution, Step
from apps.executions.queries import open_executions
from apps.executions.states import FINISHED, TERMINAL, StepState
from apps.plans.models import Plan

CLUSTER = "plan__cluster__name"


def count_executions() -> Iterator[Metric]:
    states = GaugeMetricFamily(
        "gpu_defrag_executions",
        "Executions by state, those that have ended too.",
        labels=["cluster", "state"],
    )
    rows = Execution.objects.order_by().values_list(CLUSTER, "state").annotate(Count("pk"))
    for cluster, state, count in rows:
        states.add_metric([cluster, state], count)
    yield states


def count_plans() -> Iterator[Metric]:
    states = GaugeMetricFamily("gpu_defrag_plans", "Plans by state.", labels=["cluster", "state"])
    for cluster, state, count in (
        Plan.objects.order_by().values_list("cluster__name", "state").annotate(Count("pk"))
    ):
        states.add_metric([cluster, state], count)
    yield states


def count_steps() -> Iterator[Metric]:
    """Of open executions alone: those of the past would only make each scrape longer."""
    steps = GaugeMetricFamily(
        "gpu_defrag_open_execution_steps",
        "Steps of open executions by kind and state.",
        labels=["cluster", "kind", "state"],
    )
    stops = GaugeMetricFamily(
        "gpu_defrag_stops",
        "Steps and whole executions that stand still, by cause.",
        labels=["cluster", "cause"],
    )
    counts, causes = Counter[tuple[str, str, str]](), Counter[tuple[str, str]]()
    fields = (f"execution__{CLUSTER}", "kind", "state", "observed__cause")
    open_steps = Step.objects.exclude(execution__state__in=TERMINAL).order_by()
    for cluster, kind, state, cause, count in open_steps.values_list(*fields).annotate(Count("pk")):
        counts[cluster, kind, state] += count
        if cause and state not in FINISHED | {StepState.PENDING}:
            causes[cluster, cause_of(cause).code] += count
    whole = open_executions().exclude(cause="").order_by()
    for cluster, cause, count in whole.values_list(CLUSTER, "cause").annotate(Count("pk")):
        causes[cluster, cause_of(cause).code] += count
    for labels, count in counts.items():
        steps.add_metric(labels, count)
    for stop, count in causes.items():
        stops.add_metric(stop, count)
    yield steps
    yield stops


def count_requests() -> Iterator[Metric]:
    sent = CounterMetricFamily(
        "gpu_defrag_api_requests",
        "Requests of executions to API servers, by method and HTTP status (0: no answer).",
        labels=["cluster", "method", "code"],
    )
    rows = ApiRequestCount.objects.values_list("cluster__name", "method", "status", "count")
    for cluster, method, status, count in rows:
        sent.add_metric([cluster, method, str(status)], count)
    yield sent


def look_at_visits() -> Iterator[Metric]:
    visits = GaugeMetricFamily(
        "gpu_defrag_execution_oldest_visit_timestamp_seconds",
        "When a runner last looked at the open execution that was not looked at for longest.",
        labels=["cluster"],
    )
    seen = Min(Coalesce("visited_at", "created_at"))
    for cluster, at in open_executions().order_by().values_list(CLUSTER).annotate(seen=seen):
        visits.add_metric([cluster], at.timestamp())
    yield visits
