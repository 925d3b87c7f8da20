"""Print the built site as one PDF: _build/attention-as-td.pdf.

All pages of the table of contents become one page, in which every link within the book points at the
place itself, and solutions stand together after a chapter's exercises. Chromium prints it, with a bookmark
for each heading, twice: the second time with the page numbers that the first one gave the table of
contents. proofread.py then reads what came out.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import pikepdf
import yaml
from bs4 import BeautifulSoup, Tag
from playwright.sync_api import Page, sync_playwright
from pypdf import PdfReader

from book._ext.launch import remote_address, web_address
from book.tools import proofread
from book.tools.canonical import ROOT

SITE = ROOT / "_build" / "html"
PRINT = ROOT / "_build" / "print"
PDF = ROOT / "_build" / "attention-as-td.pdf"
STYLE = Path(__file__).with_name("printed.css")
#: What a reader looks things up in on a screen: paper has contents and bookmarks, and the library its docstrings.
LEFT_OUT = re.compile(r"genindex|book/library(/.*)?")
#: Where the site's index is, from which paper gets one with page numbers.
INDEX = "genindex"
#: What only a screen has a use for.
ON_SCREEN = ", ".join(
    f"article.bd-article {selector}"
    for selector in [
        "a.headerlink",
        "button",
        "script",
        ".ictd-controls",
        ".toggle-button",
        ".sd-tab-label",
        ".sd-summary-state-marker",
        "#book-downloads",
    ]
)
#: A piece of code or output of so many lines is not torn apart.
SHORT = 14


class PrintError(Exception):
    """What keeps the book from being printed."""


class Entry(NamedTuple):
    """A page of the book, and the part of the book that it is in."""

    name: str
    part: str


def entries() -> list[Entry]:
    """All pages that are printed, in the order of the table of contents."""
    contents = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))
    found = [Entry(contents["root"], "")]
    for part in contents["parts"]:
        for page in part["chapters"]:
            found.append(Entry(page["file"], part["caption"]))
            found += [
                Entry(below["file"], part["caption"])
                for below in page.get("sections", [])
            ]
    return [entry for entry in found if not LEFT_OUT.fullmatch(entry.name)]


def site_address() -> str:
    """Where the book is published, without a final slash; empty where nobody said."""
    return os.environ.get("BOOK_SITE", "").rstrip("/")


def anchor(page: str, fragment: str = "") -> str:
    """The id, in the whole book, of a place on a page."""
    place = re.sub(r"\W+", "-", f"{page}--{unquote(fragment)}" if fragment else page)
    return f"p-{place}"


def target(page: str, href: str, known: set[str]) -> str:
    """Where a link of a page leads in the whole book; to the site for what isn't printed."""
    if re.match(r"[a-z]+:", href):
        return href
    path, _, fragment = href.partition("#")
    name = page
    if path:
        resolved = (SITE / page).parent / unquote(path)
        path = resolved.resolve().relative_to(SITE.resolve()).as_posix()
        name = path.removesuffix(".html")
    if name not in known:
        mark = f"#{fragment}" if fragment else ""
        return f"{site_address()}/{path}{mark}" if site_address() else ""
    return f"#{anchor(name, fragment)}"


def read(page: str) -> BeautifulSoup:
    """A page of the site, less what only a screen has a use for; its text is the one article."""
    path = SITE / f"{page}.html"
    if not path.exists():
        raise PrintError(f"{path.relative_to(ROOT)} isn't there: run `make book` first")
    soup = BeautifulSoup(path.read_text("utf-8"), "html.parser")
    if soup.select_one("article.bd-article") is None:
        raise PrintError(f"{page}: the page has no article")
    for tag in soup.select(ON_SCREEN):
        tag.decompose()
    return soup


def article(page: str, known: set[str]) -> Tag:
    """The text of a page, its ids, links and pictures made fit for the whole book."""
    soup = read(page)
    text = soup.select_one("article.bd-article")
    assert text is not None
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
    name_places(text)
    for_paper(soup, text, page)
    return text


