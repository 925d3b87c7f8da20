"""Checks for assignment 1, weighted softmax TD."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ictd_lib import Context, inner_product_scores, weighted_softmax_td

from .engine import SIGN, Case, Check, Instead, Suspect


def _row_sums(value: np.ndarray) -> np.ndarray:
    total = value.sum(axis=1, keepdims=True)
    return np.asarray(np.where(total == 0, 1, total))


# --- Another sharpness -----------------------------------------------------------------------------


def _weights(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    raw = rng.uniform(0.1, 1, shape)
    weights: np.ndarray = raw / raw.sum(axis=1, keepdims=True)
    return weights


def _sharpen_cases(rng: np.random.Generator) -> Iterator[Case]:
    yield "", (_weights(rng, (3, 5)), 2.5)
    yield "", (_weights(rng, (4, 4)), 0.3)
    masked = np.tril(rng.uniform(0.1, 1, (4, 4)))
    masked /= masked.sum(axis=1, keepdims=True)
    yield "some weights are 0", (masked, 3.0)
    yield "sharpness 0, and some weights are 0", (masked, 0.0)
    even = 1 + 0.01 * rng.standard_normal((3, 50))
    yield "a large sharpness", (even / even.sum(axis=1, keepdims=True), 400.0)


def _log_gap(value: np.ndarray, weights: np.ndarray, sharpness: float) -> np.ndarray:
    """Logs of new weights less multiples of the old logs: one number for each query."""
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = np.log(value) - sharpness * np.log(weights)
    return np.where(weights > 0, gap, np.nan)


def _uneven(value: np.ndarray, gap: np.ndarray) -> np.ndarray:
    """How far each row of a gap is from one number; a small weight's log counts little."""
    value = np.where(np.isnan(gap), 0, value)
    gap = np.nan_to_num(gap, posinf=np.inf, neginf=-np.inf)
    mean = (value * gap).sum(axis=1, keepdims=True) / _row_sums(value)
    return np.asarray(value * (gap - mean)).ravel()


def _sharpen_residual(
    value: np.ndarray, weights: np.ndarray, sharpness: float
) -> np.ndarray:
    uneven = _uneven(value, _log_gap(value, weights, sharpness))
    masked = np.where(weights > 0, 0, value)
    return np.concatenate([value.sum(axis=1) - 1, uneven, masked.ravel()])


def _undo_columns(
    value: np.ndarray, weights: np.ndarray, sharpness: float
) -> np.ndarray:
    with np.errstate(all="ignore"):
        gap = np.nan_to_num(_log_gap(value, weights, sharpness)).mean(axis=0)
        undone = value * np.exp(-gap)
    return np.asarray(undone / _row_sums(undone))


sharpen = Check(
    "sharpen",
    _sharpen_cases,
    _sharpen_residual,
    shape=lambda weights, _: weights.shape,
    suspects=(
        Suspect(
            "normalisation",
            "The proportions are right. What must the weights of a query add up to?",
            lambda v, *_: v / _row_sums(v),
        ),
        Suspect(
            "axis",
            "Each column was made to add up to 1. Which index is summed over?",
            _undo_columns,
        ),
        Suspect(
            "temperature",
            "Larger sharpness should make the weights more unequal, here it's the other way round.",
            lambda v, _, sharpness: v**sharpness**2 / _row_sums(v**sharpness**2),
        ),
    ),
)


# --- One update from a log -------------------------------------------------------------------------


def _log(
    rng: np.random.Generator, n: int, left: int, entered: int, ends: float = 0.0
) -> np.ndarray:
    """Lines (state, action, reward, next state) in no order."""
    log = np.column_stack(
        [
            rng.integers(left, size=n),
            rng.integers(3, size=n),
            rng.standard_normal(n),
            rng.integers(entered, size=n),
        ]
    ).astype(float)
    log[rng.random(n) < ends, 3] = -1
    return log


def _update_cases(rng: np.random.Generator) -> Iterator[Case]:
    def case(states: int, log: np.ndarray, scale: float = 1.0) -> tuple[Any, ...]:
        scores = scale * rng.standard_normal((states, states))
        return rng.standard_normal(states), log, scores, 0.9, 0.3

    yield "", case(4, _log(rng, 12, 4, 4))
    yield "", case(5, _log(rng, 9, 5, 5))
    yield "states that no line of the log has left", case(6, _log(rng, 7, 3, 6))
    twice = _log(rng, 6, 4, 4)
    yield "a line that occurs three times", case(4, twice[[0, 1, 2, 2, 2, 3, 4, 5]])
    ended = _log(rng, 9, 4, 4, ends=0.4)
    ended[4, 3] = -1
    yield "episodes that end", case(4, ended)
    yield "scores in the thousands", case(4, _log(rng, 8, 4, 4), scale=2e3)
    yield "a log of one line", case(3, _log(rng, 1, 3, 3))


