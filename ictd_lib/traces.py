"""TD(lambda): eligibility traces as a kernel on the context.

A transition updates not only what resembles its source, but what resembles earlier sources,
the less the longer ago:

.. math::

    v_{t+1}(s) = v_t(s) + \\alpha \\sum_{k=1}^n \\delta_k \\sum_{j=1}^k
    (\\gamma\\lambda)^{k-j}\\,K(S_{j-1}, s).

These are weights on transitions again, so `weighted_td` runs it. With
:math:`\\gamma_\\lambda = \\gamma(1-\\lambda)/(1-\\gamma\\lambda)` and the transition matrix
:math:`P_\\lambda = (1-\\gamma\\lambda)\\,P\\,(I - \\gamma\\lambda P)^{-1}`, the population
operator is that of TD(0) on :math:`(P_\\lambda, \\gamma_\\lambda)`: all that is known of its
convergence carries over, with a smaller discount.

Sources: Sutton (1988); Tsitsiklis and Van Roy (1997) for :math:`P_\\lambda`; Boyan (2002)
for the fixed point; Wang et al. (2025) for TD(lambda) by linear attention. With softmax
weights, and what follows for convergence: ours.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ictd_lib.chain import stochastic_matrix
from ictd_lib.checks import Floats, as_floats, checked_discount
from ictd_lib.context import Context
from ictd_lib.kernel import checked_weights
from ictd_lib.td import checked_context


def trace_weights(
    context: Context, weights: ArrayLike, discount: float, trace: float
) -> Floats:
    """Weights of TD(lambda): :math:`\\sum_{j \\le k} (\\gamma\\lambda)^{k-j} K(S_{j-1}, s)`.

    Parameters
    ----------
    context : Context
        ``n`` transitions over ``S`` states.
    weights : (S, n) array
        :math:`K(S_{j-1}, s)`, such as `context_kernel` returns.
    discount : float
        :math:`\\gamma`, at least 0 and less than 1.
    trace : float
        :math:`\\lambda`, from 0 to 1.

    Returns
    -------
    (S, n) array
        For `weighted_td`. With :math:`\\lambda = 0` the weights themselves.

    Raises
    ------
    ValueError
        If an argument isn't what it must be.
    TypeError
        If the context isn't one.
    """
    z = checked_weights(checked_context(context), weights).copy()
    decay = checked_discount(discount) * checked_trace(trace)
    for k in range(1, context.n):
        z[:, k] += decay * z[:, k - 1]
    return z


def lambda_errors(errors: ArrayLike, discount: float, trace: float) -> Floats:
    """The forward view: :math:`\\varepsilon_j = \\sum_{k \\ge j} (\\gamma\\lambda)^{k-j}\\delta_k`.

    The lambda-return of transition ``j``, cut off where the context ends, minus the value of
    its source.

    Parameters
    ----------
    errors : (..., n) array
        TD errors, in the order of time.
    discount, trace : float
        As in `trace_weights`.

    Returns
    -------
    (..., n) array
    """
    summed = as_floats("errors", errors).copy()
    if summed.ndim == 0:
        raise ValueError("errors: got a number, expected shape (..., n)")
    decay = checked_discount(discount) * checked_trace(trace)
    for j in range(summed.shape[-1] - 2, -1, -1):
        summed[..., j] += decay * summed[..., j + 1]
    return summed


class LambdaEquations(NamedTuple):
    """The equations :math:`\\hat A_\\lambda v = \\hat b_\\lambda` that TD(lambda) solves.

    Attributes
    ----------
    matrix : (S, S) array
        :math:`\\hat A_\\lambda`: row ``s`` is the mean, over the visits of ``s``, of
        :math:`\\sum_{k\\ge j}(\\gamma\\lambda)^{k-j}(\\mathbf e_{S_{k-1}} - \\gamma\\mathbf e_{S_k})`.
    target : (S,) array
        :math:`\\hat b_\\lambda`: the mean of :math:`\\sum_{k\\ge j}(\\gamma\\lambda)^{k-j}R_k`.
    """

    matrix: Floats
    target: Floats


def lambda_equations(
    context: Context, discount: float, trace: float
) -> LambdaEquations:
    """What TD(lambda) solves on a context, whatever the kernel.

    With weights that depend on the source's state alone an iteration is
    :math:`v \\leftarrow v + \\alpha\\hat M_n(\\hat b_\\lambda - \\hat A_\\lambda v)`. With
    :math:`\\lambda = 0`: :math:`\\hat A = I - \\gamma\\tilde P_n`, :math:`\\hat b = \\tilde r_n`.

    Parameters
    ----------
    context : Context
        ``n`` transitions over ``S`` states.
    discount, trace : float
        As in `trace_weights`.

    Returns
    -------
    LambdaEquations
        Rows of states that were never left are 0.

    Notes
    -----
    Source: Boyan (2002), for LSTD(lambda).
    """
    gamma = checked_discount(discount)
    eye = np.eye(context.n_states)
    steps = eye[context.sources] - gamma * eye[context.successors]
    ahead = lambda_errors(np.vstack([steps.T, context.rewards]), gamma, trace).T
    sums = eye[context.sources].T @ ahead
    means = sums / np.maximum(context.counts(), 1)[:, None]
    return LambdaEquations(means[:, :-1], means[:, -1])


def lambda_discount(discount: float, trace: float) -> float:
    """:math:`\\gamma_\\lambda = \\gamma(1-\\lambda)/(1-\\gamma\\lambda)`, at most :math:`\\gamma`."""
    gamma, lam = checked_discount(discount), checked_trace(trace)
    return gamma * (1 - lam) / (1 - gamma * lam)


def lambda_transition(transition: ArrayLike, discount: float, trace: float) -> Floats:
    """:math:`P_\\lambda = (1-\\gamma\\lambda)\\,P\\,(I-\\gamma\\lambda P)^{-1}`.

    A transition matrix with the stationary distribution of ``P``, for which

    .. math::

        (I - \\gamma\\lambda P)^{-1}(I - \\gamma P) = I - \\gamma_\\lambda P_\\lambda.

    Parameters
    ----------
    transition : (S, S) array
        :math:`P`.
    discount, trace : float
        As in `trace_weights`.

    Returns
    -------
    (S, S) array

    Notes
    -----
    Source: Tsitsiklis and Van Roy (1997), section V, up to normalisation.
    """
    P = stochastic_matrix(transition)
    decay = checked_discount(discount) * checked_trace(trace)
    # P and the inverse commute, so that solving from the left is the same. Rows sum to
    # 1/(1 - decay); near 1 their sums are less accurate than their ratios, and are divided by.
    solved = np.maximum(np.linalg.solve(np.eye(len(P)) - decay * P, P), 0.0)
    rows: Floats = solved / solved.sum(axis=1, keepdims=True)
    return rows


def sufficient_trace(discount: float, ratio: float) -> float:
    """A :math:`\\lambda` above which TD(lambda) converges for every chain [ours].

    For :math:`\\lambda > (\\gamma - q)/(\\gamma(1 - q))`, :math:`q = \\sqrt{\\min\\Lambda/\\max\\Lambda}`,
    the condition :math:`\\gamma_\\lambda < q` holds, and with it convergence for distinct
    features and step sizes in (0, 1].

    Parameters
    ----------
    discount : float
        :math:`\\gamma`, at least 0 and less than 1.
    ratio : float
        :math:`\\min\\Lambda/\\max\\Lambda`, more than 0 and at most 1.

    Returns
    -------
    float
        At least 0 and at most 1, which it is only by rounding.

    Notes
    -----
    Sufficient, not the smallest: chains may converge below it.
    """
    gamma = checked_discount(discount)
    if not 0 < ratio <= 1:
        raise ValueError(f"ratio: got {ratio}, expected 0 < ratio <= 1")
    q = ratio**0.5
    return 0.0 if gamma <= q else (gamma - q) / (gamma * (1 - q))


def checked_trace(trace: float) -> float:
    """:math:`\\lambda` as a float, or a `ValueError` if it isn't in [0, 1]."""
    if not 0 <= trace <= 1:
        raise ValueError(f"trace: got {trace}, expected 0 <= trace <= 1")
    return float(trace)
