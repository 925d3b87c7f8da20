"""Every assignment: its solutions are right, plausible wrong ones are not, and nothing in reach solves a task."""

import ast
import contextlib
import functools
import importlib
import inspect
import io
import itertools
import pkgutil
import signal
import sys
import time
import tomllib
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import jupytext
import numpy as np
import pytest

import ictd_lib
from book.assignments.notebooks.checks.engine import Check
from book.assignments.notebooks.checks.values import compare, dumps
from book.tools.assignments.course import Course, numbers
from book.tools.assignments.marking import (
    Case,
    call,
    hidden_cases,
    mark,
    student_edition,
    through_text,
)
from book.tools.assignments.source import (
    Assignment,
    Key,
    Task,
    assignment_names,
    keys,
    namespace,
    read_assignment,
)
from book.tools.canonical import ROOT

WRONG = ROOT / "tests" / "grading" / "wrong"
NAMES = assignment_names()
SECRETS = [f"a secret of sixteen, {number}" for number in range(20)]

#: The authors' solution of a task may take that long, all its hidden cases together.
SLOWEST = 8.0
#: What takes longer than this for one secret is computed once for each, not twice.
QUICK = 0.5


@dataclass(frozen=True)
class Authored:
    """An assignment, the names its notebook defines, and what it is marked with."""

    assignment: Assignment
    names: dict[str, Any]
    keys: dict[str, Key]

    @property
    def code(self) -> list[Task]:
        return [task for task in self.assignment.tasks if task.kind == "code"]


@functools.cache
def authored(name: str) -> Authored:
    assignment = read_assignment(name)
    names = namespace(assignment)
    return Authored(assignment, names, keys(assignment, names))


def rng_of(secret: str, assignment: str) -> Callable[[str], np.random.Generator]:
    course = Course(Path(), "course", "", "main", "", "", secret)
    return lambda task: numbers(course, assignment, task)


@functools.cache
def cases_of(name: str, task: str) -> tuple[Case, ...]:
    return hidden_cases(authored(name).keys[task], rng_of(SECRETS[0], name)(task))


@dataclass(frozen=True)
class Wrong:
    """A plausible wrong solution, and what the student's check calls it ("" if it can't see it)."""

    assignment: str
    task: str
    name: str
    find: str
    replace: str
    kind: str


def wrong_solutions() -> list[Wrong]:
    return [
        Wrong(path.stem, **entry)
        for path in sorted(WRONG.glob("*.toml"))
        for entry in tomllib.loads(path.read_text("utf-8")).get("wrong", [])
    ]


WRONG_SOLUTIONS = wrong_solutions()

each_assignment = pytest.mark.parametrize("name", NAMES)
CODE = [
    (name, task)
    for name in NAMES
    for task in read_assignment(name).tasks
    if task.kind == "code"
]
each_code_task = pytest.mark.parametrize(
    ("name", "task"), [(name, task.name) for name, task in CODE]
)
#: Those of which one answer is right; `accept` has tolerances of its own.
each_compared_task = pytest.mark.parametrize(
    ("name", "task"),
    [
        (n, task.name)
        for n, task in CODE
        if f"def {task.name}_accept(" not in task.hidden
    ],
)
each_wrong = pytest.mark.parametrize(
    "wrong",
    WRONG_SOLUTIONS,
    ids=[
        f"{w.assignment}-{w.task}-{w.name}".replace(" ", "_") for w in WRONG_SOLUTIONS
    ],
)


# --- What an assignment is made of -----------------------------------------------------------------


def test_there_is_an_assignment_for_each_chapter() -> None:
    chapters = {path.stem for path in (ROOT / "book" / "chapters").glob("*.md")}
    assert set(NAMES) == chapters


@each_assignment
def test_an_assignment_has_the_size_of_one(name: str) -> None:
    assignment = authored(name).assignment
    tasks = assignment.tasks
    assert 4 <= len(tasks) <= 7
    assert 20 <= assignment.points <= 30
    assert 60 <= assignment.minutes <= 100
    assert sum(task.kind == "code" for task in tasks) >= 3
    assert any(task.kind == "hand" for task in tasks)
    for task in tasks:
        assert task.kind == "code" or "**Rubric.**" in task.solution, task.name


