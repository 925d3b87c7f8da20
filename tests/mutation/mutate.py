"""Plant each fault of faults.toml in a copy of the tree: unit tests and a notebook must both notice.

    python -m tests.mutation.mutate                all of them
    python -m tests.mutation.mutate NAME ...       these

Noticing means that tests ran and failed (pytest's status 1). A fault that only stops the tests from being
collected, or makes them hang, shows nothing about them, and does not count.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from book.tools import notebooks
from book.tools.canonical import ROOT
from tests.project.tree import project_files

FAULTS = Path(__file__).with_name("faults.toml")
PYTEST = (sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider")
NBVAL = (
    "--nbval",
    "--nbval-current-env",
    "--nbval-sanitize-with",
    "tests/notebooks/sanitize.cfg",
)
SECONDS = 900
VERDICTS = {
    0: "did not notice",
    1: "failed",
    2: "could not be collected",
    5: "ran nothing",
}
HUNG = -1


@dataclass(frozen=True)
class Fault:
    """One planted fault.

    `find` occurs exactly once in `file` and becomes `replace`; `why` says what goes wrong, and
    `notebook` names the chapter that must notice (any, if it is empty).
    """

    name: str
    file: str
    find: str
    replace: str
    why: str
    notebook: str = ""

    def planted(self, text: str) -> str:
        """Return the file's text with the fault."""
        count = text.count(self.find)
        if count != 1:
            raise ValueError(
                f"{self.name}: `find` occurs {count} times in {self.file}, not once"
            )
        return text.replace(self.find, self.replace)


@dataclass(frozen=True)
class Result:
    """How the unit tests and the notebooks took a tree: pytest's statuses, and what they said."""

    unit: int
    notebook: int
    said: str

    @property
    def noticed(self) -> bool:
        """Whether both failed as tests fail."""
        return self.unit == self.notebook == 1


def read_faults() -> list[Fault]:
    """Return the faults that are listed."""
    listed = tomllib.loads(FAULTS.read_text("utf-8"))["fault"]
    return [Fault(**entry) for entry in listed]


def copy_tree(target: Path) -> None:
    """Copy the project's files, without what was built or cached."""
    for source in project_files():
        copy = target / source.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, copy)


def check(fault: Fault | None) -> Result:
    """Run unit tests and notebooks on a copy with the fault, or without any."""
    with tempfile.TemporaryDirectory(prefix="ictd-fault-") as folder:
        tree = Path(folder) / "tree"
        copy_tree(tree)
        if fault is not None:
            path = tree / fault.file
            path.write_text(fault.planted(path.read_text("utf-8")), encoding="utf-8")
        environment = notebooks.kernel_environment(1, Path(folder), portable=True) | {
            "PYTHONPATH": str(tree),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        _check_the_copy_is_imported(tree, environment)
        name = fault.notebook if fault else ""
        book = f"book/notebooks/{name}.ipynb" if name else "book/notebooks"
        for files in _unit_tests(tree, fault):
            unit, unit_said = _status([*PYTEST, *files], tree, environment)
            if unit:
                break
        notebook, notebook_said = _status([*PYTEST, *NBVAL, book], tree, environment)
    return Result(unit, notebook, unit_said + notebook_said)


def _unit_tests(tree: Path, fault: Fault | None) -> Iterator[list[str]]:
    """Files of unit tests; first those that name the module with the fault: one failure is enough."""
    files = sorted((tree / "tests" / "unit").glob("test_*.py"))
    names = {file: str(file.relative_to(tree)) for file in files}
    module = Path(fault.file).stem if fault else None
    naming = [file for file in files if module and module in file.read_text("utf-8")]
    naming.sort(key=lambda file: str(module) not in file.stem)
    if naming:
        yield [names[file] for file in naming]
    yield [names[file] for file in files if file not in naming]


def _check_the_copy_is_imported(tree: Path, environment: dict[str, str]) -> None:
    """Make sure that it isn't the original that is tested, neither in tests nor in kernels."""
    program = (
        "import importlib.util; print(importlib.util.find_spec('ictd_lib').origin)"
    )
    for folder in (tree, tree / "book" / "notebooks"):
        command = [sys.executable, "-c", program]
        said = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        if Path(said).resolve().parent != (tree / "ictd_lib").resolve():
            raise RuntimeError(f"in {folder}, ictd_lib is {said}, not the copy")


def _status(
    command: Sequence[str], tree: Path, environment: dict[str, str]
) -> tuple[int, str]:
    try:
        done = subprocess.run(
            command,
            cwd=tree,
            env=environment,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        return HUNG, f"more than {SECONDS} s"
    return done.returncode, done.stdout


def verdict(status: int) -> str:
    """Say what a status of pytest means here."""
    return VERDICTS.get(
        status, "hung" if status == HUNG else f"broke down (status {status})"
    )


def table(results: dict[str, Result]) -> str:
    """Return one line for each fault."""
    width = max(map(len, results))
    lines = [f"{'fault':<{width}}  {'unit tests':<24}{'notebooks':<24}"]
    lines += [
        f"{name:<{width}}  {verdict(result.unit):<24}{verdict(result.notebook):<24}"
        f"{'' if result.noticed else '<- not noticed by both'}"
        for name, result in results.items()
    ]
    return "\n".join(line.rstrip() for line in lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(prog="make mutate", description="Plant faults.")
    parser.add_argument(
        "names", nargs="*", metavar="FAULT", help="default: all of faults.toml"
    )
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1))
    options = parser.parse_args(arguments)
    faults = {fault.name: fault for fault in read_faults()}
    for name in options.names:
        if name not in faults:
            parser.error(f"no fault {name!r}; there are: {', '.join(faults)}")
    chosen = [
        fault for name, fault in faults.items() if name in (options.names or faults)
    ]
    notebooks.warm_fonts()
    print("Without a fault, all must pass", flush=True)
    sound = check(None)
    if (sound.unit, sound.notebook) != (0, 0):
        print(sound.said, "\nThe tree fails without any fault.", file=sys.stderr)
        return 1
    results: dict[str, Result] = {}
    bar = tqdm(total=len(chosen), unit="fault", disable=None)
    with bar, ThreadPoolExecutor(options.workers) as pool:
        running = {pool.submit(check, fault): fault.name for fault in chosen}
        for future in as_completed(running):
            name = running[future]
            results[name] = future.result()
            bar.update()
            if not results[name].noticed:
                tqdm.write(f"{name}: not noticed by both")
    print(table({fault.name: results[fault.name] for fault in chosen}))
    missed = [name for name, result in results.items() if not result.noticed]
    print(f"{len(chosen) - len(missed)} of {len(chosen)} faults were noticed by both")
    return int(bool(missed))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("\nStopped.")
