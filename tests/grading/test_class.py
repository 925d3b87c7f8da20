"""A class of one assignment, from honest to hostile: marks and lines, an interruption, tables, pages."""

import codecs
import copy
import csv
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any

import psutil
import pytest

from book.assignments.notebooks.checks.values import dumps
from book.tools.assignments import grade as grading
from book.tools.assignments import release, sandbox
from book.tools.assignments.course import numbers, open_course
from book.tools.assignments.marking import hidden_cases, read_submission
from book.tools.assignments.sandbox import available
from book.tools.assignments.source import (
    SOLUTION,
    Assignment,
    keys,
    read_assignment,
)
from book.tools.canonical import ROOT

NAME = "01-weighted-td"
SECRET = "a secret that the class never saw"
#: For each task. A machine that is busy with other things must still do what is right in that time.
SECONDS = 30
CODE = {
    "sharpen": 3,
    "softmax_update": 5,
    "causal_kernel": 5,
    "credit": 5,
    "two_orders": 4,
}
HAND = {"copies": 4, "in_the_end": 3}

pytestmark = pytest.mark.skipif(
    available() is not None, reason=f"no isolation: {available()}"
)

Notebook = dict[str, Any]


# --- Submissions -----------------------------------------------------------------------------------


def solution(assignment: Assignment, task: str) -> str:
    """The authors' solution, as a student would have typed it."""
    source = assignment.task(task).solution
    return SOLUTION.sub(lambda match: match[1].rstrip(), source + "\n")


def notebook(edition: Notebook, answers: dict[str, str]) -> Notebook:
    """What a student hands in who wrote these answers into the release."""
    found: Notebook = copy.deepcopy(edition)
    for each in found["cells"]:
        name = each["metadata"].get("nbgrader", {}).get("grade_id")
        if name in answers:
            each["source"] = answers[name]
    return found


def own_cell(notebook: Notebook, source: str, place: int = 2) -> Notebook:
    """The notebook with a cell that the student added, by default after the imports."""
    own = {"cell_type": "code", "source": source, "metadata": {}, "outputs": []}
    notebook["cells"].insert(place, own)
    return notebook


