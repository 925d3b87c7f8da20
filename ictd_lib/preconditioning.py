"""Attention as a preconditioner: one Bellman equation, several ways to descend on it.

A layer is a step of *preconditioned Richardson iteration* on :math:`(I - \\gamma P) v = r`,

.. math::

    v \\leftarrow v + G\\,(r - (I - \\gamma P) v),

and the kinds of TD differ in :math:`G` alone: :math:`\\alpha I` (tabular),
:math:`\\alpha X X^\\top D_\\mu` (linear), :math:`\\alpha\\,\\Lambda^{-1} E D_\\mu` (softmax attention) with
:math:`E(s, u) = e^{g(s, u)}`, :math:`D_\\mu = \\mathrm{diag}(\\mu)` and the normaliser

.. math::

    \\Lambda(s) = \\sum_u \\mu(u)\\, e^{g(s, u)}.

An invertible :math:`G` leaves the solution where it is and changes only the way there. If the
scores are symmetric, :math:`\\mathrm{diag}(a)\\,M` is reversible for the weights
:math:`\\mu\\Lambda/a`, whatever the steps :math:`a(s) > 0`: that is what `ictd_lib.convergence`
lives on.

Everything takes stacks, and visit counts in place of :math:`\\mu`. All of it is ours.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ictd_lib.checks import Floats, as_floats, within_range
from ictd_lib.operators import finite_matrices


def log_normaliser(scores: ArrayLike, stationary: ArrayLike) -> Floats:
    """Logarithm of the softmax's normaliser, :math:`\\log \\Lambda(s)`.

    Parameters
    ----------
    scores : (..., S, S) array
        :math:`g(s, u)`, query ``s``, source ``u``.
    stationary : (..., S) array
        :math:`\\mu`, or anything in proportion to it: it is made to sum to 1.

    Returns
    -------
    (..., S) array

    Raises
    ------
    ValueError
        If shapes don't fit, a score isn't finite, or the weights are negative or all 0.
    """
    g = finite_matrices("scores", scores)
    logits = g + _log_distribution(stationary, g.shape[-1])[..., None, :]
    top = logits.max(axis=-1, keepdims=True)
    result: Floats = top[..., 0] + np.log(np.exp(logits - top).sum(axis=-1))
    return result


def reversing_weights(
    scores: ArrayLike, stationary: ArrayLike, step_size: ArrayLike = 1.0
) -> Floats:
    """Weights :math:`\\tilde\\pi \\propto \\mu\\Lambda/a` for which the preconditioner is self-adjoint.

    For symmetric scores :math:`\\tilde\\pi(s)\\,a(s) M(s, u)` is symmetric in ``s`` and ``u``.

    Parameters
    ----------
    scores : (..., S, S) array
        :math:`g(s, u)`.
    stationary : (..., S) array
        :math:`\\mu`, or visit counts.
    step_size : float or (..., S) array
        :math:`a(s)`, more than 0; one for all states or one for each.

    Returns
    -------
    (..., S) array
        They sum to 1. 0 where :math:`\\mu` is 0, or where they are too small for a float.

    Raises
    ------
    ValueError
        If an argument isn't what it must be.
    """
    steps = as_floats("step_size", step_size)
    if not ((steps > 0) & (steps < np.inf)).all():
        raise ValueError(f"step_size: got {step_size!r}, expected finite numbers > 0")
    lam = log_normaliser(scores, stationary)
    logs = _log_distribution(stationary, lam.shape[-1]) + lam - np.log(steps)
    weights: Floats = np.exp(logs - logs.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights


def sink_steps(scores: ArrayLike, stationary: ArrayLike, sink: ArrayLike) -> Floats:
    """What an attention sink does to the steps: :math:`a(s) = \\Lambda(s)/(\\Lambda(s) + b)`.

    A sink of size ``b`` puts :math:`nb` into each denominator of the softmax over ``n``
    transitions (a sink with the logit :math:`\\log(nb)` and the value 0). The weights of the
    transitions keep their ratios, and sum to :math:`a(s)` instead of 1.

    Parameters
    ----------
    scores : (..., S, S) array
        :math:`g(s, u)`.
    stationary : (..., S) array
        :math:`\\mu`, or visit counts.
    sink : float or (...) array
        ``b``, at least 0.

    Returns
    -------
    (..., S) array
        In (0, 1]: a step size for each state.

    Raises
    ------
    ValueError
        If an argument isn't what it must be.
    """
    b = checked_sink(sink)
    lam = log_normaliser(scores, stationary)
    with np.errstate(divide="ignore"):  # log 0: no sink
        steps: Floats = np.exp(lam - np.logaddexp(lam, np.log(b)[..., None]))
    return steps


def rescaled_steps(scores: ArrayLike, stationary: ArrayLike) -> Floats:
    """Steps that undo the normaliser: :math:`a(s) = \\Lambda(s)/\\max_u \\Lambda(u)`.

    The limit of `sink_steps` as ``b`` grows, scaled to the maximum 1.

    Parameters
    ----------
    scores : (..., S, S) array
        :math:`g(s, u)`.
    stationary : (..., S) array
        :math:`\\mu`, or visit counts.

    Returns
    -------
    (..., S) array
        In [0, 1], 0 only by underflow.

    Raises
    ------
    ValueError
        If an argument isn't what it must be.
    """
    lam = log_normaliser(scores, stationary)
    steps: Floats = np.exp(lam - lam.max(axis=-1, keepdims=True))
    return steps


def linear_preconditioner(features: ArrayLike, stationary: ArrayLike) -> Floats:
    """Preconditioner of batch linear TD, :math:`X X^\\top D_\\mu`: attention without a softmax.

    Its rank is at most ``d``: it changes values only within the span of the features.

    Parameters
    ----------
    features : (..., S, d) array
        :math:`X`, one state a row.
    stationary : (..., S) array
        :math:`\\mu`, or visit counts; made to sum to 1.

    Returns
    -------
    (..., S, S) array

    Raises
    ------
    ValueError
        If an argument isn't what it must be.
    OverflowError
        If an entry is beyond the range of floats.
    """
    x = _features(features)
    mu = np.exp(_log_distribution(stationary, x.shape[-2]))
    with np.errstate(over="ignore", invalid="ignore"):  # reported as an error
        return within_range("linear preconditioner", x @ x.mT * mu[..., None, :])


def key_weights(features: ArrayLike, stationary: ArrayLike) -> Floats:
    """What norms do: :math:`\\tilde\\mu(u) \\propto \\mu(u)\\,e^{\\|x(u)\\|^2/2}`, the weights of the keys.

    Softmax attention is Gaussian smoothing with these weights in place of :math:`\\mu`,
    :math:`M(s, u) \\propto \\tilde\\mu(u)\\,e^{-\\|x(s) - x(u)\\|^2/2}`: the norm of a key is an importance
    weight.

    Parameters
    ----------
    features : (..., S, d) array
        One state a row.
    stationary : (..., S) array
        :math:`\\mu`, or visit counts.

    Returns
    -------
    (..., S) array
        They sum to 1.

    Raises
    ------
    ValueError
        If an argument isn't what it must be.
    OverflowError
        If a squared norm is beyond the range of floats.
    """
    x = _features(features)
    with np.errstate(over="ignore"):  # reported as an error
        norms = within_range("squared norms", (x**2).sum(axis=-1))
    logs = _log_distribution(stationary, x.shape[-2]) + norms / 2
    weights: Floats = np.exp(logs - logs.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights


def checked_sink(sink: ArrayLike) -> Floats:
    """Sizes of attention sinks, finite and at least 0, as float64, or a `ValueError`."""
    b = as_floats("sink", sink)
    if not ((b >= 0) & (b < np.inf)).all():
        raise ValueError(f"sink: got {sink!r}, expected finite numbers >= 0")
    return b


def _features(features: ArrayLike) -> Floats:
    x = as_floats("features", features)
    if x.ndim < 2 or not np.isfinite(x).all():
        raise ValueError(
            f"features: got shape {x.shape}, expected finite numbers of shape (..., S, d)"
        )
    return x


def _log_distribution(stationary: ArrayLike, n_states: int) -> Floats:
    weights = as_floats("stationary", stationary)
    if weights.ndim == 0 or weights.shape[-1] != n_states:
        raise ValueError(
            f"stationary: got shape {weights.shape}, expected (..., {n_states})"
        )
    proper = ((weights >= 0) & (weights < np.inf)).all()
    if not proper or not (weights > 0).any(axis=-1).all():
        raise ValueError(
            "stationary: expected finite weights >= 0, not all of them 0, "
            f"got {weights.reshape(-1, n_states)[0]} and the like"
        )
    with np.errstate(divide="ignore"):  # log 0: never a source
        logs: Floats = np.log(weights / weights.sum(axis=-1, keepdims=True))
    return logs
