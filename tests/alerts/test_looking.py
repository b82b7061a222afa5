"""Alerts are raised once and cleared once, told in the ledger, and seen by those who see the cluster."""

import threading
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone
from rest_framework.test import APIClient

from apps.alerts.models import Alert, ChainCheck
from apps.alerts.services import look
from apps.audit.models import AuditEntry
from apps.clusters.models import Cluster
from apps.placing.models import ExtenderBeat
from tests.plans.situations import person

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def silent():
    heard = timezone.now() - timedelta(minutes=5)
    return Cluster.objects.create(name="north", server="https://north", watched_at=heard)


def test_a_silent_cluster_is_told_once_and_cleared(silent):
    look()
    look()
    alert = Alert.objects.get()
    assert (alert.kind, alert.cleared_at) == ("watch-old", None)
    Cluster.objects.update(watched_at=timezone.now())
    look()
    assert Alert.objects.get().cleared_at is not None
    assert list(AuditEntry.objects.order_by("id").values_list("action", flat=True)) == [
        "alert.raised",
        "alert.cleared",
    ]


def test_an_extender_that_a_scheduler_asked_and_that_is_silent_is_told_and_one_never_asked_is_not(silent):
    now = timezone.now()
    Cluster.objects.update(watched_at=now)
    beat = ExtenderBeat.objects.create(
        cluster=silent, beat_at=now - timedelta(minutes=5), started_at=now - timedelta(days=1)
    )
    look()
    assert not Alert.objects.exists()
    beat.asked_at, beat.picture_age_seconds = beat.beat_at, 1.0
    beat.save()
    look()
    assert [(one.kind, one.cluster) for one in Alert.objects.all()] == [("extender-away", silent)]


def test_two_looks_at_once_raise_it_once(silent):
    start = threading.Barrier(4)

    def one() -> None:
        start.wait()
        try:
            look()
        finally:
            connection.close()

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert Alert.objects.count() == 1
    assert AuditEntry.objects.filter(action="alert.raised").count() == 1


def test_a_changed_ledger_is_told(silent):
    look()
    look()
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE audit_auditentry DISABLE TRIGGER USER")
        cursor.execute("UPDATE audit_auditentry SET action = 'nothing'")
        cursor.execute("ALTER TABLE audit_auditentry ENABLE TRIGGER USER")
    assert not Alert.objects.filter(kind="audit-broken").exists()
    ChainCheck.objects.update(begun_at=timezone.now() - timedelta(hours=2))
    look()
    assert Alert.objects.get(kind="audit-broken").cleared_at is None


def test_only_alerts_of_visible_clusters_are_shown(silent):
    look()
    client = APIClient()
    client.force_authenticate(person("vera", "viewer", cluster=silent))
    found = client.get("/api/v1/alerts/?open=true").json()["results"]
    assert [(one["cluster"], one["kind"]) for one in found] == [("north", "watch-old")]
    assert client.get("/api/v1/alerts/?open=false").json()["results"] == []
    assert client.get("/api/v1/alerts/?open=perhaps").status_code == 422
    other = Cluster.objects.create(name="south", server="https://south", watched_at=timezone.now())
    client.force_authenticate(person("otto", "viewer", cluster=other))
    assert client.get("/api/v1/alerts/").json()["results"] == []
    assert client.get(f"/api/v1/alerts/{Alert.objects.get().pk}/").status_code == 404


def test_every_page_tells_of_open_alerts_and_the_page_lists_them(client, silent):
    client.force_login(person("vera", "viewer", cluster=silent))
    assert "Nothing is or was wrong" in client.get("/alerts/").content.decode()
    look()
    shown = client.get("/alerts/?only=open").content.decode()
    assert "1 alert open" in shown
    assert "The watcher has not heard from the cluster" in shown
    assert "1 alert open" in client.get("/clusters/").content.decode()
    other = Cluster.objects.create(name="south", server="https://south", watched_at=timezone.now())
    client.force_login(person("otto", "viewer", cluster=other))
    assert "alert open" not in client.get("/alerts/").content.decode()
