"""Stacks of instances for the theorems on convergence."""

import numpy as np

from ictd_lib.census import random_chains, stationary_stack
from ictd_lib.operators import population_kernel
from ictd_lib.preconditioning import reversing_weights

SIZES = (2, 3, 4, 5, 6, 7, 8)


def stacks(seed, each=1800, **drawn):
    """One `ChainStack` for each number of states."""
    rng = np.random.default_rng(seed)
    return [random_chains(each, size, rng, **drawn) for size in SIZES]


def operators(kernel, transition, discount, steps=1.0):
    """T = I - diag(a) M (I - gamma P), written out; one discount and one step a chain."""
    eye = np.eye(kernel.shape[-1])
    drift = kernel @ (eye - np.asarray(discount)[..., None, None] * transition)
    steps = np.broadcast_to(steps, kernel.shape[:-1])
    return eye - steps[..., None] * drift


def radius(T):
    return np.abs(np.linalg.eigvals(T)).max(axis=-1)


def tolerance(weights, kernel):
    """What rounding may do to an eigenvalue of T: not more than eps times the norm, similar.

    T is 1 - (self-adjoint)(bounded) after scaling by the roots of the weights.
    """
    spread = np.sqrt(weights.max(axis=-1) / weights.min(axis=-1))
    return 1e-13 * kernel.shape[-1] * np.minimum(spread, 1e5)


def prepared(chains, steps=1.0):
    """Kernel and reversing weights of a stack."""
    scores, mu = chains.scores, chains.stationary
    return population_kernel(scores, mu), reversing_weights(scores, mu, steps)


def sampled_counts(chains, lengths, rng):
    """Contexts from each chain of a stack, all of one length: counts and empirical matrices.

    Returns counts (count, S), transitions (count, S, S), first and last states.
    """
    P = chains.transition
    count, size = chains.stationary.shape
    cumulative = np.cumsum(P, axis=-1)
    cumulative /= cumulative[..., -1:]
    state = rng.integers(0, size, count)
    first, rows = state.copy(), np.arange(count)
    pairs = np.zeros((count, size, size))
    for _ in range(lengths):
        u = rng.random(count)
        after = (cumulative[rows, state] <= u[:, None]).sum(axis=1)
        np.add.at(pairs, (rows, state, after), 1)
        state = after
    counts = pairs.sum(axis=-1)
    return counts, pairs / np.maximum(counts, 1)[..., None], first, state


__all__ = [
    "SIZES",
    "operators",
    "prepared",
    "radius",
    "sampled_counts",
    "stacks",
    "stationary_stack",
    "tolerance",
]
