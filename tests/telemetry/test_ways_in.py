"""The command, the REST resource and the pages."""

import io
import json

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from apps.telemetry import runner, services
from apps.telemetry.models import Source
from tests.plans.situations import person

FRAGMENTATION = "/clusters/east/fragmentation/"
USED = 'DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-1",Hostname="n1",pod="train-0",namespace="team"} 450\n'


def run(path, **options):
    printed = io.StringIO()
    call_command("read_metrics", str(path), stdout=printed, **options)
    return printed.getvalue()


def test_the_command_answers_in_json_and_as_a_table(tmp_path):
    path = tmp_path / "scrape.txt"
    path.write_text(USED)
    answer = json.loads(run(path, json=True))
    assert (answer["fb_mib"], answer["pods"], answer["series"]) == (
        {"gpu0": {"FB_USED": 450.0}},
        ["train-0"],
        1,
    )
    table = run(path)
    assert "team/train-0" in table
    assert table.count("not measured") == 3  # free memory, use, power


@pytest.mark.parametrize(
    "raw", [b"", b"\xff\x00\x01", b"hello\nworld\n", b'{"status":"error"}', b"[" * 10**6]
)
def test_the_command_refuses_what_it_cannot_read_in_one_line(tmp_path, raw):
    path = tmp_path / "bad"
    path.write_bytes(raw)
    with pytest.raises(CommandError) as refused:
        run(path)
    assert refused.value.returncode == 2
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)
    with pytest.raises(CommandError, match="cannot be read"):
        run(tmp_path / "nowhere")


@pytest.fixture
def logged_in(cluster):
    def log_in(name, *roles):
        client = Client()
        client.force_login(person(name, *roles, cluster=cluster))
        return client

    return log_in


@pytest.fixture
def seen(cluster, measured):
    source = services.connect_prometheus(
        actor=None, cluster_id=cluster.pk, address=measured.address, token="s3cret"
    )
    assert runner.read_source(source.pk)
    return measured.snapshot(cluster)


@pytest.mark.django_db
def test_rest_tells_each_gpu_and_what_is_not_measured(seen, logged_in):
    client = logged_in("vera", "viewer")
    body = client.get("/api/v1/telemetry/?cluster=east&node=gpu-1").json()
    assert body["count"] == 8
    (unit,) = body["results"][0]["units"]
    assert unit["workloads"][0].startswith("work/train")
    assert (unit["total_mib"], unit["minutes_measured"], unit["is_low_use"]) == (81920, 15, False)
    assert unit["not_measured"] == {}
    node = client.get("/api/v1/nodes/gpu-1/?cluster=east").json()
    assert node["telemetry"] == body["results"]


@pytest.mark.django_db
def test_rest_connects_for_admins_and_never_tells_the_token(cluster, measured, seen, logged_in):
    admin, where = logged_in("bo", "admin"), "/api/v1/telemetry/east/"
    told = admin.get(where)
    assert told.json()["has_token"]
    assert "s3cret" not in told.content.decode()

    def put(client, tag, **body):
        return client.put(
            where, body, content_type="application/json", headers={"if-match": tag} if tag else {}
        )

    assert put(admin, "", address="").status_code == 428
    refused = put(admin, told["ETag"], address="http://169.254.169.254/")
    assert (refused.status_code, refused.json()["type"].rpartition(":")[2]) == (422, "unusable-address")
    assert put(logged_in("vera", "viewer"), told["ETag"], address="").status_code == 403
    changed = put(admin, told["ETag"], address="", token="")
    assert (changed.status_code, changed.json()["address"]) == (200, "")
    assert put(admin, told["ETag"], address=measured.address).status_code == 412
    assert not Source.objects.exists()


@pytest.mark.django_db
def test_the_pages_show_it_and_say_where_there_is_nothing(cluster, measured, seen, logged_in):
    client = logged_in("bo", "admin")
    page = client.get("/clusters/east/nodes/gpu-1/").content.decode()
    assert page.partition('aria-label="Telemetry"')[2].count("of 81,920 MiB") == 8
    assert f"work/{measured.pod}" in page
    assert "no Prometheus is connected" not in page
    assert "Worked out with the next reading" in client.get(FRAGMENTATION).content.decode()
    assert runner.read_source(Source.objects.get().pk)
    with CaptureQueriesContext(connection) as asked:
        low = client.get(FRAGMENTATION).content.decode()
    assert "held devices are in low use" in low or "No held device is known to be in low use" in low
    assert not [one for one in asked if "telemetry_minute" in one["sql"]]  # no device is gone through
    change = "/clusters/east/change/telemetry/"
    typed = {"address": "http://127.0.0.1:9", "token": "s3cret", "ca": ""}
    refused = client.post(change, typed, follow=True).content.decode()
    assert "connection is refused" in refused or "https:// only" in refused
    assert 'value="http://127.0.0.1:9"' in refused
    assert "s3cret" not in refused
    assert Source.objects.get().address == measured.address
    assert "from nowhere any more" in client.post(change, {"address": ""}, follow=True).content.decode()
    assert '<a href="/clusters/#telemetry-east">Connect one</a>' in client.get(FRAGMENTATION).content.decode()
    bare = client.get("/clusters/east/nodes/gpu-1/").content.decode()
    assert "no Prometheus is connected to this cluster" in bare
