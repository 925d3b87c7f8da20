"""What reads the printed book finds: a made-up book of two chapters, printed whole and with faults planted."""

from collections import Counter
from pathlib import Path

import pytest
from browser import chromium
from bs4 import BeautifulSoup, Tag
from pypdf import PdfReader, PdfWriter
from pypdf.generic import NameObject

from book.tools import printed, proofread

TITLE = "A small book"
NO_FORMULAS = "<script>MathJax = {startup: {promise: Promise.resolve()}}</script>"
STYLE = """
@page { size: A4; margin: 30mm; @top-center { content: "A small book" }
    @bottom-center { content: counter(page) } }
article { break-before: page } .page { break-before: page }
"""
ONE = """<article class="bd-article" id="p-one">
<section><h1 id="p-one-start">1. The first chapter</h1>
<p>A text that is long enough to be missed, with <a href="#p-two-thm">Theorem 2.1</a> in it.</p>
<p class="page">And its end, on a page of its own, which nobody should overlook.</p></section></article>"""
TWO = """<article class="bd-article" id="p-two">
<section><h1 id="p-two-start">2. The second chapter</h1>
<div class="admonition"><p class="admonition-title" id="p-two-thm">
<span class="caption-number">Theorem 2.1 </span> (Small things)</p><p>There are some.</p></div>
<div class="math"><span class="eqno">(2.1)</span></div>
<p><a href="https://example.org/">Elsewhere</a></p></section></article>"""


def book(*articles: str, title: str = TITLE) -> str:
    entries = []
    for article in articles:
        heading = BeautifulSoup(article, "html.parser").h1
        assert heading is not None
        entries.append(
            f"<div><a href='#{heading['id']}'><span class='label'>{heading.get_text()}</span> "
            f"<span data-place='{heading['id']}'></span></a></div>"
        )
    return (
        f"<!doctype html><html lang='en'><head><title>{title}</title>{NO_FORMULAS}"
        f"<style>{STYLE}</style></head><body>"
        f"<nav class='printed-contents'><h1>Contents</h1>{''.join(entries)}</nav>"
        f"{''.join(articles)}</body></html>"
    )


def print_book(folder: Path, text: str) -> Path:
    """Print a page; what came out first, with empty contents, lies beside it as draft.pdf."""
    if chromium() is None:
        pytest.skip("NO BROWSER TEST RAN: there is no Chromium")
    (folder / "book.html").write_text(text, "utf-8")
    printed.print_pdf(folder / "book.html", folder / "draft.pdf", folder / "book.pdf")
    printed.finish(folder / "book.pdf")
    return folder / "book.pdf"


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return print_book(tmp_path_factory.mktemp("good"), book(ONE, TWO))


def article(text: str) -> Tag:
    found = BeautifulSoup(text, "html.parser").article
    assert found is not None
    return found


def faults(
    pdf: Path, *, one: str = ONE, two: str = TWO, text: str | None = None
) -> list[str]:
    """Faults of a PDF, were these the articles of the site and this the page that was printed."""
    site = {"p-one": article(one), "p-two": article(two)}
    return proofread.faults(pdf, text or book(ONE, TWO), site)


def test_a_good_book_has_no_fault(good: Path) -> None:
    assert faults(good) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("Theorem 2.1 ", "Theorem 2.2 "), "“Theorem 2.2 (Small things)” isn't"),
        (("Theorem 2.1 ", "Theorem 2.2 "), "says “Theorem 2.1” 0 times, paper 1"),
        (("Small things", "Great things"), "“Theorem 2.1 (Great things)” isn't"),
        (("(2.1)", "(2.2)"), "equation (2.2) isn't"),
        (("There are some", "There are some that nobody printed"), "nobody printed"),
    ],
)
def test_what_the_site_says_otherwise_is_seen(
    good: Path, change: tuple[str, str], said: str
) -> None:
    found = faults(good, two=TWO.replace(*change))
    assert any(said in fault for fault in found), found


