"""Stacks of chains, kernels and contexts, awkward ones among them, for the tests of layers."""

from typing import NamedTuple

import numpy as np
from strategies import clusters, cycle, ladder

from ictd_lib import population_kernel

CHAINS = ("boyan", "dense", "near-periodic", "decomposable", "tiny mass")


class Layers(NamedTuple):
    """Instances of one size and discount: chain, features, step size."""

    transition: np.ndarray  # (N, S, S)
    stationary: np.ndarray  # (N, S)
    scores: np.ndarray  # (N, S, S)
    kernel: np.ndarray  # (N, S, S)
    step_size: np.ndarray  # (N,)
    discount: float


def chain(kind, n_states, rng):
    """One transition matrix that is irreducible."""
    dense = rng.dirichlet(np.full(n_states, 10 ** rng.uniform(-1, 1)), n_states)
    dense = 0.95 * dense + 0.05 / n_states
    if kind == "dense":
        return dense
    if kind == "near-periodic":
        slip = 10 ** rng.uniform(-12, -1)
        return (1 - slip) * cycle(n_states, 0.0) + slip * dense
    if kind == "decomposable":
        first = int(rng.integers(1, n_states))
        return clusters((first, n_states - first), 10 ** rng.uniform(-12, -1), rng)
    if kind == "tiny mass":
        rungs = ladder(n_states, 10 ** rng.uniform(-4, -0.3))
        return 0.9 * rungs + 0.1 * np.roll(np.eye(n_states), 1, axis=1)
    p = np.zeros((n_states, n_states))
    for i, u in enumerate(rng.uniform(0.01, 0.99, n_states - 2)):
        p[i, i + 1], p[i, i + 2] = u, 1 - u
    p[-2, -1] = 1
    weights = rng.uniform(0.01, 0.99, n_states)
    p[-1] = weights / weights.sum()
    return p


def stationary_stack(transition):
    """Stationary distributions of a stack, by elimination without a subtraction."""
    watched = transition.copy()
    n_states = watched.shape[-1]
    for k in range(n_states - 1, 0, -1):
        watched[:, :k, k] /= watched[:, k, :k].sum(axis=1, keepdims=True)
        watched[:, :k, :k] += watched[:, :k, k, None] * watched[:, k, None, :k]
    mu = np.ones(watched.shape[:2])
    for k in range(1, n_states):
        mu[:, k] = (mu[:, :k] * watched[:, :k, k]).sum(axis=1)
    return mu / mu.sum(axis=1, keepdims=True)


def features(n_states, rng):
    """Gaussian, unit, on a line, or orthogonal; from nearly equal to extreme."""
    kind = rng.integers(4)
    scale = 10 ** rng.uniform(-1, 1.5)
    if kind == 3:
        return np.sqrt(rng.uniform(0, 15)) * np.eye(n_states)
    dimension = 1 if kind == 2 else n_states + 2
    x = rng.standard_normal((n_states, dimension))
    return scale * (x / np.linalg.norm(x, axis=1, keepdims=True) if kind == 1 else x)


def layers(n_states, count, discount, rng):
    """Random instances, a fifth of each kind of chain."""
    p = np.stack([chain(CHAINS[i % 5], n_states, rng) for i in range(count)])
    p /= p.sum(axis=2, keepdims=True)
    mu = stationary_stack(p)
    x = [features(n_states, rng) for _ in range(count)]
    scores = np.stack([one @ one.T for one in x])
    steps = np.where(rng.random(count) < 0.3, 1.0, rng.uniform(0.05, 1, count))
    return Layers(p, mu, scores, population_kernel(scores, mu), steps, discount)


def count_distinct(*arrays):
    """How many instances of a stack differ from all before."""
    rows = np.concatenate([a.reshape(len(a), -1) for a in arrays], axis=1)
    return len(np.unique(rows, axis=0))


def transition_counts(transition, n, rng):
    """Counts N(s, s') of a path of n transitions in each chain of a stack, and its end."""
    count, n_states = transition.shape[:2]
    cumulative = np.cumsum(transition, axis=2)
    cumulative /= cumulative[:, :, -1:]
    who, state = np.arange(count), rng.integers(n_states, size=count)
    counts = np.zeros((count, n_states, n_states))
    for _ in range(n):
        after = (cumulative[who, state] <= rng.random((count, 1))).sum(axis=1)
        counts[who, state, after] += 1
        state = after
    return counts, state
