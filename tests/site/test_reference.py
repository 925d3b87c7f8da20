"""The reference of the library on the site: all of it is there, and cells lead to it."""

import ast
import json
import re
from pathlib import Path

import pytest
from browser import ROOT, SITE, visit
from bs4 import BeautifulSoup, Tag
from playwright.sync_api import Browser, Page

from book._ext import library

CHAPTERS = sorted((ROOT / "book" / "notebooks").glob("*.ipynb"))
FOLDER = SITE / "book" / "library"


def soup_of(path: Path) -> BeautifulSoup:
    return BeautifulSoup(path.read_text("utf-8"), "html.parser")


def cells(chapter: Path) -> list[str]:
    """Return the code cells of a chapter."""
    notebook = json.loads(chapter.read_text("utf-8"))
    return ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]


def imported(chapter: Path) -> set[str]:
    """Return the names that a chapter imports from the library."""
    tree = ast.parse("\n".join(cells(chapter)))
    return {
        each.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith("ictd_lib")
        for each in node.names
    }


def called(chapter: Path) -> set[str]:
    """Return the names that a chapter calls."""
    tree = ast.parse("\n".join(cells(chapter)))
    calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return {each.id for each in calls if isinstance(each, ast.Name)}


def test_every_public_name_has_its_entry(site: Path) -> None:
    entries = {
        str(tag["id"])
        for path in (site / "book" / "library").glob("*.html")
        for tag in soup_of(path).select("dt.sig[id]")
    }
    names = {
        f"{module}.{name.name}"
        for module in library.modules("ictd_lib")
        for name in library.public_names(module)
        if name.documented
    }
    assert len(names) > 300
    assert names - entries == set()


def test_the_pages_say_nothing_of_this_machine_or_run(site: Path) -> None:
    for path in (site / "book" / "library").glob("*.html"):
        text = soup_of(path).get_text()
        assert " at 0x" not in text, path.name
        assert str(ROOT) not in text, path.name


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_names_in_cells_lead_to_their_entries(site: Path, chapter: Path) -> None:
    soup = soup_of(site / "book" / "notebooks" / f"{chapter.stem}.html")
    links = soup.select(".cell_input a.sphinx-codeautolink-a")
    linked = {link.get_text() for link in links}
    names = imported(chapter)
    print(f"{chapter.stem}: {len(names)} names, {len(links)} links")
    assert len(names) >= 6
    assert names - linked == set()
    # Where it is used in a line of its own, too, not only where it is imported.
    for name in called(chapter) & names:
        assert any(
            link.get_text() == name
            and str(link.next_sibling).startswith('<span class="p">(')
            for link in links
        ), f"{name} leads nowhere where it is called"
    for link in links:
        place = str(link["href"]).rpartition("#")[2].removeprefix("module-")
        assert place.startswith("ictd_lib"), "a link of a name that isn't the library's"
        assert link.get_text().split(".")[-1] == place.split(".")[-1]
    shown = {box.get_text().strip() for box in soup.select(".cell_input pre")}
    assert shown == {cell.strip() for cell in cells(chapter)}


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda path: path.stem)
def test_entries_lead_back_to_the_chapters_that_use_them(
    site: Path, chapter: Path
) -> None:
    leads_back = {
        entry_of(told)
        for path in (site / "book" / "library").glob("*.html")
        for told in soup_of(path).select(".book-uses")
        if told.select(f"a[href*='notebooks/{chapter.stem}.html#']")
    }
    names = called(chapter) & imported(chapter)
    assert len(names) >= 4
    assert names - {name.rpartition(".")[2] for name in leads_back} == set()


def entry_of(told: Tag) -> str:
    """Return the name of the entry that a part of it stands in."""
    entry = told.find_parent("dl", class_="py")
    assert isinstance(entry, Tag)
    assert isinstance(entry.dt, Tag)
    return str(entry.dt["id"])


def test_an_entry_leads_back_to_symbol_and_statement(site: Path) -> None:
    (told,) = (
        told
        for told in soup_of(site / "book" / "library" / "td.html").select(".book-uses")
        if entry_of(told) == "ictd_lib.td.weighted_softmax_td"
    )
    assert told.select_one(".math") is not None
    links = {link.get_text(): str(link["href"]) for link in told.select("a")}
    assert links["notation"] == "../notation.html#the-algorithm"
    assert links["Definition 1.1"] == "../notebooks/01-weighted-td.html#def-wstd"


