"""Keep a formula on one line with the comma behind it and the bracket before it, and a number with its % sign.

A browser may end a line on either side of a formula, whatever stands there: on a phone, every page had lines
that began with a full stop.
"""

import re
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

BEFORE = re.compile(r"[(\[“‘]+$")
PER_CENT = re.compile(r"(?<=\d) (?=%)")
AFTER = re.compile(r"^[^\s\w(\[“‘]+(?:\w{1,2}\b)?")  # `-th` and `’s`, too


VERBATIM = (nodes.literal, nodes.math, nodes.raw, nodes.FixedTextElement)


def keep_together(formula: nodes.math) -> None:
    """Wrap a formula and the signs that touch it, if any do."""
    parent = formula.parent
    place = parent.index(formula)
    before = parent[place - 1] if place else None
    after = parent[place + 1] if place + 1 < len(parent) else None
    whole = nodes.inline(classes=["together"])
    parent[place] = whole
    whole += formula
    # By their places: texts are equal if they say the same, and the first ", " of a paragraph may be another.
    if isinstance(before, nodes.Text) and (opening := BEFORE.search(before)):
        parent[place - 1] = nodes.Text(before[: opening.start()])
        whole.insert(0, nodes.Text(opening[0]))
    if isinstance(after, nodes.Text) and (closing := AFTER.search(after)):
        parent[place + 1] = nodes.Text(after[closing.end() :])
        whole += nodes.Text(closing[0])
    if len(whole) == 1:
        parent[place] = formula


def keep_all_together(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Go through a page (event doctree-resolved)."""
    for formula in list(doctree.findall(nodes.math)):
        keep_together(formula)
    for text in list(doctree.findall(nodes.Text)):
        if PER_CENT.search(text) and not isinstance(text.parent, VERBATIM):
            text.parent.replace(
                text, nodes.Text(PER_CENT.sub("\N{NO-BREAK SPACE}", text))
            )


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("doctree-resolved", keep_all_together, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
