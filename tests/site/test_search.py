"""Search, as readers use it: what they type leads them to the right page, by its name, its sign or nearly so."""

import json
import re
from pathlib import Path
from urllib.parse import quote

import pytest
from browser import THEMES, WIDTHS, resize, visit
from bs4 import BeautifulSoup
from checks import Watch, about, accessibility, look
from playwright.sync_api import Page

from book._ext.places import authors_and_title, in_lines, name_of, places, readable

#: What readers type, and the page that they look for. Decided from the book, before there was a search to try.
TYPED = {
    # words of the book
    "kernel diagonality": {"04-contraction"},
    "certainty equivalence": {"00-policy-evaluation"},
    "temporal shift": {"03-tsm"},
    "TSM": {"03-tsm"},
    "norm of expected update": {"05-emergence"},
    "attention sink": {"06-beyond"},
    "spectral radius": {"glossary"},
    "numerical radius": {"06-beyond"},
    "Boyan chain": {"00-policy-evaluation"},
    "softmax td": {"01-weighted-td"},
    "tabular TD": {"01-weighted-td"},
    "Richardson iteration": {"04-contraction", "06-beyond"},
    "TD(lambda)": {"06-beyond"},
    "average reward": {"06-beyond"},
    "dualhead": {"02-dual-head"},
    # theorems of the paper
    "Theorem 3": {"05-emergence"},
    "theorem 2": {"04-contraction"},
    # symbols: the table that says what they mean
    "gamma": {"notation"},
    "γ": {"notation"},
    "Π": {"notation"},
    "M_pi": {"notation"},
    "alpha": {"notation"},
    # misspelt
    "contracton": {"04-contraction"},
    "certanty equivalence": {"00-policy-evaluation"},
    "Richardsen": {"04-contraction", "06-beyond"},
    "diagonalty": {"04-contraction"},
    "Chebychev": {"06-beyond"},
    # a function, a formula, a rate
    "weighted_softmax_td": {"td"},
    "(1-2C)^L": {"04-contraction"},
    "1/n floor": {"05-emergence"},
}
ENOUGH = 27

#: What they ask besides, in whole sentences and in words that are not the book's own.
ASKED = {
    # questions
    "how many layers do I need": {"04-contraction", "05-emergence"},
    "what does the second head do": {"02-dual-head"},
    "what is a preconditioner": {"glossary", "06-beyond"},
    "does softmax td always converge": {
        "06-beyond",
        "01-weighted-td",
        "04-contraction",
    },
    "difference between linear and softmax attention": {"02-dual-head"},
    "how do I cite this": {"preface"},
    "run in binder": {"preface", "students", "instructors"},
    # other words for it
    "license": {"preface"},
    "learning rate": {"notation", "00-policy-evaluation", "01-weighted-td"},
    "list of symbols": {"notation"},
    "inverse temperature": {"notation", "glossary"},
    "typo": {"errata"},
    "download pdf": {"preface"},
    "LSTD": {"glossary", "notation", "td", "00-policy-evaluation"},
    # signs as TeX has them, and numbers
    r"\widehat M": {"notation"},
    "M hat": {"notation"},
    "ρ(T)": {"notation", "04-contraction", "glossary"},
    "eq 1.3": {"01-weighted-td"},
    "thm 6.4": {"06-beyond"},
    # functions, as they are written and as they are spoken
    "attention_matrix": {"td"},
    "attention matrix": {"td", "notation", "01-weighted-td"},
    "sample context": {"chains"},
    "markovrewardprocess": {"chains"},
    # misspelt
    "kernal": {"glossary", "01-weighted-td", "04-contraction", "td"},
    "bellmann equation": {"00-policy-evaluation", "glossary"},
    "stationnary distribution": {"glossary", "00-policy-evaluation", "notation"},
    "numerical radus": {"06-beyond", "glossary"},
    # what others wrote
    "xie 2026": {"bibliography"},
}


#: What they type of a number, and where it leads first. Who errs in the kind comes to what has the number.
NUMBERED = {
    "eq 1.2": "01-weighted-td.html#equation-eq-wstd",
    "(1.2)": "01-weighted-td.html#equation-eq-wstd",
    "Equation (1.2)": "01-weighted-td.html#equation-eq-wstd",
    "formula (3.4)": "03-tsm.html#equation-eq-tsm-offset",
    "1.2": "01-weighted-td.html#prop-collapse",
    "thm. 4.9": "04-contraction.html#thm-4-two",
    "what is theorem 4.9?": "04-contraction.html#thm-4-two",
    "Theorem 2 of the paper": "04-contraction.html#thm-4-two",
    "theorem 2.1": "02-dual-head.html#def-prompt",
    "def 1.3": "01-weighted-td.html#prop-constants",
    "lemma 3.2": "03-tsm.html#lem-tsm",
    "fig 1.2": "01-weighted-td.html#fig-leak",
    "fig 1": "01-weighted-td.html#fig-who",
    "ex 1.2": "01-weighted-td.html#ex-1-dull",
    "sec. 1.2": "01-weighted-td.html#who-updates-whom",
    "§4.9": "04-contraction.html#twins-and-states-that-were-never-left",
    "chapter 3": "03-tsm.html",
}

