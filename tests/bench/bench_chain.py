"""Importing the library and sampling from a chain."""

import subprocess
import sys
from collections.abc import Iterator

import numpy as np

from ictd_lib import random_boyan_chain
from tests.bench.bench import Case


def bench_import() -> Iterator[Case]:
    """From nothing: a fresh Python, less what starting Python itself takes."""
    program = "import time; t = time.perf_counter(); import ictd_lib; print(time.perf_counter() - t)"
    yield Case(
        "import_seconds",
        lambda: (
            subprocess.run(
                [sys.executable, "-c", program],
                check=True,
                capture_output=True,
                text=True,
            ).stdout
        ),
        bound=0.5,
        measure=float,
    )


def bench_sampling() -> Iterator[Case]:
    """One long trajectory, and many short ones."""
    process = random_boyan_chain(10, np.random.default_rng(0), discount=0.9)
    yield Case(
        "trajectory_1e6_seconds",
        lambda: process.sample(1_000_000, np.random.default_rng(1)),
        bound=0.5,
    )
    yield Case(
        "many_trajectories_1000x1000_seconds",
        lambda: process.sample_many(1_000, 1_000, np.random.default_rng(1)),
        bound=0.5,
    )
