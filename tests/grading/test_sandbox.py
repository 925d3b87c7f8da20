"""Submissions that try what they may not, from inside; what is asserted is what came of it."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import hypothesis
import numpy as np
import pytest

from book.tools.assignments import cgroup, isolation, sandbox
from book.tools.assignments.record import Record
from book.tools.assignments.sandbox import (
    Call,
    Job,
    Limits,
    Outcome,
    Result,
    SandboxError,
)

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "library": ROOT / "ictd_lib",
    "checks": ROOT / "book" / "assignments" / "notebooks" / "checks",
}
PLENTY = Limits(seconds=60)
SHORT = Limits(seconds=2)


def submitted(
    source: str, *calls: Call, limits: Limits = PLENTY, **options: Any
) -> Outcome:
    lacking = sandbox.available()
    if lacking is not None and not options.get("unsafe"):
        pytest.skip(f"NO BARRIER WAS TRIED: {lacking}")
    cells = tuple(
        (f"cell {k}", dedent(part).strip())
        for k, part in enumerate(source.split("# %%\n"))
    )
    return sandbox.run(Job(cells, calls), limits, **(PACKAGES | options))


def call(name: str, *arguments: Any) -> Call:
    return Call(name, name, (arguments,))


def value(outcome: Outcome, task: str) -> Any:
    (result,) = outcome.results[task]
    assert result.error == ""
    return result.value


# What a submission can reach: one process tries all of it, and its functions say what they saw.

REACH = """
import os, socket, signal, ctypes, resource, pathlib, sys, threading, time
import numpy as np

def tried(action):
    try:
        return f"did it: {action()!r}"[:300]
    except BaseException as error:
        return type(error).__name__
