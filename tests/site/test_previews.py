"""What a link leads to shows beside it: for a mouse and for the keyboard, on a page and from a file."""

import json
import re
from pathlib import Path

import pytest
from browser import THEMES, WIDTHS, new_context, visit
from checks import Watch, about, accessibility
from playwright.sync_api import Browser, Locator, Page

from book._ext import previews

CHAPTER = "book/notebooks/04-contraction.html"
GLOSSARY = "book/glossary.html"
TERM = "article a:has(> .std-term)"
PANEL = "#book-preview"


def stored(site: Path, page: str) -> dict[str, str]:
    """Return the previews of a page."""
    name = page.replace("/", "-")
    text = (site / "_static" / "previews" / f"{name}.js").read_text("utf-8")
    found: dict[str, str] = json.loads(text.partition("] = ")[2].rstrip(";\n"))
    return found


def test_every_link_into_a_page_has_a_preview(site: Path) -> None:
    without = []
    count = 0
    for path in sorted((site / "book").rglob("*.html")):
        page = path.relative_to(site).as_posix().removesuffix(".html")
        match = previews.ARTICLE.search(path.read_text("utf-8"))
        for target, place in sorted(previews.links(page, match[0])) if match else []:
            count += 1
            if place not in stored(site, target):
                without.append(f"{page}: {target}#{place}")
    print(f"{count} links with a preview")
    assert count > 1000
    assert without == []


def test_previews_are_short_and_hold_nothing_to_act_on(site: Path) -> None:
    for path in (site / "_static" / "previews").glob("*.js"):
        assert path.stat().st_size < 200_000, path.name
        for html in json.loads(
            path.read_text("utf-8").partition("] = ")[2].rstrip(";\n")
        ).values():
            assert not re.search(
                r"<(a|button|script|input|iframe)\b|\s(id|on\w+)=", html
            ), html


def shown(page: Page, link: Locator) -> Locator:
    """Move the mouse to a link and return the panel that opens."""
    link.scroll_into_view_if_needed()
    link.hover()
    panel = page.locator(PANEL)
    panel.wait_for(state="visible")
    return panel


LINKS = {
    "a term": (TERM, "", "."),
    "a statement": ("article a.reference.internal[href*='#thm-']", "Theorem", "."),
    "an equation": ("article a.reference.internal[href*='#equation-']", "", "("),
    "a name in a cell": ("pre a[href*='ictd_lib.td.']", "", "("),
    "a citation": (
        "article a.reference.internal[href*='bibliography.html#']",
        "",
        "20",
    ),
    "a figure": ("article a.reference.internal[href*='#fig-']", "Figure", "."),
}


def test_a_mouse_on_a_link_shows_what_it_leads_to(
    base: str, pages: dict[str, Page]
) -> None:
    page = pages["light"]
    with Watch(base).of(page) as watch:
        visit(page, f"{base}/{CHAPTER}")
        for kind, (selector, begins, holds) in LINKS.items():
            link = page.locator(selector).first
            if kind == "a figure" and not link.count():
                continue
            panel = shown(page, link)
            page.wait_for_timeout(300)
            text = panel.inner_text()
            assert text.startswith(begins) and holds in text, kind
            assert page.locator(f"{PANEL} .math:not(:has(mjx-container))").count() == 0
            box, line = panel.bounding_box(), link.bounding_box()
            assert box is not None and line is not None
            assert 0 <= box["x"] <= 1440 - box["width"], kind
            assert 0 < box["height"] < 400, kind
            above = box["y"] + box["height"] <= line["y"] + line["height"] / 2
            assert above or box["y"] >= line["y"] + line["height"] / 2, kind
            page.mouse.move(2, 2)
            panel.wait_for(state="hidden")
    assert watch.faults() == []


def test_the_panel_stays_under_the_mouse_and_goes_with_it(
    base: str, pages: dict[str, Page]
) -> None:
    page = pages["light"]
    visit(page, f"{base}/{GLOSSARY}")
    panel = shown(page, page.locator(TERM).first)
    panel.hover()
    page.wait_for_timeout(600)
    assert panel.is_visible()
    page.mouse.move(2, 2)
    panel.wait_for(state="hidden")


@pytest.mark.parametrize("height", [700, 420])
def test_a_figure_shows_whole_in_a_low_window(
    base: str, browser: Browser, height: int
) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": height})
    try:
        page = context.new_page()
        visit(page, f"{base}/book/preface.html")
        for name in ("fig-4-limit", "fig-5-seeds"):
            link = page.locator(f"article a.reference.internal[href$='#{name}']").first
            for share in (0.15, 0.5, 0.85):
                page.mouse.move(2, 2)
                link.evaluate(
                    "(link, y) => scrollTo(0, scrollY + link.getBoundingClientRect().top - y)",
                    share * height,
                )
                panel = shown(page, link)
                image = page.locator(f"{PANEL} img").bounding_box()
                box, line = panel.bounding_box(), link.bounding_box()
                assert box is not None and line is not None and image is not None
                where = f"{name} in a window of {height} px, at {line['y']:.0f}"
                assert box["y"] >= 0, where
                assert box["y"] + box["height"] <= height, where
                assert image["height"] > 60, where
                assert image["y"] + image["height"] <= box["y"] + box["height"], where
                above = box["y"] + box["height"] <= line["y"]
                assert above or box["y"] >= line["y"] + line["height"], where
                page.mouse.move(2, 2)
                panel.wait_for(state="hidden")
    finally:
        context.close()


