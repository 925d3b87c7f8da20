"""Checks of assignment 6: beyond the paper."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ictd_lib import (
    Context,
    best_constant_step,
    certainty_equivalence,
    chebyshev_factor,
    lambda_equations,
    layer_operator,
    log_normaliser,
    numerical_radius,
    population_kernel,
    sink_steps,
    spectral_radius,
    stationary_distribution,
)

from .engine import Case, Check, Suspect, otherwise


def _recognise(kind: str, hint: str, holds: Callable[..., Any]) -> Suspect:
    """A suspect known by what holds of the value instead."""
    return otherwise(kind, hint, lambda *inputs: float(not holds(*inputs)))


def _number(*_: Any) -> tuple[int, ...]:
    return ()


# --- layers_for ------------------------------------------------------------------------------------


def _layers_cases(_: np.random.Generator) -> Iterator[Case]:
    yield "", (0.05, 1.3, 1e-3)
    yield "", (0.004, 0.9, 1e-2)
    yield "", (0.3, 1.7, 1e-4)
    yield "one eigenvalue", (0.4, 0.4, 1e-3)
    yield "a large share may be left", (0.2, 0.6, 0.9)


def _enough(factor: Callable[[int], float], layers: float, accuracy: float) -> bool:
    """Whether that many layers suffice, and one fewer doesn't."""
    count = int(layers)
    if count != layers or count < 1:
        return False
    return factor(count) <= accuracy < (factor(count - 1) if count > 1 else 1.0)


def _equal(value: Any, low: float, high: float, accuracy: float) -> bool:
    rate = best_constant_step([low, high]).rate
    return _enough(lambda count: rate**count, value[0], accuracy)


def _chebyshev(value: Any, low: float, high: float, accuracy: float) -> bool:
    return _enough(lambda count: chebyshev_factor(low, high, count), value[1], accuracy)


def _layers(value: Any, low: float, high: float, accuracy: float) -> float:
    inputs = (value, low, high, accuracy)
    return float(not (_equal(*inputs) and _chebyshev(*inputs)))


def _step_one(value: Any, low: float, high: float, accuracy: float) -> bool:
    rate = max(abs(1 - low), abs(1 - high))
    return _enough(lambda count: rate**count, value[0], accuracy)


layers_for = Check(
    "layers_for",
    _layers_cases,
    _layers,
    lambda *_: (2,),
    [
        Suspect("off by one", "One layer too few.", lambda v, *_: v + 1),
        Suspect("order", "The two are exchanged.", lambda v, *_: v[::-1]),
        Suspect("sign", "A negative number of layers?", lambda v, *_: 1 - v),
        _recognise(
            "step",
            "With equal steps of size 1, yes. Another size is better.",
            _step_one,
        ),
        _recognise(
            "logarithm",
            "Chebyshev's steps: the logarithm isn't the inverse function that you need there.",
            lambda v, low, high, accuracy: (
                _equal(v, low, high, accuracy)
                and _chebyshev(v, low, high, min(2 * accuracy, 0.99))
            ),
        ),
    ],
)


# --- radius_by_angles ------------------------------------------------------------------------------

_QUARTERS = np.pi * np.arange(8) / 4


def _radius_cases(rng: np.random.Generator) -> Iterator[Case]:
    for size in (4, 6):
        weights = rng.dirichlet(np.ones(size)) + 0.02
        yield "", (rng.dirichlet(np.ones(size), size=size), weights, _QUARTERS)
    weights = np.array([0.2, 0.5, 0.3])
    yield "", (np.diag([0.3, -0.9, 0.5]), weights, _QUARTERS)
    turn = np.array([[0.0, 2.0, -1.0], [-2.0, 0.0, 0.5], [1.0, -0.5, 0.0]])
    yield "", (turn / weights[:, None], weights, _QUARTERS)
    mixed = np.array([[0.1, -1.0, 0.4], [-1.0, 0.3, 0.8], [0.4, 0.8, -0.6]])
    yield "", (mixed / weights[:, None], weights, _QUARTERS)
    yield "one state", (np.array([[-1.5]]), np.ones(1), _QUARTERS)


def _radius(value: Any, matrix: Any, weights: Any, _: Any) -> Any:
    if (matrix >= 0).all():
        return value - 2 * numerical_radius(matrix, weights, 0.5)
    # The others of these matrices are normal in the weighted space: their eigenvalues decide.
    return value - spectral_radius(matrix)


def _near(a: Any, b: Any) -> bool:
    return bool(np.abs(a - b) < 1e-6)


