"""Checks for assignment 3: shifts, targets, and memories off the invariant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .engine import Case, Check, Off, Suspect, misshapen

# --- Task 1: a batch with padding --------------------------------------------------------------------


def _batches(rng: np.random.Generator) -> Iterator[Case]:
    yield "", (rng.standard_normal((2, 4, 6)), np.array([5, 5]))
    yield "", (rng.standard_normal((3, 3, 9)), np.array([8, 8, 8]))
    lengths = np.array([4, 1, 7])
    Y = rng.standard_normal((3, 4, 8))
    yield "columns of padding", (Y, lengths)
    behind = np.arange(8) > lengths[:, None]
    Y = np.where(behind[:, None], np.nan, Y)
    yield "padding that isn't a number", (Y, lengths)


def _series(value: Any, Y: np.ndarray, lengths: np.ndarray) -> Any:
    """A row as a polynomial in z, a column for each power: a shift divides it by z."""
    columns = Y.shape[-1]
    z = np.exp(2j * np.pi * np.arange(columns + 1) / (columns + 1))
    powers = z ** np.arange(columns)[:, None]
    return [
        np.abs(z * (after @ powers) + before[:, :1] - before[:, :n] @ powers[:n])
        for after, before, n in zip(value, Y, lengths + 1, strict=True)
    ]


padded_shift = Check(
    "padded_shift",
    _batches,
    _series,
    shape=lambda Y, _: Y.shape,
    suspects=(
        Suspect(
            "direction",
            "Columns move to the other side: who receives, and from whom?",
            lambda v, Y, _: Off([v[..., 1:-1] - Y[..., :-2]]),
        ),
        Suspect(
            "axis",
            "Rows have moved, not columns.",
            lambda v, Y, _: Off([v[:, :-1, :-1] - Y[:, 1:, :-1]]),
        ),
        Suspect(
            "off by one",
            "Right if each context had one column less.",
            lambda v, Y, lengths: Off(_series(v, Y, lengths - 1)),
        ),
    ),
)


# --- Task 3: a stream of episodes --------------------------------------------------------------------


def _streams(rng: np.random.Generator) -> Iterator[Case]:
    def flags(columns: int, *at: int) -> np.ndarray:
        out = np.zeros(columns, dtype=bool)
        out[list(at)] = True
        return out

    yield "", (rng.standard_normal(10), flags(10, 3, 6), flags(10), 0.9)
    yield "", (rng.standard_normal(14), flags(14, 5, 9), flags(14), 0.6)
    yield (
        "an episode of one transition",
        (rng.standard_normal(9), flags(9, 3, 4), flags(9), 0.8),
    )
    yield (
        "a time limit",
        (rng.standard_normal(11), flags(11, 2), flags(11, 6), 0.9),
    )
    yield (
        "a stream that ends with its last episode",
        (rng.standard_normal(8), flags(8, 2, 7), flags(8), 0.7),
    )
    yield (
        "a time limit at the moment of the end",
        (rng.standard_normal(8), flags(8, 3), flags(8, 3, 6), 0.9),
    )


def _telescopes(
    targets: np.ndarray,
    current: np.ndarray,
    terminated: np.ndarray,
    truncated: np.ndarray,
    discount: float,
) -> list[float]:
    """Discounted sums of target minus current value to the end of an episode, from each column."""
    off, last = [], len(current) - 1
    for j in range(last + 1):
        total, factor, k = 0.0, 1.0, j
        while not (terminated[k] or truncated[k] or k == last):
            total += factor * (targets[k] - current[k])
            factor, k = factor * discount, k + 1
        if terminated[k]:
            total += factor * (targets[k] - current[k])
            off.append(total + current[j])
        else:
            off += [total + current[j] - factor * current[k], targets[k]]
    return off


def _stream(value: Any, current: np.ndarray, *rest: Any) -> Any:
    targets, usable = value
    terminated, truncated, _ = rest
    usable = np.asarray(usable, dtype=float)
    if usable.shape != current.shape or np.shape(targets) != current.shape:
        raise ValueError("shape")
    known = 1 - usable[terminated]
    unknown = usable[truncated & ~terminated]
    others = 1 - usable[:-1][~terminated[:-1] & ~truncated[:-1]]
    at_end = usable[-1] - terminated[-1]
    return [*_telescopes(targets, current, *rest), *known, *unknown, *others, at_end]


episode_targets = Check(
    "episode_targets",
    _streams,
    _stream,
    suspects=(
        Suspect(
            "shape",
            "Two rows as long as the stream should come back.",
            lambda v, c, *_: misshapen(v, c.shape, c.shape),
        ),
        Suspect(
            "leak",
            "A value is carried over from one episode into another.",
            lambda v, c, t, _, g: Off(_telescopes(v[0], c, 0 * t, 0 * t, g)),
        ),
        Suspect(
            "discount",
            "Right for a discount of 1 only.",
            lambda v, c, t, u, g: Off(_telescopes(v[0], c / g, t, u, g)),
        ),
        Suspect(
            "direction",
            "The values come from the column before.",
            lambda v, c, t, u, g: Off(
                _telescopes(v[0][-2::-1], c[-2::-1], t[-2::-1], u[-2::-1], g)
            ),
        ),
        Suspect(
            "off by one",
            "Right if each flag stood in the column to the right of the one where it stands.",
            lambda v, c, t, u, g: Off(
                _telescopes(v[0], c, np.append(t[1:], True), u, g)
            ),
        ),
    ),
)


# --- Task 4: targets of m steps ----------------------------------------------------------------------


def _horizons(rng: np.random.Generator) -> Iterator[Case]:
    for n, m in ((8, 2), (12, 3)):
        yield "", (*_rows(rng, n), 0.8, m)
    yield "m = 1", (*_rows(rng, 6), 0.9, 1)
    yield "m longer than the context", (*_rows(rng, 4), 0.7, 9)
    yield "one transition", (*_rows(rng, 1), 0.5, 2)
    yield "a discount of 0", (*_rows(rng, 5), 0.0, 3)


def _rows(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    return rng.standard_normal(n), rng.standard_normal(n + 1)


def _differences(
    value: np.ndarray, rewards: np.ndarray, current: np.ndarray, discount: float, m: int
) -> np.ndarray:
    """Discounted differences of errors of m steps, against errors of one step."""
    n = len(rewards)
    errors = np.append(rewards + value[:n] - current[:n], 0.0)
    single = np.append(rewards + discount * current[1:] - current[:n], np.zeros(m))
    gone = single[:n] - discount**m * single[m : m + n]
    return errors[:n] - discount * errors[1:] - gone


def _horizon(value: Any, *inputs: Any) -> Any:
    return np.append(_differences(value, *inputs), value[-1])


m_step_targets = Check(
    "m_step_targets",
    _horizons,
    _horizon,
    shape=lambda rewards, *_: (len(rewards) + 1,),
    suspects=(
        Suspect(
            "off by one",
            "Right for a horizon of one step more.",
            lambda v, R, c, g, m: Off(_differences(v, R, c, g, m + 1)),
        ),
        Suspect(
            "off by one",
            "Right for a horizon of one step less.",
            lambda v, R, c, g, m: Off(_differences(v, R, c, g, m - 1)),
        ),
        Suspect(
            "reward",
            "A reward is counted that the layer adds by itself.",
            lambda v, R, *_: v - np.append(R, 0.0),
        ),
        Suspect(
            "discount",
            "The value at the end isn't discounted as often as it should be.",
            lambda v, R, c, g, m: Off(_horizon(v, R, c / (g or np.nan), g, m)),
        ),
        Suspect(
            "end",
            "Right but for the last columns: how many steps are left there?",
            lambda v, R, c, g, m: Off(_differences(v, R, c, g, m)[: len(R) - m]),
        ),
    ),
)


# --- Task 6: rewards that make up for a memory -------------------------------------------------------


def _memories(rng: np.random.Generator) -> Iterator[Case]:
    for n, discount in ((5, 0.9), (8, 0.6)):
        rewards, target, current = rng.standard_normal((3, n + 1))
        yield "", (rewards[:-1], target, current, discount)
    yield (
        "one transition",
        (rng.standard_normal(1), *rng.standard_normal((2, 2)), 0.5),
    )
    yield (
        "an empty memory",
        (rng.standard_normal(4), np.zeros(5), np.zeros(5), 0.8),
    )
    rewards, target, current = rng.standard_normal((3, 6))
    yield "a discount of 0", (rewards[:-1], target, current, 0.0)


def _as_if_clean(
    value: np.ndarray,
    rewards: np.ndarray,
    target: np.ndarray,
    current: np.ndarray,
    discount: float,
) -> Any:
    """Dual heads on the repaired prompt against TD from the current values; no two columns share a state."""
    import torch

    from ictd_lib import Context, inner_product_scores, weighted_softmax_td
    from ictd_lib.transformer import assemble_prompt, read_values, theta_star

    n = len(rewards)
    x = np.random.default_rng(n).standard_normal((n + 1, 4))
    b, c = torch.tensor(target), torch.tensor(current)
    Z = assemble_prompt(torch.tensor(x), torch.tensor(value), target=b, current=c)
    model = theta_star(4, 4, discount, form="dual")
    td = weighted_softmax_td(
        Context(np.arange(n + 1), rewards, n + 1),
        inner_product_scores(x),
        discount,
        4,
        initial=current,
    )
    return read_values(model.trace(Z)).detach().numpy() - td


repaired_rewards = Check(
    "repaired_rewards",
    _memories,
    _as_if_clean,
    shape=lambda rewards, *_: rewards.shape,
    suspects=(
        Suspect(
            "sign",
            "What should be taken off is added, or the other way round.",
            lambda v, R, *_: 2 * R - v,
        ),
        Suspect(
            "rewards",
            "The correction alone came back: what was paid is lost.",
            lambda v, R, *_: v + R,
        ),
        Suspect(
            "discount",
            "Right for a discount of 1 only.",
            lambda v, R, b, c, g: Off(_as_if_clean(v, R, b, c / (g or np.nan), g)),
        ),
        Suspect(
            "off by one",
            "The current value of another column is needed.",
            lambda v, R, b, c, g: Off(_as_if_clean(v, R, b, np.roll(c, 1), g)),
        ),
    ),
)


# --- Task 7: a memory that freezes a layer -----------------------------------------------------------


def _contexts(rng: np.random.Generator) -> Iterator[Case]:
    for states, n, discount in ((3, 12, 0.5), (4, 25, 0.7)):
        path = np.append(rng.permutation(states), rng.integers(0, states, n + 1))
        yield "", (path, rng.standard_normal(len(path) - 1), discount)
    path = np.append(rng.permutation(3), rng.integers(0, 3, 9))
    yield "large rewards", (path, 100.0 * rng.standard_normal(11), 0.6)
    yield "a discount of 0", (path, rng.standard_normal(11), 0.0)


def _memory(
    value: Any, states: np.ndarray, rewards: np.ndarray, discount: float
) -> tuple[float, float, float]:
    """How far the dual head moves, what is lacking to a distance of 1, where the shift ends."""
    from ictd_lib import Context, certainty_equivalence, context_kernel

    target, current = (np.array(part, dtype=float) for part in value)
    if not target.shape == current.shape == states.shape:
        raise ValueError("shape")
    context = Context(states, rewards, int(states.max()) + 1)
    weights = context_kernel(context, 6.0 * np.eye(context.n_states))[states].T
    truth = certainty_equivalence(context, discount)[states]

    def run(b: np.ndarray, c: np.ndarray, layers: int, *, shift: bool) -> np.ndarray:
        for _ in range(layers):
            step = (rewards + b[:-1] - c[:-1]) @ weights
            c = c + step
            b = discount * np.append((c if shift else step)[1:], 0.0) + b * (not shift)
        return c

    moved = np.abs(run(target, current, 4, shift=False) - current).max()
    lacking = max(0.0, 1.0 - np.abs(current - truth).min())
    missed = np.abs(run(target, current, 300, shift=True) - truth).max()
    return float(moved), float(lacking), float(missed)


frozen_memory = Check(
    "frozen_memory",
    _contexts,
    _memory,
    suspects=(
        Suspect(
            "shape",
            "Two rows should come back, with a number for each column.",
            lambda v, states, *_: misshapen(v, states.shape, states.shape),
        ),
        Suspect(
            "sign",
            "The dual head would stand still with the negative of your target row.",
            lambda v, *_: (-np.asarray(v[0]), v[1]),
        ),
        Suspect(
            "order", "The two rows came back in the other order.", lambda v, *_: v[::-1]
        ),
        Suspect(
            "motion",
            "The dual head doesn't stand still.",
            lambda v, *inputs: Off(_memory(v, *inputs)[1:]),
        ),
        Suspect(
            "distance",
            "Some column is less than 1 away from where the shift ends.",
            lambda v, *inputs: Off(_memory(v, *inputs)[::2]),
        ),
        Suspect(
            "limit",
            "The dual head stands still, but the shift doesn't end at certainty equivalence.",
            lambda v, *inputs: Off(_memory(v, *inputs)[:2]),
        ),
    ),
)
