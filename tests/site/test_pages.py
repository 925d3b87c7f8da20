"""Every page, at every width, in both themes: what a reader must never meet."""

import gzip
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from browser import SITE, THEMES, WIDTHS, page_names, resize, visit
from checks import Watch, about, accessibility, look, theme_fault, unfold
from playwright.sync_api import Browser, Page

NAMES = page_names(SITE) if SITE.is_dir() else ["index.html"]

# Bytes over the wire, gzip. At 1.6 Mbit/s ("fast 3G") the second takes a second and a half.
FIRST_LOAD = 2_500_000
BEFORE_THE_FIRST_TEXT = 300_000
LONG = 75_000  # bytes of a page
AT_ONCE = 3  # of the six files that a browser asks of a server at once


def weight(site: Path, urls: list[str]) -> int:
    """Return how many bytes a reader's browser fetches for these addresses."""
    paths = {unquote(urlsplit(url).path).lstrip("/") for url in urls}
    return sum(
        len(gzip.compress((site / path).read_bytes(), mtime=0))
        for path in paths
        if (site / path).is_file()
    )


def audited(page: Path, theme: str) -> tuple[int, ...]:
    """Widths at which axe goes through a page: minutes for a long one, whose frame short pages have too."""
    if page.stat().st_size < LONG:
        return WIDTHS
    return WIDTHS[:1] if theme == "dark" else WIDTHS[-1:]


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("name", NAMES)
def test_page_has_no_fault(
    site: Path, base: str, pages: dict[str, Page], name: str, theme: str
) -> None:
    page = pages[theme]
    resize(page, WIDTHS[-1])
    with Watch(base).of(page) as watch:
        visit(page, f"{base}/{name}")
        faults = about(theme_fault(page, theme), theme=theme)
        unfold(page)
        for width in WIDTHS:
            resize(page, width)
            faults += about(look(page), theme=theme, width=width)
        for width in audited(
            site / name, theme
        ):  # after all looks: it spoils the formulas
            resize(page, width)
            faults += about(accessibility(page), theme=theme, width=width)
        faults += watch.faults()
    if (total := weight(site, watch.requested)) > FIRST_LOAD:
        faults.append(f"first load of {total} bytes, more than {FIRST_LOAD}")
    assert not faults, "\n".join([name, *faults])


@pytest.mark.parametrize("name", [name for name in NAMES if "notebooks/" in name])
def test_little_stands_before_the_first_text(
    site: Path, base: str, pages: dict[str, Page], name: str
) -> None:
    page = pages["light"]
    visit(page, f"{base}/{name}")
    blocking: list[str] = page.evaluate(
        """() => [location.href,
            ...[...document.querySelectorAll("link[rel=stylesheet]")].map((link) => link.href),
            ...[...document.querySelectorAll("head script[src]:not([defer], [async])")].map((script) => script.src)]"""
    )
    assert weight(site, blocking) <= BEFORE_THE_FIRST_TEXT
    # Each further one may have to wait its turn, half a second on a slow connection.
    assert len(blocking) <= 1 + AT_ONCE


def test_menus_open_on_a_phone_and_have_no_fault(
    base: str, pages: dict[str, Page]
) -> None:
    faults = []
    for theme in THEMES:
        page = pages[theme]
        resize(page, WIDTHS[0])
        for menu in ("primary", "secondary"):
            visit(page, f"{base}/book/notation.html")
            page.locator(f".{menu}-toggle").first.click()
            page.locator(f"#pst-{menu}-sidebar-modal[open]").wait_for()
            faults += about(look(page) + accessibility(page), theme=theme, menu=menu)
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    "name", ["status", "errata", "changelog", "glossary", "genindex"]
)
def test_two_taps_on_a_phone_lead_there(
    base: str, pages: dict[str, Page], name: str
) -> None:
    page = pages["light"]
    resize(page, WIDTHS[0])
    visit(page, f"{base}/book/notebooks/03-tsm.html")
    page.locator(".primary-toggle").first.click()
    page.locator(f"#pst-primary-sidebar-modal a[href$='/{name}.html']").click()
    page.wait_for_url(f"**/{name}.html")
    assert page.locator("article h1").is_visible()


def test_a_menu_on_a_phone_closes_when_it_has_led_to_a_place(
    base: str, pages: dict[str, Page]
) -> None:
    page = pages["light"]
    resize(page, WIDTHS[0])
    visit(page, f"{base}/book/notation.html")
    page.locator(".secondary-toggle").first.click()
    menu = page.locator("#pst-secondary-sidebar-modal[open]")
    link = menu.locator("a[href^='#']").last
    place = str(link.get_attribute("href"))
    link.click()
    menu.wait_for(state="detached")
    page.wait_for_function(
        """(place) => {
            const top = document.querySelector(place).getBoundingClientRect().top;
            return top > 0 && top < innerHeight;
        }""",
        arg=place,
    )


@pytest.mark.parametrize("width", [WIDTHS[0], 975, WIDTHS[-1]])
def test_page_without_javascript(base: str, browser: Browser, width: int) -> None:
    context = browser.new_context(
        viewport={"width": width, "height": 900}, java_script_enabled=False
    )
    try:
        page = context.new_page()
        page.goto(f"{base}/book/notebooks/01-weighted-td.html")
        dead = page.locator("button:visible").all_inner_texts()
        assert dead == [], "buttons that do nothing"
        # By selector: Playwright looks for no text in a noscript element.
        note = page.locator(".book-noscript")
        assert "formulas stand as their TeX source" in note.inner_text()
        if note.locator("summary").is_visible():  # else the sidebar is
            note.locator("summary").click()
        for name in ("00-policy-evaluation", "glossary"):
            links = page.locator(f'nav a[href$="{name}.html"]:visible')
            assert links.count() == 1, name
        links.click()
        assert page.url == f"{base}/book/glossary.html"
    finally:
        context.close()


def test_reader_can_choose_the_theme(base: str, pages: dict[str, Page]) -> None:
    page = pages["light"]
    resize(page, WIDTHS[-1])
    visit(page, f"{base}/{NAMES[0]}")
    modes = set()
    for _ in range(3):
        page.locator(".theme-switch-button").first.click()
        modes.add(page.evaluate("() => document.documentElement.dataset.mode"))
    page.evaluate("() => localStorage.clear()")
    assert modes == {"light", "dark", "auto"}
