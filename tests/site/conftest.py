"""What the browser tests share: a server; in each file one browser, and one page for each theme."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import SITE, THEMES, chromium, launched, new_context, served
from figure_pages import settle
from playwright.sync_api import Browser, BrowserContext, Page, Route


@pytest.fixture(scope="session")
def site() -> Path:
    if not (SITE / "index.html").is_file():
        pytest.fail(f"no built site at {SITE}: run `make book` first", pytrace=False)
    return SITE


@pytest.fixture(scope="session")
def base(site: Path) -> Iterator[str]:
    with served(site) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if chromium() is None:
        pytest.skip(
            "NO BROWSER TEST RAN: there is no Chromium (on Debian: apt-get install chromium)"
        )
    with launched() as running:
        yield running


@pytest.fixture(scope="module")
def pages(browser: Browser) -> dict[str, Page]:
    """Return one page for each theme, used again and again: a new one costs more than a test."""
    return {theme: new_context(browser, theme).new_page() for theme in THEMES}


@pytest.fixture
def opened(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Open pages that fail the test if a script of theirs does, or asks for anything outside."""
    problems: list[str] = []
    contexts: list[BrowserContext] = []

    def refuse(route: Route) -> None:
        problems.append(f"outside request: {route.request.url}")
        route.abort()

    def opened(address: str, width: int = 1440, **options: Any) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": 800}, **options
        )
        contexts.append(context)
        context.set_default_timeout(10_000)
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(f"script error: {error}"))
        page.on("console", lambda message: problems.append(f"console: {message.text}"))
        page.route(re.compile(r"^(?!data:|blob:|file:|http://127\.0\.0\.1)"), refuse)
        page.goto(address)
        if options.get("java_script_enabled", True):
            settle(page)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not problems
