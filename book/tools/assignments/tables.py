"""The tables of a class: marks, totals, and what is to be marked by hand.

A row of a table may be opened by a spreadsheet, so no cell of it is a formula, whatever a student is
called. The table of what is marked by hand is the instructor's: rows are added to it, and what is
filled in stays as it is.
"""

from __future__ import annotations

import csv
import hashlib
import io
import os
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

MARKS = (
    "student",
    "assignment",
    "task",
    "kind",
    "points",
    "out_of",
    "verdict",
    "message",
    "notes",
    "isolated",
)
TOTALS = ("student", "assignment", "points", "out_of", "to_mark_by_hand", "isolated")
HAND = ("student", "task", "title", "out_of", "points", "comment", "answer")

#: Verdict on what a person has to mark.
PENDING = "to be marked by hand"
BY_HAND = "marked by hand"

#: What a spreadsheet takes for a formula.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


@dataclass(frozen=True)
class Row:
    """What a task of a submission got.

    Attributes
    ----------
    task, kind, title : str
        Of the task.
    points : float or None
        None as long as nobody has marked it.
    out_of : int
    verdict : str
        `marking.Mark`'s kind, or what says that it is marked by hand.
    message : str
        For the student.
    detail : str
        More of it, for the person who grades.
    """

    task: str
    kind: str
    title: str
    points: float | None
    out_of: int
    verdict: str
    message: str = ""
    detail: str = ""


@dataclass(frozen=True)
class Graded:
    """What came of a submission.

    Attributes
    ----------
    student : str
        The name of the folder, in characters that print.
    file : str
        The same as the name of a file.
    assignment : str
    digest : str
        Of all that the marks depend on.
    isolated : bool
        Whether it ran where it could do no harm.
    notes : tuple of str
        What was odd about it, a line each, for the person who grades.
    told : tuple of str
        The same for the student.
    rows : tuple of Row
        One a task, in order.
    answers, pictures : dict
        What is to be marked by hand.
    """

    student: str
    file: str
    assignment: str
    digest: str
    isolated: bool
    notes: tuple[str, ...]
    told: tuple[str, ...]
    rows: tuple[Row, ...]
    answers: Mapping[str, str] = field(default_factory=dict)
    pictures: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def points(self) -> float:
        """Of all tasks that are marked."""
        return sum(row.points for row in self.rows if row.points is not None)

    @property
    def out_of(self) -> int:
        """Of all tasks."""
        return sum(row.out_of for row in self.rows)

    @property
    def pending(self) -> int:
        """How many tasks nobody has marked yet."""
        return sum(row.points is None for row in self.rows)

    def as_json(self) -> dict[str, Any]:
        """What `from_json` makes it from."""
        return asdict(self)

    @staticmethod
    def from_json(stored: dict[str, Any]) -> Graded:
        """The record that `as_json` describes; TypeError or KeyError if it is none."""
        rows = tuple(Row(**row) for row in stored["rows"])
        lines = {name: tuple(stored[name]) for name in ("notes", "told")}
        return Graded(**stored | lines | {"rows": rows})


# --- Names and files -------------------------------------------------------------------------------


def shown(name: str) -> str:
    """A name in characters that print: a line break in it becomes the two characters that mean it."""
    return "".join(
        c
        if c.isprintable()
        else c.encode("unicode_escape", "backslashreplace").decode()
        for c in name.encode("utf-8", "surrogateescape").decode(
            "utf-8", "backslashreplace"
        )
    )


def file_name(name: str) -> str:
    """A name as that of a file, on any system: the same if that's safe, else what is, with a digest."""
    if re.fullmatch(r"\w[\w.@+ -]{0,80}", name) and name[-1] not in ". ":
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:10]
    return re.sub(r"[^A-Za-z0-9-]+", "-", name).strip("-")[:60] + f"-{digest}"


def write(path: Path, text: str) -> None:
    """Write a whole file or nothing: an interruption leaves the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(
        f".{hashlib.sha256(path.name.encode()).hexdigest()[:16]}.part"
    )
    try:
        with part.open("w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def write_table(path: Path, text: str) -> None:
    """Write a table, if it says something else, so that any spreadsheet takes it for the UTF-8 it is."""
    if not path.exists() or _decoded(path.read_bytes()) != text:
        write(path, "\ufeff" + text)


def plain(text: object) -> str:
    """A cell of a table: one line, and no formula."""
    line = " ".join(str(text).split())
    return f"'{line}" if line.startswith(FORMULA) else line


def number(points: float | None) -> str:
    """Points as they are written: 3, 2.5, or nothing."""
    return "" if points is None else f"{points:g}"


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table as text."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([plain(cell) for cell in row] for row in rows)
    return text.getvalue()


# --- Marks and totals ------------------------------------------------------------------------------


def marks_table(records: Iterable[Graded]) -> str:
    """A row for each student and task."""
    return table(
        MARKS,
        (
            (
                record.student,
                record.assignment,
                row.task,
                row.kind,
                number(row.points),
                row.out_of,
                row.verdict,
                f"{row.message} [{row.detail}]" if row.detail else row.message,
                " ".join(record.notes),
                "yes" if record.isolated else "no",
            )
            for record in records
            for row in record.rows
        ),
    )


def totals_table(records: Iterable[Graded]) -> str:
    """A row for each student and assignment."""
    return table(
        TOTALS,
        (
            (
                record.student,
                record.assignment,
                number(record.points),
                record.out_of,
                record.pending,
                "yes" if record.isolated else "no",
            )
            for record in records
        ),
    )


# --- What is marked by hand --------------------------------------------------------------------------


@dataclass(frozen=True)
class ByHand:
    """A row of the table of what is marked by hand, as it was read: all its cells, the instructor's own, too."""

    points: float | None
    comment: str
    answer: str
    cells: Mapping[str, str]


