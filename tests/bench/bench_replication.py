"""How much faster two workers are than one, on the same runs.

Both clusters are up and have made a run each before the clock starts: a study lasts for minutes, so what counts is
what a worker more is worth while it lasts. Needs two cores that nothing else uses.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from statistics import median
from time import perf_counter

from ictd_lib.pretraining import STANDARD
from ictd_lib.replication import run_row
from ictd_lib.replication.engine import local_cluster, outcomes
from tests.bench.bench import Case

RUNS, TURNS = 8, 5
#: A sixth of the standard recipe, so that the bench doesn't last.
RECIPE = replace(STANDARD, steps=100, pool=512, test_pool=128)


@cache
def speedup() -> float:
    """Return the median, over turns, of one worker's seconds over two workers'; measured once."""
    calls = {str(seed): ("bench", RECIPE, seed) for seed in range(RUNS)}
    ratios = []
    with local_cluster(1) as one, local_cluster(2) as two:
        for turn in range(TURNS + 1):
            seconds = []
            for client in (one, two):
                begin = perf_counter()
                assert len(list(outcomes(client, run_row, calls))) == RUNS
                seconds.append(perf_counter() - begin)
            if turn:
                ratios.append(seconds[0] / seconds[1])
    return median(ratios)


def bench_replication() -> Iterator[Case]:
    """What a second worker is worth."""
    yield Case(
        "replicate_two_worker_speedup",
        speedup,
        bound=1.7,
        unit="x",
        measure=float,
        at_least=True,
    )