def _update_residual(value: Any, *inputs: Any) -> np.ndarray:
    """Deviations from the mean, weighted as the mean was, cancel."""
    values, log, scores, discount, step_size = inputs
    left, _, paid, entered = log.T
    left, entered = left.astype(int), entered.astype(int)
    after = np.append(values, 0.0)[entered]  # -1 is the appended end
    moved = (value - values) / step_size
    away = paid + discount * after - values[left] - moved[:, None]
    heights = scores[:, left]
    balance: np.ndarray = np.sum(
        away * np.exp(heights - heights.max(axis=1, keepdims=True)), axis=1
    )
    return balance


softmax_update = Check(
    "softmax_update",
    _update_cases,
    _update_residual,
    shape=lambda values, *_: values.shape,
    suspects=(
        Suspect(
            SIGN.kind,
            "Values move away from where they should go.",
            lambda v, values, *_: 2 * values - v,
        ),
        Suspect(
            "step",
            "Right for another step size.",
            lambda v, values, log, g, discount, _: Instead(
                v, (values, log, g, discount, 1.0)
            ),
        ),
        Suspect(
            "discount",
            "Right for a process that discounts nothing.",
            lambda v, values, log, g, _, step: Instead(v, (values, log, g, 1.0, step)),
        ),
        Suspect(
            "axis",
            "Query and source are exchanged in the scores.",
            lambda v, values, log, g, discount, step: Instead(
                v, (values, log, g.T, discount, step)
            ),
        ),
        Suspect(
            "normalisation",
            "The direction is right, but the weights of a query don't add up to 1.",
            lambda v, values, log, *_: values + len(log) * (v - values),
        ),
        Suspect(
            "missing term",
            "The value of one of the two states of a transition is left out.",
            lambda v, values, log, g, _, step: Instead(v, (values, log, g, 0.0, step)),
        ),
    ),
)


# --- A causal kernel with a window -----------------------------------------------------------------


def _causal_cases(rng: np.random.Generator) -> Iterator[Case]:
    def case(states: int, n: int, window: int, lift: float = 0.0) -> tuple[Any, ...]:
        scores = lift + rng.standard_normal((states, states))
        return scores, rng.integers(states, size=n + 1), window

    yield "", case(3, 6, 4)
    yield "", case(5, 9, 3)
    yield "a window longer than the trajectory", case(4, 5, 50)
    yield "a window of one transition", case(4, 6, 1)
    yield "scores in the thousands", case(3, 6, 4, lift=3_000.0)
    yield "one transition", case(3, 1, 2)


def _causal_residual(value: Any, *inputs: Any) -> np.ndarray:
    """Rows add up to 1 or 0; what is read has the ratios of the scores, the rest is 0."""
    scores, path, window, *shift = inputs
    lag = shift[0] if shift else 0
    age = np.arange(len(path))[:, None] - np.arange(len(path) - 1) + lag
    g = scores[path[:, None], path[:-1]]
    if lag:  # what the first row holds then, says nothing
        value, age, g = value[1:], age[1:], g[1:]
    read = (age > 0) & (age <= window)
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = np.where(read, np.log(value) - g, np.nan)
    outside = np.where(read, 0, value)
    sums = value.sum(axis=1) - read.any(axis=1)
    return np.concatenate([sums, _uneven(value, gap), outside.ravel()])


def _inside(value: np.ndarray, _: Any, path: np.ndarray, window: int) -> np.ndarray:
    """Drop what a mask would have hidden, and share the rest anew."""
    age = np.arange(len(path))[:, None] - np.arange(len(path) - 1)
    kept = np.where((age > 0) & (age <= window), value, 0.0)
    return np.asarray(kept / _row_sums(kept))


causal_kernel = Check(
    "causal_kernel",
    _causal_cases,
    _causal_residual,
    shape=lambda _, path, __: (len(path), len(path) - 1),
    suspects=(
        Suspect(
            "normalisation",
            "Hidden transitions have weight 0, but what is left of a row doesn't add up to 1.",
            lambda v, *_: v / _row_sums(v),
        ),
        *(
            Suspect("off by one", f"A query reads {what}.", repair)
            for what, repair in (
                (
                    "a transition that isn't finished yet",
                    lambda v, g, path, window: Instead(v, (g, path, window + 1, 1)),
                ),
                (
                    "one transition too late: which one was finished last?",
                    lambda v, g, path, window: Instead(v, (g, path, window, -1)),
                ),
                (
                    "one transition too early: which one was finished last?",
                    lambda v, g, path, window: Instead(v, (g, path, window, 1)),
                ),
                (
                    "too far back, by one",
                    lambda v, g, path, window: Instead(v, (g, path, window + 1)),
                ),
                (
                    "not far enough back, by one",
                    lambda v, g, path, window: Instead(v, (g, path, window - 1)),
                ),
            )
        ),
        Suspect(
            "axis",
            "Query and source are exchanged in the scores.",
            lambda v, g, path, window: Instead(v, (g.T, path, window)),
        ),
        Suspect(
            "mask",
            "Transitions that a query mustn't read have some weight. Which score has weight 0?",
            _inside,
        ),
    ),
)


# --- Which reward made which value -----------------------------------------------------------------


