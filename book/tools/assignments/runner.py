"""What runs beside a student's code: the cells, then the calls, one line of JSON for each result.

It is a script, started in a sandbox with a job (a file) and the number of a pipe:

    python -I runner.py job.json 3

The student's code lives in the same process, and can do to it whatever it wants: read the job (inputs,
nothing else), write lines of its own, replace any function. So nothing here is trusted, and none of it is
needed for a right mark; `sandbox` reads the lines as what a stranger says. Care is taken only that honest
mistakes (a numpy function replaced, a value too large) leave a clear line.

The lines, in this order: ``{"ready": true}`` before anything of the student's runs;
``{"cell": i, "error": "..."}`` for each cell that fails; ``{"cells": "done", "notes": [...]}``; and
``{"result": [call, case], "value": ...}`` or ``{"result": [call, case], "error": "..."}``.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

#: Numbers and characters that one value may have: far more than any task asks for.
LARGEST = 100_000

#: What a student may replace by mistake, or in the hope that it helps.
WATCHED = ("builtins", "json", "math", "numpy", "ictd_lib", "checks")


def main(job_file: str, pipe: str) -> None:
    """Run a job."""
    job = json.loads(Path(job_file).read_text())
    restrict(job["limits"])
    os.nice(job["nice"])
    sys.path[:0] = job["paths"]
    send = sender(int(pipe))
    shell = new_shell()
    before = surroundings()
    process = os.getpid()
    send({"ready": True})
    end = time.monotonic() + job["seconds"]
    for index, source in enumerate(job["cells"]):
        # one slow experiment mustn't cost the tasks after it
        error = run_cell(shell, source, (end - time.monotonic()) / 2)
        if error:
            send({"cell": index, "error": error})
    send({"cells": "done", "notes": changes(before, shell.user_ns)})
    for index, call in enumerate(job["calls"]):
        for case, arguments in enumerate(call["arguments"]):
            answer = answer_to(shell.user_ns, call["function"], arguments)
            if os.getpid() != process:  # a copy that the function made of us
                os._exit(0)
            send({"result": [index, case]} | answer)
    os._exit(0)  # whatever threads are still at it


def restrict(limits: dict[str, int]) -> None:
    """Limit this process and all that it starts; a limit can't be taken back."""
    try:
        import resource
    except ImportError:  # not a Unix: the clock and the cap on output remain
        return
    for name, limit in limits.items():
        kind = getattr(resource, name, None)
        if kind is None:
            continue
        try:
            resource.setrlimit(kind, (limit, limit))
        except (ValueError, OSError):  # this system has it, but can't
            continue


def sender(pipe: int) -> Callable[[Any], None]:
    """Give a function that writes a line; it keeps hold of what it needs."""
    dumps, write = json.dumps, os.write

    def send(message: Any) -> None:
        line = dumps(message).encode() + b"\n"
        while line:
            line = line[write(pipe, line) :]

    return send


def new_shell() -> Any:
    """Start an IPython that shows nothing and stores nothing."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    class Shell(InteractiveShell):
        def showtraceback(self, *_: Any, **__: Any) -> None:
            pass

        def showsyntaxerror(self, *_: Any, **__: Any) -> None:
            pass

        def enable_gui(self, gui: Any = None) -> None:
            """Let `%matplotlib inline` pass."""

    settings = Config()
    settings.HistoryManager.enabled = False
    return Shell.instance(config=settings)


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Interrupt what runs after some seconds, and again each second, where the system can."""

    def interrupt(*_: Any) -> None:
        raise TimeoutError("stopped, so that there is time for the cells after it")

    if not hasattr(signal, "setitimer"):
        yield
        return
    signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.1), 1)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        signal.setitimer(signal.ITIMER_REAL, 0)


def run_cell(shell: Any, source: str, seconds: float) -> str:
    """Run a cell for some seconds at most; return its error in one line, or ""."""
    try:
        with at_most(seconds):
            done = shell.run_cell(source, store_history=False, silent=True)
        error = done.error_before_exec or done.error_in_exec
        pyplot = sys.modules.get("matplotlib.pyplot")
        if pyplot is not None:
            pyplot.close("all")  # as in a notebook, at the end of a cell
    except BaseException as problem:
        error = problem
    return one_line(error) if error is not None else ""


def answer_to(
    names: dict[str, Any], function: str, arguments: list[Any]
) -> dict[str, Any]:
    """Call a function of the student's, on arguments of its own."""
    values = importlib.import_module("checks.values")
    try:
        if function not in names:
            return {"error": f"NameError: name '{function}' is not defined"}
        value = names[function](*[values.decode(argument) for argument in arguments])
        if size(value) > LARGEST:
            return {
                "error": f"ValueError: a value of more than {LARGEST:,} numbers came back"
            }
        encoded = values.encode(value)
        json.dumps(encoded)
        return {"value": encoded}
    except BaseException as error:
        return {"error": one_line(error)}


def size(value: Any) -> int:
    """How many numbers and characters a value has, before any of them is written down."""
    if isinstance(value, dict):
        return sum(size(key) + size(item) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return len(value) if len(value) > LARGEST else sum(map(size, value))
    if isinstance(value, str):
        return len(value)
    elements = getattr(value, "size", 1)
    if callable(elements):  # of a tensor
        elements = value.numel()
    return elements if isinstance(elements, int) else 1


def one_line(error: BaseException) -> str:
    """What an error says, in one line."""
    try:
        if isinstance(error, SyntaxError):
            return f"{type(error).__name__}: {error.msg} (line {error.lineno})"
        text = str(error).strip()
        kind = type(error).__name__
        return f"{kind}: {text.splitlines()[0][:300]}" if text else kind
    except BaseException:
        return "an error that can't be shown"


def surroundings() -> dict[str, dict[str, Any]]:
    """What the modules hold that a student's code finds: {module: {name: object}}."""
    for name in ("numpy", "checks.engine", "checks.values"):
        importlib.import_module(name)
    return {
        name: dict(vars(module))
        for name, module in list(sys.modules.items())
        if watched(name) and isinstance(module, types.ModuleType)
    }


def watched(module: str) -> bool:
    """Whether a replacement in a module is worth a note; private ones come and go."""
    return module.partition(".")[0] in WATCHED and "._" not in module


def changes(before: dict[str, dict[str, Any]], names: dict[str, Any]) -> list[str]:
    """What a submission replaced, as far as it doesn't hide it."""
    try:
        return sorted(_changes(before, names))[:20]
    except Exception:
        return ["its surroundings can't be looked at"]


def _changes(before: dict[str, dict[str, Any]], names: dict[str, Any]) -> set[str]:
    found = set()
    for module_name, module in list(sys.modules.items()):
        if not watched(module_name):
            continue
        old = before.get(module_name, {})
        for name, now in list(vars(module).items()):
            if name.startswith("_"):
                continue
            replaced = name in old and old[name] is not now
            foreign = callable(now) and getattr(now, "__module__", "") == "__main__"
            if replaced or foreign:
                found.add(f"replaces {module_name}.{name}")
            own = getattr(now, "__module__", None) == module_name
            if own and isinstance(now, type) and module_name not in {"builtins"}:
                found |= {
                    f"replaces {module_name}.{name}.{part}"
                    for part, method in list(vars(now).items())
                    if isinstance(method, types.FunctionType)
                    and method.__module__ == "__main__"
                }
    check = names.get("check")
    if check is not None and not getattr(check, "__name__", "").startswith("checks."):
        found.add("redefines check")
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
