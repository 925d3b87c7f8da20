"""What a trusted process makes of text that anyone may have written: cells, marks, tables, sentences."""

import json
import os
import re
import unicodedata
from dataclasses import replace
from pathlib import Path
from typing import Any

import jupytext
import numpy as np
import pytest

from book.assignments.notebooks.checks.values import Foreign
from book.tools.assignments import marking, tables
from book.tools.assignments.feedback import hand_page, student_page
from book.tools.assignments.marking import (
    Case,
    Reply,
    Submission,
    hidden_cases,
    mark,
    mark_functions,
    read_submission,
    student_edition,
    told,
)
from book.tools.assignments.source import Assignment, Key, parse
from book.tools.assignments.tables import Graded, Row

CODE_CELL = """```{{code-cell}} ipython3
---
nbgrader:
  grade: {grade}
  grade_id: {name}
  locked: {locked}
{points}  schema_version: 3
  solution: {solution}
  task: false
---
{source}
```
"""

TEXT = (
    """---
kernelspec:
  display_name: Python 3
  language: python
  name: python3
---

# Assignment 9: a sample

```{code-cell} ipython3
import numpy as np
```

## Task 1. Twice the mean
3 points · 10 minutes · easy · after Definition 1.3

"""
    + CODE_CELL.format(
        grade="false",
        name="twice",
        locked="false",
        points="",
        solution="true",
        source='''def twice(x):
    """Twice the mean."""
    ### BEGIN SOLUTION
    return 2 * x.mean()
    ### END SOLUTION''',
    )
    + "\n"
    + CODE_CELL.format(
        grade="true",
        name="twice-test",
        locked="true",
        points="  points: 3\n",
        solution="false",
        source="""print("try it")
### BEGIN HIDDEN TESTS
def twice_cases(rng):
    for n in (2, 7):
        yield "", (rng.standard_normal(n),)
    yield "a single number", (rng.standard_normal(1),)


### END HIDDEN TESTS""",
    )
    + """
```{code-cell} ipython3
shown = "given"
```

## Task 2. Why
2 points · 10 minutes · medium · after Theorem 1.6

Is $2 < 3$, and why?

+++ {"nbgrader": {"grade": true, "grade_id": "why", "locked": false, "points": 2, "schema_version": 3, "solution": true, "task": false}}

### BEGIN SOLUTION
Because the model says so.

**Rubric.** 1 point: because.
### END SOLUTION

+++

Done.
"""
)


@pytest.fixture(scope="module")
def assignment() -> Assignment:
    return parse("09-sample", jupytext.reads(TEXT, fmt="md:myst"))


def cell(
    source: str, name: str = "", kind: str = "code", **more: Any
) -> dict[str, Any]:
    grade = {"nbgrader": {"grade_id": name}} if name else {}
    return {"cell_type": kind, "source": source, "metadata": grade} | more


SETUP = cell("import numpy as np")
ANSWER = cell("def twice(x):\n    return 2 * x.mean()", "twice")
TEST = cell('print("try it")', "twice-test")
GIVEN = cell('shown = "given"')
WHY = cell("Because I say so.", "why", "markdown")


def read(assignment: Assignment, folder: Path, *cells: Any) -> Submission:
    path = folder / "handed.ipynb"
    path.write_text(json.dumps({"cells": list(cells)}), encoding="utf-8")
    return read_submission(path, assignment)


def sources(submission: Submission) -> list[str]:
    return [cell.source for cell in submission.cells]


# --- Reading ---------------------------------------------------------------------------------------


def test_the_student_edition_holds_nothing_that_is_hidden(
    assignment: Assignment,
) -> None:
    edition = student_edition(assignment)
    text = "\n".join(given.source for given in edition)
    for hidden in ("2 * x.mean", "twice_cases", "the model says", "Rubric", "###"):
        assert hidden not in text
    assert [given.role for given in edition if given.name] == [
        "solution",
        "test",
        "hand",
    ]
    assert "    # Your code here.\n    ..." in text
    assert edition == student_edition(assignment)  # its identities, too


