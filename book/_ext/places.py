"""Write down what search can find: every place of the book that has a name, and what it says.

Sphinx's own index knows words and pages. A reader looks for a theorem, a symbol, a formula, and wants to land
there, in a chapter that is an hour long. So places are read from the finished pages, where everything has the
number and the name that the reader sees: sections, theorems and definitions, numbered equations, exercises, figures,
terms of the glossary, rows of the tables of notation, functions, what the bibliography lists. search.js makes its
index of them in the browser.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bs4 import BeautifulSoup, Tag
from sphinx.application import Sphinx

NOTATION = "book/notation"
#: Where the list goes: a script, since a page that is opened from disk may read no other kind of file.
TARGET = Path("_static", "places.js")

# A sign, and what TeX calls it. A command that is not here leaves no trace.
SIGNS = """
α alpha, β beta, γ gamma, δ delta, ε epsilon varepsilon, ζ zeta, η eta, θ theta, κ kappa, λ lambda, μ mu, ν nu, ξ xi,
π pi, ρ rho, σ sigma, ς varsigma, τ tau, φ phi varphi, χ chi, ψ psi, ω omega, Γ Gamma, Δ Delta, Θ Theta, Λ Lambda,
Π Pi, Σ Sigma, Φ Phi, Ψ Psi, Ω Omega, ∞ infty, ⊤ top, ∑ sum, ∏ prod, √ sqrt, ≤ le, ≥ ge, ≠ ne, ∈ in, → to, ↦ mapsto,
← gets leftarrow, … dots ldots cdots, · cdot, × times, ≈ approx, ∼ sim, ± pm, ∝ propto, ∇ nabla, ∂ partial, ℓ ell,
‖ lVert rVert, | lvert rvert mid, ⟨ langle, ⟩ rangle,
⊥ perp, ∉ notin, ∪ cup
"""
SYMBOLS = {
    name: sign
    for sign, *names in (each.split() for each in SIGNS.split(","))
    for name in names
}
#: What stands over a letter: a character that the browser sets over the one before it.
ACCENTS = {"hat": "\u0302", "tilde": "\u0303", "bar": "\u0304", "dot": "\u0307"}
ACCENTS |= {f"wide{name}": ACCENTS[name] for name in ("hat", "tilde")}
ACCENTS["overline"] = ACCENTS["bar"]
OVER = f"[{''.join(sorted(set(ACCENTS.values())))}]"
WORDS = {"log", "max", "min", "diag", "tr", "exp", "sin", "cos", "lim", "arg", "sup"}


def together(text: str) -> str:
    """Return what stood between braces, in brackets if it is more than one word."""
    inside = text.strip("{}")
    return inside if re.fullmatch(rf"(\w|∞|{OVER})*|\f\w+\v", inside) else f"({inside})"


def sign_of(command: re.Match[str]) -> str:
    """Return what a command of TeX is read as, a word between marks; a fraction stays."""
    name = command[1]
    if name.endswith("frac"):
        return command[0]
    return f"\f{name}\v" if name in WORDS else (SYMBOLS | ACCENTS).get(name, "")


def readable(tex: str) -> str:
    r"""Return a formula in a line of plain text: `\frac1n\,\lVert v_\pi\rVert_\infty` is `1/n‖v_π‖_∞`."""
    text = re.sub(r"^\s*\\[(\[]|\\[)\]]\s*$|\\(begin|end)\{\w+\*?\}", "", tex)
    plain = {r"\\": " ", r"\|": "‖", r"\{": "", r"\}": "", "'": "′"}
    for written, read in plain.items():
        text = text.replace(written, read)
    text = re.sub(r"\\([A-Za-z]+) ?", sign_of, text)
    text = re.sub(rf"({OVER})(\{{*)(\w)", r"\2\3\1", text)
    # From the inside: fractions, then what is raised, lowered or under a root, then braces that only hold together.
    before = ""
    while text != before:
        before = text
        part = rf"(\{{[^{{}}]*\}}|[^\W_]{OVER}?)"
        text = re.sub(
            rf"\\[td]?frac ?{part}{part}",
            lambda m: f"{together(m[1])}/{together(m[2])}",
            text,
        )
        text = re.sub(r"([\^_√])(\{[^{}]*\})", lambda m: m[1] + together(m[2]), text)
        if text == before:
            text = re.sub(r"(?<!frac)(?<!\})\{([^{}]*)\}", r"\1", text)
    text = re.sub(r"\\[A-Za-z]+|\\.|[{}&~ \n]", "", text)
    # A word is one among letters: `n log n`, but `log(n)`.
    text = re.sub(rf"(?<=[^\W_]|{OVER})\f|\v(?=[^\W_])", " ", text)
    return re.sub(r"[\f\v]", "", text)


def in_lines(tex: str) -> str:
    """Return a formula of several lines in one: `a=b; c=d`, `a≤b=c` where the second goes on from the first."""
    lines = [readable(line).rstrip(",;.") for line in re.split(r"\\\\|\\q?quad", tex)]
    return re.sub(r"; (?=[=≤<+-])", " ", "; ".join(filter(None, lines)))


def words(node: Tag) -> str:
    """Return the text of a part of a page."""
    return re.sub(r"\s+", " ", node.get_text()).strip()


def title_of(node: Tag) -> str:
    """Return the text of a heading, `Theorem 4.9: Theorem 2 of the paper` for `Theorem 4.9 (…)`."""
    return re.sub(r"^(\w+ [\d.]+) \((.*)\)$", r"\1: \2", words(node))


def place(
    kind: str, title: str, anchor: str, body: Tag, also: str = ""
) -> dict[str, str]:
    """Return what is told of a place: its names, its text, its formulas and the words of its code."""
    formulas = {str(f["data-read"]): None for f in body.select("[data-read]")}
    code = {w: None for c in body.select(".cell_input, pre") for w in names_in(c)}
    for left_out in body.select(".cell_input, .cell_output, pre, .admonition-title"):
        left_out.extract()
    named = [words(node) for node in body.select("em, strong")]
    return {
        "kind": kind,
        "title": title,
        "anchor": anchor,
        "also": " ".join(dict.fromkeys([*([also] if also else []), *named])),
        "text": words(body),
        "formulas": " ".join(formulas),
        "code": " ".join(code),
    }


def names_in(code: Tag) -> list[str]:
    """Return the names that code uses."""
    return re.findall(r"[A-Za-z_]\w{2,}", code.get_text())


def tidied(html: str) -> Tag | None:
    """Return the text of a page without what only decorates it, its formulas in plain text."""
    article = BeautifulSoup(html, "html.parser").select_one("article.bd-article")
    if article is None:
        return None
    for code in article.find_all("pre"):
        code.string = code.get_text()  # without its colours: most elements of a page
    for extra in article.select(".headerlink, .book-uses, script, style, noscript"):
        extra.decompose()
    for formula in article.select(".math"):
        if number := formula.select_one(".eqno"):
            formula["data-number"] = number.extract().get_text().strip("()")
            formula["data-lines"] = in_lines(formula.get_text())
        tex = formula.get_text()
        formula["data-read"] = readable(tex)
        in_line = formula.name == "span" and "&" not in tex  # no matrix
        formula.string = readable(tex) if in_line else "…"
    # Words that only their boxes keep apart.
    for box in article.select("p, li, dt, dd, td, th, pre, h1, h2, h3, h4"):
        box.append(" ")
    return article


def rows(article: Tag) -> Iterator[dict[str, str]]:
    """Yield the symbols of the tables of notation: each with what it means as a second name."""
    for row in article.select("section[id] tbody tr"):
        symbol, meaning, code = row.select("td")
        read = [str(f["data-read"]) for f in symbol.select("[data-read]")]
        section = row.find_parent("section")
        assert section is not None
        title = ", ".join(read) or words(symbol)
        text = f"{words(meaning)}. In the code: {words(code)}"
        told = place("symbol", title, str(section["id"]), row, words(meaning))
        row.extract()
        yield told | {"text": text}


def boxes(article: Tag) -> Iterator[dict[str, str]]:
    """Yield what stands in a box or a list of its own, and take it out of the text around it."""
    for box in article.select("dl.glossary > dt[id]"):
        meaning = box.find_next_sibling("dd")
        assert isinstance(meaning, Tag)
        yield place("term", words(box), str(box["id"]), meaning)
    for box in article.select("div.math[id][data-number]"):
        before = box.find_previous_sibling()
        led_to = words(before) if before and before.name == "p" else ""
        sentence = re.split(r"(?<=[.?!]) (?=[A-Z])", led_to)[-1]
        told = place("equation", f"Equation {box['data-number']}", str(box["id"]), box)
        told["text"] = f"{sentence} {box['data-lines']}"
        yield told | {"formulas": str(box["data-read"])}
    for box in reversed(article.select("dt.sig[id]")):  # a method before its class
        meaning = box.find_next_sibling("dd")
        assert isinstance(meaning, Tag)
        yield place("function", name_of(str(box["id"])), str(box["id"]), meaning)
        meaning.extract()
        box.extract()
    for box in article.select("div.citation[id]"):
        for label in box.select(".label"):
            label.extract()
        yield place("citation", authors_and_title(words(box)), str(box["id"]), box)
        box.extract()
    for box in article.select("div.proof[id], div.exercise[id]"):
        heading = box.select_one(".admonition-title .caption-number")
        if heading is None:
            continue  # a proof, which belongs to the text
        title = title_of(heading.parent or heading)
        yield place(title.split()[0].lower(), title, str(box["id"]), box)
        box.extract()
    for box in article.select("figure[id]"):
        caption = box.select_one("figcaption")
        if caption:
            number = caption.select_one(".caption-number")
            title = words(number.extract()) if number else "Figure"
            yield place("figure", title, str(box["id"]), caption)
    for box in article.select("dl.glossary, dl.py, figure"):
        box.extract()


def authors_and_title(text: str) -> str:
    """Return the first two sentences of a text; a full stop behind a single letter is that of a first name."""
    return " ".join(re.split(r"(?<=\w\w\.) ", text)[:2])


def name_of(identifier: str) -> str:
    """Return a name without its modules: `ictd_lib.chain.MarkovRewardProcess.values` begins with the class."""
    parts = identifier.split(".")
    classes = [k for k, part in enumerate(parts) if part[:1].isupper()]
    return ".".join(parts[min([*classes, len(parts) - 1]) :])


def places(page: str, html: str) -> Iterator[dict[str, str]]:
    """Yield all places of a page."""
    article = tidied(html)
    if article is None:
        return
    yield from rows(article) if page == NOTATION else ()
    yield from boxes(article)
    # Inner sections first: an outer one is what is left.
    for section in reversed(article.select("section[id]")):
        heading = section.find(["h1", "h2", "h3", "h4"], recursive=False)
        if isinstance(heading, Tag):
            title = words(heading.extract())
            kind = "page" if heading.name == "h1" else "section"
            anchor = "" if kind == "page" else str(section["id"])
            yield place(kind, title, anchor, section)
            section.extract()


def write_places(app: Sphinx, exception: Exception | None) -> None:
    """Read the pages that were built, and write the list (Sphinx's event build-finished)."""
    if exception or app.builder.format != "html":
        return
    out = Path(app.outdir)
    pages = []
    for page in sorted(app.env.found_docs):
        found = list(places(page, (out / f"{page}.html").read_text("utf-8")))
        title = next((p["title"] for p in found if p["kind"] == "page"), "")
        pages.append({"page": page, "title": title, "places": found})
    text = json.dumps(pages, ensure_ascii=False, separators=(",", ":"))
    (out / TARGET).write_text(f"window.PLACES = {text};\n", "utf-8")
    (out / "searchindex.js").unlink(missing_ok=True)  # nothing reads it


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("build-finished", write_places)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