radius_by_angles = Check(
    "radius_by_angles",
    _radius_cases,
    _radius,
    _number,
    [
        _recognise(
            "weights",
            "The weights enter with another power.",
            lambda v, a, pi, _: (
                (a >= 0).all()
                and min(abs(v - 2 * numerical_radius(a, pi**p, 0.5)) for p in (0, 2))
                < 1e-6
            ),
        ),
        _recognise(
            "inverse",
            "Where you multiply by a weight you should divide, and the other way round.",
            lambda v, a, pi, _: (
                (a >= 0).all() and _near(v, 2 * numerical_radius(a, 1 / pi, 0.5))
            ),
        ),
        _recognise(
            "eigenvalues",
            "That is the spectral radius. The numerical radius can be larger.",
            lambda v, a, *_: _near(v, spectral_radius(a)),
        ),
        _recognise(
            "conjugate",
            "Zero, for a matrix that turns? A complex matrix has a *conjugate* transpose.",
            lambda v, *_: _near(v, 0),
        ),
        _recognise(
            "angles",
            "That is right for one angle only, not the largest over all of them.",
            lambda v, a, *_: _near(v, np.linalg.eigvals(a).real.max()),
        ),
    ],
)


# --- step_equations --------------------------------------------------------------------------------


def _steps_cases(rng: np.random.Generator) -> Iterator[Case]:
    def path(n: int, size: int) -> Any:
        return np.append(np.arange(size), rng.integers(size, size=n + 1 - size))

    yield "", (path(25, 4), rng.normal(size=25), 4, 0.9, 1)
    yield "", (path(12, 3), rng.normal(size=12), 3, 0.8, 14)
    walk, values = path(30, 4), rng.normal(size=4)
    exact = values[walk[:-1]] - 0.9 * values[walk[1:]]
    yield "", (walk, exact, 4, 0.9, 3)
    yield "a state that was never left", (path(15, 3), rng.normal(size=15), 4, 0.9, 1)


def _steps(value: Any, *inputs: Any) -> Any:
    path, received, size, discount, steps = inputs
    matrix, target = (np.asarray(part, dtype=float) for part in value)
    if matrix.shape != (size, size) or target.shape != (size,):
        return 1.0
    context = Context(path, received, size)
    if (
        1 < steps < context.n
    ):  # rewards without any TD error: their values solve every equation
        off = matrix @ certainty_equivalence(context, discount) - target
        return np.append(off, _tail(matrix, path, discount, steps))
    end = lambda_equations(
        context, discount, float(steps > 1)
    )  # one step, or the whole return
    return np.append(matrix - end.matrix, target - end.target)


def _tail(matrix: Any, path: Any, discount: float, steps: int) -> Any:
    """Rows sum to less than 1 by what is discounted, in proportion to the visits."""
    n = len(path) - 1
    visits = np.bincount(path[:-1], minlength=len(matrix))
    whole = (n - steps + 1) * (1 - discount**steps)
    return (
        visits @ matrix.sum(axis=1)
        - whole
        - sum(1 - discount**k for k in range(1, steps))
    )


def _means(value: Any, path: Any, *_: Any) -> Any:
    visits = np.maximum(np.bincount(path[:-1], minlength=len(value[1])), 1)
    return value[0] / visits[:, None], value[1] / visits


def _target_only(value: Any, *inputs: Any) -> bool:
    """Whether the rewards are right, and not what stands for the rest of the return."""
    path, received, size, discount, steps = inputs
    end = lambda_equations(Context(path, received, size), discount, float(steps > 1))
    return bool(steps != 3 and np.abs(value[1] - end.target).max() < 1e-9)


step_equations = Check(
    "step_equations",
    _steps_cases,
    _steps,
    None,
    [
        Suspect(
            "axis",
            "Rows and columns of the matrix are exchanged.",
            lambda v, *_: (v[0].T, v[1]),
        ),
        Suspect(
            "sign",
            "The target has the opposite sign.",
            lambda v, *_: (v[0], -v[1]),
        ),
        Suspect("normalisation", "Sums over visits came back, not means.", _means),
        Suspect(
            "off by one",
            "The first reward of a return is discounted already.",
            lambda v, *inputs: (v[0], v[1] / inputs[3]),
        ),
        _recognise(
            "end",
            "Transitions near the end of the context have been left out.",
            lambda v, *_: not np.any(v[0]),
        ),
        _recognise(
            "bootstrap",
            "The rewards are right. By how much is the value at the end of the return discounted?",
            _target_only,
        ),
    ],
)


# --- diverging_chain -------------------------------------------------------------------------------


def _diverging_cases(_: np.random.Generator) -> Iterator[Case]:
    yield "", (4, 0.9)
    yield "", (6, 0.85)
    yield "three states", (3, 0.95)


