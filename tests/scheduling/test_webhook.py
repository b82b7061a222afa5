"""The steering webhook as a server of its own, asked over TLS like an API server asks it."""

import base64
import json
import os
import signal
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, connections
from django.utils import timezone

from apps.executions.models import Execution, Steering, Step
from apps.executions.states import StepKind
from apps.scheduling.certificates import provide_certificates
from console.embedded import die_with_parent, free_port
from tests.plans.situations import draft, make_cluster, person
from tests.scheduling.test_admission import review

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def certificates(tmp_path):
    return provide_certificates(tmp_path / "steering", "127.0.0.1")


@pytest.fixture
def webhook(certificates, transactional_db):
    """Its address and a function that asks it. It runs on the test's own database."""
    known = connection.settings_dict
    port = free_port()
    url = "postgres://{USER}:{PASSWORD}@{HOST}:{PORT}/{NAME}".format(**known)
    child = subprocess.Popen(
        [sys.executable, "manage.py", "serve_steering", "--port", str(port)]
        + ["--cert", str(certificates.certificate), "--key", str(certificates.key)],
        env={**os.environ, "DATABASE_URL": url, "DJANGO_SETTINGS_MODULE": "console.settings.test"},
        preexec_fn=die_with_parent,
    )
    trust = ssl.create_default_context(cafile=str(certificates.ca))

    def ask(path, body):
        request = urllib.request.Request(f"https://127.0.0.1:{port}{path}", data=body)
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, context=trust, timeout=5) as response:
            return json.loads(response.read())

    _wait_for(lambda: urllib.request.urlopen(f"https://127.0.0.1:{port}/healthz", context=trust, timeout=1))
    yield ask
    child.send_signal(signal.SIGTERM)
    assert child.wait(15) == 0


@pytest.fixture
def steering():
    return make_steerings(1)[0]


def make_steerings(moves):
    """Of one owner; the eviction of each of its pods was sent."""
    cluster = make_cluster()
    author = person("ada", "planner", cluster=cluster)
    plan = draft(cluster, author)
    version = plan.versions.get()
    execution = Execution.objects.create(plan=plan, version=version, started_by=author)
    found = []
    for move in range(1, moves + 1):
        about = {"execution": execution, "move": move, "target": "pod ml/lora"}
        step = Step.objects.create(position=2 * move, kind=StepKind.STEER, **about)
        sent = {"sent": ["evict"]}
        Step.objects.create(position=2 * move + 1, kind=StepKind.EVICT_POD, observed=sent, **about)
        row = Steering(step=step, name="steer-1-1", secret="s3cret", owner_uid="uid-rs")
        row.save()
        found.append(row)
    return found


def _wait_for(probe):
    deadline = time.monotonic() + 30
    while True:
        try:
            probe().close()
            return
        except OSError:
            assert time.monotonic() < deadline, "the webhook did not come up"
            time.sleep(0.1)


def is_gated(answer):
    response = answer["response"]
    assert response["allowed"] is True
    if "patch" not in response:
        return False
    return "schedulingGates" in base64.b64decode(response["patch"]).decode()


def ask_for(webhook, **facts):
    return is_gated(webhook("/steering/steer-1-1/s3cret", json.dumps(review(**facts)).encode()))


def test_of_many_pods_at_once_as_many_are_gated_as_evictions_were_sent(webhook):
    rows = make_steerings(3)
    Step.objects.filter(kind=StepKind.EVICT_POD, move=3).update(observed={"sent": ["free_pod"]})
    start = threading.Barrier(8)

    def create(number):
        start.wait()
        return ask_for(webhook, uid=f"adm-{number}")

    with ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(create, range(8))) == 2
    for row in rows:
        row.refresh_from_db()
    assert len({row.admitted_uid for row in rows[:2]} - {""}) == 2
    assert rows[2].admitted_uid == ""


def test_the_api_servers_repetition_of_one_admission_is_gated_again(webhook, steering):
    assert ask_for(webhook, uid="adm-1")
    assert ask_for(webhook, uid="adm-1")
    assert not ask_for(webhook, uid="adm-2")


def test_nothing_is_gated_for_a_wrong_secret_another_owner_another_pod_or_a_closed_steering(
    webhook, steering
):
    body = json.dumps(review()).encode()
    assert not is_gated(webhook("/steering/steer-1-1/guess", body))
    stranger = [{"uid": "uid-other", "controller": True}]
    assert not ask_for(webhook, metadata={"ownerReferences": stranger})
    Steering.objects.update(pod_name="db-0")
    assert not ask_for(webhook, metadata={"name": "db-1"})
    Steering.objects.update(pod_name="", closed_at=timezone.now())
    assert not ask_for(webhook)
    steering.refresh_from_db()
    assert steering.admitted_uid == ""


def test_a_steering_opened_again_gates_the_next_pod(webhook, steering):
    assert ask_for(webhook, uid="adm-1")
    Steering.objects.update(admitted_uid="")
    assert ask_for(webhook, uid="adm-2")


def test_a_body_that_is_no_json_is_told_so(webhook):
    with pytest.raises(urllib.error.HTTPError) as refused:
        webhook("/steering/a/b", b"{")
    assert refused.value.code == 400


def test_a_locked_row_lets_the_pod_through_within_the_api_servers_patience(webhook, steering):
    holding, done = threading.Event(), threading.Event()

    def hold_the_row():
        with connection.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("SELECT 1 FROM executions_steering FOR UPDATE")
            holding.set()
            done.wait(10)
            cursor.execute("ROLLBACK")
        connections.close_all()

    thread = threading.Thread(target=hold_the_row)
    thread.start()
    holding.wait(10)
    began = time.monotonic()
    try:
        assert not ask_for(webhook)
        assert time.monotonic() - began < 1.8
    finally:
        done.set()
        thread.join()


def test_good_certificates_are_kept_and_those_for_another_host_are_not(certificates):
    folder, before = certificates.ca.parent, certificates.certificate.read_bytes()
    assert provide_certificates(folder, "127.0.0.1").certificate.read_bytes() == before
    assert provide_certificates(folder, "webhook.example").certificate.read_bytes() != before
    assert certificates.key.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "body", [b"", b"[" * 100_000, b'{"a":' * 100_000, b"\xff\xfe{"], ids=["empty", "deep", "deeper", "bytes"]
)
def test_a_body_that_is_no_review_is_refused_at_once(webhook, body):
    began = time.monotonic()
    with pytest.raises(urllib.error.HTTPError) as caught:
        webhook("/steering/steer-1-1/s3cret", body)
    assert caught.value.code == 400
    assert time.monotonic() - began < 2


@pytest.mark.parametrize("odd", ["\ud800", "\x00", "x" * 5000])
def test_a_name_that_no_row_can_hold_lets_the_pod_through(webhook, steering, odd):
    asked = review()
    asked["request"]["uid"] = odd
    answer = webhook("/steering/steer-1-1/s3cret", json.dumps(asked).encode())
    assert answer["response"] == {"uid": odd, "allowed": True}
    steering.refresh_from_db()
    assert steering.admitted_uid == ""
