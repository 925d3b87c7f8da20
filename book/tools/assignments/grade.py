"""Grade a folder of submissions (`make grade COURSE=... SUBMISSIONS=...`).

    python -m book.tools.assignments.grade --course COURSE                  what lies in COURSE/submitted
    python -m book.tools.assignments.grade --course COURSE 01-weighted-td   this assignment only
    ... --submissions FOLDER    FOLDER/<student>/<assignment>/<assignment>.ipynb

Each submission leaves a record (COURSE/records) as soon as it is graded: a second call grades what is new
or changed, and nothing twice. Then come the tables (COURSE/marks), a page for each student
(COURSE/feedback), and, for what a person has to mark, a table to fill in and a page to read
(COURSE/hand): fill in the points, and call again.
"""

import signal
import sys

if (
    __name__ == "__main__"
):  # the imports take a second, in which Ctrl-C is one line, too
    signal.signal(signal.SIGINT, lambda *_: sys.exit("\nStopped."))

import argparse
import contextlib
import hmac
import json
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from pathlib import Path

import psutil
from tqdm import tqdm

from book.tools.assignments import feedback, tables
from book.tools.assignments.course import (
    SECRET,
    SETTINGS,
    Course,
    CourseError,
    numbers,
    open_course,
)
from book.tools.assignments.marking import (
    SAID,
    Case,
    Mark,
    Reply,
    Submission,
    hidden_cases,
    mark,
    read_submission,
    student_edition,
    told,
)
from book.tools.assignments.sandbox import (
    NOT_ISOLATED,
    Call,
    Job,
    Limits,
    Outcome,
    SandboxError,
    available,
    run,
)
from book.tools.assignments.source import (
    NOTEBOOKS,
    TEXT,
    Assignment,
    AssignmentError,
    Key,
    assignment_names,
    keys,
    read_assignment,
)
from book.tools.assignments.tables import Graded, Row
from book.tools.canonical import ROOT
from book.tools.notebooks import check_files

CHECKS = NOTEBOOKS / "checks"
LIBRARY = ROOT / "ictd_lib"

#: More wouldn't be faster on two cores; each submission runs on one thread.
AT_ONCE = 2

#: By the clock, for a submission's cells, and again for each task.
SECONDS = 60.0


#: So many names of what was passed over are printed.
SHOWN = 10


class GradeError(Exception):
    """Grading can't begin: one line that says why."""


@dataclass(frozen=True)
class HandedIn:
    """A submission that was found: whose, where, and why it isn't read ("" if it is)."""

    student: str
    path: Path
    note: str = ""
    problem: str = ""


@dataclass(frozen=True)
class Marker:
    """What an assignment's submissions are marked with."""

    assignment: Assignment
    keys: dict[str, Key]
    cases: dict[str, tuple[Case, ...]]
    limits: Limits
    unsafe: bool
    isolated: bool
    python: str


# --- What was handed in ----------------------------------------------------------------------------


def handed_in(folder: Path, assignment: str) -> Iterator[HandedIn]:
    """Submissions of an assignment; what lies outside of the folder isn't followed."""
    root = folder.resolve()
    for student in sorted(folder.iterdir(), key=lambda path: os.fsencode(path.name)):
        place = student / assignment
        flat = not place.is_dir() and (student / f"{assignment}.ipynb").is_file()
        if student.name.startswith(".") or not (flat or place.is_dir()):
            continue
        if flat:  # as many a course's website packs what was handed in
            place = student
        path, note = place / f"{assignment}.ipynb", ""
        if not path.exists() and not path.is_symlink():
            others = sorted(place.glob("*.ipynb"))
            if len(others) != 1:
                problem = f"There is no {assignment}.ipynb in what was handed in."
                yield HandedIn(student.name, path, problem=problem)
                continue
            path = others[0]
            note = f"The notebook is called {tables.shown(path.name)}."
        elif not flat:
            stray = [
                each.name for each in sorted(place.glob("*.ipynb")) if each != path
            ]
            if stray:
                note = f"Not read, beside it: {tables.shown(', '.join(stray))}."
        try:
            real = path.resolve(strict=True)
            outside = not real.is_relative_to(root)
        except (OSError, RuntimeError):
            real, outside = path, True
        if outside:
            problem = "What was handed in is a link to somewhere else."
            yield HandedIn(student.name, path, problem=problem)
        else:
            yield HandedIn(student.name, real, note)