def test_every_symbol_of_the_notation_stands_at_an_entry(site: Path) -> None:
    entries = {
        entry_of(told)
        for path in (site / "book" / "library").glob("*.html")
        for told in soup_of(path).select(".book-uses:has(.math)")
    }
    rows = soup_of(site / "book" / "notation.html").select("table tbody tr")
    assert len(rows) > 80
    for row in rows:
        symbol, _, code = row.select("td")
        links = [str(link["href"]) for link in code.select("a")]
        sign = symbol.select_one(".math")
        if links and sign and symbol.get_text().strip().startswith(sign.get_text()):
            assert links[0].rpartition("#")[2] in entries, row.get_text()


def test_functions_and_classes_lead_to_their_source(site: Path) -> None:
    count = 0
    for path in (site / "book" / "library").glob("*.html"):
        for entry in soup_of(path).select("dl.py.function > dt, dl.py.class > dt"):
            link = entry.select_one("a:has(> .viewcode-link)")
            assert link is not None, entry["id"]
            listing, _, anchor = str(link["href"]).partition("#")
            module = str(entry["id"]).removesuffix(f".{anchor}")
            assert listing == f"../../_modules/{module.replace('.', '/')}.html"
            count += 1
    assert count > 200


def test_a_reader_goes_to_the_source_and_back(
    base: str, pages: dict[str, Page]
) -> None:
    page = pages["light"]
    entry = f"{base}/book/library/td.html#ictd_lib.td.weighted_softmax_td"
    visit(page, entry)
    page.locator("[id='ictd_lib.td.weighted_softmax_td'] .viewcode-link").click()
    page.wait_for_url("**/_modules/ictd_lib/td.html#weighted_softmax_td")
    listing = page.locator("[id='weighted_softmax_td']")
    assert "def weighted_softmax_td(" in listing.inner_text()
    place = listing.bounding_box()
    assert place is not None and 0 <= place["y"] < 300
    listing.locator(".viewcode-back").click()
    page.wait_for_url(entry)


def test_classes_that_say_what_an_argument_is_lead_to_their_entries(site: Path) -> None:
    classes = library.classes("ictd_lib")
    linked = 0
    for path in (site / "book" / "library").glob("*.html"):
        for kind in soup_of(path).select("dl.py dl:not(.py) > dt"):
            told = kind.select_one(".classifier") or kind
            words = set(re.findall(r"[\w.]+", told.get_text())) & classes
            links = {link.get_text(): link["href"] for link in told.select("a")}
            assert words <= set(links), f"{path.name}: {kind.get_text()}"
            for word in words:
                assert str(links[word]).endswith(f".{word}")
            linked += len(words)
    assert linked > 80


def test_a_reader_clicks_a_name_in_a_cell(base: str, pages: dict[str, Page]) -> None:
    page = pages["light"]
    visit(page, f"{base}/book/notebooks/01-weighted-td.html")
    link = page.locator("pre a", has_text="weighted_softmax_td").first
    link.focus()
    assert link.evaluate("(link) => document.activeElement === link")
    link.press("Enter")
    page.wait_for_url("**/book/library/td.html#ictd_lib.td.weighted_softmax_td")
    entry = page.locator("[id='ictd_lib.td.weighted_softmax_td']")
    assert entry.inner_text().startswith(
        "weighted_softmax_td(context, scores, discount, "
    )
    place = entry.bounding_box()
    assert place is not None and 0 <= place["y"] < 300
    assert page.locator(
        "[id='ictd_lib.td.weighted_softmax_td'] + dd mjx-container"
    ).count()


def test_what_is_copied_from_a_cell_is_its_code(base: str, browser: Browser) -> None:
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    try:
        page = context.new_page()
        visit(page, f"{base}/book/notebooks/01-weighted-td.html")
        box = page.locator(".cell_input:has(a.sphinx-codeautolink-a)").first
        box.hover()
        box.locator("button.copybtn").click()
        page.wait_for_function("() => document.querySelector('.copybtn.success')")
        copied = page.evaluate("() => navigator.clipboard.readText()")
        assert copied.strip() in {cell.strip() for cell in cells(CHAPTERS[1])}
        assert "import" in copied
    finally:
        context.close()


def test_the_notation_page_leads_to_entries(site: Path) -> None:
    soup = soup_of(site / "book" / "notation.html")
    rows = soup.select("table tbody tr td:last-child")
    names = [code for row in rows for code in row.select("code")]
    linked = [code for code in names if code.parent and code.parent.name == "a"]
    assert len(linked) > 0.95 * len(names)


@pytest.mark.parametrize("name", ["weighted_softmax_td", "spectral_radius"])
def test_search_finds_an_entry(base: str, pages: dict[str, Page], name: str) -> None:
    page = pages["light"]
    visit(page, f"{base}/search.html?q={name}")
    page.locator("#search-results [role=status]").wait_for()
    links = page.locator("#search-results li > a").evaluate_all(
        "(links) => links.map((link) => link.href)"
    )
    assert any("/book/library/" in link for link in links[:3]), links
