"""What arguments must be: the checks that several modules share.

Each returns its argument in the form that is worked with, or raises a `ValueError` that
names it, says what was got and what was expected.
"""

from __future__ import annotations

from operator import index

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def checked_discount(discount: float) -> float:
    """The discount :math:`\\gamma` as a float, or a `ValueError` if it isn't in [0, 1)."""
    if not 0 <= discount < 1:
        raise ValueError(f"discount: got {discount}, expected 0 <= discount < 1")
    return float(discount)


def as_whole(number: object) -> int | None:
    """An integer of any kind, or a float equal to one, as an int; None for all else."""
    if isinstance(number, float | np.floating):
        return int(number) if float(number).is_integer() else None
    try:
        return index(number)  # type: ignore[arg-type]  # that's what is being tried
    except TypeError:
        return None


def checked_count(name: str, number: int, at_least: int) -> int:
    """A whole number of at least so many, as an int, or a `ValueError`."""
    whole = as_whole(number)
    if whole is None or whole < at_least:
        raise ValueError(
            f"{name}: got {number!r}, expected a whole number >= {at_least}"
        )
    return whole


def as_floats(name: str, values: ArrayLike) -> Floats:
    """As float64, copied only if need be, or a `ValueError` for complex numbers."""
    if np.iscomplexobj(values):
        raise ValueError(f"{name}: got complex numbers, expected real ones")
    return np.asarray(values, dtype=np.float64)


def within_range(what: str, result: ArrayLike) -> Floats:
    """A result computed from finite numbers, or an `OverflowError` if it isn't finite."""
    numbers = np.asarray(result, dtype=np.float64)
    if not np.isfinite(numbers).all():
        raise OverflowError(f"{what}: beyond the range of floats, about 1.8e308")
    return numbers


def checked_vector(name: str, values: ArrayLike, length: int) -> Floats:
    """A finite float64 copy of shape (length,), one number a state, or a `ValueError`."""
    vector = as_floats(name, values).copy()
    if vector.shape != (length,):
        raise ValueError(
            f"{name}: got shape {vector.shape}, expected ({length},), one for each state"
        )
    if not np.isfinite(vector).all():
        raise ValueError(f"{name}: got {vector}, expected finite numbers")
    return vector
