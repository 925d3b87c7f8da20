"""Ask each address of another site that the built pages name whether it is there.

Sphinx's own check holds it against an address that its server lets no program in, as most publishers do.
Here an address is dead where its server doesn't exist or says that there is no such page. Of a DOI it is
asked whether it is registered, not whether a publisher's page opens.
"""

import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urldefrag, urlsplit

import requests

from book.tools.canonical import ROOT

SITE = ROOT / "_build" / "html"
GONE = {404, 410}
REGISTERS = {"doi.org"}
TRIES = 3


class Links(HTMLParser):
    """Collects where a page's links lead."""

    def __init__(self) -> None:
        super().__init__()
        self.leads_to: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take the address of a link (called by the parser)."""
        self.leads_to += [
            value for name, value in attrs if (tag, name) == ("a", "href") and value
        ]


def addresses(site: Path) -> dict[str, str]:
    """Return the addresses of other sites, each with a page that names it."""
    found: dict[str, str] = {}
    for page in sorted(site.rglob("*.html")):
        if "_static" in page.parts:
            continue
        reader = Links()
        reader.feed(page.read_text("utf-8"))
        for link in reader.leads_to:
            if urlsplit(link).scheme in {"http", "https"}:
                address, _ = urldefrag(link)
                found.setdefault(address, page.relative_to(site).as_posix())
    return found


def fault(address: str, pause: float = 5.0) -> str | None:
    """Return why an address is dead; None where it isn't, or its server doesn't say."""
    follow = urlsplit(address).hostname not in REGISTERS
    said = ""
    for attempt in range(TRIES):
        if attempt:
            time.sleep(pause)
        try:
            with requests.get(
                address,
                allow_redirects=follow,
                timeout=30,
                stream=True,  # the page itself isn't needed
                headers={"User-Agent": "Mozilla/5.0 (a book that checks its links)"},
            ) as answer:
                if answer.status_code not in GONE:
                    return None
                return f"status {answer.status_code}"
        except requests.RequestException as error:
            said = f"{type(error).__name__}: {error}"
    return said


def faults(site: Path, pause: float = 5.0) -> Iterator[str]:
    """Yield each dead address of a site, and where it stands."""
    found = addresses(site)
    with ThreadPoolExecutor(8) as pool:
        said = pool.map(lambda address: fault(address, pause), found)
        for (address, page), why in zip(found.items(), said, strict=True):
            if why:
                yield f"{page}: {address}: {why}"


def main() -> int:
    """Run the command line; return the exit status."""
    dead = list(faults(SITE))
    print(*dead, f"{len(addresses(SITE))} addresses, {len(dead)} dead", sep="\n")
    return int(bool(dead))


if __name__ == "__main__":
    sys.exit(main())
