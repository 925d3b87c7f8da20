"""Honest work, carelessly handed in: it gets what it deserves."""

import json
import sys
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from book.assignments.notebooks.checks.engine import Check
from book.assignments.notebooks.checks.values import compare, dumps, loads
from book.tools.assignments import grade as grading
from book.tools.assignments.course import open_course
from book.tools.assignments.grade import HandedIn, Marker, handed_in, prepare
from book.tools.assignments.marking import (
    Reply,
    hidden_cases,
    mark,
    student_edition,
)
from book.tools.assignments.sandbox import Limits, available
from book.tools.assignments.source import SOLUTION, Key, namespace, read_assignment
from book.tools.assignments.tables import PENDING, Graded

NAME = "00-policy-evaluation"

Cells = list[dict[str, Any]]


@pytest.fixture(scope="module")
def marker(tmp_path_factory: pytest.TempPathFactory) -> Marker:
    if available() is not None:
        pytest.skip(f"no isolation: {available()}")
    course = open_course(tmp_path_factory.mktemp("course"))
    limits = Limits(seconds=30)
    return prepare(course, NAME, limits, unsafe=False, python=sys.executable)


def solved(marker: Marker) -> Cells:
    """The student edition, each task in code solved as the authors do."""
    cells = []
    for given in student_edition(marker.assignment):
        source = given.source
        if given.role == "solution":
            task = marker.assignment.task(given.name)
            source = SOLUTION.sub(lambda found: found[1].rstrip(), task.solution + "\n")
        cells.append(
            {
                "cell_type": "code" if given.code else "markdown",
                "id": given.identity,
                "metadata": {"nbgrader": {"grade_id": given.name}}
                if given.name
                else {},
                "source": source,
            }
        )
    return cells


def own(source: str) -> dict[str, Any]:
    return {"cell_type": "code", "metadata": {}, "source": source, "outputs": []}


def at(cells: Cells, name: str) -> int:
    return next(
        k
        for k, cell in enumerate(cells)
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == name
    )


def graded(marker: Marker, cells: Cells, folder: Path, ends: str = "\n") -> Graded:
    path = folder / "handed.ipynb"
    for cell in cells:
        cell["source"] = cell["source"].replace("\n", ends)
    path.write_text(json.dumps({"cells": cells}), "utf-8")
    return grading.grade(marker, HandedIn("ada", path), "")


def verdicts(record: Graded) -> dict[str, str]:
    return {row.task: row.verdict for row in record.rows if row.kind == "code"}


def test_a_notebook_of_another_editor_gets_full_marks(
    marker: Marker, tmp_path: Path
) -> None:
    cells = solved(marker)
    for cell in cells:
        del cell["id"]
    cells[1]["source"] += "\nimport math\nfrom numpy.linalg import solve"
    k = at(cells, "at_discount")
    source = cells[k]["source"].replace("np.linalg.solve(", "solve(")
    cells[k]["source"] = "%%time\n" + source + "\n\nprint('done')"
    k = at(cells, "brackets")  # split in two, a line of the shell before it
    source = cells[k]["source"].replace("guess + np", "helper(guess) + np")
    cells[k : k + 1] = [
        own("!ls\n%matplotlib inline\nlate = 3"),
        {**cells[k], "source": source},
    ]
    k = at(cells, "returns_to_go")
    cells[k]["source"] = cells[k]["source"].replace(
        "    returns = np.zeros", "    print('x' * 10_000)\n    returns = np.zeros"
    )
    k = at(cells, "first_visits")
    head, body = cells[k]["source"].split("    result = np.zeros", 1)
    cells[k]["source"] = (
        head + "    result = np.zeros" + body + "\n\nfirst_visits(0, 0, 0, 0)"
    )
    cells.insert(3, own("from google.colab import drive\ndrive.mount('/content')"))
    cells.insert(4, own("name = input('who are you?')"))
    cells.append(own("def helper(x):\n    return x"))
    record = graded(marker, cells, tmp_path, ends="\r\n")
    assert set(verdicts(record).values()) == {"right"}, record
    assert any("ModuleNotFoundError" in note for note in record.told)


X = np.array([0.5, -2.0, 3.25])


@pytest.mark.parametrize(
    "boxed",
    [
        X.tolist(),
        tuple(X),
        X.astype(np.float32),
        X.astype(np.longdouble),
        X.astype(complex),
        X + 1e-9j,
        X.astype(object),
        [Fraction(1, 2), Decimal(-2), 3.25],
        [np.array(x) for x in X],
        np.ma.masked_array(X),
        torch.tensor(X, requires_grad=True),
        torch.nn.Parameter(torch.tensor(X)),
    ],
)
def test_numbers_in_any_box_are_numbers(boxed: Any) -> None:
    assert compare(loads(dumps(boxed)), X) is None
    assert compare(loads(dumps(boxed)), X + 1) is not None