def test_an_honest_notebook_runs_as_it_stands(
    assignment: Assignment, tmp_path: Path
) -> None:
    own = cell("helper = 3")
    read_as = read(assignment, tmp_path, SETUP, own, ANSWER, TEST, GIVEN, WHY)
    assert sources(read_as) == [c["source"] for c in (SETUP, own, ANSWER, GIVEN)]
    assert [each.where for each in read_as.cells] == [
        "cell 1",
        "cell 2",
        "cell 3",
        "cell 5",
    ]
    assert read_as.answers == {"twice": ANSWER["source"], "why": "Because I say so."}
    assert read_as.notes == () and read_as.problem == ""


def test_a_given_cell_counts_as_given(assignment: Assignment, tmp_path: Path) -> None:
    identity = next(
        g.identity for g in student_edition(assignment) if g.source == GIVEN["source"]
    )
    changed = cell("shown = 'mine'", id=identity)
    read_as = read(
        assignment,
        tmp_path,
        SETUP,
        ANSWER,
        cell("raise SystemExit", "twice-test"),
        changed,
        WHY,
    )
    assert sources(read_as) == [
        *(c["source"] for c in (SETUP, ANSWER)),
        "raise SystemExit",
        *("shown = 'mine'", GIVEN["source"]),
    ]
    assert [c.where for c in read_as.cells[-2:]] == ["cell 4", "cell 4, as given"]
    assert read_as.notes == (
        "The cell 'twice-test' was changed (cell 3): as given, it counts.",
        "The cell that was given was changed (cell 4): as given, it counts.",
    )


def test_what_a_person_marks_does_not_run(
    assignment: Assignment, tmp_path: Path
) -> None:
    plot = cell("while True: pass", "why")
    read_as = read(assignment, tmp_path, SETUP, ANSWER, TEST, GIVEN, plot)
    assert plot["source"] not in sources(read_as)
    assert read_as.answers["why"] == plot["source"]


def identity(assignment: Assignment, part: str) -> str:
    """The id of the cell of the student edition that has this in it."""
    (found,) = [g for g in student_edition(assignment) if part in g.source]
    return found.identity


def test_what_was_added_to_a_given_cell_is_not_lost(
    assignment: Assignment, tmp_path: Path
) -> None:
    more = "import numpy as np\nfrom numpy import mean"
    for setup in (
        cell(more, id=identity(assignment, "import numpy")),
        cell(more),  # of an editor that keeps no ids
        # merged with the cell of the task
        cell(f"{more}\n{ANSWER['source']}", id=identity(assignment, "import numpy")),
    ):
        read_as = read(assignment, tmp_path, setup, TEST, GIVEN, WHY)
        assert setup["source"] in sources(read_as)
        assert "import numpy as np" in sources(read_as)
    tried = cell("def helper(): ...\nprint('try it')", "twice-test")
    read_as = read(assignment, tmp_path, SETUP, ANSWER, tried, GIVEN, WHY)
    assert tried["source"] in sources(read_as)


STUB = cell("*Your answer here.*", "why", "markdown")
HEADING = cell(
    "## Task 2. Why\n2 points · 10 minutes · medium · after Theorem 1.6\n\nIs $2 < 3$, and why?",
    kind="markdown",
)


@pytest.mark.parametrize(
    ("cells", "answer"),
    [
        ((HEADING, STUB, cell("So.", kind="markdown")), "*Your answer here.*\n\nSo."),
        ((HEADING, cell("So.", kind="markdown"), STUB), "So.\n\n*Your answer here.*"),
        ((HEADING, STUB, cell("1 + 1")), "*Your answer here.*\n\n1 + 1"),
        ((HEADING, STUB, cell(" ")), "*Your answer here.*"),
        # What stands elsewhere is no answer.
        ((cell("1 + 1"), HEADING, STUB), "*Your answer here.*"),
        ((HEADING, STUB, cell("Done.", kind="markdown")), "*Your answer here.*"),
    ],
)
def test_an_answer_may_stand_beside_its_cell(
    cells: tuple[Any, ...], answer: str, assignment: Assignment, tmp_path: Path
) -> None:
    read_as = read(assignment, tmp_path, SETUP, ANSWER, TEST, GIVEN, *cells)
    assert read_as.answers["why"] == answer


