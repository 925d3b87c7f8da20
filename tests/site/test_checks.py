"""The checks themselves: each finds the fault planted for it, and nothing on a sound page."""

from pathlib import Path

import pytest
from browser import served, visit
from checks import Watch, accessibility, look, theme_fault
from playwright.sync_api import Page

SOUND = """<!doctype html><html lang="en"><head><title>A page</title><link rel="icon" href="data:,">
<style>body { background: #fff; color: #222; margin: 0 } @media (prefers-color-scheme: dark) { body { background: #111; color: #eee } }</style>
</head><body><main><h1>A page</h1>PLANT</main></body></html>"""

PIXEL = (
    "data:image/svg+xml;utf8,<svg xmlns='http://www.w3.org/2000/svg' width='64' height='64'>"
    "<rect width='64' height='64' fill='green'/></svg>"
)

PLANTED = {
    "a script of another server": (
        "<script src='https://cdn.example.org/x.js'></script>",
        "another server",
    ),
    "a font of another server": (
        "<style>@font-face { font-family: F; src: url(https://fonts.example.org/f.woff2) } p { font-family: F }</style><p>x</p>",
        "another server",
    ),
    "a file that is not there": ("<script src='/gone.js'></script>", "not there"),
    "an error": ("<script>console.error('oh')</script>", "console: oh"),
    "an exception": ("<script>nothing()</script>", "console: "),
    "raw TeX": (r"<p>Let \(x\) be</p>", "raw TeX"),
    "raw display TeX": ("<p>$$x$$</p>", "raw TeX"),
    "a raw role": ("<p>see {prf:ref}`thm`</p>", "raw TeX"),
    "a formula that is not set": ("<span class='math'>x</span>", "not set"),
    "a formula that is wrong": (
        "<span class='math'><mjx-container><mjx-merror>no</mjx-merror></mjx-container></span>",
        "cannot read",
    ),
    "a picture without alt": (
        f'<img src="{PIXEL}" width="64" height="64">',
        "no text in its place",
    ),
    "a picture with an empty alt": (
        f'<img src="{PIXEL}" width="64" height="64" alt=" ">',
        "no text in its place",
    ),
    "a picture with its file for alt": (
        "<img src='_images/gone.svg' width='64' height='64' alt='../_images/gone.svg'>",
        "no text in its place",
    ),
    "an equation centred in a narrow box": (
        "<div class='math' tabindex='0' style='display: grid; justify-content: center; overflow: auto; width: 64px'>"
        "<mjx-container style='width: 128px'>x</mjx-container></div>",
        "out of reach",
    ),
    "half a link": ("<p>see [the text][here]</p>", "broken markup"),
    "half a footnote": ("<p>said[^one]</p>", "broken markup"),
    "a reference of TeX": (r"<p>by \ref{thm} it holds</p>", "broken markup"),
    "an equation of TeX": (r"<p>by \eqref{sum} it holds</p>", "broken markup"),
    "half a table": ("<p>A table\n| a | b |\n|---|---|</p>", "broken markup"),
    "half a bold word": ("<p>a **bold word</p>", "broken markup"),
    "a picture that does not load": (
        "<img src='data:image/png;base64,AAAA' alt='x' width='64' height='64'>",
        "not loaded",
    ),
    "a figure of no height": (
        "<figure id='f' style='height: 0; overflow: hidden'>x</figure>",
        "figure f not seen",
    ),
    "a figure wider than its box": (
        "<div style='overflow-x: auto'><figure id='f' style='height: 64px; margin: 0 -16px'>x</figure></div>",
        "figure f is cut off",
    ),
    "a figure out of sight": (
        "<figure id='f' style='opacity: 0; width: 64px; height: 64px'>x</figure>",
        "figure f not seen",
    ),
    "a wide box": ("<div style='width: 2000px'>x</div>", "sideways"),
    "an icon of no font": ("<i class='fa-solid fa-none'>x</i>", "icon"),
    "low contrast": (
        "<p style='color: #aaa; background: #fff'>text</p>",
        "color-contrast",
    ),
    "a button without a name": ("<button></button>", "button-name"),
    "a field without a label": ("<input type='text'>", "label"),
}


def faults_of(page: Page, folder: Path, plant: str) -> list[str]:
    (folder / "index.html").write_text(SOUND.replace("PLANT", plant), "utf-8")
    with served(folder) as base, Watch(base).of(page) as watch:
        visit(page, f"{base}/index.html")
        return [*look(page), *accessibility(page), *watch.faults()]


@pytest.mark.parametrize("plant", PLANTED)
def test_planted_fault_is_found(
    pages: dict[str, Page], tmp_path: Path, plant: str
) -> None:
    html, expected = PLANTED[plant]
    faults = faults_of(pages["light"], tmp_path, html)
    assert any(expected in fault for fault in faults), faults


def test_sound_page_has_no_fault(pages: dict[str, Page], tmp_path: Path) -> None:
    code = r"<pre>a ** b\n| x |</pre><p><code>x[0][1] ** 2</code> in [0, 1], or |x|</p>"
    html = f'{code}<p>text</p><figure><img src="{PIXEL}" width="64" height="64" alt="a square"></figure>'
    for theme, page in pages.items():
        assert faults_of(page, tmp_path, html) == []
        assert theme_fault(page, theme) == []


def test_wrong_theme_is_found(pages: dict[str, Page], tmp_path: Path) -> None:
    faults_of(pages["light"], tmp_path, "<p>text</p>")
    assert theme_fault(pages["light"], "dark")
