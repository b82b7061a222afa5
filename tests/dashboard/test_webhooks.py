"""Webhooks over real TLS on loopback: signature, back-off, refusals, no redirect, and who has them."""

import hashlib
import hmac
import json
import ssl
import threading
import time
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from django.db import transaction
from django.db.models import Q
from django.urls import reverse
from django.utils import timezone

from apps.accounts.sessions import KEY
from apps.audit import services as audit
from apps.audit.models import AuditEntry
from apps.executions import safe_mode
from apps.scheduling.certificates import provide_certificates
from apps.webhooks import delivering, services
from apps.webhooks.models import Delivery, Webhook
from apps.wire.webhook_post import WebhookRefused, resolve
from tests.dashboard.conftest import log_in, make_cluster, make_person

pytestmark = pytest.mark.django_db(transaction=True)


class Receiver:
    """answers: (status, seconds of waiting), the last one again and again."""

    def __init__(self, folder):
        self.got, self.answers = [], [(204, 0)]
        files, outer = provide_certificates(folder, "127.0.0.1"), self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.got.append((self.path, dict(self.headers), body))
                status, seconds = outer.answers.pop(0) if len(outer.answers) > 1 else outer.answers[0]
                time.sleep(seconds)
                self.send_response(status)
                self.send_header("Location", f"{outer.url}/elsewhere")
                self.end_headers()

            def log_message(self, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(files.certificate, files.key)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url, self.ca = f"https://127.0.0.1:{self.server.server_port}", str(files.ca)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def receiver(tmp_path, settings):
    found = Receiver(tmp_path)
    settings.WEBHOOK_ALLOWED, settings.WEBHOOK_CA_FILE = ["127.0.0.0/8"], found.ca
    yield found
    found.server.shutdown()
    found.server.server_close()


def happen(action, place):
    with transaction.atomic():
        audit.record(actor=None, action=action, subject="x", cluster=place, detail={"reason": "it is so"})


def make_due():
    Delivery.objects.exclude(next_try_at=None).update(next_try_at=timezone.now())
    Webhook.objects.update(wait_until=None)


def add(admin, receiver, cluster=None, events=("plan.approved", "execution.stopped"), name="pager"):
    return services.add_webhook(
        actor=admin, name=name, url=f"{receiver.url}/hook?x=1", events=list(events), cluster=cluster
    )


def test_what_happens_is_told_once_signed_and_to_nobody_of_another_cluster(receiver, cluster):
    admin = make_person("a.dmin", "admin", cluster=cluster)
    make_cluster("other")
    happen("plan.approved", "gpu-east-1")
    _, secret = add(admin, receiver, cluster)
    for action, place in (
        ("plan.approved", "other"), ("plan.rejected", "gpu-east-1"), ("execution.needs_human", "gpu-east-1"),
    ):  # fmt: skip
        happen(action, place)
    delivering.decide_deliveries()
    delivering.decide_deliveries()
    delivering.send_due()
    delivering.send_due()
    ((path, headers, body),) = receiver.got
    assert (path, headers["X-Gpu-Defrag-Event"]) == ("/hook?x=1", "execution.stopped")
    told = json.loads(body)
    assert (told["id"], told["detail"]) == (headers["X-Gpu-Defrag-Delivery"], {"reason": "it is so"})
    at, _, found = headers["X-Gpu-Defrag-Signature"].removeprefix("t=").partition(",v1=")
    wanted = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    assert found == wanted
    row = Delivery.objects.get()
    assert (row.status, row.next_try_at, row.tries) == (204, None, 1)
    assert secret not in Webhook.objects.get().secret
    assert not [one for one in AuditEntry.objects.all() if secret in json.dumps(one.detail)]


def test_a_change_that_was_rolled_back_is_told_to_nobody(receiver, cluster, admin):
    add(admin, receiver)
    with transaction.atomic():
        audit.record(actor=None, action="plan.approved", subject="x", cluster="gpu-east-1")
        transaction.set_rollback(True)
    delivering.decide_deliveries()
    assert not Delivery.objects.exists()


def test_a_receiver_that_fails_or_is_slow_is_tried_later_with_the_same_id(receiver, cluster, admin, settings):
    settings.WEBHOOK_SECONDS = 0.3
    receiver.answers = [(500, 0), (204, 2), (204, 0)]
    add(admin, receiver)
    for _ in range(3):
        happen("plan.approved", "gpu-east-1")
    delivering.decide_deliveries()
    delivering.send_due()
    delivering.send_due()
    assert len(receiver.got) == 1  # it waits as a whole: two more are due, and none was tried
    make_due()
    delivering.send_due()
    assert Delivery.objects.filter(error="no answer within 0.3 s").count() == 1
    assert len(receiver.got) == 2
    make_due()
    delivering.send_due()
    assert Delivery.objects.filter(delivered_at=None).count() == 0
    first = [headers["X-Gpu-Defrag-Delivery"] for _, headers, _ in receiver.got]
    assert (len(first), len(set(first))) == (5, 3)
    row = Webhook.objects.get()
    assert (row.failures, row.wait_until) == (0, None)


def test_a_redirect_is_not_followed_and_a_hopeless_one_is_given_up(receiver, cluster, admin):
    receiver.answers = [(302, 0)]
    add(admin, receiver)
    happen("plan.approved", "gpu-east-1")
    delivering.decide_deliveries()
    for _ in delivering.BACKOFF_SECONDS:
        delivering.send_due()
        make_due()
    delivering.send_due()
    row = Delivery.objects.get()
    assert "redirects are not followed" in row.error
    assert row.next_try_at is None
    assert {path for path, _, _ in receiver.got} == {"/hook?x=1"}
    assert row.tries == len(receiver.got) == len(delivering.BACKOFF_SECONDS) + 1


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://8.8.8.8/", "must begin with https"),
        ("https://me:secret@8.8.8.8/", "neither a user"),
        ("https://127.0.0.1/", "not public"),
        ("https://localhost/", "not public"),
        ("https://10.1.2.3/", "not public"),
        ("https://[::ffff:10.1.2.3]/", "not public"),
        ("https://169.254.169.254/latest", "not public"),
        ("https://8.8.8.8:99999/", "cannot be read"),
    ],
)
def test_private_and_odd_addresses_are_refused(url, words):
    with pytest.raises(WebhookRefused, match=words):
        resolve(url, [])


