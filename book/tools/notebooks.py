"""Turn the chapters (book/chapters/*.md) into executed notebooks (book/notebooks/*.ipynb).

    python -m book.tools.notebooks                 the chapters that changed, or whose library did
    python -m book.tools.notebooks 03-tsm --all    this one, changed or not
    python -m book.tools.notebooks --check         execute nothing; say what is out of date
    python -m book.tools.notebooks --out DIR       all of them into DIR, the repository untouched

Assignments (book/assignments/text/*.md, book/assignments/notebooks/*.ipynb) are treated alike. They
bear the names of their chapters, so here, and in the record, one is called assignments/03-tsm.

What decides is the content of the files, as recorded in book/status.json, never their dates: those
mean nothing after a clone. The record also keeps each notebook's run time, peak memory and versions,
apart from the notebook, whose bytes are the same every time it is executed.
"""

import signal
import sys

if (
    __name__ == "__main__"
):  # the imports below take a second, in which Ctrl-C is one line, too
    signal.signal(signal.SIGINT, lambda *_: sys.exit("\nStopped."))

import argparse
import asyncio
import contextlib
import datetime
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jupytext
import nbformat
import numpy as np
import psutil
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from tqdm import tqdm

from book.tools.canonical import KERNELSPEC, ROOT, canonical, to_text

CHAPTERS = ROOT / "book" / "chapters"
NOTEBOOKS = ROOT / "book" / "notebooks"
DATA = ROOT / "book" / "data"
ASSIGNMENT_TEXTS = ROOT / "book" / "assignments" / "text"
ASSIGNMENT_NOTEBOOKS = ROOT / "book" / "assignments" / "notebooks"
STATUS = ROOT / "book" / "status.json"
#: How the name of an assignment begins; no chapter's does.
ASSIGNMENT = "assignments/"
# A fixed place, since a fresh list of fonts takes seconds; no user's matplotlibrc is read there.
FONT_CACHE = ROOT / "_build" / "matplotlib"

# What a reader's laptop and a Binder session can be asked for.
MAX_SECONDS = 60.0
MAX_ASSIGNMENT_SECONDS = 20.0
MAX_MEGABYTES = 1500.0
RECORDED_PACKAGES = ("anywidget", "ipywidgets", "matplotlib", "numpy", "scipy", "torch")
THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)


class ChapterError(Exception):
    """A chapter that cannot become a notebook: says which, where and why."""


@dataclass(frozen=True)
class Source:
    """What a notebook is made from: the chapter's text, read once, and what was read with it."""

    notebook: Any
    chapter: str
    inputs: str


@dataclass(frozen=True)
class Run:
    """One execution: the notebook and what it took."""

    notebook: Any
    seconds: float
    megabytes: float


# --- Files ---------------------------------------------------------------------------------------


def chapter_names() -> list[str]:
    """Return the names of all chapters, in order."""
    return sorted(path.stem for path in CHAPTERS.glob("*.md"))


def assignment_names() -> list[str]:
    """Return the names of all assignments, in order."""
    return sorted(ASSIGNMENT + path.stem for path in ASSIGNMENT_TEXTS.glob("*.md"))


def all_names() -> list[str]:
    """Return the names of all that is executed: chapters, then assignments."""
    return chapter_names() + assignment_names()


def is_assignment(name: str) -> bool:
    """Tell whether a name is that of an assignment."""
    return name.startswith(ASSIGNMENT)


def text_path(name: str) -> Path:
    """Return the file that people edit."""
    folder = ASSIGNMENT_TEXTS if is_assignment(name) else CHAPTERS
    return folder / f"{name.removeprefix(ASSIGNMENT)}.md"


def notebook_path(name: str) -> Path:
    """Return the file of the executed notebook."""
    folder = ASSIGNMENT_NOTEBOOKS if is_assignment(name) else NOTEBOOKS
    return folder / f"{name.removeprefix(ASSIGNMENT)}.ipynb"


def text_label(name: str) -> str:
    """Return how messages call the file that people edit."""
    folder = "assignments/text" if is_assignment(name) else "chapters"
    return f"book/{folder}/{name.removeprefix(ASSIGNMENT)}.md"


def notebook_label(name: str) -> str:
    """Return how messages call the notebook."""
    folder = "assignments/notebooks" if is_assignment(name) else "notebooks"
    return f"book/{folder}/{name.removeprefix(ASSIGNMENT)}.ipynb"