def named(notebook: Notebook, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(
        cell
        for cell in notebook["cells"]
        if cell["metadata"].get("nbgrader", {}).get("grade_id") == name
    )
    return found


@dataclass(frozen=True)
class Expected:
    """What a submission must come to: points of code, verdicts where not "right", words of its notes."""

    points: int
    verdicts: dict[str, str]
    notes: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()


FULL = sum(CODE.values())


def the_class(
    assignment: Assignment, edition: Notebook
) -> dict[str, tuple[Notebook | str, Expected]]:
    """Each student's file, and what it must come to."""
    right = {task: solution(assignment, task) for task in CODE}
    right |= {"copies": "Copies share the weight.", "in_the_end": "# both end there"}

    def book(**changed: str) -> Notebook:
        return notebook(edition, right | changed)

    def edited(task: str, old: str, new: str) -> Notebook:
        assert right[task].count(old) == 1
        return book(**{task: right[task].replace(old, new)})

    def off(size: float) -> Notebook:
        scale = f"return (1 + {size}) * (values + step_size * (weights @ delta))"
        return edited(
            "softmax_update", "return values + step_size * (weights @ delta)", scale
        )

    def lost(*tasks: str, kind: str, **more: Any) -> Expected:
        points = FULL - sum(CODE[task] for task in tasks)
        return Expected(points, dict.fromkeys(tasks, kind), **more)

    def body(task: str, line: str) -> str:
        head = right[task].split('"""')
        return f'{head[0]}"""{head[1]}"""\n    {line}\n'

    all_tasks = tuple(CODE)
    renamed = book()
    named(renamed, "credit")["metadata"]["nbgrader"]["grade_id"] = "my_credit"
    for gone in ("sharpen", "copies"):
        renamed["cells"].remove(named(renamed, gone))
    locked = book()
    locked["cells"][1]["source"] = "import numpy as np\nraise SystemExit"
    cheat = """
import numpy, ictd_lib, builtins
numpy.allclose = numpy.array_equal = lambda *a, **k: True
class check:
    sharpen = softmax_update = print
def assert_allclose(*a, **k): pass
builtins.abs = lambda *a: True
"""
    patched = """
import numpy as np, ictd_lib
ictd_lib.weighted_softmax_td = lambda *a, **k: np.full((100, 9), 1.0)
np.testing.assert_allclose = lambda *a, **k: None
"""
    loop, bomb = (
        "while True: pass",
        "b = []\n    while True: b.append(bytearray(10**8))",
    )
    forks = "import os\n    while True:\n        os.fork()"
    flood = "while True: print('x' * 10**6)"
    return {
        "perfect": (book(), Expected(FULL, {})),
        "empty": (notebook(edition, {}), lost(*all_tasks, kind="not done")),
        "partly": (
            edited("credit", "discount * after", "after"),
            lost("credit", kind="value", messages=("isn't right", "2 of 6")),
        ),
        "off by 1e-9": (off(1e-9), Expected(FULL, {})),
        "off by 1e-3": (off(1e-3), lost("softmax_update", kind="normalisation")),
        "loop": (
            book(sharpen=body("sharpen", loop)),
            lost("sharpen", kind="stopped", messages=("longer than 30 s",)),
        ),
        "memory": (
            book(sharpen=body("sharpen", bomb)),
            lost("sharpen", kind="", messages=("Memory|memory|longer",)),
        ),
        "forks": (
            book(sharpen=body("sharpen", forks)),
            lost("sharpen", kind="stopped", messages=("processes",)),
        ),
        "exit": (
            book(sharpen=body("sharpen", "import os; os._exit(0)")),
            lost("sharpen", kind="stopped", messages=("ended by itself",)),
        ),
        "output": (
            book(sharpen=body("sharpen", flood)),
            lost("sharpen", kind="stopped", messages=("wrote more than",)),
        ),
        "not JSON": (
            "this is my homework",
            lost(*all_tasks, kind="unreadable", notes=("isn't JSON",)),
        ),
        "no notebook": (
            '{"cells": 3}',
            lost(*all_tasks, kind="unreadable", notes=("no notebook",)),
        ),
        "renamed": (
            renamed,
            lost(
                "sharpen",
                kind="missing",
                notes=("'credit': renamed or deleted", "'sharpen': renamed or deleted"),
            ),
        ),
        "locked": (locked, Expected(FULL, {}, notes=("was changed (cell 2)",))),
        "helpers": (
            own_cell(notebook(edition, {}), cheat),
            lost(*all_tasks, kind="", notes=("replaces numpy.allclose",)),
        ),
        "patched": (
            own_cell(book(), patched, 3),
            Expected(FULL, {}, notes=("replaces ictd_lib.weighted_softmax_td",)),
        ),
        "no syntax": (
            book(sharpen="def sharpen(weights, sharpness)\n    return weights"),
            lost("sharpen", kind="missing", messages=("SyntaxError in line 1",)),
        ),
        "raises": (
            book(sharpen=body("sharpen", "raise ValueError(repr(weights.tolist()))")),
            lost("sharpen", kind="error", messages=("raised ValueError",)),
        ),
        "=cmd|' calc'!A0": (book(), Expected(FULL, {})),
        "Zoë 李\nsecond line": (book(), Expected(FULL, {})),
    }


def hand_in(folder: Path, student: str, content: Notebook | str) -> Path:
    place = folder / student / NAME
    place.mkdir(parents=True, exist_ok=True)
    path = place / f"{NAME}.ipynb"
    text = content if isinstance(content, str) else json.dumps(content)
    path.write_text(text, encoding="utf-8")
    return path


def grade(course: Path, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "book.tools.assignments.grade"]
    return subprocess.Popen(
        [*command, f"--course={course}", f"--seconds={SECONDS}", *more],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def rows(course: Path, name: str = NAME) -> list[dict[str, str]]:
    with (course / "marks" / f"{name}.csv").open(
        encoding="utf-8-sig", newline=""
    ) as file:
        return list(csv.DictReader(file))


@dataclass(frozen=True)
class Graded:
    """A class that was graded: twice interrupted, then to its end."""

    course: Path
    expected: dict[str, Expected]
    said: str
    seconds: float
    kept_after_kill: int


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Graded:
    course = tmp_path_factory.mktemp("course")
    (course / "secret.txt").write_text(SECRET + "\n")
    begin = time.perf_counter()
    assert release.main([str(course), NAME]) == 0
    handed_out = course / "release" / NAME / f"{NAME}.ipynb"
    edition = json.loads(handed_out.read_text("utf-8"))
    students = the_class(read_assignment(NAME), edition)
    for student, (content, _) in students.items():
        hand_in(course / "submitted", student, content)
    outside = tmp_path_factory.mktemp("outside")
    hand_in(outside, "x", students["perfect"][0])
    (course / "submitted" / "link").symlink_to(outside / "x")
    first = grade(course)
    while len(list((course / "records").rglob("*.json"))) < 3:
        assert first.poll() is None, first.stderr and first.stderr.read()
        time.sleep(0.1)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    kept = len(list((course / "records").rglob("*.json")))
    said, problems = (second := grade(course)).communicate()
    assert second.returncode == 0, problems
    took = time.perf_counter() - begin
    expected = {student: each for student, (_, each) in students.items()}
    return Graded(course, expected, said, took, kept)


def shown(student: str) -> str:
    name = student.replace("\n", "\\n")
    return f"'{name}" if name.startswith("=") else name


def of(found: list[dict[str, str]], student: str) -> list[dict[str, str]]:
    return [row for row in found if row["student"] == shown(student)]


def test_a_release_is_read_as_it_was_handed_out(graded: Graded) -> None:
    assignment = read_assignment(NAME)
    path = graded.course / "release" / NAME / f"{NAME}.ipynb"
    found = read_submission(path, assignment)
    assert (found.problem, found.notes) == ("", ())
    assert set(found.answers) == {task.name for task in assignment.tasks}
    own = [cell.source for cell in found.cells]
    assert own[0].startswith("import") and len(own) == 1 + len(CODE)


# --- Marks -----------------------------------------------------------------------------------------


def test_every_submission_gets_what_it_deserves_and_a_line(graded: Graded) -> None:
    found = rows(graded.course)
    for student, expected in graded.expected.items():
        code = [row for row in of(found, student) if row["kind"] == "code"]
        assert [row["task"] for row in code] == list(CODE), student
        said = f"{student}: {[(row['verdict'], row['message']) for row in code]}"
        assert sum(int(row["points"]) for row in code) == expected.points, said
        for row in code:
            lost = row["task"] in expected.verdicts
            wanted = expected.verdicts.get(row["task"], "right")
            assert int(row["out_of"]) == CODE[row["task"]]
            assert int(row["points"]) == (0 if lost else CODE[row["task"]]), said
            assert row["verdict"] == wanted or (not wanted and lost), said
            for message in expected.messages:
                assert not lost or re.search(message, row["message"]), said
        for note in expected.notes:
            assert note in code[0]["notes"], (student, code[0]["notes"])
        assert {row["isolated"] for row in code} == {"yes"}


def test_a_link_to_somewhere_else_is_not_followed(graded: Graded) -> None:
    found = of(rows(graded.course), "link")
    assert len(found) == len(CODE) + len(HAND)
    assert {row["verdict"] for row in found} == {"unreadable"}
    assert {row["points"] for row in found} == {"0"}


def test_the_class_is_graded_in_time_and_a_line_says_so(graded: Graded) -> None:
    assert graded.seconds < 300
    students = len(graded.expected) + 1
    done = students - graded.kept_after_kill
    line = f"{NAME}: {done} graded, {graded.kept_after_kill} as before"
    assert graded.said.startswith(line)
    assert graded.said.count("\n") == 1


def test_totals_have_a_row_for_each_student(graded: Graded) -> None:
    totals = rows(graded.course, "totals")
    assert len(totals) == len(graded.expected) + 1
    for student, expected in graded.expected.items():
        (row,) = of(totals, student)
        assert int(row["points"]) == expected.points
        assert int(row["out_of"]) == FULL + sum(HAND.values())


def test_no_cell_of_a_table_is_a_formula_or_a_second_line(graded: Graded) -> None:
    for path in [*graded.course.glob("marks/*.csv"), *graded.course.glob("hand/*.csv")]:
        text = path.read_text("utf-8-sig")
        assert path.read_bytes().startswith(codecs.BOM_UTF8)  # or Zoë becomes ZoÃ«
        for row in csv.reader(text.splitlines()):
            assert len(row) == len(text.splitlines()[0].split(","))
            assert not any(cell.startswith(("=", "+", "-", "@", "\t")) for cell in row)


# --- Interruptions -----------------------------------------------------------------------------------


def test_a_killed_run_leaves_what_an_undisturbed_one_does(
    graded: Graded, tmp_path: Path
) -> None:
    (tmp_path / "secret.txt").write_text(SECRET + "\n")
    open_course(tmp_path)
    some = ["empty", "partly", "renamed", "not JSON"]
    for student in some:
        shutil.copytree(
            graded.course / "submitted" / student, tmp_path / "submitted" / student
        )
    said, problems = grade(tmp_path).communicate()
    assert said.startswith(f"{NAME}: {len(some)} graded, 0 as before"), problems
    interrupted = rows(graded.course)
    assert rows(tmp_path) == [r for r in interrupted if r["student"] in some]


def test_a_second_call_grades_what_changed_and_what_a_person_marked_stays(
    graded: Graded, tmp_path: Path
) -> None:
    course = tmp_path / "course"
    some = ["empty", "partly", "perfect", "not JSON"]
    shutil.copytree(graded.course, course, symlinks=True)
    for place in course.glob("submitted/*"):
        if place.name not in some:
            place.unlink() if place.is_symlink() else shutil.rmtree(place)
    before = {path: path.stat().st_mtime_ns for path in course.glob("records/*/*")}
    tables = {path: path.read_bytes() for path in course.glob("marks/*")}
    said, _ = grade(course).communicate()
    assert said.startswith(f"{NAME}: 0 graded, {len(some)} as before")
    assert tables == {path: path.read_bytes() for path in course.glob("marks/*")}

    by_hand = course / "hand" / f"{NAME}.csv"
    lines = by_hand.read_text("utf-8-sig").splitlines()
    assert lines[0].startswith("student,task,title,out_of,points,comment")
    at = next(i for i, line in enumerate(lines) if line.startswith("perfect,copies"))
    lines[at] = lines[at].replace(",4,,,", ",4,2.5,=well & <b>done</b>,")
    by_hand.write_text("\n".join(lines) + "\n", "utf-8")
    written = by_hand.read_bytes()
    student = course / "submitted" / "partly" / NAME / f"{NAME}.ipynb"
    shutil.copy(course / "submitted" / "perfect" / NAME / f"{NAME}.ipynb", student)
    said, _ = grade(course).communicate()
    assert said.startswith(f"{NAME}: 1 graded, {len(some) - 1} as before")
    assert by_hand.read_bytes() == written
    changed = {
        path.stem for path, when in before.items() if path.stat().st_mtime_ns != when
    }
    assert changed == {"partly"}
    (row,) = [r for r in of(rows(course), "perfect") if r["task"] == "copies"]
    assert (row["points"], row["verdict"]) == ("2.5", "marked by hand")
    assert row["message"] == "'=well & <b>done</b>"
    (total,) = of(rows(course, "totals"), "perfect")
    assert float(total["points"]) == FULL + 2.5
    assert total["to_mark_by_hand"] == "1"
    (total,) = of(rows(course, "totals"), "partly")
    assert int(total["points"]) == FULL
    page = course / "feedback" / "perfect" / NAME / f"{NAME}.html"
    assert "=well &amp; &lt;b&gt;done&lt;/b&gt;" in page.read_text("utf-8")

    lines[at] = lines[at].replace(",2.5,", ",5,")
    by_hand.write_text("\n".join(lines) + "\n", "utf-8")
    ended = grade(course)
    _, problems = ended.communicate()
    assert ended.returncode == 1
    assert "got '5' points, expected a number from 0 to 4" in problems
    assert by_hand.read_text("utf-8").splitlines()[at] == lines[at]


def test_an_interruption_is_one_line_and_leaves_no_process(
    graded: Graded, tmp_path: Path
) -> None:
    (tmp_path / "secret.txt").write_text(SECRET + "\n")
    open_course(tmp_path)
    for student in ("loop", "perfect"):
        shutil.copytree(
            graded.course / "submitted" / student, tmp_path / "submitted" / student
        )
    process = grade(tmp_path)
    children: list[psutil.Process] = []
    while not any(each.name() == "bwrap" for each in children):
        assert process.poll() is None
        time.sleep(0.1)
        children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGINT)
    _, problems = process.communicate(timeout=20)
    assert process.returncode == 130
    lines = [
        line for line in re.split(r"[\r\n]+", problems) if "submission" not in line
    ]
    assert "".join(lines) == "Stopped: the next call goes on from here."
    _, alive = psutil.wait_procs(children, timeout=10)
    assert not alive


# --- Without isolation -------------------------------------------------------------------------------


def test_where_nothing_isolates_grading_refuses_and_unsafe_is_on_every_row(
    graded: Graded,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "secret.txt").write_text(SECRET + "\n")
    open_course(tmp_path)
    shutil.copytree(
        graded.course / "submitted" / "no syntax", tmp_path / "submitted" / "no syntax"
    )
    for module in (grading, sandbox):
        monkeypatch.setattr(module, "available", lambda: "no bubblewrap")
    assert grading.main(["--course", str(tmp_path)]) == 1
    said = capsys.readouterr().err
    assert "no bubblewrap" in said and "UNSAFE=1" in said and said.count("\n") == 1
    assert not (tmp_path / "marks").exists()
    assert grading.main(["--course", str(tmp_path), "--unsafe"]) == 0
    found = rows(tmp_path)
    assert {row["isolated"] for row in found} == {"no"}
    assert sum(int(row["points"] or 0) for row in found) == FULL - CODE["sharpen"]
    assert "some ran without isolation" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--course="], "say which course: make grade COURSE=folder"),
        (["--course=nowhere"], "is no course"),
        (["--course=.", "no-such"], "got 'no-such', expected some of"),
        (["--course=.", "--submissions="], "nothing to grade"),
        (["--course=.", "--submissions=away"], "there is no folder away"),
    ],
)
def test_what_was_asked_wrongly_is_said_in_a_line(
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    open_course(tmp_path)
    (tmp_path / "submitted").mkdir()
    monkeypatch.chdir(tmp_path)
    assert grading.main(arguments) == 1
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1


# --- Feedback --------------------------------------------------------------------------------------


def test_every_student_gets_a_page_that_gives_nothing_away(graded: Graded) -> None:
    assignment = read_assignment(NAME)
    course = open_course(graded.course)
    secrets = {SECRET}
    for task in assignment.tasks:
        match = SOLUTION.search(task.solution + "\n")
        assert match
        text = match[1] + task.hidden
        secrets |= {
            line.strip() for line in text.splitlines() if len(line.strip()) > 12
        }
    values: set[str] = set()
    for name, key in keys(assignment).items():
        for case in hidden_cases(key, numbers(course, NAME, name)):
            shown = dumps([case.arguments, case.expected])
            values |= set(re.findall(r"\d\.\d{4}", shown))
    pages = list(graded.course.glob("feedback/*/*/*.html"))
    assert len(pages) == len(graded.expected) + 1
    for page in pages:
        text = unescape(page.read_text("utf-8"))
        assert not [secret for secret in secrets if secret in text], page
        assert not values & set(re.findall(r"\d\.\d{4}", text)), page
        assert "http" not in text.replace("http-equiv", "")
        assert "<script" not in text
    assert len(values) > 100


def test_a_page_says_what_went_wrong(graded: Graded) -> None:
    def page(student: str) -> str:
        path = graded.course / "feedback" / student / NAME / f"{NAME}.html"
        return unescape(path.read_text("utf-8"))

    assert "Your function raised ValueError." in page("raises")
    assert "SyntaxError in line 1: def sharpen(weights, sharpness)" in page("no syntax")
    assert "22 of 29 points so far; 2 tasks to be marked" in page("perfect")
    assert "0 of 29 points<" in page("not JSON")
    assert "it isn't JSON" in page("not JSON")
    assert "longer than 30 s" in page("loop")
    assert "'sharpen': renamed or deleted" in page("renamed")
