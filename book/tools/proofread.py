"""Read the printed book as a printer's reader does: everything there, every glyph, number and link right.

printed.py runs this on what it made. Its sources are the built site, page by page, and the file on paper:
whatever one of them says and the other doesn't is a fault, and each fault is one line.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from bs4 import BeautifulSoup, Tag
from bs4.element import PageElement
from pypdf import PageObject, PdfReader
from pypdf.generic import DictionaryObject

#: Beyond this many bytes a phone in a train thinks twice.
LARGEST = 15_000_000
#: Shorter pieces of text are found by chance.
PIECE = 20
NUMBERED = re.compile(
    r"\b(Algorithm|Assumption|Conjecture|Corollary|Definition|Example|Exercise|Figure|Lemma|"
    r"Proposition|Remark|Table|Theorem) (\d+\.\d+)\b"
)
#: What may not be read anywhere: a reference without a target, formulas that weren't set, lost letters.
NEVER = ("??", "\\(", "\\[", "\\begin{", "\ufffd")
#: Pieces of which MathJax's fonts make a brace above or below a formula.
BRACES = "".join(map(chr, range(0xE150, 0xE156)))
#: Of several signs that look alike, a font's table may name another than was meant.
ALIKE = str.maketrans({"ʼ": "’", "\u00a0": " ", "\u2011": "-", "−": "-"})


HEADING = re.compile("h[1-6]")


def words(tag: Tag) -> str:
    """The text of a tag on one line."""
    return " ".join(tag.get_text().split())


def plain(text: str) -> str:
    """Text without what differs between screen and paper: joined letters, lines and spaces."""
    return " ".join(unicodedata.normalize("NFKC", text).translate(ALIKE).split())


def tight(text: str) -> str:
    """Text without any spaces: a PDF knows where letters stand, not where words end."""
    return "".join(plain(text).split())


def letters(text: str) -> str:
    """Text without anything but letters and digits; a font may draw an accent as a sign without a name."""
    apart = unicodedata.normalize("NFKD", plain(text))
    return "".join(sign for sign in apart if sign.isalnum())


def is_formula(piece: PageElement) -> bool:
    """Whether a part of a page is a formula, or within one."""
    around = [piece, *piece.parents] if isinstance(piece, Tag) else piece.parents
    return any("math" in (tag.get("class") or []) for tag in around)


def until_formula(tag: Tag) -> str:
    """The text of a title as far as it is text: formulas come out of a PDF in an order of their own."""
    found = []
    for piece in tag.find_all(string=True):
        if is_formula(piece):
            break
        found.append(str(piece))
    return " ".join("".join(found).split())


class Paper:
    """A PDF: its pages, where its named places are, and which links it has."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.reader = PdfReader(file)

    @cached_property
    def pages(self) -> list[tuple[str, bool]]:
        """The text of each page, and whether the page draws a glyph that its font doesn't have."""
        return [read(page) for page in self.reader.pages]

    @property
    def texts(self) -> list[str]:
        """The text of each page."""
        return [text for text, _ in self.pages]

    @cached_property
    def places(self) -> dict[str, int]:
        """On which page, counted from 1, each named place is; 0 where it is on none."""
        return {
            name.removeprefix("/"): (
                self.reader.get_destination_page_number(place) or 0
            )
            + 1
            for name, place in self.reader.named_destinations.items()
        }

    def links(self) -> Iterator[tuple[int, str, str]]:
        """Yield each link: its page, the named place within the book, the address outside it."""
        for number, page in enumerate(self.reader.pages, start=1):
            for note in page.get("/Annots") or []:
                link = note.get_object()
                action = link.get("/A", {})
                place = link.get("/Dest") or action.get("/D") or ""
                yield (
                    number,
                    str(place).removeprefix("/"),
                    str(action.get("/URI", "")),
                )

    def between(self, first: int, last: int) -> list[str]:
        """The text of some pages, less what stands above and below it on each."""
        return [
            without_margins(self.texts[number - 1], number)
            for number in range(first, last + 1)
        ]


def read(page: PageObject) -> tuple[str, bool]:
    """The text of a page, and whether it draws a glyph that its font doesn't have."""
    fonts = page.get("/Resources", {}).get("/Font", {})
    font: Any = None
    lacks = False

    def operand(name: bytes, operands: Any, *_: Any) -> None:
        nonlocal font, lacks
        if name == b"Tf":
            reference = fonts.get(operands[0])
            font = reference.get_object() if reference is not None else None
        elif name in (b"Tj", b"TJ") and font is not None and not lacks:
            drawn = operands[0] if name == b"TJ" else operands
            lacks = any(draws_nothing(font, bytes_of(piece)) for piece in drawn)

    return page.extract_text(visitor_operand_before=operand), lacks