def test_a_chapter_that_is_missing_is_seen(good: Path) -> None:
    site = {"p-one": article(ONE), "p-three": article(TWO)}
    found = proofread.faults(good, book(ONE, TWO), site)
    assert found == ["p-three isn't in the book"]


def test_a_text_that_goes_on_overleaf_is_found() -> None:
    pages = ["abcdef", "ghijkl"]
    assert proofread.turned("defghi", pages)
    assert proofread.turned("bcghi", pages)  # formulas come between
    assert not proofread.turned("defxghi", pages)
    assert not proofread.turned("ghiabc", pages[:1])


def test_an_accent_may_be_drawn_apart() -> None:
    assert proofread.letters("Śaunak’s ﬁne") == proofread.letters("S\0 aunakʼs fine")


def test_contents_with_other_pages_are_seen(good: Path) -> None:
    found = list(
        proofread.contents_faults(
            proofread.Paper(good.with_name("draft.pdf")), soup(book(ONE, TWO))
        )
    )
    assert "“1. The first chapter” on page 000; it is on 2" in found[0]
    assert "“2. The second chapter” on page 000; it is on 4" in found[1]
    other = soup(book(ONE, TWO.replace("second", "last")))
    (missing,) = proofread.contents_faults(proofread.Paper(good), other)
    assert missing == "contents: “2. The last chapter” is missing"


def test_a_formula_in_the_contents_may_be_read_behind_the_number() -> None:
    class Read:
        texts = ("1. Fast 2\n2. Faster than 3γ", "", "")
        places = {"a": 2, "b": 3}  # noqa: RUF012

    listed = (
        "<nav class='printed-contents'><a href='#a'><span class='label'>1. Fast</span></a>"
        "<a href='#b'><span class='label'>2. Faster than <span class='math'>x</span></span></a></nav>"
    )
    assert list(proofread.contents_faults(Read(), soup(listed))) == []
    Read.places["b"] = 2
    (fault,) = proofread.contents_faults(Read(), soup(listed))
    assert fault == "contents: “2. Faster than” on page 3; it is on 2"


def soup(text: str) -> BeautifulSoup:
    return BeautifulSoup(text, "html.parser")


def test_a_link_to_another_page_than_it_says_is_seen(good: Path) -> None:
    elsewhere = book(ONE.replace("1. The first", "7. Another"), TWO)
    found = list(proofread.place_faults(proofread.Paper(good), soup(elsewhere)))
    assert found == [
        "page 2: a link opens it for “7. Another chapter”, which isn't on it"
    ]


def test_a_link_that_leads_nowhere_is_seen(good: Path, tmp_path: Path) -> None:
    writer = PdfWriter(clone_from=good)
    for where in ("/Dests", "/Names"):  # the list of named places, wherever it is kept
        writer.root_object.pop(where, None)
    writer.write(tmp_path / "broken.pdf")
    found = list(proofread.link_faults(proofread.Paper(tmp_path / "broken.pdf")))
    assert "page 2: a link to p-two-thm, which isn't there" in found


def test_a_link_to_a_place_that_nothing_has_is_seen(tmp_path: Path) -> None:
    lost = ONE.replace("#p-two-thm", "#p-two-lemma")
    pdf = print_book(tmp_path, book(lost, TWO))
    assert faults(pdf, text=book(lost, TWO)) == [
        "p-one: the link “Theorem 2.1” leads to p-two-lemma, which isn't there"
    ]


