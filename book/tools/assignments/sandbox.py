"""Run a submission where it can do no harm, and bring back the values of its functions.

A submission's process gets inputs only, and returns values as text (`runner`, beside this module, is
what runs there). This side never imports a student's code and believes nothing that comes back: a line
is the value that a function returned, or it is dropped. What is right, `marking` says.

On Linux the process is bubblewrap's: no network, no other files than the interpreter, the library,
the checks and its own job, all read-only, no process but its own, an empty environment; limits on
memory, files, processes, output and time. Elsewhere it runs only where the caller allows ``unsafe``.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class SandboxError(Exception):
    """A submission can't be run here, for a reason that isn't the student's."""


@dataclass(frozen=True)
class Limits:
    """What one process of a submission may use.

    Attributes
    ----------
    seconds : float
        By the clock: for the cells together, and again for each task. All processes of a submission
        together have four times as much.
    megabytes : int
        Of memory.
    output_megabytes : int
        What it may print, and what its values may take as text.
    file_megabytes : int
        Of each file it writes; four times as much for all together.
    processes : int
        Processes and threads.
    """

    seconds: float = 60
    megabytes: int = 3000
    output_megabytes: int = 8
    file_megabytes: int = 16
    processes: int = 64


@dataclass(frozen=True)
class Call:
    """What a task's function is called with: one tuple of arguments a case."""

    task: str
    function: str
    arguments: tuple[tuple[Any, ...], ...]


@dataclass(frozen=True)
class Job:
    """A submission: its cells (label, source), run in order in one IPython, then the calls."""

    cells: tuple[tuple[str, str], ...]
    calls: tuple[Call, ...]


@dataclass(frozen=True)
class Result:
    """What came of one call: a value, or an error in one line ("" if there was none)."""

    value: Any
    error: str


@dataclass(frozen=True)
class Outcome:
    """What came of a job.

    Attributes
    ----------
    results : dict
        Of each task, as many results as came back, in the order of its cases.
    cells : dict
        Label of each cell that failed, and its error in one line.
    notes : tuple of str
        What the submission did to its surroundings ("replaces numpy.allclose"), as far as it was
        seen, and "ran without isolation" where it did. No mark depends on them.
    ended : dict
        Of each task whose process didn't come to its end: why. The key "" stands for the cells; then all
        tasks are in it.
    """

    results: dict[str, tuple[Result, ...]]
    cells: dict[str, str]
    notes: tuple[str, ...]
    ended: dict[str, str]


def available() -> str | None:
    """None, or why submissions can't be isolated here."""
    raise NotImplementedError


def barriers() -> tuple[str, ...]:
    """What holds a submission here, a few words each."""
    raise NotImplementedError


def run(
    job: Job,
    limits: Limits = Limits(),  # noqa: B008
    *,
    python: str = sys.executable,
    library: Path,
    checks: Path,
    unsafe: bool = False,
) -> Outcome:
    """Run a submission.

    Parameters
    ----------
    job : Job
    limits : Limits
    python : str
        An interpreter that has numpy, IPython and whatever the cells import.
    library, checks : Path
        Folders of the packages ``ictd_lib`` and ``checks``.
    unsafe : bool
        Run it without isolation where it can't be had.

    Raises
    ------
    SandboxError
        If it can't be isolated here and `unsafe` isn't set, or if its process didn't start.
    """
    raise NotImplementedError