@pytest.mark.parametrize(
    "one",
    [3, True + 2, np.int8(3), np.float16(3), np.longdouble(3), 3 + 0j, np.array(3.0),
     np.complex64(3), torch.tensor(3), Fraction(3)],
)  # fmt: skip
def test_a_number_in_any_box_is_one(one: Any) -> None:
    assert compare(loads(dumps(one)), 3.0) is None


def test_whole_numbers_may_come_as_a_range() -> None:
    assert compare(loads(dumps(range(3))), np.arange(3)) is None


@pytest.mark.parametrize(
    "other", [X + 1e-3j, {1.0}, iter(X), X.astype(str), print, ...]
)
def test_what_is_no_number_is_none(other: Any) -> None:
    fault = compare(loads(dumps(other)), X)
    assert fault is not None and fault.kind == "type"


def test_an_answer_beside_its_cell_waits_for_a_person(
    marker: Marker, tmp_path: Path
) -> None:
    cells = solved(marker)
    k = at(cells, "every_visit")
    cells.insert(k + 1, {"cell_type": "markdown", "source": "Because.", "metadata": {}})
    record = graded(marker, cells, tmp_path)
    (row,) = [row for row in record.rows if row.task == "every_visit"]
    assert row.verdict == PENDING
    assert "Because." in record.answers["every_visit"]


def test_submissions_are_found_where_they_are_put(tmp_path: Path) -> None:
    for name in (f"ada/{NAME}/{NAME}", f"bob/{NAME}", f"cy/{NAME}/{NAME}"):
        path = tmp_path / f"{name}.ipynb"
        path.parent.mkdir(parents=True)
        path.write_text("{}")
    (tmp_path / "bob" / "01-weighted-td.ipynb").write_text("{}")
    (tmp_path / "cy" / NAME / f"{NAME} (1).ipynb").write_text("{}")
    (tmp_path / "README.txt").write_text("")
    found = {each.student: each.note for each in handed_in(tmp_path, NAME)}
    assert found == {
        "ada": "",
        "bob": "",
        "cy": f"Not read, beside it: {NAME} (1).ipynb.",
    }
    assert not grading.passed_over(tmp_path)


def test_what_lies_elsewhere_among_the_submissions_is_named(tmp_path: Path) -> None:
    strange = {
        f"ada/{NAME.upper()}/{NAME}.ipynb",
        "bob/homework.ipynb",
        "cy.zip",
        f"{NAME}.ipynb",
    }
    for name in (*strange, f"dan/{NAME}/{NAME}.ipynb", f"dan/{NAME}.ipynb", "list.txt",
                 f"dan/{NAME}/.ipynb_checkpoints/{NAME}.ipynb"):  # fmt: skip
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    assert set(grading.passed_over(tmp_path)) == strange


def test_two_gradings_of_a_course_do_not_meet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    course = open_course(tmp_path)
    (tmp_path / "submitted" / "ada" / NAME).mkdir(parents=True)
    with grading.alone(course):
        assert grading.main([f"--course={tmp_path}", "--unsafe", NAME]) == 1
    assert "is being graded already" in capsys.readouterr().err
    assert grading.main([f"--course={tmp_path}", "--unsafe", NAME]) == 0


def test_a_branch_without_a_return_is_not_an_empty_cell() -> None:
    key = Key(lambda x: x, lambda rng: [("", (1,)), ("two", (2,))], None)
    cases = hidden_cases(key, np.random.default_rng(0))
    some, none = Reply("value", 1), Reply("value", None)
    got = mark(3, key, cases, [some, none])
    assert (
        got.message
        == "Right on ordinary inputs, but not here: two. 1 of 2 inputs were right."
    )
    assert "return" in got.detail or got.kind == "edge case"
    assert mark(3, key, cases, [none, none]).kind == "not done"
    check = Check("f", key.cases, lambda value, x: value - x)
    assert check.verdict(lambda x: x if x == 1 else None).kind == "edge case"
    assert check.verdict(lambda x: None).kind == "not done"


def test_a_path_of_floats_is_called_by_its_kind() -> None:
    names = namespace(read_assignment("01-weighted-td"))
    path = names["two_orders"]

    def floats(*inputs: Any) -> Any:
        states, rewards = path(*inputs)
        return np.asarray(states, dtype=float), rewards

    assert names["check"].two_orders.verdict(floats).kind == "type"