def test_what_is_cut_off_fades(base: str, pages: dict[str, Page]) -> None:
    page = pages["light"]
    visit(page, f"{base}/{CHAPTER}")
    links = page.locator("article a.reference.internal[href*='#thm-']")
    seen = set()
    for k in range(links.count()):
        if not links.nth(k).is_visible() or len(seen) == 2:
            continue
        panel = shown(page, links.nth(k))
        page.wait_for_function(
            "() => document.querySelector('#book-preview').style.visibility === ''"
        )
        cut, fades = panel.evaluate(
            """(panel) => [panel.scrollHeight > panel.clientHeight + 1,
                getComputedStyle(panel, "::after").backgroundImage.startsWith("linear-gradient")]"""
        )
        assert cut == fades
        seen.add(cut)
        page.mouse.move(2, 2)
        panel.wait_for(state="hidden")
        page.set_viewport_size({"width": 600, "height": 300 if not cut else 900})
    page.set_viewport_size({"width": WIDTHS[-1], "height": 900})
    assert seen == {True, False}


def focused_by_keyboard(page: Page, link: Locator) -> Locator:
    """Give a link the focus as the keyboard does, and return the panel that opens."""
    page.mouse.move(2, 2)
    page.keyboard.press("Tab")
    link.focus()
    panel = page.locator(PANEL)
    panel.wait_for(state="visible")
    page.wait_for_function(
        "() => document.querySelector('#book-preview').style.visibility === ''"
    )
    return panel


def test_the_keyboard_opens_it_and_escape_closes_it(
    base: str, pages: dict[str, Page]
) -> None:
    page = pages["light"]
    visit(page, f"{base}/{GLOSSARY}")
    link = page.locator(TERM).first
    panel = focused_by_keyboard(page, link)
    assert link.get_attribute("aria-describedby") == "book-preview"
    assert panel.get_attribute("role") == "tooltip"
    assert panel.get_attribute("aria-hidden") is None
    page.keyboard.press("Escape")
    panel.wait_for(state="hidden")
    assert link.evaluate("(link) => document.activeElement === link")
    assert link.get_attribute("aria-describedby") is None
    page.wait_for_timeout(600)
    assert panel.is_hidden()
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    panel.wait_for(state="visible")
    page.keyboard.press("Tab")  # the focus goes on in the page, not into the panel
    assert page.evaluate("() => !document.activeElement.closest('#book-preview')")


def test_a_mouse_that_passes_leaves_what_the_keyboard_opened(
    base: str, pages: dict[str, Page]
) -> None:
    page = pages["light"]
    visit(page, f"{base}/{GLOSSARY}")
    panel = focused_by_keyboard(page, page.locator(TERM).first)
    page.locator("article a.reference.internal:visible").nth(3).hover()
    page.mouse.move(2, 2)
    page.wait_for_timeout(600)
    assert panel.is_visible()
    page.keyboard.press("Escape")
    panel.wait_for(state="hidden")


def test_a_statement_is_not_read_out_at_each_link(
    base: str, pages: dict[str, Page]
) -> None:
    page = pages["light"]
    visit(page, f"{base}/{CHAPTER}")
    link = page.locator("article a.reference.internal[href*='#thm-']").first
    panel = focused_by_keyboard(page, link)
    assert panel.inner_text().startswith("Theorem")
    page.locator(f"{PANEL}[aria-hidden=true]").wait_for(state="visible")
    assert link.get_attribute("aria-describedby") is None


def test_a_finger_follows_the_link_and_opens_nothing(
    base: str, browser: Browser
) -> None:
    context = browser.new_context(
        viewport={"width": WIDTHS[0], "height": 800}, has_touch=True, is_mobile=True
    )
    try:
        page = context.new_page()
        visit(page, f"{base}/{GLOSSARY}")
        page.locator(TERM).first.tap()
        page.wait_for_url("**/book/glossary.html#term-*")
        page.wait_for_timeout(600)
        assert page.locator(PANEL).count() == 0
    finally:
        context.close()


def test_it_works_from_the_file_system(site: Path, pages: dict[str, Page]) -> None:
    page = pages["light"]
    visit(page, f"{site.as_uri()}/{GLOSSARY}")
    panel = shown(page, page.locator(TERM).first)
    assert panel.inner_text()
    assert page.locator(f"{PANEL} .preview-title").count() == 1


@pytest.mark.parametrize("theme", THEMES)
def test_an_open_panel_has_no_fault(base: str, browser: Browser, theme: str) -> None:
    context = new_context(browser, theme)
    faults: list[str] = []
    try:
        page = context.new_page()
        with Watch(base).of(page) as watch:
            for name, selector in (
                (GLOSSARY, TERM),
                (
                    "book/library/td.html",
                    "dl.py a.reference.internal[href*='#ictd_lib']",
                ),
            ):
                visit(page, f"{base}/{name}")
                # By the keyboard: axe changes formulas, and a link moves away from under a mouse.
                focused_by_keyboard(page, page.locator(selector).first)
                faults += about(accessibility(page), theme=theme, name=name)
                assert page.locator(PANEL).is_visible()
            faults += watch.faults()
    finally:
        context.close()
    assert not faults, "\n".join(faults)
