"""How long each form of the Transformer takes, as the context grows. For information: no bounds.

Float32 on one thread, 20 layers, 16 features, 10 states. Seconds of the thread, not of the clock.
"""

from collections.abc import Callable, Iterator
from functools import cache, partial
from statistics import median

import torch
from torch import Tensor

from ictd_lib.transformer import cached, collapsed_power, fused, summarise
from tests.bench.bench import Case
from tests.bench.bench_transformer import STATES, prompt, seconds, task

LAYERS = 20
#: Contexts, and how often each form is run on them.
REPEATS = {256: 15, 512: 9, 1024: 5, 2048: 3, 4096: 1}


@cache
def times(n: int) -> dict[str, float]:
    """Return the median seconds of each form; the forms run in turn, after one turn to warm up."""
    context, features, model = task(n, LAYERS)
    Z, _ = prompt(n, LAYERS)
    states = torch.tensor(context.states)
    rewards = torch.tensor(context.rewards, dtype=torch.float32)

    def power() -> Tensor:
        return collapsed_power(model, features, summarise(states, rewards, STATES))

    forms: dict[str, Callable[[], object]] = {
        "literal": lambda: model(Z),
        "fused": lambda: fused(model, Z),
        "cached": lambda: cached(model, Z),
        "power": power,
    }
    found: dict[str, list[float]] = {name: [] for name in forms}
    for turn in range(REPEATS[n] + 1):
        for name, run in forms.items():
            took = seconds(run)
            if turn:
                found[name].append(took)
    return {name: median(values) for name, values in found.items()}


def once(n: int, form: str) -> float:
    """Return one of them."""
    return times(n)[form]


def bench_forms() -> Iterator[Case]:
    """Each form at each length."""
    torch.set_num_threads(1)
    for n in REPEATS:
        for form in ("literal", "fused", "cached", "power"):
            yield Case(
                f"seconds_{form}_{n}", partial(once, n, form), None, measure=float
            )