def name_places(text: Tag) -> None:
    """Move ids from boxes to what is read in them: a box may begin at the foot of the page before."""
    for box in text.select("section[id], .admonition[id], figure[id], div.math[id]"):
        inside = box.select_one(
            ":scope > :is(h1, h2, h3, h4, h5, h6, .admonition-title, img, .eqno)"
        )
        if inside is None or inside.get("id"):
            continue
        for empty in box.find_all("span", id=True, recursive=False):
            if not empty.get_text(strip=True):
                inside.insert(0, empty.extract())
        inside["id"] = box["id"]
        del box["id"]


def for_paper(soup: BeautifulSoup, text: Tag, page: str) -> None:
    """Change what reads differently on paper than on a screen."""
    gather_solutions(soup, text)
    where = f"{site_address()}/{page}.html" if site_address() else ""
    for figure in text.select(".ictd-figure"):
        del figure["data-props"]  # the figure's data: a megabyte that nobody reads
        note = soup.new_tag("p", attrs={"class": "printed-note"})
        note.string = "A still picture. The figure moves on the book's site" + (
            ": " if where else ", and in the chapter's notebook."
        )
        if where:
            link = soup.new_tag("a", href=where)
            link.string = where.partition("://")[2]
            note.append(link)
        (figure.find("figcaption") or figure).append(note)
    for pre in text.select("pre"):
        if len(pre.get_text().strip().splitlines()) <= SHORT:
            for tag in (pre, pre.find_parent(class_="output")):
                if tag is not None:
                    tag["class"] = " ".join(
                        [*tag.get_attribute_list("class"), "printed-short"]
                    )
    for piece in text.find_all(string=proofread.NUMBERED):
        if not piece.find_parent(["pre", "code"]) and not proofread.is_formula(piece):
            piece.replace_with(proofread.NUMBERED.sub("\\1\u00a0\\2", piece))


def gather_solutions(soup: BeautifulSoup, text: Tag) -> None:
    """Move a chapter's solutions behind its last exercise: on paper they can't be folded."""
    solutions = text.select("div.solution")
    if not solutions:
        return
    exercises = text.select("div.exercise")
    place = soup.new_tag("section")
    heading = soup.new_tag("h3", id=f"{text['id']}-solutions")
    heading.string = "Solutions"
    place.append(heading)
    exercises[-1].insert_after(place)
    for solution in solutions:
        place.append(solution.extract())
    note = soup.new_tag("p", attrs={"class": "printed-note"})
    number = soup.new_tag(
        "a", href=f"#{heading['id']}", attrs={"data-place": str(heading["id"])}
    )
    note.extend(["Solutions begin on page ", number, "."])
    exercises[0].insert_before(note)


def index(known: set[str]) -> Tag | None:
    """The index with page numbers, those in the glossary last; None where it would only repeat the glossary."""
    site = SITE / f"{INDEX}.html"
    listed = BeautifulSoup(site.read_text("utf-8"), "html.parser").select(
        ".genindextable > tr > td > ul > li, .genindextable > tbody > tr > td > ul > li"
    )
    soup = BeautifulSoup(
        f"<article class='bd-article printed-index' id='{anchor(INDEX)}'>"
        f"<h1 id='{anchor(INDEX, 'index')}'>Index</h1><ul></ul></article>",
        "html.parser",
    )
    outer = soup.ul
    assert outer is not None
    led_to = set()
    for item in listed:
        below = item.ul.extract() if item.ul else None
        links = item.select("a[href]")
        name = proofread.words(item)
        inner = soup.new_tag("ul")
        own: list[str] = []
        for link in below.select("a[href]") if below else []:
            place = target(INDEX, str(link["href"]), known)
            led_to.add(str(link["href"]).partition("#")[0])
            if not place.startswith("#"):
                continue
            if re.fullmatch(r"chapter \d+", proofread.words(link)):
                own.append(place)
            else:
                inner.append(line(soup, proofread.words(link), [place]))
        own += [target(INDEX, str(link["href"]), known) for link in links]
        own = [place for place in own if place.startswith("#")]
        if own or inner.contents:
            entry = line(soup, name, own)
            if inner.contents:
                entry.append(inner)
            outer.append(entry)
    return soup.article if len(led_to) > 1 else None