# %%
def network(port, name):
    def connect(family, kind, address):
        with socket.socket(family, kind) as s:
            s.settimeout(2)
            s.connect(address)
            s.send(b"x")
    return [
        tried(lambda: connect(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", port))),
        tried(lambda: connect(socket.AF_INET, socket.SOCK_DGRAM, ("192.0.2.1", 53))),
        tried(lambda: connect(socket.AF_UNIX, socket.SOCK_STREAM, "\\0" + name)),
        tried(lambda: socket.getaddrinfo("localhost.example", 80)),
    ]

def reads(paths):
    look = lambda path: sorted(os.listdir(path)) if os.path.isdir(path) else open(path).read(20)
    return [tried(lambda: look(path)) for path in paths]

def visible():
    found = {}
    for top in os.listdir("/"):
        if top not in {"usr", "lib", "lib64", "proc", "dev", "venv"}:
            for folder, _, files in os.walk("/" + top):
                if "/versions/" not in folder:
                    found[folder] = sorted(files)
    return found

def writes(paths):
    return [tried(lambda: open(path, "a").close()) for path in paths]

def variables():
    return sorted(os.environ)

def descriptors():
    links = [tried(lambda: os.readlink(f"/proc/self/fd/{n}")) for n in os.listdir("/proc/self/fd")]
    return sorted(link.partition(": ")[2].strip("'").partition(":")[0] for link in links if "did it" in link)

def processes():
    return sorted(int(n) for n in os.listdir("/proc") if n.isdigit())

def kills(pid):
    return [tried(lambda: os.kill(pid, 9)), tried(lambda: os.kill(-1, 0)), tried(lambda: os.kill(1, 9))]

def powers():
    libc = ctypes.CDLL(None, use_errno=True)
    status = pathlib.Path("/proc/self/status").read_text()
    found = dict(line.split(":\\t", 1) for line in status.splitlines() if ":\\t" in line)
    return {
        "user": [os.getuid(), os.getgid()],
        "capabilities": int(found["CapEff"], 16),
        "new privileges": int(found["NoNewPrivs"]),
        "user namespace": libc.unshare(0x10000000),
        "mount": libc.mount(b"none", b"/tmp", b"tmpfs", 0, None),
        "memory limit lifted": tried(lambda: resource.setrlimit(resource.RLIMIT_AS, (-1, -1))),
        "host": socket.gethostname(),
    }

def files():
    def one(size):
        with open("/tmp/big", "wb") as f:
            f.write(bytes(size))
    def many(folder):
        for k in range(100):
            with open(f"{folder}/{k}", "wb") as f:
                f.write(bytes(10_000_000))
    return [tried(lambda: one(30_000_000)), tried(lambda: many("/tmp")), tried(lambda: many("/dev/shm"))]

def asks():
    return input("what is the answer? ")

def leaves():
    sys.exit("that was it")

def interrupts():
    raise KeyboardInterrupt

def recurses():
    return recurses()

def large(n):
    return np.broadcast_to(0.0, n)

def endless():
    a = []
    a.append(a)
    return a

def huge():
    return 10 ** 100_000

def hungry():
    return np.ones(10 ** 9).sum()

class Odd(Exception):
    def __str__(self):
        raise RuntimeError

def odd():
    raise Odd

def strange(kind):
    return {"function": strange, "text": "a" * 10**6, "bytes": b"", "none": None, "tuple": (1, [2.5, {"a": True}]),
            "nan": float("nan"), "array": np.arange(6).reshape(2, 3)}[kind]

def threads():
    def more():
        while True:
            time.sleep(0.01)
    for _ in range(10):
        threading.Thread(target=more).start()
    return threading.active_count() > 10

def job():
    import json
    given = json.load(open(sys.argv[1]))
    return [sorted(given), sorted({key for call in given["calls"] for key in call})]
"""


@pytest.fixture(scope="module")
def surroundings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What is there to be reached: a server, a process, a course with a secret."""
    course = tmp_path_factory.mktemp("course")
    (course / "secret").write_text("a secret")
    (course / "submitted" / "another").mkdir(parents=True)
    (course / "submitted" / "another" / "work.ipynb").write_text("{}")
    name = f"ictd-{os.getpid()}"
    sleeper = subprocess.Popen(["sleep", "600"])
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as local,
    ):
        local.bind("\0" + name)
        local.listen()
        yield {
            "course": course,
            "port": server.getsockname()[1],
            "name": name,
            "sleeper": sleeper,
        }
    sleeper.kill()
    sleeper.wait()


@pytest.fixture(scope="module")
def forbidden(surroundings: dict[str, Any]) -> list[str]:
    course = surroundings["course"]
    return [
        str(path)
        for path in (
            course,
            course / "secret",
            course / "submitted" / "another" / "work.ipynb",
            Path.home() / ".bashrc",
            ROOT,
            ROOT / "pyproject.toml",
            ROOT / "book" / "assignments",
            Path(__file__),
            "/etc/passwd",
            "/etc/hostname",
            f"/proc/{os.getpid()}/environ",
            f"/proc/1/root{Path(__file__)}",
            f"/proc/1/cwd{course}/secret",
            "/usr/bin",
            "/sys",
        )
    ]


@pytest.fixture(scope="module")
def reached(surroundings: dict[str, Any], forbidden: list[str]) -> Outcome:
    outside = ["/x", "/usr/lib/x", "/venv/x", "/job/x", "/job/job.json", "/dev/x"]
    kernel = ["/proc/sys/vm/swappiness", "/proc/sys/kernel/core_pattern"]
    kinds = ("function", "text", "bytes", "none", "tuple", "nan", "array")
    return submitted(
        REACH,
        call("network", surroundings["port"], surroundings["name"]),
        call("reads", forbidden),
        call("visible"),
        call("writes", outside + kernel + [str(surroundings["course"] / "new")]),
        call("variables"),
        call("descriptors"),
        call("processes"),
        call("kills", surroundings["sleeper"].pid),
        call("powers"),
        *map(call, ("asks", "leaves", "interrupts", "recurses", "endless", "huge")),
        *map(call, ("hungry", "odd", "job", "missing")),
        Call("large", "large", ((10**9,), (10,))),
        Call("strange", "strange", tuple((kind,) for kind in kinds)),
        call("files"),
        call("threads"),
    )


def test_all_of_it_comes_back_from_one_process(reached: Outcome) -> None:
    assert reached.cells == {}
    assert reached.ended == {}
    assert reached.notes == ()


def test_there_is_no_network(reached: Outcome, surroundings: dict[str, Any]) -> None:
    with socket.create_connection(("127.0.0.1", surroundings["port"]), 5):
        pass  # from here, there is
    assert value(reached, "network") == [
        "ConnectionRefusedError",
        "OSError",
        "ConnectionRefusedError",
        "gaierror",
    ]


def test_no_file_of_others_is_there(reached: Outcome, forbidden: list[str]) -> None:
    seen = dict(zip(forbidden, value(reached, "reads"), strict=True))
    assert set(seen.values()) <= {"FileNotFoundError"}, seen


def test_nothing_is_there_but_the_interpreter_and_the_job(reached: Outcome) -> None:
    seen = value(reached, "visible")
    files = {f"{folder}/{name}" for folder, names in seen.items() for name in names}
    packages = {
        f"/job/packages/{name}/{path.relative_to(source)}"
        for name, source in (
            ("ictd_lib", PACKAGES["library"]),
            ("checks", PACKAGES["checks"]),
        )
        for path in source.rglob("*")
        if path.is_file()
    }
    rest = {
        name
        for name in files - packages
        if not name.startswith(("/tmp/", "/job/packages/"))
    }
    assert rest == {"/job/job.json", "/job/runner.py", "/etc/ld.so.cache"}


def test_nothing_can_be_written(reached: Outcome) -> None:
    *inside, course = value(reached, "writes")
    assert set(inside) == {"OSError"}  # a read-only file system
    assert course == "FileNotFoundError"


def test_nothing_of_the_environment_is_passed_on(reached: Outcome) -> None:
    ours = set(isolation.environment("/tmp")) | {"PWD", "SHLVL", "_", "LC_CTYPE"}
    added = {"COLUMNS", "LINES", "PYDEVD_USE_FRAME_EVAL", "KMP_INIT_AT_FORK"}
    assert set(value(reached, "variables")) <= ours | added


def test_no_file_of_ours_is_left_open(reached: Outcome) -> None:
    assert value(reached, "descriptors") == ["/dev/null", "pipe", "pipe", "pipe"]


def test_no_other_process_is_seen_or_hit(
    reached: Outcome, surroundings: dict[str, Any]
) -> None:
    assert value(reached, "processes") == [1, 2, 3][: len(value(reached, "processes"))]
    # `kill(-1)` finds nobody but its own; process 1 ignores what comes from inside
    assert value(reached, "kills")[0] == "ProcessLookupError"
    assert surroundings["sleeper"].poll() is None


def test_it_is_nobody(reached: Outcome) -> None:
    assert value(reached, "powers") == {
        "user": [65534, 65534],
        "capabilities": 0,
        "new privileges": 1,
        "user namespace": -1,
        "mount": -1,
        "memory limit lifted": "ValueError",
        "host": "sandbox",
    }


def test_files_are_limited_one_by_one_and_together(reached: Outcome) -> None:
    assert value(reached, "files") == ["OSError", "OSError", "OSError"]


@pytest.mark.parametrize(
    ("task", "error"),
    [
        ("asks", "EOFError"),
        ("leaves", "SystemExit: that was it"),
        ("interrupts", "KeyboardInterrupt"),
        ("recurses", "RecursionError"),
        ("endless", "RecursionError"),
        ("huge", "ValueError"),
        ("hungry", "MemoryError"),
        ("odd", "an error that can't be shown"),
        ("missing", "NameError: name 'missing' is not defined"),
    ],
)
def test_an_error_is_one_line(reached: Outcome, task: str, error: str) -> None:
    (result,) = reached.results[task]
    assert result.error.startswith(error) or "MemoryError" in result.error
    assert result.value is None
    assert "\n" not in result.error


def test_a_value_of_a_billion_elements_is_refused_before_it_is_written(
    reached: Outcome,
) -> None:
    first, second = reached.results["large"]
    assert first == Result(
        None, "ValueError: a value of more than 100,000 numbers came back"
    )
    np.testing.assert_array_equal(second.value, np.zeros(10))


def test_what_values_come_back(reached: Outcome) -> None:
    function, text, raw, none, mixed, nan, array = reached.results["strange"]
    assert type(function.value).__name__ == type(raw.value).__name__ == "Foreign"
    assert text.error.startswith("ValueError")
    assert none == Result(None, "")
    assert mixed.value == [1, [2.5, {"a": True}]]
    assert np.isnan(nan.value)
    np.testing.assert_array_equal(array.value, [[0, 1, 2], [3, 4, 5]])


def test_threads_that_go_on_hold_nothing_up(reached: Outcome) -> None:
    assert value(reached, "threads") is True


def test_the_job_holds_inputs_only(reached: Outcome) -> None:
    given, of_a_call = value(reached, "job")
    assert given == ["calls", "cells", "limits", "nice", "paths", "seconds"]
    assert of_a_call == ["arguments", "function"]


# What ends a process: the task is charged with it, the others aren't. One submission does it all.

GOOD = """
def good(x):
    return 2 * x
"""

ENDS = """
import ctypes, json, os, signal, sys, time

pipe = int(sys.argv[2])

def good(x):
    return 2 * x

def loop():
    for number in set(range(1, 65)) - {9, 19}:
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    while True:
        try:
            while True: pass
        except BaseException:
            pass

def leave(first):
    if first:
        return "still here"
    os._exit(3)

def crash():
    ctypes.string_at(0)

def shout():
    for _ in range(1000):
        print("x" * 10**6)

def pour():
    for _ in range(1000):
        os.write(pipe, b"x" * 10**6)

def forge(message):
    os.write(pipe, json.dumps(message).encode() + b"\\n")

def grow():
    for _ in range(20):
        if os.fork() == 0:
            block = bytearray(80_000_000)
            time.sleep(60)
    time.sleep(60)

def swarm():
    while True:
        try:
            os.fork()
        except OSError:
            pass
"""

FORGED = {"result": [0, 1], "value": 42}  # of a case that isn't due


@pytest.fixture(scope="module")
def ends() -> Outcome:
    return submitted(
        ENDS,
        Call("before", "good", ((1,), (2,))),
        call("loop"),
        Call("leave", "leave", ((True,), (False,), (True,))),
        *map(call, ("crash", "shout")),
        Call("between", "good", ((3,),)),
        call("pour"),
        Call("forge", "forge", ((FORGED,), (FORGED,))),
        *map(call, ("grow", "swarm")),
        Call("after", "good", ((4,),)),
        limits=Limits(seconds=3, megabytes=500),
    )


def test_one_bad_task_costs_no_other(ends: Outcome) -> None:
    assert ends.cells == {}
    assert ends.results["before"] == (Result(2, ""), Result(4, ""))
    assert ends.results["between"] == (Result(6, ""),)
    assert ends.results["after"] == (Result(8, ""),)
    assert ends.results["leave"] == (Result("still here", ""),)
    others = set(ends.results) - {"before", "between", "after", "leave"}
    assert all(ends.results[task] == () for task in others)


@pytest.mark.parametrize(
    ("task", "reason"),
    [
        ("loop", "ran longer than 3 s"),
        ("leave", "ended by itself (status 3)"),
        ("crash", "was ended by SIGSEGV"),
        ("shout", "wrote more than 8 MB"),
        ("pour", "wrote more than 8 MB"),
        ("forge", "wrote lines of its own among the results"),
    ],
)
def test_why_a_process_was_ended(ends: Outcome, task: str, reason: str) -> None:
    assert ends.ended[task] == reason


def test_a_memory_bomb_of_many_processes(ends: Outcome) -> None:
    if "memory" not in cgroup.parents():
        pytest.skip("no control group for memory can be made here")
    assert ends.ended["grow"] == "used more memory than 500 MB"


def test_a_fork_bomb(ends: Outcome) -> None:
    counted = "pids" in cgroup.parents()
    assert ends.ended["swarm"] == (
        "started more than 64 processes" if counted else "ran longer than 3 s"
    )


def test_nothing_goes_on_afterwards() -> None:
    mark = f"left-behind-{os.getpid()}"
    source = f"""
    import os, signal, subprocess, sys, time
    def bad():
        if os.fork() == 0:
            os.setsid()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            if os.fork() == 0:
                os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)", "{mark}"])
        time.sleep(0.5)
        return [int(n) for n in os.listdir("/proc") if n.isdigit()]
    """
    outcome = submitted(source, call("bad"))
    assert len(value(outcome, "bad")) > 2  # it was there
    assert mark not in _command_lines()


def test_nothing_goes_on_when_grading_is_killed(tmp_path: Path) -> None:
    if sandbox.available() is not None:
        pytest.skip(f"NO BARRIER WAS TRIED: {sandbox.available()}")
    mark = f"orphan-{os.getpid()}"
    cell = f"""
    import subprocess, sys
    subprocess.run([sys.executable, "-c", "import time; time.sleep(600)", "{mark}"])
    """
    grading = f"""
    from pathlib import Path
    from book.tools.assignments.sandbox import Job, run
    packages = {{name: Path(at) for name, at in {dict(zip(PACKAGES, map(str, PACKAGES.values()), strict=True))}.items()}}
    run(Job((("", {dedent(cell)!r}),), ()), **packages)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", dedent(grading)],
        cwd=ROOT,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    try:
        assert _within(60, lambda: f"time.sleep(600) {mark}" in _command_lines())
    finally:
        process.kill()
        process.wait()
    assert _within(10, lambda: mark not in _command_lines())
    assert _within(10, lambda: not _groups_of(process.pid))


def _groups_of(pid: int) -> list[Path]:
    """Groups that a process left behind, after the next one was made."""
    cgroup.Group(500, 64).close()
    folders = [folder for _, folder in cgroup.parents().values()]
    return [group for folder in folders for group in folder.glob(f"ictd-{pid}-*")]


def _within(seconds: float, holds: Callable[[], bool]) -> bool:
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.1)
    return True


def _command_lines() -> str:
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(
                path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            )
        except OSError:
            continue
    return "\n".join(lines)


# What happens in the cells.


def test_an_error_in_a_cell_stops_no_other() -> None:
    source = """
    x = 1
    # %%
    1 / 0
    # %%
    def (
    # %%
    import sys; sys.exit()
    # %%
    raise KeyboardInterrupt
    # %%
    %matplotlib inline
    import matplotlib.pyplot as plt
    plt.plot([1, 2]); plt.show()
    # %%
    await __import__("asyncio").sleep(0)
    # %%
    input()
    # %%
    def f(): return x + 1
    """.replace("\n    ", "\n")
    outcome = submitted(source, call("f"))
    assert value(outcome, "f") == 2
    assert list(outcome.cells) == [f"cell {k}" for k in (1, 2, 3, 4, 7)]
    assert outcome.notes == ()
    assert outcome.cells["cell 1"] == "ZeroDivisionError: division by zero"
    assert outcome.cells["cell 2"] == "SyntaxError: invalid syntax (line 1)"


def test_a_slow_cell_costs_no_task() -> None:
    slow = "x = 0\nwhile True: x += 1\n# %%\nfor k in range(10**12): x += 1\n# %%\n"
    after = "def f(y): return x > 0, y\n"
    outcome = submitted(slow + after, call("f", 3), limits=Limits(seconds=8))
    assert value(outcome, "f") == [True, 3]
    words = "TimeoutError: stopped, so that there is time for the cells after it"
    assert outcome.cells == {"cell 0": words, "cell 1": words}
    assert outcome.ended == {}


STUBBORN = """\
import signal
signal.signal(signal.SIGALRM, signal.SIG_IGN)
while True: pass
"""


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (STUBBORN, "ran longer than 2 s"),
        ("import os; os._exit(0)", "ended by itself (status 0)"),
        ("for _ in range(1000): print('x' * 10**6)", "wrote more than 8 MB"),
    ],
)
def test_cells_that_end_it_cost_all_tasks(source: str, reason: str) -> None:
    limits = SHORT if "longer" in reason else PLENTY
    outcome = submitted(GOOD + "# %%\n" + source, call("good", 1), limits=limits)
    assert outcome.ended == {"": reason, "good": reason}
    assert outcome.results == {"good": ()}


def test_all_processes_together_have_their_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sandbox, "ALTOGETHER", 1.5)
    source = """
    def bad():
        while True: pass
    """
    calls = [Call(f"task {k}", "bad", ((),)) for k in range(4)]
    outcome = submitted(source, *calls, limits=Limits(seconds=1))
    assert outcome.ended == {
        "task 0": "ran longer than 1 s",
        **{f"task {k}": "all of it ran longer than 1.5 s" for k in (1, 2, 3)},
    }


def test_what_is_replaced_changes_no_value_and_is_noted() -> None:
    source = """
    import builtins, json
    import numpy as np
    import ictd_lib
    from checks import engine, values
    np.allclose = lambda *_, **__: True
    np.testing.assert_allclose = lambda *_, **__: None
    np.linalg.norm = np.abs
    json.dumps = json.loads = lambda *_, **__: "42"
    builtins.abs = lambda x: 0
    engine.Check.verdict = lambda *_: "right"
    values.compare = lambda *_, **__: None
    ictd_lib.chain.stationary_distribution = lambda *_: "mine"
    check = "mine"
    def f(x):
        return x.sum()
    """
    outcome = submitted(source, Call("f", "f", ((np.arange(4.0),),)))
    assert outcome.cells == {}
    assert value(outcome, "f") == 6
    assert np.allclose(1, 2) is False and abs(-1) == 1
    assert set(outcome.notes) == {
        "redefines check",
        "replaces builtins.abs",
        "replaces checks.engine.Check.verdict",
        "replaces checks.values.compare",
        "replaces ictd_lib.chain.stationary_distribution",
        "replaces json.dumps",
        "replaces json.loads",
        "replaces numpy.allclose",
        "replaces numpy.linalg.norm",
        "replaces numpy.testing.assert_allclose",
    }


def test_what_a_check_knows_is_not_there_to_solve_with() -> None:
    source = """
    from pathlib import Path
    import numpy as np
    import checks
    from checks import policy_evaluation as check

    def at_discount(*inputs):
        gap = lambda v: check.at_discount.residual(v, *inputs)
        zero, eye = gap(np.zeros(3)), np.eye(3)
        slopes = np.column_stack([gap(row) - zero for row in eye])
        return np.linalg.solve(slopes, -zero)

    def found():
        texts = [path.read_text() for path in Path(checks.__file__).parent.glob("*.py")]
        return sum("at_discount" in text for text in texts)

    check.at_discount(at_discount)
    """
    transition = np.full((3, 3), 1 / 3)
    inputs = (np.arange(3.0), transition, 0.5, 0.8)
    outcome = submitted(
        source, Call("at_discount", "at_discount", (inputs,)), call("found")
    )
    assert outcome.cells == {}  # a notebook that calls its checks runs all the same
    (result,) = outcome.results["at_discount"]
    assert "no attribute 'residual'" in result.error
    assert value(outcome, "found") == 0


# What comes through the pipe, line by line.

TWO = Job((("a", ""), ("b", "")), (Call("f", "f", ((1,), (2,))), Call("g", "g", ((),))))
HONEST = [
    {"ready": True},
    {"cell": 1, "error": "NameError: name 'x' is not defined"},
    {"cells": "done", "notes": ["replaces numpy.sum"]},
    {"result": [0, 0], "value": 1},
    {"result": [0, 1], "error": "ZeroDivisionError"},
    {"result": [1, 0], "value": {"array": [1.0, 2.0], "shape": [2], "kind": "f"}},
]


def text(*messages: Any) -> bytes:
    return b"".join(json.dumps(message).encode() + b"\n" for message in messages)


def test_honest_lines_in_any_pieces() -> None:
    whole = text(*HONEST)
    for size in (1, 7, len(whole)):
        record = Record(TWO)
        for start in range(0, len(whole), size):
            assert not record.complete
            assert record.feed(whole[start : start + size])
        assert record.complete
        assert record.cells == {"b": "NameError: name 'x' is not defined"}
        assert record.notes == ["replaces numpy.sum"]
        assert record.results[0] == [Result(1, ""), Result(None, "ZeroDivisionError")]
        np.testing.assert_array_equal(record.results[1][0].value, [1.0, 2.0])
    assert record.feed(b"whatever comes later\n" * 3)
    assert len(record.results[1]) == 1


@pytest.mark.parametrize(
    ("before", "line"),
    [
        (0, text({"cells": "done", "notes": []})),  # before it is ready
        (0, text({"result": [0, 0], "value": 1})),
        (1, text({"ready": True})),  # twice
        (1, text({"cell": 2, "error": ""})),  # there is none
        (1, text({"cell": -1, "error": ""})),
        (1, text({"cell": 0.0, "error": ""})),
        (1, text({"cell": 0, "error": 1})),
        (1, text({"cells": "done", "notes": "none"})),
        (1, text({"result": [0, 0], "value": 1})),
        (2, text({"cell": 0, "error": ""})),  # out of order
        (3, text({"cell": 1, "error": ""})),
        (3, text({"cells": "done", "notes": []})),
        (3, text({"result": [0, 1], "value": 1})),
        (3, text({"result": [1, 0], "value": 1})),
        (3, text({"result": [0], "value": 1})),
        (3, text({"result": [0, 0, 0], "value": 1})),
        (3, text({"result": ["0", "0"], "value": 1})),
        (3, text({"result": [-1, 0], "value": 1})),
        (3, text({"result": [2, 0], "value": 1})),
        (3, text({"value": 1})),
        (4, text({"result": [0, 0], "value": 1})),  # twice
        (3, text([])),
        (3, text(None)),
        (3, b"\n"),
        (3, b"result\n"),
        (3, b"\xff\xfe\n"),
        (3, '{"ready": "é"}\n'.encode()),
        (3, b'{"result": [0, 0], "value": 1\n'),
        (3, b'{"result": [0, 0], "value": ' + b"1" * 5000 + b"}\n"),
        (3, b"[" * 100_000 + b"\n"),
        (3, b'{"a":' * 100_000 + b"\n"),
    ],
)
def test_a_line_that_cannot_come_now(before: int, line: bytes) -> None:
    record = Record(TWO)
    assert record.feed(text(*HONEST[:before]))
    seen = (record.stage, dict(record.cells), [list(came) for came in record.results])
    assert not record.feed(line)
    assert seen == (record.stage, record.cells, record.results)


@pytest.mark.parametrize(
    "value",
    [
        {"array": [1.0], "shape": [10**12], "kind": "f"},
        {"array": [[1.0], [1.0, 2.0]], "shape": [3], "kind": "f"},
        {"array": [10**30], "shape": [1], "kind": "i"},
        {"array": ["a"], "shape": [1], "kind": "f"},
        {"array": {}, "shape": {}, "kind": "f"},
        {"array": [1], "shape": [1], "kind": "O"},
        {"list": 3},
        {"list": [{"list": [{"unknown": 1}]}]},
        {"dict": [1, 2]},
        {"dict": [[1, 2, 3]]},
        {"other": 5},
        {},
        [],
    ],
)
def test_what_is_no_value_is_an_error(value: Any) -> None:
    record = Record(TWO)
    assert record.feed(text(*HONEST[:3], {"result": [0, 0], "value": value}))
    ((result,), _) = record.results
    assert result == Result(None, "ValueError: no value came back")


@pytest.mark.parametrize(
    ("levels", "error"), [(15, ""), (25, "ValueError"), (450, "ValueError")]
)
def test_a_value_nested_deep_is_an_error(levels: int, error: str) -> None:
    deep: Any = 1
    for _ in range(levels):
        deep = {"list": [deep]}
    record = Record(TWO)
    assert record.feed(text(*HONEST[:3], {"result": [0, 0], "value": deep}))
    assert record.results[0][0].error.partition(":")[0] == error


def test_errors_and_notes_are_short_printable_lines() -> None:
    record = Record(TWO)
    ugly = "a\nb\x1b[31m\u202e<script>" + "x" * 100_000
    assert record.feed(text(HONEST[0], {"cell": 0, "error": ugly}))
    assert record.feed(text({"cells": "done", "notes": [ugly, 5] * 50}))
    assert record.feed(text({"result": [0, 0], "error": ugly}))
    assert record.feed(text({"result": [0, 1], "error": ""}))
    for line in (record.cells["a"], *record.notes, record.results[0][0].error):
        assert line.startswith("a b[31m<script>xxx")
        assert len(line) == 300
    assert len(record.notes) == 10
    assert record.results[0][1] == Result(None, "error")


@hypothesis.given(
    hypothesis.strategies.integers(0, len(HONEST)),
    hypothesis.strategies.lists(hypothesis.strategies.binary(max_size=80), max_size=5),
)
def test_no_bytes_make_it_fail(before: int, chunks: list[bytes]) -> None:
    record = Record(TWO)
    assert record.feed(text(*HONEST[:before]))
    for chunk in chunks:
        if not record.feed(chunk):
            break
    assert len(record.results[0]) <= 2 and len(record.results[1]) <= 1


# Control groups, where the kernel shows them in the second way: a folder that looks like it.


@pytest.fixture
def second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree of version 2, with this process in user/session; its groups are in user."""
    tree = tmp_path / "cgroup"
    (tree / "user" / "session").mkdir(parents=True)
    for folder, passed_on in (
        ("", "cpu pids memory"),
        ("user", "memory pids"),
        ("user/session", ""),
    ):
        (tree / folder / "cgroup.subtree_control").write_text(passed_on + "\n")
        (tree / folder / "cgroup.procs").write_text("")
    process = tmp_path / "self"
    process.mkdir()
    (process / "cgroup").write_text("0::/user/session\n")
    (process / "mountinfo").write_text(
        "22 1 0:5 / /proc rw - proc proc rw\n"
        f"30 23 0:26 / {tree} rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
    )
    found = cgroup.parents(process)
    monkeypatch.setattr(cgroup, "parents", lambda *_: found)
    return tree


def test_groups_of_version_2(second: Path) -> None:
    assert cgroup.parents() == {
        "pids": (2, second / "user"),
        "memory": (2, second / "user"),
    }
    group = cgroup.Group(500, 64)
    (folder,) = set(group.folders.values())
    assert folder.parent == second / "user"
    written = {path.name: path.read_text() for path in folder.iterdir()}
    assert written == {
        "memory.max": "500000000",
        "memory.swap.max": "0",
        "pids.max": "66",
    }
    assert group.exceeded() is None
    (folder / "pids.events").write_text("max 3\n")
    assert group.exceeded() == "started more than 64 processes"
    (folder / "memory.events").write_text("low 0\nhigh 0\nmax 9\noom 1\noom_kill 1\n")
    assert group.exceeded() == "used more memory than 500 MB"


def test_no_group_where_none_can_be_made(
    second: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (second / "user" / "cgroup.subtree_control").write_text("cpu\n")
    (second / "cgroup.subtree_control").write_text("cpu\n")
    monkeypatch.undo()
    assert cgroup.parents(second.parent / "self") == {}
    assert cgroup.parents(second.parent / "nobody") == {}
    monkeypatch.setattr(cgroup, "parents", dict)
    group = cgroup.Group(500, 64)
    assert group.enter(["true"]) == ["true"]
    assert group.exceeded() is None
    group.close()


# Where it can't be isolated, and where it isn't the student's fault.


def test_without_isolation_it_refuses_unless_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sandbox, "available", lambda: "there is no bubblewrap")
    packages: dict[str, Any] = dict(PACKAGES)
    with pytest.raises(SandboxError, match="no bubblewrap"):
        sandbox.run(Job((), (call("good", 1),)), **packages)
    source = """
    import os
    def good(x):
        return 2 * x
    def bad():
        while True: pass
    def variables():
        return sorted(os.environ)
    """
    outcome = submitted(
        source,
        call("bad"),
        call("good", 1),
        call("variables"),
        limits=SHORT,
        unsafe=True,
    )
    assert outcome.notes == ("ran without isolation",)
    assert outcome.ended == {"bad": "ran longer than 2 s"}
    assert value(outcome, "good") == 2
    assert "ICTD_FORBID_SKIPS" not in value(outcome, "variables")


def test_a_process_that_cannot_start_is_nobodys_fault(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="No module named 'checks"):
        submitted(GOOD, call("good", 1), checks=tmp_path)
    with pytest.raises(SandboxError, match="doesn't answer"):
        submitted(GOOD, call("good", 1), python=str(tmp_path / "python"))


def test_barriers_are_named() -> None:
    isolated = sandbox.available() is None
    assert ("no network" in sandbox.barriers()) == isolated
    assert "limits on memory, files and time" in sandbox.barriers()
