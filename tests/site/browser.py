"""The built site in a real browser: a local server, Chromium, and pages that stand still.

Used by the tests beside this file and by shots.py. Nothing here asks another server.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "_build" / "html"

WIDTHS = (360, 768, 1440)
THEMES = ("light", "dark")

# Resolves once the page will change no more: formulas set, fonts there, pictures decoded.
# Pictures and notebook outputs below the fold must not be left to lazy loading.
STANDSTILL = """async () => {
    const still = new CSSStyleSheet();
    still.replaceSync("*, ::before, ::after { transition: none !important; animation: none !important }");
    document.adoptedStyleSheets.push(still);
    if (window.MathJax?.startup?.promise) await MathJax.startup.promise;
    const images = [...document.images];
    for (const image of images) image.loading = "eager";
    await Promise.all(images.map((image) => image.decode().catch(() => {})));
    await document.fonts.ready;
}"""


def chromium() -> str | None:
    """Return the path of a Chromium on this machine, or None."""
    names = ("chromium", "chromium-browser", "google-chrome")
    return next(filter(None, map(shutil.which, names)), None)


def page_names(site: Path) -> list[str]:
    """Return every page of the site, relative to it, less those that only redirect.

    Of the listings of the library's source one stands for all: they differ in nothing but their code.
    """
    paths = sorted(path for path in site.rglob("*.html") if "_static" not in path.parts)
    listings = [path for path in paths if {"_modules", "ictd_lib"} <= set(path.parts)]
    return [
        path.relative_to(site).as_posix()
        for path in paths
        if 'http-equiv="Refresh"' not in path.read_text("utf-8")
        and path not in listings[1:]
    ]


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves files and prints no line for each."""

    def log_message(self, *args: Any) -> None:
        pass


class QuietServer(ThreadingHTTPServer):
    """Serves, and says nothing of a browser that hangs up."""

    def handle_error(self, *args: Any) -> None:
        pass


@contextmanager
def served(site: Path, handler: type[QuietHandler] = QuietHandler) -> Iterator[str]:
    """Serve a folder on this machine alone; yield its address, without a final slash."""
    server = QuietServer(("127.0.0.1", 0), partial(handler, directory=str(site)))
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def launched() -> Iterator[Browser]:
    """Start Chromium, as Debian packages it, and yield it."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium(),
            args=[
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                # Whatever asks another server fails at once, and is seen by the tests.
                "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            ],
        )
        try:
            yield browser
        finally:
            browser.close()


def new_context(
    browser: Browser, theme: str, width: int = WIDTHS[-1]
) -> BrowserContext:
    """Return a fresh profile whose reader prefers the given theme and no motion."""
    return browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme="dark" if theme == "dark" else "light",
        reduced_motion="reduce",
    )


def visit(page: Page, address: str) -> None:
    """Open a page and wait until it stands still."""
    page.goto(address, wait_until="load")
    page.evaluate(STANDSTILL)


def resize(page: Page, width: int) -> None:
    """Give the page another width, and two frames to lay itself out."""
    page.set_viewport_size({"width": width, "height": 900})
    page.evaluate(
        "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )
