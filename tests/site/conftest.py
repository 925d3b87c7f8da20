"""What the browser tests share: a server; in each file one browser, and one page for each theme."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import SITE, THEMES, chromium, launched, new_context, served
from figure_pages import settle
from playwright.sync_api import Browser, Page


@pytest.fixture(scope="session")
def site() -> Path:
    if not (SITE / "index.html").is_file():
        pytest.fail(f"no built site at {SITE}: run `make book` first", pytrace=False)
    return SITE


@pytest.fixture(scope="session")
def base(site: Path) -> Iterator[str]:
    with served(site) as address:
        yield address


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    if chromium() is None:
        pytest.skip(
            "NO BROWSER TEST RAN: there is no Chromium (on Debian: apt-get install chromium)"
        )
    with launched() as running:
        yield running


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put first the files that need no browser, or start their own: Playwright allows one at a time."""
    later = {
        item.path for item in items if "browser" in getattr(item, "fixturenames", ())
    }
    items.sort(key=lambda item: item.path in later)


@pytest.fixture(scope="module")
def pages(browser: Browser) -> Iterator[dict[str, Page]]:
    """Return one page for each theme, used again and again: a new one costs more than a test."""
    contexts = {theme: new_context(browser, theme) for theme in THEMES}
    yield {theme: context.new_page() for theme, context in contexts.items()}
    for context in contexts.values():
        context.close()


class Visitor:
    """Pages in each of which one address after another is opened; what goes wrong in any is noted."""

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self.problems: list[str] = []
        self.pages: dict[str, Page] = {}

    def page(self, options: dict[str, Any]) -> Page:
        """Return the page of a browser with these options, a new one the first time."""
        name = repr(sorted(options.items()))
        if name not in self.pages:
            context = self.browser.new_context(**options)
            context.set_default_timeout(10_000)
            page = self.pages[name] = context.new_page()
            note = self.problems.append
            page.on("pageerror", lambda error: note(f"script error: {error}"))
            page.on("console", lambda message: note(f"console: {message.text}"))
            page.on("request", lambda request: self.hear(request.url))
        return self.pages[name]

    def hear(self, address: str) -> None:
        """Note a request that leaves this machine (where none gets out: see `launched`)."""
        if not re.match(r"data:|blob:|file:|about:|http://127\.0\.0\.1[:/]", address):
            self.problems.append(f"outside request: {address}")

    def close(self) -> None:
        """Close every page."""
        for page in self.pages.values():
            page.context.close()


@pytest.fixture(scope="module")
def visitor(browser: Browser) -> Iterator[Visitor]:
    visitor = Visitor(browser)
    yield visitor
    visitor.close()


@pytest.fixture
def opened(visitor: Visitor) -> Iterator[Callable[..., Page]]:
    """Open pages that fail the test if a script of theirs does, or asks for anything outside.

    The same options give the same page, opened anew.
    """

    def opened(address: str, width: int = 1440, **options: Any) -> Page:
        page = visitor.page(options)
        page.mouse.move(0, 0)  # where nothing of the next page is
        page.set_viewport_size({"width": width, "height": 800})
        page.goto(address)
        if options.get("java_script_enabled", True):
            settle(page)
        return page

    visitor.problems.clear()
    yield opened
    for page in visitor.pages.values():
        if page.url != "about:blank":
            page.goto("about:blank")  # so that nothing of it goes on into another test
    assert not visitor.problems
