"""What arguments must be: the checks that several modules share.

Each returns its argument in the form that is worked with, or raises a `ValueError` that
names it, says what was got and what was expected.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def checked_discount(discount: float) -> float:
    """The discount :math:`\\gamma` as a float, or a `ValueError` if it isn't in [0, 1)."""
    if not 0 <= discount < 1:
        raise ValueError(f"discount: got {discount}, expected 0 <= discount < 1")
    return float(discount)


def checked_count(name: str, number: int, at_least: int) -> int:
    """A whole number of at least so many, as an int, or a `ValueError`."""
    if number != int(number) or number < at_least:
        raise ValueError(f"{name}: got {number}, expected a whole number >= {at_least}")
    return int(number)


def checked_vector(name: str, values: ArrayLike, length: int) -> Floats:
    """A finite float64 copy of shape (length,), one number a state, or a `ValueError`."""
    vector = np.array(values, dtype=np.float64)
    if vector.shape != (length,):
        raise ValueError(
            f"{name}: got shape {vector.shape}, expected ({length},), one for each state"
        )
    if not np.isfinite(vector).all():
        raise ValueError(f"{name}: got {vector}, expected finite numbers")
    return vector
