"""Chains on which softmax TD diverges, and what an optimiser maximises to find more.

A layer of step size :math:`\\alpha` is :math:`I - \\alpha B` with :math:`B = M(I - \\gamma P)`. It diverges
if and only if :math:`|1 - \\alpha\\nu| > 1` for an eigenvalue :math:`\\nu` of ``B``; if
:math:`\\mathrm{Re}\\,\\nu < 0`, then whatever the step size.

All of it is ours.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ictd_lib.chain import MarkovRewardProcess
from ictd_lib.checks import Floats, as_floats
from ictd_lib.operators import finite_matrices


def unequal_norms() -> tuple[MarkovRewardProcess, Floats]:
    """Three states on a line that diverge: :math:`\\rho = 1.1625`.

    :math:`B` has the eigenvalue :math:`-0.1625`, so no step size helps. Features
    :math:`(1, 6, 5)`, :math:`\\gamma = 1/2`: the two states that are near each other have keys
    that outweigh the third's by :math:`e^{12}` and more, though one is seldom visited.

    Returns
    -------
    MarkovRewardProcess, (3, 1) array
        The process, whose rewards are :math:`(0, 0, 1)`, and the features.
    """
    transition = np.array([[0, 0.05, 0.95], [0.4, 0.6, 0], [1, 0, 0]])
    features = np.array([[1.0], [6.0], [5.0]])
    return MarkovRewardProcess(transition, [0, 0, 1], 0.5), features


def equal_norms() -> tuple[MarkovRewardProcess, Floats]:
    """Four states on a circle of radius 6 that diverge: :math:`\\rho = 1.00276`.

    Features of one norm do not save softmax TD. State ``h``, at 43 degrees, keeps to itself
    with probability .9999; else a tour through ``b``, ``c``, ``a`` follows, at 0, 14 and 2.5
    degrees. :math:`\\gamma = .9`. Two eigenvalues of ``B`` are :math:`-.00274 \\pm .00664 i`:
    no step size helps.

    Returns
    -------
    MarkovRewardProcess, (4, 2) array
        The process, whose rewards are :math:`(0, 0, 0, 1)`, and the features.

    Notes
    -----
    Its kernel is so nearly singular that float64 keeps about four digits of :math:`\\rho`.
    """
    transition = np.roll(np.eye(4), 1, axis=1)
    transition[0, :2] = 0.9999, 0.0001
    angles = np.deg2rad([43.0, 0.0, 14.0, 2.5])
    features = 6 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    return MarkovRewardProcess(transition, [0, 0, 0, 1], 0.9), features


def drift_eigenvalues(
    kernel: ArrayLike, transition: ArrayLike, discount: float | Floats
) -> NDArray[np.complex128]:
    """Eigenvalues :math:`\\nu` of :math:`B = M(I - \\gamma P)`.

    Parameters
    ----------
    kernel, transition : (..., S, S) arrays
        ``M`` and ``P``.
    discount : float or (...) array
        :math:`\\gamma`.

    Returns
    -------
    (..., S) complex array

    Raises
    ------
    ValueError
        If they aren't square matrices of one size.
    """
    m, p = finite_matrices("kernel", kernel), finite_matrices("transition", transition)
    if p.shape[-1] != m.shape[-1]:
        raise ValueError(
            f"transition: got shape {p.shape}, expected (..., {m.shape[-1]}, {m.shape[-1]}) "
            "like the kernel"
        )
    gamma = as_floats("discount", discount)[..., None, None]
    drift = m @ (np.eye(p.shape[-1]) - gamma * p)
    return np.linalg.eigvals(drift).astype(np.complex128)


def violation(eigenvalues: ArrayLike, step_size: ArrayLike = 1.0) -> Floats:
    """How far the worst eigenvalue is beyond the unit circle, relative to its own size.

    .. math::

        \\max_\\nu \\frac{|1 - \\alpha\\nu| - 1}{|\\alpha\\nu|}

    More than 0 if and only if the layer diverges. To look for divergence, maximise this
    rather than :math:`\\rho`: a search for a large :math:`\\rho` ends where features coincide, at
    :math:`\\nu = 0` and :math:`\\rho = 1`, which this does not reward.

    Parameters
    ----------
    eigenvalues : (..., S) complex array
        :math:`\\nu`.
    step_size : float or (...) array
        :math:`\\alpha`.

    Returns
    -------
    (...) array
        From -1 to 1. An eigenvalue that is 0 counts as 0.
    """
    nu = as_complex("eigenvalues", eigenvalues)
    nu = nu * as_floats("step_size", step_size)[..., None]
    size = np.abs(nu)
    # |1 - nu| - 1 = (|nu|^2 - 2 Re nu)/(|1 - nu| + 1), without the cancellation
    beyond = (size**2 - 2 * nu.real) / (np.abs(1 - nu) + 1)
    worst: Floats = (beyond / np.where(size == 0, 1.0, size)).max(axis=-1)
    return worst


def as_complex(name: str, values: ArrayLike) -> NDArray[np.complex128]:
    """As complex128, or a `ValueError` if a number isn't finite."""
    numbers = np.asarray(values, dtype=np.complex128)
    if not np.isfinite(numbers).all():
        raise ValueError(f"{name}: got {values!r}, expected finite numbers")
    return numbers
