"""Links of the built site, read from its files: each leads somewhere, none is followed unasked."""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

# What a browser fetches without being asked, by the attribute that names it.
FETCHED = {
    ("script", "src"),
    ("img", "src"),
    ("iframe", "src"),
    ("source", "src"),
    ("video", "src"),
    ("audio", "src"),
    ("embed", "src"),
    ("object", "data"),
    ("link", "href"),
}
STYLE_ADDRESS = re.compile(r"""(?:url\(\s*|@import\s+)["']?((?:https?:)?//[^"')\s]+)""")


@dataclass
class Links(HTMLParser):
    """The anchors that a page has, where it leads, and what it fetches."""

    anchors: set[str] = field(default_factory=set)
    leads_to: list[str] = field(default_factory=list)
    fetches: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(
        self, tag: str, attributes: list[tuple[str, str | None]]
    ) -> None:
        for name, value in attributes:
            if value is None:
                continue
            if name == "id" or (tag == "a" and name == "name"):
                self.anchors.add(value)
            elif tag == "a" and name == "href":
                self.leads_to.append(value)
            elif (tag, name) in FETCHED:
                self.fetches.append(value)


def read(path: Path) -> Links:
    links = Links()
    links.feed(path.read_text("utf-8"))
    return links


def link_faults(site: Path) -> list[str]:
    """Return each link of the site that leads nowhere in it."""
    pages = {
        path: read(path) for path in site.rglob("*.html") if "_static" not in path.parts
    }
    faults = []
    for page, links in pages.items():
        for address in [*links.leads_to, *links.fetches]:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (
                (page.parent / unquote(parts.path)).resolve() if parts.path else page
            )
            where = f"{page.relative_to(site)}: {address}"
            if not target.is_file():
                faults.append(f"{where}: no such file")
            elif (
                parts.fragment
                and target in pages
                and unquote(parts.fragment) not in pages[target].anchors
            ):
                faults.append(f"{where}: no such anchor")
    return faults


def outside_faults(site: Path) -> list[str]:
    """Return what the site's pages and style sheets would fetch from another server."""
    fetched = [
        (page, address)
        for page in site.rglob("*.html")
        for address in read(page).fetches
        if urlsplit(address).netloc
    ]
    fetched += [
        (sheet, address)
        for sheet in site.rglob("*.css")
        for address in STYLE_ADDRESS.findall(sheet.read_text("utf-8"))
    ]
    return [f"{path.relative_to(site)}: {address}" for path, address in fetched]


def test_every_link_inside_the_site_leads_somewhere(site: Path) -> None:
    assert link_faults(site) == []


def test_nothing_is_fetched_from_another_server(site: Path) -> None:
    assert outside_faults(site) == []


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<a href='gone.html'>x</a>", "no such file"),
        ("<a href='#gone'>x</a>", "no such anchor"),
        ("<a href='b.html#gone'>x</a>", "no such anchor"),
        ("<img src='gone.png' alt='x'>", "no such file"),
    ],
)
def test_planted_dead_link_is_found(tmp_path: Path, html: str, expected: str) -> None:
    (tmp_path / "a.html").write_text(html)
    (tmp_path / "b.html").write_text("<p id='here'>x</p>")
    assert [fault for fault in link_faults(tmp_path) if expected in fault]


def test_sound_links_are_no_fault(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        "<a href='b.html#here'>x</a><a href='https://example.org/y'>y</a>"
    )
    (tmp_path / "b.html").write_text("<p id='here'><a href='#here'>x</a></p>")
    assert link_faults(tmp_path) == []
    assert outside_faults(tmp_path) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.html", "<script src='//cdn.example.org/x.js'></script>"),
        ("a.html", "<link rel='stylesheet' href='https://fonts.example.org/f.css'>"),
        ("a.css", "@font-face { src: url('https://fonts.example.org/f.woff2') }"),
        ("a.css", '@import "https://fonts.example.org/f.css";'),
    ],
)
def test_planted_outside_address_is_found(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    assert len(outside_faults(tmp_path)) == 1
