"""Values as text: what may leave a process that runs a student's code, and how it's compared.

JSON, so that reading a value runs nothing. An array is its shape, its kind and its numbers; a
number that isn't finite stays what it is.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

#: Largest text that is kept of a string.
_LONGEST = 1000

#: Relative to the size of the numbers: the last digits of a sum in another order pass.
TOLERANCE = 1e-6


class Foreign:
    """Stands for a value of a type that can't be passed on."""

    def __init__(self, name: str) -> None:
        self.name = name


def encode(value: Any) -> Any:
    """What JSON can hold of a value: numbers, text, arrays, and tuples, lists, dicts of them.

    Tensors become arrays; of any other object only the name of its type is left.
    """
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return value[:_LONGEST]
    if isinstance(value, (tuple, list)):
        return {"list": [encode(item) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[str(key), encode(item)] for key, item in value.items()]}
    if type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    numbers = _numbers(value)
    if numbers is None:
        return {"other": type(value).__name__}
    if isinstance(value, np.generic):
        return numbers.item()
    return {
        "array": numbers.ravel().tolist(),
        "shape": list(numbers.shape),
        "kind": numbers.dtype.kind,
    }


def _numbers(value: Any) -> np.ndarray | None:
    """What is as good as real numbers, as the checks take it: a range, fractions, an imaginary part of 0."""
    try:
        array = np.asarray(value)
        if array.dtype.kind == "c" and close(array.imag, 0 * array.real):
            array = array.real
        if array.dtype.kind in "fO":  # the longest floats are none that JSON knows
            array = array.astype(float)
    except Exception:  # an object may do anything when it's asked for numbers
        return None
    return array if array.dtype.kind in "biuf" else None


def decode(encoded: Any) -> Any:
    """The value that `encode` made this of.

    Raises
    ------
    ValueError
        If it is nothing that `encode` makes.
    """
    if encoded is None or isinstance(encoded, (bool, int, float, str)):
        return encoded
    try:
        match encoded:
            case {"list": items}:
                return [decode(item) for item in items]
            case {"dict": pairs}:
                return {str(key): decode(item) for key, item in pairs}
            case {
                "array": numbers,
                "shape": shape,
                "kind": ("b" | "i" | "u" | "f") as kind,
            }:
                dtype = {"b": np.bool_, "f": np.float64}.get(kind, np.int64)
                return np.array(numbers, dtype=dtype).reshape(shape)
            case {"other": str(name)}:
                return Foreign(name[:60])
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(f"not an encoded value: {error}") from None
    raise ValueError(f"not an encoded value: {str(encoded)[:60]!r}")


def dumps(value: Any) -> str:
    """A value as one line of text."""
    return json.dumps(encode(value))


def loads(text: str) -> Any:
    """The value that `dumps` made a line of."""
    return decode(json.loads(text))


@dataclass(frozen=True)
class Fault:
    """Why a value isn't accepted: the kind of fault, and a sentence that gives no value away."""

    kind: str
    message: str


def compare(value: Any, expected: Any, tolerance: float = TOLERANCE) -> Fault | None:
    """Say in what way a value differs from what was expected, or return None if it doesn't.

    Numbers agree where :math:`|a - b| \\le \\text{tolerance}\\,(1 + |b|)`.
    """
    if isinstance(value, Foreign):
        return Fault("type", f"a {value.name} came back")
    if isinstance(expected, (list, tuple)):
        if not isinstance(value, (list, tuple)):
            return Fault("type", f"expected {len(expected)} values, one after another")
        if len(value) != len(expected):
            return Fault("shape", f"{len(value)} values came back, not {len(expected)}")
        faults = [
            compare(v, e, tolerance) for v, e in zip(value, expected, strict=True)
        ]
        return next((fault for fault in faults if fault), None)
    if isinstance(expected, dict):
        if not isinstance(value, dict) or set(value) != set(map(str, expected)):
            return Fault("type", f"expected a dict with keys {sorted(expected)}")
        faults = [compare(value[str(k)], e, tolerance) for k, e in expected.items()]
        return next((fault for fault in faults if fault), None)
    if expected is None or isinstance(expected, (str, bool, np.bool_)):
        if isinstance(value, np.ndarray) and value.ndim == 0:
            value = value.item()
        same = type(value) is type(expected) or isinstance(expected, np.bool_)
        return None if same and value == expected else Fault("value", "another answer")
    return _compare_numbers(value, expected, tolerance)


def _compare_numbers(value: Any, expected: Any, tolerance: float) -> Fault | None:
    if value is None:
        return Fault("type", "nothing came back (is a `return` missing?)")
    if isinstance(value, (str, dict)):
        return Fault("type", f"a {type(value).__name__} came back, not numbers")
    try:
        got = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        return Fault("type", "what came back isn't an array of numbers")
    want = np.asarray(expected, dtype=float)
    if got.shape != want.shape:
        if got.T.shape == want.shape and close(got.T, want, tolerance):
            return Fault("axis", "rows and columns are exchanged")
        return Fault("shape", f"shape {got.shape} came back, not {want.shape}")
    if close(got, want, tolerance):
        return None
    if not np.isfinite(got).all() and np.isfinite(want).all():
        return Fault("not finite", "some numbers aren't finite")
    if close(-got, want, tolerance):
        return Fault("sign", "the sign is the opposite")
    if got.ndim == 2 and got.shape[0] == got.shape[1] and close(got.T, want, tolerance):
        return Fault("axis", "rows and columns are exchanged")
    if _proportional(got, want, tolerance):
        return Fault("normalisation", "right but for a factor")
    return Fault("value", "other numbers")


def close(got: np.ndarray, want: np.ndarray, tolerance: float = TOLERANCE) -> bool:
    """Whether arrays of one shape agree, NaN with NaN, infinity with infinity."""
    return bool(np.allclose(got, want, rtol=tolerance, atol=tolerance, equal_nan=True))


def _proportional(got: np.ndarray, want: np.ndarray, tolerance: float) -> bool:
    """Whether one positive factor, or one for each row, separates them."""
    if got.size < 2 or not (np.isfinite(got).all() and np.isfinite(want).all()):
        return False

    def matches(a: np.ndarray, b: np.ndarray) -> bool:
        square = (a * a).sum(axis=-1, keepdims=True)
        factor = (a * b).sum(axis=-1, keepdims=True) / np.where(square > 0, square, 1)
        return bool((factor > 0).all()) and close(factor * a, b, tolerance)

    return matches(got.ravel(), want.ravel()) or (
        got.ndim > 1 and got.shape[-1] > 1 and matches(got, want)
    )
