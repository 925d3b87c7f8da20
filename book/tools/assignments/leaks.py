"""Look for what students must not get in what they get: solutions, hidden tests, values, the secret.

    python -m book.tools.assignments.leaks COURSE            its release, binder and feedback; the built site
    python -m book.tools.assignments.leaks COURSE FOLDER...  these

Every file is looked at as it may be read: as text, as a page without its tags, as the strings of a JSON
file, percent-encoded or base64 text decoded, members of archives (a wheel). What a student may read anyway
(chapters, the library, the visible parts of assignments) is no leak.
"""

from __future__ import annotations

import argparse
import base64
import binascii
import contextlib
import gzip
import html
import io
import json
import re
import sys
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from book.tools.assignments.course import Course, CourseError, open_course, seed
from book.tools.assignments.course import numbers as numbers_of
from book.tools.assignments.source import (
    HIDDEN,
    SOLUTION,
    Assignment,
    AssignmentError,
    assignment_names,
    graded,
    keys,
    read_assignment,
)
from book.tools.canonical import ROOT

#: A line of code says something from this many signs on, without spaces.
SHORTEST_LINE = 14
#: Words in a row that are no chance, and how far the rows looked for lie apart.
WORDS, STRIDE = 7, 3
#: Significant digits of a number that is no chance: alone, or with another one of the same task.
ALONE, TOGETHER = 9, 6
#: The same for an argument of a hidden case, of which there are many more.
ARGUMENT = 11

TAG = re.compile(r"<[^<>]{0,5000}>")
WORD = re.compile(r"[^\W_]+")
# Of six signs and more: shorter ones say nothing.
NUMBER = re.compile(
    r"(?<![\w.])(?=[\d.]{6})(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?(?!\w)", re.I
)
BASE64 = re.compile(r"(?<![\w+/-])[A-Za-z0-9+/_-]{24,}={0,2}")
DEEPEST = 4
#: Fonts, whose content is compressed.
OPAQUE = {b"wOFF", b"wOF2"}


@dataclass(frozen=True)
class Leak:
    """Something found: in which file, of what kind, of which task, and its beginning."""

    place: str
    kind: str
    task: str
    excerpt: str

    def __str__(self) -> str:
        """Return it as a line."""
        return f"{self.place}: {self.kind} of {self.task}: {self.excerpt!r}"


# --- Ways to read a file -------------------------------------------------------------------------


def texts(content: bytes, name: str = "") -> Iterator[tuple[str, str]]:
    """Every text that a file holds, in whatever wrapping, each once, after its name."""
    return _of_bytes(content, name, 0, set())


def _of_bytes(
    content: bytes, name: str, depth: int, seen: set[int]
) -> Iterator[tuple[str, str]]:
    if depth > DEEPEST or content[:4] in OPAQUE:
        return
    if content[:4] == b"PK\x03\x04":
        with contextlib.suppress(zipfile.BadZipFile, RuntimeError, zlib.error):
            with zipfile.ZipFile(io.BytesIO(content)) as archive:
                for member in archive.namelist():
                    inner = archive.read(member)
                    yield from _of_bytes(inner, f"{name}!{member}", depth + 1, seen)
            return
    if content[:2] == b"\x1f\x8b":
        with contextlib.suppress(OSError, EOFError, zlib.error):
            yield from _of_bytes(gzip.decompress(content), name, depth + 1, seen)
            return
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        # A picture or a database: what is readable in it.
        pieces = re.findall(rb"[\t\n\r\x20-\x7e]{6,}", content)
        yield name, b"\n".join(pieces).decode("ascii")
    else:
        yield from _of_text(text, name, depth, seen)


