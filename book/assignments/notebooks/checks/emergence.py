"""Checks of assignment 5. Each tries what defines an answer: a slope, an invariance, a limit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations, pairwise
from typing import Any

import numpy as np

from .engine import AXIS, SIGN, Case, Check, Suspect, otherwise


def _supposing(
    kind: str, hint: str, residual: Callable[..., Any], *what: str
) -> Suspect:
    """A fault that is known by its value being right if something were different."""
    return otherwise(kind, hint, partial(residual, frozenset(what)))


def _directions(shape: tuple[int, ...]) -> np.ndarray:
    """A few directions, always the same, to compare slopes along."""
    return np.random.default_rng(11).standard_normal((3, *shape))


def _rescaled(v: np.ndarray, slopes: np.ndarray) -> np.ndarray:
    """The positive multiple of a gradient that fits the slopes best."""
    along = np.array([(v * D).sum() for D in _directions(v.shape)])
    factor = (along @ slopes) / (along @ along)
    return factor * v if factor > 0 else v


# --- Task 1 ----------------------------------------------------------------------------------------


def _batches(rng: np.random.Generator) -> Iterator[Case]:
    for n, d in ((7, 3), (12, 2)):
        x, after = rng.standard_normal((2, n, d))
        yield "", (rng.standard_normal(d), x, after, rng.standard_normal(n), 0.8)
    x, after = rng.standard_normal((2, 1, 4))
    yield (
        "one transition",
        (rng.standard_normal(4), x, after, rng.standard_normal(1), 0.5),
    )


def _loss_slopes(what: frozenset[str], *inputs: Any) -> np.ndarray:
    """Slopes of the loss in a few directions; it is quadratic, so a difference is exact."""
    theta, x, x_next, reward, discount = inputs
    discount = 1 if "no discount" in what else discount

    def loss(at: Any) -> Any:
        ahead = at if "moving" in what else theta
        return 0.5 * np.mean((reward + discount * x_next @ ahead - x @ at) ** 2)

    along = _directions(np.shape(theta))
    return np.array([(loss(theta + D) - loss(theta - D)) / 2 for D in along])


def _off_slopes(what: frozenset[str], value: Any, *inputs: Any) -> Any:
    return _directions(value.shape[:1]) @ value - _loss_slopes(what, *inputs)


semi_gradient = Check(
    "semi_gradient",
    _batches,
    partial(_off_slopes, frozenset()),
    shape=lambda theta, *_: theta.shape,
    suspects=(
        SIGN,
        _supposing(
            "target",
            "Held means held: something else moves too.",
            _off_slopes,
            "moving",
        ),
        _supposing(
            "discount", "The next state counts too much.", _off_slopes, "no discount"
        ),
        Suspect(
            "normalisation",
            "Right but for a factor: a mean over what?",
            lambda v, *inputs: _rescaled(v, _loss_slopes(frozenset(), *inputs)),
        ),
    ),
)


# --- Task 2 ----------------------------------------------------------------------------------------


def _single_tasks(rng: np.random.Generator) -> Iterator[Case]:
    for states, d, layers, w_r in ((5, 3, 4, 0.2), (6, 2, 3, -0.3)):
        mu = rng.dirichlet(np.full(states, 2.0))
        x, reward = rng.standard_normal((states, d)), rng.uniform(-1, 1, states)
        yield "", (w_r, x, mu, reward, layers, 0.7)
    yield "equal rewards", (0.2, x, mu, 0 * reward + 0.3, 3, 0.7)
    yield "w_r = 0", (0.0, x, mu, reward, 3, 0.7)


def _push_slopes(what: frozenset[str], *inputs: Any) -> np.ndarray:
    """Slopes of minus the loss with the target held, in a few directions of A."""
    w_r, x, mu, reward, layers, discount = inputs
    for name, other in (("far", 1), ("near", 0)):
        discount = other if name in what else discount
    weights = np.full(len(mu), 1 / len(mu)) if "uniform" in what else mu

    def values(A: Any) -> Any:
        heard = mu * np.exp(x @ A.T @ x.T)
        total = heard.sum(axis=1, keepdims=True)
        return layers * w_r * (heard if "open" in what else heard / total) @ reward

    zero = np.zeros((x.shape[1], x.shape[1]))
    target = reward + discount * values(zero)  # one value for all: P changes nothing

    def loss(A: Any) -> Any:
        return 0.5 * (weights * (target - values(A)) ** 2).sum()

    h = 1e-5
    along = _directions(zero.shape)
    return np.array([(loss(-h * D) - loss(h * D)) / (2 * h) for D in along])


def _off_push(what: frozenset[str], value: Any, *inputs: Any) -> Any:
    along = (_directions(value.shape) * value).sum(axis=(1, 2))
    return along - _push_slopes(what, *inputs)


first_push = Check(
    "first_push",
    _single_tasks,
    partial(_off_push, frozenset()),
    shape=lambda *inputs: 2 * inputs[1].shape[1:],
    suspects=(
        SIGN,
        AXIS,
        _supposing(
            "centring",
            "Softmax weights sum to 1 while A moves: something is missing that says so.",
            _off_push,
            "open",
        ),
        _supposing(
            "discount",
            "Look at the TD error: the value of what follows.",
            _off_push,
            "far",
        ),
        _supposing(
            "discount",
            "Look at the TD error: the value of what follows.",
            _off_push,
            "near",
        ),
        _supposing("weights", "How often is a state left?", _off_push, "uniform"),
        Suspect(
            "normalisation",
            "Right but for a factor.",
            lambda v, *inputs: _rescaled(v, _push_slopes(frozenset(), *inputs)),
        ),
    ),
)


# --- Task 4 ----------------------------------------------------------------------------------------


def _noisy_updates(rng: np.random.Generator) -> Iterator[Case]:
    """Updates whose noise is orthogonal from task to task: none may be left in the answer."""

    def rows(pulls: list[float], sizes: list[int]) -> tuple[np.ndarray, np.ndarray]:
        tasks = len(pulls)
        which = rng.permutation(np.repeat(np.arange(tasks), sizes))
        own = rng.uniform(0.5, 1.5, len(which))
        updates = np.zeros((len(which), 1 + tasks))
        updates[:, 0] = np.array(pulls)[which]
        updates[np.arange(len(which)), 1 + which] = own
        return updates, (17 * which + 5) % 101

    yield "", rows([1.5] * 4, [1] * 4)
    yield "", rows([0.7] * 9, [1] * 9)
    yield "several rows of one task", rows([1.5] * 3, [2, 2, 2])
    # With these three the products of different tasks cancel, if each counts once.
    yield "tasks with unequal numbers of rows", rows([2.0, 2.0, -1.0], [1, 2, 4])
    yield "two tasks that pull apart", rows([0.8, -0.8], [1, 1])


def _squared(updates: np.ndarray) -> float:
    pulls = updates[:, 0]
    if np.ptp(pulls) == 0:
        return float(pulls[0] ** 2)
    return float(pulls[0] * pulls[1]) if len(pulls) == 2 else 0.0


squared_norm = Check(
    "squared_norm",
    _noisy_updates,
    lambda value, updates, _: value - _squared(updates),
    shape=lambda *_: (),
    suspects=(
        Suspect(
            "bias",
            "Too large: there is noise that has been multiplied by itself.",
            lambda v, updates, _: min(v, _squared(updates)),
        ),
        Suspect(
            "normalisation",
            "Too small: by how many products is the sum divided?",
            lambda v, updates, _: max(v, _squared(updates)) if v > 0 else v,
        ),
    ),
)


# --- Task 5 ----------------------------------------------------------------------------------------


def _matrices(rng: np.random.Generator) -> Iterator[Case]:
    for d in (4, 6):
        yield "", (rng.standard_normal((d, d)) + np.eye(d), np.eye(d))
    # Features with a direction along which all states agree, turned out of sight.
    x = rng.standard_normal((7, 4))
    x[:, 0] = 1
    Q = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    unseen = np.outer(Q.T[:, 0], rng.standard_normal(4))
    yield "features that don't identify A", (3 * np.eye(4) + unseen, x @ Q)
    yield "a negative multiple", (unseen - 2 * np.eye(4), x @ Q)
    yield "nothing of A can be seen", (unseen, x @ Q)


def _off_cosine(what: frozenset[str], value: Any, A: Any, x: Any) -> Any:
    import torch

    from ictd_lib.pretraining import identity_part, one_hot_identity_part

    if np.array_equal(x, np.eye(len(x))):
        measure = identity_part if "all" in what else one_hot_identity_part
        return value - measure(torch.tensor(A.T if "turned" in what else A))[1]
    between = x[0] - x[1]  # no state differs from another along what isn't seen
    multiple = between @ A @ between / (between @ between)
    return value - (np.sign(multiple) if abs(multiple) > 1e-9 else 0)


visible_cosine = Check(
    "visible_cosine",
    _matrices,
    partial(_off_cosine, frozenset()),
    shape=lambda *_: (),
    suspects=(
        SIGN,
        _supposing(
            "axis",
            "Which index is the query, and over which is the mean?",
            _off_cosine,
            "turned",
        ),
        _supposing(
            "shift",
            "What all scores of a query share is still in it.",
            _off_cosine,
            "all",
        ),
        Suspect(
            "normalisation",
            "Right but for a factor: are both norms those of what is seen?",
            lambda v, _, x: v * np.sqrt(len(x) / (len(x) - 1)),
        ),
    ),
)


# --- Task 6 ----------------------------------------------------------------------------------------


def _runs(rng: np.random.Generator) -> Iterator[Case]:
    def case(start: tuple[float, float], n: int, discount: float, steps: int) -> Any:
        states = rng.integers(4, size=n + 1)
        x, reward = rng.standard_normal((4, 3)), rng.uniform(-1, 1, 4)
        return start, states, reward, x, discount, (0.2, 0.7), steps

    yield "", case((0.3, 0.5), 30, 0.8, 6)
    yield "", case((-0.4, 0.2), 20, 0.6, 4)
    yield "no discount", case((0.3, -0.5), 20, 0.0, 3)
    yield "no step", case((0.3, 0.5), 20, 0.7, 0)
    yield "one transition", case((0.3, 0.5), 1, 0.7, 3)


def _off_path(what: frozenset[str], path: Any, *inputs: Any) -> Any:
    """How far each step is from one down the slope of the loss at which it starts."""
    start, states, reward, x, discount, rates, _ = inputs
    left, met = states[:-1], states[1:]
    counts = np.bincount(left, minlength=len(reward))
    paid = reward[met if "late" in what else left]
    rates = rates[::-1] if "swapped" in what else rates

    def values(at: Any) -> Any:
        heard = counts * np.exp(at[1] * x @ x.T)
        return at[0] * (heard / heard.sum(axis=1, keepdims=True)) @ reward

    def loss(at: Any, held: Any) -> Any:
        ahead = at if "moving" in what else held
        return 0.5 * np.mean(
            (paid + discount * values(ahead)[met] - values(at)[left]) ** 2
        )

    h = 1e-5
    off = [np.array(path[0]) - start]
    for at, to in pairwise(path):
        slope = [
            (loss(at + h * one, at) - loss(at - h * one, at)) / (2 * h)
            for one in np.eye(2)
        ]
        off.append(to - at + np.array(rates) * slope)
    return off


_FAULTS = {
    "late": ("off by one", "A reward is paired with the wrong state."),
    "moving": ("target", "More is differentiated than should be."),
    "swapped": ("rate", "A parameter moves at a rate that isn't its own."),
}


def _faults() -> Iterator[Suspect]:
    """Every set of faults, small ones first; the first of a set is named."""
    for size in range(1, len(_FAULTS) + 1):
        for names in combinations(_FAULTS, size):
            kind, hint = _FAULTS[names[0]]
            rest = " It isn't the only fault." if size > 1 else ""
            yield _supposing(kind, hint + rest, _off_path, *names)


descend = Check(
    "descend",
    _runs,
    partial(_off_path, frozenset()),
    shape=lambda *inputs: (inputs[-1] + 1, 2),
    suspects=tuple(_faults()),
)
