"""Momentum: a layer that remembers one earlier value.

.. math::

    v_{l+1} = v_l + \\alpha_l\\,\\hat M_n \\tilde\\delta_l + \\omega_l\\,(v_l - v_{l-1})

The prompt of the construction holds :math:`v_l` and, shifted and discounted, :math:`v_l` again:
after a layer nothing is left of :math:`v_{l-1}`. So momentum needs one more row, for the
velocity :math:`v_l - v_{l-1}`, which attention adds the same gain to. With it, layers run every
real polynomial, not only those with real roots [ours].

Source: Polyak (1964).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ictd_lib.acceleration import (
    Complexes,
    check_interval,
    checked_drift,
    checked_eigenvalues,
    stable_order,
)
from ictd_lib.checks import (
    Floats,
    as_floats,
    checked_discount,
    checked_vector,
    within_range,
)
from ictd_lib.context import Context
from ictd_lib.kernel import checked_weights
from ictd_lib.td import checked_context, td_errors


def paired_momenta(step_sizes: ArrayLike) -> tuple[Floats, Floats]:
    """Real step sizes and momenta with the same residual polynomial as complex steps.

    A conjugate pair :math:`\\alpha = |\\alpha| e^{\\pm i\\varphi}` becomes two layers of step
    size :math:`|\\alpha|`, the second with momentum :math:`\\omega = 2\\cos\\varphi - 2`:

    .. math::

        (1 + \\omega - |\\alpha| z)(1 - |\\alpha| z) - \\omega
        = 1 - 2|\\alpha|\\cos\\varphi\\,z + |\\alpha|^2 z^2

    so a layer that remembers one earlier value runs every real polynomial with
    :math:`p(0) = 1` [ours].

    Parameters
    ----------
    step_sizes : (L,) array
        Complex ones in conjugate pairs, in any order.

    Returns
    -------
    (L,) array, (L,) array
        Step sizes and momenta. Real step sizes come first, in `stable_order`.

    Raises
    ------
    ValueError
        If a complex step size has no conjugate.
    """
    steps = np.asarray(step_sizes, dtype=np.complex128)
    flat = np.abs(steps.imag) <= 1e-12 * np.abs(steps)
    above = steps[~flat & (steps.imag > 0)]
    below = steps[~flat & (steps.imag < 0)].conj()
    if not _same_numbers(above, below):
        raise ValueError(
            f"step_sizes: got {steps}, expected complex ones in conjugate pairs"
        )
    above = np.sort(above)
    single = steps[flat].real
    pairs = np.abs(above)
    omega = np.column_stack([np.zeros(len(above)), 2 * above.real / pairs - 2])
    alphas = np.concatenate([stable_order(single), np.repeat(pairs, 2)])
    return alphas, np.concatenate([np.zeros(len(single)), omega.ravel()])


class Momentum(NamedTuple):
    """Step size and momentum for all layers, and the rate that they give.

    Attributes
    ----------
    step_size, momentum, rate : float
        :math:`\\alpha`, :math:`\\omega` and the spectral radius.
    """

    step_size: float
    momentum: float
    rate: float


def best_momentum(low: float, high: float) -> Momentum:
    """The best constant momentum for a drift with real eigenvalues in an interval.

    .. math::

        \\alpha = \\frac4{(\\sqrt a + \\sqrt b)^2}, \\qquad \\omega =
        \\Bigl(\\frac{\\sqrt b - \\sqrt a}{\\sqrt b + \\sqrt a}\\Bigr)^2, \\qquad
        \\text{rate } \\sqrt\\omega

    Parameters
    ----------
    low, high : float
        :math:`0 < a \\le b`.

    Notes
    -----
    Source: Polyak (1964).
    """
    check_interval(low, high)
    q = (high**0.5 - low**0.5) / (high**0.5 + low**0.5)
    return Momentum(4 / (low**0.5 + high**0.5) ** 2, q * q, q)


def momentum_rate(eigenvalues: ArrayLike, step_size: float, momentum: float) -> float:
    """Spectral radius of an iteration with constant step size and momentum.

    The largest modulus of a root of
    :math:`\\lambda^2 - (1 + \\omega - \\alpha\\nu_i)\\lambda + \\omega = 0` over all ``i``.

    Parameters
    ----------
    eigenvalues : (m,) array
        :math:`\\nu_i` of the drift.
    step_size, momentum : float
        :math:`\\alpha` and :math:`\\omega`.

    Returns
    -------
    float
    """
    nu = checked_eigenvalues(eigenvalues)
    half = (1 + momentum - step_size * nu) / 2
    root = np.sqrt(half**2 - momentum)
    return float(np.maximum(np.abs(half + root), np.abs(half - root)).max())


def momentum_td(
    context: Context,
    weights: ArrayLike,
    discount: float,
    step_sizes: ArrayLike,
    momenta: ArrayLike,
    *,
    initial: ArrayLike | None = None,
) -> Floats:
    """Weighted TD with momentum: the formula at the head of this module.

    Parameters
    ----------
    context : Context
        ``n`` transitions over ``S`` states.
    weights : (S, n) array
        As in `weighted_td`.
    discount : float
        :math:`\\gamma`, at least 0 and less than 1.
    step_sizes, momenta : (L,) array
        :math:`\\alpha_l` and :math:`\\omega_l`.
    initial : (S,) array, optional
        :math:`v_0`. Zero unless given.

    Returns
    -------
    (L + 1, S) array
        Every iterate.

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
    steps, omega = _schedule(step_sizes, momenta)
    discount = checked_discount(discount)
    start = np.zeros(context.n_states) if initial is None else initial
    values = [checked_vector("initial", start, context.n_states)]
    velocity = np.zeros(context.n_states)  # v_l - v_(l-1): the row of memory it needs
    with np.errstate(over="ignore", invalid="ignore"):  # reported as an error
        for alpha, w in zip(steps, omega, strict=True):
            gain = alpha * (k @ td_errors(context, values[-1], discount))
            velocity = w * velocity + gain
            values.append(within_range("values", values[-1] + velocity))
    return np.array(values)