def _of_text(
    text: str, name: str, depth: int, seen: set[int], *, part: bool = False
) -> Iterator[tuple[str, str]]:
    """A text, and what is wrapped in it; a part of one that was given already isn't given again."""
    if depth > DEEPEST or hash(text) in seen:
        return
    seen.add(hash(text))
    if not part:
        yield name, text
    if text.lstrip()[:1] in {"{", "["}:
        with contextlib.suppress(ValueError, RecursionError):
            strings = list(_strings(json.loads(text)))
            yield name, "\n".join(strings)
            for each in strings:
                yield from _of_text(each, name, depth + 1, seen, part=True)
            return
    open_text = unquote(text) if re.search(r"%[0-9A-Fa-f]{2}", text) else text
    plain = TAG.sub("", open_text) if "<" in open_text else open_text
    plain = html.unescape(plain) if "&" in plain else plain
    plain = plain.replace("\\n", "\n").replace('\\"', '"')
    if plain != text:
        yield name, plain
    for match in BASE64.finditer(open_text):
        wrapped = hash(("base64", match[0]))
        if wrapped not in seen:
            seen.add(wrapped)
            content = _from_base64(match[0])
            if content is not None:
                yield from _of_bytes(content, name, depth + 1, seen)


def _strings(value: Any) -> Iterator[str]:
    """The strings of a JSON value; those of a list of lines (a cell's source) as one text."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from _strings(item)
    elif isinstance(value, list):
        if value and all(isinstance(item, str) for item in value):
            yield "".join(value)
        else:
            for item in value:
                yield from _strings(item)
    elif isinstance(value, int | float):
        yield repr(value)


def _from_base64(text: str) -> bytes | None:
    body = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(body + "=" * (-len(body) % 4), validate=True)
    except (ValueError, binascii.Error):
        return None


def squeezed(text: str) -> str:
    """A text without space, as code is compared."""
    return re.sub(r"\s+", "", text)


def words(text: str) -> str:
    """The words of a text, as prose is compared."""
    return " " + " ".join(WORD.findall(text.lower())) + " "


def significant(token: str) -> int:
    """How many digits of a number say something; zeros at its end may be padding."""
    mantissa = token.lower().partition("e")[0]
    return len(mantissa.replace(".", "").strip("0"))


# --- What must not be found ----------------------------------------------------------------------


@dataclass(frozen=True)
class Needle:
    """A piece of text that must not be found: how it is compared, and what it is.

    Attributes
    ----------
    text : str
        Without space if it is code, as words if it is prose.
    code : bool
    kind, task : str
        What it is, and of which task.
    words : frozenset of str
        All of them stand in any text that holds the needle.
    """

    text: str
    code: bool
    kind: str
    task: str
    words: frozenset[str]


#: Numbers by their first six digits, with their tasks.
Numbers = dict[str, list[tuple[float, str]]]


@dataclass
class Hoard:
    """What is hidden.

    Attributes
    ----------
    needles : list of Needle
    values, arguments : dict
        Expected values and arguments of hidden cases.
    strings : dict
        The secret, and the seeds made from it, with their tasks.
    """

    needles: list[Needle] = field(default_factory=list)
    values: Numbers = field(default_factory=dict)
    arguments: Numbers = field(default_factory=dict)
    strings: dict[str, tuple[str, str]] = field(default_factory=dict)


def hoard(course: Course, assignments: Iterable[Assignment]) -> Hoard:
    """Collect what is hidden of assignments, under a course's secret."""
    found = Hoard(strings={course.secret: ("the secret", "the course")})
    for assignment in assignments:
        found.needles += needles(assignment)
        for name, key in keys(assignment).items():
            where = f"{assignment.name}/{name}"
            number = seed(course, assignment.name, name)
            for text in (str(number), f"{number:x}"):
                found.strings[text] = ("a seed", where)
            for _, arguments in key.cases(numbers_of(course, assignment.name, name)):
                _collect(arguments, where, found.arguments)
                if key.accept is None:
                    _collect(key.solution(*arguments), where, found.values)
    return found