def without_margins(text: str, number: int) -> str:
    """The text of a page less its running head and its number, which come first."""
    lines = text.split("\n")
    for place, line in enumerate(lines[:2]):
        if line.strip() == str(number):
            return "\n".join(lines[place + 1 :])
    return text


def bytes_of(piece: Any) -> bytes:
    """The codes of a string in a PDF; of a gap between two, none."""
    return piece if isinstance(piece, bytes) else getattr(piece, "original_bytes", b"")


def draws_nothing(font: DictionaryObject, codes: bytes) -> bool:
    """Whether one of the codes is the glyph that stands for a missing one: a font's first."""
    if b"\0" not in codes:
        return False
    if font.get("/Subtype") == "/Type0":  # two bytes, the glyph's own number
        pairs = zip(codes[::2], codes[1::2], strict=False)
        return any(pair == (0, 0) for pair in pairs)
    return font.get("/Subtype") == "/Type3"


# ---- What can be wrong -------------------------------------------------------------------


def font_faults(paper: Paper) -> Iterator[str]:
    """Fonts that another machine would have to guess, or whose text can't be searched."""
    seen = set()
    for page in paper.reader.pages:
        for reference in page.get("/Resources", {}).get("/Font", {}).values():
            font = reference.get_object()
            key = getattr(reference, "idnum", id(font))
            if key in seen:
                continue
            seen.add(key)
            name = str(font.get("/BaseFont", "a font drawn as pictures"))
            inner = font.get("/DescendantFonts", [font])[0].get_object()
            described = inner.get("/FontDescriptor", {}).get_object()
            embedded = "/CharProcs" in font or any(
                key in described for key in ("/FontFile", "/FontFile2", "/FontFile3")
            )
            if not embedded:
                yield f"font {name} isn't embedded"
            if "/ToUnicode" not in font:
                yield f"font {name} doesn't say which letters its glyphs are"


def glyph_faults(paper: Paper) -> Iterator[str]:
    """Glyphs that no font has, letters that no reader can copy, formulas that weren't set."""
    for number, (text, lacks) in enumerate(paper.pages, start=1):
        if lacks:
            yield f"page {number}: a character that no font has"
        for sign in NEVER:
            if sign in text:
                at = text.index(sign)
                yield f"page {number}: {sign!r} in {text[max(at - 20, 0) : at + 20]!r}"
        private = {
            sign
            for sign in text
            if unicodedata.category(sign) == "Co" and sign not in BRACES
        }
        if private:
            yield f"page {number}: characters without a meaning: {sorted(private)}"


def link_faults(paper: Paper) -> Iterator[str]:
    """Links that lead nowhere, or to a file on the machine that printed the book."""
    for number, place, address in paper.links():
        if place and not 1 <= paper.places.get(place, 0) <= len(paper.texts):
            yield f"page {number}: a link to {place}, which isn't there"
        if not place and not re.match(r"(https|http|mailto):", address):
            yield f"page {number}: a link to {address or 'nothing'}"


def lost_faults(book: Tag) -> Iterator[str]:
    """Links to places that the book hasn't got: the browser prints them as plain text, and says nothing."""
    there = {str(tag["id"]) for tag in book.select("[id]")}
    for link in book.select("a[href^='#']"):
        place = unquote(str(link["href"])[1:])
        if place not in there:
            article = link.find_parent("article")
            where = article.get("id") if article else "contents"
            yield f"{where}: the link “{words(link)}” leads to {place or 'no place'}, which isn't there"


def claim(tag: Tag) -> str:
    """What must be read where a link to a tag leads: a heading, a number, a term."""
    if tag.name == "img" and tag.parent is not None:
        tag = tag.parent
    heading = tag if HEADING.fullmatch(tag.name) else tag.find_parent(HEADING)
    if heading is not None:
        return until_formula(heading)
    kinds = {"admonition-title", "eqno", "align-default"} & set(tag.get("class") or [])
    if kinds:
        return words(tag.select_one(".caption-number") or tag)
    return until_formula(tag) if tag.name == "dt" else ""


def place_faults(paper: Paper, book: Tag) -> Iterator[str]:
    """Places that are linked to, and aren't on the page that the link opens."""
    pages = [tight(text) for text in paper.texts]
    for tag in book.select("[id]"):
        page = paper.places.get(str(tag["id"]), 0)
        text = claim(tag)
        if page and text and tight(text) not in pages[page - 1]:
            yield f"page {page}: a link opens it for “{text}”, which isn't on it"


