"""Checks of assignment 4: contraction, depth and context."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ictd_lib import (
    diagonality_margin,
    infinity_norm,
    noisy_covariance,
    one_hot_sharpness,
    population_kernel,
)

from .engine import Case, Check, Suspect, otherwise


def _number(*_: Any) -> tuple[int, ...]:
    return ()


# --- longest_horizon -------------------------------------------------------------------------------


def _horizon_cases(rng: np.random.Generator) -> Iterator[Case]:
    for size in (3, 6):
        yield "", (6.5, (0.1 + rng.dirichlet(np.ones(size))) / (1 + 0.1 * size))
    yield "", (8.0, np.array([0.7, 0.1, 0.2]))
    yield "two states, visited alike", (2.0, np.full(2, 0.5))
    yield "attention too blunt for any discount", (1.5, np.array([0.9, 0.1]))


def _horizon(value: Any, sharpness: float, mu: Any) -> Any:
    if value == 0:
        return 0.0 if one_hot_sharpness(mu, 0.0) >= sharpness else 1.0
    return one_hot_sharpness(mu, 1 - 1 / value) - sharpness


def _another_state(value: Any, sharpness: float, mu: Any) -> Any:
    own = population_kernel(sharpness * np.eye(len(mu)), mu).diagonal()
    return np.abs(np.sort(own)[1:] - (1 - 1 / (2 * value))).min()


longest_horizon = Check(
    "longest_horizon",
    _horizon_cases,
    _horizon,
    _number,
    [
        Suspect(
            "discount",
            "That is a discount, and a horizon was asked for.",
            lambda v, *_: 1 / (1 - v),
        ),
        Suspect(
            "factor",
            "Twice what it should be. What is the fraction on one side of the inequality, in terms"
            " of the horizon?",
            lambda v, *_: v / 2,
        ),
        otherwise(
            "state", "5.1 asks every state. Which one gives way first?", _another_state
        ),
        otherwise(
            "others",
            "The weight of all other states together isn't right.",
            lambda v, tau, mu: one_hot_sharpness([mu.min(), 1.0], 1 - 1 / v) - tau,
        ),
    ],
)


# --- log_values ------------------------------------------------------------------------------------


def _log(
    rng: np.random.Generator, n: int, size: int, ends: float, left: int | None = None
) -> Any:
    source = np.append(np.arange(left or size), rng.integers(left or size, size=n))
    after = np.where(
        rng.random(len(source)) < ends, -1, rng.integers(size, size=len(source))
    )
    return np.column_stack([source, rng.normal(size=len(source)), after])


def _log_cases(rng: np.random.Generator) -> Iterator[Case]:
    yield "", (_log(rng, 30, 4, 0.3), 4, 0.9)
    yield "", (_log(rng, 80, 6, 0.1), 6, 0.95)
    yield "nothing ends", (_log(rng, 40, 3, 0.0), 3, 0.8)
    yield "a state that was entered and never left", (_log(rng, 40, 5, 0.2, 3), 5, 0.9)
    yield "no discount", (_log(rng, 40, 3, 0.6), 3, 1.0)


def _mean_errors(
    value: Any,
    log: Any,
    discount: float,
    end: Callable[[Any], Any] = lambda after: after >= 0,
    weight: Any = 1.0,
) -> Any:
    """TD errors, summed over the visits of each state; a state without visits has its value."""
    source, after = log[:, 0].astype(int), log[:, 2].astype(int)
    visits = np.bincount(source, minlength=len(value))
    paid = log[:, 1] * np.broadcast_to(weight, len(value))[source]
    errors = paid + discount * np.where(end(after), value[after], 0) - value[source]
    return np.where(visits, np.bincount(source, errors, minlength=len(value)), value)


def _backwards(value: Any, log: Any, _: int, discount: float) -> Any:
    source, after = log[:, 0].astype(int), log[:, 2].astype(int)
    on, size = after >= 0, len(value)
    gain = log[:, 1] - value[source]
    return np.bincount(source, gain, minlength=size) + discount * np.bincount(
        after[on], value[source[on]], minlength=size
    )


log_values = Check(
    "log_values",
    _log_cases,
    lambda v, log, _, discount: _mean_errors(v, log, discount),
    lambda _, size, __: (size,),
    [
        otherwise(
            "end",
            "An episode that ended goes on, in a state of your matrix.",
            lambda v, log, _, d: _mean_errors(v, log, d, lambda after: after >= -1),
        ),
        otherwise(
            "axis",
            "Your matrix goes from successors to sources.",
            _backwards,
        ),
        otherwise(
            "normalisation",
            "The rewards of a state are added up, not averaged.",
            lambda v, log, size, d: _mean_errors(
                v, log, d, weight=np.bincount(log[:, 0].astype(int), minlength=size)
            ),
        ),
        otherwise(
            "discount",
            "What comes later isn't discounted.",
            lambda v, log, *_: _mean_errors(v, log, 1.0),
        ),
    ],
)


# --- largest_discount ------------------------------------------------------------------------------


def _discount_cases(rng: np.random.Generator) -> Iterator[Case]:
    for size in (7, 4, 3):
        chain, heard = rng.dirichlet(np.full(size, 0.5), size=(2, size))
        own = rng.uniform(0.7, 0.9, (size, 1))
        yield "", (own * np.eye(size) + (1 - own) * heard, chain)
    yield "perfectly sharp attention", (np.eye(3), rng.dirichlet(np.ones(3), size=3))
    worst = np.zeros((3, 3))
    worst[:, 1] = 1
    kernel = np.array([[0.9, 0.0, 0.1], [0.2, 0.7, 0.1], [0.1, 0.1, 0.8]])
    yield "all go to one state", (kernel, worst)


def _edge_of_norm(value: Any, kernel: Any, ahead: Any) -> Any:
    if not 0 < value <= 1 + 1e-9:
        return 1.0
    return infinity_norm(np.eye(len(kernel)) - kernel + value * ahead) - 1


def _columns(value: Any, kernel: Any, chain: Any) -> Any:
    """The same condition with sums over queries, which is a margin of something else."""
    excess = np.maximum(kernel - value * kernel @ chain, 0)
    return (excess - np.diag(excess.diagonal())).sum(axis=0).max() - (1 - value) / 2


largest_discount = Check(
    "largest_discount",
    _discount_cases,
    lambda v, kernel, chain: _edge_of_norm(v, kernel, kernel @ chain),
    _number,
    [
        otherwise(
            "bound",
            "Up to there Assumption 5.1 holds. The norm stays below 1 for longer.",
            lambda v, kernel, _: diagonality_margin(kernel, v),
        ),
        otherwise(
            "norm",
            "At every discount? A spectral radius below 1 doesn't make the largest error shrink in"
            " every layer.",
            lambda v, *_: v - 1,
        ),
        otherwise(
            "diagonal",
            "At no discount? A state's own weight doesn't count against it.",
            lambda v, *_: v,
        ),
        otherwise(
            "axis", "Which index is summed over, the query or the source?", _columns
        ),
        otherwise(
            "order",
            "The chain and the kernel are multiplied in the wrong order.",
            lambda v, kernel, chain: _edge_of_norm(v, kernel, chain @ kernel),
        ),
    ],
)


# --- estimate_covariance ---------------------------------------------------------------------------


def _covariance_cases(rng: np.random.Generator) -> Iterator[Case]:
    for n, size, discount in ((50, 3, 0.8), (120, 5, 0.9)):
        path = np.append(np.arange(size), rng.integers(size, size=n))
        path[-1] = path[0]
        yield "", (path, rng.normal(size=len(path) - 1), size, discount)
    path = np.append(np.arange(4), rng.integers(3, size=60))
    path[-1] = 2
    received = rng.normal(size=len(path) - 1)
    yield "a context that doesn't end where it began", (path, received, 4, 0.9)
    yield "discount 0, and such a context", (path, received, 4, 0.0)


def _seen_in(path: Any, received: Any, size: int) -> tuple[Any, Any, Any, Any]:
    """Visits, empirical transitions, mean and deviation of the rewards of each transition."""
    pair = path[:-1] * size + path[1:]
    count, total, square = (
        np.bincount(pair, w, minlength=size**2).reshape(size, size)
        for w in (None, received, received**2)
    )
    some = np.maximum(count, 1)
    mean = total / some
    spread = np.sqrt(np.maximum(square / some - mean**2, 0))
    visits = count.sum(axis=1)
    return visits, count / visits[:, None], mean, spread


def _covariance(
    value: Any, path: Any, received: Any, size: int, discount: float
) -> Any:
    _, chain, mean, spread = _seen_in(path, received, size)
    if path[0] == path[-1]:  # visits are stationary, and a known result applies
        return len(received) * value - noisy_covariance(chain, mean, discount, spread)
    if discount == 0:  # mean rewards, state by state
        each = [received[path[:-1] == s] for s in range(size)]
        return value - np.diag([r.var() / len(r) for r in each])
    return _uncorrelated(value, np.eye(size) - discount * chain)


def _uncorrelated(value: Any, system: Any) -> Any:
    """Mean TD errors of different states don't correlate, and vary."""
    noise = system @ value @ system.T
    own = noise.diagonal()
    return (noise - np.diag(own)) / own.max() if own.max() > 0 else 1.0


