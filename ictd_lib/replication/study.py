"""A study: every variant from every seed, each finished row kept, all of them in one file at the end."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from ictd_lib.checks import checked_count
from ictd_lib.replication.engine import (
    Failure,
    local_cluster,
    outcomes,
    remote_cluster,
)
from ictd_lib.replication.rows import PLACES, TIMES, key, run_row, versions
from ictd_lib.replication.store import Columns, Row, Spool, stack, write_columns
from ictd_lib.replication.variants import Variant

#: What columns mean. Those of a recipe are fields of `ictd_lib.pretraining.Recipe`; those of measures,
#: what `ictd_lib.pretraining.measure` returns.
COLUMNS = {
    "variant": "name of the recipe",
    "seed": "with the recipe it decides the run",
    "recipe_*": "fields of the recipe",
    "python, numpy, torch, ictd_lib": "versions",
    "code": "digest of the modules that training runs through",
    "platform, device": "where it ran; the last digits depend on the processor",
    "seconds": "how long it took there: processor time of its thread, or on a GPU of the clock",
    "finished": "False if it diverged",
    "steps_done": "steps of the optimiser; fewer than recipe_steps if it diverged",
    "final_*": "loss and measures at the end",
    "final_A": "feature block of A at the end, row by row; none for large ones",
    "history_*": "the same in the course of the run, a column for each record; nan after the end",
}


class ReplicationError(RuntimeError):
    """Some rows could not be computed. All others are kept; the same call tries these again."""


Calls = Mapping[str, tuple[Any, ...]]
Runner = Callable[[Callable[..., Any], Calls], Iterator[tuple[str, Any]]]


def kept_rows(
    function: Callable[..., Row],
    calls: Calls,
    store: Spool,
    runner: Callable[[], AbstractContextManager[Runner]],
    *,
    progress: bool = True,
) -> dict[str, Row]:
    """Return ``function(*arguments)`` for every call: from the store, or else computed and put there.

    The runner is started only if there's something to do.

    Raises
    ------
    ReplicationError
        If calls failed, after all others were made.
    """
    rows: dict[str, Row] = {
        name: row for name in calls if (row := store.get(name)) is not None
    }
    missing = {name: calls[name] for name in calls if name not in rows}
    if not missing:
        return rows
    failures: dict[str, str] = {}
    bar = tqdm(
        total=len(calls),
        initial=len(rows),
        unit="run",
        disable=None if progress else True,
    )
    with bar, runner() as run:
        for name, outcome in run(function, missing):
            if isinstance(outcome, Failure):
                failures[name] = outcome.error
            else:
                store.keep(name, outcome)
                rows[name] = outcome
            bar.update()
    if failures:
        said = "; ".join(sorted(set(failures.values()))[:3])
        raise ReplicationError(
            f"{len(failures)} of {len(calls)} runs failed, the others are kept: {said}"
        )
    return rows


def replicate(
    variants: Sequence[Variant],
    seeds: Sequence[int],
    *,
    out: Path,
    spool: Path,
    workers: int = 2,
    scheduler: str | None = None,
    device: str = "cpu",
    progress: bool = True,
) -> Columns:
    """Train every variant from every seed, and write one file of columns.

    Parameters
    ----------
    variants : sequence of Variant
    seeds : sequence of int
    out : path
        An NPZ file. What it holds is said in a JSON file beside it.
    spool : path
        A folder in which each row is kept as soon as it's there. A call that finds rows in it computes
        the others only; rows of other recipes, versions or code are left alone.
    workers : int
        Processes of one thread on this machine.
    scheduler : str, optional
        Address of a Dask scheduler, whose workers are used instead.
    device : str
        Other than "cpu": one run after the other in this process.
    progress : bool

    Returns
    -------
    dict of arrays
        Rows ordered as the variants are, then as the seeds are, whoever computed them and when.

    Raises
    ------
    ReplicationError
        If runs failed. A run that diverged has not failed: its row says so.
    EngineError
        If the engine can't be reached, or is lost.
    """
    asked = versions()
    calls = {
        key(variant.name, variant.recipe, seed, device): (
            *(variant.name, variant.recipe, seed),
            *(device, asked),
        )
        # Seed by seed, so that what's there after an interruption is balanced.
        for seed in (checked_count("seed", seed, 0) for seed in seeds)
        for variant in variants
    }
    rows = kept_rows(
        run_row,
        calls,
        Spool(spool),
        lambda: _runner(workers, scheduler, device),
        progress=progress,
    )
    order = [key(v.name, v.recipe, seed, device) for v in variants for seed in seeds]
    columns = stack(rows[name] for name in order)
    out.parent.mkdir(parents=True, exist_ok=True)
    write_columns(out, columns)
    _write_json(out.with_suffix(".json"), _description(variants, seeds, columns))
    return columns


@contextmanager
def _runner(workers: int, scheduler: str | None, device: str) -> Iterator[Runner]:
    if device != "cpu":
        yield _one_by_one  # a GPU is one worker
        return
    with remote_cluster(scheduler) if scheduler else local_cluster(workers) as client:
        yield partial(outcomes, client)


def _one_by_one(
    function: Callable[..., Any], calls: Calls
) -> Iterator[tuple[str, Any]]:
    for name, arguments in calls.items():
        yield name, function(*arguments)


def same_rows(a: Columns, b: Columns) -> bool:
    """Whether two tables are the same but for times and places."""
    names = set(a) - {*TIMES, *PLACES}
    return set(a) == set(b) and all(
        a[name].dtype == b[name].dtype
        and np.array_equal(a[name], b[name], equal_nan=a[name].dtype.kind == "f")
        for name in names
    )


def summary(columns: Columns) -> str:
    """A line for each variant: medians over its seeds, and how many have the signs (+, +, -)."""
    w = np.stack([columns[f"final_w_{k}"] for k in "rtc"], axis=1)
    signs = (np.sign(w) == (1, 1, -1)).all(axis=1)
    lines = [
        f"{'variant':<24}{'signs':>9}{'cosine':>9}{'diagonal':>10}{'error':>9}{'seconds':>9}"
    ]
    for name in dict.fromkeys(columns["variant"].tolist()):
        its = columns["variant"] == name
        cosine, diagonal, error, seconds = (
            np.median(columns[column][its])
            for column in ("final_cosine", "final_diagonality", "final_error", *TIMES)
        )
        lines.append(
            f"{name:<24}{f'{signs[its].sum()}/{its.sum()}':>9}{cosine:>9.3f}{diagonal:>10.3f}"
            f"{error:>9.4f}{seconds:>9.1f}"
        )
    return "\n".join(lines)


def _description(
    variants: Sequence[Variant], seeds: Sequence[int], columns: Columns
) -> dict[str, Any]:
    return {
        "about": "Pretraining runs, one in each row of the NPZ file beside this one.",
        "made_by": "python -m ictd_lib replicate",
        "rows": len(columns["seed"]),
        "seeds": list(map(int, seeds)),
        "versions": versions(),
        "places": sorted(set(columns["platform"].tolist())),
        "seconds_of_all_runs": round(float(columns["seconds"].sum()), 1),
        "variants": {
            v.name: {"factor": v.factor, "about": v.about, "changes": dict(v.changes)}
            for v in variants
        },
        "columns": COLUMNS,
    }


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    part.write_text(
        json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )
    part.replace(path)
