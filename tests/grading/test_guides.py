"""The guides say what the assignments and the checks are: their numbers are made, their words compared."""

import ast
import inspect
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from book._ext.assignments import linked, statements, summary, total
from book.assignments.notebooks.checks import engine
from book.tools.assignments import grade
from book.tools.assignments.source import assignment_names, read_assignment
from book.tools.canonical import ROOT

BOOK = ROOT / "book"
ASSIGNMENTS = [read_assignment(name) for name in assignment_names()]


@pytest.mark.parametrize("name", assignment_names())
def test_what_a_task_comes_after_is_in_the_book(name: str) -> None:
    labels = statements()
    for task in read_assignment(name).tasks:
        assert not re.search(r"\d\.\d", linked(task.needs, labels)), task.needs


def test_a_statement_that_is_not_there_is_noticed() -> None:
    labels = {"Theorem 4.5": "thm-4-exact"}
    said = linked("Theorem 4.5 and Task 3", labels)
    assert said == "{prf:ref}`thm-4-exact` and Task 3"
    for other in ("Theorem 4.6", "Lemma 4.5"):
        with pytest.raises(ValueError, match=other):
            linked(other, labels)


def test_statements_are_numbered_as_in_the_book() -> None:
    """As Sphinx numbered them: what the page of chapter 5 was seen to show."""
    labels = statements()
    assert labels["Definition 5.1"] == "def-5-td"
    assert labels["Theorem 5.4"] == "thm-5-three"
    assert len(labels) == len(set(labels.values()))


def test_sums_are_those_of_the_tasks() -> None:
    tasks = [task for each in ASSIGNMENTS for task in each.tasks]
    assert total("points", ASSIGNMENTS) == str(sum(task.points for task in tasks))
    assert total("minutes", ASSIGNMENTS[:1]) == str(ASSIGNMENTS[0].minutes)
    assert total("tasks", ASSIGNMENTS) == str(len(tasks))
    with pytest.raises(ValueError, match="weeks"):
        total("weeks", ASSIGNMENTS)
    for each in ASSIGNMENTS:
        assert f"{each.points} points, {each.minutes} minutes" in summary(each)


def test_every_assignment_is_in_the_guide() -> None:
    text = (BOOK / "instructors.md").read_text("utf-8")
    for number, each in enumerate(ASSIGNMENTS):
        heading = f"### {number}. "
        assert text.count(heading) == 1
        section = text.partition(heading)[2].partition("\n### ")[0]
        assert f"{{plan}}`points {each.name}`" in section
        for word in ("*Aims*", "*Needs*", "What to ask"):
            assert word in section, (number, word)


def test_no_number_of_points_or_minutes_is_typed() -> None:
    for page in ("instructors", "students", "planning"):
        text = (BOOK / f"{page}.md").read_text("utf-8")
        assert not re.search(r"\b\d+ (points|tasks|hours)\b", text), page


def test_minutes_of_the_lecture_add_up() -> None:
    text = (BOOK / "instructors.md").read_text("utf-8")
    whole = re.search(r"\*\*In one lecture\*\* of (\d+) minutes", text)
    assert whole
    table = text[whole.end() :].partition("\n\nTasks")[0]
    minutes = [int(number) for number in re.findall(r"^\| (\d+) \|", table, re.M)]
    assert sum(minutes) == int(whole[1])


def test_students_read_about_every_kind_of_fault() -> None:
    text = (BOOK / "students.md").read_text("utf-8")
    rows = set(re.findall(r"^\| ([a-z ]+) \|", text, re.M))
    assert kinds() | {"normalisation", "not done yet", "right on all inputs"} <= rows


def kinds() -> set[str]:
    """Kinds that the engine gives by itself: the first of each pair of texts that it returns."""
    found = {engine.SIGN.kind, engine.AXIS.kind}
    for node in ast.walk(ast.parse(inspect.getsource(engine.Check))):
        match node:
            case ast.Tuple(elts=[ast.Constant(value=str(kind)), *_]):
                found.add(kind)
    return found - {""}


def test_kinds_are_found() -> None:
    assert {"shape", "type", "edge case", "side effect", "value", "error"} <= kinds()


def test_the_worked_example_is_about_what_is_there() -> None:
    """What the guide says to change, and in which file, occurs there."""
    guide = (BOOK / "instructors.md").read_text("utf-8")
    text = (BOOK / "assignments" / "text" / "05-emergence.md").read_text("utf-8")
    checks = BOOK / "assignments" / "notebooks" / "checks" / "emergence.py"
    for words, where in (
        (r"$\tfrac1{2n}", text),
        (".mean(axis=0)", text),
        ("mean over what?", checks.read_text("utf-8")),
    ):
        assert words in where
    assert r"$\tfrac1{2n}$" in guide
    assert ".mean(axis=0)" in guide
    for path in re.findall(
        r"`((?:book|tests)/[\w./-]+)`", guide.replace("NN-name", "05-emergence")
    ):
        assert (ROOT / path).exists(), path


def test_a_minute_is_what_a_submission_has() -> None:
    assert "has a minute for it" in (BOOK / "students.md").read_text("utf-8")
    assert grade.SECONDS == 60


def test_commands_are_those_of_the_makefile() -> None:
    """Each command of the guide is there, and so are the settings and options that it names."""
    guide = (BOOK / "instructors.md").read_text("utf-8")
    makefile = (ROOT / "Makefile").read_text("utf-8")
    commands = re.findall(r"\bmake ([a-z-]+)((?: [A-Z]+=[^\s`]+)*)", guide)
    targets = [name for name, _ in commands if f"\n{name}: " in makefile]
    assert {"assignments", "grade", "notebooks", "test-grading"} <= set(targets)
    for name in ["ASSIGNMENTS", "UNSAFE", *re.findall(r"([A-Z]+)=", guide)]:
        assert f"$({name})" in makefile or f"$(if $({name})" in makefile, name
    source = inspect.getsource(grade)
    for option in re.findall(r"(--[a-z]+) ", guide):
        assert f'"{option}"' in source, option


def test_make_grade_reads_its_course_and_options(tmp_path: Path) -> None:
    """As far as the command line: there is no course in that folder."""
    options = [
        "SUBMISSIONS=here",
        "ASSIGNMENTS=01-weighted-td 02-dual-head",
        "UNSAFE=1",
    ]
    command = ["make", "-n", "grade", f"COURSE={tmp_path}", *options]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    line = next(
        line for line in said.stdout.splitlines() if "assignments.grade" in line
    )
    arguments = shlex.split(line.partition("assignments.grade")[2])
    assert arguments[:2] == ["--course", str(tmp_path)]
    with pytest.raises(grade.GradeError, match="is no course"):
        grade._main(grade.parse(arguments))
    assert vars(grade.parse(arguments)) | {"seconds": 0, "python": ""} == {
        "course": str(tmp_path),
        "submissions": "here",
        "assignments": ["01-weighted-td", "02-dual-head"],
        "unsafe": True,
        "seconds": 0,
        "python": "",
    }