def _transposed(
    value: Any, path: Any, received: Any, size: int, discount: float
) -> Any:
    chain = _seen_in(path, received, size)[1]
    return _uncorrelated(value, (np.eye(size) - discount * chain).T)


def _as_if_of_states(
    value: Any, path: Any, received: Any, size: int, discount: float
) -> Any:
    _, chain, mean, _ = _seen_in(path, received, size)
    flat = np.repeat((chain * mean).sum(axis=1, keepdims=True), size, axis=1)
    return len(received) * value - noisy_covariance(chain, flat, discount)


estimate_covariance = Check(
    "estimate_covariance",
    _covariance_cases,
    _covariance,
    lambda _, __, size, ___: (size, size),
    [
        Suspect(
            "normalisation",
            "That is the covariance of the root of n times the estimate.",
            lambda v, path, *_: v / (len(path) - 1),
        ),
        otherwise(
            "rewards",
            "You take rewards for a function of the state. Those on its transitions vary, too.",
            _as_if_of_states,
        ),
        otherwise(
            "cancelled",
            "All zero: errors of both signs have cancelled.",
            lambda v, *_: v,
        ),
        otherwise(
            "axis", "The noise travels along the chain the wrong way.", _transposed
        ),
    ],
)


# --- broken_promise --------------------------------------------------------------------------------


