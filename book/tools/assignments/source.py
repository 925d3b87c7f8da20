"""Read an assignment as its authors wrote it: tasks, solutions, hidden cases.

An assignment is a MyST notebook in book/assignments/text. Each task begins with a heading and a line
of facts,

    ## Task 2. One update, by hand
    3 points · 10 minutes · easy · after Definition 1.3

and then comes what is graded, in cells with nbgrader's metadata. A task in code is a *solution cell*
(`grade_id` is the name of the function, the solution lies between the marks) and a *test cell*
(`<name>-test`), whose hidden part defines `<name>_cases(rng)`, which yields `(label, arguments)`, and, where more
than one answer is right, `<name>_accept(value, *arguments)`, which returns None or says what is wrong. A
task graded by hand is one cell, Markdown or code, with points of its own.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jupytext
import numpy as np

from book.tools.canonical import ROOT

TEXT = ROOT / "book" / "assignments" / "text"
NOTEBOOKS = ROOT / "book" / "assignments" / "notebooks"

SOLUTION = re.compile(
    r"^ *### BEGIN SOLUTION\n(.*?)^ *### END SOLUTION *$", re.M | re.S
)
HIDDEN = re.compile(
    r"^### BEGIN HIDDEN TESTS\n(.*?)^### END HIDDEN TESTS *$", re.M | re.S
)
HEADING = re.compile(r"^## Task (?P<number>\d+)\. (?P<title>.+)\n+(?P<facts>.+)$", re.M)
FACTS = re.compile(
    r"^(?P<points>\d+) points? · (?P<minutes>\d+) minutes · (?P<difficulty>easy|medium|hard|open)"
    r" · after (?P<needs>.+)$"
)


class AssignmentError(Exception):
    """An assignment that isn't written as it must be: says which, where and why."""


@dataclass(frozen=True)
class Task:
    """One task.

    Attributes
    ----------
    name : str
        Of the function, or of the cell graded by hand.
    kind : {"code", "hand"}
        Marked by running it, or by a person.
    title : str
    points, minutes : int
    difficulty : {"easy", "medium", "hard", "open"}
    needs : str
        What of the book comes before it.
    statement : str
        What is asked, as Markdown: the text below the heading, hints and all.
    solution : str
        Source of the solution cell, with its marks.
    hidden : str
        What is hidden in the test cell; empty for a task graded by hand.
    """

    name: str
    kind: str
    title: str
    points: int
    minutes: int
    difficulty: str
    needs: str
    statement: str
    solution: str
    hidden: str


@dataclass(frozen=True)
class Assignment:
    """An assignment: its name, its title, its notebook, and its tasks in order."""

    name: str
    title: str
    notebook: Any
    tasks: tuple[Task, ...]

    @property
    def points(self) -> int:
        """Of all tasks."""
        return sum(task.points for task in self.tasks)

    @property
    def minutes(self) -> int:
        """Of all tasks."""
        return sum(task.minutes for task in self.tasks)

    def task(self, name: str) -> Task:
        """The task of a name."""
        return next(task for task in self.tasks if task.name == name)


def assignment_names() -> list[str]:
    """Names of all assignments, in order."""
    return sorted(path.stem for path in TEXT.glob("*.md"))


def read_assignment(name: str) -> Assignment:
    """Read an assignment.

    Raises
    ------
    AssignmentError
        If there is none of that name, or it isn't written as it must be.
    """
    path = TEXT / f"{name}.md"
    if not path.exists():
        raise AssignmentError(
            f"assignment: got {name!r}, expected one of {', '.join(assignment_names())}"
        )
    return parse(name, jupytext.reads(path.read_text("utf-8"), fmt="md:myst"))


def parse(name: str, notebook: Any) -> Assignment:
    """Find the tasks of a notebook; errors as in `read_assignment`."""
    title = next(
        (
            match[1]
            for cell in notebook.cells
            if (match := re.search(r"^# (.+)$", cell.source, re.M))
        ),
        None,
    )
    if title is None:
        raise AssignmentError(f"{name}: it has no title (a line `# ...`)")
    tasks = tuple(_tasks(name, notebook.cells))
    names = [task.name for task in tasks]
    for each in names:
        if names.count(each) > 1:
            raise AssignmentError(f"{name}: two tasks are called {each!r}")
    return Assignment(name, title, notebook, tasks)


def graded(cell: Any) -> dict[str, Any]:
    """Nbgrader's metadata of a cell; empty if it has none."""
    return dict(cell.metadata.get("nbgrader", {}))


