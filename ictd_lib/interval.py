"""A continuous state space: a walk on an interval, and a kernel that generalises.

No state is visited twice, so what a context says about a state it says about its neighbours,
by the kernel, or not at all. Each column of a context is a state of its own here: the form
with :math:`n \\times n` matrices. The reflecting Gaussian walk on [0, 1] has exact values:
:math:`\\cos \\pi m x` are its eigenfunctions,

.. math::

    \\mathbb E[\\cos \\pi m S' \\mid S = x] = e^{-\\pi^2 m^2 \\sigma^2 / 2} \\cos \\pi m x,

since folding a line onto the interval doesn't change an even function of period 2.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ictd_lib.checks import Floats, as_floats, checked_count, checked_discount
from ictd_lib.context import Context


def reflecting_walk(steps: int, width: float, rng: np.random.Generator) -> Floats:
    """Gaussian steps on [0, 1], reflected at the ends.

    Starts from its stationary distribution, which is uniform.

    Parameters
    ----------
    steps : int
        ``n``, at least 0.
    width : float
        :math:`\\sigma`, the standard deviation of a step, more than 0.
    rng : numpy.random.Generator
        Source of all randomness.

    Returns
    -------
    (n + 1,) array
        Points of [0, 1].
    """
    count = checked_count("steps", steps, at_least=0)
    _check_width(width)
    line = np.cumsum(np.append(rng.random(), width * rng.standard_normal(count)))
    # Reflecting commutes with adding symmetric steps, so that folding can wait to the end.
    folded: Floats = np.abs((line + 1) % 2 - 1)
    return folded


def cosine_reward(points: ArrayLike, coefficients: ArrayLike) -> Floats:
    """:math:`r(x) = \\sum_m c_m \\cos \\pi m x`.

    Parameters
    ----------
    points : (...) array
        Where.
    coefficients : (m,) array
        :math:`c_0, c_1, \\dots`

    Returns
    -------
    (...) array
    """
    x, c = as_floats("points", points), as_floats("coefficients", coefficients)
    if c.ndim != 1:
        raise ValueError(f"coefficients: got shape {c.shape}, expected (m,)")
    series: Floats = np.cos(np.pi * x[..., None] * np.arange(len(c))) @ c
    return series


def walk_values(
    points: ArrayLike, coefficients: ArrayLike, width: float, discount: float
) -> Floats:
    """True values of `reflecting_walk` with `cosine_reward`, exactly.

    .. math::

        v_\\pi(x) = \\sum_m \\frac{c_m}{1 - \\gamma e^{-\\pi^2 m^2\\sigma^2/2}} \\cos \\pi m x

    Parameters
    ----------
    points : (...) array
        Where.
    coefficients : (m,) array
        :math:`c_0, c_1, \\dots` of the reward.
    width : float
        :math:`\\sigma`, more than 0.
    discount : float
        :math:`\\gamma`, at least 0 and less than 1.

    Returns
    -------
    (...) array
    """
    _check_width(width)
    c = as_floats("coefficients", coefficients)
    decay = np.exp(-((np.pi * width * np.arange(c.size).reshape(c.shape)) ** 2) / 2)
    return cosine_reward(points, c / (1 - checked_discount(discount) * decay))


def path_context(rewards: ArrayLike, queries: int = 0, closed: bool = False) -> Context:
    """Context in which every visit is a state of its own.

    State ``k`` is column ``k`` of the prompt, :math:`k = 0, \\dots, n`; queries follow. What
    makes two columns alike is left to the scores.

    Parameters
    ----------
    rewards : (n,) array
        :math:`R_1, \\dots, R_n`.
    queries : int
        Further states, which the context doesn't visit.
    closed : bool
        Whether the last transition is taken to lead back to state 0. Column ``n`` is then
        left out, every state is left once and entered once, and the certificates apply.

    Returns
    -------
    Context
        Over ``n + 1 + queries`` states, or ``n + queries`` if closed.
    """
    received = as_floats("rewards", rewards)
    if received.ndim != 1 or len(received) == 0:
        raise ValueError(
            f"rewards: got shape {received.shape}, expected (n,) with n >= 1 transitions"
        )
    n = len(received)
    states = np.arange(n + 1) % n if closed else np.arange(n + 1)
    extra = checked_count("queries", queries, at_least=0)
    return Context(states, received, int(states.max()) + 1 + extra)


def _check_width(width: float) -> None:
    if not 0 < width < np.inf:
        raise ValueError(f"width: got {width}, expected a finite number > 0")