def read_source(name: str) -> Source:
    """Read a chapter as a notebook without outputs, with digests of the bytes that were read."""
    content = text_path(name).read_bytes().replace(b"\r\n", b"\n")
    try:
        notebook = jupytext.reads(content.decode(), fmt="md:myst")
    except ValueError as error:
        raise ChapterError(
            f"{text_label(name)} can't be read: {_first_line(error)}"
        ) from None
    return Source(notebook, _digest(content), inputs_digest(name, content))


def read_chapter(name: str) -> Any:
    """Read a chapter's text as a notebook without outputs."""
    return read_source(name).notebook


def read_notebook(name: str) -> Any | None:
    """Read a chapter's stored notebook, or return None where there is none."""
    path = notebook_path(name)
    if not path.exists():
        return None
    try:
        return nbformat.read(path, as_version=4)
    except (
        AttributeError,
        KeyError,
        TypeError,
        ValueError,
        nbformat.ValidationError,
    ) as error:
        raise ChapterError(
            f"{notebook_label(name)} is no notebook ({_first_line(error)}); "
            f"to make it anew: make notebooks CHAPTERS={name} ALL=1"
        ) from None


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:80]


def write(path: Path, text: str) -> None:
    """Write a whole file or nothing: an interrupted run leaves the old one."""
    part = path.with_name(f".{path.name}.part")
    try:
        part.write_text(text, encoding="utf-8", newline="\n")
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def read_status() -> dict[str, Any]:
    """Return the record of the last execution of each notebook."""
    try:
        status = json.loads(STATUS.read_text("utf-8")) if STATUS.exists() else {}
        if not all(isinstance(record, dict) for record in status.values()):
            raise ValueError("it is no record of executions")
    except (AttributeError, ValueError) as error:
        raise ChapterError(
            f"book/status.json can't be read ({_first_line(error)}); restore it from git, "
            "or delete it and run `make notebooks`, which executes every chapter anew"
        ) from None
    return dict(status)


def write_status(status: dict[str, Any]) -> None:
    """Write the record."""
    write(STATUS, json.dumps(status, indent=1, sort_keys=True) + "\n")