def contents_faults(paper: Paper, book: Tag) -> Iterator[str]:
    """Lines of the contents that are missing, or name another page than they lead to."""
    first = book.select_one(".printed-contents a")
    if first is None:
        yield "there are no contents"
        return
    start = paper.places.get(str(first["href"])[1:], len(paper.texts) + 1)
    lines = [
        tight(line) for text in paper.texts[: start - 1] for line in text.split("\n")
    ]
    for link in book.select(".printed-contents a"):
        label = link.select_one(".label") or link
        true = paper.places.get(str(link["href"])[1:], 0)
        title = until_formula(label)
        rest = r"\D*(\d*)\D*" if title != words(label) else r"(\d*)"
        pattern = re.compile(re.escape(tight(title)) + rest)
        found = [pattern.fullmatch(line) for line in lines]
        named = [match[1] for match in found if match]
        if not named:
            yield f"contents: “{title}” is missing"
        elif str(true) not in named:
            yield f"contents: “{title}” on page {'/'.join(named)}; it is on {true}"


def chapter_pages(paper: Paper, book: Tag) -> dict[str, tuple[int, int]]:
    """From which page to which each page of the site goes, by its id in the book."""
    starts = []
    for article in book.select("article[id]"):
        heading = article.find("h1")
        place = str(heading.get("id")) if isinstance(heading, Tag) else ""
        starts.append((str(article["id"]), paper.places.get(place, 0)))
    ends = [start - 1 for _, start in starts[1:]] + [len(paper.texts)]
    return {
        name: (start, max(end, start))
        for (name, start), end in zip(starts, ends, strict=True)
        if start
    }


def numbers_faults(name: str, site: Tag, text: str) -> Iterator[str]:
    """Theorems, figures, exercises and equations that aren't the same on the site and on paper."""
    close = tight(text)
    for number in site.select(".caption-number"):
        title = until_formula(number.parent) if number.parent else words(number)
        if tight(title) not in close:
            yield f"{name}: “{title}” isn't on its pages"
    for number in site.select(".eqno"):
        if tight(words(number)) not in close:
            yield f"{name}: equation {words(number)} isn't on its pages"
    there = Counter(" ".join(found) for found in NUMBERED.findall(plain(words(site))))
    here = Counter(" ".join(found) for found in NUMBERED.findall(plain(text)))
    for label in sorted(there.keys() | here.keys()):
        if there[label] != here[label]:
            yield f"{name}: the site says “{label}” {there[label]} times, paper {here[label]}"


def text_faults(name: str, site: Tag, pages: Sequence[str]) -> Iterator[str]:
    """Pieces of the site's text that didn't come out on paper."""
    here = [letters(text) for text in pages]
    for piece in site.find_all(string=True):
        wanted = letters(str(piece))
        if len(wanted) < PIECE or is_formula(piece):
            continue
        if not any(wanted in text for text in here) and not turned(wanted, here):
            yield f"{name}: isn't on its pages: “{plain(str(piece))[:70]}”"


def turned(wanted: str, pages: Sequence[str]) -> bool:
    """Whether a text begins on one of the pages and goes on overleaf."""
    whole = "".join(pages)
    return wanted in whole or any(
        wanted[:cut] in before and wanted[cut:] in after
        for before, after in pairwise(pages)
        for cut in range(1, len(wanted))
    )


def form_faults(paper: Paper, title: str) -> Iterator[str]:
    """What a reading program shows of a book before its pages."""
    told = paper.reader.metadata
    if told is None or told.title != title:
        yield f"the file's title isn't “{title}”"
    if told is None or not told.author:
        yield "the file names no author"
    root = paper.reader.root_object
    if root.get("/Lang") != "en":
        yield "the file doesn't say that it is in English"
    if not root.get("/MarkInfo", {}).get("/Marked"):
        yield "the file isn't tagged: a screen reader would guess"
    if not paper.reader.outline:
        yield "the file has no bookmarks"
    size = paper.file.stat().st_size
    if size > LARGEST:
        yield f"the file has {size / 1e6:.1f} MB, more than {LARGEST / 1e6:.0f}"
    for number, text in enumerate(paper.texts, start=1):
        if not without_margins(text, number).strip():
            pictures = paper.reader.pages[number - 1].get("/Resources", {})
            if not pictures.get("/XObject"):
                yield f"page {number} is blank"


def faults(pdf: Path, book: str, site: Mapping[str, Tag]) -> list[str]:
    """All that is wrong with a PDF, given the page that was printed and the site's, by their ids in it."""
    soup = BeautifulSoup(book, "html.parser")
    paper = Paper(pdf)
    title = words(soup.title) if soup.title else ""
    found = [
        *form_faults(paper, title),
        *font_faults(paper),
        *glyph_faults(paper),
        *link_faults(paper),
        *lost_faults(soup),
        *place_faults(paper, soup),
        *contents_faults(paper, soup),
    ]
    pages = chapter_pages(paper, soup)
    for name, article in site.items():
        if name not in pages:
            found.append(f"{name} isn't in the book")
            continue
        texts = paper.between(*pages[name])
        found += numbers_faults(name, article, "\n".join(texts))
        found += text_faults(name, article, texts)
    return found
