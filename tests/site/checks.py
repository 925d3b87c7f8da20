"""What must hold of a page, each check a function that returns the faults it found.

test_pages.py asks them of every page of the book, test_checks.py of small pages with
one planted fault each, so that a check that finds nothing is known to look.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.sync_api import ConsoleMessage, Error, Page, Request, Response

AXE = Path(__file__).parent / "vendor" / "axe-core" / "axe.min.js"
AXE_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]


@dataclass
class Watch:
    """What a page asks of the network and says on the console, from now on."""

    base: str
    requested: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, *exception: object) -> None:
        self.page.remove_listener("request", self.on_request)
        self.page.remove_listener("response", self.on_response)
        self.page.remove_listener("console", self.on_console)
        self.page.remove_listener("pageerror", self.on_error)

    def of(self, page: Page) -> "Watch":
        """Start to listen to a page."""
        self.page = page
        page.on("request", self.on_request)
        page.on("response", self.on_response)
        page.on("console", self.on_console)
        page.on("pageerror", self.on_error)
        return self

    def on_request(self, request: Request) -> None:
        self.requested.append(request.url)

    def on_response(self, response: Response) -> None:
        if response.status >= 400:
            self.missing.append(response.url)

    def on_console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.errors.append(message.text)

    def on_error(self, error: Error) -> None:
        self.errors.append(str(error))

    def faults(self) -> list[str]:
        """Return what the page should not have asked or said."""
        inside = (f"{self.base}/", "data:", "blob:")
        outside = [url for url in self.requested if not url.startswith(inside)]
        return (
            [f"asks another server: {url}" for url in outside]
            + [f"asks for what is not there: {url}" for url in self.missing]
            + [f"error on the console: {text}" for text in self.errors]
        )


def unfold(page: Page) -> None:
    """Open every folded box, so that what is in it is looked at too."""
    page.evaluate(
        """async () => {
            for (const box of document.querySelectorAll("article details")) box.open = true;
            for (const button of document.querySelectorAll("article .toggle-button-hidden")) button.click();
            await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
        }"""
    )


TEXT_FAULTS = r"""() => {
    const faults = [];
    for (const math of document.querySelectorAll(".math")) {
        if (!math.querySelector("mjx-container")) faults.push(`formula not set: ${math.textContent.slice(0, 80)}`);
    }
    // What a box has left of its beginning can't be scrolled to.
    for (const formula of document.querySelectorAll("div.math > mjx-container")) {
        const [inner, outer] = [formula, formula.parentElement].map((element) => element.getBoundingClientRect().left);
        if (inner < outer - 1) faults.push(`equation begins out of reach: ${formula.textContent.slice(0, 80)}`);
    }
    for (const error of document.querySelectorAll("mjx-merror, mjx-container [data-mjx-error]")) {
        const what = error.getAttribute("data-mjx-error") || error.textContent;
        faults.push(`MathJax cannot read a formula: ${what.slice(0, 80)}`);
    }
    const skipped = "pre, code, script, style, noscript, textarea, mjx-container";
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const text = walker.currentNode.textContent;
        if (/\$\$|\\[()[\]]|\\(begin|end|frac|mathbb|mathcal)\b|\{(prf:|ref|eq|cite|term|doc|numref)[^}]*\}`/.test(text)
            && !walker.currentNode.parentElement.closest(skipped)) faults.push(`raw TeX or markup: ${text.trim().slice(0, 80)}`);
    }
    // In the text of a page, what Markdown and TeX left behind: links, footnotes, references, tables, bold.
    // (A bar alone is no table: the index has them between its letters.)
    const article = document.querySelector("article") || document.querySelector("main");
    const prose = article && document.createTreeWalker(article, NodeFilter.SHOW_TEXT);
    while (prose?.nextNode()) {
        const { previousSibling, textContent: text } = prose.currentNode;
        const line = previousSibling ? `.${text}` : text; // what follows a formula begins no line
        if (/\]\[|\[\^|\\(eq)?ref\{|^[ \t]*\|.*\||\*\*/m.test(line)
            && !prose.currentNode.parentElement.closest(`${skipped}, math, .math, svg, dl.py dt`)) faults.push(`broken markup: ${text.trim().slice(0, 80)}`);
    }
    return faults;
}"""

PICTURE_FAULTS = r"""() => {
    const faults = [];
    const main = document.querySelector("main") || document.body;
    const seen = (element, what) => {
        const { width, height, left, right } = element.getBoundingClientRect();
        if (!element.checkVisibility({ opacityProperty: true, visibilityProperty: true }) || width < 32 || height < 32) {
            faults.push(`${what} not seen (${Math.round(width)} x ${Math.round(height)})`);
        } else if (left < 0 || right > innerWidth + 1) {
            faults.push(`${what} stands outside the window (${Math.round(left)} to ${Math.round(right)} of ${innerWidth})`);
        }
    };
    for (const image of main.querySelectorAll("img")) {
        const what = `picture ${image.src.slice(-40)}`;
        if (!image.complete || image.naturalWidth === 0) faults.push(`${what} not loaded`);
        const alt = (image.alt || "").trim();
        const file = image.src.startsWith("data:") ? null : image.src.split("/").pop();
        // Sphinx puts the file's name where an author wrote nothing.
        if (!alt || (file && decodeURI(alt).endsWith(decodeURI(file)))) faults.push(`${what} has no text in its place`);
        seen(image, what);
    }
    for (const figure of main.querySelectorAll("figure")) {
        seen(figure, `figure ${figure.id}`);
        let box = figure.parentElement;
        while (box !== document.body && getComputedStyle(box).overflowX === "visible") box = box.parentElement;
        const [inner, outer] = [figure, box].map((element) => element.getBoundingClientRect());
        if (inner.left < outer.left - 1 || inner.right > outer.right + 1) faults.push(`figure ${figure.id} is cut off by the box around it`);
    }
    return faults;
}"""

WIDTH_FAULTS = r"""() => {
    const page = document.documentElement;
    if (page.scrollWidth <= page.clientWidth) return [];
    const boxes = [...document.body.querySelectorAll("*")].filter((box) => getComputedStyle(box).overflowX !== "visible");
    const wide = [...document.body.querySelectorAll("*")].filter(
        (element) => element.getBoundingClientRect().right > page.clientWidth + 1 && element.checkVisibility()
            // what scrolls in a box of its own is not to blame
            && !boxes.some((box) => box !== element && box.contains(element) && box.getBoundingClientRect().right <= page.clientWidth + 1));
    const names = wide.slice(0, 3).map((element) => `${element.tagName.toLowerCase()}.${element.className}`);
    return [`scrolls sideways: ${page.scrollWidth} px wide in ${page.clientWidth}; see ${names.join(", ")}`];
}"""

# An icon of the theme is a class name and a letter of an icon font: without its rule, nothing.
ICON_FAULTS = r"""() => [...document.querySelectorAll("i[class*='fa-'], span[class*='fa-']")]
    .filter((icon) => icon.checkVisibility())
    .filter((icon) => ["none", "normal", ""].includes(getComputedStyle(icon, "::before").content))
    .map((icon) => `icon without a picture: ${icon.className}`)"""

AXE_FAULTS = """async (tags) => {
    const found = await axe.run(document, { runOnly: tags, resultTypes: ["violations"] });
    return found.violations.flatMap((rule) => rule.nodes.map((node) => {
        const why = node.failureSummary.split("\\n").slice(1, 2).join("").trim();
        return `${rule.id}: ${node.target.join(" ")}: ${why}`;
    }));
}"""


def look(page: Page) -> list[str]:
    """Return the faults that show at the page's present width."""
    faults: list[str] = []
    for script in (TEXT_FAULTS, PICTURE_FAULTS, WIDTH_FAULTS, ICON_FAULTS):
        faults += page.evaluate(script)
    return faults


# Half of a chapter's elements draw its formulas, which axe takes as long to visit as it
# does the rest. They are hidden from assistive technology (the MathML beside them is
# what it reads), so one letter of the same colour may stand for each.
SHORTEN_FORMULAS = """() => {
    for (const drawn of document.querySelectorAll("mjx-container > mjx-math")) drawn.replaceChildren("x");
}"""


def accessibility(page: Page) -> list[str]:
    """Return axe's violations of WCAG 2.1, levels A and AA, at the page's present width.

    Spoils the formulas: nothing else can be checked on this page afterwards.
    """
    if page.evaluate("() => typeof window.axe === 'undefined'"):
        page.evaluate(AXE.read_text("utf-8"))
    page.evaluate(SHORTEN_FORMULAS)
    faults: list[str] = page.evaluate(AXE_FAULTS, AXE_RULES)
    return faults


def theme_fault(page: Page, theme: str) -> list[str]:
    """Return a fault if the page is not shown in the theme that its reader prefers."""
    colour: str = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    channels = [float(part) for part in re.findall(r"[\d.]+", colour)[:3]]
    is_dark = sum(channels) < 3 * 128
    return (
        []
        if is_dark == (theme == "dark")
        else [f"not in the {theme} theme: its ground is {colour}"]
    )


def about(faults: list[str], **where: Any) -> list[str]:
    """Return the faults, each with where it was found."""
    place = ", ".join(f"{value}" for value in where.values())
    return [f"[{place}] {fault}" for fault in faults]
