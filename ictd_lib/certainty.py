"""Certainty equivalence: what a context says about the values, and how surely.

A context that is taken at its word is the process :math:`(\\tilde P_n, \\tilde r_n)`. Its
exact values are what any kernel converges to with depth, so their distance from the true
values is a floor that no depth goes below. This module computes the estimate, its noise,
and what the distance will be before any context is drawn.

Everything after `certainty_equivalence` is the book's own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ictd_lib.chain import MarkovRewardProcess
from ictd_lib.checks import (
    Floats,
    Ints,
    as_floats,
    checked_count,
    checked_discount,
    checked_vector,
    within_range,
)
from ictd_lib.context import Context
from ictd_lib.kernel import checked_features


def certainty_equivalence(
    context: Context, discount: float, unvisited: float | None = None
) -> Floats:
    """Certainty-equivalence estimate :math:`\\tilde v_n = (I - \\gamma\\tilde P_n)^{-1}\\tilde r_n`.

    Parameters
    ----------
    context : Context
        Must have left every state, unless ``unvisited`` is given.
    discount : float
        :math:`\\gamma`, at least 0 and less than 1.
    unvisited : float, optional
        The value of every state that was never left. The context says nothing about it,
        so it has to come from outside: batch TD leaves such a state at its initial value,
        and from :math:`v_0 = 0` converges to the estimate with ``unvisited=0``. (Softmax
        TD converges to something else there.)

    Returns
    -------
    (S,) array

    Raises
    ------
    ValueError
        If a state was never left and no value is given for it; the message names the
        states. Or if another argument isn't what it must be.
    OverflowError
        If a value is beyond the range of floats.
    """
    discount = checked_discount(discount)
    missed = np.flatnonzero(context.counts() == 0)
    reward = context.mean_rewards()
    if len(missed):
        if unvisited is None:
            raise ValueError(
                f"context: got one that never left {_named(missed)}, expected every state "
                "to be left, or a value for the others (unvisited)"
            )
        if not np.isfinite(unvisited):
            raise ValueError(f"unvisited: got {unvisited}, expected a finite number")
        reward[missed] = unvisited  # their row of the transition matrix is 0
    system = np.eye(context.n_states) - discount * context.empirical_transition()
    with np.errstate(over="ignore", invalid="ignore"):  # reported as an error
        return within_range("values", np.linalg.solve(system, reward))


def mean_td_errors(context: Context, values: ArrayLike, discount: float) -> Floats:
    """Mean TD error :math:`\\tilde\\delta(s)` over the visits of each state; 0 where unseen.

    .. math::

        \\tilde\\delta = \\tilde r_n + \\gamma\\tilde P_n v - v

    At the true values it is pure noise, :math:`\\gamma(\\tilde P_n - P)v_\\pi` when rewards
    are a function of the state, and all of the floor comes from it:
    :math:`\\tilde v_n - v_\\pi = (I - \\gamma\\tilde P_n)^{-1}\\tilde\\delta` on a context that
    covers.

    Parameters
    ----------
    context : Context
        ``n`` transitions over ``S`` states.
    values : (S,) array
        Any function of the state.
    discount : float
        :math:`\\gamma`, at least 0 and less than 1.

    Returns
    -------
    (S,) array

    Raises
    ------
    ValueError
        If an argument isn't what it must be.
    """
    v = checked_vector("values", values, context.n_states)
    target = context.mean_rewards() + checked_discount(discount) * (
        context.empirical_transition() @ v
    )
    return np.where(context.counts() > 0, target - v, 0.0)


def asymptotic_covariance(process: MarkovRewardProcess) -> Floats:
    """Covariance of certainty equivalence, :math:`\\sqrt n\\,(\\tilde v_n - v_\\pi) \\to N(0, \\Sigma)`.

    .. math::

        \\Sigma = (I - \\gamma P)^{-1}\\, \\mathrm{diag}\\left(
        \\frac{\\gamma^2\\, \\mathrm{Var}_{s' \\sim P(s, \\cdot)}\\, v_\\pi(s')}{\\mu(s)}
        \\right) (I - \\gamma P)^{-\\top}

    Parameters
    ----------
    process : MarkovRewardProcess
        One closed class that holds every state: each is left again and again.

    Returns
    -------
    (S, S) array
        Symmetric, positive semi-definite. For a context of length ``n``,
        ``sqrt(diagonal / n)`` is the root mean square error, state by state.

    Raises
    ------
    ValueError
        If a state has stationary probability 0, or there is more than one closed class.

    Notes
    -----
    The book's own. Rewards are a function of the state, so all noise is in :math:`\\tilde P_n`.
    """
    mu, v = _everywhere_recurrent(process), process.values()
    # About the mean, not as a difference of squares: values may be large and alike.
    centred = v - (process.transition @ v)[:, None]
    variance = (process.transition * centred**2).sum(axis=1)
    deviation = process.discount * np.sqrt(variance / mu)
    system = np.eye(process.n_states) - process.discount * process.transition
    root = np.linalg.solve(system, np.diag(deviation))
    covariance: Floats = root @ root.T
    return covariance


def asymptotic_bias(process: MarkovRewardProcess) -> Floats:
    """Bias of certainty equivalence, :math:`n\\,(\\mathbb E\\tilde v_n - v_\\pi) \\to (I - \\gamma P)^{-1} c`.

    .. math::

        c(s) = \\frac{\\gamma}{\\mu(s)}\\, \\mathrm{Cov}_{s' \\sim P(s, \\cdot)}\\bigl(v_\\pi(s'),\\;
        \\gamma A(s', s) - Z(s', s)\\bigr), \\quad A = (I - \\gamma P)^{-1}, \\quad
        Z = (I - P + \\mathbf 1 \\mu^\\top)^{-1}

    Parameters
    ----------
    process : MarkovRewardProcess
        One closed class that holds every state.

    Returns
    -------
    (S,) array
        For contexts of length ``n``, the mean error is this over ``n``; beside a standard
        deviation of order :math:`1/\\sqrt n`, it is small.

    Raises
    ------
    ValueError
        If a state has stationary probability 0, or there is more than one closed class.

    Notes
    -----
    The book's own. :math:`A` is there because the estimate bends (an inverse of what is
    counted), :math:`Z` because the number of visits depends on where they led.
    """
    mu, v = _everywhere_recurrent(process), process.values()
    p, gamma, identity = process.transition, process.discount, np.eye(process.n_states)
    bending = gamma * np.linalg.inv(identity - gamma * p)
    visits = np.linalg.inv(identity - p + mu)
    centred = p * (v - (p @ v)[:, None])
    covariance = np.einsum("su,us->s", centred, bending - visits)
    bias: Floats = np.linalg.solve(identity - gamma * p, gamma / mu * covariance)
    return bias


class SupNorm(NamedTuple):
    """Mean of the largest error, and the standard error with which it was estimated."""

    mean: float
    standard_error: float


def expected_sup_norm(
    covariance: ArrayLike, rng: np.random.Generator, draws: int = 10_000
) -> SupNorm:
    """Mean of :math:`\\max_s |Z(s)|` for :math:`Z \\sim N(0, \\Sigma)`, by simulation.

    With `asymptotic_covariance`, its mean over :math:`\\sqrt n` is the floor that contexts
    of length ``n`` will have on average, in the norm of Theorem 2.

    Parameters
    ----------
    covariance : (S, S) array
        :math:`\\Sigma`, symmetric and positive semi-definite; singular is fine.
    rng : numpy.random.Generator
        Source of all randomness.
    draws : int
        How many normal vectors to draw, at least 2.

    Returns
    -------
    SupNorm

    Raises
    ------
    ValueError
        If the covariance isn't a symmetric, positive semi-definite matrix.
    """
    sigma = as_floats("covariance", covariance)
    draws = checked_count("draws", draws, at_least=2)
    if sigma.ndim != 2 or sigma.shape[0] != sigma.shape[1] or sigma.size == 0:
        raise ValueError(
            f"covariance: got shape {sigma.shape}, expected a square matrix (S, S), S >= 1"
        )
    # Against the largest entry: a small one may be a rounding error of products of large ones.
    apart, scale = np.abs(sigma - sigma.T).max(), np.abs(sigma).max()
    if not apart <= 1e-9 * scale < np.inf:
        raise ValueError(
            f"covariance: got entries up to {scale:g} and opposite ones that differ by up to "
            f"{apart:g}, expected a symmetric matrix of finite numbers"
        )
    eigenvalues, axes = np.linalg.eigh(sigma)
    if eigenvalues.min() < -1e-9 * max(eigenvalues.max(), 0.0):
        raise ValueError(
            f"covariance: got the eigenvalue {eigenvalues.min():g}, expected none below 0"
        )
    root = axes * np.sqrt(np.maximum(eigenvalues, 0))
    # One state after the other would do, but a block at a time is faster and as small.
    largest = np.concatenate(
        [
            np.abs(rng.standard_normal((size, len(root))) @ root.T).max(axis=1)
            for size in _blocks(draws, 1000)
        ]
    )
    return SupNorm(float(largest.mean()), float(largest.std(ddof=1) / np.sqrt(draws)))


def confidence_band(
    context: Context, discount: float, span: ArrayLike, failure: float
) -> Floats:
    """Band around certainty equivalence that holds the true values, with no free constant.

    With probability at least :math:`1 - \\delta` over the contexts of length ``n`` (of any
    chain whose rewards are a function of the state, from any start), at once for all states on a context that covers,

    .. math::

        |\\tilde v_n - v_\\pi| \\le (I - \\gamma\\tilde P_n)^{-1} b, \\qquad
        b(s) = \\gamma\\, \\mathrm{span}(s)
        \\sqrt{\\frac{\\log(2 |\\mathcal S| n / \\delta)}{2 N(s)}} .

    Parameters
    ----------
    context : Context
        One that left every state.
    discount : float
        :math:`\\gamma`, at least 0 and less than 1.
    span : float or (S,) array
        At least the largest minus the smallest :math:`v_\\pi` that can follow a state. No
        chain needs more than :math:`(\\max r - \\min r) / (1 - \\gamma)`.
    failure : float
        :math:`\\delta`, more than 0 and less than 1.

    Returns
    -------
    (S,) array

    Raises
    ------
    ValueError
        If an argument isn't what it must be; a context that misses a state is named.

    Notes
    -----
    The book's own. The states that follow the visits of ``s`` are independent draws from
    :math:`P(s, \\cdot)`; Hoeffding's inequality (1963) bounds the mean of the first ``m`` of
    them for each ``m`` up to ``n``, and so for :math:`m = N(s)`, which is random.
    """
    discount = checked_discount(discount)
    if not 0 < failure < 1:
        raise ValueError(f"failure: got {failure}, expected 0 < failure < 1")
    widths = as_floats("span", span)
    if (
        widths.shape not in {(), (context.n_states,)}
        or not ((widths >= 0) & (widths < np.inf)).all()
    ):
        raise ValueError(
            f"span: got {widths}, expected one or {context.n_states} finite numbers >= 0"
        )
    counts = context.counts()
    if not counts.all():
        raise ValueError(
            f"context: got one that never left {_named(np.flatnonzero(counts == 0))}, "
            "expected every state to be left"
        )
    logarithm = np.log(2 * context.n_states * context.n / failure)
    noise = discount * widths * np.sqrt(logarithm / (2 * counts))
    system = np.eye(context.n_states) - discount * context.empirical_transition()
    band: Floats = np.linalg.solve(system, noise)
    return band


def feature_classes(features: ArrayLike) -> Ints:
    """Label the states so that those with the same feature vector share a label.

    Parameters
    ----------
    features : (S, d) array
        One state a row.

    Returns
    -------
    (S,) int array
        Labels from 0, without gaps, in the order in which the vectors first occur.
    """
    x = checked_features(features)
    _, first, labels = np.unique(x, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(np.argsort(first))
    return order[labels.reshape(-1)].astype(np.int64)


def lumped_context(context: Context, labels: ArrayLike) -> Context:
    """Return the same context as a learner sees it that can't tell some states apart.

    From :math:`v_0 = 0`, weighted softmax TD on features that states share is weighted
    softmax TD on the lumped context, and what it converges to is
    ``certainty_equivalence(lumped_context(context, labels), discount)[labels]``.

    Parameters
    ----------
    context : Context
        ``n`` transitions over ``S`` states.
    labels : (S,) int array
        A number from 0 for each state, such as `feature_classes` gives.

    Returns
    -------
    Context
        Over as many states as there are labels, ``max(labels) + 1``.

    Raises
    ------
    ValueError
        If there isn't a whole number >= 0 for each state.
    """
    of = np.asarray(labels)
    if of.shape != (context.n_states,) or not np.issubdtype(of.dtype, np.integer):
        raise ValueError(
            f"labels: got shape {of.shape} of dtype {of.dtype}, expected "
            f"({context.n_states},) whole numbers, one for each state"
        )
    if of.min() < 0:
        raise ValueError(f"labels: got {of.min()}, expected numbers from 0")
    return Context(of[context.states], context.rewards, int(of.max()) + 1)


def _everywhere_recurrent(process: MarkovRewardProcess) -> Floats:
    mu = process.stationary()
    if not mu.all():
        raise ValueError(
            "process: expected every state to be left again and again, got stationary "
            f"probability 0 at {_named(np.flatnonzero(mu == 0))}"
        )
    return mu


def _named(states: Ints) -> str:
    if len(states) == 1:
        return f"state {states[0]}"
    shown = ", ".join(map(str, states[:10].tolist()))
    more = f" and {len(states) - 10} more" if len(states) > 10 else ""
    return f"states {shown}{more}"


def _blocks(total: int, size: int) -> list[int]:
    return [min(size, total - done) for done in range(0, total, size)]
