"""What `make assignments` hands out: whole, without solutions, runnable as it is, the same a second time."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import nbformat
import pytest
import yaml

from book.tools import notebooks
from book.tools.assignments import nbgrader, release
from book.tools.assignments.course import Course, open_course, write_config
from book.tools.assignments.marking import student_edition
from book.tools.assignments.source import graded
from book.tools.canonical import ROOT
from tests.grading.released import NAMES, assignment, course
from tests.project import binder

each = pytest.mark.parametrize("name", NAMES)


def student_notebook(name: str) -> Any:
    return nbformat.read(course().release(name) / f"{name}.ipynb", as_version=4)


def test_there_is_an_assignment_for_each_chapter() -> None:
    assert notebooks.chapter_names() == NAMES


@each
def test_a_release_is_the_notebook_and_the_checks_that_it_imports(name: str) -> None:
    files = {
        path.relative_to(course().release(name)).as_posix()
        for path in course().release(name).rglob("*")
        if path.is_file()
    }
    (own,) = files - {
        f"{name}.ipynb",
        *(f"checks/{stem}.py" for stem in ("__init__", "engine", "values")),
    }
    text = "\n".join(cell.source for cell in student_notebook(name).cells)
    assert f"from checks import {Path(own).stem}" in text


@each
def test_students_get_the_edition_that_grading_goes_by(name: str) -> None:
    cells = student_notebook(name).cells
    edition = student_edition(assignment(name))
    assert [cell.source.strip("\n") for cell in cells] == [g.source for g in edition]
    for cell in cells:
        assert cell.get("outputs", []) == []
        assert "### BEGIN" not in cell.source
    tasks = {task.name: task for task in assignment(name).tasks}
    points = [g["points"] for c in cells if (g := graded(c)).get("grade")]
    assert points == [task.points for task in tasks.values()]
    locked = [c for c in cells if graded(c).get("grade") and graded(c)["locked"]]
    assert len(locked) == sum(task.kind == "code" for task in tasks.values())


@each
def test_the_student_edition_runs_and_says_what_is_not_done_yet(name: str) -> None:
    """In a release's own folder; an error or a word to stderr would be an exception here."""
    notebooks.warm_fonts()
    notebook = student_notebook(name)
    run = notebooks.execute(name, notebook, folder=course().release(name))
    said = "".join(
        output.get("text", "")
        for cell in run.notebook.cells
        for output in cell.get("outputs", [])
    )
    for task in assignment(name).tasks:
        if task.kind == "code":
            assert f"{task.name}: not done yet." in said
    assert "Traceback" not in said


def test_the_binder_folder_holds_the_releases_a_page_and_the_library() -> None:
    folder = course().folder / "binder"
    for name in NAMES:
        one, two = folder / name, course().release(name)
        assert _contents(one) == _contents(two)
    (wheel,) = folder.glob("*.whl")
    members = zipfile.ZipFile(wheel).namelist()
    assert {member.partition("/")[0].partition("-")[0] for member in members} == {
        "ictd_lib"
    }
    theirs = yaml.safe_load((folder / "environment.yml").read_text("utf-8"))
    ours = yaml.safe_load((ROOT / "environment.yml").read_text("utf-8"))
    assert theirs["dependencies"][:-1] == ours["dependencies"][:-1]
    lines = theirs["dependencies"][-1]["pip"]
    assert lines == [*binder.pip_lines()[:-1], f"./{wheel.name}", release.NBGITPULLER]
    others = {path.name for path in folder.iterdir()} - set(NAMES)
    assert others == {wheel.name, "environment.yml", "README.md", "LICENSE"}


def test_binder_accepts_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binder, "ROOT", course().folder / "binder")
    assert binder.repo2docker_accepts()


def test_the_page_links_every_assignment_through_nbgitpuller() -> None:
    page = (course().folder / "binder" / "README.md").read_text("utf-8")
    links = re.findall(r"\[open\]\((\S+)\)", page)
    assert len(links) == len(NAMES)
    for name, link in zip(NAMES, links, strict=True):
        assert f"]({name}/{name}.ipynb)" in page
        parts = urlsplit(link)
        assert parts.netloc == "mybinder.org"
        assert parts.path == "/v2/gh/someone/autumn/main"
        (pull,) = parse_qs(parts.query)["urlpath"]
        assert pull.startswith("git-pull?")
        assert parse_qs(urlsplit(pull).query) == {
            "repo": ["https://github.com/someone/autumn"],
            "branch": ["main"],
            "urlpath": [f"lab/tree/autumn/{name}/{name}.ipynb"],
        }
    assert "Binder forgets" in page


@pytest.mark.parametrize(
    ("repository", "path"),
    [
        ("https://gitlab.com/a/b/c", "/v2/gl/a%2Fb%2Fc/main"),
        ("https://git.example.org/a/b", "/v2/git/https%3A%2F%2Fgit.example.org%2Fa%2Fb/main"),
    ],
)  # fmt: skip
def test_links_for_other_hosts_and_a_hub(repository: str, path: str) -> None:
    made = Course(
        *(Path("x"), "c", repository, "main", "https://mybinder.org"),
        *("https://hub.example.org", "s" * 16),
    )
    links = release.links(made, "01-x")
    assert urlsplit(links["Binder"]).path == path
    hub = urlsplit(links["JupyterHub"])
    assert hub.path == "/hub/user-redirect/git-pull"
    assert parse_qs(hub.query)["repo"] == [repository]
    assert "lab/tree/" in unquote(hub.query)


