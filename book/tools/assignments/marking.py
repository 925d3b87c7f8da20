"""Mark a submission: the trusted side, which reads a student's text and values and runs none of it.

`read_submission` reads a notebook that anyone may have written, and says what of it is to run: the cells
that were given, as they were given, and the student's own, in the student's order. Another process runs
them (`book.tools.assignments.sandbox`). Here the authors' solution says what should have come back, and
`mark` compares. A task is right on every hidden case or gets no points.

`mark_functions` marks functions of this process, for authors and tests.
"""

from __future__ import annotations

import builtins
import copy
import json
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from book.assignments.notebooks.checks.values import (
    Fault,
    Foreign,
    compare,
    dumps,
    loads,
)
from book.tools.assignments.source import (
    HIDDEN,
    SOLUTION,
    Assignment,
    Key,
    graded,
    keys,
)
from book.tools.canonical import canonical

#: Of a notebook file: pictures are welcome, a runaway output isn't read.
LARGEST = 64 * 2**20
#: Brackets and commas of it: a file of nothing else would take a hundred times its size of memory.
MOST_PARTS = 8_000_000
LARGEST_PICTURE = 2**20


# --- What was handed in --------------------------------------------------------------------------


@dataclass(frozen=True)
class Given:
    """A cell of the student edition.

    Attributes
    ----------
    role : {"given", "solution", "test", "hand"}
        Who writes in it: nobody, the student (code or an answer), nobody.
    name : str
        Its `grade_id`; empty if it has none.
    identity : str
        The notebook format's `id`; empty if it has none.
    source : str
        Its text, without what is hidden.
    code : bool
        Or else it is text.
    pictures : tuple of str
        PNG pictures among its outputs, as base64.
    """

    role: str
    name: str
    identity: str
    source: str
    code: bool
    pictures: tuple[str, ...] = ()


@dataclass(frozen=True)
class Cell:
    """A cell that runs: its text, and where the student finds it."""

    source: str
    where: str


@dataclass(frozen=True)
class Submission:
    """What was handed in.

    Attributes
    ----------
    cells : tuple of Cell
        What runs, in this order.
    answers : dict
        What the student wrote, by the name of the task; a task whose cell is gone isn't there.
    pictures : dict
        PNG pictures, as base64, that the student's own execution left at a task marked by hand.
    notes : tuple of str
        What was odd about the notebook, a line each.
    problem : str
        Why nothing of it can be marked; empty if it can.
    """

    cells: tuple[Cell, ...] = ()
    answers: Mapping[str, str] = field(default_factory=dict)
    pictures: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    problem: str = ""


def student_edition(assignment: Assignment) -> tuple[Given, ...]:
    """The cells of an assignment as students get them."""
    # The identities that a release has, too: they say which cell it was, whatever is written in it now.
    return tuple(_given(cell) for cell in canonical(assignment.notebook).cells)


def _given(cell: Any) -> Given:
    grade = graded(cell)
    code = cell.cell_type == "code"
    source = cell.source
    if grade.get("solution"):
        role = "hand" if grade.get("grade") else "solution"
        source = SOLUTION.sub(_stub if code else "*Your answer here.*", source + "\n")
    elif grade.get("grade"):
        role, source = "test", HIDDEN.sub("", source + "\n")
    else:
        role = "given"
    name = str(grade.get("grade_id", ""))
    return Given(role, name, str(cell.get("id", "")), source.strip("\n"), code)


def _stub(match: re.Match[str]) -> str:
    indent = match[0][: len(match[0]) - len(match[0].lstrip(" "))]
    return f"{indent}# Your code here.\n{indent}..."


