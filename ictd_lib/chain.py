"""Finite Markov reward processes: the thing that is to be evaluated.

A policy that is fixed turns a Markov decision process into a *Markov reward
process* (MRP) :math:`(\\mathcal S, P, r, \\gamma, p_0)`: a chain of states, a
reward for each, a discount. Everything that the book computes from experience
is compared with what this module computes from the process itself.

Sources: Sutton and Barto (2018), chapter 3, for the process and its values;
Grassmann, Taksar and Heyman (1985) for the stationary distribution.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import ArrayLike

from ictd_lib.checks import (
    Floats,
    Ints,
    as_floats,
    as_whole,
    checked_count,
    checked_discount,
    checked_vector,
    within_range,
)

#: How far a row of probabilities may be from 1. Wide enough for rows that were
#: normalised in float32, narrow enough for a typing error in the fifth digit.
ROW_SUM_TOLERANCE = 1e-6


@dataclass(frozen=True, eq=False)
class MarkovRewardProcess:
    """A finite Markov reward process that has checked itself.

    Parameters
    ----------
    transition : (S, S) array
        :math:`P(s, s')`, the probability of going from ``s`` to ``s'``. Rows must
        sum to 1 within ``ROW_SUM_TOLERANCE``; they are then normalised in float64.
    reward : (S,) array
        :math:`r(s)`, the reward :math:`R_{t+1}` received on leaving :math:`S_t = s`.
    discount : float
        :math:`\\gamma`, at least 0 and less than 1.
    initial : (S,) array, optional
        :math:`p_0`, the distribution of :math:`S_0`. Uniform unless given.

    Raises
    ------
    ValueError
        If an argument isn't what it must be; the message names the argument (for a
        matrix, the row), what was got and what was expected.

    Notes
    -----
    The arrays are float64 copies and read-only.
    """

    transition: Floats
    reward: Floats
    discount: float
    initial: Floats

    def __init__(
        self,
        transition: ArrayLike,
        reward: ArrayLike,
        discount: float,
        initial: ArrayLike | None = None,
    ) -> None:
        matrix = stochastic_matrix(transition)
        n_states = len(matrix)
        if initial is None:
            start = np.full(n_states, 1 / n_states)
        else:
            start = _probability_rows(
                checked_vector("initial", initial, n_states)[None], "initial"
            )[0]
        fields = {
            "transition": matrix,
            "reward": checked_vector("reward", reward, n_states),
            "discount": checked_discount(discount),
            "initial": start,
        }
        for name, value in fields.items():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
            object.__setattr__(self, name, value)

    @property
    def n_states(self) -> int:
        """Number of states, :math:`|\\mathcal S|`."""
        return len(self.reward)

    def backup(self, values: ArrayLike) -> Floats:
        """Bellman operator: :math:`(\\mathcal T v)(s) = r(s) + \\gamma \\sum_{s'} P(s, s')\\,v(s')`.

        Parameters
        ----------
        values : (S,) array
            Any function of the state.

        Returns
        -------
        (S,) array
            One exact expected backup of every state.
        """
        v = checked_vector("values", values, self.n_states)
        return self.reward + self.discount * self.transition @ v

    def values(self) -> Floats:
        """True values :math:`v_\\pi = (I - \\gamma P)^{-1} r`, by a linear solve.

        Returns
        -------
        (S,) array
            :math:`v_\\pi(s)`, the expected discounted sum of rewards from ``s``.

        Raises
        ------
        OverflowError
            If a value is beyond the range of floats.
        """
        identity = np.eye(self.n_states)
        with np.errstate(over="ignore", invalid="ignore"):  # reported as an error
            v = np.linalg.solve(identity - self.discount * self.transition, self.reward)
        return within_range("values", v)

    def stationary(self) -> Floats:
        """Stationary distribution :math:`\\mu = \\mu P`; see `stationary_distribution`."""
        return stationary_distribution(self.transition)

    def sample(
        self, steps: int, rng: np.random.Generator, start: int | None = None
    ) -> Ints:
        """One trajectory :math:`S_0, S_1, \\dots, S_n`.

        Each step draws one uniform number and looks it up in the cumulative row of
        the state it is in (inversion), so a state of probability 0 is never entered.

        Parameters
        ----------
        steps : int
            Number of transitions ``n``, at least 0.
        rng : numpy.random.Generator
            Source of all randomness.
        start : int, optional
            :math:`S_0`. Drawn from ``initial`` unless given.

        Returns
        -------
        (n + 1,) int array
            The states. The reward of step ``t`` is ``reward[states[t]]``.
        """
        steps = checked_count("steps", steps, at_least=0)
        first = int(self._starts(1, rng, start)[0])
        rows = _cumulative(self.transition).tolist()
        uniforms = rng.random(steps).tolist()
        path: Iterable[int] = accumulate(
            uniforms, lambda state, u: bisect_right(rows[state], u), initial=first
        )
        return np.fromiter(path, dtype=np.int64, count=steps + 1)

    def sample_many(
        self, count: int, steps: int, rng: np.random.Generator, start: int | None = None
    ) -> Ints:
        """Many independent trajectories, advanced together one step at a time.

        Parameters
        ----------
        count, steps : int
            How many trajectories (at least 1), and transitions in each (at least 0).
        rng : numpy.random.Generator
            Source of all randomness.
        start : int, optional
            The first state of all. Drawn from ``initial`` unless given.

        Returns
        -------
        (count, steps + 1) int array
            One trajectory a row.
        """
        count = checked_count("count", count, at_least=1)
        steps = checked_count("steps", steps, at_least=0)
        rows = _cumulative(self.transition)
        path = np.empty((steps + 1, count), dtype=np.int64)
        path[0] = self._starts(count, rng, start)
        for before, after in pairwise(path):
            uniforms = rng.random(count)
            after[:] = (rows[before] <= uniforms[:, None]).sum(axis=1)
        return path.T.copy()

    def _starts(self, count: int, rng: np.random.Generator, start: int | None) -> Ints:
        if start is None:
            row = _cumulative(self.initial[None])[0]
            return np.searchsorted(row, rng.random(count), side="right")
        state = as_whole(start)
        if state is None or not 0 <= state < self.n_states:
            raise ValueError(
                f"start: got {start!r}, expected a state from 0 to {self.n_states - 1}"
            )
        return np.full(count, state, dtype=np.int64)


def stationary_distribution(transition: ArrayLike) -> Floats:
    """Stationary distribution of a chain with one closed class, by GTH elimination.

    Solves :math:`\\mu = \\mu P`, :math:`\\sum_s \\mu(s) = 1`. States are removed one
    after the other, each time keeping the chain *watched on the rest*; then the
    weights are filled in again in reverse order. No step subtracts, so each entry
    is accurate to a few rounding errors, *relative to itself*, on nearly
    decomposable chains too. A periodic chain has a stationary distribution as well.

    Where a product of probabilities leaves the range of floats, the same is done in
    logarithms: slower, and a digit or two less accurate.

    Parameters
    ----------
    transition : (S, S) array
        A stochastic matrix.

    Returns
    -------
    (S,) array
        :math:`\\mu`; 0 at transient states, and where it is too small for a float.

    Raises
    ------
    ValueError
        If there is more than one closed class, and so more than one stationary
        distribution. The message lists the classes.

    Notes
    -----
    Source: Grassmann, Taksar and Heyman (1985). Takes :math:`O(|\\mathcal S|^3)`.
    """
    matrix = stochastic_matrix(transition)
    classes = closed_classes(matrix)
    if len(classes) > 1:
        named = " and ".join(str(members.tolist()) for members in classes)
        raise ValueError(
            "transition: expected one closed class, so that the stationary distribution "
            f"is unique; got {len(classes)}: {named}"
        )
    (members,) = classes
    mu = np.zeros(len(matrix))
    irreducible = matrix[np.ix_(members, members)]
    try:
        with np.errstate(all="raise"):
            mu[members] = _gth(irreducible)
    except FloatingPointError:
        mu[members] = _gth_in_logarithms(irreducible)
    return mu


def _gth(irreducible: Floats) -> Floats:
    watched = irreducible.copy()
    n_states = len(watched)
    for k in range(n_states - 1, 0, -1):
        watched[:k, k] /= watched[k, :k].sum()  # 1 - P(k, k), without subtracting
        watched[:k, :k] += np.outer(watched[:k, k], watched[k, :k])
    mu = np.ones(n_states)
    for k in range(1, n_states):
        mu[k] = mu[:k] @ watched[:k, k]
        mu[: k + 1] /= mu[: k + 1].sum()  # each time: ratios can exceed 1e308
    if mu.min() < np.finfo(np.float64).tiny:  # and what is filled in from it, lost
        raise FloatingPointError("underflow")
    return mu


def _gth_in_logarithms(irreducible: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        watched = np.log(irreducible)
    n_states = len(watched)
    for k in range(n_states - 1, 0, -1):
        watched[:k, k] -= np.logaddexp.reduce(watched[k, :k])
        into = np.flatnonzero(watched[:k, k] > -np.inf)
        via = watched[into, k, None] + watched[k, :k]
        watched[into, :k] = np.logaddexp(watched[into, :k], via)
    log_mu = np.zeros(n_states)
    for k in range(1, n_states):
        log_mu[k] = np.logaddexp.reduce(log_mu[:k] + watched[:k, k])
    mu: Floats = np.exp(log_mu - log_mu.max())
    mu /= mu.sum()
    return mu


def closed_classes(transition: ArrayLike) -> list[Ints]:
    """Closed communicating classes: sets of states that are never left once entered.

    Parameters
    ----------
    transition : (S, S) array
        A stochastic matrix.

    Returns
    -------
    list of int arrays
        The states of each class in ascending order; classes by their first state.
    """
    # Imported here, since it takes longer to load than the whole library.
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    matrix = stochastic_matrix(transition)
    n_classes, label = connected_components(
        csr_array(matrix), directed=True, connection="strong"
    )
    source, target = np.nonzero(matrix)
    leaves = np.zeros(n_classes, dtype=bool)
    leaves[label[source[label[source] != label[target]]]] = True
    found: list[Ints] = [np.flatnonzero(label == k) for k in np.flatnonzero(~leaves)]
    return sorted(found, key=lambda members: int(members[0]))


def stochastic_matrix(transition: ArrayLike) -> Floats:
    """A float64 copy of a stochastic matrix, its rows summing to 1, or an error.

    Parameters
    ----------
    transition : (S, S) array
        Non-negative rows that sum to 1 within ``ROW_SUM_TOLERANCE``.

    Returns
    -------
    (S, S) array
        The same matrix with each row divided by its sum.

    Raises
    ------
    ValueError
        If it isn't square, has an entry that is negative or not a number, or a row
        with another sum; the message names the row and its sum.
    """
    matrix = as_floats("transition", transition)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.size == 0:
        raise ValueError(
            f"transition: got shape {matrix.shape}, expected a square matrix (S, S), S >= 1"
        )
    return _probability_rows(matrix, "transition")


def _probability_rows(rows: Floats, name: str) -> Floats:
    for i, row in enumerate(rows):
        place = f"{name}, row {i}" if name == "transition" else name
        if not np.isfinite(row).all():
            raise ValueError(f"{place}: got {row}, expected finite probabilities")
        if (row < 0).any():
            raise ValueError(
                f"{place}: got the entry {row.min():g}, expected probabilities >= 0"
            )
        if abs(row.sum() - 1) > ROW_SUM_TOLERANCE:
            raise ValueError(
                f"{place}: got the sum {row.sum():.8g}, expected 1 (within {ROW_SUM_TOLERANCE:g})"
            )
    normalised: Floats = rows / rows.sum(axis=1, keepdims=True)
    return normalised


def _cumulative(rows: Floats) -> Floats:
    # Dividing by the last entry makes it exactly 1, so that every uniform number
    # below 1 finds a state, and never one of probability 0 behind the last.
    sums: Floats = np.cumsum(rows, axis=1)
    sums /= sums[:, -1:]
    return sums