@each_code_task
def test_a_student_has_four_mistakes_to_make(name: str, task: str) -> None:
    ours = [w for w in WRONG_SOLUTIONS if (w.assignment, w.task) == (name, task)]
    assert len(ours) >= 4
    assert len({w.name for w in ours}) == len(ours)


def test_wrong_solutions_belong_to_tasks() -> None:
    for wrong in WRONG_SOLUTIONS:
        assert wrong.assignment in NAMES, wrong
        assert wrong.task in authored(wrong.assignment).keys, wrong


# --- Solutions -----------------------------------------------------------------------------------


@each_code_task
def test_a_solution_gets_full_marks_under_twenty_secrets(name: str, task: str) -> None:
    """Its values are finite text; computed again they are the same; inputs belong to the secret."""
    key = authored(name).keys[task]
    points = authored(name).assignment.task(task).points
    seen = set()
    for secret in SECRETS:
        begin = time.perf_counter()
        cases = hidden_cases(key, rng_of(secret, name)(task))
        took = time.perf_counter() - begin
        assert took < SLOWEST
        assert 2 <= len(cases) <= 10
        assert any(not case.label for case in cases)
        seen.add(dumps([case.arguments for case in cases]))
        if key.accept is None and took > QUICK and secret != SECRETS[0]:
            continue  # the same function again: once in twenty is enough where it is slow
        replies = [call(key.solution, case.arguments) for case in cases]
        got = mark(points, key, cases, replies)
        assert got.points == points == got.out_of, got
        assert got.kind == "right", got
    assert len(seen) == len(SECRETS), "hidden inputs don't depend on the secret"


@each_assignment
def test_an_empty_submission_gets_nothing(name: str) -> None:
    """A stub returns None: that is "not done", for the student's check and for the marks, and never an error."""
    ours = authored(name)
    stubs = {
        given.name: stub(given.source, ours.names, given.name)
        for given in student_edition(ours.assignment)
        if given.role == "solution"
    }
    marks = {
        task.name: mark(
            task.points,
            ours.keys[task.name],
            cases := cases_of(name, task.name),
            [call(stubs[task.name], case.arguments) for case in cases],
        )
        for task in ours.code
    }
    assert {got.kind for got in marks.values()} == {"not done"}
    assert sum(got.points for got in marks.values()) == 0
    for task in ours.code:
        check = getattr(ours.names["check"], task.name)
        assert check.verdict(stubs[task.name]).kind == "not done", task.name


def stub(source: str, names: Mapping[str, Any], task: str) -> Any:
    scope = dict(names)
    exec(source, scope)
    return scope[task]


@each_code_task
def test_the_check_says_that_a_solution_is_right(name: str, task: str) -> None:
    check = getattr(authored(name).names["check"], task)
    verdict = check.verdict(authored(name).keys[task].solution)
    assert verdict.kind == "right", verdict


@each_compared_task
def test_an_answer_that_is_nearly_right_passes_or_not(name: str, task: str) -> None:
    """1e-9 off is the same answer, 1e-3 isn't (of the numbers' size, where they're compared with ours)."""
    key = authored(name).keys[task]
    cases = cases_of(name, task)
    for off, kind in ((1e-9, "right"), (1e-3, None)):
        replies = [
            call(lambda *_, c=case, o=off: shifted(c.expected, o), case.arguments)
            for case in cases
        ]
        got = mark(1, key, cases, replies)
        assert (got.kind == "right") == (kind == "right"), (off, got)


def shifted(value: Any, off: float) -> Any:
    """A value with every number in it moved, whatever it is made of."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, (int, float)):
        return value + off * (1 + abs(value))
    if isinstance(value, np.ndarray):
        return value + off * (1 + np.abs(value))
    if isinstance(value, dict):
        return {key: shifted(item, off) for key, item in value.items()}
    return [shifted(item, off) for item in value]


# --- Wrong solutions -------------------------------------------------------------------------------


@contextlib.contextmanager
def planted(wrong: Wrong) -> Iterator[Authored]:
    """The authors' notebook, with one solution edited."""
    ours = authored(wrong.assignment)
    source = ours.assignment.task(wrong.task).solution
    assert source.count(wrong.find) == 1, (
        f"{wrong.find!r} occurs {source.count(wrong.find)} times"
    )
    right = ours.names[wrong.task]
    try:
        exec(source.replace(wrong.find, wrong.replace), ours.names)
        yield ours
    finally:
        ours.names[wrong.task] = right