def read_submission(path: Path, assignment: Assignment) -> Submission:
    """Read a notebook that anyone may have written; never raises for what it holds."""
    try:
        state = path.lstat()
        if not stat.S_ISREG(state.st_mode):
            return Submission(problem="What was handed in is no plain file.")
        if state.st_size > LARGEST:
            return Submission(
                problem=f"The notebook has {state.st_size / 2**20:,.0f} MB, and at most "
                f"{LARGEST / 2**20:.0f} are read: clear its outputs."
            )
        content = path.read_bytes()
    except OSError as error:
        return Submission(problem=f"The file can't be read: {error.strerror}.")
    if sum(map(content.count, (b",", b"[", b"{"))) > MOST_PARTS:
        return Submission(
            problem="The notebook's outputs have too many parts: clear them."
        )
    try:
        loaded = json.loads(content)  # in UTF-8, -16 or -32, with or without a mark
    except (ValueError, RecursionError):
        return Submission(problem="The file isn't a notebook: it isn't JSON.")
    cells = loaded.get("cells") if isinstance(loaded, dict) else None
    if not isinstance(cells, list):
        return Submission(problem="The file is JSON but no notebook: it has no cells.")
    return arrange([_written(cell) for cell in cells], student_edition(assignment))


def _written(cell: Any) -> Given:
    """A student's cell, whatever is in it."""
    if not isinstance(cell, dict):
        return Given("own", "", "", "", code=False)
    source = cell.get("source", "")
    if isinstance(source, list):
        source = "".join(line for line in source if isinstance(line, str))
    if not isinstance(source, str):
        source = ""
    metadata = cell.get("metadata")
    grade = metadata.get("nbgrader") if isinstance(metadata, dict) else None
    name = grade.get("grade_id") if isinstance(grade, dict) else None
    identity = cell.get("id")
    return Given(
        "own",
        name if isinstance(name, str) else "",
        identity if isinstance(identity, str) else "",
        # Half of a surrogate pair can't be written to any file.
        source.encode("utf-8", "replace").decode("utf-8"),
        cell.get("cell_type") == "code",
        tuple(_pictures(cell.get("outputs"))),
    )


def _pictures(outputs: Any) -> Iterator[str]:
    """PNG pictures of a cell, a few, none too large, and nothing but letters of base64."""
    found = 0
    for output in outputs if isinstance(outputs, list) else []:
        data = output.get("data") if isinstance(output, dict) else None
        picture = data.get("image/png") if isinstance(data, dict) else None
        if isinstance(picture, str) and len(picture) < LARGEST_PICTURE:
            letters = "".join(picture.split())
            # The letters of base64 that a PNG file begins with.
            if found < 3 and re.fullmatch(r"iVBORw0KGgo[A-Za-z0-9+/]*={0,2}", letters):
                found += 1
                yield letters


@dataclass(frozen=True)
class _Placed:
    """A student's cell, and which cell of the edition it is: the second of that name, or changed, or none."""

    cell: Given
    where: str
    place: int | None
    given: Given | None
    again: bool

    @property
    def own(self) -> bool:
        """Whether there is anything of the student's in it, where nobody asked for it."""
        if self.given is None or self.given.role in {"given", "test"}:
            given = "" if self.given is None else self.given.source
            return _squeezed(self.cell.source) not in {"", _squeezed(given)}
        return False


def arrange(written: Sequence[Given], edition: Sequence[Given]) -> Submission:
    """Put what was given back in its place, keep what is the student's own, and say what was odd.

    Nothing that a student wrote is lost. A cell that was given and changed runs as it was handed in, and
    after it as it was given: an import that was added to it counts, a function that was spoilt doesn't.
    """
    seen: set[int] = set()
    placed: list[_Placed] = []
    for number, cell in enumerate(written, start=1):
        place = _place(cell, edition, seen)
        given = None if place is None else edition[place]
        placed.append(_Placed(cell, f"cell {number}", place, given, place in seen))
        if place is not None:
            seen.add(place)
    cells = [each for one in placed for each in _runs(one)]
    notes = [note for one in placed for note in _odd(one)]
    notes += _restore(cells, edition, seen)
    parts = _answers(placed)
    by_hand = {given.name for given in edition if given.role == "hand"}
    return Submission(
        tuple(cell for _, cell in cells),
        {name: "\n\n".join(c.source for c in part) for name, part in parts.items()},
        {
            name: tuple(pictures[:6])
            for name, part in parts.items()
            if name in by_hand
            and (pictures := [picture for c in part for picture in c.pictures])
        },
        tuple(notes),
    )


