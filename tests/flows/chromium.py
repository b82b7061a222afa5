"""A real browser for whole stories: Debian's Chromium, headless, driven by Playwright."""

from contextlib import contextmanager

from playwright.sync_api import Page, expect, sync_playwright

FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]


@contextmanager
def chromium():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        yield browser
        browser.close()


def logged_in(browser, url: str, username: str, password: str, complaints: list[str]) -> Page:
    """A page of this person's own; what the browser complains about ends up in `complaints`."""
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    page.on("console", lambda told: complaints.append(told.text) if told.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda sent: None if sent.url.startswith(url) else complaints.append(sent.url))
    page.goto(url)
    page.get_by_label("Username").fill(username)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Cluster grid")).to_be_visible()
    return page
