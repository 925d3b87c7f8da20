"""The commands do what they say: a failure is seen, each time, and nothing is lost or skipped silently."""

import base64
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
import zlib
from pathlib import Path

import nbformat
import pytest

from book.tools import build, notebooks
from book.tools.canonical import ROOT, WIDGET_STATE, WIDGET_VIEW, canonical, to_text
from book.tools.format import format_chapter
from tests import stages

HEADER = "---\njupytext:\n  text_representation:\n    extension: .md\n    format_name: myst\n---\n\n"


def cell(code: str) -> str:
    return f"```{{code-cell}} ipython3\n{code}\n```\n\n"


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A book with no chapter yet."""
    for name in ("chapters", "notebooks"):
        (tmp_path / name).mkdir()
        monkeypatch.setattr(notebooks, name.upper(), tmp_path / name)
    monkeypatch.setattr(notebooks, "ASSIGNMENT_TEXTS", tmp_path / "assignments")
    monkeypatch.setattr(notebooks, "ASSIGNMENT_NOTEBOOKS", tmp_path / "assignments")
    (tmp_path / "assignments").mkdir()
    monkeypatch.setattr(notebooks, "STATUS", tmp_path / "status.json")
    monkeypatch.setattr(notebooks, "ROOT", tmp_path)
    (tmp_path / "ictd_lib").mkdir()
    return tmp_path


def chapter(folder: Path, *cells: str) -> Path:
    path = folder / "chapters" / "00-scratch.md"
    path.write_text(
        HEADER + "# Scratch\n\n" + "".join(map(cell, cells)), encoding="utf-8"
    )
    return folder / "notebooks" / "00-scratch.ipynb"


# --- Executing ---


def test_a_chapter_is_executed_once_and_again_when_it_or_the_library_changes(
    scratch: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = chapter(scratch, "import sys\nsys.executable", "print(object())")
    assert notebooks.main([]) == 0
    first = stored.read_text("utf-8")
    assert sys.executable in first.replace(str(Path.home()), "~") or "python" in first
    assert "at 0x0>" in first
    record = json.loads((scratch / "status.json").read_text("utf-8"))["00-scratch"]
    assert record["seconds"] > 0
    assert record["peak_megabytes"] > 20
    assert notebooks.main(["--check"]) == 0
    capsys.readouterr()
    assert notebooks.main([]) == 0
    assert "up to date" in capsys.readouterr().out
    (scratch / "ictd_lib" / "new.py").write_text("x = 1\n")
    assert notebooks.main(["--check"]) == 1
    assert notebooks.main([]) == 0
    assert notebooks.main(["--check"]) == 0
    assert stored.read_text("utf-8") == first


def test_an_assignment_beside_the_chapter_of_its_name_is_executed_with_its_checks(
    scratch: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chapter(scratch, "print(1)")
    folder = scratch / "assignments"
    cells = cell("from checks import own as check\nprint(check.answer)")
    (folder / "00-scratch.md").write_text(HEADER + "# Assignment\n\n" + cells)
    (folder / "checks").mkdir()
    for stem, text in (("own", "answer = 41"), ("other", ""), ("values", "")):
        (folder / "checks" / f"{stem}.py").write_text(text)
    assert notebooks.main([]) == 0
    stored = folder / "00-scratch.ipynb"
    assert "41\\n" in stored.read_text("utf-8")
    record = json.loads((scratch / "status.json").read_text("utf-8"))
    assert sorted(record) == ["00-scratch", "assignments/00-scratch"]
    (folder / "checks" / "other.py").write_text("x = 1")
    assert notebooks.main(["--check"]) == 0
    (folder / "checks" / "own.py").write_text("answer = 42")
    capsys.readouterr()
    assert notebooks.main(["--check"]) == 1
    assert capsys.readouterr().err.startswith("assignments/00-scratch: ")
    assert notebooks.main(["book/assignments/text/00-scratch.md"]) == 0
    assert "42\\n" in stored.read_text("utf-8")
    (folder / "00-scratch.md").unlink()
    assert notebooks.stray_notebooks() == ["assignments/00-scratch"]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("import warnings\nwarnings.warn('beware', stacklevel=1)", "beware"),
        ("import os\nos._exit(3)", "died"),
    ],
)
def test_a_failing_cell_is_named_and_the_old_notebook_kept(
    code: str, said: str, scratch: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = chapter(scratch, "1 + 1", code)
    stored.write_text("what was there before")
    for _ in range(2):  # a failure does not wear off
        assert notebooks.main(["--all"]) == 1
        message = capsys.readouterr().err
        assert "00-scratch.md, code cell 2" in message
        assert said in message
    assert stored.read_text() == "what was there before"
    assert not (scratch / "status.json").exists()


def test_an_edit_of_the_notebook_alone_is_not_lost(
    scratch: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = chapter(scratch, "1 + 1")
    assert notebooks.main([]) == 0
    edited = stored.read_text("utf-8").replace("# Scratch", "# Edited")
    stored.write_text(edited, encoding="utf-8")
    assert notebooks.main([]) == 1
    assert "was edited" in capsys.readouterr().err
    assert stored.read_text("utf-8") == edited
    assert notebooks.main(["--all"]) == 0
    assert "# Edited" not in stored.read_text("utf-8")


@pytest.mark.parametrize("changed", ["chapters/00-scratch.md", "ictd_lib/new.py"])
def test_a_change_during_the_execution_is_said_and_nothing_is_recorded(
    changed: str, scratch: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = f"with open({str(scratch / changed)!r}, 'a') as file:\n    _ = file.write('\\n# Edited')"
    stored = chapter(scratch, code)
    assert notebooks.main([]) == 1
    assert "changed during the execution" in capsys.readouterr().err
    assert not stored.exists()
    assert not (scratch / "status.json").exists()
    assert "# Edited" in (scratch / changed).read_text("utf-8")


def test_outputs_that_were_changed_by_hand_are_noticed(
    scratch: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = chapter(scratch, "print(41)")
    assert notebooks.main([]) == 0
    stored.write_text(stored.read_text("utf-8").replace("41\\n", "42\\n"), "utf-8")
    assert notebooks.main(["--check"]) == 1
    assert "changed after its execution" in capsys.readouterr().err
    record = json.loads((scratch / "status.json").read_text("utf-8"))
    del record["00-scratch"]["notebook"]  # as older versions wrote it
    assert notebooks.problem_with("00-scratch", record) is None


@pytest.mark.parametrize("name", ["status.json", "notebooks/00-scratch.ipynb"])
@pytest.mark.parametrize("content", ["<<<<<<< HEAD\n{}", "[]", '{"nbformat": 4}', ""])
def test_a_broken_file_is_named_in_one_line(
    name: str, content: str, scratch: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chapter(scratch, "1 + 1")
    (scratch / name).write_text(content)
    for arguments in ([], ["--check"]):
        assert notebooks.main(arguments) == 1
        (said,) = capsys.readouterr().err.strip().splitlines()
        assert f"book/{name}" in said


@pytest.mark.parametrize("delay", [0.2, 0.6, 1.2])
def test_ctrl_c_is_one_line_at_any_moment(delay: float, tmp_path: Path) -> None:
    """While it imports, and while the kernel starts; in a copy of the tree."""
    for name in ("book/tools", "ictd_lib"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for name in ("chapters", "notebooks"):
        (tmp_path / "book" / name).mkdir()
    chapter(tmp_path / "book", "import time\ntime.sleep(60)")
    # The clock starts when Python is up: how long that takes is another matter.
    program = (
        "import runpy; print(flush=True); "
        "runpy.run_module('book.tools.notebooks', run_name='__main__')"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(delay)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert process.returncode
    assert len(said.strip().splitlines()) == 1, said
    assert said.strip().startswith("Stopped.")


def test_ctrl_c_leaves_no_half_notebook_and_no_kernel(tmp_path: Path) -> None:
    """In a copy of the tree, since the signal goes to the whole command."""
    for name in ("book/tools", "ictd_lib"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for name in ("chapters", "notebooks"):
        (tmp_path / "book" / name).mkdir()
    stored = chapter(
        tmp_path / "book",
        "import os\nprint(os.getpid(), file=open('pid', 'w'))\nimport time\ntime.sleep(60)",
    )
    command = [sys.executable, "-m", "book.tools.notebooks"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    pid = tmp_path / "book" / "notebooks" / "pid"
    while process.poll() is None and not (pid.exists() and pid.read_text().strip()):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 130
    assert said.strip().splitlines() == [
        "Stopped. Notebooks that were finished are kept."
    ]
    assert not stored.exists()
    assert os.listdir(stored.parent) == ["pid"]  # noqa: PTH208
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


@pytest.mark.parametrize("arguments", [["--threads", "0"], ["99-nothing"]])
def test_a_wrong_argument_is_one_line(
    arguments: list[str], scratch: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chapter(scratch, "1")
    with pytest.raises(SystemExit):
        notebooks.main(arguments)
    assert arguments[-1] in capsys.readouterr().err.splitlines()[-1]


def test_a_folder_or_a_python_that_is_none_is_one_line(
    scratch: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = chapter(scratch, "1")
    stored.touch()
    with pytest.raises(SystemExit):
        notebooks.main(["--out", str(stored)])
    assert str(stored) in capsys.readouterr().err.splitlines()[-1]
    assert notebooks.main(["--all", "--python", "/nonexistent"]) == 1
    (said,) = capsys.readouterr().err.strip().splitlines()
    assert "/nonexistent" in said


# --- The stored form ---


def test_widgets_are_numbered_wherever_they_are_named() -> None:
    first, second = "c0ffee" * 5 + "00", "beef" * 8
    output = nbformat.v4.new_output(
        "display_data",
        {
            WIDGET_VIEW: {"model_id": second},
            "text/html": f"<div data-model='{second}'>",
        },
    )
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell("x", outputs=[output])]
    )
    state = {first: {"state": {"layout": f"IPY_MODEL_{second}"}}, second: {"state": {}}}
    notebook.metadata["widgets"] = {WIDGET_STATE: {"state": state}}
    text = to_text(canonical(notebook))
    assert first not in text
    assert second not in text
    assert text.count(f"{1:032x}") == 3
    assert text.count(f"{2:032x}") == 1
    assert WIDGET_VIEW not in text, "where there is HTML, that is what is stored"
    del output.data["text/html"]
    notebook.cells[0].outputs = [output]
    assert WIDGET_VIEW in to_text(canonical(notebook))


def test_cells_keep_their_names_when_one_is_added() -> None:
    cells = [nbformat.v4.new_markdown_cell(text) for text in ("a", "b", "b")]
    before = canonical(nbformat.v4.new_notebook(cells=cells))
    added = [nbformat.v4.new_code_cell("new"), *cells]
    after = canonical(nbformat.v4.new_notebook(cells=added))
    names = [c.id for c in before.cells]
    assert [c.id for c in after.cells][1:] == names
    assert len(set(names)) == 3


def test_a_picture_keeps_its_pixels_and_loses_its_remarks() -> None:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data))
            + kind
            + data
            + struct.pack(">I", zlib.crc32(kind + data))
        )

    start, end = chunk(b"IHDR", b"\0" * 13), chunk(b"IEND", b"")
    signature, note, pixels = (
        b"\x89PNG\r\n\x1a\n",
        chunk(b"tEXt", b"Software\0v"),
        chunk(b"IDAT", b"xy"),
    )
    png = base64.b64encode(signature + start + note + pixels + end).decode()
    output = nbformat.v4.new_output("display_data", {"image/png": png})
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell("x", outputs=[output])]
    )
    stored = base64.b64decode(canonical(notebook).cells[0].outputs[0].data["image/png"])
    assert stored == signature + start + pixels + end


def test_formatting_touches_the_code_of_a_chapter_only(
    scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = chapter(scratch, "x  =  1", "y = 2")
    path = scratch / "chapters" / f"{stored.stem}.md"
    text = path.read_text("utf-8").replace(
        "# Scratch", "# Scratch\n\nA formula  $x  =  1$."
    )
    path.write_text(text, encoding="utf-8")
    monkeypatch.setattr("book.tools.format.CHAPTERS", notebooks.CHAPTERS)
    assert format_chapter(stored.stem)
    assert path.read_text("utf-8") == text.replace("\nx  =  1\n", "\nx = 1\n")
    assert not format_chapter(stored.stem)


# --- Building and testing ---


def test_the_pages_depend_on_every_file_of_the_book_and_on_the_repository_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "ROOT", tmp_path)
    for name in ("book", "ictd_lib"):
        (tmp_path / name).mkdir()
    digests = [build.inputs_digest()]
    for name in ("_config.yml", "book/preface.md", "ictd_lib/chain.py"):
        (tmp_path / name).write_text("x")
        digests.append(build.inputs_digest())
    (tmp_path / "book" / "preface.md").rename(tmp_path / "book" / "start.md")
    digests.append(build.inputs_digest())
    monkeypatch.setenv("BOOK_REPOSITORY", "somewhere")
    digests.append(build.inputs_digest())
    assert len(set(digests)) == len(digests)
    assert build.inputs_digest() == digests[-1]


def test_a_build_that_failed_is_not_taken_for_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(build, "HTML", tmp_path / "html")
    monkeypatch.setattr(build, "STAMP", tmp_path / "digest")
    monkeypatch.setattr(build, "LOG", tmp_path / "log.txt")
    monkeypatch.setattr(notebooks, "main", lambda _: 0)
    build.LOG.write_text("WARNING: broken reference")

    build.HTML.mkdir()
    (build.HTML / "index.html").touch()
    for succeeds in (False, False, True, True):
        monkeypatch.setattr(build, "build", lambda result=succeeds: result)
        assert build.main() == int(not succeeds)
    assert capsys.readouterr().err.count("broken reference") == 2


def test_a_stage_that_fails_fails_the_run_and_the_others_still_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = stages.Stage("good", "does well", (f"{sys.executable} -c print(1)",))
    bad = stages.Stage("bad", "does not", (f"{sys.executable} -c print(1/0)",))
    monkeypatch.setattr(stages, "STAGES", (bad, good))
    monkeypatch.setattr(stages, "LOGS", tmp_path)
    assert stages.main([]) == 1
    shown = capsys.readouterr()
    assert "ZeroDivisionError" in shown.out
    assert shown.err.startswith("\nFailed: bad.")
    assert "good" in shown.out.split("ZeroDivisionError")[1]
    assert stages.main(["good"]) == 0


@pytest.mark.parametrize("builds", ["succeeds", "fails"])
def test_what_reads_the_site_waits_for_it(
    builds: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    site = tmp_path / "site"
    builder, reader = tmp_path / "builder.py", tmp_path / "reader.py"
    builder.write_text(
        f"import time\ntime.sleep(1)\nopen({str(site)!r}, 'w').close()\nassert {builds == 'succeeds'}\n"
    )
    reader.write_text(f"open({str(site)!r})\n")
    run = f"{sys.executable} {tmp_path}/"
    monkeypatch.setattr(stages, "LOGS", tmp_path)
    building = stages.Stage(stages.BUILDS_SITE, "", (f"{run}builder.py",))
    reading = stages.Stage("reads", "", (f"{run}reader.py",), reads_site=True)
    built, read = stages.run_all([building, reading], verbose=False)
    assert built.passed == (builds == "succeeds")
    assert read.passed
    (alone,) = stages.run_all([reading], verbose=True)
    assert alone.passed


def test_ctrl_c_begins_no_further_stage(tmp_path: Path) -> None:
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    program = tmp_path / "program.py"
    program.write_text(
        "import sys, time\nopen(sys.argv[1], 'w').close()\ntime.sleep(float(sys.argv[2]))\n"
    )
    main = (
        "import sys\nfrom pathlib import Path\nfrom tests import stages\n"
        f"stages.LOGS = Path({str(tmp_path)!r})\n"
        f"command = f'{{sys.executable}} {program} {tmp_path}/'\n"
        "stages.STAGES = tuple(stages.Stage(name, '', (f'{command}{name} {seconds}',))"
        " for name, seconds in [('first', 60), ('second', 60), ('third', 0)])\n"
        "stages.main([])\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", main],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    while process.poll() is None and not (first.exists() and second.exists()):
        time.sleep(0.05)
    time.sleep(0.2)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    process.communicate(timeout=20)
    assert first.exists()
    assert not third.exists()


@pytest.mark.parametrize("where", ["in a test", "at collection"])
def test_a_skip_is_a_failure_where_skips_are_forbidden(
    where: str, tmp_path: Path
) -> None:
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    body = (
        "def test_it():\n    pytest.skip('no browser')"
        if where == "in a test"
        else "pytest.skip('no browser', allow_module_level=True)"
    )
    (tmp_path / "test_it.py").write_text(
        f"import pytest\n{body}\n\ndef test_other():\n    pass\n"
    )
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(tmp_path),
        str(tmp_path),
    ]
    for forbidden in ("1", "0"):
        environment = os.environ | {"ICTD_FORBID_SKIPS": forbidden}
        done = subprocess.run(
            command,
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if forbidden == "1":
            assert done.returncode in {1, 2}, done.stdout
            assert "no browser" in done.stdout
        else:
            assert done.returncode in {0, 5}, done.stdout
