"""Measure the library against its bounds, and store the figures in _build/bench.json.

    python -m tests.bench.bench            everything
    python -m tests.bench.bench --store    what chapters quote, kept in ictd_lib/measured.json

A file bench_*.py in this folder holds functions `bench_*() -> Iterator[Case]`. All cases are measured in turn, over
and over, so that a machine that slows down slows all of them down; what counts is the median.
"""

import argparse
import datetime
import importlib
import importlib.metadata
import json
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from book.tools.canonical import ROOT

RESULTS = ROOT / "_build" / "bench.json"
# Part of the library, so that whoever can run a chapter has it, and a new table makes chapters stale.
STORED = ROOT / "ictd_lib" / "measured.json"
QUOTED = ("bench_forms", "bench_transformer")


@dataclass(frozen=True)
class Case:
    """One thing to measure: what to run, and what it may take at most.

    `measure` overrides the seconds that `run` takes by a figure that `run` returns. With `at_least`
    the bound is a lower one; without a bound the figure is reported and judged by nobody.
    """

    name: str
    run: Callable[[], Any]
    bound: float | None
    unit: str = "s"
    measure: Callable[[Any], float] | None = None
    at_least: bool = False

    def value(self) -> float:
        """Measure once."""
        begin = time.perf_counter()
        result = self.run()
        seconds = time.perf_counter() - begin
        return seconds if self.measure is None else self.measure(result)

    def allows(self, value: float) -> bool:
        """Whether a value keeps to the bound."""
        if self.bound is None:
            return True
        return value >= self.bound if self.at_least else value <= self.bound

    def limit(self) -> str:
        """The bound in words."""
        if self.bound is None:
            return "reported"
        return f"at {'least' if self.at_least else 'most'} {self.bound:g}"


def cases(stems: Sequence[str] = ()) -> Iterator[Case]:
    """Yield the cases of every bench_*.py beside this file, or of those named."""
    for path in sorted(Path(__file__).parent.glob("bench_*.py")):
        if stems and path.stem not in stems:
            continue
        module = importlib.import_module(f"tests.bench.{path.stem}")
        for name, function in vars(module).items():
            if name.startswith("bench_"):
                yield from function()


def measured(chosen: Sequence[Case], rounds: int) -> list[dict[str, Any]]:
    """Measure all cases in turn, `rounds` times after one round to warm up; return a row for each."""
    values: dict[str, list[float]] = {case.name: [] for case in chosen}
    for turn in tqdm(range(rounds + 1), unit="round", disable=None):
        for case in chosen:
            value = case.value()
            if turn:
                values[case.name].append(value)
    rows = []
    for case in chosen:
        median = statistics.median(values[case.name])
        row = {
            "name": case.name,
            "value": median,
            "unit": case.unit,
            "bound": case.bound,
        }
        rows.append(row | {"ok": case.allows(median)})
    return rows


def table(chosen: Sequence[Case], rows: Sequence[dict[str, Any]]) -> str:
    """Return one line for each row."""
    return "\n".join(
        f"{row['name']:<36}{row['value']:>12.4f} {row['unit']:<3} ({case.limit()})"
        f"{'' if row['ok'] else '  <- not within its bound'}"
        for case, row in zip(chosen, rows, strict=True)
    )


def circumstances() -> dict[str, Any]:
    """Return where and with what it was measured, as far as that explains a figure."""
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "platform": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "threads": 1,
        **{
            name: importlib.metadata.version(name).partition("+")[0]
            for name in ("numpy", "torch")
        },
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="make bench", description="Measure the library."
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--store",
        action="store_true",
        help=f"measure what chapters quote, and keep it in {STORED.relative_to(ROOT)}",
    )
    options = parser.parse_args(arguments)
    chosen = list(cases(QUOTED if options.store else ()))
    rows = measured(chosen, options.rounds)
    print(table(chosen, rows))
    good = all(row["ok"] for row in rows)
    if not options.store:
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        RESULTS.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    elif good:
        kept = circumstances() | {"rows": rows}
        STORED.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
        print(f"Stored in {STORED.relative_to(ROOT)}; now `make notebooks`")
    else:
        print("Not stored: a figure is not within its bound.", file=sys.stderr)
    return int(not good)


if __name__ == "__main__":
    sys.exit(main())
