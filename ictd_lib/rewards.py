"""Noise: rewards on transitions, random rewards, and the error that they leave.

The algorithms read observed rewards :math:`R_k` only, so a reward that depends on the
successor, or is random, changes nothing but :math:`\\tilde r_n`. What depth converges to is
then off by about :math:`1/\\sqrt n` times a Gaussian vector with the covariance
`noisy_covariance`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ictd_lib.chain import stationary_distribution, stochastic_matrix
from ictd_lib.checks import Floats, as_floats, checked_discount
from ictd_lib.context import Context


def transition_context(
    states: ArrayLike,
    rewards: ArrayLike,
    *,
    noise: ArrayLike | float = 0.0,
    rng: np.random.Generator | None = None,
) -> Context:
    """Context of a trajectory whose rewards depend on transitions and are noisy.

    :math:`R_k = R(S_{k-1}, S_k) + \\sigma(S_{k-1}, S_k)\\,\\xi_k`, with independent standard
    normal :math:`\\xi_k`.

    Parameters
    ----------
    states : (n + 1,) array of int
        A trajectory, such as `MarkovRewardProcess.sample` returns.
    rewards : (S, S) array
        :math:`R(s, s')`, the mean reward of a transition.
    noise : float or (S, S) array
        :math:`\\sigma(s, s')`, a standard deviation. None unless given.
    rng : numpy.random.Generator, optional
        Source of the noise; needed if there is any.

    Returns
    -------
    Context

    Raises
    ------
    ValueError
        If an argument isn't what it must be, or there is noise and no generator.
    """
    mean = as_floats("rewards", rewards)
    if mean.ndim != 2 or mean.shape[0] != mean.shape[1]:
        raise ValueError(
            f"rewards: got shape {mean.shape}, expected a square matrix (S, S)"
        )
    # A context checks the trajectory before it is used as an index.
    path = Context(states, np.zeros(max(np.size(states) - 1, 0)), len(mean)).states
    sigma = np.broadcast_to(_deviations(noise, mean.shape), mean.shape)
    received = mean[path[:-1], path[1:]]
    if sigma.any():
        if rng is None:
            raise ValueError("rng: got None, expected a generator, as there is noise")
        received = received + sigma[path[:-1], path[1:]] * rng.standard_normal(
            len(received)
        )
    return Context(path, received, len(mean))


def target_variance(
    transition: ArrayLike,
    rewards: ArrayLike,
    discount: float,
    noise: ArrayLike | float = 0.0,
) -> Floats:
    """Variance of the TD target :math:`R + \\gamma v_\\pi(S')` on leaving each state.

    .. math::

        \\mathrm{Var}(R + \\gamma v_\\pi(S')) = \\mathrm{Var}(R)
        + 2\\gamma\\,\\mathrm{Cov}(R, v_\\pi(S')) + \\gamma^2\\,\\mathrm{Var}(v_\\pi(S'))

    Parameters
    ----------
    transition : (S, S) array
        :math:`P`.
    rewards : (S, S) array
        :math:`R(s, s')`, the mean reward of a transition.
    discount : float
        :math:`\\gamma`, at least 0 and less than 1.
    noise : float or (S, S) array
        :math:`\\sigma(s, s')`, the standard deviation of the reward about that mean.

    Returns
    -------
    (S,) array

    Raises
    ------
    ValueError
        If an argument isn't what it must be.
    """
    P = stochastic_matrix(transition)
    gamma = checked_discount(discount)
    mean = as_floats("rewards", rewards)
    if mean.shape != P.shape:
        raise ValueError(
            f"rewards: got shape {mean.shape}, expected {P.shape}, one for each transition"
        )
    if not np.isfinite(mean).all():
        raise ValueError(f"rewards: got {mean}, expected finite numbers")
    sigma = _deviations(noise, P.shape)
    r = (P * mean).sum(axis=1)
    values = np.linalg.solve(np.eye(len(P)) - gamma * P, r)
    # The mean of the target is v itself, by the Bellman equation.
    away = mean + gamma * values - values[:, None]
    variance: Floats = (P * (away**2 + sigma**2)).sum(axis=1)
    return variance


def noisy_covariance(
    transition: ArrayLike,
    rewards: ArrayLike,
    discount: float,
    noise: ArrayLike | float = 0.0,
) -> Floats:
    """Limit of ``n`` times the covariance of the certainty-equivalence estimate.

    .. math::

        \\sqrt n\\,(\\tilde v_n - v_\\pi) \\to N(0, \\Sigma), \\qquad \\Sigma =
        (I-\\gamma P)^{-1}\\,\\mathrm{diag}\\Bigl(\\frac{\\mathrm{Var}(R + \\gamma v_\\pi(S') \\mid s)}{\\mu(s)}\\Bigr)
        (I-\\gamma P)^{-\\top}

    Parameters as in `target_variance`.

    Returns
    -------
    (S, S) array
        `asymptotic_covariance` where rewards are a function of the state that is left.

    Raises
    ------
    ValueError
        If an argument isn't what it must be, or a state isn't visited again and again.
    """
    P = stochastic_matrix(transition)
    variance = target_variance(P, rewards, discount, noise)
    mu = stationary_distribution(P)
    if not (mu > 0).all():
        raise ValueError(
            f"transition: got states of stationary probability 0: {np.flatnonzero(mu == 0)}, "
            "expected every state to be visited again and again"
        )
    system = np.eye(len(P)) - checked_discount(discount) * P
    root = np.linalg.solve(system, np.diag(np.sqrt(variance / mu)))
    covariance: Floats = root @ root.T
    return covariance


def _deviations(noise: ArrayLike | float, shape: tuple[int, ...]) -> Floats:
    sigma = as_floats("noise", noise)
    if sigma.shape not in {(), shape} or not ((sigma >= 0) & (sigma < np.inf)).all():
        raise ValueError(
            f"noise: got {sigma}, expected finite numbers >= 0: one, or one for each of "
            f"{shape}"
        )
    return sigma
