"""When a layer contracts, without a dominant diagonal.

A layer is :math:`T = I - \\mathrm{diag}(a)\\,M (I - \\gamma P)`, with a step :math:`a(s) > 0` for each
state. For symmetric scores whose exponential is positive definite (inner products of
distinct features) :math:`\\mathrm{diag}(a) M` is self-adjoint with a positive spectrum in
:math:`L^2(\\tilde\\pi)`, :math:`\\tilde\\pi \\propto \\mu\\Lambda/a`. So for an eigenpair
:math:`Tv = \\lambda v`

.. math::

    1 - \\lambda = \\frac{1 - c}{m}, \\qquad
    c = \\frac{\\langle v, \\gamma P v\\rangle}{\\langle v, v\\rangle}, \\qquad
    m = \\frac{\\langle v, (\\mathrm{diag}(a) M)^{-1} v\\rangle}{\\langle v, v\\rangle} > 0,

and all that is left is to know where :math:`c` may lie: in the numerical range of
:math:`\\gamma P`. Each function here bounds that range, or says how to shrink it.

Everything takes stacks ``(..., S, S)``. Nothing needs :math:`\\mu` to be stationary, unless it
says so: the empirical matrices of a context will do.

All of it is ours.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ictd_lib.checks import Floats, as_floats, checked_discount
from ictd_lib.operators import finite_matrices
from ictd_lib.preconditioning import checked_sink, log_normaliser

#: Directions in which the numerical range of a matrix that isn't non-negative is measured.
DIRECTIONS = 16


class Spectrum(NamedTuple):
    """The eigenvalues of a self-adjoint preconditioner that the theorems ask for.

    Attributes
    ----------
    smallest, second, largest : (...) arrays
        :math:`\\lambda_{\\min}`, the largest but one, :math:`\\lambda_{\\max}`; real. ``second`` is
        ``largest`` if there is one state only.
    """

    smallest: Floats
    second: Floats
    largest: Floats


def kernel_spectrum(kernel: ArrayLike, weights: ArrayLike) -> Spectrum:
    """Spectrum of a kernel that is reversible for ``weights``, by a symmetric eigenproblem.

    Parameters
    ----------
    kernel : (..., S, S) array
        :math:`\\mathrm{diag}(a)\\,M`.
    weights : (..., S) array
        :math:`\\tilde\\pi`, as `ictd_lib.preconditioning.reversing_weights` gives them.

    Returns
    -------
    Spectrum
        Of :math:`\\tilde D^{1/2} K \\tilde D^{-1/2}`, made symmetric, :math:`\\tilde D` being the weights.
        NaN where a weight is 0.

    Raises
    ------
    ValueError
        If an argument isn't what it must be, or the kernel isn't reversible for the weights:
        its eigenvalues aren't those of what is left when it is made symmetric.
    """
    similar, empty = _similar(finite_matrices("kernel", kernel), weights)
    apart = np.abs(similar - similar.mT).max(axis=(-1, -2))
    size = np.abs(similar).max(axis=(-1, -2))
    uneven = np.where(empty, 0.0, apart / np.where(size > 0, size, 1.0))
    if (worst := uneven.max(initial=0.0)) > 1e-8:
        raise ValueError(
            "kernel, weights: got flows weights[s] kernel[s, u] and back that differ by up to "
            f"{worst:.2g} of the largest, expected a kernel that is "
            "reversible for the weights"
        )
    found = np.linalg.eigvalsh((similar + similar.mT) / 2)
    eigenvalues: Floats = np.where(empty[..., None], np.nan, found)
    second = eigenvalues[..., -2 if eigenvalues.shape[-1] > 1 else -1]
    return Spectrum(eigenvalues[..., 0], second, eigenvalues[..., -1])


def numerical_radius(
    transition: ArrayLike, weights: ArrayLike, discount: float | Floats
) -> Floats:
    """Numerical radius ``w`` of :math:`\\gamma P` in :math:`L^2(\\tilde\\pi)`.

    .. math::

        w = \\max_{\\|v\\| = 1} |\\langle v, \\gamma P v\\rangle|
          = \\lambda_{\\max}\\Big(\\tfrac\\gamma2 (B + B^\\top)\\Big), \\qquad
        B = \\tilde D^{1/2} P \\tilde D^{-1/2},

    the second since no entry is negative. At least :math:`\\gamma` if the rows of ``P`` sum to 1.

    Parameters
    ----------
    transition : (..., S, S) array
        :math:`P`, or the empirical :math:`\\tilde P_n`; entries at least 0.
    weights : (..., S) array
        :math:`\\tilde\\pi`, at least 0.
    discount : float or (...) array
        :math:`\\gamma`, at least 0 and less than 1.

    Returns
    -------
    (...) array
        Infinite where a weight is 0.

    Raises
    ------
    ValueError
        If an argument isn't what it must be.
    """
    similar, empty = _similar(_non_negative(transition), weights)
    w = np.linalg.eigvalsh((similar + similar.mT) / 2)[..., -1]
    result: Floats = np.where(empty, np.inf, _discounts(discount) * w)
    return result


def centred_radius(
    transition: ArrayLike,
    weights: ArrayLike,
    discount: float | Floats,
    pace: ArrayLike = 1.0,
) -> Floats:
    """The same on functions of mean 0: what is left once the constants are factored out.

    .. math::

        \\omega(a) = \\max_{\\|v\\| = 1,\\ \\langle 1, v\\rangle = 0}
            |1 - a + a\\,\\langle v, \\gamma P v\\rangle|

    The maximum is over complex functions, in :math:`L^2(\\tilde\\pi)`.

    Parameters
    ----------
    transition : (..., S, S) array
        :math:`P`, or :math:`\\tilde P_n`; its rows must sum to 1.
    weights : (..., S) array
        :math:`\\tilde\\pi`, at least 0.
    discount : float or (...) array
        :math:`\\gamma`, at least 0 and less than 1.
    pace : float or (...) array
        :math:`a`; the theorem of `centred_rate` asks for more than 0 and less than 2.

    Returns
    -------
    (...) array
        An upper bound of :math:`\\omega(a)`: the numerical range lies in the polygon that touches it in
        ``DIRECTIONS`` directions of a half-plane, and this is the polygon's farthest corner; at
        most 0.5 % too large. Infinite where a weight is 0.

    Raises
    ------
    ValueError
        If an argument isn't what it must be.
    """
    p = _non_negative(transition)
    pi = _weights(weights, p.shape[-1])
    # The heaviest state first: what follows then takes no small difference of large numbers.
    order = np.argsort(-pi, axis=-1)
    pi = np.take_along_axis(pi, order, axis=-1)
    p = np.take_along_axis(p, order[..., :, None], axis=-2)
    p = np.take_along_axis(p, order[..., None, :], axis=-1)
    similar, empty = _similar(p, pi)
    root = np.sqrt(np.where(empty[..., None], 1.0, pi))
    root /= np.linalg.norm(root, axis=-1, keepdims=True)
    a = as_floats("pace", pace)[..., None, None]
    gamma = _discounts(discount)[..., None, None]
    # A reflection that sends the constants, for which the root stands, to the first axis; the
    # rest of the axes are then the functions of mean 0.
    root[..., 0] += 1
    mirror = np.eye(p.shape[-1]) - (
        root[..., :, None] * root[..., None, :] / root[..., 0, None, None]
    )
    centred = (mirror @ similar @ mirror)[..., 1:, 1:]
    shifted = (1 - a) * np.eye(p.shape[-1] - 1) + a * gamma * centred
    result: Floats = np.where(empty, np.inf, _circumscribed(shifted))
    return result


def predecessor_ratio(transition: ArrayLike, weights: ArrayLike) -> Floats:
    """How far weights are from stationary: :math:`\\kappa = \\max_u (\\tilde\\pi P)(u)/\\tilde\\pi(u)`.

    :math:`w \\le \\gamma\\sqrt\\kappa` and :math:`w \\le \\gamma(1 + \\kappa)/2`, the former being the smaller.
    With a stationary :math:`\\mu` and :math:`\\tilde\\pi = \\mu\\Lambda` it is the mean of the normaliser over
    the states one comes from, :math:`\\kappa = \\max_u \\mathbb E[\\Lambda(S_t) \\mid S_{t+1} = u]/\\Lambda(u)`.

    Parameters
    ----------
    transition : (..., S, S) array
        :math:`P`, or :math:`\\tilde P_n`.
    weights : (..., S) array
        :math:`\\tilde\\pi`, at least 0.

    Returns
    -------
    (...) array
        Infinite where a weight is 0.

    Raises
    ------
    ValueError
        If an argument isn't what it must be.
    """
    p = _non_negative(transition)
    pi = _weights(weights, p.shape[-1])
    flow = (pi[..., None, :] @ p)[..., 0, :]
    empty = (pi == 0).any(axis=-1)
    with np.errstate(over="ignore"):  # a weight of 1e-310, say: no bound
        ratios = flow / np.where(pi == 0, 1.0, pi)
    result: Floats = np.where(empty, np.inf, ratios.max(axis=-1))
    return result


def radius_rate(
    radius: ArrayLike, spectrum: Spectrum, step_size: ArrayLike = 1.0
) -> Floats:
    """Rate of the numerical-radius theorem.

    .. math::

        \\rho(T) \\le \\max\\{1 - \\alpha(1 - w)\\lambda_{\\min},\\; \\alpha(1 + w)\\lambda_{\\max} - 1\\}

    Parameters
    ----------
    radius : (...) array
        ``w``, or anything that is at least as large.
    spectrum : Spectrum
        Of :math:`\\mathrm{diag}(a) M`.
    step_size : float or (...) array
        :math:`\\alpha > 0`, on top of :math:`a`.

    Returns
    -------
    (...) array
        Not meaningful unless ``w < 1``; below 1 if moreover
        :math:`\\alpha < 2/((1 + w)\\lambda_{\\max})`.
    """
    w, alpha = as_floats("radius", radius), as_floats("step_size", step_size)
    slow = 1 - alpha * (1 - w) * np.maximum(spectrum.smallest, 0.0)
    rate: Floats = np.maximum(slow, alpha * (1 + w) * spectrum.largest - 1)
    return rate


def centred_rate(
    radius: ArrayLike,
    spectrum: Spectrum,
    discount: float | Floats,
    step_size: ArrayLike = 1.0,
) -> Floats:
    """Rate of the theorem with the constants factored out.

    .. math::

        \\rho(T) \\le \\max\\{|1 - \\alpha(1 - \\gamma)|,\\;
            1 - (1 - \\omega)\\,\\lambda_{\\min}/\\lambda_2\\}, \\qquad \\omega = \\omega(\\alpha\\lambda_2)

    Parameters
    ----------
    radius : (...) array
        :math:`\\omega`, from `centred_radius` with the pace :math:`\\alpha\\lambda_2`.
    spectrum : Spectrum
        Of :math:`M`, all of whose rows must sum to 1.
    discount : float or (...) array
        :math:`\\gamma`.
    step_size : float or (...) array
        :math:`\\alpha`, more than 0.

    Returns
    -------
    (...) array
        Below 1 if :math:`\\omega < 1` and :math:`\\alpha(1 - \\gamma) < 2`.
    """
    omega, alpha = as_floats("radius", radius), as_floats("step_size", step_size)
    constants = np.abs(1 - alpha * (1 - _discounts(discount)))
    second = np.maximum(spectrum.second, np.finfo(float).tiny)
    share = np.clip(spectrum.smallest / second, 0.0, 1.0)
    rate: Floats = np.maximum(constants, 1 - (1 - omega) * share)
    return rate


def spread_radius(
    scores: ArrayLike,
    stationary: ArrayLike,
    discount: float | Floats,
    *,
    sink: ArrayLike = 0.0,
    excess: ArrayLike = 0.0,
) -> Floats:
    """Bound of ``w`` from how far the normaliser spreads, and nothing else.

    .. math::

        w \\le \\gamma \\sqrt f\\;\\frac{R + R^{-1}}2, \\qquad
        R^2 = \\frac{\\max\\Lambda + b}{\\min\\Lambda + b}

    Below 1 if and only if :math:`R < (1 + \\sqrt{1 - \\gamma^2 f})/(\\gamma\\sqrt f)`.

    Parameters
    ----------
    scores : (..., S, S) array
        :math:`g(s, u)`, symmetric.
    stationary : (..., S) array
        :math:`\\mu`, or visit counts.
    discount : float or (...) array
        :math:`\\gamma`.
    sink : float or (...) array
        ``b``, at least 0.
    excess : float or (...) array
        :math:`f - 1`: 0 if the weights are stationary; for the counts of a context
        :math:`1/N(S_n)`, or 0 if it ends where it began.

    Returns
    -------
    (...) array
        An upper bound of `numerical_radius`; approached by long cycles.

    Raises
    ------
    ValueError
        If an argument isn't what it must be.
    """
    lam = log_normaliser(scores, stationary)
    b, g = checked_sink(sink), _inflated(discount, excess)
    with np.errstate(divide="ignore"):  # log 0: no sink
        raised = np.logaddexp(lam, np.log(b)[..., None])
    half = (raised.max(axis=-1) - raised.min(axis=-1)) / 2
    bound: Floats = _times_exp(g / 2, half) + _times_exp(g / 2, -half)
    return bound


def sink_bound(
    scores: ArrayLike,
    stationary: ArrayLike,
    discount: float | Floats,
    excess: ArrayLike = 0.0,
) -> Floats:
    """A sink that makes TD converge, from the normaliser alone.

    .. math::

        b_0 = \\frac{(q^2 \\max\\Lambda - \\min\\Lambda)_+}{1 - q^2}, \\qquad
        q = \\frac{\\gamma\\sqrt f}{1 + \\sqrt{1 - \\gamma^2 f}}

    Any :math:`b > b_0` makes `spread_radius` less than 1.

    Parameters
    ----------
    scores : (..., S, S) array
        :math:`g(s, u)`, symmetric.
    stationary : (..., S) array
        :math:`\\mu`, or visit counts.
    discount : float or (...) array
        :math:`\\gamma`.
    excess : float or (...) array
        :math:`f - 1`, as in `spread_radius`.

    Returns
    -------
    (...) array
        Infinite if :math:`\\gamma^2 f \\ge 1`, or beyond the range of floats.

    Raises
    ------
    ValueError
        If an argument isn't what it must be.
    """
    lam = log_normaliser(scores, stationary)
    g = _inflated(discount, excess)
    squared = (g / (1 + np.sqrt(np.maximum(1 - g**2, 0.0)))) ** 2
    top, low = lam.max(axis=-1), lam.min(axis=-1)
    needed = np.maximum(squared - np.exp(low - top), 0.0)
    size = needed / np.where(g < 1, 1 - squared, 1.0)
    result: Floats = np.where(g < 1, _times_exp(size, top), np.inf)
    return result


def universal_sink(largest_score: ArrayLike, discount: float | Floats) -> Floats:
    """A sink for every chain at once, from the largest score alone.

    .. math::

        b = \\tfrac12\\Big(\\frac1{\\sqrt{1 - \\gamma^2}} - 1\\Big)\\,e^{\\max g}

    Since :math:`\\Lambda \\le e^{\\max g}` and :math:`\\min\\Lambda > 0`, it is at least `sink_bound`.

    Parameters
    ----------
    largest_score : float or (...) array
        :math:`\\max g`; for inner products :math:`\\max_s\\|x(s)\\|^2`.
    discount : float or (...) array
        :math:`\\gamma`.

    Returns
    -------
    (...) array
        It suffices by itself, not only everything beyond it. Infinite beyond the range of
        floats.
    """
    gamma = _discounts(discount)
    size: Floats = (1 / np.sqrt(1 - gamma**2) - 1) / 2
    return _times_exp(size, as_floats("largest_score", largest_score))


def sharp_sink(
    scores: ArrayLike,
    stationary: ArrayLike,
    transition: ArrayLike,
    discount: float | Floats,
) -> Floats:
    """The smallest sink with ``w < 1`` beyond it: one generalised symmetric eigenproblem.

    .. math::

        b_* = \\inf\\{b \\ge 0 : H_\\Lambda + b H \\succ 0\\}, \\quad
        H_\\Lambda = \\mathrm{sym}(D_\\mu \\Lambda (I - \\gamma P)), \\quad
        H = \\mathrm{sym}(D_\\mu (I - \\gamma P))

    Never above `sink_bound`. :math:`w(b) < 1` for all :math:`b > b_*` and for none below.

    Parameters
    ----------
    scores : (..., S, S) array
        :math:`g(s, u)`, symmetric.
    stationary : (..., S) array
        :math:`\\mu`, or visit counts, more than 0.
    transition : (..., S, S) array
        :math:`P`, or :math:`\\tilde P_n`.
    discount : float or (...) array
        :math:`\\gamma`.

    Returns
    -------
    (...) array
        Infinite if :math:`H` isn't positive definite, so that this shows no sink to be large
        enough. That takes a context whose last state was seldom left.

    Raises
    ------
    ValueError
        If an argument isn't what it must be.
    """
    lam = log_normaliser(scores, stationary)
    p = _non_negative(transition)
    mu = _weights(stationary, p.shape[-1])
    top = lam.max(axis=-1)
    drift = np.eye(p.shape[-1]) - _discounts(discount)[..., None, None] * p
    root = np.sqrt(mu / mu.sum(axis=-1, keepdims=True))
    if (root == 0).any():
        raise ValueError("stationary: got the weight 0, expected weights > 0")
    # Divided by the roots of mu on both sides: the pencil is the same, and well scaled.
    flat = root[..., :, None] * drift / root[..., None, :]
    scaled = np.exp(lam - top[..., None])[..., :, None] * flat
    values, vectors = np.linalg.eigh((flat + flat.mT) / 2)
    definite = values[..., 0] > 0
    half = vectors / np.sqrt(np.where(definite[..., None], values, 1.0))[..., None, :]
    pencil = half.mT @ ((scaled + scaled.mT) / 2) @ half
    lowest = np.linalg.eigvalsh((pencil + pencil.mT) / 2)[..., 0]
    bound = _times_exp(np.maximum(-lowest, 0.0), top)
    result: Floats = np.where(definite, bound, np.inf)
    return result


def energy(errors: ArrayLike, kernel: ArrayLike, weights: ArrayLike) -> Floats:
    """Energy of an error, :math:`\\|e\\|^2_{M^{-1}} = \\langle e, M^{-1} e\\rangle_{\\tilde\\pi}`.

    With :math:`f = (I - \\gamma P)e` and the step size 1 a layer changes it by

    .. math::

        \\|Te\\|^2_{M^{-1}} - \\|e\\|^2_{M^{-1}}
            = -\\big(\\|e\\|^2 - \\gamma^2\\|Pe\\|^2\\big) - \\langle f, (I - M) f\\rangle,

    so it falls in *every* layer if :math:`\\gamma\\|P\\|_{\\tilde\\pi} < 1`.

    Parameters
    ----------
    errors : (..., S) array
        ``e``.
    kernel : (..., S, S) array
        ``M``, invertible.
    weights : (..., S) array
        :math:`\\tilde\\pi`.

    Returns
    -------
    (...) array

    Raises
    ------
    ValueError
        If an argument isn't what it must be.
    """
    e, m = as_floats("errors", errors), finite_matrices("kernel", kernel)
    if e.ndim == 0 or e.shape[-1] != m.shape[-1]:
        raise ValueError(
            f"errors: got shape {e.shape}, expected (..., {m.shape[-1]}), one for each state"
        )
    pi = _weights(weights, m.shape[-1])
    try:
        solved = np.linalg.solve(m, e[..., None])[..., 0]
    except np.linalg.LinAlgError:
        raise ValueError(
            "kernel: got a singular matrix, expected an invertible one"
        ) from None
    result: Floats = (pi * e * solved).sum(axis=-1)
    return result


def _similar(matrix: Floats, weights: ArrayLike) -> tuple[Floats, np.ndarray]:
    """:math:`D^{1/2} A D^{-1/2}`, and where a weight is 0, so that there is no such matrix."""
    pi = _weights(weights, matrix.shape[-1])
    empty = (pi == 0).any(axis=-1)
    root = np.sqrt(np.where(empty[..., None], 1.0, pi))
    similar: Floats = root[..., :, None] * matrix / root[..., None, :]
    return similar, np.broadcast_to(empty, similar.shape[:-2])


def _circumscribed(matrix: Floats) -> Floats:
    """Farthest corner of a polygon around the numerical range of real matrices.

    In the direction :math:`\\theta` the range reaches :math:`h(\\theta)`, the largest eigenvalue of the
    Hermitian part of :math:`e^{-i\\theta} A`; two such lines meet in a corner. The range of a real
    matrix is symmetric about the real axis, so a half-plane of directions is enough.
    """
    if matrix.shape[-1] == 0:  # nothing but constants
        return np.zeros(matrix.shape[:-2])
    symmetric, skew = (matrix + matrix.mT) / 2, (matrix - matrix.mT) / 2
    ends = np.linalg.eigvalsh(symmetric)
    angle = np.pi / DIRECTIONS
    before, farthest = ends[..., -1], np.zeros(matrix.shape[:-2])
    for k in range(1, DIRECTIONS + 1):
        if k < DIRECTIONS:
            theta = k * angle
            hermitian = np.cos(theta) * symmetric - 1j * np.sin(theta) * skew
            here = np.linalg.eigvalsh(hermitian)[..., -1]
        else:
            here = -ends[..., 0]
        along = (here - before * np.cos(angle)) / np.sin(angle)
        farthest = np.maximum(farthest, np.hypot(before, along))
        before = here
    return farthest


def _non_negative(transition: ArrayLike) -> Floats:
    p = finite_matrices("transition", transition)
    if (p < 0).any():
        raise ValueError(
            f"transition: got the entry {p.min():g}, expected entries >= 0"
        )
    return p


def _weights(weights: ArrayLike, n_states: int) -> Floats:
    pi = as_floats("weights", weights)
    if pi.ndim == 0 or pi.shape[-1] != n_states or not _finite(pi):
        raise ValueError(
            f"weights: got {pi} of shape {pi.shape}, expected finite numbers >= 0 of shape "
            f"(..., {n_states})"
        )
    return pi


def _inflated(discount: ArrayLike, excess: ArrayLike) -> Floats:
    """:math:`\\gamma\\sqrt f`: the discount, as if ``P`` could expand by :math:`\\sqrt f`."""
    beyond = as_floats("excess", excess)
    if not _finite(beyond):
        raise ValueError(f"excess: got {excess!r}, expected finite numbers >= 0")
    result: Floats = _discounts(discount) * np.sqrt(1 + beyond)
    return result


def _finite(numbers: Floats) -> bool:
    """Whether all are finite and at least 0."""
    return bool(((numbers >= 0) & (numbers < np.inf)).all())


def _times_exp(factor: Floats, exponent: Floats) -> Floats:
    """:math:`f e^x` for :math:`f \\ge 0`: infinite beyond the floats, but 0 if ``f`` is 0."""
    with np.errstate(over="ignore", invalid="ignore"):  # 0 times infinity
        product: Floats = np.where(factor > 0, factor * np.exp(exponent), 0.0)
    return product


def _discounts(discount: ArrayLike) -> Floats:
    gamma = as_floats("discount", discount)
    for extreme in (gamma.min(initial=0.0), gamma.max(initial=0.0)):
        checked_discount(float(extreme))
    return gamma
