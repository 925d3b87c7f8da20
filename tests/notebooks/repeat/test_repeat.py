"""Executing a notebook again, with two threads, gives the same bytes: those stored, which one thread gave.

What shows what: `make notebooks` executes with one thread and stores what it got; tests/notebooks/pairs
shows that this was of the present text and library. nbval executes with one thread again and compares what
is said, not the pictures. Here everything is executed with two threads and compared to the byte. Where it
differs (bytes stored on another machine may, by how it smooths a picture's edges), it is executed with one
thread, too, and these two must have the same bytes; so must those of one chapter in any case.
"""

import base64
import io
import platform
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import Any

import matplotlib.image
import nbformat
import numpy as np
import pytest

from book.tools import notebooks
from book.tools.canonical import ROOT

# Executed with one thread, too, in any case: a quick one.
AGAIN = notebooks.chapter_names()[1]


def execute(names: list[str], threads: int, folder: Path) -> None:
    """Execute notebooks into a folder."""
    options = ["--threads", str(threads), "--out", str(folder)]
    done = subprocess.run(
        [sys.executable, "-m", "book.tools.notebooks", *options, *names],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Executions with two threads, in two rows side by side."""
    folder = tmp_path_factory.mktemp("two")
    notebooks.warm_fonts()
    names = notebooks.all_names()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda row: execute(row, 2, folder), (names[::2], names[1::2])))
    return folder


@pytest.mark.parametrize("name", notebooks.all_names())
def test_one_and_two_threads_give_the_same_bytes(
    name: str, fresh: Path, tmp_path: Path
) -> None:
    assert notebooks.read_status()[name]["threads"] == 1
    one, two = notebooks.notebook_path(name), fresh / f"{name}.ipynb"
    if name == AGAIN or one.read_bytes() != two.read_bytes():
        execute([name], 1, tmp_path)
        one = tmp_path / f"{name}.ipynb"
    assert one.read_text("utf-8").splitlines() == two.read_text("utf-8").splitlines()
    assert one.read_bytes() == two.read_bytes()


# The still picture of a figure that moves: an SVG, whose text another matplotlib writes otherwise.
STILL = re.compile(r'src="data:image/svg\+xml,[^"]*"')


def pixels(png: str) -> np.ndarray:
    return matplotlib.image.imread(io.BytesIO(base64.b64decode(png)), format="png")


def looks_like(png: str, other: str) -> bool:
    """Tell whether two pictures are one, but for how another machine smooths its edges."""
    ours, theirs = pixels(png), pixels(other)
    return (
        ours.shape == theirs.shape and np.abs(ours - theirs).mean(dtype=float) < 1 / 255
    )


def output_differences(fresh: Any, stored: Any, *, same_machine: bool) -> list[str]:
    """Say in which cells two executions of one notebook show something else."""
    differences = []
    for number, (cell, other) in enumerate(
        zip(fresh.cells, stored.cells, strict=True), start=1
    ):
        outputs, others = cell.get("outputs", []), other.get("outputs", [])
        if len(outputs) != len(others):
            differences.append(
                f"cell {number}: {len(outputs)} outputs, not {len(others)}"
            )
        for output, previous in zip(outputs, others, strict=False):
            ours, theirs = (
                dict(o.get("data", {"text": o.get("text")})) for o in (output, previous)
            )
            pngs = [data.pop("image/png", None) for data in (ours, theirs)]
            if not same_machine:
                for data in (ours, theirs):
                    data["text/html"] = STILL.sub("", data.get("text/html", ""))
                    data.pop("image/svg+xml", None)
            if ours != theirs:
                differences.append(f"cell {number}: {sorted(ours)}")
            if (pngs[0] is None) != (pngs[1] is None) or (
                pngs[0] and not looks_like(*pngs)
            ):
                differences.append(f"cell {number}: image/png")
    return differences


def executed_here(record: dict[str, Any]) -> bool:
    """Tell whether a recorded execution had this system, Python and these packages."""
    return (
        record["platform"] == f"{platform.system()} {platform.machine()}"
        and record["python"] == platform.python_version()
        and all(
            version(name).partition("+")[0] == recorded
            for name, recorded in record["packages"].items()
        )
    )


@pytest.mark.parametrize("name", notebooks.all_names())
def test_what_is_stored_is_what_the_text_gives(name: str, fresh: Path) -> None:
    again = nbformat.read(fresh / f"{name}.ipynb", as_version=4)
    stored = notebooks.read_notebook(name)
    same = executed_here(notebooks.read_status()[name])
    assert output_differences(again, stored, same_machine=same) == []


def test_pictures_of_something_else_are_seen() -> None:
    def png(value: float, width: int = 8) -> str:
        file = io.BytesIO()
        matplotlib.image.imsave(file, np.full((8, width, 3), value), format="png")
        return base64.b64encode(file.getvalue()).decode()

    def notebook(**data: str) -> Any:
        kinds = {f"{kind.replace('_', '/')}": value for kind, value in data.items()}
        output = nbformat.v4.new_output("display_data", kinds)
        return nbformat.v4.new_notebook(
            cells=[nbformat.v4.new_code_cell("x", outputs=[output])]
        )

    assert looks_like(png(0.5), png(0.501))
    assert not looks_like(png(0.5), png(0.6))
    assert not looks_like(png(0.5), png(0.5, width=9))
    still = '<img src="data:image/svg+xml,{}">'.format
    for same in (True, False):
        shown = notebook(image_png=png(0.5), text_html=still(1), text_plain="1")
        for other, differs in [
            (notebook(image_png=png(0.5), text_html=still(1), text_plain="1"), False),
            (notebook(image_png=png(0.7), text_html=still(1), text_plain="1"), True),
            (notebook(text_html=still(1), text_plain="1"), True),
            (notebook(image_png=png(0.5), text_html=still(1), text_plain="2"), True),
            (notebook(image_png=png(0.5), text_html="<p>1</p>", text_plain="1"), True),
            (notebook(image_png=png(0.5), text_html=still(2), text_plain="1"), same),
        ]:
            assert bool(output_differences(shown, other, same_machine=same)) == differs