def read_hand(path: Path) -> tuple[dict[tuple[str, str], ByHand], list[str]]:
    """Read what was marked by hand, as a spreadsheet may have stored it; and what can't be read in it."""
    if not path.exists():
        return {}, []
    text = _decoded(path.read_bytes())
    first = text.partition("\n")[0]
    mark = max(",;\t", key=first.count)
    found: dict[tuple[str, str], ByHand] = {}
    problems = []
    try:
        lines = list(csv.reader(io.StringIO(text, newline=None), delimiter=mark))
    except csv.Error as error:
        return {}, [f"{path}: {error}"]
    header = [name.strip() for name in lines[0]] if lines else []
    if not {"student", "task", "points", "out_of"} <= set(header):
        return {}, [f"{path}: got the columns {header}, expected {', '.join(HAND)}"]
    for line, cells in enumerate(lines[1:], start=2):
        row = dict(zip(header, cells, strict=False))
        if not row.get("student") and not row.get("task"):
            continue
        key = row.get("student", ""), row.get("task", "")
        if key in found:
            problems.append(f"{path}, line {line}: {key[0]!r} has {key[1]!r} twice")
            continue
        written = row.get("points", "").strip()
        points = _points(written, row.get("out_of", ""))
        if written and points is None:
            problems.append(
                f"{path}, line {line}: got {written!r} points, expected a number "
                f"from 0 to {row.get('out_of')}"
            )
        named = dict.fromkeys([*HAND, *filter(None, header)])
        row = {name: row.get(name, "") for name in named}
        found[key] = ByHand(points, row["comment"], row["answer"], row)
    return found, problems


def _decoded(content: bytes) -> str:
    """The text of a table, in what spreadsheets write."""
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return content.decode("utf-16", "replace")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("cp1252", "replace")


def settle(
    hand: Mapping[tuple[str, str], ByHand], records: Iterable[Graded]
) -> tuple[dict[tuple[str, str], ByHand], list[str]]:
    """Give each row back to its student, whom a spreadsheet may call 7 for 007; and say whose it can't tell."""
    due = {
        (plain(record.student), row.task)
        for record in records
        for row in record.rows
        if row.kind == "hand"
    }
    alike: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for key in due - set(hand):
        alike.setdefault((_alike(key[0]), key[1]), []).append(key)
    settled: dict[tuple[str, str], ByHand] = {}
    remarks = []
    for (student, task), entry in hand.items():
        key = student, task
        if key not in due:
            others = alike.get((_alike(student), task), [])
            if len(others) == 1 and others[0] not in settled:
                key = others[0]
            elif entry.points is not None:
                remarks.append(
                    f"nobody called {student!r} handed {task!r} in: the points count for no one"
                )
        settled[key] = replace(entry, cells={**entry.cells, "student": key[0]})
    return settled, remarks


def _alike(name: str) -> str:
    """What a spreadsheet leaves of a name: no zeros before a number, letters composed, no space around."""
    name = unicodedata.normalize("NFC", name).strip()
    return name.lstrip("0") if name.isdecimal() else name


def _points(written: str, out_of: str) -> float | None:
    try:
        points = float(written.replace(",", "."))
        return points if 0 <= points <= float(out_of) else None
    except ValueError:
        return None


def answer_digest(record: Graded, task: str) -> str:
    """A few letters that change when an answer does."""
    pictures = "".join(record.pictures.get(task, ()))
    said = record.answers.get(task, "") + pictures
    # A letter that no number has: a spreadsheet makes 120 of 012e1.
    return "v" + hashlib.sha256(said.encode()).hexdigest()[:8]


def merge(record: Graded, hand: Mapping[tuple[str, str], ByHand]) -> Graded:
    """A record with what a person has marked; a remark where the answer has changed since."""
    rows = []
    for row in record.rows:
        entry = hand.get((plain(record.student), row.task))
        if row.kind != "hand" or entry is None or entry.points is None:
            rows.append(row)
            continue
        changed = entry.answer not in {"", answer_digest(record, row.task)}
        detail = "the answer has changed since it was marked" if changed else ""
        rows.append(
            Row(
                row.task,
                row.kind,
                row.title,
                entry.points,
                row.out_of,
                BY_HAND,
                entry.comment,
                detail,
            )
        )
    return Graded(**vars(record) | {"rows": tuple(rows)})


def hand_table(
    records: Iterable[Graded], hand: Mapping[tuple[str, str], ByHand]
) -> str:
    """The table of what is marked by hand: rows that were there, as they were, and new ones."""
    lines = {key: dict(entry.cells) for key, entry in hand.items()}
    header = list(
        dict.fromkeys([*HAND, *(name for row in lines.values() for name in row)])
    )
    for record in records:
        for row in record.rows:
            key = plain(record.student), row.task
            old = lines.get(key, {})
            blank = not old.get("points") and not old.get("comment")
            if row.verdict == PENDING and blank:
                answer = answer_digest(record, row.task)
                cells = (
                    record.student,
                    row.task,
                    row.title,
                    row.out_of,
                    "",
                    "",
                    answer,
                )
                lines[key] = old | dict(zip(HAND, map(plain, cells), strict=True))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    for _, line in sorted(lines.items()):
        writer.writerow([line.get(name, "") for name in header])
    return text.getvalue()
