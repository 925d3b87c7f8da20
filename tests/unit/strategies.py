"""Random and awkward chains for the property tests."""

import numpy as np
from hypothesis import strategies as st

from ictd_lib import (
    MarkovRewardProcess,
    boyan_chain,
    random_boyan_chain,
    random_ergodic_chain,
    random_walk,
)

seeds = st.integers(0, 2**32 - 1)
discounts = st.sampled_from([0.0, 0.5, 0.9, 0.99])


def cycle(n_states: int, slip: float) -> np.ndarray:
    """Nearly deterministic cycle: moves on, and with probability `slip` stays."""
    eye = np.eye(n_states)
    return (1 - slip) * np.roll(eye, 1, axis=1) + slip * eye


def ladder(n_states: int, e: float) -> np.ndarray:
    """Up from 1 by single rungs of probability `e`, else back to 1; over the top to 0.

    With :math:`\\mu \\propto (e^{S-1}, 1, e, e^2, \\dots, e^{S-2})`.
    """
    transition = np.zeros((n_states, n_states))
    transition[0, 1] = 1
    for i in range(1, n_states):
        transition[i, (i + 1) % n_states] += e
        transition[i, 1] += 1 - e
    return transition


def clusters(
    sizes: tuple[int, int], leak: float, rng: np.random.Generator
) -> np.ndarray:
    """Nearly decomposable: two random blocks joined by probabilities of order `leak`."""
    n_states = sum(sizes)
    block = np.zeros((n_states, n_states))
    first = np.arange(n_states) < sizes[0]
    for members in (first, ~first):
        size = members.sum()
        block[np.ix_(members, members)] = rng.dirichlet(np.ones(size), size)
    joint = rng.dirichlet(np.ones(n_states), n_states)
    return (1 - leak) * block + leak * joint


@st.composite
def ergodic_chains(draw: st.DrawFn) -> MarkovRewardProcess:
    """A chain of any of the book's families, awkward ones among them."""
    rng = np.random.default_rng(draw(seeds))
    discount = draw(discounts)
    n_states = draw(st.integers(2, 12))
    kind = draw(
        st.sampled_from(["boyan", "13", "walk", "dense", "cycle", "ladder", "clusters"])
    )
    if kind == "boyan":
        return random_boyan_chain(n_states, rng, discount)
    if kind == "13":
        return boyan_chain(discount)
    if kind == "walk":
        return random_walk(n_states, discount, draw(st.floats(0.05, 0.95)))
    if kind == "dense":
        concentration = draw(st.sampled_from([0.05, 1.0, 20.0]))
        return random_ergodic_chain(n_states, rng, discount, concentration)
    if kind == "cycle":
        transition = cycle(n_states, draw(st.sampled_from([0.0, 1e-9, 0.1])))
    elif kind == "ladder":
        transition = ladder(n_states, draw(st.sampled_from([1e-6, 0.1])))
    else:
        leak = draw(st.sampled_from([1e-12, 1e-6, 0.1]))
        transition = clusters((n_states, draw(st.integers(1, 6))), leak, rng)
    reward = rng.uniform(-1, 1, len(transition))
    return MarkovRewardProcess(transition, reward, discount)