def _contents(folder: Path) -> dict[str, bytes]:
    """All files but what Python leaves where a notebook has run."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def _copy(tmp_path: Path) -> Path:
    shutil.copytree(course().folder, tmp_path / "course")
    return tmp_path / "course"


def test_a_second_call_changes_nothing_and_keeps_what_is_the_courses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = _copy(tmp_path)
    for path in (
        "submitted/ada/00-policy-evaluation/00-policy-evaluation.ipynb",
        "records/00-policy-evaluation/ada.json",
        "marks/00-policy-evaluation.csv",
        "feedback/ada/00-policy-evaluation/x.html",
        "binder/.git/HEAD",
        "binder/own.txt",
        "nbgrader_own.py",
    ):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("mine")
    before = _contents(folder)
    monkeypatch.setattr(nbgrader, "calls", lambda *_: pytest.fail("nothing to do"))
    assert release.main([str(folder)]) == 0
    after = _contents(folder)
    assert {name for name in before if after.get(name) != before[name]} == set()
    assert set(after) == set(before)


def test_what_a_trial_leaves_is_not_handed_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = _copy(tmp_path)
    for left in ("checks/__pycache__/x.pyc", ".ipynb_checkpoints/x.ipynb"):
        path = folder / "release" / NAMES[0] / left
        path.parent.mkdir(exist_ok=True)
        path.write_text("left")
    monkeypatch.setattr(nbgrader, "calls", lambda *_: [])
    assert release.main([str(folder)]) == 0
    handed_out = {path.name for path in (folder / "binder").rglob("*")}
    assert not handed_out & {"__pycache__", ".ipynb_checkpoints", "x.pyc"}


def test_what_is_missing_or_changed_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = _copy(tmp_path)
    shutil.rmtree(folder / "release" / NAMES[0])
    (folder / "source" / NAMES[1] / f"{NAMES[1]}.ipynb").write_text("{}")
    asked: list[str] = []

    def calls(_: Course, wanted: list[Any], __: Any) -> list[str]:
        asked.extend(arguments[0] for _, arguments in wanted)
        return ["no room on the disk"] * len(wanted)

    monkeypatch.setattr(nbgrader, "calls", calls)
    assert release.main([str(folder)]) == 1
    assert asked == NAMES[:2]
    said = capsys.readouterr().err
    assert f"{NAMES[0]}: no room on the disk" in said
    # What isn't released any more isn't published either.
    assert not (folder / "binder" / NAMES[0]).exists()
    assert (folder / "binder" / NAMES[2]).exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["99-nothing"], "got '99-nothing', expected one of"),
        ([NAMES[0]], "hub: got 3"),
    ],
)
def test_a_wrong_word_is_one_line(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if said.startswith("hub"):
        (tmp_path / "course.toml").write_text('name = "a"\nhub = 3\n')
    assert release.main([str(tmp_path), *arguments]) == 1
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert said in line


def test_no_course_and_no_environment_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        release.main([""])
    assert "COURSE=" in capsys.readouterr().err
    monkeypatch.setattr(nbgrader, "PROGRAMS", tmp_path / ".venv-nbgrader" / "bin")
    assert release.main([str(tmp_path / "course"), NAMES[0]]) == 1
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert "make .venv-nbgrader/.ready" in line


@each
def test_hidden_tests_hold_what_they_need_and_no_more(name: str) -> None:
    """The authors' functions of a task run by themselves: full points for themselves, none for nothing."""
    program = "import sys; sys.path.insert(0, sys.argv[1])\n" + "\n".join(
        f"names = {{}}\nexec({release.authors_text(assignment(name), task)!r}, names)\n"
        f"print(names['marked'](names[{task.name!r}], {task.points}, 7), "
        f"names['marked'](lambda *_: None, {task.points}, 7))"
        for task in assignment(name).tasks
        if task.kind == "code"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(course().release(name))],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"MPLBACKEND": "Agg"},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    said = [line for line in done.stdout.splitlines() if line[0].isdigit()]
    assert said == [f"{t.points} 0" for t in assignment(name).tasks if t.kind == "code"]


def test_the_secret_is_in_no_source_but_its_seeds_are() -> None:
    for name in NAMES:
        path = course().source(name) / f"{name}.ipynb"
        text = json.dumps(json.loads(path.read_text("utf-8")))
        assert course().secret not in text
        seeds = re.findall(r"\b\d{60,80}\b", text)
        assert len(set(seeds)) == sum(t.kind == "code" for t in assignment(name).tasks)


def test_another_name_of_the_course_reaches_nbgraders_settings(tmp_path: Path) -> None:
    made = open_course(tmp_path)
    write_config(made)
    before = (tmp_path / "nbgrader_config.py").read_text("utf-8")
    (tmp_path / "course.toml").write_text('name = "other"\n')
    write_config(open_course(tmp_path))
    after = (tmp_path / "nbgrader_config.py").read_text("utf-8")
    assert after == before.replace(repr(made.name), "'other'")
