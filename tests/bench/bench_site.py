"""How long a reader on a slow phone waits for the first text of a chapter.

The site as `make book` built it, compressed as web servers do it, through "fast 3G": 1.6 Mbit/s and
560 ms for each answer. Needs Chromium.
"""

import gzip
from collections.abc import Iterator
from functools import cache, partial
from http import HTTPStatus
from pathlib import Path

from tests.bench.bench import Case
from tests.site.browser import (
    SITE,
    QuietHandler,
    chromium,
    launched,
    new_context,
    served,
)

COMPRESSED = {".html", ".css", ".js", ".json", ".svg"}
FAST_3G = {
    "offline": False,
    "latency": 560,
    "downloadThroughput": 1.6e6 / 8,
    "uploadThroughput": 0.75e6 / 8,
}
FIRST_TEXT = """() => new Promise((done) => new PerformanceObserver((list) => {
    const entry = list.getEntriesByName("first-contentful-paint")[0];
    if (entry) done(entry.startTime / 1000);
}).observe({ type: "paint", buffered: true }))"""


@cache
def compressed(path: Path) -> bytes:
    """Return a file of the site as it travels."""
    return gzip.compress(path.read_bytes(), mtime=0)


class CompressingHandler(QuietHandler):
    """Serves text compressed, and keeps connections open, as a web server does."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        if path.suffix not in COMPRESSED or not path.is_file():
            super().do_GET()
            return
        body = compressed(path)
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", self.guess_type(str(path)))
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def first_text(chapter: str) -> float:
    """Return the seconds from opening a chapter, nothing cached, to its first painted text."""
    with (
        served(SITE, CompressingHandler) as base,
        launched() as browser,
        new_context(browser, "light", width=360) as context,
    ):
        page = context.new_page()
        context.new_cdp_session(page).send("Network.emulateNetworkConditions", FAST_3G)
        page.goto(f"{base}/{chapter}", wait_until="commit")
        return float(page.evaluate(FIRST_TEXT))


def bench_first_text() -> Iterator[Case]:
    """Every chapter, on a phone."""
    if chromium() is None:
        raise SystemExit(
            "bench_site: no Chromium (on Debian: apt-get install chromium)"
        )
    chapters = sorted((SITE / "book" / "notebooks").glob("*.html"))
    if not chapters:
        raise SystemExit("bench_site: no built site, run `make book` first")
    for chapter in chapters:
        yield Case(
            f"first_text_{chapter.stem}_seconds",
            partial(first_text, chapter.relative_to(SITE).as_posix()),
            bound=3.0,
            measure=float,
        )
