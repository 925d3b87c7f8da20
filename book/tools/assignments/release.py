"""Hand out assignments: nbgrader's source, the student edition that nbgrader makes of it, a folder for Binder.

    python -m book.tools.assignments.release COURSE                  all assignments
    python -m book.tools.assignments.release COURSE 01-weighted-td   these

A second call does what is left to do. It writes source/, release/ and binder/, and touches nothing else of
the course: no submission, no record, no mark, no secret.
"""

import signal
import sys

if (
    __name__ == "__main__"
):  # the imports below take a second, in which Ctrl-C is one line, too
    signal.signal(signal.SIGINT, lambda *_: sys.exit("\nStopped."))

import argparse
import ast
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from tqdm import tqdm

from book.tools.assignments import nbgrader
from book.tools.assignments.course import (
    Course,
    CourseError,
    open_course,
    seed,
    write_config,
)
from book.tools.assignments.source import (
    HIDDEN,
    Assignment,
    AssignmentError,
    Task,
    assignment_names,
    graded,
    read_assignment,
)
from book.tools.canonical import ROOT, canonical, to_text
from book.tools.notebooks import check_files

#: What puts a release into a student's folder on Binder or a JupyterHub, and later corrections beside their work.
NBGITPULLER = "nbgitpuller==1.3.0"

# --- Source: what nbgrader grades with -----------------------------------------------------------

#: What plain nbgrader marks a task with, after the authors' functions. It prints a kind of fault and no value.
MARKED = '''

def marked(function, points, seed):
    """Points of a student's function: all of them, or 0."""
    import contextlib
    import io
    import warnings

    import numpy
    from checks.values import compare, dumps, loads

    def fault(arguments):
        given = loads(dumps(arguments))
        before = dumps(given)
        value = function(*given)
        if value is None or value is ...:
            return "not done"
        value = loads(dumps(value))
        arguments = loads(before)
{verdict}

    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        said = None
        for label, arguments in {cases}(numpy.random.default_rng(seed)):
            try:
                said = fault(arguments)
            except Exception as error:
                said = type(error).__name__
            if said:
                said += f" ({{label}})" if label else ""
                break
    print(said or "right")
    return 0 if said else points
'''

#: How it decides: by what the authors' function gives, or by what they accept.
EQUAL = """\
        found = compare(value, loads(dumps({solution}(*arguments))))
        return found and found.kind"""
ACCEPT = """\
        return {solution}_accept(value, *arguments)"""

# Lines without a word around the call: a traceback shows them, and nothing of what is hidden.
HIDDEN_CELL = """\
{visible}
### BEGIN HIDDEN TESTS
#
#
_authors = {{}}
exec(
    {text},
    _authors,
)
#
#
_authors["marked"]({name}, {points}, {seed})
### END HIDDEN TESTS"""


def source_notebook(course: Course, assignment: Assignment) -> Any:
    """The authors' notebook without outputs, its hidden parts under the course's numbers."""
    notebook = canonical(assignment.notebook)
    hidden = {f"{task.name}-test": task for task in assignment.tasks if task.hidden}
    for cell in notebook.cells:
        task = hidden.get(graded(cell).get("grade_id", ""))
        if task is not None:
            visible = HIDDEN.sub("", cell.source + "\n").strip()
            cell.source = HIDDEN_CELL.format(
                visible=visible,
                text=_literal(authors_text(assignment, task)),
                name=task.name,
                points=task.points,
                seed=seed(course, assignment.name, task.name),
            )
    return notebook


def authors_text(assignment: Assignment, task: Task) -> str:
    """The program that marks a task: the authors' functions that it needs, and `marked`."""
    statements = list(_statements(assignment, task))
    accept = f"{task.name}_accept"
    defined = {name for _, names, _ in statements for name in names}
    own = {task.name, f"{task.name}_cases", accept} & defined
    # Which statements are needed, and by what they name, which others.
    needed, kept = set(own), set[int]()
    while True:
        more = {
            number
            for number, (_, names, _) in enumerate(statements)
            if names & needed and number not in kept
        }
        if not more:
            break
        kept |= more
        needed |= {name for number in more for name in statements[number][2]}
    parts = [statements[number][0] for number in sorted(kept)]
    verdict = ACCEPT if accept in own else EQUAL
    marked = MARKED.format(
        cases=f"{task.name}_cases", verdict=verdict.format(solution=task.name)
    )
    return "\n".join([*parts, marked])


def _statements(
    assignment: Assignment, task: Task
) -> Iterator[tuple[str, set[str], set[str]]]:
    """Each statement of the authors' cells up to a task that defines something: text, names, what it uses."""
    for cell in assignment.notebook.cells:
        grade = graded(cell)
        if cell.cell_type == "code":
            source = cell.source
            if grade.get("grade"):
                hidden = HIDDEN.search(source + "\n")
                source = hidden[1] if hidden else ""
            lines = source.splitlines()
            for statement in ast.parse(source).body:
                names = _bound(statement)
                if names:
                    decorators = getattr(statement, "decorator_list", [])
                    first = min([statement, *decorators], key=lambda node: node.lineno)
                    text = lines[first.lineno - 1 : statement.end_lineno]
                    kept = [
                        line for line in text if not line.lstrip().startswith("###")
                    ]
                    used = {
                        node.id
                        for node in ast.walk(statement)
                        if isinstance(node, ast.Name)
                    }
                    yield "\n".join(kept), names, used
        if grade.get("grade_id") == f"{task.name}-test":
            return