def inputs_digest(name: str, chapter: bytes) -> str:
    """Return a digest of what a notebook is made from: its text, the library, data and checks it names."""
    digest = hashlib.sha256()
    library = [
        path
        for path in sorted((ROOT / "ictd_lib").rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    ]
    files = {text_path(name): chapter}
    data = [path for path in sorted(DATA.glob("*")) if path.name.encode() in chapter]
    checks = check_files(chapter.decode()) if is_assignment(name) else []
    files |= {path: path.read_bytes() for path in library + data + checks}
    for path, content in files.items():
        digest.update(f"{path.relative_to(ROOT).as_posix()}\n".encode())
        digest.update(content.replace(b"\r\n", b"\n") + b"\0")
    return digest.hexdigest()


def check_files(text: str) -> list[Path]:
    """Return the files of the package `checks` that an assignment's text needs: all but other ones' modules."""
    folder = ASSIGNMENT_NOTEBOOKS / "checks"
    own = re.findall(r"^\s*from checks import (\w+)", text, flags=re.MULTILINE)
    shared = ("__init__", "engine", "values")
    return [
        path for stem in (*shared, *own) if (path := folder / f"{stem}.py").exists()
    ]


# --- Pairs ---------------------------------------------------------------------------------------


def pair_differences(chapter: Any, notebook: Any) -> list[str]:
    """Say where a notebook's inputs differ from its chapter's; an empty list if nowhere."""
    differences = []
    ours, theirs = chapter.cells, notebook.cells
    if len(ours) != len(theirs):
        differences.append(
            f"the chapter has {len(ours)} cells, the notebook {len(theirs)}"
        )
    for number, (cell, other) in enumerate(zip(ours, theirs, strict=False)):
        for part in ("cell_type", "source", "metadata"):
            if cell[part] != other[part]:
                first_line = cell.source.strip().partition("\n")[0][:60]
                differences.append(f"cell {number} ({first_line!r}): another {part}")
    return differences


def problem_with(name: str, status: dict[str, Any]) -> str | None:
    """Say in what way a chapter's notebook is out of date, or return None."""
    notebook = read_notebook(name)
    if notebook is None:
        return "not executed yet"
    source, record = read_source(name), status.get(name, {})
    differences = pair_differences(source.notebook, notebook)
    if differences:
        return f"notebook and chapter differ: {differences[0]}"
    if record.get("inputs") != source.inputs:
        return "the chapter or ictd_lib changed since the notebook was executed"
    written = _digest(notebook_path(name).read_bytes())
    if record.get("notebook", written) != written:
        return "the notebook was changed after its execution"
    return None


def stray_notebooks() -> list[str]:
    """Return notebooks that have no chapter."""
    chapters = {path.stem for path in NOTEBOOKS.glob("*.ipynb")}
    assignments = {
        ASSIGNMENT + path.stem for path in ASSIGNMENT_NOTEBOOKS.glob("*.ipynb")
    }
    return sorted((chapters | assignments) - set(all_names()))


def edited_alone(name: str, status: dict[str, Any]) -> bool:
    """Tell whether the notebook was edited and its chapter was not: executing would lose the edit."""
    notebook, source = read_notebook(name), read_source(name)
    return (
        notebook is not None
        and status.get(name, {}).get("chapter") == source.chapter
        and bool(pair_differences(source.notebook, notebook))
    )


def _digest(content: bytes) -> str:
    return hashlib.sha256(content.replace(b"\r\n", b"\n")).hexdigest()


# --- Execution -----------------------------------------------------------------------------------


class OneKernel(KernelSpecManager):
    """Offers one kernel, that of the Python given, whatever else this machine has installed."""

    def __init__(self, python: str) -> None:
        super().__init__()
        self.python = python

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:  # noqa: ARG002
        """Return the kernel, whatever it is called."""
        argv = [self.python, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(
            argv=argv,
            display_name=KERNELSPEC["display_name"],
            language=KERNELSPEC["language"],
        )


class Client(NotebookClient):
    """Leaves Ctrl-C alone: nbclient makes of it an error deep inside its own code."""

    async def async_start_new_kernel(self, **kwargs: Any) -> None:
        """Start the kernel, a plain KeyboardInterrupt being possible from here on."""
        with contextlib.suppress(NotImplementedError, RuntimeError):
            asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
        await super().async_start_new_kernel(**kwargs)


def any_processor() -> dict[str, str]:
    """Return settings with which x86-64 processors of all kinds compute the same bits.

    Numerical libraries choose their code by the processor, and each code rounds otherwise. So all are
    told to take what every such processor has. On small matrices that costs no time that one notices.
    """
    if platform.machine().lower() not in {"x86_64", "amd64"}:
        return {}
    above_baseline = np.show_config(mode="dicts")["SIMD Extensions"]["found"]
    return {
        "NPY_DISABLE_CPU_FEATURES": " ".join(above_baseline),
        "OPENBLAS_CORETYPE": "Nehalem",
        "MKL_CBWR": "COMPATIBLE",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "ATEN_CPU_CAPABILITY": "default",
        "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX,-AVX2,-FMA,-FMA4",
    }


def kernel_environment(
    threads: int, scratch: Path, *, portable: bool
) -> dict[str, str]:
    """Return the environment of a kernel: no user's settings, no bars; `portable`: as on any processor."""
    return (
        os.environ
        | (any_processor() if portable else {})
        | {
            **dict.fromkeys(THREAD_VARIABLES, str(threads)),
            "IPYTHONDIR": str(scratch / "ipython"),
            "JUPYTER_CONFIG_DIR": str(scratch / "jupyter"),
            "MPLCONFIGDIR": str(FONT_CACHE),
            "PYTHONWARNINGS": "default",  # a deprecation in the library is seen, and fails, too
            "TQDM_DISABLE": "1",  # a bar's seconds differ every time
        }
    )


def warm_fonts(python: str = sys.executable) -> None:
    """Let matplotlib list this machine's fonts once, here: in a cell it would warn of the wait."""
    FONT_CACHE.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"MPLCONFIGDIR": str(FONT_CACHE)}
    command = [python, "-W", "ignore", "-c", "import matplotlib.font_manager"]
    try:
        subprocess.run(command, env=environment, check=True, stderr=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError):
        raise ChapterError(
            f"{python} doesn't run, or can't import matplotlib"
        ) from None


class PeakMemory(threading.Thread):
    """Watches a kernel's memory; `megabytes` is the most it held."""

    def __init__(self, process_id: Callable[[], int | None]) -> None:
        super().__init__(daemon=True)
        self.megabytes = 0.0
        self._process_id = process_id
        self._finished = threading.Event()

    def run(self) -> None:
        """Look every twentieth of a second until told to stop."""
        while not self._finished.wait(0.05):
            number = self._process_id()
            if number is not None:
                with contextlib.suppress(psutil.Error, OSError):
                    self.megabytes = max(
                        self.megabytes, _resident_bytes(number) / 2**20
                    )

    def stop(self) -> None:
        """Stop looking."""
        self._finished.set()
        self.join()


def _resident_bytes(process_id: int) -> int:
    """Return the memory held by a process: the highest so far where the system keeps count."""
    record = Path(f"/proc/{process_id}/status")
    if record.exists():
        match = re.search(r"^VmHWM:\s+(\d+) kB", record.read_text(), flags=re.MULTILINE)
        if match:
            return int(match[1]) * 1024
    return int(psutil.Process(process_id).memory_info().rss)


def execute(
    name: str,
    notebook: Any,
    *,
    threads: int = 1,
    python: str = sys.executable,
    folder: Path | None = None,
    cell_done: Callable[[], object] = lambda: None,
) -> Run:
    """Execute a notebook from a fresh kernel, in its own folder or another, and return it in its canonical form.

    Raises `ChapterError` where a cell fails, or writes to the error stream (a warning, most often).
    """
    current = 0

    def starting(cell_index: int, **_: Any) -> None:
        nonlocal current
        current = cell_index

    def ended(**_: Any) -> None:
        cell_done()

    with tempfile.TemporaryDirectory(prefix="ictd-") as made:
        scratch = Path(made)
        # A file socket, not a network port: two executions side by side can't take each other's.
        transport = (
            {} if os.name == "nt" else {"transport": "ipc", "ip": str(scratch / "k")}
        )
        kernel = AsyncKernelManager(
            kernel_name="python3",
            kernel_spec_manager=OneKernel(python),
            connection_file=str(scratch / "k.json"),
            **transport,
        )
        client = Client(
            notebook,
            km=kernel,
            timeout=600,
            store_widget_state=False,  # a figure that moves is stored as its page's HTML
            resources={"metadata": {"path": str(folder or notebook_path(name).parent)}},
            on_cell_start=starting,
            on_cell_complete=ended,
        )
        log = scratch / "kernel.log"
        memory = PeakMemory(lambda: getattr(kernel.provisioner, "pid", None))
        memory.start()
        begin = time.perf_counter()
        try:
            with log.open("wb") as stderr:
                client.execute(
                    env=kernel_environment(threads, scratch, portable=True),
                    stderr=stderr,
                    cleanup_kc=True,
                )
        except CellExecutionError as error:
            raise ChapterError(
                f"{_place(name, notebook, current)}\n\n{error}"
            ) from None
        except CellTimeoutError as error:
            raise ChapterError(f"{_place(name, notebook, current)}: {error}") from None
        except DeadKernelError:
            said = log.read_text(errors="replace")[-2000:]
            raise ChapterError(
                f"{_place(name, notebook, current)}: the kernel died\n\n{said}"
            ) from None
        finally:
            memory.stop()
        seconds = time.perf_counter() - begin
    for index, cell in enumerate(notebook.cells):
        for output in cell.get("outputs", []):
            if output.output_type == "stream" and output.name == "stderr":
                raise ChapterError(
                    f"{_place(name, notebook, index)} wrote to the error stream:\n\n{output.text}"
                )
    return Run(canonical(notebook), seconds, memory.megabytes)


def _place(name: str, notebook: Any, index: int) -> str:
    code_cells = [
        i for i, cell in enumerate(notebook.cells) if cell.cell_type == "code"
    ]
    number = code_cells.index(index) + 1 if index in code_cells else 0
    return f"{text_label(name)}, code cell {number} (cell {index} of the notebook)"


def status_record(source: Source, run: Run, threads: int) -> dict[str, Any]:
    """Return what is recorded of an execution."""
    packages = {}
    for package in RECORDED_PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            # A local label (which build of torch) is no part of the version that was asked for.
            packages[package] = importlib.metadata.version(package).partition("+")[0]
    return {
        "chapter": source.chapter,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "inputs": source.inputs,
        "notebook": _digest(to_text(run.notebook).encode()),
        "packages": packages,
        "peak_megabytes": round(run.megabytes),
        "platform": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "seconds": round(run.seconds, 1),
        "threads": threads,
    }


# --- Command line --------------------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m book.tools.notebooks", description="Execute the chapters."
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="CHAPTER",
        help="or assignments/NAME; default: every chapter and every assignment",
    )
    parser.add_argument(
        "--all", action="store_true", help="also those that did not change"
    )
    parser.add_argument(
        "--check", action="store_true", help="only say what is out of date"
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="write there, not the repository"
    )
    parser.add_argument(
        "--threads", type=int, default=1, help="threads for numpy and torch"
    )
    parser.add_argument(
        "--python", default=sys.executable, help="the Python whose kernel runs"
    )
    options = parser.parse_args(arguments)
    if options.out is not None and options.out.exists() and not options.out.is_dir():
        parser.error(f"--out must be a folder, not the file {options.out}")
    if options.threads < 1:
        parser.error(f"--threads must be at least 1, not {options.threads}")
    known = all_names()
    names = [_name(given) for given in options.names] or known
    for name in names:
        if name not in known:
            parser.error(
                f"no chapter {name!r}; there are: {', '.join(known) or 'none yet'}"
            )
    try:
        # Executing all of them elsewhere asks nothing of the record.
        status = {} if options.out is not None else read_status()
        if options.check:
            return _check(names, status)
        if options.out is None and not options.all:
            _refuse_to_lose_edits(names, status)
            names = [name for name in names if problem_with(name, status)]
        _execute_all(names, status, options.out, options.threads, options.python)
        if options.out is None:
            _forget_strays(status)
    except ChapterError as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped. Notebooks that were finished are kept.", file=sys.stderr)
        return 130
    return 0