def passed_over(folder: Path) -> list[str]:
    """Notebooks and archives among the submissions that lie where no assignment is looked for."""
    names = set(assignment_names())
    found = set()
    for path in (*folder.glob("*"), *folder.glob("*/*"), *folder.glob("*/*/*")):
        place = path.relative_to(folder).parts
        known = names & {path.stem} if len(place) == 2 else names & set(place[1:-1])
        hidden = any(part.startswith(".") for part in place)
        if path.suffix in {".ipynb", ".zip"} and not known and not hidden:
            found.add(tables.shown("/".join(place)))
    return sorted(found)


# --- One submission --------------------------------------------------------------------------------


def grade(marker: Marker, given: HandedIn, digest: str) -> Graded:
    """Grade a submission."""
    submission = (
        Submission(problem=given.problem)
        if given.problem
        else read_submission(given.path, marker.assignment)
    )
    told_too = [note for note in (given.note, submission.problem) if note]
    told_too += submission.notes
    notes = list(told_too)
    marks: dict[str, Mark] = {}
    if not submission.problem:
        outcome = run(
            Job(
                tuple((cell.where, cell.source) for cell in submission.cells),
                tuple(
                    Call(name, name, tuple(case.arguments for case in cases))
                    for name, cases in marker.cases.items()
                ),
            ),
            marker.limits,
            python=marker.python,
            library=LIBRARY,
            checks=CHECKS,
            unsafe=marker.unsafe,
        )
        notes += _notes(outcome)
        told_too += _told(outcome, submission)
        for name, cases in marker.cases.items():
            points = marker.assignment.task(name).points
            replies = list(_replies(outcome, submission, name, len(cases)))
            marks[name] = mark(points, marker.keys[name], cases, replies)
    return Graded(
        tables.shown(given.student),
        tables.file_name(given.student),
        marker.assignment.name,
        digest,
        marker.isolated,
        tuple(notes),
        tuple(told_too),
        tuple(_rows(marker.assignment, submission, marks)),
        _by_hand(marker.assignment, submission),
        submission.pictures,
    )


def _notes(outcome: Outcome) -> Iterator[str]:
    for where, error in outcome.cells.items():
        yield f"{where[:1].upper()}{where[1:]} fails: {error}."
    if outcome.notes:
        yield f"Seen: {'; '.join(outcome.notes)}."
    if "" in outcome.ended:
        yield f"Its cells were stopped: {outcome.ended['']}."


def _told(outcome: Outcome, submission: Submission) -> Iterator[str]:
    """The notes as a student may read them: a process that has seen hidden inputs wrote them."""
    sources = {cell.where: cell.source for cell in submission.cells}
    for where, error in outcome.cells.items():
        words = told(error, sources.get(where, ""))
        yield f"{where[:1].upper()}{where[1:]} fails: {words}."
    if set(outcome.notes) - {NOT_ISOLATED}:
        yield "The notebook replaces functions of Python, a library or the checks: marks don't depend on them."
    if "" in outcome.ended:
        yield f"Its cells were stopped: {outcome.ended['']}."