def _bound(statement: ast.stmt) -> set[str]:
    """The names that a statement gives a meaning, or whose object it changes."""
    match statement:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return {each.asname or each.name.partition(".")[0] for each in names}
        case ast.Assign(targets=targets):
            pass
        case ast.AnnAssign(target=target) | ast.AugAssign(target=target):
            targets = [target]
        case _:
            return set()
    return {
        node.id
        for target in targets
        for node in ast.walk(target)
        if isinstance(node, ast.Name)
    }


def _literal(text: str) -> str:
    """A text as Python writes it, readable where that can be."""
    if "'''" in text or text.endswith(("'", "\\")):
        return repr(text)
    return f"r'''\n{text}\n'''"


def write_source(course: Course, assignment: Assignment) -> bool:
    """Write nbgrader's source of an assignment; tell whether there was anything to write."""
    folder = course.source(assignment.name)
    text = to_text(source_notebook(course, assignment))
    said = "\n".join(cell.source for cell in assignment.notebook.cells)
    files = {folder / f"{assignment.name}.ipynb": text} | {
        folder / "checks" / path.name: path.read_text("utf-8")
        for path in check_files(said)
    }
    checks = folder / "checks"
    stray = [path for path in checks.glob("*.py") if path not in files]
    for path in stray:
        path.unlink()
    changed = {
        path: text
        for path, text in files.items()
        if not path.exists() or path.read_text("utf-8") != text
    }
    for path, text in changed.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    return bool(changed or stray)


# --- Release: what nbgrader makes of it ----------------------------------------------------------


def complete(course: Course, name: str) -> bool:
    """Tell whether a release is there, as nbgrader made it of the present source."""
    stamp = course.folder / "source" / f".{name}.released"
    return (
        course.release(name).joinpath(f"{name}.ipynb").exists()
        and course.folder.joinpath("gradebook.db").exists()
        and stamp.exists()
    )


def make_release(course: Course, assignments: Sequence[Assignment]) -> dict[str, str]:
    """Write the sources, have nbgrader make the releases; return what went wrong, by assignment."""
    write_config(course)
    todo: list[str] = []
    for assignment in assignments:
        stamp = course.folder / "source" / f".{assignment.name}.released"
        if write_source(course, assignment):
            stamp.unlink(missing_ok=True)
        if not complete(course, assignment.name):
            todo.append(assignment.name)
    problems: list[str] = []
    if todo:
        with tqdm(
            total=len(todo), unit="assignment", desc="nbgrader", disable=None
        ) as bar:
            wanted = [("generate_assignment", [name, True, True]) for name in todo]
            problems = nbgrader.calls(course, wanted, bar.update)
    said = dict(zip(todo, problems, strict=True))
    for name in todo:
        if not said[name]:
            (course.folder / "source" / f".{name}.released").touch()
    return {name: problem for name, problem in said.items() if problem}


# --- Binder: what is published -------------------------------------------------------------------

README = """\
# {name}

Assignments for the book *Attention as Temporal-Difference Learning*. Each is a notebook that tells you, task
by task, whether your answer is right.

| Assignment | Points | Minutes |{head}
| ---------- | -----: | ------: |{rule}
{rows}

## Start

{online}On your own machine, with conda (Miniforge, for example), in this folder:

    conda env create -f environment.yml
    conda activate ictd
    pip install jupyterlab
    jupyter lab

With Python 3.11 or later and no conda: `python -m venv env`, activate it, and

    pip install {wheel} torch matplotlib ipykernel ipywidgets anywidget tqdm jupyterlab

Open the notebook in its folder, and leave the folder `checks` beside it.

## Check

Write where it says `# Your code here.` or *Your answer here.*, and run the cell below: it says "right", "not
done yet", or what kind of mistake it sees. It never says the right value, and other inputs are used when the
assignment is marked. Some tasks are answered in words, and read by a person.

Before you submit: *Kernel, Restart Kernel and Run All Cells*. Cells must not be deleted or renamed; you may
add some.

## Submit

Save the notebook and hand in that one file, under its own name, in the way that your course says.
{loss}"""

ONLINE = """\
In the browser, with nothing to install: follow the link of the assignment in the table.

"""

LOSS = """
**Binder forgets.** A session ends after some minutes without use, and your work is gone with it. Download the
notebook (*File, Download*) before you leave. To go on: open the link again and drag your file into the folder
of the assignment.
"""


def pull_query(course: Course, name: str) -> str:
    """What nbgitpuller is told: which repository, and which notebook to open."""
    folder = urlsplit(course.repository).path.rpartition("/")[2]
    return urlencode(
        {
            "repo": course.repository,
            "branch": course.branch,
            "urlpath": f"lab/tree/{folder}/{name}/{name}.ipynb",
        },
        quote_via=quote,
        safe="",
    )


