"""Print the built site as one PDF: _build/attention-as-td.pdf.

All pages of the table of contents become one page, in which every link within the book points at the
place itself; Chromium prints it, with a bookmark for each heading. It is printed twice: the second time
with the page numbers that the first one gave the table of contents.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import unquote

import yaml
from bs4 import BeautifulSoup, Tag
from playwright.sync_api import sync_playwright
from pypdf import PdfReader

from book.tools.canonical import ROOT

SITE = ROOT / "_build" / "html"
PRINT = ROOT / "_build" / "print"
PDF = ROOT / "_build" / "attention-as-td.pdf"
# Lists of what a reader of the site looks up, and paper has contents for.
LEFT_OUT = {"genindex"}
# What only a screen has a use for.
ON_SCREEN = (
    "a.headerlink, button, .ictd-controls, .toggle-button, script, .sd-tab-label"
)

STYLE = """
@page { size: A4; margin: 22mm 20mm 20mm; }
html { font-size: 10pt; --pst-font-size-base: 10pt; }
body { background: white; }
main { max-width: none; }
article { break-before: page; padding: 0 !important; }
article.bd-article { font-size: 10pt; }
.printed-title { height: 230mm; display: flex; flex-direction: column; justify-content: center; }
.printed-title h1 { font-size: 30pt; margin: 0 0 6mm; }
.printed-contents { break-before: page; }
.printed-contents ol { list-style: none; padding-left: 0; }
.printed-contents ol ol { padding-left: 7mm; }
.printed-contents li { margin: 1mm 0; }
.printed-contents > ol > li > a { font-weight: 600; }
.printed-contents a { display: flex; text-decoration: none; color: inherit; }
.printed-contents a::after { content: attr(data-page); order: 2; }
.printed-contents a span.dots { flex: 1; border-bottom: 0.5pt dotted #888; margin: 0 2mm 1mm; }
h1, h2, h3, h4 { break-after: avoid; }
figure, img, tr, .admonition.proof:not(.long) { break-inside: avoid; }
pre { white-space: pre-wrap !important; overflow-wrap: anywhere; font-size: 8.5pt; orphans: 4; widows: 4; }
.cell, .cell_input, .cell_output, [class*=highlight], pre { break-inside: auto !important; }
.pst-scrollable-table-container, div.math, .cell_output { overflow: visible !important; }
.admonition { box-shadow: none !important; }
"""


class PrintError(Exception):
    """What keeps the book from being printed."""


def pages() -> list[str]:
    """Names of all pages, in the order of the table of contents."""
    contents = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))
    listed = [contents["root"]]
    for part in contents["parts"]:
        listed += [entry["file"] for entry in part["chapters"]]
    return [name for name in listed if name not in LEFT_OUT]


def anchor(page: str, fragment: str = "") -> str:
    """The id, in the whole book, of a place on a page."""
    place = re.sub(r"\W+", "-", f"{page}--{unquote(fragment)}" if fragment else page)
    return f"p-{place}"


def target(page: str, href: str, known: set[str]) -> str:
    """Where a link of a page leads in the whole book."""
    if re.match(r"[a-z]+:", href):
        return href
    path, _, fragment = href.partition("#")
    name = page
    if path:
        resolved = (SITE / page).parent / unquote(path)
        name = resolved.resolve().relative_to(SITE.resolve()).as_posix()
        name = name.removesuffix(".html")
    if name not in known:
        return ""
    return f"#{anchor(name, fragment)}"


def article(page: str, known: set[str]) -> Tag:
    """The text of a page, its ids, links and pictures made fit for the whole book."""
    path = SITE / f"{page}.html"
    if not path.exists():
        raise PrintError(f"{path.relative_to(ROOT)} isn't there: run `make book` first")
    soup = BeautifulSoup(path.read_text("utf-8"), "html.parser")
    text = soup.select_one("article.bd-article")
    if text is None:
        raise PrintError(f"{page}: the page has no article")
    for tag in text.select(ON_SCREEN):
        tag.decompose()
    for tag in text.select("[id]"):
        tag["id"] = anchor(page, str(tag["id"]))
    for tag in text.select("a[href]"):
        href = target(page, str(tag["href"]), known)
        if href:
            tag["href"] = href
        else:
            del tag["href"]
    for tag in text.select("img[src], source[src]"):
        if not str(tag["src"]).startswith("data:"):
            tag["src"] = (
                ((SITE / page).parent / unquote(str(tag["src"]))).resolve().as_uri()
            )
        tag["loading"] = "eager"
    for tag in text.select("details"):
        tag["open"] = ""
    text["id"] = anchor(page)
    return text


def contents(articles: list[Tag], numbers: dict[str, int]) -> Tag:
    """A table of contents: chapters and their sections, with pages where they are known."""
    soup = BeautifulSoup(
        "<nav class='printed-contents'><h1>Contents</h1><ol></ol></nav>", "html.parser"
    )
    outer = soup.select_one("ol")
    assert outer is not None and soup.nav is not None
    for text in articles:
        item = soup.new_tag("li")
        inner = soup.new_tag("ol")
        for heading in text.select("h1, h2"):
            if heading.parent is None:
                continue
            entry = item if heading.name == "h1" else soup.new_tag("li")
            place = str(heading.parent.get("id", text["id"]))
            link = soup.new_tag("a", href=f"#{place}")
            link["data-page"] = str(numbers.get(place, ""))
            label = soup.new_tag("span")
            label.string = " ".join(heading.get_text().split())
            link.extend([label, soup.new_tag("span", attrs={"class": "dots"})])
            entry.append(link)
            if entry is not item:
                inner.append(entry)
        item.append(inner)
        outer.append(item)
    return soup.nav


def whole(articles: list[Tag], numbers: dict[str, int]) -> str:
    """The book as one HTML page."""
    page = SITE / f"{pages()[1]}.html"  # a chapter: it loads all style sheets
    head = BeautifulSoup(page.read_text("utf-8"), "html.parser").head
    assert head is not None
    sheets = [
        f'<link rel="stylesheet" href="{(page.parent / str(tag["href"]).partition("?")[0]).resolve().as_uri()}">'
        for tag in head.select("link[rel=stylesheet]")
    ]
    settings = [
        str(tag) for tag in head.select("script") if "window.MathJax" in tag.get_text()
    ]
    mathjax = SITE / "_static" / "vendor" / "mathjax" / "es5" / "tex-chtml.js"
    title = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))["title"]
    return "\n".join(
        [
            "<!doctype html><html lang='en' data-theme='light' data-mode='light'><head><meta charset='utf-8'>",
            f"<title>{title}</title>",
            *sheets,
            f"<style>{STYLE}</style>",
            *settings,
            f"<script defer src='{mathjax.as_uri()}'></script>",
            "</head><body><main class='bd-article-container'>",
            f"<div class='printed-title'><h1>{title}</h1><p>A computational textbook</p></div>",
            str(contents(articles, numbers)),
            *map(str, articles),
            "</main></body></html>",
        ]
    )


def print_pdf(source: Path, target_file: Path) -> None:
    """Let Chromium print a page."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        raise PrintError(
            "no Chromium on this machine (on Debian: apt-get install chromium)"
        )
    footer = (
        "<div style='font-size:8pt;width:100%;text-align:center;color:#555'>"
        "<span class='pageNumber'></span></div>"
    )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        try:
            page = browser.new_page(color_scheme="light")
            page.set_default_timeout(300_000)
            page.goto(source.as_uri(), wait_until="load")
            page.evaluate("() => MathJax.startup.promise")
            page.evaluate("() => document.fonts.ready.then(() => true)")
            page.pdf(
                path=str(target_file),
                prefer_css_page_size=True,
                display_header_footer=True,
                header_template="<span></span>",
                footer_template=footer,
                print_background=True,
                outline=True,
                tagged=True,
            )
        finally:
            browser.close()