def depends(function: Any, name: str, names: Mapping[str, Any]) -> bool:
    """Whether a function looks a name up, itself or through functions of the notebook."""
    code, seen = [getattr(function, "__code__", None)], set()
    while code:
        this = code.pop()
        if this is None or this in seen:
            continue
        seen.add(this)
        if name in this.co_names:
            return True
        code += [const for const in this.co_consts if inspect.iscode(const)]
        code += [getattr(names.get(each), "__code__", None) for each in this.co_names]
    return False


@each_wrong
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # it is wrong
def test_a_wrong_solution_loses_its_points_and_nothing_else(wrong: Wrong) -> None:
    with planted(wrong) as ours, np.errstate(all="ignore"):
        function = ours.names[wrong.task]
        got = mark(
            1,
            ours.keys[wrong.task],
            cases := cases_of(wrong.assignment, wrong.task),
            [call(function, case.arguments) for case in cases],
        )
        assert got.points == 0
        assert got.kind not in {"right", "not done", "missing"}
        verdict = getattr(ours.names["check"], wrong.task).verdict(function)
        said = "right" if wrong.kind == "" else wrong.kind
        assert verdict.kind == said, verdict
        for other in ours.code:
            solution = ours.keys[other.name].solution
            if other.name != wrong.task and depends(solution, wrong.task, ours.names):
                cases = cases_of(wrong.assignment, other.name)
                replies = [call(solution, case.arguments) for case in cases]
                marked = mark(1, ours.keys[other.name], cases, replies)
                assert marked.points == 1, f"{other.name} falls with {wrong.task}"


# --- What is in reach ------------------------------------------------------------------------------


class TooLong(BaseException):
    """A candidate that takes its time is none; not an Exception, so that nothing on the way catches it."""


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raise TooLong after that time, and again: one raised in a callback (a finaliser's, the garbage
    collector's) goes no further than the callback, and is nothing that a test should fail for."""
    waiting = True

    def stop(_: int, frame: FrameType | None) -> None:
        if waiting:
            raise TooLong

    def lost(unraisable: Any) -> None:
        if unraisable.exc_type is not TooLong:
            report(unraisable)

    report, sys.unraisablehook = sys.unraisablehook, lost
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds, seconds / 4)
    try:
        yield
    finally:
        waiting = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        sys.unraisablehook = report


def tried(function: Callable[..., Any], arguments: tuple[Any, ...]) -> list[Any]:
    """What a call gives, and what is in it: items, attributes, its transpose. Nothing if it fails."""
    try:
        with (
            within(0.3),
            np.errstate(all="ignore"),
            warnings.catch_warnings(action="ignore"),
            contextlib.redirect_stdout(io.StringIO()),
        ):
            return opened(function(*arguments))
    except (Exception, TooLong):
        return []


def test_time_that_runs_out_in_a_callback_runs_out_after_it() -> None:
    class Slow:
        def __del__(self) -> None:
            time.sleep(0.1)

    def computes() -> None:
        Slow()
        time.sleep(10)

    begun = time.monotonic()
    with pytest.raises(TooLong), within(0.05):
        computes()
    assert time.monotonic() - begun < 5


def opened(value: Any) -> list[Any]:
    found = [value]
    if isinstance(value, (tuple, list)):
        found += list(value[:8])
    elif isinstance(value, np.ndarray) and value.ndim:
        found += [value[-1], value.T, *([value[0]] if value.ndim > 1 else [])]
    elif type(value).__module__.startswith("ictd_lib"):
        for name in dir(value):
            if not name.startswith("_"):
                with contextlib.suppress(Exception):
                    part = getattr(value, name)
                    found.append(part() if callable(part) else part)
    return found


@functools.cache
def library() -> list[Callable[..., Any]]:
    """Public functions and classes of the library that compute (those that draw or train many do not)."""
    found: list[Callable[..., Any]] = []
    for module in pkgutil.iter_modules(ictd_lib.__path__):
        if module.name.startswith("_") or module.name in {
            "figures",
            "pictures",
            "replication",
        }:
            continue
        loaded = importlib.import_module(f"ictd_lib.{module.name}")
        found += [
            thing
            for name, thing in vars(loaded).items()
            if not name.startswith("_")
            and callable(thing)
            and getattr(thing, "__module__", None) == loaded.__name__
        ]
    return found