def _runs(one: _Placed) -> Iterator[tuple[int | None, Cell]]:
    """What runs of a cell, and its place in the edition."""
    if one.own and one.cell.code:
        yield None, Cell(one.cell.source, one.where)
    if one.given is None:
        return
    if one.given.role == "given" and one.given.code and not one.again:
        where = f"{one.where}, as given" if one.own else one.where
        yield one.place, Cell(one.given.source, where)
    # A person looks at the plots of a task marked by hand: to run it could only cost time.
    if one.given.role == "solution" and one.cell.code:
        yield one.place, Cell(one.cell.source, one.where)


def _odd(one: _Placed) -> Iterator[str]:
    """What is odd about a cell."""
    given = one.given
    if given is None:
        return
    if given.role in {"solution", "hand"}:
        if one.again:
            yield f"Two cells are called {given.name!r}: both count."
    elif given.code and _squeezed(one.cell.source) != _squeezed(given.source):
        what = f"{given.name!r}" if given.name else "that was given"
        yield f"The cell {what} was changed ({one.where}): as given, it counts."


def _answers(placed: Sequence[_Placed]) -> dict[str, list[Given]]:
    """The cells of each task's answer; what stands beside one that is marked by hand belongs to it."""
    answers: dict[str, list[Given]] = {}
    before = (
        ""  # the task marked by hand whose cell came before, with nothing given between
    )
    loose: list[Given] = []  # the student's own since a cell that was given
    for one in placed:
        if one.given is not None:
            hand = one.given.role == "hand"
            if hand or one.given.role == "solution":
                parts = [*loose, one.cell] if hand else [one.cell]
                answers.setdefault(one.given.name, []).extend(parts)
            before, loose = one.given.name if hand else "", []
        if one.own and before:
            answers[before].append(one.cell)
        elif one.own:
            loose.append(one.cell)
    return answers


def _restore(
    cells: list[tuple[int | None, Cell]], edition: Sequence[Given], seen: set[int]
) -> Iterator[str]:
    """Put given cells back that were deleted; say what is missing."""
    for place, given in enumerate(edition):
        if place in seen:
            continue
        if given.role != "given":
            yield f"No cell is called {given.name!r}: renamed or deleted."
        elif given.code:
            yield f"A given cell was deleted, and ran all the same: {_line(given)}"
            earlier = [
                i for i, (at, _) in enumerate(cells) if at is not None and at < place
            ]
            after = earlier[-1] + 1 if earlier else 0
            cells.insert(after, (place, Cell(given.source, "a given cell")))


def _place(cell: Given, edition: Sequence[Given], seen: set[int]) -> int | None:
    """Which cell of the edition this is: by its name, else its id, else its text."""
    if cell.name:
        places = [i for i, given in enumerate(edition) if given.name == cell.name]
        if places:
            return places[0]
    for place, given in enumerate(edition):  # an editor may have dropped all names
        known = given.identity and given.identity == cell.identity
        if known and place not in seen and not (cell.name and given.name):
            return place
    for place, given in enumerate(edition):
        fits = given.code == cell.code and not given.name and place not in seen
        if fits and _squeezed(given.source) == _squeezed(cell.source):
            return place
    return None


def _squeezed(source: str) -> str:
    return "\n".join(line.rstrip() for line in source.strip().splitlines())


def _line(cell: Given) -> str:
    return cell.source.strip().partition("\n")[0][:60]


# --- Marks ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A hidden input: what is special about it ("" if nothing is), the arguments, and the authors' value."""

    label: str
    arguments: tuple[Any, ...]
    expected: Any