def test_an_allowed_net_opens_no_metadata_service_and_a_name_opens_only_itself():
    with pytest.raises(WebhookRefused):
        resolve("https://169.254.169.254/", ["0.0.0.0/0"])
    assert resolve("https://localhost/", ["localhost"]).host == "localhost"
    with pytest.raises(WebhookRefused):
        resolve("https://127.0.0.1/", ["localhost"])


def test_admins_alone_look_after_them_and_the_secret_is_shown_once(receiver, cluster, admin, viewer):
    page = log_in(admin)
    wish = {"name": "chat", "url": receiver.url, "events": ["plan.approved"]}
    made = page.post("/webhooks/", wish).content.decode()
    row = Webhook.objects.get()
    secret = made.partition("<pre>")[2].partition("</pre>")[0]
    assert len(secret) > 40
    assert secret not in page.get("/webhooks/").content.decode()
    assert (
        "which is not public" in page.post("/webhooks/", wish | {"url": "https://10.0.0.1"}).content.decode()
    )
    told = page.get(f"/api/v1/webhooks/{row.pk}/").json()
    assert "secret" not in told
    assert page.post(f"/webhooks/{row.pk}/off/").status_code == 302
    assert not Webhook.objects.get().is_active
    other = log_in(viewer)
    assert other.get(f"/api/v1/webhooks/{row.pk}/").status_code == 404
    assert other.post(f"/webhooks/{row.pk}/remove/").status_code == 404
    refused = other.post("/api/v1/webhooks/", json.dumps(wish), "application/json")
    assert refused.status_code in (403, 404)
    made = page.post("/api/v1/webhooks/", json.dumps(wish | {"name": "b"}), "application/json")
    assert (made.status_code, len(made.json()["secret"]) > 40) == (201, True)
    assert page.delete(f"/api/v1/webhooks/{row.pk}/").status_code == 204
    assert Webhook.objects.filter(~Q(name="b")).count() == 0


def test_what_needs_a_recent_login_on_a_page_needs_it_over_rest(receiver, cluster, admin):
    """Else a session that was left open would do by another address."""
    page = log_in(admin)
    session = page.session
    session[KEY] = (timezone.now() - timedelta(hours=9)).isoformat()
    session.save()
    wish = {"name": "chat", "url": receiver.url, "events": ["plan.approved"]}
    safe_mode.enter(cluster, "restored")
    for address, body in (
        ("/api/v1/webhooks/", wish),
        (f"/api/v1/preflights/{cluster.name}/leave-safe-mode/", {"seen": safe_mode.mark_of([])}),
    ):
        answer = page.post(address, json.dumps(body), "application/json")
        assert (answer.status_code, "login is too long ago" in answer.content.decode()) == (403, True)
    answer = page.post(
        reverse("preflight-change", args=[cluster.name, "leave-safe-mode"]), {"seen": "x"}, follow=True
    )
    assert "login is too long ago to leave safe mode" in answer.content.decode()
    assert not Webhook.objects.exists()


def test_a_receiver_with_a_long_queue_lets_the_others_have_their_turns(receiver, cluster, admin, monkeypatch):
    for name in ("a", "b", "c"):
        add(admin, receiver, name=name)
    for _ in range(3):
        happen("plan.approved", "gpu-east-1")
    delivering.decide_deliveries()
    mine = Delivery.objects.filter(webhook__name="c")
    mine.exclude(pk=mine.last().pk).delete()
    served = []
    monkeypatch.setattr(delivering, "send_one", lambda row, pk: served.append(row.name) or True)
    delivering.send_due()
    assert set(served[:3]) == {"a", "b", "c"}
    assert sorted(served) == ["a"] * 3 + ["b"] * 3 + ["c"]
