"""nbgrader, which lives in an environment of its own, asked to work on a course; its kernel is the book's.

nbgrader's packages don't go together with the book's. So another Python runs it (.venv-nbgrader, made by
the Makefile from book/assignments/nbgrader.lock), and what it executes runs in the environment of the book:
a kernel called python3 that stands before its own on JUPYTER_PATH.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from book.tools.assignments.course import Course
from book.tools.canonical import KERNELSPEC, ROOT

PROGRAMS = ROOT / ".venv-nbgrader" / ("Scripts" if os.name == "nt" else "bin")
SCRATCH = ROOT / "_build" / "nbgrader"

#: Runs in nbgrader's environment: a call a line comes in, what came of it goes out. One start for many calls,
#: since a start takes seconds.
SERVER = """
import json, sys
from nbgrader.apps import NbGraderAPI
from traitlets.config.loader import PyFileConfigLoader

answers, sys.stdout = sys.stdout, sys.stderr
api = NbGraderAPI(config=PyFileConfigLoader("nbgrader_config.py", path=sys.argv[1]).load_config())
for line in sys.stdin:
    method, arguments = json.loads(line)
    done = getattr(api, method)(*arguments)
    said = (done.get("error") or "") + (done.get("log") or "")
    print(json.dumps([bool(done["success"]), said]), file=answers, flush=True)
"""


class NbgraderError(Exception):
    """Something that nbgrader did not do: what, and the last of what it said."""


def environment() -> dict[str, str]:
    """Return the environment that nbgrader runs in: the book's kernel, and nobody's own settings."""
    kernel = SCRATCH / "data" / "kernels" / "python3" / "kernel.json"
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {
        "argv": argv,
        "display_name": KERNELSPEC["display_name"],
        "language": KERNELSPEC["language"],
    }
    kernel.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(spec, indent=1)
    if not kernel.exists() or kernel.read_text("utf-8") != text:
        part = kernel.with_suffix(f".{os.getpid()}.part")
        part.write_text(text, encoding="utf-8")
        part.replace(kernel)
    return (
        os.environ
        | {
            "IPYTHONDIR": str(SCRATCH / "ipython"),
            "JUPYTER_CONFIG_DIR": str(SCRATCH / "config"),
            "JUPYTER_DATA_DIR": str(SCRATCH / "own"),
            "JUPYTER_PATH": str(SCRATCH / "data"),
            "PATH": f"{PROGRAMS}{os.pathsep}{os.environ.get('PATH', '')}",  # it calls alembic
            "MPLCONFIGDIR": str(ROOT / "_build" / "matplotlib"),
            "PYTHONWARNINGS": "ignore",
            "TQDM_DISABLE": "1",
        }
    )


def program(name: str) -> str:
    """Return the path of a program of nbgrader's environment.

    Raises
    ------
    NbgraderError
        If the environment isn't there.
    """
    path = PROGRAMS / (f"{name}.exe" if os.name == "nt" else name)
    if not path.exists():
        raise NbgraderError(
            f"{PROGRAMS.parent.name} isn't there; to make it: make {PROGRAMS.parent.name}/.ready"
        )
    return str(path)


def command(course: Course, *arguments: str, limit: float = 600) -> str:
    """Run an nbgrader command in a course; return what it said.

    Raises
    ------
    NbgraderError
        If it fails, or takes longer than `limit` seconds.
    """
    try:
        done = subprocess.run(
            [program("nbgrader"), *arguments],
            cwd=course.folder,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=limit,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise NbgraderError(
            f"nbgrader {arguments[0]}: not done in {limit:.0f} s"
        ) from None
    if done.returncode:
        raise NbgraderError(f"nbgrader {arguments[0]}: {_last(done.stdout)}")
    return done.stdout


def calls(
    course: Course,
    wanted: Sequence[tuple[str, list[Any]]],
    done: Callable[[], object] = lambda: None,
) -> list[str]:
    """Call methods of nbgrader's Python interface, one after another, in one process.

    Returns what went wrong, a line for each call: empty where nothing did.
    """
    lines = "".join(
        json.dumps([method, arguments]) + "\n" for method, arguments in wanted
    )
    problems: list[str] = []
    inside = environment()
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as log,
        subprocess.Popen(
            [program("python"), "-c", SERVER, str(course.folder)],
            cwd=course.folder,
            env=inside,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            encoding="utf-8",
        ) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):  # it ended: why, its log says
            process.stdin.write(lines)
            process.stdin.close()
        for line in process.stdout:
            success, said = json.loads(line)
            problems.append("" if success else _last(said) or "it failed")
            done()
        process.wait()
        if len(problems) < len(wanted):
            log.seek(0)
            raise NbgraderError(f"nbgrader: {_last(log.read())}")
    return problems


def _last(said: str) -> str:
    """The last line that says something of an error, or else the last."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [
        line
        for line in lines
        if re.search(r"ERROR|Error\b|Exception\b", line)
        and "see the the above" not in line
        and "There was an error processing" not in line
        and "Traceback" not in line
    ]
    return (errors or lines or [""])[-1][:300]