def _credit_cases(rng: np.random.Generator) -> Iterator[Case]:
    def case(
        states: int, n: int, iterations: int, ends: tuple[int, ...] = ()
    ) -> tuple[Any, ...]:
        path = rng.integers(states, size=n + 1)
        path[:states] = np.arange(states)
        entered = path[1:].copy()
        entered[list(ends)] = -1
        return _weights(rng, (states, n)), path[:-1], entered, 0.9, iterations, 0.4

    yield "", case(3, 8, 4)
    yield "", case(4, 6, 7)
    yield "one iteration", case(3, 7, 1)
    yield "an episode ends", case(4, 9, 5, (3, 7))
    yield "no iteration", case(3, 5, 0)


def _credit_residual(value: Any, *inputs: Any) -> np.ndarray:
    """What a geometric series satisfies."""
    kernel, left, entered, discount, iterations, step = inputs
    states = np.arange(len(kernel))
    drift = kernel @ (
        (left[:, None] == states) - discount * (entered[:, None] == states)
    )
    rest = np.linalg.matrix_power(np.eye(len(kernel)) - step * drift, iterations)
    off: np.ndarray = drift @ value + rest @ kernel - kernel
    return off


credit = Check(
    "credit",
    _credit_cases,
    _credit_residual,
    shape=lambda kernel, *_: kernel.shape,
    suspects=(
        SIGN,
        Suspect(
            "discount",
            "Right for a process that discounts nothing.",
            lambda v, kernel, left, entered, _, iterations, step: Instead(
                v, (kernel, left, entered, 1.0, iterations, step)
            ),
        ),
        Suspect(
            "step",
            "Right for another step size.",
            lambda v, kernel, left, entered, discount, iterations, _: Instead(
                v, (kernel, left, entered, discount, iterations, 1.0)
            ),
        ),
        *(
            Suspect(
                "off by one",
                f"This is what one iteration {which} gives.",
                lambda v, kernel, left, entered, discount, iterations, step, one=one: (
                    Instead(
                        v, (kernel, left, entered, discount, iterations + one, step)
                    )
                ),
            )
            for one, which in ((-1, "fewer"), (1, "more"))
        ),
        Suspect(
            "roles",
            "The state that is left and the state that is entered have changed places.",
            lambda v, kernel, left, entered, discount, iterations, step: Instead(
                v, (kernel, entered, left, discount, iterations, step)
            ),
        ),
    ),
)


# --- Two sharpnesses that disagree -----------------------------------------------------------------


def _order_cases(rng: np.random.Generator) -> Iterator[Case]:
    def arc(states: int) -> np.ndarray:
        angle = np.sort(rng.uniform(0, 0.3, states)) + np.linspace(0, 2.5, states)
        return np.column_stack([np.cos(angle), np.sin(angle)])

    yield "", (arc(5), (1.0, 12.0), 5, 0.8)
    yield "", (arc(4), (2.0, 9.0), 8, 0.9)
    yield "many iterations", (arc(4), (1.0, 6.0), 25, 0.9)
    yield "one iteration", (arc(3), (0.5, 3.0), 1, 0.5)


def _order_residual(value: Any, *inputs: Any) -> np.ndarray:
    features, sharpnesses, iterations, discount, *ignored = inputs
    states, rewards = value
    context = Context(states, rewards, len(features))
    low, high = (
        weighted_softmax_td(
            context, inner_product_scores(features, sharp), discount, iterations
        )[-1]
        for sharp in sharpnesses
    )
    faults = {
        "low": max(0.001 - low[0] + low[1], 0),
        "high": max(0.001 + high[0] - high[1], 0),
        "size": max(np.abs(context.rewards).max() - 1, 0),
        "coverage": float(not context.covers()),
    }
    return np.array([size for name, size in faults.items() if name not in ignored])


two_orders = Check(
    "two_orders",
    _order_cases,
    _order_residual,
    suspects=(
        Suspect(
            "type",
            "The states of the path are whole numbers, and so must be their type.",
            lambda v, *_: (np.asarray(v[0]).astype(int), v[1]),
        ),
        Suspect(
            SIGN.kind,
            "The two sharpnesses do disagree, but each says what the other should.",
            lambda v, *_: (v[0], -np.asarray(v[1], dtype=float)),
        ),
        Suspect(
            "scale",
            "The values are in the right order, but the rewards are too large.",
            lambda v, *_: (v[0], np.asarray(v[1]) / np.abs(v[1]).max()),
        ),
        Suspect(
            "shape",
            "There is a reward too many: how many transitions does a path have?",
            lambda v, *_: (v[0], v[1][: len(v[0]) - 1]),
        ),
        Suspect(
            "coverage",
            "The values are in the right order, but the path doesn't leave every state.",
            lambda v, *inputs: Instead(v, (*inputs, "coverage")),
        ),
        *(
            Suspect(
                "order",
                f"At the {which} sharpness the values aren't in the order asked for.",
                lambda v, *inputs, which=which: Instead(v, (*inputs, which)),
            )
            for which in ("low", "high")
        ),
    ),
)