def _replies(
    outcome: Outcome, submission: Submission, name: str, count: int
) -> Iterator[Reply]:
    """What came of a task's calls, in words for the one side and for the other."""
    source = submission.answers.get(name, "")
    results = outcome.results.get(name, ())
    for result in results:
        if not result.error:
            yield Reply("value", result.value)
        elif result.error == f"NameError: name '{name}' is not defined":
            yield _missing(outcome, submission, name)
        elif result.error.partition(":")[0] == "NotImplementedError":
            yield Reply("value", None)
        else:
            words = f"Your function raised {told(result.error, source)}."
            yield Reply("error", said=result.error, told=words)
    why = outcome.ended.get(name, "")
    if len(results) < count:
        who = "A cell of the notebook" if "" in outcome.ended else "Your function"
        words = f"{who} {why}." if why else SAID["stopped"]
        words = words.replace(f"{who} all of it", "The notebook, all of it,")
        yield from [Reply("stopped", said=why, told=words)] * (count - len(results))


def _missing(outcome: Outcome, submission: Submission, name: str) -> Reply:
    """Why there is no function: the cell of that task says so, if it failed."""
    source = submission.answers.get(name)
    for cell in submission.cells:
        if cell.source == source and cell.where in outcome.cells:
            error = outcome.cells[cell.where]
            words = f"The task's cell ({cell.where}) fails: {told(error, source)}."
            return Reply("missing", said=error, told=words)
    return Reply("missing")


def _rows(
    assignment: Assignment, submission: Submission, marks: dict[str, Mark]
) -> Iterator[Row]:
    stubs = {given.name: given.source for given in student_edition(assignment)}
    for task in assignment.tasks:
        facts = (task.name, task.kind, task.title)
        answer = submission.answers.get(task.name, "")
        if submission.problem:
            message = submission.problem
            yield Row(*facts, 0, task.points, "unreadable", message)
        elif task.kind == "code":
            got = marks[task.name]
            yield Row(*facts, got.points, got.out_of, got.kind, got.message, got.detail)
        elif answer.strip() in {"", stubs[task.name].strip()} and not (
            task.name not in submission.answers
        ):
            yield Row(*facts, 0, task.points, "not done", SAID["not done"])
        else:
            message = "A person marks this task."
            yield Row(*facts, None, task.points, tables.PENDING, message)


def _by_hand(assignment: Assignment, submission: Submission) -> dict[str, str]:
    return {
        task.name: submission.answers.get(
            task.name, "(no cell carries this task's name: look into the notebook)"
        )
        for task in assignment.tasks
        if task.kind == "hand"
    }


# --- A class ---------------------------------------------------------------------------------------


def prepare(
    course: Course, name: str, limits: Limits, *, unsafe: bool, python: str
) -> Marker:
    """Read an assignment, and compute once what its hidden cases should give."""
    assignment = read_assignment(name)
    key_of = keys(assignment)
    cases = {
        task: hidden_cases(key, numbers(course, name, task))
        for task, key in key_of.items()
    }
    return Marker(
        assignment, key_of, cases, limits, unsafe, available() is None, python
    )


def foundation(course: Course, marker: Marker) -> bytes:
    """All that marks depend on, but for the submission."""
    text = hmac.new(course.secret.encode(), digestmod="sha256")
    text.update(f"{marker.isolated} {marker.limits}".encode())
    written = TEXT / f"{marker.assignment.name}.md"
    files = [written, *check_files(written.read_text("utf-8"))]
    files += sorted(LIBRARY.rglob("*.py"))
    tools = ("cgroup", "isolation", "marking", "record", "runner", "sandbox", "source")
    files += [Path(__file__).with_name(f"{name}.py") for name in tools]
    for path in files:
        text.update(f"\n{path.name}\n".encode() + path.read_bytes())
    return text.digest()


def digest_of(base: bytes, given: HandedIn) -> str:
    """Changes when anything does that a record depends on."""
    text = hmac.new(base, f"{given.note}\n{given.problem}\n".encode(), "sha256")
    if not given.problem:
        try:
            with given.path.open("rb") as file:
                while part := file.read(2**20):
                    text.update(part)
        except OSError as error:
            text.update(f"{error.errno}".encode())
    return text.hexdigest()


