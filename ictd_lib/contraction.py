"""Contraction: whether depth converges, and how fast.

The layer :math:`T = I - \\alpha M(I - \\gamma P)` brings values closer to its fixed point
by a constant factor if each state listens mostly to itself: Assumption 5.1. Its margin
:math:`C` bounds the factor; the norm of :math:`T` is the factor for the largest error, and
its spectral radius what every error decays by in the end.

.. math::

    \\rho(T) \\le \\|T\\|_\\infty = 1 - 2\\alpha C_* \\le 1 - 2\\alpha C \\le 1 - \\alpha C,
    \\qquad C \\le C_* \\le \\tfrac{1 - \\gamma}2, \\quad 0 < \\alpha \\le 1,

the last bound where :math:`C \\ge 0`.

Matrices may come as stacks ``(..., S, S)``; then every result is an array ``(...)``.

Sources: Xie et al. (2026), Assumption 5.1 and Theorem 2, for the margin :math:`C` and the
rate :math:`1 - C`; the rates :math:`1 - 2\\alpha C`, :math:`1 - 2\\alpha C_*` and what is
computed from a context are the book's own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ictd_lib.checks import Floats, as_floats, checked_discount
from ictd_lib.operators import (
    infinity_norm,
    layer_operator,
    spectral_radius,
    square_matrices,
)


class KernelDiagonality(NamedTuple):
    """How much states listen to themselves: the least and the mean of :math:`M(s, s)`."""

    minimum: Floats
    mean: Floats


def kernel_diagonality(kernel: ArrayLike) -> KernelDiagonality:
    """Kernel diagonality: the minimum and the mean of the weights :math:`M(s, s)`.

    Parameters
    ----------
    kernel : (..., S, S) array
        :math:`M_\\pi` or :math:`\\hat M_n`.

    Returns
    -------
    KernelDiagonality
        The minimum decides Assumption 5.1; the mean is what pretraining raises.

    Raises
    ------
    ValueError
        If it isn't square, or a row isn't at least 0 with the sum 1.
    """
    diagonal = np.diagonal(_kernel(kernel), axis1=-2, axis2=-1)
    return KernelDiagonality(diagonal.min(axis=-1), diagonal.mean(axis=-1))


def diagonality_margin(kernel: ArrayLike, discount: float) -> Floats:
    """Margin of Assumption 5.1: :math:`C = \\min_s M(s, s) - \\frac{1 + \\gamma}2`.

    Parameters
    ----------
    kernel : (..., S, S) array
        :math:`M_\\pi` or :math:`\\hat M_n`.
    discount : float
        :math:`\\gamma`, at least 0 and less than 1.

    Returns
    -------
    (...) array
        Assumption 5.1 holds exactly if this is more than 0. Never more than
        :math:`\\frac{1 - \\gamma}2`, and that only for the identity, where a state listens
        to itself alone.

    Raises
    ------
    ValueError
        If an argument isn't what it must be.

    Notes
    -----
    The paper asks for *some* :math:`C` in :math:`(0, \\frac{1 - \\gamma}2)` with
    :math:`\\min_s M(s, s) \\ge \\frac{1 + \\gamma}2 + C`. This is the largest there is; at the
    identity it is the end of that interval, and every smaller one will do.
    Source: Xie et al. (2026), Assumption 5.1.
    """
    margin: Floats = (
        kernel_diagonality(kernel).minimum - (1 + checked_discount(discount)) / 2
    )
    return margin


def exact_margin(kernel: ArrayLike, transition: ArrayLike, discount: float) -> Floats:
    """Return the margin that makes the rate exact, :math:`\\|T\\|_\\infty = 1 - 2\\alpha C_*`.

    .. math::

        C_* = \\frac{1 - \\gamma}2 - \\max_s \\sum_{u \\ne s}
        \\bigl(M(s, u) - \\gamma (MP)(s, u)\\bigr)_+

    What a state hears from another counts against it only as far as it isn't what its own
    successors will say, too.

    Parameters
    ----------
    kernel, transition : (..., S, S) arrays
        :math:`M` and :math:`P`, or those of a context. A row of ``transition`` may be 0 if
        the column of that state in ``kernel`` is: a state that was never left.
    discount : float
        :math:`\\gamma`, at least 0 and less than 1.

    Returns
    -------
    (...) array
        At least `diagonality_margin`. A layer brings every pair of value functions closer
        in the largest difference, for one step size in (0, 1] or for all in
        :math:`(0, \\frac2{1 + \\gamma})`, exactly if this is more than 0. (If it isn't, the
        spectral radius can still be below 1.)

    Raises
    ------
    ValueError
        If an argument isn't what it must be.

    Notes
    -----
    The book's own. :math:`M(I - \\gamma P)` has the row sums :math:`1 - \\gamma`; this is half
    of how far it is diagonally dominant.
    """
    m, p = _kernel_and_transition(kernel, transition)
    excess = m - checked_discount(discount) * (m @ p)
    others = ~np.eye(m.shape[-1], dtype=bool)
    heard = np.maximum(excess, 0).sum(axis=-1, where=others).max(axis=-1)
    margin: Floats = (1 - discount) / 2 - heard
    return margin


def one_hot_sharpness(
    stationary: ArrayLike, discount: float, margin: float = 0.0
) -> Floats:
    """Smallest sharpness at which one-hot features have a margin of at least :math:`C`.

    .. math::

        \\tau = \\max_s \\log\\frac{\\kappa\\,(1 - \\mu(s))}{(1 - \\kappa)\\,\\mu(s)}, \\qquad
        \\kappa = \\frac{1 + \\gamma}2 + C

    Parameters
    ----------
    stationary : (..., S) array
        :math:`\\mu`, more than 0. Only ratios matter: with the counts of a context, it is
        the sharpness that this context needs.
    discount : float
        :math:`\\gamma`, at least 0 and less than 1.
    margin : float
        :math:`C`, at least 0 and less than :math:`\\frac{1 - \\gamma}2`. At 0, Assumption 5.1
        holds for every sharpness *above* the one returned.

    Returns
    -------
    (...) array
        At least 0. The rarest state decides.

    Raises
    ------
    ValueError
        If an argument isn't what it must be.

    Notes
    -----
    Source: Xie et al. (2026), section 5, for the margin; solved here for :math:`\\tau`.
    """
    mu = as_floats("stationary", stationary)
    discount = checked_discount(discount)
    if mu.ndim == 0 or mu.shape[-1] == 0 or not ((mu > 0) & (mu < np.inf)).all():
        raise ValueError(
            f"stationary: got {mu}, expected (..., S) finite weights > 0: no sharpness is "
            "enough for a state of weight 0"
        )
    if not 0 <= margin < (1 - discount) / 2:
        raise ValueError(
            f"margin: got {margin}, expected 0 <= margin < (1 - discount) / 2 = "
            f"{(1 - discount) / 2:g}"
        )
    # 1 - kappa as a difference of what was compared: more than 0, however close they are.
    kappa, rest = (1 + discount) / 2 + margin, (1 - discount) / 2 - margin
    rarest = mu.min(axis=-1)
    total = mu.sum(axis=-1)
    with np.errstate(divide="ignore"):  # a single state: any sharpness will do
        odds = np.log(total - rarest) - np.log(rarest)
    sharpness: Floats = np.maximum(odds + np.log(kappa / rest), 0.0)
    return sharpness


def paper_rate(margin: ArrayLike) -> Floats:
    """Return the rate of the paper's Theorem 2, :math:`1 - C`, for the step size 1.

    It bounds the empirical layer wherever at least half of the margin :math:`C` of the
    population is left to the context. More than :math:`\\frac{1 + \\gamma}2` always.

    Parameters
    ----------
    margin : (...) array
        :math:`C`, as `diagonality_margin` gives it. Not above 0, it promises nothing.
    """
    rate: Floats = 1 - as_floats("margin", margin)
    return rate


def sharp_rate(margin: ArrayLike, step_size: ArrayLike = 1.0) -> Floats:
    """Return the rate that Assumption 5.1 implies, :math:`1 - 2\\alpha C`.

    Parameters
    ----------
    margin : (...) array
        :math:`C`, of the kernel that is iterated. With `exact_margin` it isn't a bound but
        the norm itself.
    step_size : float or array
        :math:`\\alpha`, more than 0 and at most 1.

    Returns
    -------
    (...) array
        At least :math:`1 - \\alpha(1 - \\gamma)`: the decay of a constant error.

    Raises
    ------
    ValueError
        If a step size is out of its range.
    """
    rate: Floats = 1 - 2 * _checked_steps(step_size) * as_floats("margin", margin)
    return rate


def orthogonal_rate(
    kernel: ArrayLike, discount: float, step_size: ArrayLike = 1.0
) -> Floats:
    """Return the bound on the norm of a layer whose features are orthogonal, one-hot above all.

    .. math::

        \\|T\\|_\\infty \\le 1 - \\alpha\\,(1 - \\gamma)\\,(2\\min_s M(s, s) - 1)

    Half is enough: a layer contracts if every state takes more than half of its update from
    itself, whatever the discount.

    Parameters
    ----------
    kernel : (..., S, S) array
        The population kernel :math:`M_\\pi` of features that are orthogonal, of any lengths.
    discount : float
        :math:`\\gamma`, at least 0 and less than 1.
    step_size : float or array
        :math:`\\alpha`, more than 0 and at most 1.

    Returns
    -------
    (...) array
        For the kernel of a context that covers, add :math:`2\\alpha\\gamma/n`, or nothing if
        the context ends where it began.

    Raises
    ------
    ValueError
        If an argument isn't what it must be.

    Notes
    -----
    The book's own. It needs that the kernel weighs by the stationary distribution: for other
    pairs of stochastic matrices it may fail.
    """
    half = 2 * kernel_diagonality(kernel).minimum - 1
    rate: Floats = (
        1 - _checked_steps(step_size) * (1 - checked_discount(discount)) * half
    )
    return rate


def kept_margin(
    margin: ArrayLike, discount: float, frequency_error: ArrayLike
) -> Floats:
    """Least margin that a context can have whose visit frequencies are nearly right.

    If :math:`|\\hat\\mu_n(s) - \\mu(s)| \\le \\varepsilon\\mu(s)` for all states, and the population
    has the margin :math:`C`, the empirical kernel has at least

    .. math::

        \\frac{(1 - \\varepsilon)\\kappa}{1 + \\varepsilon - 2\\varepsilon\\kappa} -
        \\frac{1 + \\gamma}2, \\qquad \\kappa = \\frac{1 + \\gamma}2 + C .

    It is at least :math:`C / 2` if :math:`\\varepsilon \\le C / (1 - \\gamma^2)`.

    Parameters
    ----------
    margin : (...) array
        :math:`C` of the population, at most :math:`\\frac{1 - \\gamma}2`.
    discount : float
        :math:`\\gamma`, at least 0 and less than 1.
    frequency_error : (...) array
        :math:`\\varepsilon`, at least 0 and at most 1.

    Returns
    -------
    (...) array

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Notes
    -----
    The book's own.
    """
    c, error = (
        as_floats("margin", margin),
        as_floats("frequency_error", frequency_error),
    )
    threshold = (1 + checked_discount(discount)) / 2
    kappa = threshold + c
    if not ((kappa >= 0) & (kappa <= 1 + 1e-12)).all():
        raise ValueError(f"margin: got {c}, expected at most (1 - discount) / 2")
    if not ((error >= 0) & (error <= 1)).all():
        raise ValueError(
            f"frequency_error: got {error}, expected 0 <= frequency_error <= 1"
        )
    own, other = (1 - error) * kappa, (1 + error) * (1 - kappa)
    with np.errstate(invalid="ignore"):  # 0/0: nothing left of nothing
        kept = np.where(own > 0, own / (own + other), 0.0)
    margin_kept: Floats = kept - threshold
    return margin_kept


def floor_bound(
    kernel: ArrayLike, transition: ArrayLike, discount: float, noise: ArrayLike
) -> Floats:
    """Bound on the floor of a context: :math:`\\|\\hat M_n\\tilde\\delta\\|_\\infty / (2\\hat C_*)`.

    For every depth ``L`` and step size :math:`0 < \\alpha \\le 1`, with
    :math:`q = 1 - 2\\alpha\\hat C_*`,

    .. math::

        \\|v_L - v_\\pi\\|_\\infty \\le q^L \\|v_0 - v_\\pi\\|_\\infty +
        (1 - q^L)\\, \\frac{\\|\\hat M_n\\tilde\\delta\\|_\\infty}{2\\hat C_*} .

    Parameters
    ----------
    kernel, transition : (..., S, S) arrays
        :math:`\\hat M_n` and :math:`\\tilde P_n` of a context.
    discount : float
        :math:`\\gamma`, at least 0 and less than 1.
    noise : (..., S) array
        :math:`\\tilde\\delta`, the mean TD errors of the true values: `mean_td_errors`.

    Returns
    -------
    (...) array
        Infinite where :math:`\\hat C_* \\le 0`, as on every context that doesn't cover.

    Raises
    ------
    ValueError
        If an argument isn't what it must be.

    Notes
    -----
    The book's own: Theorem 2 for one context, its constants included.
    """
    m, _ = _kernel_and_transition(kernel, transition)
    errors = as_floats("noise", noise)
    if errors.ndim == 0 or errors.shape[-1] != m.shape[-1]:
        raise ValueError(
            f"noise: got shape {errors.shape}, expected (..., {m.shape[-1]}), "
            "one for each state"
        )
    push = np.abs((m @ errors[..., None])[..., 0]).max(axis=-1)
    margin = exact_margin(kernel, transition, discount)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(margin > 0, push / (2 * margin), np.inf)[()]


class ContractionReport(NamedTuple):
    """Whether and how fast depth converges; see `contraction_report`."""

    diagonality: KernelDiagonality
    margin: Floats
    holds: NDArray[np.bool_]
    exact_margin: Floats
    norm: Floats
    radius: Floats
    sharp_rate: Floats
    paper_rate: Floats


def contraction_report(
    kernel: ArrayLike,
    transition: ArrayLike,
    discount: float,
    step_size: float = 1.0,
) -> ContractionReport:
    """Whether and how fast depth converges for a chain, features and a context.

    Parameters
    ----------
    kernel, transition : (..., S, S) arrays
        :math:`M_\\pi` and :math:`P`, or :math:`\\hat M_n` and :math:`\\tilde P_n` of a context.
    discount : float
        :math:`\\gamma`, at least 0 and less than 1.
    step_size : float
        :math:`\\alpha`, more than 0 and at most 1.

    Returns
    -------
    ContractionReport
        ``diagonality``, ``margin`` and ``holds`` are Assumption 5.1. ``norm`` is how the
        largest error shrinks in every layer, ``radius`` how every error does in the end:
        depth converges to one limit from every start exactly if ``radius`` is below 1. (On
        a context that doesn't cover it never is; see `residual_operator`.) ``sharp_rate``
        and ``paper_rate`` are the bounds on the norm, :math:`1 - 2\\alpha C` and
        :math:`1 - \\alpha C`.

    Raises
    ------
    ValueError
        If an argument isn't what it must be.
    """
    m, p = _kernel_and_transition(kernel, transition)
    alpha = _checked_steps(step_size)
    margin = diagonality_margin(m, discount)
    operator = layer_operator(m, p, discount, alpha)
    return ContractionReport(
        diagonality=kernel_diagonality(m),
        margin=margin,
        holds=margin > 0,
        exact_margin=exact_margin(m, p, discount),
        norm=infinity_norm(operator),
        radius=spectral_radius(operator),
        sharp_rate=sharp_rate(margin, alpha),
        paper_rate=1 - alpha * margin,
    )


def _kernel(kernel: ArrayLike) -> Floats:
    m = square_matrices("kernel", kernel)
    sums = m.sum(axis=-1)
    if not ((m >= 0).all() and (np.abs(sums - 1) <= 1e-6).all()):
        raise ValueError(
            f"kernel: got entries from {m.min():g} and row sums from {sums.min():.8g} to "
            f"{sums.max():.8g}, expected weights >= 0 that sum to 1 over the sources"
        )
    return m


def _kernel_and_transition(
    kernel: ArrayLike, transition: ArrayLike
) -> tuple[Floats, Floats]:
    m, p = _kernel(kernel), as_floats("transition", transition)
    if p.ndim < 2 or p.shape[-2:] != m.shape[-2:]:
        raise ValueError(
            f"transition: got shape {p.shape}, expected (..., {m.shape[-1]}, {m.shape[-1]}) "
            "like the kernel"
        )
    sums = p.sum(axis=-1)
    stochastic = np.abs(sums - 1) <= 1e-6
    unread = (sums == 0) & ~m.any(axis=-2)
    if not ((p >= 0).all() and (stochastic | unread).all()):
        raise ValueError(
            f"transition: got entries from {p.min():g} and row sums from {sums.min():.8g} to "
            f"{sums.max():.8g}, expected probabilities that sum to 1 (or a row of zeros, at "
            "a state to which no other listens)"
        )
    return m, p


def _checked_steps(step_size: ArrayLike) -> Floats:
    steps = as_floats("step_size", step_size)
    if not ((steps > 0) & (steps <= 1)).all():
        raise ValueError(f"step_size: got {steps}, expected 0 < step_size <= 1")
    return steps
