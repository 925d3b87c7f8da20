"""The zip: the same bytes from the same site, one folder, and pages that need neither server nor network.

What is published is the site with its downloads beside it, linked there and nowhere else.
"""

import json
import os
import re
import shutil
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from browser import ROOT, QuietHandler, page_names, resize, served, visit
from checks import Watch
from figure_pages import no_sideways_scroll, picture, settle
from playwright.sync_api import Browser, Page
from test_links import link_faults, outside_faults, read

from book.tools import offline, public

PHONE = 360


@pytest.fixture(scope="module")
def archive(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("packed") / offline.ZIP.name
    offline.pack(site, target)
    return target


@pytest.fixture(scope="module")
def unpacked(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as a reader has it, with a space, a sign and a letter beyond ASCII in its path."""
    folder = tmp_path_factory.mktemp("Meine Bücher, 100%")
    with zipfile.ZipFile(archive) as opened:
        opened.extractall(folder)
    (top,) = folder.iterdir()
    return top


def small_site(folder: Path) -> Path:
    (folder / "b" / ".hidden").mkdir(parents=True)
    for name in ("index.html", "b/é.txt", "b/.hidden/x", ".buildinfo"):
        (folder / name).write_text(name, "utf-8")
    return folder


def test_the_same_files_give_the_same_bytes(tmp_path: Path) -> None:
    packed = []
    for number, day in enumerate((0, 2e9)):
        site = small_site(tmp_path / str(number))
        for path in site.rglob("*"):
            os.utime(path, (day, day))
            path.chmod(0o700 if number else 0o755)
        target = tmp_path / str(number) / "out" / "book.zip"
        target.parent.mkdir()
        offline.pack(site, target)
        packed.append(target.read_bytes())
    assert packed[0] == packed[1]


def test_it_holds_the_files_that_are_not_hidden(tmp_path: Path) -> None:
    target = tmp_path / "book.zip"
    assert offline.pack(small_site(tmp_path / "site"), target) == 2
    with zipfile.ZipFile(target) as opened:
        assert opened.testzip() is None
        assert opened.namelist() == ["book/b/é.txt", "book/index.html"]
        assert opened.read("book/b/é.txt").decode() == "b/é.txt"
        for entry in opened.infolist():
            assert stat.filemode(entry.external_attr >> 16) == "?rw-r--r--"
    assert {path.name for path in tmp_path.iterdir()} == {"book.zip", "site"}


def test_packing_the_site_twice_gives_the_same_bytes(
    site: Path, archive: Path, tmp_path: Path
) -> None:
    offline.pack(site, tmp_path / archive.name)
    assert (tmp_path / archive.name).read_bytes() == archive.read_bytes()


def test_one_folder_with_every_page_and_no_dead_link(
    site: Path, unpacked: Path
) -> None:
    assert unpacked.name == "attention-as-td"
    there = {path.relative_to(site) for path in site.rglob("*.html")}
    assert there == {path.relative_to(unpacked) for path in unpacked.rglob("*.html")}
    assert link_faults(unpacked) == []
    assert outside_faults(unpacked) == []


def test_no_script_or_style_comes_along_that_nothing_asks_for(unpacked: Path) -> None:
    asks = {
        path: path.read_text("utf-8")
        for path in unpacked.rglob("*")
        if path.suffix in {".html", ".js"} and "vendor" not in path.parts
    }
    static = unpacked / "_static"
    brought = [
        path
        for pattern in ("*.*", "scripts/*.*", "styles/*.*")
        for path in static.glob(pattern)
        if path.suffix not in {".svg", ".png", ".txt"}
    ]
    assert len(brought) > 10
    for path in brought:
        assert [page for page in asks if page != path and path.name in asks[page]], path


@pytest.fixture
def page(pages: dict[str, Page]) -> Iterator[Page]:
    """A phone that may fail at nothing, and may read nothing but files."""
    page = pages["light"]
    resize(page, PHONE)
    with Watch("file://").of(page) as watch:
        yield page
        page.goto("about:blank")
    assert watch.faults() == []


def test_it_opens_at_the_preface(page: Page, unpacked: Path) -> None:
    page.goto((unpacked / "index.html").as_uri())
    page.wait_for_url("**/book/preface.html")
    assert "Attention as Temporal-Difference Learning" in page.title()


CHAPTERS = sorted(
    path.stem for path in (offline.SITE / "book" / "notebooks").glob("*.html")
)


@pytest.mark.parametrize("name", CHAPTERS)
def test_chapter_reads_and_its_figure_moves(
    page: Page, unpacked: Path, name: str
) -> None:
    visit(page, (unpacked / "book" / "notebooks" / f"{name}.html").as_uri())
    settle(page)
    assert page.locator("mjx-container").count() > 10
    assert page.locator("mjx-merror").count() == 0
    loaded: list[str] = page.evaluate(
        "() => [...document.fonts].filter((font) => font.status === 'loaded').map((font) => font.family)"
    )
    assert any("MJX" in family for family in loaded)
    assert page.evaluate(
        "() => [...document.images].every((image) => image.naturalWidth > 0)"
    )
    assert no_sideways_scroll(page)
    assert moves(page)


OTHERS = [name for name in page_names(offline.SITE) if Path(name).stem not in CHAPTERS]


@pytest.mark.parametrize("name", OTHERS)
def test_page_without_a_figure_reads(page: Page, unpacked: Path, name: str) -> None:
    visit(page, (unpacked / name).as_uri())
    settle(page)
    assert page.locator("mjx-merror").count() == 0
    assert page.locator("h1, #search-results").count() > 0
    assert no_sideways_scroll(page)


def test_a_theme_once_chosen_stays_on_the_next_page(page: Page, unpacked: Path) -> None:
    chapter = unpacked / "book" / "notebooks" / f"{CHAPTERS[0]}.html"
    page.goto(chapter.as_uri())
    button, root = page.locator(".theme-switch-button").first, page.locator("html")
    for _ in range(3):  # by the system, light, dark
        if root.get_attribute("data-mode") == "dark":
            break
        button.click()
    assert root.get_attribute("data-theme") == "dark"
    page.locator("a.right-next").click()
    page.wait_for_url(f"**/{CHAPTERS[1]}.html")
    assert root.get_attribute("data-theme") == "dark"
    page.evaluate("() => localStorage.clear()")


@pytest.mark.parametrize("name", CHAPTERS)
def test_a_chapters_notebook_is_there(unpacked: Path, name: str) -> None:
    folder = unpacked / "book" / "notebooks"
    (link,) = {
        address
        for address in read(folder / f"{name}.html").leads_to
        if address.endswith(".ipynb")
    }
    offered = json.loads((folder / link).read_text("utf-8"))
    assert offered == json.loads(
        (ROOT / "book" / "notebooks" / f"{name}.ipynb").read_text("utf-8")
    )


class AsGitHubPages(QuietHandler):
    """Says of a notebook that it is a kind of JSON, which browsers show."""

    extensions_map: ClassVar[dict[str, str]] = {
        **QuietHandler.extensions_map,
        ".ipynb": "application/x-ipynb+json",
    }


def test_a_notebook_is_saved_not_shown(browser: Browser, site: Path) -> None:
    name = CHAPTERS[0]
    with served(site, AsGitHubPages) as base:
        page = browser.new_page()
        page.goto(f"{base}/book/notebooks/{name}.html")
        page.locator(".dropdown-download-buttons > button").click()
        with page.expect_download(timeout=10_000) as download:
            page.locator(".dropdown-download-buttons a").first.click()
        page.close()
    assert download.value.suggested_filename == f"{name}.ipynb"


def moves(page: Page) -> bool:
    """Whether one of the controls changes the picture; in some settings not all of them do."""
    before = picture(page)
    assert "<svg" in before
    for slider in page.locator(".ictd-figure input[type=range]").all():
        for key in ("Home", "End"):
            slider.press(key)
            settle(page)
            if picture(page) != before:
                return True
    return False


def test_search_finds_a_page(page: Page, unpacked: Path) -> None:
    page.goto((unpacked / "search.html").as_uri() + "?q=Bellman")
    link = page.locator("#search-results li a").first
    link.wait_for()
    texts = page.locator("#search-results .context").all_inner_texts()
    assert any("Bellman" in text for text in texts)
    link.click()
    page.wait_for_url("**/book/**.html*")


def test_a_file_that_a_notebook_opens_is_offered_with_it(site: Path) -> None:
    """The preface says that a downloaded notebook runs, and what it needs besides."""
    opened = {
        name
        for notebook in (ROOT / "book" / "notebooks").glob("*.ipynb")
        for name in re.findall(r"\.\./data/([\w.-]+)", notebook.read_text("utf-8"))
    }
    assert opened
    offered = {
        Path(address).name: (site / "book" / address).read_bytes()
        for address in read(site / public.PREFACE).leads_to
        if "_downloads/" in address
    }
    for name in opened:
        assert offered[name] == (ROOT / "book" / "data" / name).read_bytes()


def test_what_is_published_links_its_downloads(site: Path, tmp_path: Path) -> None:
    files = []
    for file in public.DOWNLOADS:
        files.append(tmp_path / file.name)
        files[-1].write_bytes(b"x" * 1_234_567)
    target = tmp_path / "public"
    with pytest.MonkeyPatch.context() as patch:
        named = dict(zip(files, public.DOWNLOADS.values(), strict=True))
        patch.setattr(public, "DOWNLOADS", named)
        public.lay_out(site, files, target)
        public.lay_out(site, files, target)  # over an older one
    assert link_faults(target) == []
    leads_to = read(target / public.PREFACE).leads_to
    for file in files:
        assert f"../{file.name}" in leads_to
        assert (target / file.name).read_bytes() == file.read_bytes()
    assert "(1.2 MB;" in (target / public.PREFACE).read_text("utf-8")
    changed = {public.PREFACE, *(Path(file.name) for file in files)}
    for path in target.rglob("*"):
        name = path.relative_to(target)
        if path.is_file() and name not in changed:
            assert path.read_bytes() == (site / name).read_bytes()


def test_the_site_itself_offers_no_file_that_is_not_there(site: Path) -> None:
    text = (site / public.PREFACE).read_text("utf-8")
    assert public.PLACE in text
    assert ".zip" not in text


def test_a_preface_without_the_place_is_an_error(site: Path, tmp_path: Path) -> None:
    copy = tmp_path / "site"
    (copy / "book").mkdir(parents=True)
    shutil.copy(site / "search.html", copy / public.PREFACE)
    with pytest.raises(ValueError, match="place for downloads"):
        public.lay_out(copy, [], tmp_path / "public")
    assert not (tmp_path / "public").exists()


def test_published_preface_looks_whole(
    browser: Browser, site: Path, tmp_path: Path
) -> None:
    file = tmp_path / offline.ZIP.name
    file.write_bytes(b"x" * 5_000_000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            public, "DOWNLOADS", {file: ("The whole book as a zip", "offline")}
        )
        public.lay_out(site, [file], tmp_path / "public")
    page = browser.new_page()
    page.goto((tmp_path / "public" / public.PREFACE).as_uri())
    link = page.locator("#book-downloads a")
    assert link.is_visible()
    assert link.inner_text() == "The whole book as a zip"
