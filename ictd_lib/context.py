"""A context: the piece of experience that an in-context learner is given.

:math:`\\tau_n = (S_0, R_1, S_1, \\dots, R_n, S_n)` holds ``n`` transitions and
``n + 1`` states. All that can be learnt about the process from it without knowing
more is in three summaries: how often each state was left, what rewards were seen
there, and where the chain went next.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ictd_lib.chain import MarkovRewardProcess
from ictd_lib.checks import Floats, Ints, as_floats, checked_count, within_range


@dataclass(frozen=True, eq=False)
class Context:
    """A trajectory with its rewards, and its empirical summaries.

    Parameters
    ----------
    states : (n + 1,) array of int
        :math:`S_0, \\dots, S_n`, with :math:`n \\ge 1`.
    rewards : (n,) array
        :math:`R_1, \\dots, R_n`; ``rewards[k - 1]`` came on leaving ``states[k - 1]``.
    n_states : int
        :math:`|\\mathcal S|`; states are numbered from 0.

    Raises
    ------
    ValueError
        If there is no transition, a state is out of range or not a whole number, the
        lengths don't fit, or a reward isn't finite.

    Notes
    -----
    The arrays are copies and read-only.
    """

    states: Ints
    rewards: Floats
    n_states: int

    def __init__(self, states: ArrayLike, rewards: ArrayLike, n_states: int) -> None:
        n_states = checked_count("n_states", n_states, at_least=1)
        path = np.array(states)
        if path.ndim != 1 or len(path) < 2:
            raise ValueError(
                f"states: got shape {path.shape}, expected (n + 1,) with n >= 1 transitions"
            )
        if not np.issubdtype(path.dtype, np.integer):
            raise ValueError(f"states: got dtype {path.dtype}, expected whole numbers")
        if path.min() < 0 or path.max() >= n_states:
            raise ValueError(
                f"states: got values from {path.min()} to {path.max()}, "
                f"expected 0 to {n_states - 1}"
            )
        received = as_floats("rewards", rewards).copy()
        if received.shape != (len(path) - 1,):
            raise ValueError(
                f"rewards: got shape {received.shape}, expected ({len(path) - 1},), "
                "one for each transition"
            )
        if not np.isfinite(received).all():
            raise ValueError(
                f"rewards: got {received[~np.isfinite(received)][0]}, expected finite numbers"
            )
        path = path.astype(np.int64)
        for array in (path, received):
            array.setflags(write=False)
        object.__setattr__(self, "states", path)
        object.__setattr__(self, "rewards", received)
        object.__setattr__(self, "n_states", n_states)

    @property
    def n(self) -> int:
        """Number of transitions."""
        return len(self.rewards)

    @property
    def sources(self) -> Ints:
        """:math:`S_0, \\dots, S_{n-1}`: the states that were left, shape ``(n,)``."""
        return self.states[:-1]

    @property
    def successors(self) -> Ints:
        """:math:`S_1, \\dots, S_n`: the states that were entered, shape ``(n,)``."""
        return self.states[1:]

    def counts(self) -> Ints:
        """Visits :math:`N(s) = \\sum_{k=1}^n \\mathbf 1\\{S_{k-1} = s\\}`, shape ``(S,)``.

        The last state :math:`S_n` isn't counted: nothing was seen to follow it.
        """
        return np.bincount(self.sources, minlength=self.n_states)

    def frequencies(self) -> Floats:
        """Visit frequencies :math:`\\hat\\mu_n(s) = N(s)/n`, shape ``(S,)``."""
        return self.counts() / self.n

    def covers(self) -> bool:
        """Coverage: whether :math:`S_0, \\dots, S_{n-1}` visit every state."""
        return bool((self.counts() > 0).all())

    def transition_counts(self) -> Ints:
        """:math:`N(s, s') = \\sum_k \\mathbf 1\\{S_{k-1} = s, S_k = s'\\}`, shape ``(S, S)``."""
        pairs = self.sources * self.n_states + self.successors
        counts = np.bincount(pairs, minlength=self.n_states**2)
        return counts.reshape(self.n_states, self.n_states)

    def empirical_transition(self) -> Floats:
        """Empirical transition matrix :math:`\\tilde P_n(s, s') = N(s, s')/N(s)`.

        Returns
        -------
        (S, S) array
            Rows sum to 1. The row of a state that was never left is 0: the context
            says nothing about it, and the algorithms never read it.
        """
        return self.transition_counts() / np.maximum(self.counts(), 1)[:, None]

    def mean_rewards(self) -> Floats:
        """Mean observed reward :math:`\\tilde r_n(s)` on leaving ``s``; 0 where unseen.

        An `OverflowError` if the rewards of a state add up to more than a float can hold.
        """
        totals = np.bincount(self.sources, self.rewards, minlength=self.n_states)
        return within_range("mean_rewards", totals) / np.maximum(self.counts(), 1)


def sample_context(
    process: MarkovRewardProcess,
    n: int,
    rng: np.random.Generator,
    start: int | None = None,
) -> Context:
    """Context of ``n`` transitions, with :math:`R_{t+1} = r(S_t)`.

    Parameters
    ----------
    process : MarkovRewardProcess
        Where it is drawn from.
    n : int
        Number of transitions, at least 1.
    rng : numpy.random.Generator
        Source of all randomness.
    start : int, optional
        :math:`S_0`. Drawn from the initial distribution unless given.

    Raises
    ------
    ValueError
        If ``n`` is less than 1 or ``start`` isn't a state.
    """
    states = process.sample(checked_count("n", n, at_least=1), rng, start)
    return Context(states, process.reward[states[:-1]], process.n_states)
