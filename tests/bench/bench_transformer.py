"""The Transformer against the least that attention must do, and its fast forms against it.

Ratios come from runs that alternate in this process, on one thread, in float32. What takes
long is measured once, and the figure is kept for the other rounds.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from statistics import median

import numpy as np
import torch
from torch import Tensor

from ictd_lib import Context, random_boyan_chain, sample_context, unit_features
from ictd_lib.transformer import (
    SoftmaxTDTransformer,
    build_prompt,
    cached,
    collapsed_power,
    summarise,
    theta_star,
)
from tests.bench.bench import Case

STATES, DIMENSION, DISCOUNT = 10, 16, 0.9
MEGABYTE = 2**20


def task(n: int, layers: int) -> tuple[Context, Tensor, SoftmaxTDTransformer]:
    """A context, its features, and a model that evaluates it."""
    rng = np.random.default_rng(0)
    context = sample_context(random_boyan_chain(STATES, rng, DISCOUNT), n, rng)
    features = torch.tensor(unit_features(STATES, DIMENSION, rng), dtype=torch.float32)
    model = theta_star(DIMENSION, layers, DISCOUNT, sharpness=6.0, dtype=torch.float32)
    return context, features, model


def prompt(n: int, layers: int) -> tuple[Tensor, SoftmaxTDTransformer]:
    """The same as a prompt."""
    context, features, model = task(n, layers)
    return build_prompt(context, features.numpy(), dtype=torch.float32), model


def bare(Z: Tensor, layers: int) -> Tensor:
    """Scores, softmax over the contiguous axis, product: attention of d + 3 rows and no more."""
    n = Z.shape[-1] - 1
    for _ in range(layers):
        weights = torch.softmax(Z.mT @ Z[:, :n], dim=-1)
        out = Z[:, :n] @ weights.mT
    return out


def seconds(run: Callable[[], object]) -> float:
    """What one call takes, without gradients.

    Seconds of this thread, not of the clock: on one thread they are the same, but for what
    other programs take from it.
    """
    with torch.inference_mode():
        begin = time.thread_time()
        run()
        return time.thread_time() - begin


def ratio(run: Callable[[], object], over: Callable[[], object], pairs: int) -> float:
    """Median over pairs of runs, one after the other, after one pair to warm up."""
    found = [seconds(run) / seconds(over) for _ in range(pairs + 1)]
    return median(found[1:])


def bench_literal() -> Iterator[Case]:
    """A layer by the paper's matrices over bare attention; at 256 for information."""
    torch.set_num_threads(1)
    for n, pairs, bound in ((256, 40, None), (1000, 10, 1.35), (4096, 2, 1.15)):
        Z, model = prompt(n, 4)

        def run(
            Z: Tensor = Z, model: SoftmaxTDTransformer = model, pairs: int = pairs
        ) -> float:
            return ratio(lambda: model(Z), lambda: bare(Z, model.layers), pairs)

        yield Case(f"literal_over_bare_{n}", run, bound, unit="x", measure=float)


def bench_cached() -> Iterator[Case]:
    """Attention computed once over attention computed in each of 20 layers."""
    torch.set_num_threads(1)
    for n, pairs, bound in ((1000, 5, 0.25), (4000, 2, 0.1)):

        @cache
        def run(n: int = n, pairs: int = pairs) -> float:
            Z, model = prompt(n, 20)
            return ratio(lambda: cached(model, Z), lambda: model(Z), pairs)

        yield Case(f"cached_over_literal_{n}", run, bound, unit="x", measure=float)


def bench_collapsed() -> Iterator[Case]:
    """A hundred layers over 4,096 transitions: counting and a power of one small matrix."""
    torch.set_num_threads(1)

    @cache
    def run() -> float:
        context, features, model = task(4096, 100)
        states = torch.tensor(context.states)
        rewards = torch.tensor(context.rewards, dtype=torch.float32)
        Z = build_prompt(context, features.numpy(), dtype=torch.float32)

        def collapsing() -> Tensor:
            return collapsed_power(model, features, summarise(states, rewards, STATES))

        few = [seconds(collapsing) for _ in range(50)]
        slow = seconds(lambda: model(Z))
        few += [seconds(collapsing) for _ in range(50)]
        return slow / median(few)

    yield Case("collapsed_speedup", run, 5000, unit="x", measure=float, at_least=True)


#: Run in a fresh process: resident memory before the call, and the most since it began.
FUSED_MEMORY = """
import sys
import torch
from ictd_lib.transformer import fused
from tests.bench.bench_transformer import prompt

def status(key):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key)) * 1024

torch.set_num_threads(1)
with torch.inference_mode():
    Z, model = prompt(int(sys.argv[1]), 4)
    fused(model, Z[:, -100:])
    before = status("VmRSS")
    fused(model, Z)
    print(status("VmHWM") - before)
"""


@cache
def fused_memory(n: int) -> float:
    """Megabytes that the fused form adds to a process, at n transitions and 4 layers."""
    command = [sys.executable, "-c", FUSED_MEMORY, str(n)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(done.stdout) / MEGABYTE


def bench_fused() -> Iterator[Case]:
    """Memory of fused attention, and by how much it grows when the context doubles."""
    yield Case(
        "fused_peak_memory_mb",
        lambda: fused_memory(32_768),
        60,
        unit="MB",
        measure=float,
    )
    yield Case(
        "fused_memory_of_twice_the_context",
        lambda: fused_memory(32_768) / fused_memory(16_384),
        2.5,  # 2, and 4 if it were quadratic
        unit="x",
        measure=float,
    )
