"""Features: what the learner sees of a state.

A feature map is a matrix ``X`` of shape ``(S, d)``, one state a row,
:math:`x(s)` = ``X[s]``. Two states are told apart as far as their rows differ.
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from ictd_lib.checks import Floats, checked_count


def one_hot_features(n_states: int, sharpness: float = 1.0) -> Floats:
    """One-hot features :math:`x(s) = \\sqrt\\tau\\, e_s`.

    The inner product of a state with itself is the sharpness :math:`\\tau`, and 0 with
    every other. As :math:`\\tau` grows, softmax weights between states become tabular.

    Parameters
    ----------
    n_states : int
        Number of states, at least 1.
    sharpness : float
        :math:`\\tau`, finite and at least 0.

    Returns
    -------
    (S, S) array

    Raises
    ------
    ValueError
        If an argument is out of its range.
    """
    n_states = checked_count("n_states", n_states, at_least=1)
    return sqrt(_finite_at_least_zero("sharpness", sharpness)) * np.eye(n_states)


def unit_features(n_states: int, dimension: int, rng: np.random.Generator) -> Floats:
    """Independent random features, uniform on the unit sphere of :math:`\\mathbb R^d`.

    Parameters
    ----------
    n_states, dimension : int
        Number of states and ``d``, each at least 1.
    rng : numpy.random.Generator
        Source of all randomness.

    Returns
    -------
    (S, d) array
        Rows of Euclidean norm 1.

    Raises
    ------
    ValueError
        If ``n_states`` or ``dimension`` is less than 1.
    """
    rows = gaussian_features(n_states, dimension, rng)
    unit: Floats = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return unit


def gaussian_features(
    n_states: int, dimension: int, rng: np.random.Generator, scale: float = 1.0
) -> Floats:
    """Random features with independent entries :math:`N(0, \\mathrm{scale}^2)`.

    Unlike `unit_features`, states differ in norm; under a softmax a larger norm makes a
    source weigh more with every query that points its way.

    Parameters
    ----------
    n_states, dimension : int
        Number of states and ``d``, each at least 1.
    rng : numpy.random.Generator
        Source of all randomness.
    scale : float
        Standard deviation of an entry, finite and at least 0.

    Returns
    -------
    (S, d) array

    Raises
    ------
    ValueError
        If an argument is out of its range.
    """
    n_states = checked_count("n_states", n_states, at_least=1)
    dimension = checked_count("dimension", dimension, at_least=1)
    _finite_at_least_zero("scale", scale)
    return scale * rng.standard_normal((n_states, dimension))


def boyan_features(n_states: int = 13, dimension: int = 4) -> Floats:
    """Boyan's features: linear interpolation between equally spaced anchor states.

    Feature ``i`` is 1 at anchor ``i``, falls linearly to 0 at the anchors beside it, and
    stays 0 beyond. The first anchor is the *last* state, where Boyan's chain starts:
    with 13 states and 4 features, :math:`x(12) = (1, 0, 0, 0)`,
    :math:`x(11) = (\\tfrac34, \\tfrac14, 0, 0)`, :math:`x(8) = (0, 1, 0, 0)`,
    :math:`x(0) = (0, 0, 0, 1)`.

    Parameters
    ----------
    n_states : int
        Number of states, at least 2.
    dimension : int
        Number of anchors ``d``, from 2 to ``n_states``.

    Returns
    -------
    (S, d) array
        Entries at least 0, rows summing to 1, rank ``d``.

    Raises
    ------
    ValueError
        If an argument is out of its range.

    Notes
    -----
    Source: Boyan (2002), section 5; there :math:`|\\mathcal S| = 13`, :math:`d = 4`.
    """
    n_states = checked_count("n_states", n_states, at_least=2)
    dimension = checked_count("dimension", dimension, at_least=2)
    if dimension > n_states:
        raise ValueError(
            f"dimension: got {dimension}, expected 2 <= dimension <= n_states = {n_states}"
        )
    # Multiplied before it is divided, so that anchors on whole states are hit exactly.
    position = np.arange(n_states)[::-1] * (dimension - 1) / (n_states - 1)
    distance = np.abs(position[:, None] - np.arange(dimension))
    return np.maximum(0.0, 1.0 - distance)


def _finite_at_least_zero(name: str, number: float) -> float:
    if not 0 <= number < np.inf:
        raise ValueError(f"{name}: got {number}, expected a finite number >= 0")
    return float(number)
