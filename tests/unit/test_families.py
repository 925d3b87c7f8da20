"""The chains of the book: their shape, and what is known of them in closed form."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import seeds

from ictd_lib import (
    boyan_chain,
    closed_classes,
    random_boyan_chain,
    random_ergodic_chain,
    random_walk,
)


@given(seeds, st.integers(2, 30))
def test_random_boyan_chain_has_its_shape(seed, n_states):
    process = random_boyan_chain(n_states, np.random.default_rng(seed), 0.9)
    p = process.transition
    for i in range(n_states - 2):
        assert set(np.flatnonzero(p[i])) == {i + 1, i + 2}
        assert 0.01 <= p[i, i + 1] <= 0.99
    assert p[-2, -1] == 1
    assert p[-1].min() > 0 and p[-1].max() / p[-1].min() <= 99
    assert np.abs(process.reward).max() <= 1
    assert [len(members) for members in closed_classes(p)] == [n_states]


def test_random_boyan_chain_draws_over_the_whole_of_its_ranges():
    """With 20,000 draws the extremes lie within 0.001 of the ends but for odds of e^-20."""
    process = random_boyan_chain(2_000, np.random.default_rng(0), 0.9)
    forward = np.diag(process.transition, 1)[:-1]
    last = process.transition[-1]
    for draws, low, high in (
        (forward, 0.01, 0.99),
        (process.reward, -1, 1),
        (last * 0.5 / last.mean(), 0.01, 0.99),  # weights, up to the mean of the draws
    ):
        width = high - low
        assert abs(draws.min() - low) <= 0.02 * width
        assert abs(draws.max() - high) <= 0.04 * width
        assert abs(draws.mean() - (low + high) / 2) <= 5 * width / np.sqrt(12 * 1998)


def test_the_random_families_draw_what_they_say_in_that_order():
    rng = np.random.default_rng(5)
    process = random_boyan_chain(6, np.random.default_rng(5), 0.9)
    forward, weights = rng.uniform(0.01, 0.99, 4), rng.uniform(0.01, 0.99, 6)
    np.testing.assert_allclose(np.diag(process.transition, 1)[:4], forward, rtol=1e-14)
    np.testing.assert_allclose(
        process.transition[-1], weights / weights.sum(), rtol=1e-14
    )
    np.testing.assert_array_equal(process.reward, rng.uniform(-1, 1, 6))

    rng = np.random.default_rng(5)
    process = random_ergodic_chain(6, np.random.default_rng(5), 0.9)
    rows = 0.95 * rng.dirichlet(np.ones(6), size=6) + 0.05 / 6
    np.testing.assert_allclose(process.transition, rows, rtol=1e-14)
    np.testing.assert_array_equal(process.reward, rng.uniform(-1, 1, 6))


def test_boyans_chain_has_the_values_that_he_gives():
    process = boyan_chain(discount=1 - 1e-12, restart=False)
    np.testing.assert_allclose(process.values(), -2.0 * np.arange(13), atol=1e-9)


def test_boyans_chain_starts_in_12_and_restarts_there():
    process = boyan_chain(0.9)
    assert process.sample(3, np.random.default_rng(0))[0] == 12
    assert process.transition[0, 12] == 1
    assert closed_classes(process.transition)[0].tolist() == list(range(13))
    assert [
        c.tolist() for c in closed_classes(boyan_chain(0.9, restart=False).transition)
    ] == [[0]]


@given(st.integers(2, 12), st.floats(0.05, 0.95))
def test_random_walk_is_reversible_with_geometric_weights(n_states, p):
    process = random_walk(n_states, 0.9, p)
    mu = (p / (1 - p)) ** np.arange(n_states)
    np.testing.assert_allclose(process.stationary(), mu / mu.sum(), rtol=1e-12)
    assert process.reward.tolist() == [-1] + [0] * (n_states - 2) + [1]


def test_a_symmetric_random_walk_has_antisymmetric_values():
    v = random_walk(7, 0.9).values()
    np.testing.assert_allclose(v, -v[::-1], atol=1e-14)


@given(seeds, st.integers(1, 12), st.sampled_from([0.01, 1.0, 50.0]))
def test_random_ergodic_chain_goes_anywhere(seed, n_states, concentration):
    process = random_ergodic_chain(
        n_states, np.random.default_rng(seed), 0.9, concentration, 0.1
    )
    assert process.transition.min() >= 0.1 / n_states * (1 - 1e-9)
    assert np.abs(process.reward).max() <= 1


def test_random_ergodic_chain_mixes_as_asked():
    uniform = random_ergodic_chain(4, np.random.default_rng(0), 0.9, mixing=1.0)
    np.testing.assert_allclose(uniform.transition, 0.25, rtol=1e-15)
    default = random_ergodic_chain(
        40, np.random.default_rng(0), 0.9, concentration=0.01
    )
    np.testing.assert_allclose(default.transition.min(), 0.05 / 40, rtol=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda rng: random_boyan_chain(1, rng, 0.9),
            "n_states: got 1, expected a whole number >= 2",
        ),
        (lambda rng: random_boyan_chain(5, rng, 1.0), "discount: got 1.0"),
        (
            lambda rng: random_walk(1, 0.9),
            "n_states: got 1, expected a whole number >= 2",
        ),
        (
            lambda rng: random_walk(5, 0.9, 1.0),
            "p_right: got 1.0, expected 0 < p_right < 1",
        ),
        (
            lambda rng: random_ergodic_chain(0, rng, 0.9),
            "n_states: got 0, expected a whole number >= 1",
        ),
        (lambda rng: random_ergodic_chain(3, rng, 0.9, 0.0), "concentration: got 0.0"),
        (lambda rng: random_ergodic_chain(3, rng, 0.9, mixing=0.0), "mixing: got 0.0"),
        (lambda rng: boyan_chain(-1), "discount: got -1"),
        (lambda rng: random_walk(5, 0.9, 0.0), "p_right: got 0.0, expected 0 <"),
        (lambda rng: random_walk(2.5, 0.9), "n_states: got 2.5, expected a whole"),
        (lambda rng: random_ergodic_chain(2, rng, 1), "discount: got 1, expected"),
        (
            lambda rng: random_ergodic_chain(3, rng, 0.9, np.inf),
            "concentration: got inf",
        ),
    ],
)
def test_bad_arguments_are_named(make, message):
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match=message):
        make(rng)
    # Nothing has been drawn.
    assert rng.random() == np.random.default_rng(0).random()