def line(soup: BeautifulSoup, name: str, places: Sequence[str]) -> Tag:
    """A line of the index."""
    item = soup.new_tag("li")
    item.append(f"{name}, " if places else name)
    for place in places:
        item.append(soup.new_tag("a", href=place, attrs={"data-place": place[1:]}))
    return item


def contents(articles: Sequence[Tag], parts: Sequence[str]) -> Tag:
    """A table of contents: parts, chapters and their sections; page numbers are filled in later."""
    soup = BeautifulSoup(
        "<nav class='printed-contents'><h1>Contents</h1><ol></ol></nav>", "html.parser"
    )
    outer = soup.select_one("ol")
    assert outer is not None and soup.nav is not None
    part = ""
    for text, its_part in zip(articles, parts, strict=True):
        if its_part != part:
            part = its_part
            caption = soup.new_tag("li", attrs={"class": "part"})
            caption.string = part
            outer.append(caption)
        item = soup.new_tag("li")
        inner = soup.new_tag("ol")
        for heading in text.select("h1, h2"):
            entry = item if heading.name == "h1" else soup.new_tag("li")
            place = str(heading["id"])
            link = soup.new_tag("a", href=f"#{place}")
            label = soup.new_tag("span", attrs={"class": "label"})
            for piece in heading.find_all(string=True):
                formula = proofread.is_formula(piece)
                text_of = soup.new_tag(
                    "span", attrs={"class": "math"} if formula else {}
                )
                text_of.string = str(piece)
                label.append(text_of)
            number = soup.new_tag("span", attrs={"data-place": place})
            link.extend([label, soup.new_tag("span", attrs={"class": "dots"}), number])
            entry.append(link)
            if entry is not item:
                inner.append(entry)
        if inner.contents:
            item.append(inner)
        outer.append(item)
    return soup.nav


def said_by_git(*arguments: str) -> str:
    """What git says of the book's folder; an unpacked archive has none."""
    try:
        done = subprocess.run(
            ["git", "-C", str(ROOT), *arguments],
            check=False,
            capture_output=True,
            text=True,
        )
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def title_page(title: str, subtitle: str) -> str:
    """What the book is, of when, under which terms, and where to come back to."""
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    version = f"Version {cited['version']}, {cited['date-released']:%-d %B %Y}."
    revision = said_by_git("log", "-1", "--format=%h of %cd", "--date=format:%-d %B %Y")
    if revision:
        changed = ", changed since" if said_by_git("status", "--porcelain") else ""
        version += f" Printed from revision {revision}{changed}."
    repository = web_address(remote_address(ROOT))
    places = [
        f"On screen, where its figures move, terms explain themselves and all can be searched: {link(site_address())}."
        if site_address()
        else "",
        f"Notebooks, library and all that this book is made of: {link(repository)}."
        if repository
        else "",
    ]
    lines = [
        version,
        *places,
        "Every number, table and plot below a piece of code was computed by that code: the notebooks were "
        "executed from top to bottom, from seeds that the code names, and what is printed here is what they "
        "stored. “Status of the notebooks” says when and with which versions. The reference of the library "
        "<code>ictd_lib</code> isn't printed; it stands on the site and in the docstrings.",
        "Text: CC BY 4.0 (creativecommons.org/licenses/by/4.0). Code: MIT.",
    ]
    imprint = "".join(f"<p>{line}</p>" for line in lines if line)
    return (
        f"<div class='printed-title'><h1>{title}</h1><p class='subtitle'>{subtitle}</p>"
        f"<p>A computational textbook</p><div class='imprint'>{imprint}</div></div>"
    )


def link(address: str) -> str:
    """An address as a link that reads well on paper."""
    return f'<a href="{address}">{address.partition("://")[2]}</a>'


