"""Random numbers that are the same in Python and in the reader's browser.

numpy's generators don't exist there, so a figure draws its trajectories with splitmix32: a
32-bit counter and a mixing function. Good enough for a picture, and short enough to be
written twice (here and in ``js/core.js``). Nothing else in the library uses it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

from ictd_lib.chain import MarkovRewardProcess
from ictd_lib.context import Context

_MASK = 0xFFFFFFFF


def splitmix32(seed: int) -> Iterator[float]:
    """Uniform numbers in [0, 1), multiples of :math:`2^{-32}`."""
    state = seed & _MASK
    while True:
        state = (state + 0x9E3779B9) & _MASK
        z = state
        z = ((z ^ (z >> 16)) * 0x21F0AAAD) & _MASK
        z = ((z ^ (z >> 15)) * 0x735A2D97) & _MASK
        yield (z ^ (z >> 15)) / 2**32


def draw(probabilities: Sequence[float], u: float) -> int:
    """The first index whose cumulative probability exceeds ``u``."""
    for i, cumulative in enumerate(accumulate(probabilities)):
        if u < cumulative:
            return i
    # The probabilities sum to 1 only up to rounding.
    return max(i for i, p in enumerate(probabilities) if p > 0)


def sample(process: MarkovRewardProcess, n: int, seed: int) -> Context:
    """The context of ``n`` transitions that a figure draws for ``seed``."""
    uniform = splitmix32(seed)
    rows = process.transition.tolist()
    states = [draw(process.initial.tolist(), next(uniform))]
    for _ in range(n):
        states.append(draw(rows[states[-1]], next(uniform)))
    rewards = process.reward[states[:-1]]
    return Context(states, rewards, process.n_states)