def test_a_notebook_without_names_is_known_by_its_ids(
    assignment: Assignment, tmp_path: Path
) -> None:
    nameless = [
        cell(ANSWER["source"], id=identity(assignment, "def twice")),
        cell("So.", kind="markdown", id=identity(assignment, "Your answer here")),
    ]
    read_as = read(assignment, tmp_path, SETUP, nameless[0], GIVEN, nameless[1])
    assert read_as.answers == {"twice": ANSWER["source"], "why": "So."}


def test_a_picture_beside_the_cell_of_an_answer_is_part_of_it(
    assignment: Assignment, tmp_path: Path
) -> None:
    plot = cell("plot()", outputs=[{"data": {"image/png": "iVBORw0KGgoAAAA="}}])
    read_as = read(assignment, tmp_path, SETUP, ANSWER, TEST, GIVEN, STUB, plot)
    assert read_as.pictures == {"why": ("iVBORw0KGgoAAAA=",)}


@pytest.mark.parametrize("code", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_notebook_is_read_in_any_unicode_and_with_large_outputs(
    code: str, assignment: Assignment, tmp_path: Path
) -> None:
    path = tmp_path / "handed.ipynb"
    large = cell(
        "show()", outputs=[{"text": "x" * (50_000_000 if code == "utf-8" else 1)}]
    )
    text = json.dumps({"cells": [SETUP, large, ANSWER, TEST, GIVEN, WHY]})
    path.write_bytes(text.replace("\n", "\r\n").encode(code))
    read_as = read_submission(path, assignment)
    assert (read_as.problem, len(read_as.cells)) == ("", 4)


def test_a_file_that_would_fill_the_memory_is_not_read(
    assignment: Assignment, tmp_path: Path
) -> None:
    path = tmp_path / "handed.ipynb"
    path.write_text('{"cells": [' + "[]," * 5_000_000 + "0]}")
    assert "too many parts" in read_submission(path, assignment).problem


def test_deleted_cells_come_back_in_their_place(
    assignment: Assignment, tmp_path: Path
) -> None:
    read_as = read(assignment, tmp_path, ANSWER, cell("own = 1"))
    assert sources(read_as) == [
        "import numpy as np",
        ANSWER["source"],
        GIVEN["source"],
        "own = 1",
    ]
    assert len(read_as.notes) == 4
    assert "No cell is called 'why': renamed or deleted." in read_as.notes


def test_a_renamed_cell_still_runs(assignment: Assignment, tmp_path: Path) -> None:
    renamed = cell(ANSWER["source"], "mine")
    read_as = read(assignment, tmp_path, SETUP, renamed, TEST, GIVEN, WHY)
    assert ANSWER["source"] in sources(read_as)
    assert read_as.notes == ("No cell is called 'twice': renamed or deleted.",)


def test_a_cell_twice_runs_twice(assignment: Assignment, tmp_path: Path) -> None:
    read_as = read(
        assignment,
        tmp_path,
        SETUP,
        ANSWER,
        cell("twice = 3", "twice"),
        TEST,
        GIVEN,
        WHY,
    )
    assert sources(read_as)[1:3] == [ANSWER["source"], "twice = 3"]
    assert read_as.notes == ("Two cells are called 'twice': both count.",)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "isn't JSON"),
        (b"\xff\xfe\x00", "isn't JSON"),
        (b'{"cells": [', "isn't JSON"),
        (b"[" * 100_000, "isn't JSON"),
        (b'{"cells": ' + b"9" * 5000 + b"}", "isn't JSON"),
        (b"[]", "no notebook"),
        (b"null", "no notebook"),
        (b'{"worksheets": []}', "no notebook"),
        (b'{"cells": {}}', "no notebook"),
    ],
)
def test_what_is_no_notebook_is_said_in_a_line(
    content: bytes, words: str, assignment: Assignment, tmp_path: Path
) -> None:
    path = tmp_path / "handed.ipynb"
    path.write_bytes(content)
    assert words in read_submission(path, assignment).problem


def test_a_file_too_large_or_no_file_is_not_read(
    assignment: Assignment, tmp_path: Path
) -> None:
    path = tmp_path / "large.ipynb"
    with path.open("wb") as file:
        file.truncate(2**30)
    assert "1,024 MB" in read_submission(path, assignment).problem
    os.mkfifo(tmp_path / "pipe.ipynb")  # reading it would wait for ever
    assert (
        "no plain file" in read_submission(tmp_path / "pipe.ipynb", assignment).problem
    )
    (tmp_path / "link.ipynb").symlink_to("/etc/passwd")
    assert (
        "no plain file" in read_submission(tmp_path / "link.ipynb", assignment).problem
    )
    assert (
        "No such file" in read_submission(tmp_path / "none.ipynb", assignment).problem
    )