def needles(assignment: Assignment) -> Iterator[Needle]:
    """The hidden text of an assignment, piece by piece, without what anyone may read anyway."""
    known = public()
    for task, kind, code, text in hidden_parts(assignment):
        where = f"{assignment.name}/{task}"
        for piece, whole in _lines(text) if code else _rows(text):
            if piece not in (known.squeezed if code else known.words):
                yield Needle(piece, code, kind, where, frozenset(_words(whole)))


def hidden_parts(assignment: Assignment) -> Iterator[tuple[str, str, bool, str]]:
    """Task, kind, whether it is code, and text of all that is between marks in an assignment."""
    for cell in assignment.notebook.cells:
        grade = graded(cell)
        if grade:
            task = str(grade["grade_id"]).removesuffix("-test")
            code = cell.cell_type == "code"
            source = cell.source + "\n"
            for match in SOLUTION.finditer(source):
                yield (
                    task,
                    "the solution" if code else "the model answer",
                    code,
                    match[1],
                )
            for match in HIDDEN.finditer(source):
                yield task, "a hidden test", code, match[1]


def visible(assignment: Assignment) -> str:
    """All that students get of an assignment."""
    sources = (cell.source + "\n" for cell in assignment.notebook.cells)
    return "\n".join(SOLUTION.sub("\n", HIDDEN.sub("\n", text)) for text in sources)


@dataclass(frozen=True)
class Public:
    """What anyone may read, in the forms in which it is compared."""

    squeezed: str
    words: str
    numbers: frozenset[str]


@cache
def public() -> Public:
    """Chapters with their outputs, pages of the book, the library, checks, visible parts of assignments."""
    book = ROOT / "book"
    files = [
        *book.glob("*.md"),
        *(book / "chapters").glob("*.md"),
        *(book / "assignments" / "notebooks" / "checks").glob("*.py"),
        *(p for p in (ROOT / "ictd_lib").rglob("*") if p.suffix in {".py", ".js"}),
    ]
    pages = [path.read_text("utf-8") for path in sorted(files)]
    pages += [visible(read_assignment(name)) for name in assignment_names()]
    whole = "\n".join(pages)
    outputs = [
        text
        for path in [
            *(book / "notebooks").glob("*.ipynb"),
            ROOT / "ictd_lib" / "measured.json",
        ]
        for _, text in texts(path.read_bytes())
    ]
    numbers = {
        match[0] for text in [whole, *outputs] for match in NUMBER.finditer(text)
    }
    return Public(squeezed(whole), words(whole), frozenset(numbers))


