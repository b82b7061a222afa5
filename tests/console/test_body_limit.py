"""A body that is too large is refused before it is kept, announced or not."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.conf import settings
from django.test import Client
from django.urls import reverse

from apps.accounts.models import Role, User
from console.body_limit import LARGEST_BODY_BYTES, LARGEST_DUMP_BYTES, limit_bodies
from tests.dashboard.conftest import make_person


def ask(
    *, chunks: list[bytes], announced: int | None = None, path: str = "/", cookie: str = ""
) -> tuple[int, list[int]]:
    """(status, sizes of the chunks that the application got to see)"""
    seen, sent = [], []
    messages = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
    messages.append({"type": "http.request", "body": b"", "more_body": False})

    async def application(scope, receive, send):
        more = True
        while more:
            message = await receive()
            seen.append(len(message["body"]))
            more = message["more_body"]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})

    async def receive():
        return messages.pop(0)

    async def send(message):
        sent.append(message)

    headers = [] if announced is None else [(b"content-length", str(announced).encode())]
    headers += [(b"cookie", f"theme=dark; {cookie}".encode())] if cookie else []
    limited = limit_bodies(application)({"type": "http", "path": path, "headers": headers}, receive, send)
    with ThreadPoolExecutor(1) as pool:
        # A thread of its own: in this one a browser of other tests may keep a loop running.
        pool.submit(asyncio.run, limited).result()
    if sent[0]["status"] == 413:
        problem = json.loads(sent[1]["body"])
        assert (problem["status"], problem["instance"]) == (413, path)
    return sent[0]["status"], seen


def test_a_body_of_the_largest_size_passes_whole():
    assert ask(chunks=[b"x" * LARGEST_BODY_BYTES])[0] == 200


@pytest.mark.parametrize("announced", [LARGEST_BODY_BYTES + 1, 10**30])
def test_an_announced_size_over_the_limit_is_refused_unread(announced):
    assert ask(chunks=[b"x"], announced=announced) == (413, [])


def test_a_body_that_grows_past_the_limit_is_cut_off_there():
    status, seen = ask(chunks=[b"x" * 2**20] * 10)
    assert status == 413
    assert sum(seen) <= LARGEST_BODY_BYTES


def cookie_of(person) -> str:
    client = Client()
    client.force_login(person, "django.contrib.auth.backends.ModelBackend")
    return f"{settings.SESSION_COOKIE_NAME}={client.session.session_key}"


@pytest.mark.django_db(transaction=True)
def test_a_dump_of_an_admin_may_be_larger_and_has_a_limit_of_its_own():
    path, cookie = reverse("dumps"), cookie_of(make_person("root", Role.ADMIN))
    assert ask(chunks=[b"x" * 2**20] * 10, path=path, cookie=cookie)[0] == 200
    assert ask(chunks=[b"x"], announced=LARGEST_DUMP_BYTES + 1, path=path, cookie=cookie) == (413, [])
    assert ask(chunks=[b"x"], announced=LARGEST_BODY_BYTES + 1, cookie=cookie) == (413, [])


@pytest.mark.django_db(transaction=True)
def test_nobody_else_sends_a_large_dump():
    viewer = cookie_of(make_person("vera", Role.VIEWER))
    admin = make_person("gone", Role.ADMIN)
    switched_off = cookie_of(admin)
    User.objects.filter(pk=admin.pk).update(is_active=False)
    path, large = reverse("dumps"), [b"x" * 2**20] * 3
    for cookie in ("", f"{settings.SESSION_COOKIE_NAME}=invented", viewer, switched_off):
        assert ask(chunks=large, path=path, cookie=cookie)[0] == 413
    assert ask(chunks=[b"x" * 2**20], path=path)[0] == 200
