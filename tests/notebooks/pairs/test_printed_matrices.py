"""Every transition matrix that a reader sees, in prose or in an output, is one (case H2)."""

import re
from fractions import Fraction

import numpy as np
import pytest

from book.tools import notebooks
from book.tools.canonical import ROOT

PAGES = [f"book/{name}.md" for name in ("preface", "notation", "glossary")]
# Square matrices of numbers that are no transition matrix, by what stands before them, and why.
OTHERS: dict[str, str] = {}

TEX_MATRIX = re.compile(
    r"(?P<name>[^$]{0,40}?)"
    r"(?:\\left\s*(?:\\?.|\\lbrack)\s*)?"
    r"\\begin\{(?P<kind>[bBpvV]?(?:small)?matrix\*?|array)\}(?:\{[^}]*\}|\[[^\]]*\])*"
    r"(?P<rows>.*?)\\end\{(?P=kind)\}",
    re.DOTALL,
)
PRINTED_MATRIX = re.compile(
    r"^(?P<name>[^\n\[]*)(?:\n[ \t]*)?(?P<rows>\[\[[^\]]*\](?:\s*,?\s*\[[^\]]*\])*\s*\])",
    re.MULTILINE,
)
TEX_SPACE = re.compile(r"\\(?:hline|quad|[,;:! ]|phantom\{[^}]*\})")
TEX_FRACTION = re.compile(r"\\[dt]?frac\s*(?:\{(\d+)\}|(\d))\s*(?:\{(\d+)\}|(\d))")


def is_transition_matrix(name: str) -> bool:
    """By the book's notation: P, with or without a tilde, hat or subscript; or in words."""
    last = r"(?:^|[\\{\s(,])P(?:_(?:\w+|\{[^}]*\}))?\}?\s*[=:]?\s*$"
    return bool(
        re.search(last, name) or re.search(r"transition matri", name, re.IGNORECASE)
    )


def number(entry: str) -> float:
    """Return the number that an entry is, or raise ValueError."""
    return float(Fraction(entry.strip().strip("{}").strip()))


def tex_rows(rows: str) -> list[list[str]]:
    """Return the entries of a matrix in TeX."""
    plain = TEX_FRACTION.sub(
        lambda m: f"{m[1] or m[2]}/{m[3] or m[4]}", TEX_SPACE.sub(" ", rows)
    )
    lines = re.split(r"\\\\(?:\[[^\]]*\])?|\\cr\b", plain)
    return [line.split("&") for line in lines if line.strip()]


def printed_rows(rows: str) -> list[list[str]]:
    """Return the entries of a matrix as numpy prints it, or a list of lists."""
    inner = re.findall(r"\[([^\[\]]*)\]", rows)
    return [row.replace(",", " ").split() for row in inner]


def fault(name: str, rows: list[list[str]]) -> str | None:
    """Say what a matrix lacks to be stochastic, as far as its digits show; None if that isn't asked."""
    try:
        values = [[number(entry) for entry in row] for row in rows]
    except ValueError:
        letters = re.search(
            r"[A-Za-z]", "".join(entry for row in rows for entry in row)
        )
        return (
            f"not understood: {rows}"
            if is_transition_matrix(name) and not letters
            else None
        )
    square = all(len(row) == len(values) for row in values) and len(values) > 1
    if not square:
        return "not square" if is_transition_matrix(name) else None
    matrix = np.array(values)
    if (matrix < 0).any():
        return "a negative entry"
    off = np.abs(matrix.sum(axis=1) - 1)
    rounding = 0.0005 * matrix.shape[1]  # three digits are printed
    return (
        None if (off <= rounding).all() else f"row {off.argmax()} is {off.max():g} off"
    )


def faults(matrices: list[tuple[str, list[list[str]]]]) -> list[str]:
    """Return the faults of matrices, each after its name; OTHERS is for those that are none."""
    found = [(name, fault(name, rows)) for name, rows in matrices]
    return [f"{name} {what}" for name, what in found if what]


