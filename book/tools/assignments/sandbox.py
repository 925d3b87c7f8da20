"""Run a submission where it can do no harm, and bring back the values of its functions.

A submission's process gets inputs only, and returns values as text: `runner` is what runs there, `isolation`
and `cgroup` are what holds it, `record` takes what it says. This side never imports a student's code. What
is right, `marking` says.

If a process dies or hangs in one task, the tasks after it run in a new one.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from book.assignments.notebooks.checks.values import encode

from .cgroup import MEGABYTE, Group, parents
from .isolation import (
    RUNNER,
    SandboxError,
    available,
    barriers,
    bubblewrap,
    environment,
    private_folder,
)
from .record import Call, Job, Record, Result, clean

__all__ = [
    "NOT_ISOLATED",
    "Call",
    "Job",
    "Limits",
    "Outcome",
    "Result",
    "SandboxError",
    "available",
    "barriers",
    "run",
]

#: Seconds until the interpreter is up; nothing of the student's runs before.
STARTING = 120.0

#: All of a submission's processes together run this many times as long as one task may.
ALTOGETHER = 4

#: Seconds between two looks at the clock and at the control group.
TICK = 0.1

NOT_ISOLATED = "ran without isolation"

#: Modules of `checks` that a submission finds as students have them; the runner needs them.
KEPT = ("__init__.py", "engine.py", "values.py")

#: All others. What a check knows of a right answer would let a general solver answer for the student.
SILENT = '''"""Where marks are made, nothing is checked."""


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return lambda *_, **__: None
'''


@dataclass(frozen=True)
class Limits:
    """What one process of a submission may use.

    Attributes
    ----------
    seconds : float
        By the clock: for the cells together, and again for each task. A cell that takes half of what
        is left is interrupted, and the others run. All processes of a submission together have four
        times as much.
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
        Of each task whose process didn't come to its end: why. The key "" stands for the cells: without
        them no task can be run, and all that were left are in it.
    """

    results: dict[str, tuple[Result, ...]]
    cells: dict[str, str]
    notes: tuple[str, ...]
    ended: dict[str, str]


def run(
    job: Job,
    limits: Limits = Limits(),
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
    lacking = available()
    if lacking is not None and not unsafe:
        raise SandboxError(lacking)
    names = [call.task for call in job.calls]
    if len(set(names)) != len(names):
        raise ValueError(f"each task once, got {names}")
    packages = {"ictd_lib": library, "checks": checks}
    place = _Place(python, packages, isolated=lacking is None)
    results: dict[str, tuple[Result, ...]] = dict.fromkeys(names, ())
    cells: dict[str, str] = {}
    notes = [] if place.isolated else [NOT_ISOLATED]
    ended: dict[str, str] = {}
    left = ALTOGETHER * limits.seconds
    due = job.calls
    while True:
        record = Record(Job(job.cells, due))
        reason, seconds = _process(place, record, limits, left)
        left -= seconds
        for call, came in zip(due, record.results, strict=True):
            results[call.task] = tuple(came)
        cells = record.cells | cells
        notes += record.notes
        if reason is None:
            break
        if not record.cells_done:
            ended |= dict.fromkeys(["", *(call.task for call in due)], reason)
            break
        ended[due[record.at].task] = reason
        due = due[record.at + 1 :]
        if left <= 0:
            ended |= dict.fromkeys([call.task for call in due], _too_long(limits))
            break
        if not due:
            break
    return Outcome(results, cells, tuple(dict.fromkeys(notes)), ended)


@dataclass(frozen=True)
class _Place:
    """Where a submission runs, and with what."""

    python: str
    packages: dict[str, Path]
    isolated: bool

    def command(self, folder: Path, job: Job, limits: Limits) -> list[str]:
        """Write a job into a folder, and give what runs it, but for the number of the pipe."""
        bounds = {
            "RLIMIT_AS": limits.megabytes * MEGABYTE,
            "RLIMIT_FSIZE": limits.file_megabytes * MEGABYTE,
            "RLIMIT_CPU": int(ALTOGETHER * limits.seconds) + 60,
            "RLIMIT_CORE": 0,
            "RLIMIT_NOFILE": 256,
        }
        file = folder / "job.json"
        packages = self.packages | {
            "checks": _silenced(self.packages["checks"], folder / "checks")
        }
        if self.isolated:
            inside = Path("/job/packages")
            bounds["RLIMIT_NPROC"] = limits.processes
            file.write_text(json.dumps(_described(job, limits, bounds, inside)))
            mounts = {f"{inside}/{name}": at for name, at in packages.items()}
            mounts |= {"/job/job.json": file, "/job/runner.py": RUNNER}
            start = bubblewrap(self.python, mounts, 4 * limits.file_megabytes)
            return [*start, "-I", "-B", "/job/runner.py", "/job/job.json"]
        beside = folder / "packages"
        beside.mkdir()
        for name, at in packages.items():
            (beside / name).symlink_to(at.resolve())
        file.write_text(json.dumps(_described(job, limits, bounds, beside)))
        return [self.python, "-I", "-B", str(RUNNER), str(file)]


def _silenced(checks: Path, folder: Path) -> Path:
    """Write `checks` without what its checks know."""
    folder.mkdir()
    for path in checks.glob("*.py"):
        text = path.read_text("utf-8") if path.name in KEPT else SILENT
        (folder / path.name).write_text(text, encoding="utf-8")
    return folder


def _described(
    job: Job, limits: Limits, bounds: dict[str, int], packages: Path
) -> dict[str, Any]:
    """What the runner is told: inputs, and nothing that says what is right."""
    calls = [
        {
            "function": call.function,
            "arguments": [list(map(encode, case)) for case in call.arguments],
        }
        for call in job.calls
    ]
    return {
        "cells": [source for _, source in job.cells],
        "calls": calls,
        "paths": [str(packages)],
        "limits": bounds,
        "seconds": limits.seconds,  # for the cells together
        # a swarm of processes that nobody counts mustn't slow the machine
        "nice": 0 if "pids" in parents() else 10,
    }


def _process(
    place: _Place, record: Record, limits: Limits, left: float
) -> tuple[str | None, float]:
    """Run a process until it has given all that is due, or must be ended; nothing of it remains.

    Return why it was ended, or None; and the seconds that the student's code ran.
    """
    with private_folder() as name:
        folder = Path(name)
        work = folder / "work"
        work.mkdir()
        command = place.command(folder, record.job, limits)
        group = Group(limits.megabytes, limits.processes)
        results, far_results = os.pipe()
        output, far_output = os.pipe()
        started: subprocess.Popen[bytes] | None = None
        try:
            command.append(str(far_results))
            started = subprocess.Popen(
                group.enter(command),
                stdin=subprocess.DEVNULL,
                stdout=far_output,
                stderr=far_output,
                pass_fds=(far_results,),
                start_new_session=True,
                cwd=work,
                env=environment(str(work)) | {"PATH": os.defpath},
            )
            os.close(far_results)
            os.close(far_output)
            listener = _Listener(started, group, record, limits)
            reason = listener.listen(results, output, left)
            return reason, listener.seconds
        finally:
            if started is not None:
                with suppress(OSError):
                    os.killpg(started.pid, signal.SIGKILL)
                started.wait()
            group.close()
            os.close(results)
            os.close(output)


class _Listener:
    """Hears a process out, within its limits."""

    def __init__(
        self,
        started: subprocess.Popen[bytes],
        group: Group,
        record: Record,
        limits: Limits,
    ) -> None:
        self.started, self.group = started, group
        self.record, self.limits = record, limits
        self.said = b""  # the end of what it printed: why it didn't start
        self.begun = self.stage_begun = time.monotonic()
        self.seconds = 0.0

    def listen(self, results: int, output: int, left: float) -> str | None:
        """Hear it out for `left` seconds at most; return why it is to be ended, or None."""
        cap = self.limits.output_megabytes * MEGABYTE
        read = {results: 0, output: 0}
        stage = self.record.stage
        with selectors.DefaultSelector() as selector:
            for end in read:
                os.set_blocking(end, False)
                selector.register(end, selectors.EVENT_READ)
            while True:
                reason: str | None = None
                gone = self.started.poll() is not None  # then all it wrote is there
                heard = False
                for key, _ in selector.select(0 if gone else TICK):
                    chunk = os.read(key.fd, 1 << 20)
                    if not chunk:
                        selector.unregister(key.fd)
                        continue
                    heard = True
                    read[key.fd] += len(chunk)
                    if read[key.fd] > cap:
                        reason = f"wrote more than {self.limits.output_megabytes} MB"
                    elif key.fd == output:
                        self.said = (self.said + chunk)[-2000:]
                    elif not self.record.feed(chunk):
                        reason = "wrote lines of its own among the results"
                now = time.monotonic()
                if self.record.stage != stage:
                    self.stage_begun = now
                    if not stage.ready:
                        self.begun = now
                    stage = self.record.stage
                self.seconds = now - self.begun
                if self.record.complete:
                    return None
                reason = reason or self._ending(left, gone and not heard)
                if reason is not None and not self.record.ready:
                    text = clean(self.said.decode(errors="replace")[-300:])
                    raise SandboxError(f"the submission's process {reason}: {text}")
                if reason is not None:
                    return reason

    def _ending(self, left: float, gone: bool) -> str | None:
        """Why it must be ended now, or has ended."""
        exceeded = self.group.exceeded()
        if exceeded is not None:
            return exceeded
        if gone:
            return _status(self.started.returncode)
        if not self.record.ready:
            late = self.seconds > STARTING
            return f"wasn't ready within {STARTING:g} s" if late else None
        if time.monotonic() - self.stage_begun > self.limits.seconds:
            return f"ran longer than {self.limits.seconds:g} s"
        return _too_long(self.limits) if self.seconds > left else None


def _too_long(limits: Limits) -> str:
    return f"all of it ran longer than {ALTOGETHER * limits.seconds:g} s"


def _status(code: int) -> str:
    """Why a process that nobody ended has ended; bubblewrap adds 128 to the number of a signal."""
    with suppress(ValueError):
        return f"was ended by {signal.Signals(-code if code < 0 else code - 128).name}"
    return f"ended by itself (status {code})"