def _chain_fault(value: Any, n_states: int, discount: float) -> str:
    """Say what isn't as it must be; "" if all is."""
    chain, features = (np.asarray(part, dtype=float) for part in value)
    if chain.shape != (n_states, n_states) or features.shape[:1] != (n_states,):
        return "shape"
    if features.ndim != 2:
        return "shape"
    if np.abs(chain.sum(axis=1) - 1).max() > 1e-8:
        return "normalisation"
    if chain.min() < 0.005 - 1e-9:
        return "floor"
    if np.linalg.norm(features, axis=1).max() > 4 + 1e-9:
        return "norm"
    kernel = population_kernel(features @ features.T, stationary_distribution(chain))
    operator = layer_operator(kernel, chain, discount)
    if spectral_radius(operator) <= 1:
        return "converges"
    # A layer with a step size that is next to nothing: the sign of the real part.
    tiny = layer_operator(kernel, chain, discount, 1e-3)
    return "" if np.linalg.eigvals(tiny).real.max() >= 1 + 1e-6 else "step size"


def _chain_suspect(kind: str, hint: str) -> Suspect:
    return _recognise(kind, hint, lambda *inputs: _chain_fault(*inputs) == kind)


diverging_chain = Check(
    "diverging_chain",
    _diverging_cases,
    lambda *inputs: float(_chain_fault(*inputs) != ""),
    None,
    [
        _chain_suspect(
            "shape", "A matrix (S, S) and features (S, d), one state a row."
        ),
        Suspect(
            "axis",
            "Columns sum to 1, not rows.",
            lambda v, *_: (np.asarray(v[0]).T, v[1]),
        ),
        _chain_suspect(
            "normalisation", "Rows of the transition matrix don't sum to 1."
        ),
        _chain_suspect("floor", "A transition has too small a probability."),
        _chain_suspect("norm", "A feature vector is too long."),
        _chain_suspect("converges", "It converges."),
        _chain_suspect(
            "step size", "It diverges at step size 1, but not at a small one."
        ),
    ],
)


# --- best_sink -------------------------------------------------------------------------------------


def _sink_cases(_: np.random.Generator) -> Iterator[Case]:
    tour = np.roll(np.eye(3), 1, axis=1)
    for x in (np.array([0.75, 3.5, 3.0]), np.array([0.7, 3.4, 2.95])):
        yield "", (np.outer(x, x), np.full(3, 1 / 3), tour, 0.9)
    visits = np.array([0.2, 0.3, 0.5])
    lazy = 0.5 * np.eye(3) + 0.5 * visits
    yield "a chain that needs no sink", (5 * np.eye(3), visits, lazy, 0.9)


def _with(sink: float, scores: Any, mu: Any, chain: Any, discount: float) -> float:
    kernel = population_kernel(scores, mu)
    steps = sink_steps(scores, mu, sink)
    return float(spectral_radius(layer_operator(kernel, chain, discount, steps)))


def _sink_fault(value: Any, *inputs: Any) -> str:
    """Say what isn't as it must be; "" if all is."""
    sink, layers = (float(part) for part in value)
    if not 0 <= sink < np.inf:
        return "sink"
    reached = 1 - _with(sink, *inputs)
    # Compared with its neighbours, and with none at all.
    least = float(np.exp(log_normaliser(*inputs[:2]).min()))
    smaller = max(
        1 - _with(sink * share, *inputs) for share in (0, 0.01, 0.1, 0.3, 0.6)
    )
    larger = max(
        1 - _with(size, *inputs)
        for size in ((sink or 0.01 * least) * share for share in (1.6, 3, 10, 100))
    )
    if reached <= 0:
        return "diverges"
    if reached < 0.9 * max(smaller, larger):
        return "too large" if smaller > larger else "too small"
    if not (1 - reached) ** layers <= 0.001 * (1 + 1e-9):
        return "layers"
    return "layers" if (1 - reached) ** (layers - 1) <= 0.001 * (1 - 1e-9) else ""


def _sink_suspect(kind: str, hint: str) -> Suspect:
    return _recognise(kind, hint, lambda *inputs: _sink_fault(*inputs) == kind)


best_sink = Check(
    "best_sink",
    _sink_cases,
    lambda *inputs: float(_sink_fault(*inputs) != ""),
    None,
    [
        _sink_suspect("sink", "A sink is a finite number, at least 0."),
        _sink_suspect("diverges", "With this sink it still diverges."),
        _sink_suspect("too large", "It converges, but a smaller sink is faster."),
        _sink_suspect("too small", "It converges, but a larger sink is faster."),
        Suspect("sign", "A negative number of layers?", lambda v, *_: (v[0], 1 - v[1])),
        Suspect("off by one", "One layer too few.", lambda v, *_: (v[0], v[1] + 1)),
        _recognise(
            "logarithm",
            "Two logarithms with different bases.",
            lambda v, *inputs: _enough(
                lambda count: _with(v[0], *inputs) ** count, v[1], np.exp(-3)
            ),
        ),
        _sink_suspect(
            "layers", "The sink is good, the number of layers isn't right for it."
        ),
    ],
)
