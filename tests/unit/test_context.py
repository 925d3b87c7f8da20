"""Contexts: the summaries against loops over the transitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import ergodic_chains, seeds

from ictd_lib import Context, random_walk, sample_context


@given(ergodic_chains(), seeds, st.integers(1, 60))
def test_summaries_against_a_loop(process, seed, n):
    rng = np.random.default_rng(seed)
    states = process.sample(n, rng)
    context = Context(states, rng.normal(size=n), process.n_states)
    size = process.n_states
    visits, pairs, totals = np.zeros(size), np.zeros((size, size)), np.zeros(size)
    for k in range(1, n + 1):
        visits[states[k - 1]] += 1
        pairs[states[k - 1], states[k]] += 1
        totals[states[k - 1]] += context.rewards[k - 1]
    np.testing.assert_array_equal(context.counts(), visits)
    np.testing.assert_array_equal(context.transition_counts(), pairs)
    np.testing.assert_allclose(context.frequencies(), visits / n, rtol=1e-15)
    assert context.covers() == (visits > 0).all()
    for s in range(size):
        row = pairs[s] / visits[s] if visits[s] else np.zeros(size)
        reward = totals[s] / visits[s] if visits[s] else 0.0
        np.testing.assert_allclose(context.empirical_transition()[s], row, rtol=1e-15)
        np.testing.assert_allclose(context.mean_rewards()[s], reward, atol=1e-12)


@given(ergodic_chains(), seeds, st.integers(1, 60))
def test_a_sampled_context_carries_the_rewards_of_the_states_that_were_left(
    process, seed, n
):
    context = sample_context(process, n, np.random.default_rng(seed))
    assert context.n == n and context.n_states == process.n_states
    for k in range(1, n + 1):
        assert context.rewards[k - 1] == process.reward[context.states[k - 1]]
    np.testing.assert_array_equal(context.sources, context.states[:-1])
    np.testing.assert_array_equal(context.successors, context.states[1:])


def test_the_last_state_is_not_counted():
    context = Context([0, 1, 1, 2], [5, 6, 8], 3)
    assert context.counts().tolist() == [1, 2, 0]
    assert not context.covers()
    np.testing.assert_array_equal(context.mean_rewards(), [5, 7, 0])
    np.testing.assert_array_equal(
        context.empirical_transition(), [[0, 1, 0], [0, 0.5, 0.5], [0, 0, 0]]
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0], [], 2), r"states: got shape \(1,\), expected \(n \+ 1,\) with n >= 1"),
        (([], [], 2), r"states: got shape \(0,\)"),
        (([[0, 1]], [1], 2), r"states: got shape \(1, 2\)"),
        (([0, 2], [1], 2), "states: got values from 0 to 2, expected 0 to 1"),
        (([0, -1], [1], 2), "states: got values from -1 to 0, expected 0 to 1"),
        (([0.0, 1.0], [1], 2), "states: got dtype float64, expected whole numbers"),
        (([0, 1], [1, 2], 2), r"rewards: got shape \(2,\), expected \(1,\)"),
        (([0, 1], [np.nan], 2), "rewards: got nan, expected finite numbers"),
        (([0, 1], [np.inf], 2), "rewards: got inf, expected finite numbers"),
        (([0, 1], [1j], 2), "rewards: got complex numbers, expected real ones"),
        (([0, 1], [1], 2.5), "n_states: got 2.5, expected a whole number >= 1"),
        (([0, 1], [1], 0), "n_states: got 0, expected a whole number >= 1"),
        (([0, 1], [1], None), "n_states: got None, expected a whole number >= 1"),
        (([0, 1], [1], "2"), "n_states: got '2', expected a whole number >= 1"),
        (([0, 1], [1], np.nan), "n_states: got nan, expected a whole number >= 1"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        Context(*arguments)


@given(ergodic_chains(), seeds)
def test_a_context_needs_a_transition(process, seed):
    with pytest.raises(ValueError, match="n: got 0, expected a whole number >= 1"):
        sample_context(process, 0, np.random.default_rng(seed))


def test_states_of_a_narrow_dtype():
    """19 * 20 + 19 is no uint8."""
    context = Context(np.array([19, 19], np.uint8), [1], 20.0)
    assert context.n_states == 20 and context.transition_counts()[19, 19] == 1


def test_a_sampled_context_starts_where_it_is_told():
    process = random_walk(5, 0.9)
    starts = [
        sample_context(process, 1, np.random.default_rng(0), start).states[0]
        for start in range(5)
    ]
    assert starts == list(range(5))


def test_rewards_that_add_up_beyond_the_range_of_floats_are_an_error():
    with pytest.raises(OverflowError, match="mean_rewards: beyond the range of floats"):
        Context([0, 0, 0], [1e308, 1e308], 1).mean_rewards()


def test_inputs_are_copied_and_fields_are_read_only():
    states, rewards = np.array([0, 1, 0]), np.array([1.0, 2.0])
    context = Context(states, rewards, 2)
    states[:], rewards[:] = 1, 0
    assert context.states.tolist() == [0, 1, 0] and context.rewards.tolist() == [1, 2]
    for field in (context.states, context.rewards):
        with pytest.raises(ValueError, match="read-only"):
            field[...] = 0
