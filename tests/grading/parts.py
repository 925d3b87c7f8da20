"""Check assignments, their release and grading, and say how long each part took.

    python -m tests.grading.parts                       all parts
    python -m tests.grading.parts test_release.py       these

Two rows of parts run side by side: those that look at one released course, and the others.
"""

import argparse
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from book.tools.canonical import ROOT

HERE = Path(__file__).parent
#: These share a release, which takes nbgrader a while to make.
RELEASED = ("test_release.py", "test_leaks.py", "test_nbgrader.py")
#: What the whole of it may take on two cores.
MAX_SECONDS = 360


class Clock:
    """Adds up the time of each file's tests (a plugin of pytest)."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the time of a test, or of what was set up for it."""
        self.seconds[Path(report.location[0]).name] += report.duration


def run_here(names: Sequence[str]) -> int:
    """Run parts in this process, one after another; return the exit status."""
    clock = Clock()
    files = [str(HERE / name) for name in names]
    status = pytest.main(["-q", "-p", "no:cacheprovider", *files], plugins=[clock])
    for name, took in clock.seconds.items():
        print(f"{name:<24}{took:8.1f} s")
    return int(status)


def run_row(names: Sequence[str]) -> int:
    """Run parts in a process of their own, and show what it said; return its exit status."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.grading.parts", "--here", *names],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    print(done.stdout, flush=True)
    return done.returncode


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    known = [path.name for path in sorted(HERE.glob("test_*.py"))]
    parser = argparse.ArgumentParser(
        prog="make test-grading", description="Check assignments and grading."
    )
    parser.add_argument("names", nargs="*", metavar="FILE", help=", ".join(known))
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    names = [Path(name).name for name in options.names] or known
    for name in names:
        if name not in known:
            parser.error(f"no file {name!r}; there are: {', '.join(known)}")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if options.here:
        return run_here(names)
    rows = [
        [name for name in names if (name in RELEASED) == shared]
        for shared in (True, False)
    ]
    rows = [row for row in rows if row]
    print(f"{len(names)} parts; what they say as each row of them ends", flush=True)
    begin = time.perf_counter()
    with ThreadPoolExecutor(len(rows)) as pool:
        status = max(pool.map(run_row, rows))
    seconds = time.perf_counter() - begin
    print(f"{'all':<24}{seconds:8.1f} s  (at most {MAX_SECONDS} are wanted)")
    return status


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("\nStopped.")
