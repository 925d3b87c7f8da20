"""Measure the library against its bounds, and store the figures in _build/bench.json.

A file bench_*.py in this folder holds functions `bench_*() -> Iterator[Case]`. All cases are measured in turn, over
and over, so that a machine that slows down slows all of them down; what counts is the median.
"""

import argparse
import importlib
import json
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


def cases() -> Iterator[Case]:
    """Yield the cases of every bench_*.py beside this file."""
    for path in sorted(Path(__file__).parent.glob("bench_*.py")):
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="make bench", description="Measure the library."
    )
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args(arguments)
    chosen = list(cases())
    rows = measured(chosen, options.rounds)
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    print(table(chosen, rows))
    return int(not all(row["ok"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())
