"""A census: how often each condition holds on random chains, and how often TD diverges.

Chains of three kinds, as stacks of one size each, so that a hundred thousand take seconds:

* *boyan*: random Boyan chains;
* *dirichlet*: rows from a Dirichlet distribution whose concentration is itself random, mixed
  with 5 % of a uniform jump;
* *cyclic*: a deterministic cycle, left with a small random probability for such a row.

Features are Gaussian, of a random scale and a random dimension; the discount is one of three.
Everything is drawn from the generator that is given.

All of it is ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ictd_lib.checks import Floats, Ints, checked_count, checked_discount
from ictd_lib.convergence import (
    centred_radius,
    kernel_spectrum,
    numerical_radius,
    predecessor_ratio,
    sharp_sink,
    sink_bound,
    spread_radius,
)
from ictd_lib.divergence import drift_eigenvalues
from ictd_lib.operators import layer_operator, population_kernel, spectral_radius
from ictd_lib.preconditioning import reversing_weights, sink_steps

FAMILIES = ("boyan", "dirichlet", "cyclic")
STATES = (2, 3, 4, 5, 6, 7, 8)
DISCOUNTS = (0.5, 0.9, 0.99)
#: Within this of 1, float64 doesn't tell whether a spectral radius is below or above.
CLOSE = 1e-9


@dataclass(frozen=True, eq=False)
class ChainStack:
    """A stack of chains of one size, with the features of their states.

    Attributes
    ----------
    transition : (count, S, S) array
        :math:`P`.
    stationary : (count, S) array
        :math:`\\mu`.
    features : (count, S, d) array
        :math:`x(s)`; unused dimensions are 0.
    discount : (count,) array
        :math:`\\gamma`.
    family : (count,) int array
        Index into ``FAMILIES``.
    """

    transition: Floats
    stationary: Floats
    features: Floats
    discount: Floats
    family: Ints

    @property
    def scores(self) -> Floats:
        """Inner products of the features, (count, S, S)."""
        scores: Floats = self.features @ self.features.mT
        return scores


def random_chains(
    count: int,
    n_states: int,
    rng: np.random.Generator,
    *,
    discounts: Sequence[float] = DISCOUNTS,
    scales: tuple[float, float] = (0.1, 4.0),
    dimensions: int = 4,
) -> ChainStack:
    """A stack of random chains, a third of each family, with random features.

    Parameters
    ----------
    count : int
        How many, at least 1.
    n_states : int
        Number of states of each, at least 2.
    rng : numpy.random.Generator
        Source of all randomness.
    discounts : sequence of float
        Each chain draws one of them.
    scales : (float, float)
        Features are normal with a standard deviation that is log-uniform between these.
    dimensions : int
        Each chain's features have from 1 to so many dimensions, at least 1.

    Returns
    -------
    ChainStack

    Raises
    ------
    ValueError
        If an argument isn't what it must be.
    """
    count = checked_count("count", count, at_least=1)
    size = checked_count("n_states", n_states, at_least=2)
    dimensions = checked_count("dimensions", dimensions, at_least=1)
    gammas = [checked_discount(g) for g in discounts]
    if not gammas:
        raise ValueError(f"discounts: got {discounts!r}, expected at least one")
    if not 0 < scales[0] <= scales[1] < np.inf:
        raise ValueError(f"scales: got {scales}, expected 0 < lowest <= highest")
    family = np.arange(count) % len(FAMILIES)
    sharp = rng.uniform(np.log(0.05), np.log(5.0), (count, 1, 1))
    rows = rng.gamma(np.broadcast_to(np.exp(sharp), (count, size, size))) + 1e-12
    rows /= rows.sum(axis=-1, keepdims=True)
    dense = 0.95 * rows + 0.05 / size
    leave = np.exp(rng.uniform(np.log(1e-4), np.log(0.3), (count, 1, 1)))
    cyclic = (1 - leave) * np.roll(np.eye(size), 1, axis=1) + leave * dense
    transition = np.where((family == 1)[:, None, None], dense, cyclic)
    transition[family == 0] = _boyan(int((family == 0).sum()), size, rng)
    scale = np.exp(rng.uniform(np.log(scales[0]), np.log(scales[1]), (count, 1, 1)))
    used = np.arange(dimensions) < rng.integers(1, dimensions + 1, (count, 1, 1))
    features = scale * rng.standard_normal((count, size, dimensions)) * used
    return ChainStack(
        transition,
        stationary_stack(transition),
        features,
        rng.choice(gammas, count),
        family,
    )


def stationary_stack(transition: Floats) -> Floats:
    """Stationary distributions of a stack of irreducible chains, by GTH elimination.

    As `ictd_lib.chain.stationary_distribution`, on all at once, and without its checks.

    Parameters
    ----------
    transition : (..., S, S) array
        Irreducible stochastic matrices.

    Returns
    -------
    (..., S) array
    """
    watched = np.array(transition, dtype=np.float64)
    size = watched.shape[-1]
    for k in range(size - 1, 0, -1):
        watched[..., :k, k] /= watched[..., k, :k].sum(axis=-1)[..., None]
        watched[..., :k, :k] += watched[..., :k, k, None] * watched[..., None, k, :k]
    mu = np.ones(watched.shape[:-1])
    for k in range(1, size):
        mu[..., k] = (mu[..., :k] * watched[..., :k, k]).sum(axis=-1)
    mu /= mu.sum(axis=-1, keepdims=True)
    return mu


@dataclass(frozen=True, eq=False)
class Census:
    """One row a chain; every column has the shape (count,).

    Attributes
    ----------
    states, family : int arrays
        Number of states; index into ``FAMILIES``.
    discount : array
        :math:`\\gamma`.
    diagonal : array
        :math:`2\\min_s M(s, s) - 1 - \\gamma`: Assumption 5.1 holds where it is more than 0.
    spread : array
        `spread_radius`, :math:`\\gamma(R + 1/R)/2` with :math:`R^2 = \\max\\Lambda/\\min\\Lambda`.
    predecessors : array
        :math:`\\gamma\\sqrt\\kappa`.
    numerical : array
        ``w``.
    centred : array
        :math:`\\omega(\\lambda_2)`, an upper bound.
    radius : array
        :math:`\\rho(T)` at the step size 1.
    drift : array
        The least real part of an eigenvalue of :math:`M(I - \\gamma P)`: some step size converges
        where it is more than 0.
    bound, sharp : arrays
        The sinks :math:`b_0` and :math:`b_*`.
    with_sink : array
        :math:`\\rho` with a sink of 1.01 times :math:`b_0`.
    """

    states: Ints
    family: Ints
    discount: Floats
    diagonal: Floats
    spread: Floats
    predecessors: Floats
    numerical: Floats
    centred: Floats
    radius: Floats
    drift: Floats
    bound: Floats
    sharp: Floats
    with_sink: Floats

    @property
    def count(self) -> int:
        """Number of chains."""
        return len(self.radius)

    def verdicts(self) -> dict[str, np.ndarray]:
        """Which conditions hold and what happens, a boolean array (count,) each.

        ``converges`` and ``diverges`` leave out what is within ``CLOSE`` of 1.
        """
        return {
            "5.1": self.diagonal > 0,
            "spread": self.spread < 1,
            "predecessors": self.predecessors < 1,
            "numerical radius": self.numerical < 1,
            "centred": self.centred < 1,
            "any condition": (self.diagonal > 0)
            | (self.numerical < 1)
            | (self.centred < 1),
            "converges": self.radius < 1 - CLOSE,
            "diverges": self.radius > 1 + CLOSE,
            "diverges at every step size": self.drift < -CLOSE,
            "diverges with a sink": self.with_sink > 1 + CLOSE,
        }

    def shares(self) -> dict[str, float]:
        """The fraction of chains for each of the verdicts."""
        return {name: float(held.mean()) for name, held in self.verdicts().items()}


def census(
    count: int,
    rng: np.random.Generator,
    *,
    states: Sequence[int] = STATES,
    **drawn: object,
) -> Census:
    """Draw chains and find out what holds on each.

    Parameters
    ----------
    count : int
        How many chains for each number of states, at least 1.
    rng : numpy.random.Generator
        Source of all randomness: the same generator, the same census.
    states : sequence of int
        Numbers of states.
    **drawn
        Further arguments of `random_chains`.

    Returns
    -------
    Census
        ``count * len(states)`` rows, by the number of states.

    Raises
    ------
    ValueError
        If an argument isn't what it must be.
    """
    if not len(states):
        raise ValueError(f"states: got {states!r}, expected at least one number")
    parts = [
        examine(random_chains(count, size, rng, **drawn))  # type: ignore[arg-type]
        for size in states
    ]
    columns = Census.__dataclass_fields__
    return Census(
        **{
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in columns
        }
    )


def examine(chains: ChainStack) -> Census:
    """Every column of the census for a stack of chains."""
    scores, mu, gamma = chains.scores, chains.stationary, chains.discount
    P, size = chains.transition, mu.shape[-1]
    kernel = population_kernel(scores, mu)
    weights = reversing_weights(scores, mu)
    spectrum = kernel_spectrum(kernel, weights)
    diagonal = np.diagonal(kernel, axis1=-2, axis2=-1).min(axis=-1)
    nu = drift_eigenvalues(kernel, P, gamma)
    bound = sink_bound(scores, mu, gamma)
    steps = sink_steps(scores, mu, 1.01 * bound)
    with_sink = _operators(steps[..., None] * kernel, P, gamma)
    pace = np.where(spectrum.second > 0, spectrum.second, 1.0)
    return Census(
        states=np.full(len(gamma), size),
        family=chains.family,
        discount=gamma,
        diagonal=2 * diagonal - 1 - gamma,
        spread=spread_radius(scores, mu, gamma),
        predecessors=gamma * np.sqrt(predecessor_ratio(P, weights)),
        numerical=numerical_radius(P, weights, gamma),
        centred=centred_radius(P, weights, gamma, pace),
        radius=np.abs(1 - nu).max(axis=-1),
        drift=nu.real.min(axis=-1),
        bound=bound,
        sharp=sharp_sink(scores, mu, P, gamma),
        with_sink=spectral_radius(with_sink),
    )


def _operators(kernel: Floats, transition: Floats, discount: Floats) -> Floats:
    # `layer_operator` takes one discount; each chain here has its own.
    found = np.empty_like(kernel)
    for gamma in np.unique(discount):
        where = discount == gamma
        found[where] = layer_operator(kernel[where], transition[where], float(gamma))
    return found


def _boyan(count: int, size: int, rng: np.random.Generator) -> Floats:
    transition = np.zeros((count, size, size))
    for i in range(size - 2):
        u = rng.uniform(0.01, 0.99, count)
        transition[:, i, i + 1] = u
        transition[:, i, i + 2] = 1 - u
    transition[:, -2, -1] = 1
    last = rng.uniform(0.01, 0.99, (count, size))
    transition[:, -1] = last / last.sum(axis=-1, keepdims=True)
    return transition
