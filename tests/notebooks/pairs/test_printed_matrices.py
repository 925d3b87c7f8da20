"""Every transition matrix that a reader sees, in prose or in an output, is one (case H2)."""

import re

import numpy as np
import pytest

from book.tools import notebooks

TEX_MATRIX = re.compile(
    r"(?P<name>[A-Za-z\\{}_ ]*?)\s*=\s*\\begin\{[bp]?(?:small)?matrix\}(?P<rows>.*?)\\end",
    re.DOTALL,
)
PRINTED_MATRIX = re.compile(
    r"^(?P<name>P|P_\w+) *=\s*\n?(?P<rows>\[\[.*?\]\])", re.DOTALL | re.MULTILINE
)


def is_transition_matrix(name: str) -> bool:
    """By the book's notation: P, with or without a tilde, hat or subscript."""
    return re.search(r"(?:^|[\\{\s])P(?:_\w+)?\}?\s*$", name) is not None


def numbers(rows: str, row_end: str, column_end: str | None) -> np.ndarray | None:
    """Return the matrix, or None if it holds anything but numbers."""
    try:
        parsed = [
            [float(entry) for entry in row.split(column_end)]
            for row in rows.split(row_end)
            if row.strip()
        ]
    except ValueError:
        return None
    return np.array(parsed)


def matrices(name: str) -> list[np.ndarray]:
    """Return every transition matrix that a chapter shows."""
    found = []
    notebook = notebooks.read_notebook(name)
    assert notebook is not None
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            found += [
                numbers(match["rows"], r"\\", "&")
                for match in TEX_MATRIX.finditer(cell.source)
                if is_transition_matrix(match["name"])
            ]
        for output in cell.get("outputs", []):
            for match in PRINTED_MATRIX.finditer(output.get("text", "")):
                rows = match["rows"].replace("[", " ")
                found.append(numbers(rows.rstrip("]"), "]", None))
    return [matrix for matrix in found if matrix is not None]


def fault(matrix: np.ndarray) -> str | None:
    """Say what a printed matrix lacks to be stochastic, as far as its digits show."""
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        return f"shape {matrix.shape}"
    if (matrix < 0).any():
        return "a negative entry"
    off = np.abs(matrix.sum(axis=1) - 1)
    rounding = 0.0005 * matrix.shape[1]  # three digits are printed
    return (
        None if (off <= rounding).all() else f"row {off.argmax()} is {off.max():g} off"
    )


@pytest.mark.parametrize("name", notebooks.chapter_names())
def test_transition_matrices_are_stochastic(name: str) -> None:
    assert [fault(matrix) for matrix in matrices(name) if fault(matrix)] == []


def test_the_matrices_are_found_and_a_wrong_one_is_seen() -> None:
    shown = matrices("00-policy-evaluation")
    assert [matrix.shape for matrix in shown] == [(8, 8), (2, 2)]
    for matrix in shown:
        wrong = matrix.copy()
        wrong[-1, 0] += 0.1
        assert fault(matrix) is None
        assert fault(wrong)
        assert fault(matrix[:-1])
