"""Checks for assignment 0, policy evaluation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ictd_lib import MarkovRewardProcess

from .engine import SIGN, Case, Check, Instead, Suspect


def _transition(rng: np.random.Generator, states: int) -> np.ndarray:
    return rng.dirichlet(np.ones(states), size=states)


# --- The same process under another discount -------------------------------------------------------


def _discount_cases(rng: np.random.Generator) -> Iterator[Case]:
    def case(states: int, old: float, new: float) -> tuple[Any, ...]:
        return rng.standard_normal(states), _transition(rng, states), old, new

    yield "", case(4, 0.9, 0.6)
    yield "", case(3, 0.5, 0.8)
    yield "a new discount of 0", case(4, 0.9, 0.0)
    yield "an old discount of 0", case(3, 0.0, 0.7)
    values, transition, *discounts = case(4, 0.8, 0.95)
    transition[1] = np.eye(4)[1]
    yield "a state that is never left", (values, transition, *discounts)


def _discount_residual(value: Any, *inputs: Any) -> np.ndarray:
    """Both pay the same."""
    values, transition, old, new = inputs
    gap: np.ndarray = (value - values) - transition @ (new * value - old * values)
    return gap


at_discount = Check(
    "at_discount",
    _discount_cases,
    _discount_residual,
    shape=lambda values, *_: values.shape,
    suspects=(
        SIGN,
        Suspect(
            "roles",
            "The two discounts have changed places.",
            lambda v, values, P, old, new: Instead(v, (values, P, new, old)),
        ),
        Suspect(
            "axis",
            "The transition matrix is read along the wrong index.",
            lambda v, values, P, old, new: Instead(v, (values, P.T, old, new)),
        ),
        Suspect(
            "reward",
            "These are values of a process, but it pays something else.",
            lambda v, values, P, _, new: Instead(v, (values, P, 0.0, new)),
        ),
        Suspect(
            "unchanged",
            "The old values came back.",
            lambda v, values, P, old, _: Instead(v, (values, P, old, old)),
        ),
    ),
)


# --- What a guess says about the values ------------------------------------------------------------


def _bracket_cases(rng: np.random.Generator) -> Iterator[Case]:
    def case(states: int, discount: float) -> tuple[Any, ...]:
        guess, reward = rng.standard_normal((2, states))
        return guess, _transition(rng, states), reward, discount

    yield "", case(4, 0.9)
    yield "", case(3, 0.6)
    guess, P, reward, _ = case(5, 0.0)
    yield "a discount of 0", (guess, P, reward, 0.0)
    mrp = MarkovRewardProcess(P, reward, 0.8)
    yield (
        "a guess that is too low by the same everywhere",
        (
            mrp.values() - 2,
            P,
            reward,
            0.8,
        ),
    )
    yield "a guess that is right", (mrp.values(), P, reward, 0.8)
    yield "a single state", (np.ones(1), np.ones((1, 1)), np.array([3.0]), 0.5)


def _bracket_residual(value: Any, *inputs: Any) -> np.ndarray:
    """Both bounds are the guess, shifted; a backup raises the lower one, or leaves it alone."""
    guess, transition, reward, discount, *mirrored = inputs
    shift = (value - guess)[:, :1]
    before = reward + discount * guess @ transition.T - guess
    rise = before - (1 - discount) * shift  # what a backup adds to either bound
    if mirrored:
        other = 2 * (discount - 1) * shift - rise
        rise = np.concatenate([rise, other], axis=1)
    uneven = value - guess - shift
    return np.concatenate([uneven.ravel(), [rise[0].min(), rise[1].max()]])


brackets = Check(
    "brackets",
    _bracket_cases,
    _bracket_residual,
    shape=lambda guess, *_: (2, len(guess)),
    suspects=(
        Suspect(
            "order",
            "The lower bound belongs into the first row, the upper one into the second.",
            lambda v, *_: v[::-1],
        ),
        Suspect(
            SIGN.kind,
            "The opposite sign would be right: what is subtracted from what?",
            lambda v, guess, *_: 2 * guess - v[::-1],
        ),
        Suspect(
            SIGN.kind,
            "The opposite sign would be right: what is subtracted from what?",
            lambda v, guess, *_: 2 * guess - v,
        ),
        Suspect(
            "discount",
            "This is what one backup may change. How many more will follow?",
            lambda v, guess, _, __, discount: guess + (v - guess) / (1 - discount),
        ),
        Suspect(
            "discount",
            "Counting starts with the news of this backup, which isn't discounted.",
            lambda v, guess, _, __, discount: guess + (v - guess) / max(discount, 1e-9),
        ),
        Suspect(
            "axis",
            "The transition matrix is read along the wrong index.",
            lambda v, guess, P, *rest: Instead(v, (guess, P.T, *rest)),
        ),
        Suspect(
            "too wide",
            "True bounds, but the same distance up and down. The news says more than its size.",
            lambda v, *inputs: Instead(v, (*inputs, True)),
        ),
    ),
)


# --- Returns from a stream of episodes -------------------------------------------------------------


def _return_cases(rng: np.random.Generator) -> Iterator[Case]:
    def case(n: int, ends: tuple[int, ...], discount: float) -> tuple[Any, ...]:
        ended = np.isin(np.arange(n), ends)
        return rng.standard_normal(n), ended, discount, rng.standard_normal() + 2

    yield "", case(7, (2,), 0.9)
    yield "", case(9, (3, 4), 0.6)
    yield "an episode that ends with the last line", case(6, (2, 5), 0.8)
    yield "no episode ends", case(6, (), 0.9)
    yield "a discount of 0", case(5, (1,), 0.0)
    yield "a single line", case(1, (), 0.7)


def _return_residual(value: Any, *inputs: Any) -> np.ndarray:
    rewards, ended, discount, tail = inputs
    following = np.where(ended, 0, np.append(value[1:], tail))
    balance: np.ndarray = value - discount * following - rewards
    return balance


returns_to_go = Check(
    "returns_to_go",
    _return_cases,
    _return_residual,
    shape=lambda rewards, *_: rewards.shape,
    suspects=(
        Suspect(
            "discount",
            "Right if nothing were discounted.",
            lambda v, rewards, ended, _, tail: Instead(v, (rewards, ended, 1.0, tail)),
        ),
        Suspect(
            "off by one",
            "Everything is discounted once too often: the next reward counts in full.",
            lambda v, rewards, ended, discount, tail: Instead(
                v / max(discount, 1e-9),
                (rewards, ended, discount, tail / max(discount, 1e-9)),
            ),
        ),
        Suspect(
            "tail",
            "What would have come after the last line is left out.",
            lambda v, rewards, ended, discount, _: Instead(
                v, (rewards, ended, discount, 0.0)
            ),
        ),
        Suspect(
            "tail",
            "What comes after the last line isn't discounted as it should be.",
            lambda v, rewards, ended, discount, tail: Instead(
                v, (rewards, ended, discount, tail / max(discount, 1e-9))
            ),
        ),
        Suspect(
            "episode",
            "Rewards of one episode are counted for the one before.",
            lambda v, rewards, ended, discount, tail: Instead(
                v, (rewards, np.zeros_like(ended), discount, tail)
            ),
        ),
        Suspect(
            "episode",
            "An episode ends after its last line, whose reward still counts.",
            lambda v, rewards, ended, discount, tail: Instead(
                v, (rewards, np.append(ended[1:], False), discount, tail)
            ),
        ),
        Suspect(
            "direction",
            "This sums up the past. A return is what is still to come.",
            lambda v, rewards, ended, discount, _: Instead(
                v[::-1],
                (rewards[::-1], np.append(ended[-2::-1], False), discount, 0.0),
            ),
        ),
    ),
)


# --- First visits, and how sure they make us -------------------------------------------------------

#: In these inputs the first visit of state s returns s, give or take 1, and the second this much more.
_LATER = 7.0


def _visit_cases(rng: np.random.Generator) -> Iterator[Case]:
    def case(
        states: int, episodes: int, missing: int = 0, ends: bool = True
    ) -> tuple[Any, ...]:
        paths, returns = [], []
        for episode in range(episodes):
            path = rng.permutation(states - missing)
            first = path + (-1.0) ** episode
            paths += [path, path]
            returns += [first, path + _LATER]
        ended = np.zeros(2 * episodes * (states - missing), dtype=bool)
        ended[2 * (states - missing) - 1 :: 2 * (states - missing)] = True
        ended[-1] = ends
        return np.concatenate(paths), np.concatenate(returns), ended, states

    yield "", case(4, 6)
    yield "", case(3, 10)
    yield "a state that no episode visited", case(5, 4, missing=1)
    yield "an episode that is cut off", case(3, 4, ends=False)
    path, returns, ended, states = case(4, 6, missing=1)
    yield (
        "a state that one episode visited",
        (
            np.append(3, path),
            np.append(5.0, returns),
            np.append(False, ended),
            states,
        ),
    )


def _visit_residual(value: Any, *inputs: Any) -> np.ndarray:
    path, returns, ended, states, *row_and_lift = inputs
    episodes = 1 + ended[:-1].sum()
    off = np.zeros((3, states))
    for s in range(states):
        seen = np.flatnonzero(path == s)
        if len(seen) > 1:
            known = (episodes, s, 1 / np.sqrt(episodes - 1))
        else:
            known = (len(seen), returns[seen].sum(), 0)
        off[:, s] = value[:, s] - known
    if row_and_lift:
        row, lift = row_and_lift
        return np.asarray(off[row] - lift)
    return off


def _row_scaled(power: float) -> Any:
    """Errors of the mean times a power of the number of episodes."""

    def repair(v: np.ndarray, _: Any, __: Any, ended: np.ndarray, ___: Any) -> Any:
        v = v.copy()
        v[2] *= (1 + ended[:-1].sum()) ** power
        return v

    return repair


def _other_divisor(
    v: np.ndarray, _: Any, __: Any, ended: np.ndarray, ___: Any
) -> np.ndarray:
    episodes = 1 + ended[:-1].sum()
    v = v.copy()
    v[2] *= np.sqrt(episodes / (episodes - 1))
    return v


first_visits = Check(
    "first_visits",
    _visit_cases,
    _visit_residual,
    shape=lambda _, __, ___, states: (3, states),
    suspects=(
        Suspect(
            "normalisation",
            "The last row isn't the standard error of a mean: more episodes should make it smaller.",
            _row_scaled(-0.5),
        ),
        Suspect(
            "normalisation",
            "The last row shrinks too fast with the number of episodes.",
            _row_scaled(0.5),
        ),
        Suspect(
            "divisor",
            "The spread is measured from a mean of the same numbers, which makes it look smaller.",
            _other_divisor,
        ),
        Suspect(
            "visits",
            "The means are those of all visits, not of the first in each episode.",
            lambda v, *inputs: Instead(v, (*inputs, 1, _LATER / 2)),
        ),
        Suspect(
            "visits",
            "The means are those of the last visits.",
            lambda v, *inputs: Instead(v, (*inputs, 1, _LATER)),
        ),
        Suspect(
            "episode",
            "Each state counts once in all, but it has a first visit in every episode.",
            lambda v, path, returns, ended, states: Instead(
                v, (path, returns, ended, states, 0, -ended[:-1].sum())
            ),
        ),
    ),
)


# --- Another process with the same values ----------------------------------------------------------


def _same_cases(rng: np.random.Generator) -> Iterator[Case]:
    yield "", (_transition(rng, 4), rng.standard_normal(4), 0.9)
    yield "", (_transition(rng, 6), rng.standard_normal(6), 0.5)
    tour = np.roll(np.eye(5), 1, axis=1)
    yield "a process without chance", (tour, rng.standard_normal(5), 0.8)
    yield "every state pays the same", (_transition(rng, 4), np.ones(4), 0.9)
    yield "a discount of 0", (_transition(rng, 4), rng.standard_normal(4), 0.0)


def _same_residual(value: Any, *inputs: Any) -> np.ndarray:
    transition, reward, discount, *ignored = inputs
    held = reward
    if "values" not in ignored:
        held = MarkovRewardProcess(transition, reward, discount).values()
    away = np.abs(value - transition).max()
    return np.concatenate(
        [
            value.sum(axis=1) - 1,
            (value - transition) @ held,
            [0 if "change" in ignored else max(0.01 - away, 0)],
            [0 if "negative" in ignored else max(-value.min(), 0)],
        ]
    )


same_values = Check(
    "same_values",
    _same_cases,
    _same_residual,
    shape=lambda transition, *_: transition.shape,
    suspects=(
        Suspect(
            "unchanged",
            "The same values, but the transitions are (nearly) the old ones.",
            lambda v, *inputs: Instead(v, (*inputs, "change")),
        ),
        Suspect(
            "negative",
            "The values are the same, but a probability is negative.",
            lambda v, *inputs: Instead(v, (*inputs, "negative")),
        ),
        Suspect(
            "normalisation",
            "Right but for the sums: what must each row of a transition matrix add up to?",
            lambda v, *_: v / np.maximum(v.sum(axis=1, keepdims=True), 1e-9),
        ),
        Suspect(
            "axis",
            "Rows and columns are exchanged: a row holds the ways out of one state.",
            lambda v, *_: v.T,
        ),
        Suspect(
            "reward",
            "The next reward stays the same on average. What comes after it doesn't.",
            lambda v, *inputs: Instead(v, (*inputs, "values")),
        ),
    ),
)