def in_prose(text: str) -> list[tuple[str, list[list[str]]]]:
    """Return name and entries of every matrix in a text, but those that are known to be others."""
    found = [
        (m["name"].strip(), tex_rows(m["rows"])) for m in TEX_MATRIX.finditer(text)
    ]
    return [(name, rows) for name, rows in found if name not in OTHERS]


def in_output(text: str) -> list[tuple[str, list[list[str]]]]:
    """Return name and entries of every matrix in an output that is headed as a transition matrix."""
    found = [
        (m["name"].strip(), printed_rows(m["rows"]))
        for m in PRINTED_MATRIX.finditer(text)
    ]
    return [(name, rows) for name, rows in found if is_transition_matrix(name)]


def shown(name: str) -> list[tuple[str, list[list[str]]]]:
    """Return every matrix of a chapter that is to be looked at."""
    notebook = notebooks.read_notebook(name)
    assert notebook is not None
    found = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            found += in_prose(cell.source)
        for output in cell.get("outputs", []):
            plain = output.get("data", {}).get("text/plain", "")
            found += in_output(output.get("text", "") or plain)
    return found


@pytest.mark.parametrize("name", notebooks.all_names())
def test_transition_matrices_of_notebooks_are_stochastic(name: str) -> None:
    assert faults(shown(name)) == []


@pytest.mark.parametrize("page", PAGES)
def test_transition_matrices_of_pages_are_stochastic(page: str) -> None:
    assert faults(in_prose((ROOT / page).read_text("utf-8"))) == []


def test_the_matrices_of_the_first_chapter_are_found() -> None:
    sizes = [
        len(rows)
        for name, rows in shown("00-policy-evaluation")
        if is_transition_matrix(name)
    ]
    assert sizes == [8, 2]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (r"P=\begin{bmatrix}0.75&0.25\\0.5&0.5\end{bmatrix}", None),
        (r"P=\begin{bmatrix}0.75&0.35\\0.5&0.5\end{bmatrix}", "off"),
        (r"Q=\begin{pmatrix}1.5&-0.5\\0.5&0.5\end{pmatrix}", "negative"),
        (r"P=\left[\begin{array}{cc}\hline\tfrac12&\tfrac{3}{4}\\[2pt]0&1\end{array}\right]", "off"),
        (r"P=\left(\begin{smallmatrix}\tfrac14&\frac{3}{4}\\[2pt]0&1\end{smallmatrix}\right)", None),
        (r"\tilde P = \begin{matrix}1/4&3/4\\0&2/3\end{matrix}", "off"),
        (r"P=\begin{bmatrix}0.5..&0.5\\0&1\end{bmatrix}", "not understood"),
        (r"P=\begin{bmatrix}0.5&0.5\end{bmatrix}", "not square"),
        (r"A=\begin{bmatrix}\tau I_d&0\\0&0_{3\times3}\end{bmatrix}", None),
        (r"P=\begin{bmatrix}p&1-p\\0&1\end{bmatrix}", None),
    ],
)  # fmt: skip
def test_a_wrong_matrix_in_prose_is_seen(text: str, said: str | None) -> None:
    ((name, rows),) = in_prose(text)
    found = fault(name, rows)
    assert (found is None) if said is None else (said in (found or ""))


@pytest.mark.parametrize("head", ["P =\n", "P = ", "Transition matrix:\n", "P_hat = "])
def test_a_wrong_matrix_in_an_output_is_seen(head: str) -> None:
    for rows in ("[[0.25  0.75]\n [0.    1.   ]]", "[[0.25, 0.75], [0, 1]]"):
        assert [fault(*m) for m in in_output(f"before\n{head}{rows}\n")] == [None]
        wrong = rows.replace("0.75", "0.85")
        assert [fault(*m) for m in in_output(f"before\n{head}{wrong}\n")] != [None]
    assert in_output("w =\n[[0.25  0.85]\n [0.    1.   ]]") == []