#: Letters that differ in what stands over them alone, however it is written.
ACCENTED = {
    "P tilde": ("P̃_n", {"notation"}),
    "P̃": ("P̃_n", {"notation"}),
    r"\tilde{P}_n": ("P̃_n", {"notation"}),
    "P_tilde": ("P̃_n", {"notation"}),
    "P hat": ("P̂_n", {"04-contraction"}),
    r"\widehat P": ("P̂_n", {"04-contraction"}),
    "mu hat": ("μ̂_n", {"notation"}),
}


def results(page: Page, base: str, query: str) -> list[str]:
    """Return where the results of a search lead, from its page to the end of the address."""
    page.goto(f"{base}/search.html?q={quote(query)}")
    page.locator("#search-results [role=status]").wait_for()
    links: list[str] = page.locator("#search-results li > a").evaluate_all(
        "(links) => links.map((link) => link.href)"
    )
    return [link.rpartition("/")[2] for link in links]


@pytest.mark.parametrize(("queries", "count"), [(TYPED, 30), (ASKED, len(ASKED))])
def test_what_readers_type_is_among_the_first_three(
    base: str, pages: dict[str, Page], queries: dict[str, set[str]], count: int
) -> None:
    assert len(queries) == count
    missed = []
    for query, right in queries.items():
        first = results(pages["light"], base, query)[:3]
        if not right & {link.partition(".html")[0] for link in first}:
            missed.append(f"{query!r}: {first} instead of {sorted(right)}")
    found = count - len(missed)
    print(f"\n{found} of {count} searches find the right page", *missed, sep="\n")
    assert found / count >= ENOUGH / 30, "\n".join(missed)


def test_a_result_leads_to_the_place_itself(base: str, pages: dict[str, Page]) -> None:
    page = pages["light"]
    assert results(page, base, "numerical radius")[0] == "06-beyond.html#thm-6-radius"
    link = page.locator("#search-results li > a").first
    assert link.inner_text() == "Theorem 6.4: Numerical radius"
    link.press("Enter")
    page.wait_for_url("**/06-beyond.html#thm-6-radius")


def test_numbers_and_identifiers_are_words(base: str, pages: dict[str, Page]) -> None:
    page = pages["light"]
    assert results(page, base, "Theorem 4.9")[0] == "04-contraction.html#thm-4-two"
    assert results(page, base, r"M_\pi") == results(page, base, "M_π")


@pytest.mark.parametrize("query", NUMBERED)
def test_what_has_a_number_is_found_by_it(
    base: str, pages: dict[str, Page], query: str
) -> None:
    assert results(pages["light"], base, query)[0] == NUMBERED[query]


def test_a_number_that_is_not_there_is_told(base: str, pages: dict[str, Page]) -> None:
    page = pages["light"]
    results(page, base, "eq. 9.9")
    status = page.locator("#search-results [role=status]").inner_text()
    assert status.startswith("The book has no “equation 9.9”."), status


@pytest.mark.parametrize("query", ACCENTED)
def test_hats_and_tildes_are_told_apart(
    base: str, pages: dict[str, Page], query: str
) -> None:
    symbol, right = ACCENTED[query]
    page = pages["light"]
    first = results(page, base, query)[0]
    assert first.partition(".html")[0] in right
    assert symbol in page.locator("#search-results li").first.inner_text()


def test_a_slip_is_told(base: str, pages: dict[str, Page]) -> None:
    page = pages["light"]
    results(page, base, "contracton")
    status = page.locator("#search-results [role=status]")
    assert re.fullmatch(
        "The book has no “contracton”. \\d+ places have words like it.",
        status.inner_text(),
    )
    assert results(page, base, "qwxqzkj") == []
    assert status.inner_text() == "Nothing was found."