def read_record(path: Path) -> Graded | None:
    """A stored record; None if there is none, or it can't be read."""
    try:
        return Graded.from_json(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None


def grade_class(
    course: Course, marker: Marker, folder: Path
) -> tuple[int, int, list[str]]:
    """Grade what is new or changed. Return how many were graded, how many were as before, what went wrong."""
    base = foundation(course, marker)
    name = marker.assignment.name
    due: list[tuple[HandedIn, str, Path]] = []
    kept = 0
    for given in handed_in(folder, name):
        path = course.record(tables.file_name(given.student), name)
        stored, digest = read_record(path), digest_of(base, given)
        if stored is not None and stored.digest == digest:
            kept += 1
        else:
            due.append((given, digest, path))
    wrong = []
    with ThreadPoolExecutor(AT_ONCE) as pool:
        begun: dict[Future[Graded], tuple[HandedIn, Path]] = {
            pool.submit(grade, marker, given, digest): (given, path)
            for given, digest, path in due
        }
        bar = tqdm(
            as_completed(begun), name, len(due), unit="submission", disable=not due
        )
        for ended in bar:
            given, path = begun[ended]
            try:
                record = ended.result()
            except Exception as error:  # of ours: the rest of the class goes on
                student = tables.shown(given.student)
                wrong.append(f"{name}, {student}: {type(error).__name__}: {error}")
                continue
            tables.write(path, json.dumps(record.as_json(), indent=1) + "\n")
    return len(due) - len(wrong), kept, wrong


def records_of(course: Course, assignment: str) -> list[Graded]:
    """All records of an assignment, by the student's name."""
    folder = course.record("x", assignment).parent
    found = [read_record(path) for path in sorted(folder.glob("*.json"))]
    return sorted(
        (record for record in found if record is not None),
        key=lambda record: (record.student, record.file),
    )


def hand_in_back(
    course: Course, assignment: Assignment
) -> tuple[list[Graded], list[str]]:
    """Merge what was marked by hand, and write tables and pages. Return the records, and what can't be read."""
    records = records_of(course, assignment.name)
    folder = course.folder / "hand"
    path = folder / f"{assignment.name}.csv"
    hand, problems = tables.read_hand(path)
    hand, remarks = tables.settle(hand, records)
    for remark in remarks:
        print(f"{path}: {remark}", file=sys.stderr)
    if not problems:  # a table that can't be read isn't written either
        text = tables.hand_table(records, hand)
        if text.count("\n") > 1:
            tables.write_table(path, text)
    records = [tables.merge(record, hand) for record in records]
    tables.write(
        folder / f"{assignment.name}.html", feedback.hand_page(assignment, records)
    )
    tables.write_table(course.marks(assignment.name), tables.marks_table(records))
    for record in records:
        page = course.feedback(record.file, assignment.name) / f"{assignment.name}.html"
        tables.write(page, feedback.student_page(assignment, record))
    return records, problems


def write_totals(course: Course) -> None:
    """Write the totals of all assignments that have been graded."""
    records: list[Graded] = []
    for folder in sorted(course.record("x", "y").parent.parent.glob("*/")):
        hand, _ = tables.read_hand(course.folder / "hand" / f"{folder.name}.csv")
        found = records_of(course, folder.name)
        hand, _ = tables.settle(hand, found)
        records += [tables.merge(record, hand) for record in found]
    records.sort(key=lambda record: (record.student, record.file, record.assignment))
    tables.write_table(course.marks("totals"), tables.totals_table(records))


# --- The command -----------------------------------------------------------------------------------


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m book.tools.assignments.grade", description="Grade submissions."
    )
    parser.add_argument("assignments", nargs="*", help="by default all handed in")
    parser.add_argument("--course", default="", help="folder of the course")
    parser.add_argument("--submissions", default="", help="default: COURSE/submitted")
    parser.add_argument("--unsafe", action="store_true", help="without isolation, too")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for each task")
    parser.add_argument("--python", default=sys.executable, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Grade; return the exit status."""
    said = parse(arguments)
    try:
        return _main(said)
    except (GradeError, CourseError, AssignmentError, SandboxError) as error:
        print(error, file=sys.stderr)
    except OSError as error:
        print(f"{error.filename or ''}: {error.strerror or error}", file=sys.stderr)
    return 1


@contextlib.contextmanager
def alone(course: Course) -> Iterator[None]:
    """Keep a second grading of a course out, where the system can; the end of this process lets it in."""
    if sys.platform == "win32":
        yield
        return
    import fcntl

    with (course.folder / ".grading").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise GradeError(
                f"{course.folder} is being graded already: wait for it, or stop it"
            ) from None
        yield


def _main(said: argparse.Namespace) -> int:
    if not said.course:
        raise GradeError("say which course: make grade COURSE=folder")
    if not all((Path(said.course) / name).exists() for name in (SETTINGS, SECRET)):
        raise GradeError(
            f"{said.course} is no course: `make assignments COURSE={said.course}` makes one"
        )
    course = open_course(said.course)
    folder = Path(said.submissions or course.folder / "submitted")
    if not folder.is_dir():
        raise GradeError(f"submissions: there is no folder {folder}")
    lacking = available()
    if lacking is not None and not said.unsafe:
        raise GradeError(
            f"submissions can't be isolated here ({lacking}); with UNSAFE=1 they run "
            "all the same, and can do what you can do"
        )
    names = assignment_names()
    for name in said.assignments:
        if name not in names:
            raise GradeError(
                f"assignments: got {name!r}, expected some of {', '.join(names)}"
            )
    wanted = said.assignments or [
        name for name in names if next(handed_in(folder, name), None)
    ]
    if not wanted:
        raise GradeError(
            f"nothing to grade: no <student>/<assignment>/<assignment>.ipynb in {folder}"
        )
    with alone(course):
        return _grade_all(said, course, folder, wanted)


def _grade_all(
    said: argparse.Namespace, course: Course, folder: Path, wanted: Sequence[str]
) -> int:
    status = 0
    for name in wanted:
        limits = replace(Limits(), seconds=said.seconds)
        marker = prepare(course, name, limits, unsafe=said.unsafe, python=said.python)
        graded, kept, wrong = grade_class(course, marker, folder)
        records, problems = hand_in_back(course, marker.assignment)
        for line in [*wrong, *problems]:
            print(line, file=sys.stderr)
            status = 1
        print(_summary(course, marker.assignment, records, (graded, kept, len(wrong))))
    write_totals(course)
    if strange := passed_over(folder):
        more = f" and {len(strange) - SHOWN} more" if len(strange) > SHOWN else ""
        print(
            f"Not looked at, since it isn't where an assignment would be: "
            f"{', '.join(strange[:SHOWN])}{more} (in {folder})",
            file=sys.stderr,
        )
    return status


def _summary(
    course: Course,
    assignment: Assignment,
    records: Sequence[Graded],
    counts: tuple[int, int, int],
) -> str:
    graded, kept, wrong = counts
    points = sum(record.points for record in records) / max(1, len(records))
    pending = sum(record.pending for record in records)
    line = (
        f"{assignment.name}: {graded} graded, {kept} as before"
        f"{f', {wrong} NOT graded' if wrong else ''}; "
        f"{points:.1f} of {assignment.points} points on average"
    )
    if pending:
        hand = course.folder / "hand" / f"{assignment.name}.csv"
        answers = f"{pending} answer{'s' * (pending > 1)}"
        line += f"; {answers} to be marked by hand in {hand}"
    if not all(record.isolated for record in records):
        line += "; some ran without isolation"
    return f"{line}. Marks: {course.marks(assignment.name)}"


def stop(*_: object) -> None:
    """Stop at once, with a line; what was graded stays, and no student's process remains."""
    for child in psutil.Process().children(recursive=True):
        try:
            child.kill()
        except psutil.Error:
            continue
    print("\nStopped: the next call goes on from here.", file=sys.stderr, flush=True)
    os._exit(130)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, stop)
    sys.exit(main())