def test_a_notebook_of_odd_parts_is_read_as_far_as_it_goes(
    assignment: Assignment, tmp_path: Path
) -> None:
    odd = [
        None,
        3,
        {},
        {"cell_type": "code"},
        {"cell_type": "code", "source": 3, "metadata": [], "outputs": {}},
        {
            "cell_type": "code",
            "source": ["a = 1\n", None, "b = 2"],
            "metadata": {"nbgrader": 3},
        },
        {
            "cell_type": "code",
            "source": "s = '\ud800'",
            "metadata": {"nbgrader": {"grade_id": []}},
        },
    ]
    path = tmp_path / "handed.ipynb"
    path.write_text(json.dumps({"cells": [*odd, ANSWER]}))
    read_as = read_submission(path, assignment)
    assert sources(read_as)[:4] == [
        "import numpy as np",
        "a = 1\nb = 2",
        "s = '?'",
        ANSWER["source"],
    ]
    assert not read_as.problem


def test_pictures_are_png_and_nothing_else(
    assignment: Assignment, tmp_path: Path
) -> None:
    png = "iVBORw0KGgoAAAA="

    def out(data: Any) -> dict[str, Any]:
        return {"data": {"image/png": data}}

    bad = [out('iVBORw0KGgo"><script>'), out("R0lGODlh"), out(3), {"data": 3}, 3]
    plot = cell("plot()", "why", outputs=[*bad, *[out(png)] * 5])
    read_as = read(assignment, tmp_path, SETUP, ANSWER, TEST, GIVEN, plot)
    assert read_as.pictures == {"why": (png,) * 3}


# --- Marking ---------------------------------------------------------------------------------------


def add(x: np.ndarray, y: float) -> np.ndarray:
    return x + y


def add_cases(rng: np.random.Generator) -> list[tuple[str, tuple[Any, ...]]]:
    return [
        ("", (rng.standard_normal((2, 3)), 1.0)),
        ("", (rng.standard_normal((3, 3)), 2.0)),
        ("nothing added", (rng.standard_normal((2, 2)), 0.0)),
    ]


KEY = Key(add, add_cases, None)


@pytest.fixture
def cases() -> tuple[Case, ...]:
    return hidden_cases(KEY, np.random.default_rng(1))


def marked(cases: tuple[Case, ...], change: Any) -> marking.Mark:
    return mark(
        4, KEY, cases, [Reply("value", change(case.expected)) for case in cases]
    )


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        (lambda v: v, "right", "Right on every input."),
        (lambda v: v + 1e-9, "right", "Right"),
        (lambda v: v.tolist(), "right", "Right"),
        (lambda v: v + 1e-3, "value", "isn't right. 0 of 3"),
        (lambda v: -v, "sign", "opposite sign"),
        (lambda v: v.T, "axis", "Rows and columns"),
        (lambda v: 2 * v, "normalisation", "factor"),
        (lambda v: v[0], "shape", "hasn't the shape"),
        (lambda v: v * np.inf, "not finite", "aren't finite"),
        (lambda v: "a string", "type", "isn't of the type"),
        (lambda v: None, "not done", "Not done yet."),
        (lambda v: Foreign("ellipsis"), "not done", "Not done yet."),
        (lambda v: Foreign("my 0.123 class"), "type", "isn't of the type"),
        (lambda v: 10**400, "type", "isn't of the type"),
        (lambda v: [[[]]], "shape", "hasn't the shape"),
    ],
)
def test_a_mark_says_what_is_wrong_and_no_value(
    change: Any, kind: str, words: str, cases: tuple[Case, ...]
) -> None:
    got = marked(cases, change)
    assert got.kind == kind and words in got.message, got
    assert got.points == (4 if kind == "right" else 0) and got.out_of == 4
    assert "0.1" not in got.message