def links(course: Course, name: str) -> dict[str, str]:
    """The links that open an assignment, by what they open it in; none without a repository."""
    if not course.repository:
        return {}
    parts = urlsplit(course.repository)
    path = parts.path.strip("/")
    kind = {"github.com": "gh", "gitlab.com": "gl"}.get(parts.netloc.lower())
    if kind == "gh":
        where = f"gh/{path}"
    elif kind == "gl":
        where = f"gl/{quote(path, safe='')}"
    else:
        where = f"git/{quote(course.repository, safe='')}"
    pull = f"git-pull?{pull_query(course, name)}"
    found = {}
    if course.binder:
        branch = quote(course.branch, safe="")
        found["Binder"] = (
            f"{course.binder}/v2/{where}/{branch}?urlpath={quote(pull, safe='')}"
        )
    if course.hub:
        found["JupyterHub"] = f"{course.hub}/hub/user-redirect/{pull}"
    return found


def readme(course: Course, assignments: Sequence[Assignment], wheel: str) -> str:
    """The page of the folder that is published."""
    kinds = list(links(course, assignments[0].name)) if assignments else []
    rows = []
    for assignment in assignments:
        path = f"{assignment.name}/{assignment.name}.ipynb"
        cells = [f"[{assignment.title}]({path})", assignment.points, assignment.minutes]
        cells += [f"[open]({link})" for link in links(course, assignment.name).values()]
        rows.append("| " + " | ".join(map(str, cells)) + " |")
    return README.format(
        name=course.name,
        head="".join(f" {kind} |" for kind in kinds),
        rule=" --- |" * len(kinds),
        rows="\n".join(rows),
        online=ONLINE if kinds else "",
        wheel=wheel,
        loss=LOSS if "Binder" in kinds else "",
    )


def environment(wheel: str) -> str:
    """The project's environment.yml, with a wheel of the library beside it in place of its source."""
    text = (ROOT / "environment.yml").read_text("utf-8")
    text = re.sub(r"\A(?:#.*\n)+", "", text)  # what it says of this repository
    before, local, after = text.partition("- -e .\n")
    if not local:
        raise CourseError("environment.yml: expected a line '- -e .'")
    indent = before.rpartition("\n")[2]
    return f"{before}- ./{wheel}\n{indent}- {NBGITPULLER} # opens the links of the README\n{after}"


def build_wheel(folder: Path) -> str:
    """Build the library's wheel into a folder; return its name."""
    command = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "-t",
        "wheel",
        "-d",
        str(folder),
    ]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise CourseError(f"the wheel of ictd_lib: {done.stderr.strip()[-300:]}")
    (wheel,) = folder.glob("*.whl")
    return wheel.name


def write_binder(course: Course, assignments: Sequence[Assignment]) -> Path:
    """Write the folder that is published: whole, then in place of the old one, whose .git stays."""
    target = course.folder / "binder"
    with tempfile.TemporaryDirectory(dir=course.folder, prefix=".binder-") as scratch:
        new = Path(scratch)
        wheel = build_wheel(new)
        for assignment in assignments:
            shutil.copytree(
                course.release(assignment.name),
                new / assignment.name,
                ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints"),
            )
        (new / "environment.yml").write_text(environment(wheel), encoding="utf-8")
        page = readme(course, assignments, wheel)
        (new / "README.md").write_text(page, encoding="utf-8")
        shutil.copy(ROOT / "LICENSE", new)
        target.mkdir(exist_ok=True)
        # What is the instructor's own in it stays: .git, and any file that is called otherwise.
        for old in [*target.glob("*.whl"), *target.glob("[0-9][0-9]-*")]:
            shutil.rmtree(old) if old.is_dir() else old.unlink()
        for path in new.iterdir():
            path.replace(target / path.name)
    return target


# --- Command line --------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="make assignments", description="Hand out assignments."
    )
    parser.add_argument("course", metavar="COURSE", help="the course's folder")
    parser.add_argument("names", nargs="*", metavar="ASSIGNMENT", help="default: all")
    options = parser.parse_args(arguments)
    if not options.course:
        parser.error("say which course: make assignments COURSE=folder")
    try:
        course = open_course(options.course)
        names = [Path(name).stem for name in options.names] or assignment_names()
        wanted = [read_assignment(name) for name in names]
        problems = make_release(course, wanted)
        for name, problem in problems.items():
            print(f"{name}: {problem}", file=sys.stderr)
        released = [
            read_assignment(name)
            for name in assignment_names()
            if complete(course, name)
        ]
        folder = write_binder(course, released)
    except (AssignmentError, CourseError, nbgrader.NbgraderError) as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped. Call it again to go on.", file=sys.stderr)
        return 130
    print(f"For students, to be published: {folder}")
    if not course.repository:
        print(
            f"Say in {course.folder / 'course.toml'} where, and call this again: the links are made of it."
        )
    return int(bool(problems))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main())
