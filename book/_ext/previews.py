"""What a link within the book leads to, ready to be shown beside the link (by previews.js).

After the pages are written, each place that some page links to is taken out of the page it stands on: a
statement, an equation, a figure, a definition of the glossary, an entry of the bibliography or of the
library's reference, the beginning of a section. The places of a page make a script of it, which a reader's
browser loads when it needs one of them. A script, since from the file system a page may read nothing else.
"""

import json
import posixpath
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from bs4 import BeautifulSoup, Tag
from sphinx.application import Sphinx

FOLDER = "previews"
#: In the article, links that Sphinx made and those of cells; headings link to themselves in another way, and
#: source code has no short beginning to show.
LINK = re.compile(
    r'<a class="(?:reference internal|sphinx-codeautolink-a)[^>]*? href="([^"#]*)#([^"]+)"[^>]*>'
    r'(?!<span class="viewcode-link">)'
)
ARTICLE = re.compile(r'<article class="bd-article"[^>]*>.*</article>', re.DOTALL)
LEFT_OUT = (
    "a.headerlink, a:has(> .viewcode-link), button, script, style, noscript, .cell, details, "
    ".toggle-button, input"
)
KEPT = ("class", "src", "alt", "start")
TITLES = {"dt", "h1", "h2", "h3", "h4", "h5", "h6"}
TEXTS = {"dd", "figcaption"}
#: A longer text is cut where a paragraph ends.
LENGTH = 1500


def links(page: str, html: str) -> set[tuple[str, str]]:
    """Return the places that a page links to: names of pages, without their suffix, and ids on them."""
    found = set()
    for path, fragment in LINK.findall(html):
        if ":" not in path:
            place = posixpath.join(posixpath.dirname(page), unquote(path))
            target = posixpath.normpath(place) if path else f"{page}.html"
            found.add((target.removesuffix(".html"), unquote(fragment)))
    return found


def first_paragraph(box: Tag | None) -> list[Tag]:
    """Return the first paragraph of a box, in a list; an empty one if it begins with something else."""
    first = box.find(["p", "ul", "ol", "dl", "div"], recursive=False) if box else None
    return [first] if isinstance(first, Tag) and first.name == "p" else []


def parts(place: Tag) -> list[Tag]:
    """Return what of a page tells what stands at a place; nothing where that is nothing short."""
    classes = set(place.get_attribute_list("class"))
    if place.name == "dt":
        definition = place.find_next_sibling("dd")
        assert isinstance(definition, Tag)
        is_entry = "sig" in classes
        return [place, *(first_paragraph(definition) if is_entry else [definition])]
    if place.name == "figure":
        return [
            each
            for each in (place.find("img"), place.find("figcaption"))
            if isinstance(each, Tag)
        ]
    if {"admonition", "math", "citation"} & classes:
        return [place]
    if place.name == "section":
        heading = place.find(list(TITLES), recursive=False)
        return [heading, *first_paragraph(place)] if isinstance(heading, Tag) else []
    if place.name == "span" and not place.get_text():
        # Another name of what it stands before, or of the section whose heading it stands at.
        beside = [place.find_previous_sibling(), place.find_next_sibling()]
        near = [each for each in beside if isinstance(each, Tag)]
        if any(each.name in TITLES for each in near):
            near = [place.parent] if isinstance(place.parent, Tag) else []
        return parts(near[-1]) if near else []
    return []


def preview(page: str, place: Tag) -> str:
    """Return a place as HTML that can stand on any page, without links, ids and controls; "" for none."""
    soup = BeautifulSoup("", "html.parser")
    box = soup.new_tag("div")
    for part in parts(place):
        copy = BeautifulSoup(str(part), "html.parser").find(True)
        assert isinstance(copy, Tag)
        for names, kind in ((TITLES, "title"), (TEXTS, "text")):
            if copy.name in names:  # it leaves its list, section or figure
                copy.name = "div"
                copy["class"] = f"preview-{kind}"
        box.append(copy)
    for extra in box.select(LEFT_OUT):
        extra.decompose()
    for link in box.select("a"):
        link.unwrap()
    for tag in box.find_all(True):
        tag.attrs = {name: tag.attrs[name] for name in KEPT if name in tag.attrs}
    for image in box.select("img"):
        source = str(image.get("src", ""))
        if not source.startswith("data:"):
            image["src"] = "root:" + posixpath.normpath(
                posixpath.join(posixpath.dirname(page), source)
            )
    shorten(box)
    return box.decode_contents().strip()


def shorten(box: Tag) -> None:
    """Leave out what comes after the first so many letters, and say that something was left out."""
    body = box.select_one(".proof-content, [class*=content]") or box
    children = [each for each in body.children if isinstance(each, Tag)]
    length = 0
    for child in children:
        if length > LENGTH:
            child.decompose()
        length += 0 if child.decomposed else len(child.get_text())
    if length > LENGTH and children[-1].decomposed:
        body.append(BeautifulSoup("<p>…</p>", "html.parser"))


def previews(page: str, html: str, ids: Iterable[str]) -> dict[str, str]:
    """Return the previews of those places of a page that have one."""
    soup = BeautifulSoup(html, "html.parser")
    places = {str(tag["id"]): tag for tag in soup.find_all(id=True)}
    found = {
        each: preview(page, places[each]) for each in sorted(ids) if each in places
    }
    return {each: text for each, text in found.items() if text}


def write(app: Sphinx, exception: Exception | None) -> None:
    """Write a script of previews for each page that is linked to (event build-finished)."""
    if exception is not None or app.builder.name != "html":
        return
    site = Path(app.outdir)
    articles = {}
    for page in sorted(app.env.found_docs):
        if match := ARTICLE.search((site / f"{page}.html").read_text("utf-8")):
            articles[page] = match[0]
    wanted: dict[str, set[str]] = {}
    for page, html in articles.items():
        for target, place in links(page, html):
            wanted.setdefault(target, set()).add(place)
    folder = site / "_static" / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for page in sorted(wanted.keys() & articles.keys()):
        found = previews(page, articles[page], wanted[page])
        data = json.dumps(found, ensure_ascii=False, sort_keys=True, indent=0)
        script = f"bookPreviews[{json.dumps(page)}] = {data};\n"
        (folder / f"{page.replace('/', '-')}.js").write_text(script, "utf-8")


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
