"""Check assignments, their release and grading, and say how long each part took.

python -m tests.grading.parts                       all parts
python -m tests.grading.parts test_release.py       these
"""

import argparse
import os
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest

HERE = Path(__file__).parent
#: What the whole of it may take on two cores.
MAX_SECONDS = 360


class Clock:
    """Adds up the time of each file's tests (a plugin of pytest)."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the time of a test, or of what was set up for it."""
        self.seconds[Path(report.location[0]).name] += report.duration


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    known = {path.name: path for path in sorted(HERE.glob("test_*.py"))}
    parser = argparse.ArgumentParser(
        prog="make test-grading", description="Check assignments and grading."
    )
    parser.add_argument("names", nargs="*", metavar="FILE", help=", ".join(known))
    options = parser.parse_args(arguments)
    names = [Path(name).name for name in options.names] or list(known)
    for name in names:
        if name not in known:
            parser.error(f"no file {name!r}; there are: {', '.join(known)}")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    clock, begin = Clock(), time.perf_counter()
    files = [str(known[name]) for name in names]
    status = pytest.main(["-q", "-p", "no:cacheprovider", *files], plugins=[clock])
    seconds = time.perf_counter() - begin
    print()
    for name, took in clock.seconds.items():
        print(f"{name:<24}{took:8.1f} s")
    print(f"{'all':<24}{seconds:8.1f} s  (at most {MAX_SECONDS} are wanted)")
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
