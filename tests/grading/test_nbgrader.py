"""Plain nbgrader takes the course folder as it is: generate, autograde, feedback, export."""

import copy
import csv
import shutil
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

from book.tools.assignments import leaks, nbgrader, release
from book.tools.assignments.course import Course, open_course, write_config
from book.tools.assignments.source import graded
from tests.grading.released import assignment, course, hoard

NAME = "01-weighted-td"
#: A function that writes to stderr, and one that ends in an error: no points, and no word of what is hidden.
WRONG = {"sharpen": "import warnings\nwarnings.warn('beware')\nreturn weights"}


@pytest.fixture(scope="module")
def graded_course(tmp_path_factory: pytest.TempPathFactory) -> Course:
    """A copy of the course in which three students handed in, graded by nbgrader's own commands."""
    folder = tmp_path_factory.mktemp("nbgrader") / "course"
    shutil.copytree(course().folder, folder)
    made = open_course(folder)
    write_config(made)
    empty = nbformat.read(made.release(NAME) / f"{NAME}.ipynb", as_version=4)
    for student, notebook in {
        "ada": solved(empty),
        "ben": empty,
        "eve": changed(empty),
    }.items():
        path = made.submission(student, NAME)
        path.parent.mkdir(parents=True)
        nbformat.write(notebook, path)
    nbgrader.command(made, "autograde", NAME)
    nbgrader.command(made, "generate_feedback", NAME)
    nbgrader.command(made, "export", "--to", "grades.csv")
    return made


def solved(empty: Any) -> Any:
    """The student edition with the authors' solutions in it, and nothing else of theirs."""
    notebook = copy.deepcopy(empty)
    tasks = {task.name: task for task in assignment(NAME).tasks}
    for cell in notebook.cells:
        task = tasks.get(graded(cell).get("grade_id", ""))
        if task is not None:
            lines = task.solution.splitlines()
            cell.source = "\n".join(line for line in lines if "###" not in line)
    return notebook


def changed(empty: Any) -> Any:
    """Solved but for one function; a test cell that says that all is well."""
    notebook = solved(empty)
    for cell in notebook.cells:
        name = graded(cell).get("grade_id", "")
        if name in WRONG:
            head = cell.source[: cell.source.index('"""')]
            body = WRONG[name].replace("\n", "\n    ")
            cell.source = f"{head}{body}"
        elif name == "sharpen-test":
            cell.source = "3"
    return notebook


def test_marks_are_full_for_code_and_none_for_nothing(graded_course: Course) -> None:
    with (graded_course.folder / "grades.csv").open(encoding="utf-8") as file:
        rows = {
            row["student_id"]: row
            for row in csv.DictReader(file)
            if row["assignment"] == NAME
        }
    code = [task for task in assignment(NAME).tasks if task.kind == "code"]
    full = sum(task.points for task in code)
    lost = sum(task.points for task in code if task.name in WRONG)
    marks = {student: float(row["raw_score"]) for student, row in rows.items()}
    assert marks == {"ada": full, "ben": 0, "eve": full - lost}
    assert {float(row["max_score"]) for row in rows.values()} == {
        assignment(NAME).points
    }


def test_its_feedback_holds_nothing_that_is_hidden(graded_course: Course) -> None:
    for student in ("ada", "ben", "eve"):
        folder = graded_course.feedback(student, NAME)
        assert list(folder.glob("*.html"))
        own = graded_course.submission(student, NAME).read_text("utf-8")
        text = "\n".join(cell.source for cell in nbformat.reads(own, 4).cells)
        assert list(map(str, leaks.find(hoard(), [folder], own=[text]))) == []


def test_a_later_release_leaves_marks_and_submissions(graded_course: Course) -> None:
    before = (graded_course.folder / "gradebook.db").read_bytes()
    assert release.main([str(graded_course.folder), NAME]) == 0
    assert (graded_course.folder / "gradebook.db").read_bytes() == before
    assert graded_course.submission("ada", NAME).exists()


def test_its_kernel_is_the_books() -> None:
    (spec,) = Path(nbgrader.environment()["JUPYTER_PATH"]).rglob("kernel.json")
    assert sys.executable in spec.read_text("utf-8")


def test_a_command_that_fails_says_why(tmp_path: Path) -> None:
    made = open_course(tmp_path)
    write_config(made)
    with pytest.raises(nbgrader.NbgraderError, match="autograde"):
        nbgrader.command(made, "autograde", "99-nothing")


def test_settings_that_nbgrader_cannot_read_are_said(tmp_path: Path) -> None:
    made = open_course(tmp_path)
    (tmp_path / "nbgrader_config.py").write_text("1 / 0")
    with pytest.raises(nbgrader.NbgraderError, match="ZeroDivisionError"):
        nbgrader.calls(made, [("generate_assignment", [NAME, True, True])])
