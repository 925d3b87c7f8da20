"""What a submission's process says, taken line by line as what a stranger says.

The student's code can write lines of its own, so a line has force only as the value of the one call that is
due: forging it gives a student nothing that returning the value wouldn't.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NamedTuple

from book.assignments.notebooks.checks.values import decode

#: Levels of the JSON text of a value; a list in a list takes four.
DEEPEST = 40


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


class Stage(NamedTuple):
    """How far a process has come."""

    ready: bool
    cells_done: bool
    call: int


class Record:
    """What came of one process so far.

    Attributes
    ----------
    job : Job
    ready : bool
        The interpreter is up; nothing of the student's has run before.
    cells_done : bool
    at : int
        The call that is due, or under way.
    cells : dict
        Label of each cell that failed, and its error.
    notes : list of str
    results : list of list of Result
        One list a call.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self.ready = self.cells_done = False
        self.at = 0
        self.cells: dict[str, str] = {}
        self.notes: list[str] = []
        self.results: list[list[Result]] = [[] for _ in job.calls]
        self._cell = -1  # the last one that failed
        self._line = bytearray()  # the last one, as far as it has come
        self._skip()

    @property
    def complete(self) -> bool:
        """Whether nothing more is to come."""
        return self.cells_done and self.at == len(self.job.calls)

    @property
    def stage(self) -> Stage:
        """What changes when the next part begins."""
        return Stage(self.ready, self.cells_done, self.at)

    def feed(self, chunk: bytes) -> bool:
        """Take the lines that end in a piece of what was written; False if one can't come now."""
        first, *others = chunk.split(b"\n")
        self._line += first
        for following in others:
            if self.complete:
                break
            if not self.take(bytes(self._line)):
                return False
            self._line[:] = following
        return True

    def take(self, line: bytes) -> bool:
        """Take a line; False if it is none that can come now."""
        try:
            message = json.loads(line.decode("ascii"))
        except (ValueError, RecursionError):
            return False
        match message:
            case {"ready": True} if not self.ready:
                self.ready = True
            case {"cell": int(index), "error": str(error)} if self._fails(index):
                self._cell = index
                self.cells[self.job.cells[index][0]] = clean(error) or "error"
            case {"cells": "done", "notes": list(notes)} if self._running_cells():
                self.cells_done = True
                self.notes = [clean(note) for note in notes[:20] if type(note) is str]
            case {"result": [int(call), int(case)], **rest} if self._due(call, case):
                self.results[call].append(_result(rest))
                self._skip()
            case _:
                return False
        return True

    def _running_cells(self) -> bool:
        return self.ready and not self.cells_done

    def _fails(self, index: int) -> bool:
        return self._running_cells() and self._cell < index < len(self.job.cells)

    def _due(self, call: int, case: int) -> bool:
        return (
            self.cells_done
            and not self.complete
            and (call, case) == (self.at, len(self.results[self.at]))
        )

    def _skip(self) -> None:
        """Go on to the next call that lacks results."""
        calls = self.job.calls
        while self.at < len(calls) and len(self.results[self.at]) == len(
            calls[self.at].arguments
        ):
            self.at += 1


def _result(message: dict[Any, Any]) -> Result:
    if "error" in message:
        error = message["error"]
        return Result(None, (clean(error) if type(error) is str else "") or "error")
    encoded = message.get("value")
    try:
        if not _deep(encoded):
            return Result(decode(encoded), "")
    except Exception:  # a line that the student wrote may hold anything
        pass
    return Result(None, "ValueError: no value came back")


def _deep(encoded: Any) -> bool:
    """Whether it is nested deeper than any value of a task; found without recursion."""
    layer = [encoded]
    for _ in range(DEEPEST):
        layer = [
            part
            for item in layer
            if isinstance(item, (list, dict))
            for part in (item if isinstance(item, list) else item.values())
        ]
        if not layer:
            return False
    return True


def clean(text: str) -> str:
    """One line of printable characters, not too long."""
    line = " ".join(text[:1000].split())
    return "".join(c for c in line if c.isprintable())[:300]