def running_heads(articles: Sequence[Tag]) -> str:
    """A style for each page of the site, which puts its title above what it fills on paper."""
    rules = [
        '@page contents { @top-center { content: "Contents" } } .printed-contents { page: contents }'
    ]
    for number, text in enumerate(articles):
        heading = text.find("h1")
        assert isinstance(heading, Tag)
        title = json.dumps(proofread.words(heading), ensure_ascii=False)
        rules.append(
            f"@page part{number} {{ @top-center {{ content: {title} }} }} "
            f"#{text['id']} {{ page: part{number} }}"
        )
    return "\n".join(rules)


def whole(chosen: Sequence[Entry]) -> str:
    """The book, or some of its pages, as one HTML page."""
    known = {entry.name for entry in chosen}
    articles = [article(entry.name, known) for entry in chosen]
    parts = [entry.part for entry in chosen]
    title = yaml.safe_load((ROOT / "_config.yml").read_text("utf-8"))["title"]
    subtitle = ""
    for text, entry in zip(articles, chosen, strict=True):
        if (
            not entry.part
        ):  # the first page bears the title of the book, and its subtitle
            heading, lead = (
                text.select_one("h1"),
                text.select_one("h1 + p > em:only-child"),
            )
            if heading is not None:
                heading.string = "Preface"
            if lead is not None and lead.parent is not None:
                subtitle = lead.parent.extract().get_text().rstrip(".")
    if (last := index(known)) is not None:
        articles.append(last)
        parts.append(parts[-1])
    # A chapter loads all style sheets.
    page = SITE / f"{next(entry.name for entry in entries() if entry.part)}.html"
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
    return "\n".join(
        [
            "<!doctype html><html lang='en' data-theme='light' data-mode='light'><head><meta charset='utf-8'>",
            f"<title>{title}</title>",
            *sheets,
            f"<style>{STYLE.read_text('utf-8')}{running_heads(articles)}</style>",
            *settings,
            f"<script defer src='{mathjax.as_uri()}'></script>",
            "</head><body><main class='bd-article-container'>",
            title_page(title, subtitle),
            str(contents(articles, parts)),
            *map(str, articles),
            "</main></body></html>",
        ]
    )


# What is wider than the page's text, once formulas that can be were set smaller.
TOO_WIDE = """() => {
    const found = [];
    for (const box of document.querySelectorAll("article, nav")) {
        const right = box.getBoundingClientRect().right + 1;
        for (const formula of box.querySelectorAll("mjx-container[display]")) {
            const line = formula.parentElement.getBoundingClientRect().width;
            const width = formula.firstElementChild.getBoundingClientRect().width;
            if (width > line) formula.style.fontSize = `${Math.max(0.75, line / width) * 100}%`;
        }
        for (const part of box.querySelectorAll("mjx-container, mjx-math, table, pre, img, code, h1, h2, h3"))
            if (!part.closest("mjx-assistive-mml") && part.getBoundingClientRect().right > right)
                found.push(`${box.id}: ${part.tagName.toLowerCase()} ${part.textContent.trim().slice(0, 60)}`);
    }
    return found;
}"""
FILL = """async (numbers) => {
    for (const place of document.querySelectorAll("[data-place]"))
        place.textContent = numbers[place.dataset.place] ?? "000";
    // Two places on one page are one number in the index.
    for (const line of Object.keys(numbers).length ? document.querySelectorAll(".printed-index li") : []) {
        const places = [...line.querySelectorAll(":scope > a")];
        for (const [at, place] of places.entries())
            if (places.slice(0, at).some((other) => other.textContent === place.textContent)) place.remove();
    }
    return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
}"""
#: The width of the text on paper (printed.css: A4 less its margins), in the browser's pixels.
TEXT_WIDTH = round((210 - 2 * 27) / 25.4 * 96)


