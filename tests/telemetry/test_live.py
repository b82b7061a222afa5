"""A cluster's Prometheus is connected and read over HTTP; what that leaves, and what a failure leaves."""

import json
import time
from datetime import timedelta

import pytest
from django.utils import timezone

from apps.accounts.errors import Denied
from apps.audit.models import AuditEntry
from apps.clusters.models import Cluster
from apps.clusters.queries import open_snapshot
from apps.prometheus.client import Client
from apps.prometheus.connection import Connection
from apps.telemetry import queries, runner, services
from apps.telemetry.errors import NotAnswering, UnusableAddress
from apps.telemetry.models import Minute, Reading, Source
from apps.telemetry.sightings import sightings_of
from tests.plans.situations import person

pytestmark = pytest.mark.django_db
MIB_OF_AN_A100 = 81920


def connect(cluster, address, **more):
    return services.connect_prometheus(actor=None, cluster_id=cluster.pk, address=address, **more)


@pytest.fixture
def source(cluster, measured):
    return connect(cluster, measured.address)


@pytest.fixture
def node(cluster, measured):
    return open_snapshot(measured.snapshot(cluster)).nodes["gpu-1"]


def test_every_gpu_has_a_reading_with_its_holder_and_its_window(cluster, measured, source, node):
    assert runner.read_source(source.pk)
    readings = queries.device_readings(cluster, node)
    assert set(readings) == {gpu.key for gpu in node.gpus}
    held, free = (readings[node.gpus[place].key] for place in (0, 7))
    (unit,) = held.device.units
    assert (unit.workload.key, unit.total_mib) == (f"work/{measured.pod}", MIB_OF_AN_A100)
    assert unit.used_mib + unit.free_mib + unit.reserved_mib == unit.total_mib
    assert free.device.units[0].workload is None
    assert free.device.units[0].utilisation == 0
    assert held.use[""].minutes == 15  # the minutes before the first reading come from Prometheus' own memory
    assert held.use[""].average > 0
    assert free.use[""].average == 0
    assert not held.is_stale


def test_one_request_per_metric_however_many_gpus(cluster, source, monkeypatch):
    asked = []
    get = Connection.get
    monkeypatch.setattr(
        Connection, "get", lambda self, path, query=None: asked.append(path) or get(self, path, query)
    )
    assert runner.read_source(source.pk)
    assert asked.count("/api/v1/query") == 8  # 16 GPUs, 8 metrics
    assert asked.count("/api/v1/query_range") == 2
    del asked[:]
    assert runner.read_source(source.pk)
    assert "/api/v1/query_range" not in asked


def test_past_minutes_are_asked_only_while_there_is_time(source):
    client = Client(Connection(source.address, connect_seconds=5, read_seconds=5), budget_seconds=0.0)
    reading = client.read()
    assert "took longer than 0 s" in reading.warnings[0]
    now = time.time()
    assert client.past_use(reading.metrics, since=now - 300, until=now, step=60) == {}
    client.close()


def test_a_failure_is_a_sentence_with_the_time_and_the_rest_stays(cluster, measured, source, node):
    assert runner.read_source(source.pk)
    Source.objects.update(address="http://127.0.0.1:9")
    assert not runner.read_source(source.pk)
    row = queries.source_of(cluster)
    assert row.error.startswith("Prometheus on 127.0.0.1:9: the connection is refused. Check that it runs")
    assert row.failed_at >= row.read_at
    assert len(queries.device_readings(cluster, node)) == 8
    Source.objects.update(address=measured.address)
    assert runner.read_source(source.pk)
    assert (queries.source_of(cluster).error, queries.source_of(cluster).failed_at) == ("", None)


def test_two_workers_do_not_read_the_same_source(source):
    assert services.claim_source(source_id=source.pk) is not None
    assert services.claim_source(source_id=source.pk) is None
    assert not runner.read_source(source.pk)
    Source.objects.update(claimed_until=timezone.now() - timedelta(seconds=1))
    assert runner.read_source(source.pk)


def test_only_watched_clusters_are_read_and_old_minutes_go(cluster, source, settings):
    assert queries.source_ids() == [source.pk]
    Cluster.objects.update(is_active=False)
    assert queries.source_ids() == []
    settings.TELEMETRY_KEPT_MINUTES = 5
    runner.read_source(source.pk)
    assert 1 <= Minute.objects.count() <= 7