def test_fonts_that_another_machine_would_guess_are_seen(
    good: Path, tmp_path: Path
) -> None:
    writer = PdfWriter(clone_from=good)
    for page in writer.pages:
        for font in page["/Resources"]["/Font"].values():  # type: ignore[index]
            font.get_object().pop("/ToUnicode", None)
            for inner in font.get_object().get("/DescendantFonts", []):
                inner.get_object()["/FontDescriptor"].pop("/FontFile2", None)
    writer.write(tmp_path / "bare.pdf")
    found = list(proofread.font_faults(proofread.Paper(tmp_path / "bare.pdf")))
    assert any("isn't embedded" in fault for fault in found)
    assert any("doesn't say which letters" in fault for fault in found)


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Faults of a book in whose first chapter the printer failed at everything."""
    wrong = ONE.replace(
        "A text",
        "<p>See Theorem ??. <br>\\(x\\) <br>�<br><a href='lost.html'>lost</a></p>"
        "<p class='page'>Tofu: \U00013000\U0001b170\ue123</p><p>A text",
    )
    pdf = print_book(tmp_path_factory.mktemp("bad"), book(wrong, TWO, title="Other"))
    return faults(pdf)


@pytest.mark.parametrize(
    "said",
    [
        "page 2: '??' in",
        "page 2: '\\\\(' in",
        "page 2: '�' in",
        "page 2: a link to file:",
        "page 3: a character that no font has",
        "the file's title isn't “A small book”",
    ],
)
def test_what_a_printer_can_fail_at_is_seen(bad: list[str], said: str) -> None:
    assert any(fault.startswith(said) for fault in bad), bad


def test_the_form_of_the_file_is_seen(
    good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = PdfWriter(clone_from=good)
    writer.add_blank_page()
    writer.metadata = {}
    for key in ("/Lang", "/MarkInfo", "/Outlines"):
        writer.root_object.pop(NameObject(key), None)
    writer.write(tmp_path / "form.pdf")
    monkeypatch.setattr(proofread, "LARGEST", 1000)
    found = list(proofread.form_faults(proofread.Paper(tmp_path / "form.pdf"), TITLE))
    for said in ("title", "author", "English", "tagged", "bookmarks", "MB", "is blank"):
        assert any(said in fault for fault in found), said


def test_author_and_date_are_the_revisions_not_the_hours(
    good: Path, tmp_path: Path
) -> None:
    told = PdfReader(good).metadata
    assert told is not None
    assert told.author == "The authors of the book"
    assert "/Creator" not in told
    assert told["/CreationDate"] == told["/ModDate"]
    assert "000000" in str(told["/CreationDate"])
    later = tmp_path / "later.pdf"
    as_printed = good.with_name("draft.pdf").read_bytes()
    later.write_bytes(as_printed.replace(b"Date (D:20", b"Date (D:30"))
    now = tmp_path / "now.pdf"
    now.write_bytes(as_printed)
    for file in (later, now):
        printed.finish(file)
    assert later.read_bytes() == now.read_bytes()


def test_the_file_is_packed_and_has_all_that_it_had(good: Path) -> None:
    draft = good.with_name("draft.pdf")
    assert b"/ObjStm" not in draft.read_bytes()
    assert b"/ObjStm" in good.read_bytes()
    assert good.stat().st_size < 0.9 * draft.stat().st_size
    before, after = proofread.Paper(draft), proofread.Paper(good)
    assert before.places == after.places
    assert [entry["/Title"] for entry in before.reader.outline] == [
        entry["/Title"] for entry in after.reader.outline
    ]
    assert tags(before.reader) == tags(after.reader)


def tags(reader: PdfReader) -> Counter[str]:
    """How often what a screen reader goes by names each kind of thing: headings, links, figures."""
    found: Counter[str] = Counter()
    below = [reader.root_object["/StructTreeRoot"]]
    while below:
        tag = below.pop().get_object()
        if isinstance(tag, dict):
            found[str(tag.get("/S"))] += 1
            tag = tag.get("/K", [])
        below += tag if isinstance(tag, list) else []
    return found


def test_what_is_wider_than_the_page_is_an_error(tmp_path: Path) -> None:
    wide = ONE.replace(
        "<p>A text", "<table><tr><td>" + "wide" * 40 + "</table><p>A text"
    )
    with pytest.raises(
        printed.PrintError, match="wider than the page:\n  p-one: table"
    ):
        print_book(tmp_path, book(wide, TWO))
