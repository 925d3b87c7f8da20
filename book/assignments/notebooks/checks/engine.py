"""A check: it tries a student's function on several inputs, and says what kind of fault it sees.

It knows what the right value satisfies (an identity, a balance, a limit), not how to get it: there is
nothing in it to copy. A fault is named by what would mend it: if the negative of what came back
satisfies the identity, the fault is the sign.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .values import TOLERANCE

#: What a case is: what is special about it ("" if nothing is), and the arguments.
Case = tuple[str, tuple[Any, ...]]


class Instead(NamedTuple):
    """What a repair may give: the value is right for other inputs (arguments exchanged, say)."""

    value: Any
    inputs: tuple[Any, ...]


@dataclass(frozen=True)
class Off:
    """What a repair may give: how far the value is from what another question asks for."""

    by: Any


@dataclass(frozen=True)
class Suspect:
    """A kind of fault, and the repair that would show it.

    Attributes
    ----------
    kind : str
        One word: ``"axis"``, ``"sign"``, ``"normalisation"``, ...
    hint : str
        A sentence for the student; it gives no value and no formula away.
    repair : callable
        ``repair(value, *inputs)`` makes a value right that has this fault and no other; or says
        what it is right for, as `Instead` or `Off`. Students can read it: it must not compute
        the answer.
    """

    kind: str
    hint: str
    repair: Callable[..., Any]


def otherwise(kind: str, hint: str, residual: Callable[..., Any]) -> Suspect:
    """A fault that is known by what the value satisfies instead: its residual there is 0."""
    return Suspect(kind, hint, lambda *inputs: Off(residual(*inputs)))


def misshapen(value: Any, *shapes: tuple[int, ...]) -> Off:
    """Whether what came back isn't one array of each of these shapes: for a repair."""
    try:
        same = [np.shape(part) for part in value] == list(shapes)
    except (TypeError, ValueError):
        same = False
    return Off(np.nan if same else 0.0)


SIGN = Suspect(
    "sign",
    "The opposite sign would be right: what is subtracted from what?",
    lambda v, *_: -v,
)
AXIS = Suspect(
    "axis",
    "Rows and columns are exchanged.",
    lambda v, *_: v.T,
)


@dataclass(frozen=True)
class Verdict:
    """What came of a check: ``kind`` is "right", "not done", "error" or the kind of fault."""

    kind: str
    message: str
    passed: int
    total: int


@dataclass(frozen=True)
class Check:
    """What a function must satisfy.

    Attributes
    ----------
    name : str
        The function's.
    cases : callable
        ``cases(rng)`` gives inputs, ordinary ones first, then awkward ones with their label.
    residual : callable
        ``residual(value, *inputs)``: how far the value is from what defines it, as a number or an
        array; 0 where it is right.
    shape : callable or None
        ``shape(*inputs)``: the shape that must come back; None if that is for ``residual`` to say.
    suspects : sequence of Suspect
        Tried in order, on the first input that fails.
    tolerance : float
        On the largest entry of the residual.
    """

    name: str
    cases: Callable[[np.random.Generator], Iterable[Case]]
    residual: Callable[..., Any]
    shape: Callable[..., tuple[int, ...]] | None = None
    suspects: Sequence[Suspect] = ()
    tolerance: float = TOLERANCE

    def __call__(self, function: Callable[..., Any]) -> None:
        """Try a function, and print in a line or two what was found."""
        verdict = self.verdict(function)
        if verdict.kind == "right":
            print(f"{self.name}: right on all {verdict.total} inputs.")
        elif verdict.kind == "not done":
            print(f"{self.name}: not done yet.")
        else:
            print(f"{self.name}: {verdict.kind}. {verdict.message}")

    def verdict(self, function: Callable[..., Any]) -> Verdict:
        """Try a function; print nothing, not even a library's warning."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self._verdict(function)

    def _verdict(self, function: Callable[..., Any]) -> Verdict:
        cases = list(self.cases(np.random.default_rng(2026)))
        passed = 0
        first: tuple[str, str] | None = None
        for label, inputs in cases:
            copies = tuple(_copy(part) for part in inputs)
            problem: tuple[str, str] | None
            try:
                value = function(*copies)
            except NotImplementedError:
                return Verdict("not done", "", 0, len(cases))
            except Exception as error:
                problem = ("error", f"{type(error).__name__}: {str(error)[:200]}")
            else:
                nothing = value is None or value is Ellipsis
                if nothing and not passed:
                    return Verdict("not done", "", 0, len(cases))
                changed = any(
                    isinstance(part, np.ndarray)
                    and not np.array_equal(part, copy, equal_nan=True)
                    for part, copy in zip(inputs, copies, strict=True)
                )
                if changed:
                    problem = "side effect", "Your function changes its own input."
                elif nothing:
                    problem = "type", "Nothing came back: is a `return` missing?"
                else:
                    problem = self._problem(value, inputs)
            if not problem:
                passed += 1
            elif first is None:
                first = self._edge(problem, label, passed)
        if first is None:
            return Verdict("right", "", passed, len(cases))
        return Verdict(*first, passed, len(cases))

    def _edge(
        self, problem: tuple[str, str], label: str, passed: int
    ) -> tuple[str, str]:
        """A fault that ordinary inputs don't show is one of the awkward case."""
        kind, message = problem
        if label and passed and kind != "error":
            return "edge case", f"Right on ordinary inputs, but not here: {label}."
        where = f" (Input: {label}.)" if label else ""
        return kind, message + where

    def _problem(self, value: Any, inputs: tuple[Any, ...]) -> tuple[str, str] | None:
        if self.shape is not None:
            try:
                value = np.asarray(value, dtype=float)
            except (TypeError, ValueError):
                return "type", "What came back isn't an array of numbers."
            want = self.shape(*inputs)
            if value.shape != want:
                if value.T.shape == want and self._holds(value.T, inputs):
                    return AXIS.kind, AXIS.hint
                return "shape", f"Shape {value.shape} came back, expected {want}."
            if not np.isfinite(value).all():
                return "not finite", "Some numbers aren't finite."
        if self._holds(value, inputs):
            return None
        for suspect in self.suspects:
            with np.errstate(all="ignore"):
                try:
                    repaired = suspect.repair(value, *inputs)
                except Exception:  # a repair that doesn't apply shows nothing
                    continue
            if self._holds(repaired, inputs):
                return suspect.kind, suspect.hint
        return "value", "The numbers don't satisfy what defines them."

    def _holds(self, value: Any, inputs: tuple[Any, ...]) -> bool:
        if isinstance(value, Instead):
            value, inputs = value
        with np.errstate(all="ignore"):
            try:
                off = (
                    value.by
                    if isinstance(value, Off)
                    else self.residual(value, *inputs)
                )
                largest = np.max(np.abs(np.asarray(off, dtype=float)))
            except Exception:  # a value of the wrong kind satisfies nothing
                return False
        return bool(largest <= self.tolerance)


def _copy(part: Any) -> Any:
    return part.copy() if isinstance(part, np.ndarray) else part