@functools.cache
def chapter_functions() -> list[Callable[..., Any]]:
    """Functions that cells of the chapters define, with the imports and constants that they need."""
    found = []
    for path in sorted((ROOT / "book" / "chapters").glob("*.md")):
        notebook = jupytext.reads(path.read_text("utf-8"), fmt="md:myst")
        scope: dict[str, Any] = {"__name__": path.stem}
        for cell in notebook.cells:
            if cell.cell_type != "code":
                continue
            for statement in ast.parse(cell.source).body:
                kinds = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
                constant = isinstance(statement, ast.Assign) and isinstance(
                    statement.value, (ast.Constant, ast.Lambda)
                )
                if isinstance(statement, kinds) or constant:
                    with contextlib.suppress(NameError):  # a default of another cell's
                        exec(ast.unparse(statement), scope)
        found += [thing for thing in scope.values() if inspect.isfunction(thing)]
    return [thing for thing in found if not thing.__module__.startswith("ictd_lib")]


def fits(annotation: Any, argument: Any) -> bool:
    """Whether an argument may be meant: by the annotation, where there is one."""
    said = str(annotation)
    array = isinstance(argument, (np.ndarray, list))
    if "Context" in said or "MarkovRewardProcess" in said:
        return type(argument).__name__ in said
    if "Generator" in said or "Callable" in said:
        return False
    if type(argument).__module__.startswith("ictd_lib"):
        return annotation is inspect.Parameter.empty or type(argument).__name__ in said
    if "ArrayLike" in said or "Sequence" in said or "Floats" in said:
        return array or "float" in said
    if said.startswith(("float", "int")):
        return isinstance(argument, (int, float)) and not isinstance(argument, str)
    return True


