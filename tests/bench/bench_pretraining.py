"""Pretraining on one thread: a seed of the standard recipe, and transitions a second.

Seconds are those of the thread, as in `bench_transformer`; sampling, pools and measures are
included, and the loading of the optimiser is not.
"""

import time
from collections.abc import Iterator
from functools import cache

import torch

from ictd_lib.pretraining import STANDARD, Recipe, train
from tests.bench.bench import Case

#: The size at which public code of the field is measured.
FAST = Recipe(dimension=4, n=30, held_out=10, layers=3, steps=500)


def seconds(recipe: Recipe, every: int) -> float:
    """What a run takes."""
    torch.set_num_threads(1)
    train(recipe, 0, steps=1, every=0)  # loads what is loaded once
    begin = time.thread_time()
    train(recipe, 1, every=every)
    return time.thread_time() - begin


@cache
def seconds_per_seed() -> float:
    """The standard recipe, measured as often as by default."""
    return seconds(STANDARD, every=20)


def transitions_per_second() -> float:
    """Transitions of contexts and after them, sampled and trained on."""
    count = FAST.steps * FAST.batch * (FAST.n + FAST.held_out)
    return count / seconds(FAST, every=0)


def bench_pretraining() -> Iterator[Case]:
    """Training at the size of the book, and at a small one."""
    yield Case("pretrain_seconds_per_seed", seconds_per_seed, 5, measure=float)
    yield Case(
        "pretrain_transitions_per_second",
        transitions_per_second,
        500_000,
        unit="/s",
        measure=float,
        at_least=True,
    )
