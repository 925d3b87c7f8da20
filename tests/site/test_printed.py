"""The book on paper: a few of its pages, printed as all of them are, and read as all of them are."""

import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import chromium
from bs4 import BeautifulSoup, Tag
from playwright.sync_api import sync_playwright
from pypdf import PdfReader

from book.tools import printed, proofread

CHAPTER = "book/notebooks/00-policy-evaluation"
PAGES = ["book/preface", CHAPTER, "book/glossary"]


@pytest.fixture(scope="module")
def pdf(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    if chromium() is None:
        pytest.skip("NO BROWSER TEST RAN: there is no Chromium")
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("print")
        patch.setattr(printed, "PRINT", folder)
        patch.setattr(printed, "PDF", folder / "book.pdf")
        patch.setenv("BOOK_SITE", "https://book.example/")
        yield printed.build(PAGES)  # which fails where proofreading finds a fault


@pytest.fixture(scope="module")
def texts(pdf: Path) -> list[str]:
    # Fonts join letters: "Deﬁnition" is "Definition".
    return [
        unicodedata.normalize("NFKC", page.extract_text())
        for page in PdfReader(pdf).pages
    ]


@pytest.fixture(scope="module")
def text(texts: list[str]) -> str:
    return " ".join(" ".join(texts).split())


def test_there_is_much_to_read(pdf: Path, text: str) -> None:
    labels = {kind for kind, _ in proofread.NUMBERED.findall(text)}
    assert {"Definition", "Proposition", "Figure", "Exercise"} <= labels
    assert len(list(proofread.Paper(pdf).links())) > 50


def test_title_page_says_where_to_come_back_to(texts: list[str]) -> None:
    title = " ".join(texts[0].split())
    assert title.startswith("Attention as Temporal-")
    assert "How a softmax Transformer learns from its context" in title
    assert "Version " in title
    assert "book.example" in title
    assert "CC BY 4.0" in title
    assert texts[2].startswith("Preface\n3\nPreface\n")


def test_a_figure_that_moves_says_where(text: str) -> None:
    assert "The figure moves on the book's site" in text
    assert f"book.example/{CHAPTER}.html" in proofread.tight(text)


def test_solutions_stand_behind_the_exercises(site: Path, texts: list[str]) -> None:
    chapter = printed.article(CHAPTER, set(PAGES))
    order = [
        "solution" if "solution" in box["class"] else "exercise"
        for box in chapter.select("div.exercise, div.solution")
    ]
    assert order == sorted(order)
    assert order.count("solution") == order.count("exercise") == 5
    page = next(n for n, page in enumerate(texts, 1) if "\nSolutions\n" in page)
    assert f"Solutions begin on page {page}." in " ".join(" ".join(texts).split())


def test_nothing_is_left_of_what_only_a_screen_can_show(texts: list[str]) -> None:
    lines = {line.strip() for text in texts for line in text.splitlines()}
    assert not {"#", "Show", "Hide", "Copy", "000"} & lines


def test_no_formula_is_torn_from_its_sentence(pdf: Path) -> None:
    """A flexible box that may be torn begins, empty, below the sentence, and its formula stands overleaf."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium(), args=["--no-sandbox"]
        )
        page = browser.new_page()
        page.emulate_media(media="print")
        page.goto(pdf.with_name("book.html").as_uri())
        rules = page.eval_on_selector_all(
            "article div.math",
            "all => all.map(each => [getComputedStyle(each).breakBefore, getComputedStyle(each).breakInside])",
        )
        browser.close()
    assert len(rules) > 5
    assert all(rule == ["avoid", "avoid"] for rule in rules)


def test_the_whole_book_is_what_the_contents_list() -> None:
    names = [entry.name for entry in printed.entries()]
    assert set(PAGES) <= set(names)
    assert names[0] == "book/preface"
    assert "genindex" not in names
    chapters = [entry for entry in printed.entries() if entry.part == "Chapters"]
    assert len(chapters) >= 7


def tag(text: str) -> Tag:
    found = BeautifulSoup(text, "html.parser").find()
    assert isinstance(found, Tag)
    return found


def test_index_gives_pages_of_what_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def listed(*items: str) -> Tag | None:
        table = "<table class='genindextable'><tr><td><ul>{}</ul></td></tr></table>"
        (tmp_path / "genindex.html").write_text(table.format("".join(items)), "utf-8")
        return printed.index({"a", "glossary"})

    monkeypatch.setattr(printed, "SITE", tmp_path)
    monkeypatch.delenv("BOOK_SITE", raising=False)
    term = "<li><a href='glossary.html#t'>term</a>{}</li>"
    assert listed(term.format("")) is None  # the glossary says as much
    found = listed(
        term.format("<ul><li><a href='a.html#x'>chapter 1</a></li></ul>"),
        "<li>theorem<ul><li><a href='a.html#y'>Of y</a></li>"
        "<li><a href='left-out.html#z'>Of z</a></li></ul></li>",
        "<li><a href='left-out.html#f'>f</a></li>",
    )
    assert found is not None
    assert [proofread.words(item) for item in found.select("li")] == [
        "term,",
        "theoremOf y,",
        "Of y,",
    ]
    places = [str(link["data-place"]) for link in found.select("a")]
    assert places == ["p-a-x", "p-glossary-t", "p-a-y"]


def test_ids_stand_where_their_box_is_read() -> None:
    text = tag(
        "<div><section id='a'><span id='b'></span><h2>A</h2><div class='admonition' id='c'>"
        "<p class='admonition-title'>C</p></div></section></div>"
    )
    printed.name_places(text)
    names = {str(found["id"]): found.name for found in text.select("[id]")}
    assert names == {"a": "h2", "b": "span", "c": "p"}
    assert text.select_one("h2 > span#b")


def test_links_lead_within_the_whole_book(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BOOK_SITE", raising=False)
    known = {"book/a", "book/notebooks/b"}
    assert printed.target("book/notebooks/b", "#x", known) == "#p-book-notebooks-b-x"
    assert (
        printed.target("book/notebooks/b", "../a.html#x%20y", known) == "#p-book-a-x-y"
    )
    assert printed.target("book/a", "notebooks/b.html", known) == "#p-book-notebooks-b"
    assert printed.target("book/a", "../genindex.html#I", known) == ""
    assert (
        printed.target("book/a", "https://example.org/x", known)
        == "https://example.org/x"
    )
    monkeypatch.setenv("BOOK_SITE", "https://book.example/")
    assert (
        printed.target("book/a", "../genindex.html#I", known)
        == "https://book.example/genindex.html#I"
    )