def calls(function: Callable[..., Any], pool: list[Any]) -> Iterator[tuple[int, ...]]:
    """The ways of calling a function with up to four of the arguments, in any order."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return
    plain = [
        each
        for each in parameters
        if each.kind in {each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD}
    ]
    needed = sum(each.default is each.empty for each in plain)
    if any(e.kind == e.KEYWORD_ONLY and e.default is e.empty for e in parameters):
        return
    for count in range(max(1, needed), min(4, len(plain)) + 1):
        options = [
            [i for i, argument in enumerate(pool) if fits(each.annotation, argument)]
            for each in plain[:count]
        ]
        for chosen in itertools.product(*options):
            if len(set(chosen)) == count:
                yield chosen


def pooled(
    arguments: tuple[Any, ...], built: list[tuple[Any, tuple[int, ...]]]
) -> list[Any]:
    """The arguments, and the contexts and chains that can be made of them."""
    pool = list(arguments)
    for kind, chosen in built:
        made = tried(kind, tuple(arguments[i] for i in chosen))
        pool.append(made[0] if made else None)
    return pool


def solves(key: Key, case: Case, value: Any) -> bool:
    if value is None:
        return False
    with np.errstate(all="ignore"):
        try:
            value = through_text(value)
            if key.accept is not None:
                return key.accept(value, *case.arguments) is None
            return compare(value, case.expected) is None
        except Exception:
            return False


def solving(
    key: Key, cases: tuple[Case, ...], reach: list[Callable[..., Any]]
) -> list[tuple[str, tuple[int, ...], int]]:
    """What solves a task: name, which arguments in which order, which part of what came back."""
    first, rest = cases[0], cases[1:]
    arguments = first.arguments
    makers: list[Callable[..., Any]] = [
        ictd_lib.Context,
        ictd_lib.MarkovRewardProcess,
    ]
    built = [
        (kind, chosen)
        for kind in makers
        for chosen in calls(kind, list(arguments))
        if tried(kind, tuple(arguments[i] for i in chosen))
    ]
    pools = [pooled(case.arguments, built) for case in cases]
    found = []
    for function in reach:
        for chosen in calls(function, pools[0]):

            def parts(pool: list[Any], of: tuple[int, ...] = chosen) -> list[Any]:
                return tried(function, tuple(pool[i] for i in of))  # noqa: B023

            right = [
                part
                for part, value in enumerate(parts(pools[0]))
                if solves(key, first, value)
            ]
            for case, pool in zip(rest, pools[1:], strict=True):
                if right:
                    values = dict(enumerate(parts(pool)))
                    right = [p for p in right if solves(key, case, values.get(p))]
            found += [(function.__name__, chosen, part) for part in right]
    return found


@each_code_task
def test_nothing_in_reach_solves_a_task(name: str, task: str) -> None:
    """No public function or class of the library, no function of a chapter or given in the notebook."""
    ours = authored(name)
    given = [
        thing
        for label, thing in ours.names.items()
        if inspect.isfunction(thing)
        and thing.__module__ == ours.names["__name__"]
        and label not in ours.keys
        and not label.endswith(("_cases", "_accept"))
    ]
    reach: list[Callable[..., Any]] = [*library(), *chapter_functions(), *given]
    assert not solving(ours.keys[task], cases_of(name, task), reach)


def planted_task(solution: Callable[..., Any]) -> tuple[Key, tuple[Case, ...]]:
    """A task on a trajectory, with arguments in an order of its own."""

    def cases(rng: np.random.Generator) -> Iterator[tuple[str, tuple[Any, ...]]]:
        for states in (3, 4):
            path = np.append(np.arange(states), rng.integers(states, size=5))
            scores = rng.standard_normal((states, states))
            yield "", (scores, 0.9, rng.standard_normal(len(path) - 1), path, states)

    key = Key(solution, cases, None)
    return key, hidden_cases(key, np.random.default_rng(1))


def test_the_search_finds_a_task_that_the_library_solves() -> None:
    def kernel(
        scores: Any, discount: float, rewards: Any, path: Any, states: int
    ) -> Any:
        return ictd_lib.context_kernel(ictd_lib.Context(path, rewards, states), scores)

    def rewards_of(
        scores: Any, discount: float, rewards: Any, path: Any, n: int
    ) -> Any:
        return ictd_lib.Context(path, rewards, n).mean_rewards()

    def last(scores: Any, discount: float, rewards: Any, path: Any, n: int) -> Any:
        context = ictd_lib.Context(path, rewards, n)
        return ictd_lib.weighted_softmax_td(context, scores, discount, n)[-1]

    for solution, name in (
        (kernel, "context_kernel"),
        (rewards_of, "Context"),
        (last, "weighted_softmax_td"),
    ):
        found = {each for each, *_ in solving(*planted_task(solution), library())}
        assert name in found

    def of_a_chapter(x: Any) -> Any:
        return x.sum()

    def own(scores: Any, discount: float, rewards: Any, path: Any, states: int) -> Any:
        return discount * rewards.sum() + scores[0, 0]

    reach: list[Callable[..., Any]] = [*library(), of_a_chapter]
    assert not solving(*planted_task(own), reach)


def test_the_search_knows_the_functions_of_the_chapters() -> None:
    names = {function.__name__ for function in chapter_functions()}
    assert {"softmax_td_by_hand"} <= names
    assert len(names) >= 10


@each_code_task
def test_a_check_has_nothing_to_copy(name: str, task: str) -> None:
    """No computation of the solution stands in the module of the checks, however it's laid out."""
    module = authored(name).names["check"]
    solution = authored(name).assignment.task(task).solution
    assert not computations(solution) & computations(inspect.getsource(module))


def computations(source: str) -> set[str]:
    """What a program assigns or returns, where it takes more than one operation to get there."""
    kinds = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return)
    return {
        ast.unparse(node.value)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, kinds) and node.value is not None
        if sum(isinstance(part, (ast.BinOp, ast.Call)) for part in ast.walk(node)) > 1
        and any(isinstance(part, ast.BinOp) for part in ast.walk(node))
    }


def test_a_check_of_a_function_that_warns_is_a_check_all_the_same() -> None:
    """Plain nbgrader takes what is written to stderr for a failure."""

    def same(x: np.ndarray) -> np.ndarray:
        warnings.warn("old", DeprecationWarning, stacklevel=1)
        return x

    check = Check("same", lambda rng: [("", (rng.random(3),))], lambda v, x: v - x)
    assert check.verdict(same).kind == "right"