def _lines(text: str) -> list[tuple[str, str]]:
    """The lines of code that say something, squeezed and as they are; all as one where none does alone."""
    lines = [(squeezed(line), line) for line in text.splitlines()]
    long = [
        (tight, line)
        for tight, line in lines
        if len(tight) >= SHORTEST_LINE and WORD.search(line)
    ]
    tight = squeezed(text)
    return long or ([(tight, text)] if len(tight) >= SHORTEST_LINE // 2 else [])


def _rows(text: str) -> list[tuple[str, str]]:
    """Rows of words, so close that a copied sentence holds one."""
    said = WORD.findall(text.lower())
    last = max(len(said) - WORDS, 0)
    rows = [
        " ".join(said[i : i + WORDS])
        for i in {*range(0, last + 1, STRIDE), last}
        if said
    ]
    return [(f" {row} ", row) for row in rows]


def _words(text: str) -> list[str]:
    return WORD.findall(text.lower())


def _collect(value: Any, task: str, into: dict[str, list[tuple[float, str]]]) -> None:
    """Put the numbers of a value where they are found again; round ones say nothing."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            _collect(item, task, into)
        return
    try:
        flat = np.ravel(np.asarray(value, dtype=float))
    except (TypeError, ValueError):
        return
    for number in np.unique(np.abs(flat[np.isfinite(flat)])):
        if significant(f"{number:.12g}") >= TOGETHER:
            into.setdefault(f"{number:.5e}", []).append((float(number), task))


# --- The search ----------------------------------------------------------------------------------


def find(hidden: Hoard, folders: Iterable[Path], own: Iterable[str] = ()) -> list[Leak]:
    """Look through folders (or files); `own` are texts that their reader wrote, which give nothing away."""
    mine = "\n".join(own)
    mine_squeezed, mine_words = squeezed(mine), words(mine)
    leaks: dict[tuple[str, str, str], Leak] = {}
    for folder in folders:
        files = sorted(folder.rglob("*")) if folder.is_dir() else [folder]
        for path in files:
            if not path.is_file() or ".git" in path.parts:
                continue
            for name, text in texts(path.read_bytes(), str(path)):
                for leak in _in_text(hidden, name, text):
                    if (
                        squeezed(leak.excerpt) not in mine_squeezed
                        and words(leak.excerpt) not in mine_words
                    ):
                        leaks.setdefault((leak.place, leak.kind, leak.task), leak)
    return list(leaks.values())


def _in_text(hidden: Hoard, place: str, text: str) -> Iterator[Leak]:
    there = set(_words(text))
    # A secret may be a sentence, and stand in a text with other line breaks.
    tight = squeezed(text)
    for string, (kind, task) in hidden.strings.items():
        if squeezed(string) in tight:
            yield Leak(place, kind, task, "not repeated here")
    said = ""
    for needle in hidden.needles:
        if needle.words <= there:
            said = said or words(text)
            if needle.text in (tight if needle.code else said):
                yield Leak(place, needle.kind, needle.task, needle.text.strip()[:80])
    yield from _numbers_in(hidden, place, text)


def _numbers_in(hidden: Hoard, place: str, text: str) -> Iterator[Leak]:
    together: dict[str, set[float]] = {}
    for match in NUMBER.finditer(text):
        token = match[0]
        digits = significant(token)
        if digits < TOGETHER or token in public().numbers:
            continue
        number = float(token)
        for table, alone in ((hidden.values, ALONE), (hidden.arguments, ARGUMENT)):
            for value, task in _near(table, number, digits):
                if digits >= alone:
                    yield Leak(place, "a hidden number", task, token)
                elif table is hidden.values:
                    seen = together.setdefault(task, set())
                    seen.add(value)
                    if len(seen) == 2:
                        yield Leak(place, "expected values", task, token)


def _near(
    table: dict[str, list[tuple[float, str]]], number: float, digits: int
) -> Iterator[tuple[float, str]]:
    """Hidden numbers that a printed one is, at its own precision."""
    places = min(digits, 15) - 1
    printed = f"{number:.{places}e}"
    for value, task in table.get(f"{number:.5e}", []):
        if f"{value:.{places}e}" == printed:
            yield value, task


# --- Command line --------------------------------------------------------------------------------


def default_folders(course: Course) -> list[Path]:
    """What students or anyone get: release, binder, feedback, and the site if it is built."""
    folders = [course.folder / name for name in ("release", "binder", "feedback")]
    return [path for path in [*folders, ROOT / "_build" / "html"] if path.exists()]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status: 1 if anything was found."""
    parser = argparse.ArgumentParser(
        prog="python -m book.tools.assignments.leaks",
        description="Look for solutions, hidden tests, expected values and the secret.",
    )
    parser.add_argument("course", metavar="COURSE")
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    options = parser.parse_args(arguments)
    try:
        course = open_course(options.course)
        folders = options.folders or default_folders(course)
        for folder in folders:
            if not folder.exists():
                raise CourseError(f"{folder}: it isn't there")
        hidden = hoard(course, [read_assignment(name) for name in assignment_names()])
    except (AssignmentError, CourseError) as error:
        print(error, file=sys.stderr)
        return 2
    leaks = find(hidden, folders)
    for leak in leaks:
        print(leak)
    if not leaks:
        print(f"Nothing found in {', '.join(map(str, folders))}")
    return int(bool(leaks))


if __name__ == "__main__":
    sys.exit(main())