def test_all_or_nothing_and_an_edge_case_is_named(cases: tuple[Case, ...]) -> None:
    right = [Reply("value", case.expected) for case in cases]
    got = mark(4, KEY, cases, [*right[:2], Reply("value", -cases[2].expected)])
    assert (got.points, got.kind) == (0, "edge case")
    assert (
        got.message
        == "Right on ordinary inputs, but not here: nothing added. 2 of 3 inputs were right."
    )
    got = mark(4, KEY, cases, [right[0], Reply("value", -cases[1].expected), right[2]])
    assert (got.points, got.kind) == (0, "sign")


def test_what_did_not_come_back_was_stopped(cases: tuple[Case, ...]) -> None:
    right = Reply("value", cases[0].expected)
    got = mark(4, KEY, cases, [right])
    assert (got.points, got.kind) == (0, "stopped")
    got = mark(
        4, KEY, cases, [right, Reply("stopped", said="60 s", told="It took too long.")]
    )
    assert got.message == "It took too long. 1 of 3 inputs were right."
    assert mark(4, KEY, cases, []).points == 0
    with pytest.raises(ValueError, match=r"shorter|longer"):
        mark(4, KEY, cases, [right] * 4)


def test_where_several_answers_are_right_the_authors_accept(
    cases: tuple[Case, ...],
) -> None:
    def accept(value: Any, x: np.ndarray, y: float) -> str | None:
        x *= 0  # even an author's mistake doesn't reach the next submission
        return None if value > y else "too small"

    key = Key(add, add_cases, accept)
    open_cases = hidden_cases(key, np.random.default_rng(1))
    before = [case.arguments[0].copy() for case in open_cases]
    assert mark(4, key, open_cases, [Reply("value", 3.0)] * 3).points == 4
    got = mark(4, key, open_cases, [Reply("value", 1.5)] * 3)
    assert (got.points, got.kind) == (0, "too small")
    assert got.message == "Too small. 2 of 3 inputs were right."
    got = mark(4, key, open_cases, [Reply("value", {"a": []})] * 3)
    assert (got.points, got.kind) == (0, "type")
    for case, array in zip(open_cases, before, strict=True):
        assert np.array_equal(case.arguments[0], array)


def test_functions_of_this_process_are_marked_in_the_same_way(
    assignment: Assignment,
) -> None:
    def rng(_: str) -> np.random.Generator:
        return np.random.default_rng(2)

    def spoils(x: np.ndarray) -> float:
        x *= 2
        return float(x.mean())

    for function, kind in (
        (lambda x: 2 * x.mean(), "right"),
        (spoils, "right"),  # on a copy of its own
        (lambda x: x.mean(), "value"),
        (lambda x: x.mean() * (2 if x.size > 1 else 1), "edge case"),
        (lambda x: ..., "not done"),
        (lambda x: 1 / 0, "error"),
        (None, "missing"),
    ):
        got = mark_functions(assignment, {"twice": function}, rng)["twice"]
        assert got.kind == kind
        assert got.points == (3 if kind == "right" else 0)


def test_hidden_cases_arrive_as_they_would_in_another_process() -> None:
    key = Key(
        lambda pair, table: pair, lambda _: [("", ((1, 2), {3: np.float32(1)}))], None
    )
    (case,) = hidden_cases(key, np.random.default_rng(1))
    assert case.arguments == ([1, 2], {"3": 1.0})
    assert case.expected == [1, 2]


@pytest.mark.parametrize(
    ("error", "source", "words"),
    [
        ("ValueError: [0.123, 4.5]", "", "ValueError"),
        ("IndexError", "", "IndexError"),
        ("X0_123: here", "", "an error of its own kind"),
        ("SyntaxError: 0.123 (line 2)", "a\nif b\n", "SyntaxError in line 2: if b"),
        ("SyntaxError: 0.123 (line 9)", "a\nif b\n", "SyntaxError"),
        ("NameError: name 'k' is not defined", "k + 1", "NameError: k is not defined"),
        ("NameError: name 'v0_123' is not defined", "k + 1", "NameError"),
    ],
)
def test_of_an_error_a_student_reads_what_holds_no_input(
    error: str, source: str, words: str
) -> None:
    assert told(error, source) == words