@dataclass(frozen=True)
class Reply:
    """What came of calling a student's function on one input.

    Attributes
    ----------
    kind : {"value", "error", "stopped", "missing", "unreadable"}
        A value came back, or why none did.
    value : object
        What came back, decoded.
    said : str
        About a fault, for the person who grades.
    told : str
        The same for the student, in words that hold nothing of the input.
    """

    kind: str
    value: Any = None
    said: str = ""
    told: str = ""


@dataclass(frozen=True)
class Mark:
    """What a task got.

    Attributes
    ----------
    points, out_of : int
        All or nothing.
    kind : str
        "right", "not done", "missing", "error", "stopped", "edge case", or the kind of fault.
    message : str
        A sentence for the student. It holds no value, and nothing that a student's process could have
        smuggled out of an input: no shape, no type's name, no error's text.
    detail : str
        More of it, for the person who grades.
    """

    points: int
    out_of: int
    kind: str
    message: str
    detail: str = ""


#: For the student, by the kind of fault.
SAID = {
    "right": "Right on every input.",
    "not done": "Not done yet.",
    "missing": "There is no function of this name: its cell was renamed or deleted, or didn't run.",
    "error": "Your function raised an error.",
    "stopped": "Your function was stopped: it took too long, or too much memory, or ended Python itself.",
    "unreadable": "What came back couldn't be read.",
    "type": "What comes back isn't of the type that was asked for.",
    "shape": "What comes back hasn't the shape that was asked for.",
    "axis": "Rows and columns are exchanged.",
    "sign": "The opposite sign would be right.",
    "normalisation": "Right but for a factor.",
    "not finite": "Some of the numbers aren't finite.",
    "value": "What comes back isn't right.",
}

#: Errors whose name may be shown; any other class may carry anything in its name.
KNOWN_ERRORS = frozenset(
    name
    for name, kind in vars(builtins).items()
    if isinstance(kind, type) and issubclass(kind, Exception)
) | {"LinAlgError"}


def through_text(value: Any) -> Any:
    """A value as it comes out of another process: lists for tuples, arrays for tensors."""
    return loads(dumps(value))


def hidden_cases(key: Key, rng: np.random.Generator) -> tuple[Case, ...]:
    """The hidden inputs of a task, with what the authors' solution says to each."""
    cases = []
    for label, arguments in key.cases(rng):
        given = tuple(through_text(part) for part in arguments)
        expected = None
        if key.accept is None:
            expected = through_text(key.solution(*copy.deepcopy(given)))
        cases.append(Case(label, given, expected))
    return tuple(cases)


def mark(
    points: int, key: Key, cases: Sequence[Case], replies: Sequence[Reply]
) -> Mark:
    """Mark a task: right on every case, or no points.

    Parameters
    ----------
    points : int
        What the task is worth.
    key : Key
        Whose `accept` decides, if there is one.
    cases : sequence of Case
    replies : sequence of Reply
        One for each case, in the same order; those that are missing count as stopped.
    """
    faults: list[tuple[Case, Fault, Reply]] = []
    replies = [*replies, *[Reply("stopped")] * (len(cases) - len(replies))]
    for case, reply in zip(cases, replies, strict=True):
        fault = _fault(key, case, reply)
        if fault:
            faults.append((case, fault, reply))
    if not faults:
        return Mark(points, points, "right", SAID["right"])
    undone = sum(fault.kind == "not done" for _, fault, _ in faults)
    if undone < len(cases):  # whoever answers some inputs has begun
        nothing = Fault("type", "nothing came back (is a `return` missing?)")
        faults = [
            (case, nothing if fault.kind == "not done" else fault, reply)
            for case, fault, reply in faults
        ]
    case, fault, reply = min(faults, key=lambda each: _weight(each[1], each[0]))
    passed = len(cases) - len(faults)
    message = SAID.get(fault.kind, f"{fault.kind[:1].upper()}{fault.kind[1:]}.")
    kind = fault.kind
    if reply.kind != "value" and reply.told:
        message = reply.told
    whole = kind in {"not done", "missing"}
    ordinary_pass = any(not each.label for each in cases) and all(
        each.label for each, _, _ in faults
    )
    if case.label and not whole:
        if ordinary_pass and kind not in {"error", "stopped"}:
            kind = "edge case"
            message = f"Right on ordinary inputs, but not here: {case.label}."
        else:
            message += f" (Input: {case.label}.)"
    if not whole and (passed or kind != "stopped"):
        message += f" {passed} of {len(cases)} inputs were right."
    more = fault.message if fault.kind in {"shape", "type"} else ""
    detail = _one_line(reply.said or more)
    return Mark(0, points, kind, message, "" if detail in message else detail)