def momentum_matrix(
    drift: ArrayLike, step_sizes: ArrayLike, momenta: ArrayLike
) -> Floats:
    """What ``L`` layers with momentum do to an error.

    Parameters
    ----------
    drift : (S, S) array
        :math:`B`.
    step_sizes, momenta : (L,) array
        :math:`\\alpha_l` and :math:`\\omega_l`. The first momentum changes nothing.

    Returns
    -------
    (S, S) array
    """
    B = checked_drift(drift)
    steps, omega = _schedule(step_sizes, momenta)
    before = now = np.eye(len(B))
    for alpha, w in zip(steps, omega, strict=True):
        now, before = now - alpha * (B @ now) + w * (now - before), now
    return now


def _same_numbers(a: Complexes, b: Complexes) -> bool:
    # One by one the nearest, since no order of complex numbers survives rounding.
    left = b.tolist()
    for number in a if len(a) == len(b) else ():
        nearest = min(left, key=lambda other: abs(other - number))
        if abs(nearest - number) > 1e-6 * abs(number):
            return False
        left.remove(nearest)
    return len(a) == len(b)


def _schedule(step_sizes: ArrayLike, momenta: ArrayLike) -> tuple[Floats, Floats]:
    steps, omega = as_floats("step_sizes", step_sizes), as_floats("momenta", momenta)
    if steps.ndim != 1 or omega.shape != steps.shape:
        raise ValueError(
            f"step_sizes, momenta: got shapes {steps.shape}, {omega.shape}, expected (L,) both"
        )
    if not (np.isfinite(steps).all() and np.isfinite(omega).all()):
        raise ValueError(
            f"step_sizes, momenta: got {steps}, {omega}, expected finite numbers"
        )
    return steps, omega