# --- Tables and pages --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "shown", "file"),
    [
        ("ada", "ada", "ada"),
        ("ada.l@here-1", "ada.l@here-1", "ada.l@here-1"),
        ("Zoë", "Zoë", "Zoë"),
        ("a\nb", "a\\nb", "a-b-"),
        ("..", "..", "-"),
        (".hidden", ".hidden", "hidden-"),
        ("=1+1", "=1+1", "1-1-"),
        ("x" * 250, "x" * 250, "x" * 60 + "-"),
        (os.fsdecode(b"caf\xe9"), "caf\\xe9", "caf-"),
        ("a\u202eb", "a\\u202eb", "a-b-"),
        ("dot.", "dot.", "dot-"),
    ],
)
def test_a_name_prints_and_is_safe_as_a_file(name: str, shown: str, file: str) -> None:
    assert tables.shown(name) == shown
    found = tables.file_name(name)
    assert found == file or (found.startswith(file) and len(found) == len(file) + 10)
    assert len(found.encode()) < 200


def test_names_that_look_alike_have_files_of_their_own() -> None:
    names = ["a b", "a\nb", "a/b", "a-b", "=a-b", "-a-b"]
    assert len({tables.file_name(name) for name in names}) == len(names)


def graded(student: str, *rows: Row, **more: Any) -> Graded:
    given: dict[str, Any] = {"isolated": True, "notes": (), "told": ()} | more
    return Graded(
        student, tables.file_name(student), "09-sample", "d", rows=rows, **given
    )


CODE_ROW = Row("twice", "code", "Twice the mean", 3, 3, "right", "Right.")
HAND_ROW = Row(
    "why", "hand", "Why", None, 2, tables.PENDING, "A person marks this task."
)


def test_a_record_survives_its_file() -> None:
    record = graded(
        "ada", CODE_ROW, HAND_ROW, answers={"why": "so"}, pictures={"why": ("x",)}
    )
    stored = json.loads(json.dumps(record.as_json()))
    again = Graded.from_json(stored)
    assert again == replace(record, pictures={"why": ["x"]})
    assert (again.points, again.out_of, again.pending) == (3, 5, 1)


def test_hand_marks_are_merged_and_what_is_filled_in_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "hand.csv"
    ada, bob = graded("ada", CODE_ROW, HAND_ROW), graded("=bob", CODE_ROW, HAND_ROW)
    path.write_text(tables.hand_table([ada, bob], {}), "utf-8")
    text = path.read_text("utf-8")
    assert text.splitlines()[1].startswith("'=bob,why,Why,2,,,")
    # As a spreadsheet with a decimal comma stores it, a row for someone else added.
    text = text.replace("=bob,why,Why,2,,,", "=bob,why,Why,2,1.5,good,")
    text = text.replace(",", ";").replace("1.5", "1,5") + "eve;why;Why;2;1;;\n"
    path.write_text("\ufeff" + text, "utf-8")
    hand, problems = tables.read_hand(path)
    assert problems == []
    merged = tables.merge(bob, hand)
    assert (merged.rows[1].points, merged.rows[1].message) == (1.5, "good")
    assert merged.pending == 0 and tables.merge(ada, hand).pending == 1
    again = tables.hand_table([ada, bob, graded("cy", HAND_ROW)], hand).splitlines()
    assert any(line.startswith('\'=bob,why,Why,2,"1,5",good,') for line in again)
    assert any(line.startswith("eve,why,Why,2,1,") for line in again)
    assert any(line.startswith("cy,why,Why,2,,,") for line in again)


def test_what_a_spreadsheet_makes_of_names_loses_no_points(tmp_path: Path) -> None:
    names = ["007", "Zoë", "=bob"]
    records = [graded(name, HAND_ROW, answers={"why": name}) for name in names]
    text = tables.hand_table(records, {}).replace("why,Why,2,,,", "why,Why,2,1,,")
    for name in names:  # nothing that reads like a number
        assert not re.fullmatch(
            r"[\d.e+-]+",
            tables.answer_digest(graded(name, answers={"why": name}), "why"),
        )
    stored = text.replace("007,", "7,").replace("\n", "\r\n")
    path = tmp_path / "hand.csv"
    for content in (
        stored.encode("cp1252"),
        stored.encode("utf-16"),
        stored.replace("\r\n", "\r").encode("utf-8-sig"),
        unicodedata.normalize("NFD", stored).encode(),
    ):
        path.write_bytes(content)
        read, problems = tables.read_hand(path)
        hand, remarks = tables.settle(read, records)
        assert (problems, remarks) == ([], [])
        merged = [tables.merge(record, hand).rows[0] for record in records]
        assert [(row.points, row.detail) for row in merged] == [(1, "")] * 3
        assert tables.hand_table(records, hand).count("\n") == 4


