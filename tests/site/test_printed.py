"""The book on paper: a few of its pages, printed as all of them are."""

import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import chromium
from pypdf import PdfReader, PdfWriter

from book.tools import printed

PAGES = ["book/preface", "book/notebooks/00-policy-evaluation", "book/glossary"]


@pytest.fixture(scope="module")
def pdf(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    if chromium() is None:
        pytest.skip("NO BROWSER TEST RAN: there is no Chromium")
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("print")
        patch.setattr(printed, "PRINT", folder)
        patch.setattr(printed, "PDF", folder / "book.pdf")
        yield printed.build(PAGES)


@pytest.fixture(scope="module")
def texts(pdf: Path) -> list[str]:
    # Fonts join letters: "Deﬁnition" is "Definition".
    return [
        unicodedata.normalize("NFKC", page.extract_text())
        for page in PdfReader(pdf).pages
    ]


def test_theorems_figures_and_exercises_have_the_sites_numbers(
    texts: list[str],
) -> None:
    text = " ".join(" ".join(texts).split())
    labels = printed.numbered(PAGES)
    kinds = {label.partition(" ")[0] for label in labels}
    assert {"Definition", "Proposition", "Figure", "Exercise"} <= kinds
    assert [label for label in labels if label not in text] == []


def test_every_link_within_the_book_leads_somewhere(pdf: Path) -> None:
    links = [
        note.get_object()
        for page in PdfReader(pdf).pages
        for note in page.get("/Annots") or []
    ]
    assert len(links) > 50
    assert list(printed.broken_links(pdf)) == []


def test_a_link_that_leads_nowhere_is_seen(pdf: Path, tmp_path: Path) -> None:
    writer = PdfWriter(clone_from=pdf)
    for where in ("/Dests", "/Names"):  # the list of named places, wherever it is kept
        writer.root_object.pop(where, None)
    writer.write(tmp_path / "broken.pdf")
    assert list(printed.broken_links(tmp_path / "broken.pdf"))


def test_contents_give_the_pages_that_things_are_on(
    pdf: Path, texts: list[str]
) -> None:
    contents = "\n".join(texts[1:3])
    for title in ("0. Policy evaluation and TD", "Glossary"):
        line = re.search(rf"^{re.escape(title)}\W*(\d+)\s*$", contents, re.MULTILINE)
        assert line, contents
        assert title in texts[int(line[1]) - 1]
    assert printed.page_numbers(pdf)[printed.anchor("book/glossary", "glossary")] > 10


def test_nothing_is_left_of_what_only_a_screen_can_show(texts: list[str]) -> None:
    text = "\n".join(texts)
    assert "??" not in text
    assert "�" not in text
    assert "\\[" not in text and "\\(" not in text  # formulas were set
    assert "#" not in {line.strip() for line in text.splitlines()}


def test_links_lead_within_the_whole_book() -> None:
    known = {"book/a", "book/notebooks/b"}
    assert printed.target("book/notebooks/b", "#x", known) == "#p-book-notebooks-b-x"
    assert (
        printed.target("book/notebooks/b", "../a.html#x%20y", known) == "#p-book-a-x-y"
    )
    assert printed.target("book/a", "notebooks/b.html", known) == "#p-book-notebooks-b"
    assert printed.target("book/a", "../genindex.html", known) == ""
    assert (
        printed.target("book/a", "https://example.org/x", known)
        == "https://example.org/x"
    )
