"""Checks for assignment 2: the construction in another layout, with no mask."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .engine import AXIS, Case, Check, Off, Suspect, misshapen

_REWARD, _ONES, _FLAG, _FEATURES = (
    2,
    3,
    4,
    5,
)  # the current value is row 0, the target row 1


# --- Task 1: matrices -------------------------------------------------------------------------------


def _settings(rng: np.random.Generator) -> Iterator[Case]:
    yield "", (3, 0.7, 2.5, 9.0)
    yield "", (2, float(rng.uniform(0.1, 0.9)), 0.5, 20.0)
    yield "one feature", (1, 1.0, 4.0, 7.0)
    yield "no penalty", (4, 0.3, 1.5, 0.0)


def _reads(
    value: Any, features: int, step: float, sharpness: float, penalty: float
) -> Any:
    A, V = (np.asarray(part, dtype=float) for part in value)
    Z = np.random.default_rng(features).standard_normal((features + 5, 6))
    Z[_ONES], Z[_FLAG] = 1.0, np.arange(6) == 5
    other = Z.T @ A @ Z - sharpness * Z[_FEATURES:].T @ Z[_FEATURES:]
    settled = Z.copy()
    settled[0] = Z[1] + Z[_REWARD]  # no TD error anywhere
    empty = Z.copy()
    empty[:2] = 0.0
    return [
        np.abs(other[:-1]).max(),
        np.abs(other[-1] + penalty).max(),
        np.abs(V @ settled).max(),
        np.abs((V @ empty)[1:]).max(),
        np.abs((V @ empty)[0] - step * Z[_REWARD]).max(),
    ]


def _with_flag_row(value: Any, factor: float) -> Any:
    A = np.array(value[0], dtype=float)
    A[_FLAG] *= factor
    return A, value[1]


def _with_features(value: Any, factor: float) -> Any:
    A = np.array(value[0], dtype=float)
    A[_FEATURES:, _FEATURES:] *= factor
    return A, value[1]


head_matrices = Check(
    "head_matrices",
    _settings,
    _reads,
    suspects=(
        Suspect(
            "shape",
            "Two square matrices should come back, with a row and a column for each row of the prompt.",
            lambda v, features, *_: misshapen(v, *[(features + 5,) * 2] * 2),
        ),
        Suspect(
            "axis",
            "The penalty falls on those who ask, not on the one who is asked: which index of A is the source?",
            lambda v, *_: (np.transpose(v[0]), v[1]),
        ),
        Suspect(
            "sign",
            "The head moves values the wrong way: which way does a TD error point?",
            lambda v, *_: (v[0], -np.asarray(v[1])),
        ),
        Suspect(
            "sign",
            "The last column is made louder, not quieter.",
            lambda v, *_: _with_flag_row(v, -1.0),
        ),
        Suspect(
            "step size",
            "Right for a step size of 1 only.",
            lambda v, _, step, *__: (v[0], step * np.asarray(v[1])),
        ),
        Suspect(
            "sharpness",
            "Right for a sharpness of 1 only.",
            lambda v, _, __, sharpness, ___: _with_features(v, sharpness),
        ),
    ),
)


# --- Task 2: how large a penalty ---------------------------------------------------------------------


def _score_tables(rng: np.random.Generator) -> Iterator[Case]:
    yield "", (3.0 * rng.standard_normal((7, 7)), 0.2)
    yield "", (rng.standard_normal((20, 20)), 0.001)
    yield "a context of one transition", (2.0 * rng.standard_normal((2, 2)), 0.01)
    loud = 900.0 + 300.0 * rng.standard_normal((6, 6))
    loud[-1] += 300.0
    yield "large scores", (loud, 0.05)
    quiet = rng.standard_normal((9, 9))
    quiet[-1] -= 30.0
    yield "a query that nobody listens to anyway", (quiet, 0.1)


def _loudest(value: Any, scores: np.ndarray, share: float) -> Any:
    table = scores.copy()
    table[-1] -= float(value)
    table -= table.max(axis=0)
    table -= np.log(np.exp(table).sum(axis=0))
    over = table[-1].max() - np.log(share)
    needless = float(value) > 0
    return [max(0.0, -float(value)), over if needless else max(0.0, over)]


def _best_column(value: Any, scores: np.ndarray, share: float) -> Any:
    alone = (scores[:, [j]] for j in range(scores.shape[1]))
    return Off(min(np.max(np.abs(_loudest(value, one, share))) for one in alone))


smallest_penalty = Check(
    "smallest_penalty",
    _score_tables,
    _loudest,
    shape=lambda *_: (),
    suspects=(
        Suspect(
            "axis",
            "Rows and columns are exchanged: over which index does the softmax run?",
            lambda v, scores, share: Off(_loudest(v, scores.T, share)),
        ),
        Suspect(
            "normalisation",
            "The share is a little off, and more so if it is large: what do all weights of a column sum to?",
            lambda v, scores, share: Off(_loudest(v, scores, share / (1 + share))),
        ),
        Suspect(
            "column",
            "Enough for one column, but not the right amount for all of them together.",
            _best_column,
        ),
    ),
)


# --- Task 3: other rows ------------------------------------------------------------------------------


def _changes(rng: np.random.Generator) -> Iterator[Case]:
    for size in (5, 7):
        A, V = rng.standard_normal((2, size, size))
        yield "", (np.roll(np.eye(size), 2, axis=0), A, V)
    A, V = rng.standard_normal((2, 6, 6))
    yield "rows measured in other units", (np.diag(rng.uniform(0.3, 3.0, 6)), A, V)
    G = np.eye(6) + np.triu(rng.standard_normal((6, 6)), 1)
    yield "rows that are mixed", (G, A, V)


def _same_layer(value: Any, G: np.ndarray, A: np.ndarray, V: np.ndarray) -> Any:
    form, write = (np.asarray(part, dtype=float) for part in value)
    Z = np.random.default_rng(5).standard_normal((len(G), 8))
    scores = (G @ Z).T @ form @ (G @ Z) - Z.T @ A @ Z
    written = write @ (G @ Z) - G @ (V @ Z)
    return [np.abs(scores).max(), np.abs(written).max()]


in_other_rows = Check(
    "in_other_rows",
    _changes,
    _same_layer,
    suspects=(
        Suspect(
            "shape",
            "Two matrices of the given size should come back.",
            lambda v, G, *_: misshapen(v, G.shape, G.shape),
        ),
        Suspect(
            "direction",
            "Right for the way back, from the new rows to the old ones.",
            lambda v, G, A, V: Off(_same_layer(v, np.linalg.inv(G), A, V)),
        ),
        Suspect(
            "axis",
            "Source and query of the scores are exchanged.",
            lambda v, *_: (np.transpose(v[0]), v[1]),
        ),
        Suspect(
            "order",
            "The two matrices came back in the other order.",
            lambda v, *_: (v[1], v[0]),
        ),
    ),
)


# --- Task 5: who may be heard ------------------------------------------------------------------------


def _packs(rng: np.random.Generator) -> Iterator[Case]:
    yield "", (np.array([3, 5, 2]),)
    yield "", (rng.integers(2, 7, 4),)
    yield "one context alone", (np.array([4]),)
    yield "contexts of one transition", (np.array([1, 3, 1, 1]),)


def _heard_at_home(
    B: np.ndarray, lengths: np.ndarray, queries: int
) -> list[np.ndarray]:
    """For each context, what its columns hear of its sources, or of its sources and its query."""
    starts = np.cumsum(lengths + 1) - lengths - 1
    return [
        B[k : k + n + queries, k : k + n + 1]
        for k, n in zip(starts, lengths, strict=True)
    ]


def _who_listens(value: Any, lengths: np.ndarray, queries: int = 0) -> Any:
    B = np.asarray(value, dtype=float)
    at_home = _heard_at_home(B, lengths, 0)
    heard_in_all = sum(block.sum() for block in _heard_at_home(B, lengths, queries))
    return [
        np.abs(B * (1 - B)).max(),  # nothing but 0 and 1
        *(block.size - block.sum() for block in at_home),  # nobody is left out
        B.sum() - heard_in_all,  # and nobody else is heard
    ]


def _leaks(value: Any, lengths: np.ndarray) -> Any:
    """Whether all is right but for sources that are heard in another context."""
    B = np.asarray(value, dtype=float)
    silent = len(B) - np.sum(B.any(axis=1))
    return Off([*_who_listens(B, lengths)[:-1], float(silent - len(lengths))])


heard = Check(
    "heard",
    _packs,
    _who_listens,
    shape=lambda lengths: (int(np.sum(lengths + 1)),) * 2,
    suspects=(
        AXIS,
        Suspect(
            "mask",
            "Somebody hears a query.",
            lambda v, lengths: Off(_who_listens(v, lengths, 1)),
        ),
        Suspect("leak", "One context hears another.", _leaks),
    ),
)


# --- Task 7: a sign that changes ---------------------------------------------------------------------


def _discounts(rng: np.random.Generator) -> Iterator[Case]:
    yield "", (0.5,)
    yield "", (float(rng.uniform(0.3, 0.7)),)
    yield "a discount near 1", (0.95,)
    yield "a small discount", (0.15,)


def _second_update(
    x: np.ndarray, rewards: np.ndarray, discount: float, sources: int
) -> float:
    """How much the second layer adds in the last column; the last source may be the query."""
    scores = x[:sources] @ x.T
    weights = np.exp(scores - scores.max(axis=0))
    weights /= weights.sum(axis=0)
    paid = np.append(rewards, 0.0)
    values = paid[:sources] @ weights
    error = paid + discount * np.append(values[1:], 0.0) - values
    return float((error[:sources] @ weights)[-1])


def _both_ways(value: Any, discount: float) -> Any:
    x, rewards = (np.asarray(part, dtype=float) for part in value)
    if x.ndim != 2 or rewards.shape != (len(x) - 1,):
        raise ValueError("no prompt")
    least = 0.05 * np.abs(rewards).max()
    masked, unmasked = (
        _second_update(x, rewards, discount, k) for k in (len(rewards), len(x))
    )
    if not least > 0:
        raise ValueError("nothing is paid")
    return [max(0.0, least - masked), max(0.0, least + unmasked)]


def _no_prompt(value: Any) -> Off:
    try:
        states, features = np.shape(value[0])
    except (TypeError, ValueError, IndexError):
        return Off(0.0)
    return misshapen(value, (states, features), (states - 1,))


sign_flip = Check(
    "sign_flip",
    _discounts,
    _both_ways,
    suspects=(
        Suspect(
            "off by one",
            "There are as many rewards as transitions, one fewer than states.",
            lambda v, *_: (v[0], np.asarray(v[1])[:-1]),
        ),
        Suspect(
            "sign",
            "The sign changes, but from minus to plus.",
            lambda v, *_: (v[0], -np.asarray(v[1])),
        ),
        Suspect(
            "axis",
            "Each state should be a row of x.",
            lambda v, *_: (np.transpose(v[0]), v[1]),
        ),
        Suspect(
            "shape",
            "An array of states, one a row, and an array of rewards should come back.",
            lambda v, _: _no_prompt(v),
        ),
    ),
)