def test_a_mark_that_counts_for_no_one_is_said(tmp_path: Path) -> None:
    path = tmp_path / "hand.csv"
    head = "student,task,title,out_of,points,comment,answer\n"
    path.write_text(f"{head}7,why,Why,2,1,,\nada,why,Why,2,,,\nada,why,Why,2,2,,\n")
    read, problems = tables.read_hand(path)
    assert problems == [f"{path}, line 4: 'ada' has 'why' twice"]
    both = [graded("07", HAND_ROW), graded("007", HAND_ROW)]
    hand, remarks = tables.settle(read, both)
    assert remarks == ["nobody called '7' handed 'why' in: the points count for no one"]
    assert tables.merge(both[0], hand).pending == 1


def test_columns_of_the_instructors_own_stay(tmp_path: Path) -> None:
    path = tmp_path / "hand.csv"
    path.write_text("who,student,task,out_of,points,\nmax,ada,why,2,1,\n")
    hand, _ = tables.read_hand(path)
    again = tables.hand_table([graded("ada", HAND_ROW), graded("cy", HAND_ROW)], hand)
    assert again.splitlines()[0] == ",".join([*tables.HAND, "who"])
    assert again.splitlines()[1] == "ada,why,,2,1,,,max"
    path.write_text("student,task,out_of,points\n" + '"' + "x" * 200_000)
    assert "field" in tables.read_hand(path)[1][0]


def test_an_answer_that_changed_after_it_was_marked_is_remarked_upon(
    tmp_path: Path,
) -> None:
    path = tmp_path / "hand.csv"
    before = graded("ada", HAND_ROW, answers={"why": "so"})
    path.write_text(tables.hand_table([before], {}).replace(",2,,,", ",2,2,,"), "utf-8")
    hand, _ = tables.read_hand(path)
    assert tables.merge(before, hand).rows[0].detail == ""
    after = graded("ada", HAND_ROW, answers={"why": "otherwise"})
    assert "changed since" in tables.merge(after, hand).rows[0].detail
    assert tables.merge(after, hand).rows[0].points == 2


@pytest.mark.parametrize("written", ["3", "-1", "two", "nan", "inf"])
def test_points_that_cannot_be_are_said_and_not_taken(
    written: str, tmp_path: Path
) -> None:
    path = tmp_path / "hand.csv"
    path.write_text(
        f"student,task,title,out_of,points,comment,answer\nada,why,Why,2,{written},,\n"
    )
    hand, problems = tables.read_hand(path)
    assert hand["ada", "why"].points is None
    assert problems == [
        f"{path}, line 2: got {written!r} points, expected a number from 0 to 2"
    ]


def test_a_table_of_other_columns_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "hand.csv"
    path.write_text("a,b\n1,2\n")
    _, problems = tables.read_hand(path)
    assert "got the columns ['a', 'b']" in problems[0]


def test_pages_escape_all_that_a_student_wrote(assignment: Assignment) -> None:
    attack = "<script>alert(1)</script><img src=x onerror=y>'\""
    row = replace(CODE_ROW, message=attack, verdict=attack, points=0)
    record = graded(attack, row, HAND_ROW, answers={"why": attack}, told=(attack,))
    for page in (student_page(assignment, record), hand_page(assignment, [record])):
        assert "<script" not in page and "<img" not in page
        assert "&lt;script&gt;" in page
        assert "default-src 'none'" in page


def test_only_the_page_for_the_grader_has_the_model_answer(
    assignment: Assignment,
) -> None:
    record = graded(
        "ada",
        CODE_ROW,
        HAND_ROW,
        answers={"why": "so"},
        notes=("detail 0.123",),
        told=("Cell 3 fails.",),
    )
    for_grader = hand_page(assignment, [record])
    assert "Because the model says so." in for_grader
    assert "<pre>Is $2 &lt; 3$, and why?</pre>" in for_grader
    page = student_page(assignment, record)
    assert "Cell 3 fails." in page
    assert "model says" not in page and "Rubric" not in page and "0.123" not in page
