"""A real Chromium against a real server: the pages as people see them."""

from __future__ import annotations

import os
import time

import pytest
from playwright.sync_api import sync_playwright

from tests.dashboard.conftest import log_in

CHROMIUM = "/usr/bin/chromium"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def chromium():
    # The sync API runs an event loop in this thread; Django's guard would refuse every query beside it.
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()
    os.environ.pop("DJANGO_ALLOW_ASYNC_UNSAFE")


@pytest.fixture
def console_server(transactional_db):
    """The console under uvicorn, as in production, on this test's database. Gives its address."""
    import threading

    import uvicorn
    from django.contrib.staticfiles.handlers import ASGIStaticFilesHandler
    from django.core.asgi import get_asgi_application
    from django.db import connection

    config = uvicorn.Config(
        ASGIStaticFilesHandler(get_asgi_application()),
        host="127.0.0.1",
        port=0,
        log_level="warning",
        lifespan="off",
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "uvicorn did not start"
        time.sleep(0.02)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    server.force_exit = True
    thread.join(timeout=10)
    connection.close_pool()


def wait_for_stream(page) -> None:
    """Until the page hears of events: what is told before is told in vain."""
    deadline = time.monotonic() + 20
    while not page.streams:
        assert time.monotonic() < deadline, "the page opened no stream of events"
        page.wait_for_timeout(50)
    page.wait_for_timeout(200)


@pytest.fixture
def open_page(chromium, console_server):
    """open_page(person, path, dark=False, width=1440): a page of a logged-in person that must stay clean:
    no message of the CSP or of a script on the console, no request to another host."""
    contexts = []

    def open_it(person, path: str, *, dark: bool = False, width: int = 1440, height: int = 900):
        context = chromium.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            base_url=console_server,
        )
        contexts.append(context)
        if person is not None:
            client = log_in(person)
            cookie = client.cookies["sessionid"].value
            context.add_cookies([{"name": "sessionid", "value": cookie, "url": console_server}])
        page = context.new_page()
        page.complaints = []
        page.on(
            "console",
            lambda message: message.type in ("error", "warning") and page.complaints.append(message.text),
        )
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.on(
            "request",
            lambda request: (
                request.url.startswith((console_server, "data:", "blob:"))
                or page.complaints.append(f"another host was asked: {request.url}")
            ),
        )
        page.streams = []
        page.on("response", lambda answer: "/events/" in answer.url and page.streams.append(answer.url))
        page.goto(path)
        return page

    yield open_it
    for context in contexts:
        context.close()
