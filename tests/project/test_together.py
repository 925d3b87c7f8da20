"""A formula isn't parted from the comma behind it (book/_ext/together.py)."""

import pytest
from docutils import nodes

from book._ext.together import PER_CENT, keep_together


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        ("with ", ", and", ("with ", "x,", " and")),
        ("values (", "). So", ("values ", "(x).", " So")),
        ("on ", "-step", ("on ", "x-", "step")),
        ("on the ", "-th step", ("on the ", "x-th", " step")),
        ("with ", " and", ("with ", "x", " and")),
        ("with ", "(see", ("with ", "x", "(see")),
    ],
)
def test_signs_that_touch_a_formula_stay_with_it(
    before: str, after: str, kept: tuple[str, ...]
) -> None:
    formula = nodes.math("x", "x")
    paragraph = nodes.paragraph("", "", nodes.Text(before), formula, nodes.Text(after))
    keep_together(formula)
    assert tuple(each.astext() for each in paragraph) == kept
    whole = formula.parent is not paragraph
    assert whole == (kept[1] != "x")
    assert not whole or formula.parent["classes"] == ["together"]


def test_a_formula_may_stand_alone_or_between_others() -> None:
    formulas = [nodes.math(name, name) for name in "ab"]
    paragraph = nodes.paragraph("", "", *formulas)
    for each in formulas:
        keep_together(each)
    assert list(paragraph) == formulas


def test_a_formula_takes_its_own_comma_and_no_other_like_it() -> None:
    first, last = nodes.math("x", "x"), nodes.math("y", "y")
    texts = [nodes.Text(text) for text in ("With it", ", ", " and, for ", ", ")]
    paragraph = nodes.paragraph(
        "",
        "",
        texts[0],
        nodes.emphasis("", "z"),
        texts[1],
        first,
        texts[2],
        last,
        texts[3],
    )
    for formula in (first, last):
        keep_together(formula)
    assert paragraph.astext() == "With itz, x and, for y, "
    assert last.parent.astext() == "y,"


def test_a_number_keeps_its_sign() -> None:
    assert PER_CENT.sub("_", "77 %, n % 2 and 8 %") == "77_%, n % 2 and 8_%"
