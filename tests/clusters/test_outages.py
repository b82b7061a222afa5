"""The watcher outlives its database, its broker and itself; the real command beside a whole cluster."""

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager

import psycopg
import pytest
import redis
from django.conf import settings
from django.db import connection

from apps.clusters import notices, queries, services
from apps.clusters.models import Cluster
from console.embedded import die_with_parent
from tests.cluster_fixtures import wait_until
from tests.clusters.looking import newest, picture_of, register
from tests.kube.objects import node
from tests.nursery import ROOT

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("quick_pictures")]


@contextmanager
def database_away():
    """Nobody gets in, and who is in is thrown out; only the maintenance database stays open."""
    facts = connection.settings_dict
    name = facts["NAME"]
    connection.close()
    with psycopg.connect(
        host=facts["HOST"],
        port=facts["PORT"],
        user=facts["USER"],
        password=facts["PASSWORD"],
        dbname="postgres",
        autocommit=True,
    ) as maintenance:
        maintenance.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        try:
            maintenance.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name]
            )
            yield
        finally:
            maintenance.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')


def test_a_database_that_is_away_is_waited_for(api_server, watchers, caplog):
    api_server.seed(node())
    cluster = register(api_server)
    first = wait_until(lambda: newest(cluster))
    with database_away():
        api_server.ask("PATCH", "/api/v1/nodes/node-a", {"spec": {"unschedulable": True}})
        wait_until(lambda: "database away" in caplog.text, seconds=30)

    def caught_up():
        try:
            return newest(cluster).pk != first.pk
        except Exception:
            connection.close()
            return False

    wait_until(caught_up, seconds=40)
    assert picture_of(cluster).nodes["node-a"].unschedulable


def test_without_redis_pictures_are_kept_all_the_same(api_server, watchers, settings, caplog):
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    notices._client.cache_clear()
    api_server.seed(node())
    cluster = register(api_server)
    wait_until(lambda: newest(cluster))
    wait_until(lambda: "notice not sent" in caplog.text)
    notices._client.cache_clear()


@pytest.fixture
def watch_command():
    """`manage.py watch_cluster` as it runs in production, against the test's database."""
    started = []

    def start():
        facts = connection.settings_dict
        url = (
            f"postgres://{facts['USER']}:{facts['PASSWORD']}@{facts['HOST']}:{facts['PORT']}/{facts['NAME']}"
        )
        environment = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "console.settings.test",
            "DATABASE_URL": url,
            "SNAPSHOT_MIN_INTERVAL_SECONDS": "0.1",
            "SNAPSHOT_HEARTBEAT_SECONDS": "1",
        }
        command = [sys.executable, "manage.py", "watch_cluster"]
        started.append(
            subprocess.Popen(
                command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, preexec_fn=die_with_parent
            )
        )
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stderr.close()


def test_the_command_records_a_living_cluster_and_ends_when_told(simulated_cluster, watch_command):
    simulated = simulated_cluster(scene="small", time_scale=20)
    cluster = services.register_cluster(actor=None, name="lab", kubeconfig=simulated.kubeconfig)
    process = watch_command()
    row = wait_until(lambda: newest(cluster), seconds=30)
    assert row.summary["gpus"]["physical"] > 0
    assert not Cluster.objects.get(pk=cluster.pk).problems
    pods = simulated.ask("GET", "/api/v1/pods")["items"]
    target = next(
        pod["metadata"]
        for pod in pods
        if pod["metadata"].get("ownerReferences") and pod["spec"].get("nodeName")
    )
    gateway = simulated.gateway()
    gateway.evict_pod(target["namespace"], target["name"], uid=target["uid"])
    gateway.close()
    wait_until(lambda: target["uid"] not in picture_of(cluster).pods, seconds=30)
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0


def test_a_killed_watcher_goes_on_where_it_was(api_server, watch_command):
    api_server.seed(node())
    cluster = register(api_server)
    first = watch_command()
    row = wait_until(lambda: newest(cluster), seconds=30)
    first.kill()
    first.wait()
    api_server.ask("PATCH", "/api/v1/nodes/node-a", {"spec": {"unschedulable": True}})
    watch_command()
    wait_until(lambda: newest(cluster).pk != row.pk, seconds=30)
    assert queries.open_snapshot(newest(cluster)).nodes["node-a"].unschedulable


def test_a_notice_is_small_and_holds_no_secret(api_server, watchers):
    listener = redis.Redis.from_url(settings.REDIS_URL).pubsub(ignore_subscribe_messages=True)
    listener.subscribe(notices.CHANNEL)
    wait_until(lambda: listener.get_message(timeout=0.1) is None)
    api_server.seed(*(node(f"node-{number}") for number in range(50)))
    register(api_server)
    message = wait_until(lambda: listener.get_message(timeout=0.2))
    assert len(message["data"]) < 2000
    assert api_server.server.token not in json.dumps(message["data"].decode())
    listener.close()
