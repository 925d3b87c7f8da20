"""What students get holds nothing that is hidden; whatever is planted, however it is wrapped, is found."""

import base64
import gzip
import html
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest

from book.tools.assignments import leaks
from book.tools.assignments.course import numbers, open_course, seed
from book.tools.assignments.source import keys
from book.tools.canonical import ROOT
from tests.grading.released import NAMES, assignment, course, hoard

NAME = "01-weighted-td"


def test_the_release_holds_nothing_that_is_hidden() -> None:
    folders = [course().folder / name for name in ("release", "binder")]
    assert list(map(str, leaks.find(hoard(), folders))) == []


def test_the_site_holds_nothing_that_is_hidden() -> None:
    site = ROOT / "_build" / "html"
    if not site.exists():
        pytest.skip("the site isn't built: make book")
    assert list(map(str, leaks.find(hoard(), [site]))) == []


def test_the_source_holds_all_of_it() -> None:
    """So the search would see a release that was made without hiding anything."""
    for name in NAMES:
        found = leaks.find(hoard(), [course().source(name)])
        kinds = {(leak.kind, leak.task) for leak in found}
        for task in assignment(name).tasks:
            where = f"{name}/{task.name}"
            if task.kind == "code":
                assert ("the solution", where) in kinds, where
                assert ("a hidden test", where) in kinds, where
                assert ("a seed", where) in kinds, where
            else:
                assert {("the model answer", where), ("the solution", where)} & kinds


def test_every_hidden_part_can_be_found() -> None:
    for name in NAMES:
        needles = list(leaks.needles(assignment(name)))
        for task, kind, _, _ in leaks.hidden_parts(assignment(name)):
            where = f"{name}/{task}"
            assert [n for n in needles if (n.kind, n.task) == (kind, where)], where


def hidden_line(kind: str) -> str:
    """A line that is hidden, as the authors wrote it."""
    wanted = {
        n.text
        for n in hoard().needles
        if n.kind == kind and n.code and n.task.startswith(NAME)
    }
    return next(
        line
        for _, k, code, text in leaks.hidden_parts(assignment(NAME))
        if k == kind and code
        for line in text.splitlines()
        if leaks.squeezed(line) in wanted
    )


def answer() -> str:
    """A model answer with its rubric, as the authors wrote it."""
    return next(
        text
        for _, kind, code, text in leaks.hidden_parts(assignment(NAME))
        if kind == "the model answer" and not code
    )


def expected(count: int) -> list[float]:
    """Values that the authors' solution gives on hidden cases."""
    key = keys(assignment(NAME))["softmax_update"]
    rng = numbers(course(), NAME, "softmax_update")
    value = key.solution(*next(iter(key.cases(rng)))[1])
    return [float(v) for v in np.ravel(value)[:count]]


def printed(values: list[float]) -> str:
    return "[" + " ".join(f"{value:.6g}" for value in values) + "]"


def notebook(**parts: object) -> str:
    cell = {"cell_type": "code", "source": ["x\n"], "metadata": {}, "outputs": []}
    return json.dumps({"cells": [cell | parts], "metadata": {}, "nbformat": 4})


def stream(text: str) -> list[object]:
    return [{"output_type": "stream", "name": "stdout", "text": [text]}]


def picture(text: str) -> list[object]:
    data = {"application/x": base64.b64encode(text.encode()).decode()}
    return [{"output_type": "display_data", "data": data, "metadata": {}}]


def coloured(code: str) -> str:
    return "".join(f"<span>{html.escape(sign)}</span>" for sign in code)


PLANTS: dict[str, tuple[str, Callable[[], str]]] = {
    "a solution in a cell": ("the solution", lambda: notebook(source=["def f():\n", hidden_line("the solution")])),
    "a solution with other spaces": ("the solution", lambda: hidden_line("the solution").replace(" ", "  ")),
    "a hidden test in an output": ("a hidden test", lambda: notebook(outputs=stream(hidden_line("a hidden test")))),
    "a hidden test in base64": ("a hidden test", lambda: notebook(outputs=picture(hidden_line("a hidden test")))),
    "a solution in coloured HTML": ("the solution", lambda: coloured(hidden_line("the solution"))),
    "a model answer on a page": ("the model answer", lambda: f"<p>{html.escape(answer()).replace(' ', '</b> <b>')}</p>"),
    "half a model answer": ("the model answer", lambda: " ".join(answer().split()[:14])),
    "a rubric in a link": ("the model answer", lambda: "data:text/plain," + quote(answer()[answer().index("**Rubric"):])),
    "a value with all digits": ("a hidden number", lambda: notebook(outputs=stream(repr(expected(1)[0])))),
    "values with six digits": ("expected values", lambda: notebook(outputs=stream(printed(expected(5))))),
    "the secret in metadata": ("the secret", lambda: notebook(metadata={"note": course().secret})),
    "a seed": ("a seed", lambda: f"default_rng({seed(course(), NAME, 'softmax_update')})"),
    "a seed in base16": ("a seed", lambda: f"{seed(course(), NAME, 'softmax_update'):x}"),
}  # fmt: skip


@pytest.mark.parametrize("wrapped", ["as it is", "in a wheel", "compressed"])
@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_leak_is_found(plant: str, wrapped: str, tmp_path: Path) -> None:
    kind, make = PLANTS[plant]
    path = tmp_path / "folder" / "file.txt"
    path.parent.mkdir()
    if wrapped == "as it is":
        path.write_text(make(), encoding="utf-8")
    elif wrapped == "compressed":
        path.write_bytes(gzip.compress(make().encode()))
    else:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("ictd_lib/x.py", make())
    found = leaks.find(hoard(), [tmp_path])
    assert kind in {leak.kind for leak in found}
    assert all(str(path) in leak.place for leak in found)
    assert course().secret not in "".join(map(str, found))


def test_what_a_student_wrote_is_no_leak_to_the_student(tmp_path: Path) -> None:
    line = hidden_line("the solution")
    (tmp_path / "page.html").write_text(f"<pre>{html.escape(line)}</pre>")
    assert leaks.find(hoard(), [tmp_path])
    assert leaks.find(hoard(), [tmp_path], own=[f"x = 1\n{line}\n"]) == []


def test_the_numbers_of_another_course_are_not_taken_for_its_own(
    tmp_path: Path,
) -> None:
    other = open_course(tmp_path / "other")
    text = notebook(outputs=stream(printed(expected(5))))
    (tmp_path / "x.ipynb").write_text(text)
    hidden = leaks.hoard(other, [assignment(NAME)])
    assert leaks.find(hidden, [tmp_path / "x.ipynb"]) == []


def test_the_command_says_what_it_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leaks, "hoard", lambda *_: hoard())
    (tmp_path / "x.txt").write_text("nothing")
    arguments = [str(course().folder), str(tmp_path)]
    assert leaks.main(arguments) == 0
    (tmp_path / "x.txt").write_text(hidden_line("a hidden test"))
    assert leaks.main(arguments) == 1
    assert f"a hidden test of {NAME}/" in capsys.readouterr().out
    assert leaks.main([*arguments[:1], str(tmp_path / "nothing")]) == 2
