"""A layer as an affine map: what attention does to all values at once.

Collected over the states, one layer is :math:`v \\mapsto Tv + b` on
:math:`\\mathbb R^{|\\mathcal S|}`, with

.. math::

    T = I - \\alpha M (I - \\gamma P), \\qquad b = \\alpha M r.

With the stationary distribution in it, :math:`M = M_\\pi` is the *population* kernel; with
the visit counts of a context, and :math:`\\tilde P_n, \\tilde r_n` for :math:`P, r`, it is
:math:`\\hat M_n`, and the map is the one that the Transformer computes on that context.

Matrices may come as stacks ``(..., S, S)``: every function acts on each of them. Nothing
here is larger than its arguments, however long the context was.

Source: Xie et al. (2026), equations 20 to 22.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ictd_lib.checks import Floats, as_floats, checked_discount
from ictd_lib.context import Context
from ictd_lib.kernel import softmax_weights


def population_kernel(scores: ArrayLike, stationary: ArrayLike) -> Floats:
    """Population kernel: what attention weights become as the context grows.

    .. math::

        M_\\pi(s, u) = \\frac{\\mu(u)\\, e^{g(s, u)}}{\\sum_w \\mu(w)\\, e^{g(s, w)}}

    Parameters
    ----------
    scores : (..., S, S) array
        :math:`g(s, u)`, query ``s``, source ``u``. Any finite size, and -inf.
    stationary : (..., S) array
        :math:`\\mu`, at least 0 and not all 0. Only ratios matter, so counts do as well.

    Returns
    -------
    (..., S, S) array
        Rows sum to 1. A source of weight 0 has a column of zeros, and its scores as a
        source aren't read.

    Raises
    ------
    ValueError
        If the weights aren't what they must be, or the scores aren't what
        `softmax_weights` accepts.

    Notes
    -----
    Computed in logarithms, :math:`\\mathrm{softmax}_u(g(s, u) + \\log\\mu(u))`.
    Source: Xie et al. (2026), section 5.
    """
    g = square_matrices("scores", scores)
    weights = as_floats("stationary", stationary)
    if weights.ndim == 0 or weights.shape[-1] != g.shape[-1]:
        raise ValueError(
            f"stationary: got shape {weights.shape}, expected (..., {g.shape[-1]}), "
            "one weight for each state"
        )
    bad = ~((weights >= 0) & (weights < np.inf))
    if bad.any():
        raise ValueError(
            f"stationary: got the entry {weights[bad][0]:g}, expected finite weights >= 0"
        )
    if not weights.any(axis=-1).all():
        raise ValueError("stationary: got zeros only, expected a weight > 0")
    present = weights > 0
    logarithms = np.log(np.where(present, weights, 1))
    return softmax_weights(g + logarithms[..., None, :], present[..., None, :])


def empirical_kernel(context: Context, scores: ArrayLike) -> Floats:
    """Empirical kernel :math:`\\hat M_n`: the population kernel with counts in place of :math:`\\mu`.

    .. math::

        \\hat M_n(s, u) = \\frac{N(u)\\, e^{g(s, u)}}{\\sum_w N(w)\\, e^{g(s, w)}}

    The same matrix as ``attention_matrix(context, context_kernel(context, scores))``,
    without a weight for each transition in between.

    Parameters
    ----------
    context : Context
        Its counts :math:`N` leave the last state :math:`S_n` out.
    scores : (S, S) array
        :math:`g(s, u)`, query ``s``, source ``u``.

    Returns
    -------
    (S, S) array
        Rows sum to 1; the column of a state that was never left is 0.

    Raises
    ------
    ValueError
        If the scores have the wrong shape or aren't what `softmax_weights` accepts.

    Notes
    -----
    Source: Xie et al. (2026), equation 20.
    """
    g = as_floats("scores", scores)
    if g.shape != (context.n_states, context.n_states):
        raise ValueError(
            f"scores: got shape {g.shape}, expected {(context.n_states, context.n_states)}, "
            "one for each query and source state"
        )
    return population_kernel(g, context.counts())


def layer_operator(
    kernel: ArrayLike,
    transition: ArrayLike,
    discount: float,
    step_size: ArrayLike = 1.0,
) -> Floats:
    """Linear part of a layer, :math:`T = I - \\alpha M (I - \\gamma P)`: what it does to an error.

    Parameters
    ----------
    kernel, transition : (..., S, S) arrays
        :math:`M` and :math:`P`: the population's, or those of one context
        (`empirical_kernel`, `Context.empirical_transition`).
    discount : float
        :math:`\\gamma`, at least 0 and less than 1.
    step_size : float or (..., S) array
        :math:`\\alpha`, one for all states or one for each.

    Returns
    -------
    (..., S, S) array

    Raises
    ------
    ValueError
        If an argument isn't what it must be.

    Notes
    -----
    Source: Xie et al. (2026), equation 22.
    """
    m, p = square_matrices("kernel", kernel), square_matrices("transition", transition)
    if p.shape[-1] != m.shape[-1]:
        raise ValueError(
            f"transition: got shape {p.shape}, expected (..., {m.shape[-1]}, {m.shape[-1]}) "
            "like the kernel"
        )
    step = _steps(step_size, m.shape[-1])
    if step.ndim:
        step = step[..., None]
    operator: Floats = -step * (m - checked_discount(discount) * (m @ p))
    operator += np.eye(m.shape[-1])
    return operator


def residual_operator(
    kernel: ArrayLike,
    transition: ArrayLike,
    discount: float,
    step_size: ArrayLike = 1.0,
) -> Floats:
    """What a layer does to the mean TD errors of the states that were left.

    .. math::

        \\tilde\\delta_{l+1} = \\bigl(I - (I - \\gamma\\tilde P_n)\\,\\alpha\\hat M_n\\bigr)
        \\tilde\\delta_l, \\qquad \\tilde\\delta_l = \\tilde r_n - (I - \\gamma\\tilde P_n) v_l

    Its eigenvalues are those of the layer without the eigenvalue 1 that each state brings
    which was never left. So from :math:`v_0 = 0` on such a context, this radius is the one
    that tells whether depth converges.

    Parameters
    ----------
    kernel, transition : (S, S) arrays
        :math:`\\hat M_n` and :math:`\\tilde P_n` of a context.
    discount : float
        :math:`\\gamma`, at least 0 and less than 1.
    step_size : float or (S,) array
        :math:`\\alpha`, one for all states or one for each.

    Returns
    -------
    (V, V) array
        For the ``V`` states that some state listens to, in their order.

    Raises
    ------
    ValueError
        If an argument isn't what it must be.

    Notes
    -----
    The book's own.
    """
    m, p = square_matrices("kernel", kernel), square_matrices("transition", transition)
    if m.ndim != 2 or p.shape != m.shape:
        raise ValueError(
            f"kernel, transition: got shapes {m.shape} and {p.shape}, "
            "expected (S, S) for both"
        )
    left = m.any(axis=0)
    back = np.eye(len(m))[left] - checked_discount(discount) * p[left]
    step = _steps(step_size, len(m))
    if step.ndim > 1:
        raise ValueError(
            f"step_size: got shape {step.shape}, expected a number or ({len(m)},)"
        )
    step = np.broadcast_to(step, len(m))
    operator: Floats = np.eye(int(left.sum())) - back @ (step[:, None] * m[:, left])
    return operator


def layer_offset(
    kernel: ArrayLike, reward: ArrayLike, step_size: ArrayLike = 1.0
) -> Floats:
    """Constant part of a layer, :math:`b = \\alpha M r`.

    Parameters
    ----------
    kernel : (..., S, S) array
        :math:`M`.
    reward : (..., S) array
        :math:`r`, or the mean rewards of a context.
    step_size : float or (..., S) array
        :math:`\\alpha`, one for all states or one for each.

    Returns
    -------
    (..., S) array

    Raises
    ------
    ValueError
        If an argument isn't what it must be.
    """
    m, r = square_matrices("kernel", kernel), as_floats("reward", reward)
    if r.ndim == 0 or r.shape[-1] != m.shape[-1]:
        raise ValueError(
            f"reward: got shape {r.shape}, expected (..., {m.shape[-1]}), one for each state"
        )
    offset: Floats = _steps(step_size, m.shape[-1]) * (m @ r[..., None])[..., 0]
    return offset


def infinity_norm(matrix: ArrayLike) -> Floats:
    """Operator norm for the largest error: :math:`\\|T\\|_\\infty = \\max_s \\sum_u |T(s, u)|`.

    Parameters
    ----------
    matrix : (..., S, S) array

    Returns
    -------
    (...) array
        The most by which :math:`\\|Te\\|_\\infty` can exceed :math:`\\|e\\|_\\infty`.
    """
    rows = np.abs(square_matrices("matrix", matrix)).sum(axis=-1)
    norm: Floats = rows.max(axis=-1)
    return norm


def spectral_radius(matrix: ArrayLike) -> Floats:
    """Spectral radius :math:`\\rho(T)`: how an error decays in the end, layer by layer.

    Parameters
    ----------
    matrix : (..., S, S) array
        Finite.

    Returns
    -------
    (...) array
        The largest absolute value of an eigenvalue.

    Raises
    ------
    ValueError
        If it isn't square or not finite.

    Notes
    -----
    By LAPACK, in :math:`O(|\\mathcal S|^3)`. Krylov methods, quicker on a matrix of one
    leading eigenvalue, don't converge on the layers of a chain that hardly mixes or that
    nearly cycles, whose eigenvalues crowd along a circle.
    """
    t = finite_matrices("matrix", matrix)
    radius: Floats = np.abs(np.linalg.eigvals(t)).max(axis=-1)
    return radius


def square_matrices(name: str, matrix: ArrayLike) -> Floats:
    """Square matrices ``(..., S, S)`` as float64, or a `ValueError`."""
    a = as_floats(name, matrix)
    if a.ndim < 2 or a.shape[-1] != a.shape[-2] or a.shape[-1] == 0:
        raise ValueError(
            f"{name}: got shape {a.shape}, expected square matrices (..., S, S), S >= 1"
        )
    return a


def finite_matrices(name: str, matrix: ArrayLike) -> Floats:
    """Square matrices ``(..., S, S)`` of finite numbers as float64, or a `ValueError`."""
    a = square_matrices(name, matrix)
    if not np.isfinite(a).all():
        raise ValueError(
            f"{name}: got {a[~np.isfinite(a)][0]}, expected finite numbers"
        )
    return a


def _steps(step_size: ArrayLike, n_states: int) -> Floats:
    steps = as_floats("step_size", step_size)
    if steps.ndim and steps.shape[-1] not in {1, n_states}:
        raise ValueError(
            f"step_size: got shape {steps.shape}, expected a number or (..., {n_states}), "
            "one for each state"
        )
    if not np.isfinite(steps).all():
        raise ValueError(f"step_size: got {steps}, expected finite numbers")
    return steps
