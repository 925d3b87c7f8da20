"""What the browser tests share: a server; in each file one browser, and one page for each theme."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import SITE, THEMES, chromium, launched, new_context, served
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