@pytest.mark.parametrize("query", ["stationary", "TD error", "γ"])
def test_a_result_shows_the_text_around_the_words(
    base: str, pages: dict[str, Page], query: str
) -> None:
    page = pages["light"]
    results(page, base, query)
    texts = page.locator("#search-results .context").all_inner_texts()
    assert any(query in text for text in texts)
    for text in texts:
        # Of what stands round the text (downloads, contents) nothing is shown, nor the source of a formula.
        assert not re.search(r"\.ipynb|On this page|[\\{}]", text), text


def test_what_is_typed_is_never_read_as_markup(
    base: str, pages: dict[str, Page]
) -> None:
    page = pages["light"]
    results(page, base, "<img src=x onerror=alert(1)> zqzqzq")
    assert page.locator("#search-results img").count() == 0
    assert "zqzqzq" in page.locator("#search-results [role=status]").inner_text()


def test_every_result_leads_somewhere(site: Path) -> None:
    """An entry of the list that search reads is a place of a page that was built."""
    listed = (site / "_static" / "places.js").read_text("utf-8")
    pages = json.loads(listed.removeprefix("window.PLACES = ").rstrip(";\n"))
    kinds = set()
    for page in pages:
        text = (site / f"{page['page']}.html").read_text("utf-8")
        anchors = {
            str(node["id"])
            for node in BeautifulSoup(text, "html.parser").select("[id]")
        }
        for place in page["places"]:
            kinds.add(place["kind"])
            assert place["title"].strip(), place
            assert not place["anchor"] or place["anchor"] in anchors, place
    wanted = "page section definition theorem proposition exercise figure equation term symbol"
    assert kinds >= set(wanted.split())


def test_a_formula_of_several_lines_is_told_in_one() -> None:
    formula = r"\[\begin{split}a&=b\\&\le c,\\ d&\leftarrow e,\qquad f\end{split}\]"
    assert in_lines(formula) == "a=b ≤c; d←e; f"


@pytest.mark.parametrize(
    ("tex", "text"),
    [
        (r"\(\frac1n\,\lVert v_\pi\rVert_\infty\)", "1/n‖v_π‖_∞"),
        (r"\tfrac{1+\gamma}2+C", "(1+γ)/2+C"),
        (r"(I-\gamma\tilde P_n)^{-1}r", "(I-γP̃_n)^(-1)r"),
        (r"\frac{a_{k+1}}{\hat{b}}", "(a_(k+1))/b̂"),
        (r"\sqrt{1-\gamma^2}/\sqrt n", "√(1-γ^2)/√n"),
        (r"n\log n\le\max_{s}g(s)", "n log n≤max_sg(s)"),
        (r"\log(n)", "log(n)"),
        (r"\begin{aligned}a&=b\\ c&<d\end{aligned}", "a=bc<d"),
        (r"x\\v_L", "xv_L"),
        (r"\bar{\rho}^{\widehat T}+\overline{f(s)}", "ρ̄^T̂+f̄(s)"),
        (r"\tilde r\log\frac\hat M2", "r̃ log M̂/2"),
        (r"\frac{", ""),  # broken, and yet an end
    ],
)
def test_formulas_are_read_in_a_line(tex: str, text: str) -> None:
    assert readable(tex) == text


def test_an_entry_of_the_bibliography_is_called_by_authors_and_title() -> None:
    assert (
        authors_and_title("Justin A. Boyan and X. Y. Two. Technical update. In 2002.")
        == "Justin A. Boyan and X. Y. Two. Technical update."
    )


def test_a_function_is_a_place_under_its_own_name() -> None:
    assert name_of("ictd_lib.td.tabular_td") == "tabular_td"
    assert name_of("ictd_lib.chain.Chain.values") == "Chain.values"
    signature = "<dt class='sig' id='{0}'>x</dt><dd><p>{1}</p>{2}</dd>"
    method = signature.format("a.b.Chain.values", "The values.", "")
    page = signature.format("a.b.Chain", "A chain.", f"<dl class='py'>{method}</dl>")
    html = f"<article class='bd-article'><dl class='py'>{page}</dl></article>"
    assert [
        (p["kind"], p["title"], p["anchor"], p["text"]) for p in places("p", html)
    ] == [
        ("function", "Chain.values", "a.b.Chain.values", "The values."),
        ("function", "Chain", "a.b.Chain", "A chain."),
    ]


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("query", ["Bellman", "contracton", "qwxqzkj"])
def test_results_have_no_fault(
    base: str, pages: dict[str, Page], theme: str, query: str
) -> None:
    page = pages[theme]
    faults = []
    with Watch(base).of(page) as watch:
        visit(page, f"{base}/search.html?q={query}")
        for width in (WIDTHS[0], WIDTHS[-1]):
            resize(page, width)
            faults += about(look(page) + accessibility(page), width=width)
    assert faults + watch.faults() == []