def _name(given: str) -> str:
    """The name that somebody means who gives it, or a file's path."""
    path = Path(given)
    return (ASSIGNMENT if "assignments" in path.parts[:-1] else "") + path.stem


def _check(names: list[str], status: dict[str, Any]) -> int:
    problems = {
        name: problem for name in names if (problem := problem_with(name, status))
    }
    problems |= dict.fromkeys(stray_notebooks(), "a notebook without a chapter")
    for name, problem in problems.items():
        print(f"{name}: {problem}", file=sys.stderr)
    if problems:
        print("Run `make notebooks`.", file=sys.stderr)
    return int(bool(problems))


def _refuse_to_lose_edits(names: list[str], status: dict[str, Any]) -> None:
    for name in names:
        if edited_alone(name, status):
            raise ChapterError(
                f"{notebook_label(name)} was edited, {text_label(name)} was not. To keep the edit:\n"
                f"    .venv/bin/jupytext --to md:myst {notebook_label(name)} -o {text_label(name)}\n"
                f"to drop it:\n    make notebooks CHAPTERS={name} ALL=1"
            )


def _execute_all(
    names: list[str],
    status: dict[str, Any],
    out: Path | None,
    threads: int,
    python: str,
) -> None:
    if not names:
        print("Every notebook is up to date.")
        return
    warm_fonts(python)
    cells = sum(
        cell.cell_type == "code" for name in names for cell in read_chapter(name).cells
    )
    with tqdm(total=cells, unit="cell", disable=None) as bar:
        for name in names:
            bar.set_description(name)
            source = read_source(name)
            run = execute(
                name,
                source.notebook,
                threads=threads,
                python=python,
                cell_done=bar.update,
            )
            if read_source(name).inputs != source.inputs:
                raise ChapterError(
                    f"{text_label(name)} or ictd_lib changed during the execution, "
                    "of which nothing was kept. Run `make notebooks` again."
                )
            path = out / f"{name}.ipynb" if out else notebook_path(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            write(path, to_text(run.notebook))
            if out is None:
                status[name] = status_record(source, run, threads)
                write_status(status)
            tqdm.write(f"{name}: {run.seconds:.1f} s, {run.megabytes:.0f} MB")
            for limit in over_limits(name, run.seconds, run.megabytes):
                tqdm.write(f"{name}: {limit}", file=sys.stderr)


def over_limits(name: str, seconds: float, megabytes: float) -> Iterator[str]:
    """Say which limits an execution broke."""
    most = MAX_ASSIGNMENT_SECONDS if is_assignment(name) else MAX_SECONDS
    if seconds > most:
        yield f"{seconds:.0f} s is over the {most:.0f} s that a reader should wait"
    if megabytes > MAX_MEGABYTES:
        yield f"{megabytes:.0f} MB is over the {MAX_MEGABYTES:.0f} MB that a free session has"


def _forget_strays(status: dict[str, Any]) -> None:
    known = set(all_names())
    if set(status) - known:
        write_status({name: status[name] for name in known & set(status)})


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main())
