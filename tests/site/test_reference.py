"""The reference of the library on the site: all of it is there, and cells lead to it."""

import ast
import json
from pathlib import Path

import pytest
from browser import ROOT, SITE, visit
from bs4 import BeautifulSoup
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