def test_while_mig_is_changed_there_is_no_data_since_and_then_instances(
    clock, cluster, measured, source, node
):
    def read():
        assert runner.read_source(source.pk)
        return queries.device_readings(cluster, node)[node.gpus[0].key]

    assert read().device.units[0].used_mib is not None
    measured.cut("gpu-1")
    clock.shift(30)
    silent = read()
    assert silent.device.silent_since is not None
    assert [(unit.used_mib, unit.utilisation) for unit in silent.device.units] == [(None, None)]
    assert "no data since" in silent.device.units[0].missing["utilisation"]
    clock.shift(60)
    cut = read()
    assert cut.device.silent_since is None
    assert {(unit.instance, unit.profile) for unit in cut.device.units} == {
        ("1", "4g.40gb"),
        ("2", "3g.40gb"),
    }
    assert {(use.average, use.minutes) for use in cut.use.values()} == {
        (None, 1)
    }  # what was before is another's


def test_the_exporters_labels_are_told_to_the_watcher_while_they_are_fresh(cluster, measured, source, node):
    assert sightings_of(cluster) == {}
    runner.read_source(source.pk)
    told = sightings_of(cluster)
    assert [one[:4] for one in told["gpu-1"]] == [
        ("work", measured.pod, gpu.uuid, "main") for gpu in node.gpus[:4]
    ]
    Reading.objects.update(taken_at=timezone.now() - timedelta(minutes=10))
    assert sightings_of(cluster) == {}


def test_low_use_is_worked_out_once_a_minute(clock, cluster, measured, source):
    measured.snapshot(cluster)
    assert runner.read_source(source.pk)
    found, since = queries.low_use_of(cluster)
    assert found.units >= 4
    clock.shift(30)
    assert runner.read_source(source.pk)
    assert queries.low_use_of(cluster)[1] == since
    clock.shift(45)
    assert runner.read_source(source.pk)
    assert queries.low_use_of(cluster)[1] > since


@pytest.mark.parametrize(
    "address",
    ["ftp://p:9090", "p:9090", "http://", "https://me:secret@p", "https://p/?q=1", "http://169.254.169.254",
     "http://[fe80::1]:9090", "http://[::ffff:169.254.169.254]", "https://p\nq", "https://" + "a" * 300],
)  # fmt: skip
def test_an_address_that_may_not_be_asked_is_refused(cluster, address):
    with pytest.raises(UnusableAddress):
        connect(cluster, address)
    assert not Source.objects.exists()


def test_a_token_is_kept_sealed_and_goes_to_its_own_address_only(cluster, measured):
    with pytest.raises(UnusableAddress, match="https:// only"):
        connect(cluster, "http://prometheus.example:9090", token="s3cret", answers=False)
    source = connect(cluster, measured.address, token="s3cret")
    assert source.credential
    assert "s3cret" not in source.credential
    assert connect(cluster, measured.address).credential == source.credential
    assert connect(cluster, "https://elsewhere.example", answers=False).credential == ""
    entry = AuditEntry.objects.filter(action="telemetry.connected").first()
    assert "s3cret" not in json.dumps(entry.detail)


def test_another_prometheus_begins_with_nothing_and_none_leaves_nothing(cluster, source):
    runner.read_source(source.pk)
    connect(cluster, "https://elsewhere.example", answers=False)
    assert (Reading.objects.count(), Minute.objects.count()) == (0, 0)
    assert connect(cluster, "") is None
    assert queries.source_of(cluster) is None
    assert AuditEntry.objects.filter(action="telemetry.disconnected").count() == 1


def test_who_does_not_answer_as_prometheus_does_is_refused(cluster, api_server):
    with pytest.raises(NotAnswering, match="certificate is not trusted"):
        connect(cluster, api_server.url)
    with pytest.raises(NotAnswering, match="connection is refused"):
        connect(cluster, "http://127.0.0.1:9")


def test_only_its_admins_connect_a_cluster_and_a_dump_has_nothing_to_measure(cluster, measured):
    with pytest.raises(Denied):
        services.connect_prometheus(
            actor=person("vera", "viewer", cluster=cluster), cluster_id=cluster.pk, address=measured.address
        )
    boss = person("bo", "admin", cluster=cluster)
    assert services.connect_prometheus(actor=boss, cluster_id=cluster.pk, address=measured.address)
    dump = Cluster.objects.create(name="file", source=Cluster.Source.DUMP)
    with pytest.raises(UnusableAddress, match="is a dump"):
        connect(dump, measured.address)
