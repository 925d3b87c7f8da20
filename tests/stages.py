"""Run every check, one stage after another: quiet where all is well, all there is to know where not.

    python -m tests.stages                 all stages
    python -m tests.stages lint unit       these
    python -m tests.stages --verbose       one at a time, with everything that the stages print

Two stages run side by side, each begun in its turn; those that read the built site wait for it. A stage
that fails does not stop the others; the exit status says whether any did.
"""

import argparse
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from book.tools import notebooks
from book.tools.canonical import ROOT

LOGS = ROOT / "_build" / "logs"
PYTHON = sys.executable
RUFF = str(Path(PYTHON).with_name("ruff"))
PYTEST = f"{PYTHON} -m pytest -q -p no:cacheprovider"
NBVAL = (
    f"{PYTEST} --nbval --nbval-current-env --nbval-cell-timeout=600 "
    "--nbval-sanitize-with tests/notebooks/sanitize.cfg book/notebooks book/assignments/notebooks"
)
PYTEST_COUNT = re.compile(r"^[= ]*(\d+ [a-z]+.* in \d[\d.]*s|no tests ran.*)\b.*$")


@dataclass(frozen=True)
class Stage:
    """One check: its name, what it shows, and the commands that must succeed."""

    name: str
    about: str
    commands: tuple[str, ...]
    reads_site: bool = False


# What fails soonest comes first, and what takes longest before what fills the time that is left.
STAGES = (
    Stage(
        "lint",
        "ruff, format and rules",
        (f"{RUFF} format --check .", f"{RUFF} check ."),
    ),
    Stage(
        "book",
        "the site builds without a warning",
        (f"{PYTHON} -m book.tools.build",),
    ),
    Stage("types", "mypy --strict", (f"{PYTHON} -m mypy",)),
    Stage(
        "pairs",
        "chapters, notebooks and contents agree",
        (f"{PYTEST} tests/notebooks/pairs",),
    ),
    Stage("unit", "unit and property tests of the library", (f"{PYTEST} tests/unit",)),
    Stage(
        "pages",
        "every page in a browser",
        (f"{PYTEST} tests/site/test_pages.py",),
        reads_site=True,
    ),
    Stage(
        "figures",
        "the figures that move, in a browser",
        (f"{PYTEST} tests/site -k figure --ignore=tests/site/test_pages.py",),
        reads_site=True,
    ),
    Stage(
        "site",
        "links, search, downloads, print",
        (f"{PYTEST} tests/site -knot(figure) --ignore=tests/site/test_pages.py",),
        reads_site=True,
    ),
    Stage("nbval", "every notebook gives its stored outputs", (NBVAL,)),
    Stage(
        "repeat",
        "1 and 2 threads give the same bytes",
        (f"{PYTEST} tests/notebooks/repeat",),
    ),
    Stage(
        "project", "packages, lock, environment, tools", (f"{PYTEST} tests/project",)
    ),
)
BUILDS_SITE = "book"


@dataclass(frozen=True)
class Outcome:
    """What became of a stage."""

    stage: Stage
    passed: bool
    seconds: float
    counts: tuple[str, ...]

    def line(self) -> str:
        """Return it in a line."""
        state = "ok" if self.passed else "FAILED"
        return (
            f"{self.stage.name:<9}{self.stage.about:<44}{state:<7}{self.seconds:7.1f} s"
        )


def run(stage: Stage, *, verbose: bool) -> Outcome:
    """Run a stage's commands up to the first that fails, and show what a reader needs of it."""
    begin = time.perf_counter()
    if verbose:
        print(f"{stage.name:<9}{stage.about}", flush=True)
    environment = dict(os.environ)
    if stage.name == "nbval":
        notebooks.warm_fonts()
        # As this processor computes, whatever it is, and as a reader's does: what is stored was computed
        # as any does, and no printed number may tell the difference.
        environment = notebooks.kernel_environment(
            1, ROOT / "_build" / "kernel", portable=False
        )
    lines: list[str] = []
    for command in stage.commands:
        status = _follow(command, environment, lines, verbose=verbose)
        if status:
            lines.append(f"`{command}` failed with status {status}\n")
            break
    seconds = time.perf_counter() - begin
    LOGS.mkdir(parents=True, exist_ok=True)
    (LOGS / f"test-{stage.name}.txt").write_text("".join(lines), encoding="utf-8")
    counts = tuple(line.strip("= \n") for line in lines if PYTEST_COUNT.match(line))
    outcome = Outcome(stage, not status, seconds, counts)
    skipped = [line.rstrip() for line in lines if line.startswith("SKIPPED")]
    told = ["".join(lines)] if status else [*skipped, *counts]
    print(outcome.line(), *([] if verbose else told), sep="\n", flush=True)
    return outcome


def _follow(
    command: str, environment: dict[str, str], lines: list[str], *, verbose: bool
) -> int:
    """Run a command, collecting its lines; return its status."""
    with subprocess.Popen(
        command.split(),
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if verbose:
                print(line, end="", flush=True)
    return process.returncode


def run_all(stages: Sequence[Stage], *, verbose: bool) -> list[Outcome]:
    """Run every stage, two side by side; return what became of them, in their order."""
    built, stopped = threading.Event(), threading.Event()
    if BUILDS_SITE not in {stage.name for stage in stages}:
        built.set()  # by an earlier run, or the tests say that it isn't there

    def run_in_turn(stage: Stage) -> list[Outcome]:
        if stage.reads_site:
            built.wait()
        try:
            return [] if stopped.is_set() else [run(stage, verbose=verbose)]
        finally:
            if stage.name == BUILDS_SITE:
                built.set()

    with ThreadPoolExecutor(1 if verbose else 2) as pool:
        try:
            done = list(pool.map(run_in_turn, stages))
        except KeyboardInterrupt:
            # Ctrl-C ends the commands that run, since a terminal sends it to them, too.
            stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [outcome for outcomes in done for outcome in outcomes]


def summary(outcomes: Sequence[Outcome], seconds: float) -> str:
    """Return the table that closes a run."""
    rows = [
        f"{o.stage.name:<9}{'ok' if o.passed else 'FAILED':<7}{o.seconds:8.1f} s  {'; '.join(o.counts)}"
        for o in outcomes
    ]
    return "\n".join(["", *rows, f"{'all':<9}{'':<7}{seconds:8.1f} s"])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    names = [stage.name for stage in STAGES]
    parser = argparse.ArgumentParser(prog="make test", description="Check everything.")
    parser.add_argument("names", nargs="*", metavar="STAGE", help=", ".join(names))
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args(arguments)
    for name in options.names:
        if name not in names:
            parser.error(f"no stage {name!r}; there are: {', '.join(names)}")
    chosen = [
        stage for stage in STAGES if not options.names or stage.name in options.names
    ]
    print(f"{len(chosen)} checks; a line as each ends", flush=True)
    begin = time.perf_counter()
    outcomes = run_all(chosen, verbose=options.verbose)
    print(summary(outcomes, time.perf_counter() - begin))
    failed = [outcome.stage.name for outcome in outcomes if not outcome.passed]
    if failed:
        print(
            f"\nFailed: {', '.join(failed)}. What they said is in {LOGS}",
            file=sys.stderr,
        )
    return int(bool(failed))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("\nStopped.")
