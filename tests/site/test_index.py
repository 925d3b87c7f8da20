"""The index leads into the chapters, not to the glossary alone."""

from pathlib import Path

import pytest
from bs4 import BeautifulSoup

from book._ext.indexed import introduced, name_of, plain

GLOSSARY = {plain(term): term for term in ("TD error", "Boyan chain", "kernel")}


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("TD error", "TD error"),
        ("TD errors", "TD error"),
        ("random Boyan chain", "Boyan chain"),
        ("kernel", "kernel"),
        ("kernel diagonality", None),
        ("every", None),
    ],
)
def test_a_term_in_italics_is_known(text: str, term: str | None) -> None:
    assert introduced(text, GLOSSARY) == term


@pytest.mark.parametrize(
    ("title", "name"),
    [
        (" (Prompt)", "Prompt"),
        ("([ours] The leak)", "The leak"),
        ("(TD error and TD(0))", "TD error and TD(0)"),
        ("TD(0)", "TD(0)"),
        ("", ""),
    ],
)
def test_a_box_is_indexed_by_its_name(title: str, name: str) -> None:
    assert name_of(title) == name


def addresses(site: Path) -> dict[str, list[str]]:
    """Return where each entry of the index leads, an entry below another under both names."""
    soup = BeautifulSoup((site / "genindex.html").read_text("utf-8"), "html.parser")
    found: dict[str, list[str]] = {}
    for item in soup.select(".indextable > tr > td > ul > li"):
        name = next(item.stripped_strings)
        for link in item.find_all("a", recursive=False):
            found.setdefault(name, []).append(str(link["href"]))
        for link in item.select("ul a"):
            found.setdefault(f"{name}, {link.get_text()}", []).append(str(link["href"]))
    return found


def test_terms_and_theorems_lead_into_chapters(site: Path) -> None:
    index = addresses(site)
    radius = "book/notebooks/06-beyond.html#thm-6-radius"
    assert index["numerical radius"] == ["book/glossary.html#term-numerical-radius"]
    assert index["numerical radius, chapter 6"] == [radius]
    assert index["Bellman equation, chapter 0"][0].endswith("#thm-bellman")  # its title
    assert index["theorem, Numerical radius"] == [radius]
    start = "book/notebooks/00-policy-evaluation.html#"
    assert index["context, chapter 0"] == [f"{start}def-context"]  # the box, not before
    assert index["certainty equivalence, chapter 0"][0].startswith(start)


def test_every_theorem_with_a_name_is_there(site: Path) -> None:
    leads_to = {link for links in addresses(site).values() for link in links}
    boxes = 0
    for path in (site / "book" / "notebooks").glob("*.html"):
        soup = BeautifulSoup(path.read_text("utf-8"), "html.parser")
        for box in soup.select("div.proof[id]"):
            if box.select_one(".admonition-title > .caption-number"):
                boxes += 1
                assert f"book/notebooks/{path.name}#{box['id']}" in leads_to
    assert boxes > 50