def page_numbers(pdf: Path) -> dict[str, int]:
    """On which page, counted from 1, each named place of a PDF is."""
    reader = PdfReader(pdf)
    return {
        name.removeprefix("/"): (reader.get_destination_page_number(place) or 0) + 1
        for name, place in reader.named_destinations.items()
    }


def build(names: Sequence[str] | None = None) -> Path:
    """Print the book, or some of its pages; return the file."""
    names = pages() if names is None else names
    articles = [article(name, set(names)) for name in names]
    PRINT.mkdir(parents=True, exist_ok=True)
    source, draft = PRINT / "book.html", PRINT / "draft.pdf"
    source.write_text(whole(articles, {}), "utf-8")
    print_pdf(source, draft)
    source.write_text(whole(articles, page_numbers(draft)), "utf-8")
    part = PRINT / "book.pdf"
    print_pdf(source, part)
    part.replace(PDF)
    return PDF


def numbered(names: Sequence[str]) -> list[str]:
    """Numbers of theorems, figures and exercises, as the site shows them: "Definition 1.1"."""
    found = []
    for name in names:
        soup = BeautifulSoup((SITE / f"{name}.html").read_text("utf-8"), "html.parser")
        for tag in soup.select(".caption-number"):
            label = " ".join(tag.get_text().split()).rstrip(".")
            if re.search(r" \d+\.\d+$", label):
                found.append(label)
    return found


def broken_links(pdf: Path) -> Iterator[str]:
    """Links within a PDF that lead nowhere."""
    reader = PdfReader(pdf)
    known = set(reader.named_destinations)
    for number, page in enumerate(reader.pages, start=1):
        for note in page.get("/Annots") or []:
            link = note.get_object()
            place = link.get("/Dest") or link.get("/A", {}).get("/D")
            uri = str(link.get("/A", {}).get("/URI", ""))
            if isinstance(place, str) and place not in known:
                yield f"page {number}: {place}"
            if uri.startswith("file:"):
                yield f"page {number}: {uri}"


def main() -> int:
    """Run the command line; return the exit status."""
    try:
        file = build()
    except PrintError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{file.relative_to(ROOT)}: {len(PdfReader(file).pages)} pages")
    return 0


if __name__ == "__main__":
    sys.exit(main())