def _tasks(name: str, cells: list[Any]) -> Iterator[Task]:
    facts: dict[str, str] | None = None
    waiting: tuple[dict[str, str], str, str] | None = None
    for cell in cells:
        if cell.cell_type == "markdown" and (match := HEADING.search(cell.source)):
            said = FACTS.match(match["facts"])
            if said is None:
                raise AssignmentError(
                    f"{name}, task {match['number']}: got {match['facts']!r}, expected "
                    "'3 points · 10 minutes · easy · after Definition 1.3'"
                )
            statement = cell.source[match.end() :].strip()
            facts = match.groupdict() | said.groupdict() | {"statement": statement}
        grade = graded(cell)
        if not grade or not (grade.get("solution") or grade.get("grade")):
            continue
        identity = str(grade["grade_id"])
        if facts is None:
            raise AssignmentError(
                f"{name}, cell {identity!r}: no task heading before it"
            )
        if grade.get("solution") and not SOLUTION.search(cell.source + "\n"):
            raise AssignmentError(
                f"{name}, cell {identity!r}: no solution between marks"
            )
        if grade.get("solution") and grade.get("grade"):
            yield _task(name, identity, facts, grade, (cell.source, ""))
            facts = None
        elif grade.get("solution"):
            waiting = (facts, identity, cell.source)
        elif waiting is None or identity != f"{waiting[1]}-test":
            raise AssignmentError(
                f"{name}, cell {identity!r}: the cell before it that has a solution must be "
                f"{identity.removesuffix('-test')!r}"
            )
        else:
            hidden = HIDDEN.search(cell.source + "\n")
            if hidden is None or f"def {waiting[1]}_cases(rng" not in hidden[1]:
                raise AssignmentError(
                    f"{name}, cell {identity!r}: no hidden `def {waiting[1]}_cases(rng)`"
                )
            solved, solution = waiting[1:]
            yield _task(name, solved, waiting[0], grade, (solution, hidden[1]))
            facts = waiting = None
    if waiting is not None:
        raise AssignmentError(f"{name}, cell {waiting[1]!r}: no test cell after it")


def _task(
    name: str,
    identity: str,
    facts: dict[str, str],
    grade: dict[str, Any],
    parts: tuple[str, str],
) -> Task:
    if int(facts["points"]) != grade.get("points"):
        raise AssignmentError(
            f"{name}, cell {identity!r}: got {grade.get('points')!r} points, expected "
            f"{facts['points']} as its heading says"
        )
    solution, hidden = parts
    return Task(
        identity,
        "code" if hidden else "hand",
        facts["title"],
        int(facts["points"]),
        int(facts["minutes"]),
        facts["difficulty"],
        facts["needs"],
        facts["statement"],
        solution,
        hidden,
    )


# --- Solutions and cases as functions --------------------------------------------------------------


@dataclass(frozen=True)
class Key:
    """What a task in code is marked with.

    Attributes
    ----------
    solution : callable
        The authors' function.
    cases : callable
        ``cases(rng)`` yields ``(label, arguments)``.
    accept : callable or None
        ``accept(value, *arguments)``: None, or what is wrong. Without it, a value must equal the solution's.
    """

    solution: Callable[..., Any]
    cases: Callable[[np.random.Generator], Any]
    accept: Callable[..., str | None] | None


def namespace(assignment: Assignment) -> dict[str, Any]:
    """Run the authors' notebook, in this process, without showing anything; return its names.

    Only cells that define something run: those with solutions, hidden parts, or no grade at all.
    """
    names: dict[str, Any] = {"__name__": assignment.name}
    if str(NOTEBOOKS) not in sys.path:
        sys.path.append(str(NOTEBOOKS))  # where `import checks` finds them
    for cell in assignment.notebook.cells:
        if cell.cell_type != "code":
            continue
        source = cell.source
        if graded(cell).get("grade"):
            hidden = HIDDEN.search(source + "\n")
            source = hidden[1] if hidden else ""
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(source, f"<{assignment.name}>", "exec"), names)  # our own text
    return names


def keys(assignment: Assignment, names: dict[str, Any] | None = None) -> dict[str, Key]:
    """What each task in code is marked with; `names` spares running the notebook again."""
    names = namespace(assignment) if names is None else names
    return {
        task.name: Key(
            names[task.name],
            names[f"{task.name}_cases"],
            names.get(f"{task.name}_accept"),
        )
        for task in assignment.tasks
        if task.kind == "code"
    }