def _fault(key: Key, case: Case, reply: Reply) -> Fault | None:
    if reply.kind != "value":
        return Fault(reply.kind, "")
    stub = isinstance(reply.value, Foreign) and reply.value.name == "ellipsis"
    if reply.value is None or stub:
        return Fault("not done", "")
    # What a hostile process sends may break a comparison; it breaks nothing else.
    with np.errstate(all="ignore"):
        try:
            if key.accept is None:
                return compare(reply.value, case.expected)
            said = key.accept(reply.value, *copy.deepcopy(case.arguments))
        except Exception as error:
            return Fault("type", f"can't be compared: {type(error).__name__}")
    return Fault(said, said) if said else None


def _weight(fault: Fault, case: Case) -> tuple[int, bool]:
    """Which fault is told: one that explains the others, on an ordinary input if it shows there."""
    order = ("missing", "stopped", "error", "not done")
    return order.index(fault.kind) if fault.kind in order else len(order), bool(
        case.label
    )


def told(error: str, source: str = "") -> str:
    """What of an error a student may read: its kind, and what of it stands in the student's own text.

    The rest of it may hold anything: a process that has seen the hidden inputs wrote it.
    """
    name, _, rest = error.partition(":")
    if name not in KNOWN_ERRORS:
        return "an error of its own kind"
    lines = source.splitlines()
    where = re.search(r"\(line (\d{1,5})\)$", rest.strip())
    if where and 1 <= int(where[1]) <= len(lines):
        return f"{name} in line {where[1]}: {_one_line(lines[int(where[1]) - 1])[:100]}"
    unknown = re.match(r" name '(\w+)' is not defined", rest)
    if unknown and re.search(rf"\b{unknown[1]}\b", source):
        return f"{name}: {unknown[1]} is not defined"
    return name


def _one_line(text: str) -> str:
    return " ".join(text.split())[:300]


def mark_functions(
    assignment: Assignment,
    functions: Mapping[str, Any],
    make_rng: Callable[[str], np.random.Generator],
    *,
    authors: Mapping[str, Key] | None = None,
    only: Iterable[str] | None = None,
) -> dict[str, Mark]:
    """Mark functions of this process: for authors and tests, who trust what they run.

    Parameters
    ----------
    assignment : Assignment
    functions : mapping
        The functions to mark, by name.
    make_rng : callable
        The generator of a task's hidden cases, by the task's name.
    authors : mapping of Key, optional
        What to mark with; by default the assignment's notebook is run for it.
    only : iterable of str, optional
        Tasks to mark; by default all in code.
    """
    authors = keys(assignment) if authors is None else authors
    return {
        name: mark(
            assignment.task(name).points,
            key,
            cases := hidden_cases(key, make_rng(name)),
            [call(functions.get(name), case.arguments) for case in cases],
        )
        for name, key in authors.items()
        if only is None or name in set(only)
    }


def call(function: Any, arguments: tuple[Any, ...]) -> Reply:
    """Call a function in this process, on copies."""
    if not callable(function):
        return Reply("missing")
    given = copy.deepcopy(arguments)
    try:
        value = function(*given)
    except NotImplementedError:
        return Reply("value", None)
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        return Reply("error", said=said, told=f"Your function raised {told(said)}.")
    return Reply("value", through_text(value))
