"""Acceleration across layers: step sizes as the roots of a polynomial.

With one kernel in all layers, an iteration with step size :math:`\\alpha_l` multiplies the
error by :math:`I - \\alpha_l B`, where :math:`B = \\hat M_n (I - \\gamma \\tilde P_n)` is the
*drift*. So ``L`` of them multiply it by the *residual polynomial*

.. math::

    p(B) = \\prod_{l=1}^L (I - \\alpha_l B), \\qquad p(0) = 1,

and choosing the step sizes is choosing the roots :math:`1/\\alpha_l`. Real step sizes give real
roots; the others need one more row of memory: `ictd_lib.momentum`.

One eigenvalue is known without looking: rows of :math:`\\hat M_n` sum to 1, so constants are an
eigenvector with eigenvalue :math:`1 - \\gamma`, and one layer with step size
:math:`1/(1-\\gamma)` removes them [ours].

Sources: Richardson (1910) for the iteration, Young (1953) and Reichel (1991) for its step
sizes and their order, Lee et al. (2025) for deflation in value iteration. That layers of
softmax attention run it, and what follows for them, is the book's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ictd_lib.checks import Floats, as_floats, checked_count, checked_discount

Complexes = NDArray[np.complex128]


def residual_polynomial(step_sizes: ArrayLike, points: ArrayLike) -> Complexes:
    """:math:`p(z) = \\prod_l (1 - \\alpha_l z)` at some points of the plane.

    Parameters
    ----------
    step_sizes : (L,) array
        :math:`\\alpha_1, \\dots, \\alpha_L`; complex ones are allowed here.
    points : (...) array
        Where, such as the eigenvalues of the drift.

    Returns
    -------
    (...) complex array
    """
    steps, z = np.asarray(step_sizes), np.asarray(points)
    product: Complexes = (1 - z[..., None] * steps).prod(axis=-1)
    return product.astype(np.complex128)


def residual_matrix(drift: ArrayLike, step_sizes: ArrayLike) -> Floats:
    """What ``L`` layers do to an error: :math:`e_L = p(B)\\,e_0`.

    Parameters
    ----------
    drift : (S, S) array
        :math:`B = \\hat M_n (I - \\gamma \\tilde P_n)`, or its population form.
    step_sizes : (L,) array
        :math:`\\alpha_l`, in the order of the layers.

    Returns
    -------
    (S, S) array

    Raises
    ------
    ValueError
        If an argument has the wrong shape.
    """
    B, steps = checked_drift(drift), as_floats("step_sizes", step_sizes)
    if steps.ndim != 1:
        raise ValueError(f"step_sizes: got shape {steps.shape}, expected (L,)")
    product = np.eye(len(B))
    for alpha in steps:
        product = product - alpha * (B @ product)
    return product


def chebyshev_step_sizes(low: float, high: float, layers: int) -> Floats:
    """Step sizes that are optimal for a drift with real eigenvalues in an interval.

    .. math::

        \\frac1{\\alpha_l} = \\frac{b + a}2 + \\frac{b - a}2 \\cos\\frac{(2l - 1)\\pi}{2L}

    the roots of the polynomial of degree ``L`` with :math:`p(0) = 1` that is smallest on
    :math:`[a, b]`: see `chebyshev_factor` for how small. In an order (`stable_order`) in
    which no error grows much on the way.

    Parameters
    ----------
    low, high : float
        :math:`0 < a \\le b`.
    layers : int
        ``L``, at least 0.

    Returns
    -------
    (L,) array

    Raises
    ------
    ValueError
        If the interval or the number of layers isn't what it must be.

    Notes
    -----
    Source: Young (1953).
    """
    check_interval(low, high)
    count = checked_count("layers", layers, at_least=0)
    angles = (2 * np.arange(count) + 1) * np.pi / (2 * max(count, 1))
    return stable_order(2 / (high + low + (high - low) * np.cos(angles)))


def chebyshev_factor(low: float, high: float, layers: int) -> float:
    """How small a polynomial of degree ``L`` with :math:`p(0) = 1` can be on :math:`[a, b]`.

    .. math::

        \\min_p \\max_{[a, b]} |p| = \\frac1{T_L\\bigl(\\frac{b + a}{b - a}\\bigr)} \\le 2
        \\Bigl(\\frac{\\sqrt b - \\sqrt a}{\\sqrt b + \\sqrt a}\\Bigr)^L

    Parameters and errors as in `chebyshev_step_sizes`.

    Returns
    -------
    float
    """
    check_interval(low, high)
    count = checked_count("layers", layers, at_least=0)
    q = ((high**0.5 - low**0.5) / (high**0.5 + low**0.5)) ** count
    return float(2 * q / (1 + q * q))


def stable_order(step_sizes: ArrayLike) -> Floats:
    """The same step sizes in Leja order: no partial product of layers grows much.

    The product of all layers doesn't depend on their order, but rounding does, and so do the
    values on the way: large steps one after the other blow up what small ones should damp.
    Starts with the smallest step, then takes the one whose root is farthest, in the product of
    distances, from the roots that were taken.

    Parameters
    ----------
    step_sizes : (L,) array
        Finite, none 0.

    Returns
    -------
    (L,) array

    Raises
    ------
    ValueError
        If a step size is 0 or isn't finite.

    Notes
    -----
    Source: Reichel (1991).
    """
    steps = as_floats("step_sizes", step_sizes)
    if steps.ndim != 1 or not np.isfinite(steps).all() or (steps == 0).any():
        raise ValueError(
            f"step_sizes: got {steps}, expected a row of finite numbers, none 0"
        )
    roots = 1 / steps
    left, taken = list(range(len(steps))), list[int]()
    with np.errstate(divide="ignore"):  # equal roots: a distance of 0
        score = np.log(np.abs(roots))
        while left:
            chosen = max(left, key=lambda i: score[i])
            left.remove(chosen)
            taken.append(chosen)
            distance = np.log(np.abs(roots - roots[chosen]))
            score = distance if len(taken) == 1 else score + distance
    return steps[taken]


class ConstantStep(NamedTuple):
    """The best step size for all layers, and the spectral radius that it gives.

    Attributes
    ----------
    step_size : float
        :math:`\\alpha`.
    rate : float
        :math:`\\max_i |1 - \\alpha \\nu_i|`; 1 or more if no step size converges.
    """

    step_size: float
    rate: float


def best_constant_step(eigenvalues: ArrayLike) -> ConstantStep:
    """:math:`\\min_\\alpha \\max_i |1 - \\alpha \\nu_i|` over real :math:`\\alpha`, exactly.

    Each :math:`|1 - \\alpha\\nu_i|^2` is a parabola in :math:`\\alpha`, and the largest of them
    is convex: its minimum is at the vertex of one, or where two meet, as all do at 0. All are
    tried.

    Parameters
    ----------
    eigenvalues : (m,) array
        :math:`\\nu_i` of the drift, real or complex, none 0.

    Returns
    -------
    ConstantStep
        For real eigenvalues in :math:`[a, b]`: :math:`2/(a+b)`, with rate
        :math:`(b-a)/(b+a)`.
    """
    nu = checked_eigenvalues(eigenvalues)
    real, squared = nu.real, np.abs(nu) ** 2
    up, across = np.triu_indices(len(nu), 1)
    apart = squared[up] != squared[across]
    up, across = up[apart], across[apart]
    meet = 2 * (real[up] - real[across]) / (squared[up] - squared[across])
    tried = np.concatenate([[0.0], (1 / nu).real, meet])  # Re(1/nu): the vertices
    rates = np.abs(1 - tried[:, None] * nu).max(axis=1)
    best = int(rates.argmin())
    return ConstantStep(float(tried[best]), float(rates[best]))


class BestPolynomial(NamedTuple):
    """The polynomial of a degree that is smallest on a spectrum, between two bounds.

    Attributes
    ----------
    lower, upper : float
        :math:`\\min_p \\max_i |p(\\nu_i)|` lies between them. ``upper`` is what ``step_sizes``
        reach.
    step_sizes : complex array
        :math:`\\alpha_l`, at most ``L`` of them, complex ones in conjugate pairs:
        `ictd_lib.momentum.paired_momenta` turns them into real step sizes and momenta.
    """

    lower: float
    upper: float
    step_sizes: Complexes


def best_polynomial(
    eigenvalues: ArrayLike, layers: int, directions: int = 64
) -> BestPolynomial:
    """:math:`\\min_p \\max_i |p(\\nu_i)|` over real ``p`` of degree at most ``L``, :math:`p(0) = 1`.

    What no choice of step sizes and momenta can better: for every norm,
    :math:`\\|p(B)\\| \\ge \\max_i |p(\\nu_i)|`. Solved as a linear program, in which the
    modulus is replaced by the largest of its components along some directions; that is at
    least :math:`\\cos(\\pi/k)` of it.

    Parameters
    ----------
    eigenvalues : (m,) array
        :math:`\\nu_i`, of one drift or of many; conjugates may be left out. None 0.
    layers : int
        ``L``, at least 0.
    directions : int
        ``k``, at least 4.

    Returns
    -------
    BestPolynomial

    Raises
    ------
    ValueError
        If an argument isn't what it must be.
    ArithmeticError
        If the linear program isn't solved, as may happen with very many layers.
    """
    from scipy.optimize import linprog  # slow to load

    nu = checked_eigenvalues(eigenvalues)
    count = checked_count("layers", layers, at_least=0)
    directions = checked_count("directions", directions, at_least=4)
    if count == 0:
        return BestPolynomial(1.0, 1.0, np.zeros(0, dtype=np.complex128))
    nu = nu.real + 1j * np.abs(nu.imag)  # p is real: conjugates have conjugate values
    # Chebyshev polynomials of the real interval: powers would be nearly dependent.
    centre = (nu.real.min() + nu.real.max()) / 2
    radius = float(np.abs(nu - centre).max()) or abs(centre)
    cheb = np.polynomial.chebyshev
    basis = cheb.chebvander((nu - centre) / radius, count)
    at_zero = cheb.chebvander(np.array([-centre / radius]), count)[0]
    scale = np.abs(at_zero) + np.abs(basis).max(axis=0)
    angles = np.exp(-2j * np.pi * np.arange(directions) / directions)
    sides = (angles[:, None, None] * (basis / scale)).real.reshape(-1, count + 1)
    found = linprog(
        np.eye(count + 2)[-1],
        A_ub=np.column_stack([sides, -np.ones(len(sides))]),
        b_ub=np.zeros(len(sides)),
        A_eq=np.append(at_zero / scale, 0)[None],
        b_eq=[1],
        bounds=[(None, None)] * (count + 1) + [(0, None)],
        options={
            "primal_feasibility_tolerance": 1e-10,
            "dual_feasibility_tolerance": 1e-10,
        },
    )
    if not found.success:
        raise ArithmeticError(f"layers: got {count}, and {found.message}")
    series = found.x[:-1] / scale
    roots = cheb.chebroots(np.trim_zeros(series, "b")) * radius + centre
    upper = float(np.abs(basis @ series).max())
    return BestPolynomial(float(found.fun), upper, 1 / roots.astype(np.complex128))


def deflated_schedule(discount: float, step_sizes: ArrayLike) -> Floats:
    """The same step sizes with one layer before them that removes constants.

    Its step size is :math:`1/(1 - \\gamma)`: since :math:`B\\mathbf 1 = (1-\\gamma)\\mathbf 1`,
    the error has no component along :math:`\\mathbf 1` after it, whatever the chain, the
    context and the features [ours]. What remains converges at the rate of the *other*
    eigenvalues, which the discount doesn't hold back.

    Parameters
    ----------
    discount : float
        :math:`\\gamma`, at least 0 and less than 1.
    step_sizes : (L,) array
        For the other eigenvalues.

    Returns
    -------
    (L + 1,) array
    """
    first = 1 / (1 - checked_discount(discount))
    return np.append(first, as_floats("step_sizes", step_sizes))


def without_constants(eigenvalues: ArrayLike, discount: float) -> Complexes:
    """Eigenvalues of the drift without :math:`1 - \\gamma`, the one of the constants.

    Parameters
    ----------
    eigenvalues : (m,) array
        All of them.
    discount : float
        :math:`\\gamma`, at least 0 and less than 1.

    Returns
    -------
    (m - 1,) complex array
        Without the one that is nearest to :math:`1 - \\gamma`.
    """
    nu = np.asarray(eigenvalues, dtype=np.complex128)
    nearest = np.abs(nu - (1 - checked_discount(discount))).argmin()
    return np.delete(nu, nearest)


def span_contraction(operator: ArrayLike) -> Floats:
    """By how much a matrix with equal row sums shrinks the spread of a vector, at worst.

    :math:`\\tfrac12 \\max_{s, s'} \\sum_u |T(s, u) - T(s', u)|`: the largest ratio of
    :math:`\\max Tv - \\min Tv` to :math:`\\max v - \\min v`. For a transition matrix, Dobrushin's
    coefficient.

    Parameters
    ----------
    operator : (..., S, S) array
        :math:`T`, such as :math:`I - \\alpha B`.

    Returns
    -------
    (...) array

    Notes
    -----
    Source: Dobrushin (1956); Puterman (1994), section 6.6.
    """
    T = as_floats("operator", operator)
    apart = np.abs(T[..., :, None, :] - T[..., None, :, :]).sum(axis=-1)
    largest: Floats = apart.max(axis=(-2, -1))
    return largest / 2


def layers_to(
    accuracy: float,
    drift: ArrayLike,
    schedule: Callable[[int], ArrayLike],
    at_most: int = 1000,
) -> int | None:
    """Layers after which every error, from any start, is below a fraction of the first.

    The smallest ``L`` with :math:`\\|p_L(B)\\|_\\infty \\le \\varepsilon`.

    Parameters
    ----------
    accuracy : float
        :math:`\\varepsilon`, more than 0 and less than 1.
    drift : (S, S) array
        :math:`B`.
    schedule : function
        ``schedule(L)`` is the ``L`` step sizes for that depth, which may change with it.
    at_most : int
        Where to stop looking.

    Returns
    -------
    int or None
        None if there is none up to ``at_most``.
    """
    if not 0 < accuracy < 1:
        raise ValueError(f"accuracy: got {accuracy}, expected 0 < accuracy < 1")
    B = checked_drift(drift)
    done, product = np.zeros(0), np.eye(len(B))
    for layers in range(checked_count("at_most", at_most, at_least=0) + 1):
        steps = as_floats("schedule", schedule(layers))
        if steps.shape != (layers,):
            raise ValueError(
                f"schedule: got shape {steps.shape} for {layers} layers, expected ({layers},)"
            )
        known = len(done)
        if not np.array_equal(steps[:known], done):  # not the same steps and more
            known, product = 0, np.eye(len(B))
        with np.errstate(
            over="ignore", invalid="ignore"
        ):  # diverged: not below anything
            for alpha in steps[known:]:
                product = product - alpha * (B @ product)
            error = np.abs(product).sum(axis=1).max()
        done = steps
        if error <= accuracy:
            return layers
    return None


def fewest_layers(accuracy: float, eigenvalues: ArrayLike, at_most: int = 100) -> int:
    """The fewest layers for an accuracy that *any* polynomial could do with.

    The smallest ``L`` whose `best_polynomial` isn't proved to be above
    :math:`\\varepsilon`: a lower bound for step sizes and momenta of every kind, in every
    norm, that know the spectrum. At most the number of distinct eigenvalues, conjugates
    included.

    Parameters
    ----------
    accuracy : float
        :math:`\\varepsilon`, at least 1e-6 (below that the linear program isn't reliable).
    eigenvalues : (m,) array
        :math:`\\nu_i` of the drift; conjugates may be left out.
    at_most : int
        Where to stop looking.

    Returns
    -------
    int

    Raises
    ------
    ValueError
        If the accuracy is out of range.
    """
    if not 1e-6 <= accuracy < 1:
        raise ValueError(f"accuracy: got {accuracy}, expected 1e-6 <= accuracy < 1")
    nu = checked_eigenvalues(eigenvalues)
    distinct = len(np.unique(np.concatenate([nu, nu.conj()])))
    low, high = 0, min(distinct, checked_count("at_most", at_most, at_least=1))
    while high - low > 1:  # `low` isn't enough; the value falls with the degree
        middle = (low + high) // 2
        if best_polynomial(nu, middle).lower > accuracy:
            low = middle
        else:
            high = middle
    return high


def checked_drift(drift: ArrayLike) -> Floats:
    """A drift as a finite square float64 matrix, or a `ValueError`."""
    B = as_floats("drift", drift)
    if B.ndim != 2 or B.shape[0] != B.shape[1] or not np.isfinite(B).all():
        raise ValueError(
            f"drift: got shape {B.shape}, expected a square matrix of finite numbers"
        )
    return B


def checked_eigenvalues(eigenvalues: ArrayLike) -> Complexes:
    """Eigenvalues as a row of finite complex numbers, none 0, or a `ValueError`."""
    nu = np.asarray(eigenvalues, dtype=np.complex128)
    if nu.ndim != 1 or nu.size == 0 or not np.isfinite(nu).all() or (nu == 0).any():
        raise ValueError(
            f"eigenvalues: got {nu}, expected a row of finite numbers, none 0"
        )
    return nu


def check_interval(low: float, high: float) -> None:
    """A `ValueError` unless :math:`0 < a \\le b < \\infty`."""
    if not 0 < low <= high < np.inf:
        raise ValueError(f"low, high: got {low}, {high}, expected 0 < low <= high")
