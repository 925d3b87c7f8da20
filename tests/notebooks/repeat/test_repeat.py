"""Executing every chapter twice, with one thread and with two, gives the same bytes."""

import subprocess
import sys
from pathlib import Path

import pytest

from book.tools import notebooks
from book.tools.canonical import ROOT


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """Two fresh executions of all chapters, side by side."""
    folders = {
        threads: tmp_path_factory.mktemp(f"threads-{threads}") for threads in (1, 2)
    }
    notebooks.warm_fonts()
    processes = [
        subprocess.Popen(
            [
                *(sys.executable, "-m", "book.tools.notebooks"),
                *("--threads", str(threads), "--out", str(folder)),
            ],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for threads, folder in folders.items()
    ]
    outputs = [process.communicate()[0] for process in processes]
    for process, output in zip(processes, outputs, strict=True):
        assert process.returncode == 0, output
    return folders


@pytest.mark.parametrize("name", notebooks.chapter_names())
def test_one_and_two_threads_give_the_same_bytes(
    name: str, runs: dict[int, Path]
) -> None:
    one, two = (
        (runs[threads] / f"{name}.ipynb").read_text("utf-8") for threads in (1, 2)
    )
    assert one.splitlines() == two.splitlines()
    assert one == two
