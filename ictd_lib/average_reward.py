"""Average reward: differential TD with softmax weights.

Without a discount, values are differences from the average reward :math:`\\bar r = \\mu r`:

.. math::

    \\delta_k = R_k - \\bar r + v(S_k) - v(S_{k-1}), \\qquad
    v(s) \\leftarrow v(s) + \\alpha \\sum_k \\delta_k K(S_{k-1}, s), \\qquad
    \\bar r \\leftarrow \\bar r + \\eta\\,\\frac1n\\sum_k \\delta_k.

Rows of :math:`\\hat M_n` sum to 1, so constants are an eigenvector with eigenvalue 1 of the
iteration: values are defined up to one, and converge up to one.

Sources: Tsitsiklis and Van Roy (1999); Sutton and Barto (2018), section 10.3, for the update
of :math:`\\bar r` by TD errors; Wang et al. (2025) for linear attention. With softmax weights:
ours.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ictd_lib.chain import stationary_distribution, stochastic_matrix
from ictd_lib.checks import (
    Floats,
    as_floats,
    checked_count,
    checked_vector,
    within_range,
)
from ictd_lib.context import Context
from ictd_lib.kernel import checked_weights
from ictd_lib.td import checked_context


class Differential(NamedTuple):
    """Differential values and average rewards, an iterate a row.

    Attributes
    ----------
    values : (L + 1, S) array
        :math:`v_0, \\dots, v_L`, each up to a constant.
    average : (L + 1,) array
        :math:`\\bar r_0, \\dots, \\bar r_L`.
    """

    values: Floats
    average: Floats


def differential_td(
    context: Context,
    weights: ArrayLike,
    iterations: int,
    *,
    step_size: float = 1.0,
    average_step: float = 0.0,
    initial: ArrayLike | None = None,
    average: float | None = None,
) -> Differential:
    """Synchronous differential TD: the updates at the head of this module.

    Parameters
    ----------
    context : Context
        ``n`` transitions over ``S`` states.
    weights : (S, n) array
        As in `weighted_td`.
    iterations : int
        ``L``, at least 0.
    step_size : float
        :math:`\\alpha`.
    average_step : float
        :math:`\\eta`. 0, which keeps :math:`\\bar r` where it starts, unless given.
    initial : (S,) array, optional
        :math:`v_0`. Zero unless given.
    average : float, optional
        :math:`\\bar r_0`. The mean reward of the context unless given.

    Returns
    -------
    Differential

    Raises
    ------
    ValueError
        If an argument isn't what it must be.
    TypeError
        If the context isn't one.
    OverflowError
        If it diverges until a value is beyond the range of floats.
    """
    k = checked_weights(checked_context(context), weights)
    iterations = checked_count("iterations", iterations, at_least=0)
    gain = float(context.rewards.mean()) if average is None else average
    for name, number in (
        ("step_size", step_size),
        ("average_step", average_step),
        ("average", gain),
    ):
        if not np.isfinite(number):
            raise ValueError(f"{name}: got {number}, expected a finite number")
    values = np.empty((iterations + 1, context.n_states))
    averages = np.empty(iterations + 1)
    values[0] = (
        0 if initial is None else checked_vector("initial", initial, context.n_states)
    )
    averages[0] = gain
    with np.errstate(over="ignore", invalid="ignore"):  # reported below, as an error
        for t in range(iterations):
            v = values[t]
            change = v[context.successors] - v[context.sources]
            errors = context.rewards - averages[t] + change
            values[t + 1] = v + step_size * (k @ errors)
            averages[t + 1] = averages[t] + average_step * errors.mean()
    return Differential(
        within_range("values", values), within_range("average", averages)
    )


def poisson_solution(transition: ArrayLike, reward: ArrayLike) -> tuple[Floats, float]:
    """Differential values and average reward of a chain, exactly.

    Solves :math:`(I - P)\\,h = r - \\bar r\\,\\mathbf 1`, :math:`\\bar r = \\mu r`, :math:`\\mu h = 0`.

    Parameters
    ----------
    transition : (S, S) array
        :math:`P`, with one closed class.
    reward : (S,) array
        :math:`r`.

    Returns
    -------
    (S,) array, float
        :math:`h` and :math:`\\bar r`.

    Raises
    ------
    ValueError
        If an argument isn't what it must be, or there is more than one closed class.
    """
    P = stochastic_matrix(transition)
    mu = stationary_distribution(P)
    r = checked_vector("reward", reward, len(mu))
    gain = float(mu @ r)
    # Adding 1 mu^T, which is 0 on the solution, makes the equations regular.
    h = np.linalg.solve(np.eye(len(mu)) - P + mu, r - gain)
    return np.asarray(h, dtype=np.float64), gain


def up_to_constant(values: ArrayLike) -> Floats:
    """Half the spread :math:`\\max v - \\min v`: the sup norm of values up to a constant.

    Parameters
    ----------
    values : (..., S) array

    Returns
    -------
    (...) array
    """
    v = as_floats("values", values)
    spread: Floats = (v.max(axis=-1) - v.min(axis=-1)) / 2
    return spread