def settled(page: Page, source: Path) -> None:
    """Open a page as paper will show it, and wait until its formulas are set."""
    page.emulate_media(media="print", color_scheme="light")
    page.goto(source.as_uri(), wait_until="load")
    page.evaluate("() => MathJax.startup.promise")
    page.evaluate("() => document.fonts.ready.then(() => true)")
    wide = page.evaluate(TOO_WIDE)
    if wide:
        raise PrintError("wider than the page:\n  " + "\n  ".join(wide))


def print_pdf(source: Path, draft: Path, final: Path) -> None:
    """Let Chromium print a page, and again with the page numbers of the first time."""
    names = ("chromium", "chromium-browser", "google-chrome")
    chromium = next(filter(None, map(shutil.which, names)), None)
    if chromium is None:
        raise PrintError(
            "no Chromium on this machine (on Debian: apt-get install chromium)"
        )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        try:
            page = browser.new_page(viewport={"width": TEXT_WIDTH, "height": 900})
            page.set_default_timeout(900_000)
            settled(page, source)
            numbers: dict[str, int] = {}
            for file in (draft, final):
                page.evaluate(FILL, numbers)
                page.pdf(
                    path=str(file),
                    prefer_css_page_size=True,
                    print_background=True,
                    outline=True,
                    tagged=True,
                )
                if file is draft:
                    numbers = page_numbers(file)
        finally:
            browser.close()
    moved = [
        place for place, page in page_numbers(final).items() if numbers[place] != page
    ]
    if moved:
        raise PrintError(f"these aren't where the contents say: {', '.join(moved)}")


def page_numbers(pdf: Path) -> dict[str, int]:
    """On which page, counted from 1, each named place of a PDF is."""
    reader = PdfReader(pdf)
    return {
        name.removeprefix("/"): (reader.get_destination_page_number(place) or 0) + 1
        for name, place in reader.named_destinations.items()
    }


def finish(pdf: Path) -> None:
    """Pack a PDF, and write author and date into it, in the place of the browser's name and the hour.

    Chromium writes what a screen reader goes by as eighty thousand small objects, none of them compressed;
    in streams of objects they are, and the file is less than half as long. With the date of the revision
    and an identifier made of its content, the same revision gives the same file.
    """
    author = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))["authors"][0]
    day = said_by_git("log", "-1", "--format=%cd", "--date=format:%Y%m%d") or "19800101"
    with pikepdf.open(pdf, allow_overwriting_input=True) as content:
        del content.docinfo["/Creator"]
        content.docinfo["/Author"] = author["name"]
        for date in ("/CreationDate", "/ModDate"):
            content.docinfo[date] = f"D:{day}000000Z"
        content.save(
            pdf,
            object_stream_mode=pikepdf.ObjectStreamMode.generate,
            deterministic_id=True,
        )


def on_site(entry: Entry) -> Tag:
    """What of a page's text is to be found on its pages of the book."""
    text = read(entry.name).select_one("article.bd-article")
    assert text is not None
    if not entry.part:  # its title and subtitle are the book's
        for tag in text.select("h1, h1 + p:has(> em:only-child)"):
            tag.decompose()
    return text


def build(names: Sequence[str] | None = None) -> Path:
    """Print the book, or some of its pages; return the file."""
    chosen = [entry for entry in entries() if names is None or entry.name in names]
    PRINT.mkdir(parents=True, exist_ok=True)
    source = PRINT / "book.html"
    source.write_text(whole(chosen), "utf-8")
    part = PRINT / "book.pdf"
    print_pdf(source, PRINT / "draft.pdf", part)
    finish(part)
    sites = {anchor(entry.name): on_site(entry) for entry in chosen}
    faults = proofread.faults(part, source.read_text("utf-8"), sites)
    if faults:
        raise PrintError(f"{part} isn't as it should be:\n  " + "\n  ".join(faults))
    part.replace(PDF)
    return PDF


def main() -> int:
    """Run the command line; return the exit status."""
    try:
        file = build()
    except PrintError as error:
        print(error, file=sys.stderr)
        return 1
    size = file.stat().st_size / 1e6
    print(
        f"{file.relative_to(ROOT)}: {len(PdfReader(file).pages)} pages, {size:.1f} MB"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