def _promise_cases(rng: np.random.Generator) -> Iterator[Case]:
    for size, discount, closeness in ((3, 0.9, 0.2), (5, 0.6, 0.1)):
        visits = 0.5 * rng.dirichlet(np.ones(size)) + 0.5 / size
        yield "", (visits, discount, closeness)
    yield "states visited alike", (np.full(4, 0.25), 0.8, 0.1)
    yield "a rare state, and little room", (np.array([0.97, 0.03]), 0.9, 0.02)


def _promise(value: Any, mu: Any, discount: float, closeness: float) -> str:
    """Say what isn't as it must be; "" if all is."""
    features, counts = (np.asarray(part, dtype=float) for part in value)
    if features.ndim != 2 or len(features) != len(mu) or counts.shape != mu.shape:
        return "shape"
    if (counts != np.round(counts)).any() or counts.sum() > 1e6:
        return "counts"
    if (counts <= 0).any():
        return "coverage"
    off = np.abs(counts / counts.sum() - mu)
    if (off > closeness * mu * (1 + 1e-9)).any():
        return "closeness"
    scores = features @ features.T
    if not diagonality_margin(population_kernel(scores, mu), discount) > 0:
        return "population"
    if diagonality_margin(population_kernel(scores, counts), discount) > 0:
        return "context"
    return ""


def _promise_fault(kind: str, hint: str) -> Suspect:
    return otherwise(kind, hint, lambda *inputs: float(_promise(*inputs) != kind))


broken_promise = Check(
    "broken_promise",
    _promise_cases,
    lambda *inputs: float(_promise(*inputs) != ""),
    None,
    [
        _promise_fault(
            "shape",
            "Two arrays are wanted: features (S, d), one state a row, and counts (S,).",
        ),
        _promise_fault("counts", "Counts are whole numbers, a million in all at most."),
        _promise_fault("coverage", "A state was never left. That would be too easy."),
        _promise_fault(
            "closeness", "A frequency is farther from the truth than allowed."
        ),
        _promise_fault("population", "5.1 doesn't hold on the population."),
        _promise_fault("context", "5.1 holds on the context as well."),
    ],
)
