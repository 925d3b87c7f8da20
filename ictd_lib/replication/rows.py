"""One run as a row: what was asked, with what it was computed, and what came of it."""

from __future__ import annotations

import ast
import hashlib
import platform
import time
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

import ictd_lib
from ictd_lib.pretraining import PretrainingDivergedError, Recipe, train
from ictd_lib.replication.store import Row

#: Records of a run after the first: enough to draw it, and few enough for a file below 1 MB.
RECORDS = 40
#: Kept of every record, as ``history_*``; of the last one all numbers are kept.
HISTORY = (
    *("step", "loss", "w_r", "w_t", "w_c"),
    *("multiple", "cosine", "diagonality", "error"),
)
#: Differs between two runs of the same row.
TIMES = ("seconds",)
#: Where it ran: on another processor the last digits differ, and after hundreds of steps more than those.
PLACES = ("platform", "device")


def run_row(
    variant: str,
    recipe: Recipe,
    seed: int,
    device: str = "cpu",
    asked: Mapping[str, str] | None = None,
) -> Row:
    """Train one model, and return all that's kept of it.

    Parameters
    ----------
    variant : str
        The recipe's name.
    recipe : Recipe
    seed : int
    device : str
    asked : mapping, optional
        `versions` where the row is asked for.

    Returns
    -------
    dict
        Scalars and one-dimensional arrays. A run that diverged isn't an error: ``finished`` is
        False, and its history is as long as it got.

    Raises
    ------
    RuntimeError
        If this process has other versions than whoever asks, so that rows would not compare.
    """
    here = versions()
    differing = {
        name: f"{here[name]} here, {asked[name]} there"
        for name in here
        if asked is not None and here[name] != asked[name]
    }
    if differing:
        raise RuntimeError(
            f"versions: a worker's differ from the command's: {differing}"
        )
    torch.set_num_threads(1)
    clock = time.thread_time if device == "cpu" else time.perf_counter
    begin = clock()
    every = max(1, recipe.steps // RECORDS)
    try:
        run, finished = train(recipe, seed, every=every, device=device), True
    except PretrainingDivergedError as error:
        run, finished = error.run, False
    seconds = clock() - begin
    A = run.parameters["A"].reshape(-1, *run.parameters["A"].shape[-2:])[0]
    size = recipe.dimension
    return {
        "variant": variant,
        "seed": seed,
        **{f"recipe_{k}": v for k, v in asdict(recipe).items()},
        **here,
        "platform": _platform(device),
        "device": device,
        "seconds": seconds,
        "finished": finished,
        "steps_done": run.step,
        **{f"final_{k}": v for k, v in run.last().items() if k != "step"},
        "final_A": A[:size, :size].numpy().ravel() if size <= 16 else _nothing(),
        **{f"history_{k}": _float32(run.history[k]) for k in HISTORY},
    }


def versions() -> dict[str, str]:
    """What a result depends on besides its recipe and seed; ``code`` is `code_digest`."""
    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": torch.__version__,
        "ictd_lib": ictd_lib.__version__,
        "code": code_digest(),
    }


def key(variant: str, recipe: Recipe, seed: int, device: str = "cpu") -> str:
    """A file name for a row: another one as soon as recipe, versions or device are others."""
    what = repr(
        (sorted(asdict(recipe).items()), sorted(versions().items()), RECORDS, device)
    )
    return f"{variant}-{seed:03d}-{_digest(what)}"


@cache
def code_digest() -> str:
    """A digest of the modules that training runs through, and no others.

    A row of the same version of the library but of other code is another row.
    """
    root = Path(ictd_lib.__file__).parent
    found: set[Path] = set()
    waiting = {root / "pretraining" / "__init__.py"}
    while waiting:
        path = waiting.pop()
        found.add(path)
        waiting |= _imported(path, root) - found
    content = [path.read_text(encoding="utf-8") for path in sorted(found)]
    return _digest("\0".join(content))


def _imported(path: Path, root: Path) -> set[Path]:
    """Files of the library's modules that one of them names in its imports."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{a.name}" for a in node.names)}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    places = (root.parent / name.replace(".", "/") for name in names)
    files = (f for p in places for f in (p.with_suffix(".py"), p / "__init__.py"))
    return {f for f in files if root in f.parents and f.is_file()}


def _platform(device: str) -> str:
    capability = torch.backends.cpu.get_cpu_capability()
    where = f"{platform.system()} {platform.machine()} {capability}"
    if torch.device(device).type == "cuda":
        where += f" {torch.cuda.get_device_name(device)}"
    return where


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _float32(values: Any) -> Any:
    return np.asarray(values, dtype=np.float32)


def _nothing() -> Any:
    return np.zeros(0, dtype=np.float32)
