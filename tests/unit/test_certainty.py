"""Certainty equivalence against exact fractions, and its noise against many contexts."""

import functools
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import cycle, ergodic_chains, seeds

from ictd_lib import (
    Context,
    MarkovRewardProcess,
    asymptotic_bias,
    asymptotic_covariance,
    certainty_equivalence,
    confidence_band,
    expected_sup_norm,
    feature_classes,
    lumped_context,
    mean_td_errors,
    random_boyan_chain,
    random_ergodic_chain,
    sample_context,
    tabular_td,
    td_errors,
)

# ---------------------------------------------------------------- the estimate


def solve_in_fractions(matrix, right):
    """Gaussian elimination without rounding, for a system that is diagonally dominant."""
    rows = [[*row, b] for row, b in zip(matrix, right, strict=True)]
    size = len(rows)
    for k in range(size):
        rows[k] = [x / rows[k][k] for x in rows[k]]
        for i in range(size):
            if i != k:
                factor = rows[i][k]
                rows[i] = [
                    x - factor * y for x, y in zip(rows[i], rows[k], strict=True)
                ]
    return [float(row[-1]) for row in rows]


@given(
    st.lists(st.integers(0, 3), min_size=2, max_size=30),
    st.integers(0, 9),
    st.data(),
)
def test_estimate_in_exact_fractions(path, tenths, data):
    """Transition by transition, states never left held at a value."""
    rewards = data.draw(
        st.lists(st.integers(-8, 8), min_size=len(path) - 1, max_size=len(path) - 1)
    )
    gamma, held = Fraction(tenths, 10), 3
    matrix = [[Fraction(int(i == j)) for j in range(4)] for i in range(4)]
    right = [Fraction(held)] * 4
    for s in set(path[:-1]):
        visits = [k for k in range(len(path) - 1) if path[k] == s]
        right[s] = Fraction(sum(rewards[k] for k in visits), len(visits))
        for k in visits:
            matrix[s][path[k + 1]] -= gamma / len(visits)
    context = Context(path, rewards, 4)
    found = certainty_equivalence(context, tenths / 10, unvisited=held)
    expected = solve_in_fractions(matrix, right)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-11)
    if set(path[:-1]) == {0, 1, 2, 3}:
        np.testing.assert_array_equal(
            found, certainty_equivalence(context, tenths / 10)
        )
    else:
        with pytest.raises(ValueError, match="context: got one that never left state"):
            certainty_equivalence(context, tenths / 10)


@given(ergodic_chains(), st.integers(1, 60), seeds)
def test_batch_td_converges_to_it(mrp, n, seed):
    """From zero, with zero where the context says nothing."""
    rng = np.random.default_rng(seed)
    context = sample_context(mrp, n, rng)
    sweeps = 40 if mrp.discount <= 0.5 else 400
    run = tabular_td(context, mrp.discount, sweeps)
    estimate = certainty_equivalence(context, mrp.discount, unvisited=0)
    error = np.abs(run - estimate).max(axis=1)
    assert error[-1] <= mrp.discount**sweeps * error[0] + 1e-11


@given(ergodic_chains(), st.integers(1, 60), seeds)
def test_mean_td_errors_against_a_loop(mrp, n, seed):
    rng = np.random.default_rng(seed)
    context = sample_context(mrp, n, rng)
    v = rng.standard_normal(mrp.n_states)
    errors = td_errors(context, v, mrp.discount)
    expected = [
        errors[context.sources == s].mean() if (context.sources == s).any() else 0.0
        for s in range(mrp.n_states)
    ]
    found = mean_td_errors(context, v, mrp.discount)
    np.testing.assert_allclose(found, expected, atol=1e-13)
    held = certainty_equivalence(context, mrp.discount, unvisited=1.5)
    np.testing.assert_allclose(
        mean_td_errors(context, held, mrp.discount), 0, atol=1e-11
    )


@given(ergodic_chains(), seeds)
def test_the_distance_from_the_truth_comes_from_the_noise(mrp, seed):
    context = sample_context(mrp, 300, np.random.default_rng(seed))
    truth = mrp.values()
    noise = mean_td_errors(context, truth, mrp.discount)
    seen = context.counts() > 0
    drift = (context.empirical_transition() - mrp.transition) @ truth
    scale = 1e-13 * (1 + np.abs(truth).max())
    np.testing.assert_allclose(noise[seen], mrp.discount * drift[seen], atol=10 * scale)
    if seen.all():
        system = np.eye(mrp.n_states) - mrp.discount * context.empirical_transition()
        distance = certainty_equivalence(context, mrp.discount) - truth
        np.testing.assert_allclose(system @ distance, noise, atol=100 * scale)


# ---------------------------------------------------------------- its noise


def dense_chain():
    rng = np.random.default_rng(3)
    return random_ergodic_chain(4, rng, 0.8, concentration=1.0, mixing=0.4)


def test_covariance_by_hand():
    """Two states, from 0 anywhere and from 1 to 0: all noise is in the row of 0."""
    mrp = MarkovRewardProcess([[0.5, 0.5], [1, 0]], [1, 0], 0.5)
    # v(0) = 1 + v(0)/4 + v(1)/4, v(1) = v(0)/2: v = (1.6, 0.8); mu = (2/3, 1/3).
    variance = 0.25 * 0.4**2 / (2 / 3)
    inverse = np.array([[1, 0.25], [0.5, 0.75]]) / 0.625
    expected = variance * np.outer(inverse[:, 0], inverse[:, 0])
    np.testing.assert_allclose(asymptotic_covariance(mrp), expected, rtol=1e-13)


@given(ergodic_chains())
def test_covariance_against_the_definition(mrp):
    """Term by term; symmetric; and none at all where every next state is certain."""
    mu, v = mrp.stationary(), mrp.values()
    inverse = np.linalg.inv(np.eye(mrp.n_states) - mrp.discount * mrp.transition)
    if not mu.all():
        with pytest.raises(ValueError, match="process: expected every state"):
            asymptotic_covariance(mrp)
        return
    expected = np.zeros((mrp.n_states, mrp.n_states))
    for s in range(mrp.n_states):
        mean = mrp.transition[s] @ v
        variance = mrp.transition[s] @ (v - mean) ** 2
        column = inverse[:, s]
        expected += mrp.discount**2 * variance / mu[s] * np.outer(column, column)
    found = asymptotic_covariance(mrp)
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_allclose(found, expected, atol=1e-9 * expected.max() + 1e-300)


def test_a_deterministic_chain_has_no_noise():
    mrp = MarkovRewardProcess(cycle(5, 0.0), [1, -2, 3, 0, 1], 0.9)
    np.testing.assert_allclose(asymptotic_covariance(mrp), 0, atol=1e-25)


def test_a_transient_state_is_named():
    mrp = MarkovRewardProcess([[0, 1, 0], [0, 0.5, 0.5], [0, 1, 0]], [0, 1, 2], 0.5)
    for function in (asymptotic_covariance, asymptotic_bias):
        with pytest.raises(ValueError, match="probability 0 at state 0"):
            function(mrp)


class Many(NamedTuple):
    """Certainty equivalence on many contexts of one chain: its errors, and the counts."""

    mrp: MarkovRewardProcess
    n: int
    errors: np.ndarray  # (contexts, S)
    noise: np.ndarray  # (contexts, S), the mean TD errors of the true values
    visits: np.ndarray  # (contexts, S)


@functools.cache
def many_contexts(name, count=20_000, n=1000):
    rng = np.random.default_rng(5)
    mrp = dense_chain() if name == "dense" else random_boyan_chain(4, rng, 0.7)
    size, truth, blocks = mrp.n_states, mrp.values(), []
    for _ in range(count // 2500):
        path = mrp.sample_many(2500, n, rng)
        pairs = (np.arange(2500)[:, None] * size + path[:, :-1]) * size + path[:, 1:]
        counts = np.bincount(pairs.ravel(), minlength=2500 * size**2)
        counts = counts.reshape(2500, size, size)
        visits = counts.sum(axis=2)
        p = counts / visits[..., None]
        system = np.eye(size) - mrp.discount * p
        estimate = np.linalg.solve(system, mrp.reward[:, None])[..., 0]
        noise = mrp.reward - (system @ truth[:, None])[..., 0]
        blocks.append((estimate - truth, noise, visits))
    return Many(mrp, n, *(np.concatenate(x) for x in zip(*blocks, strict=True)))


@pytest.mark.parametrize("name", ["dense", "boyan"])
def test_covariance_over_many_contexts(name):
    """Entry by entry, in units of the standard deviations, within sampling error.

    The sampling error of a covariance in those units is sqrt((1 + rho^2) / N) <= sqrt(2 / N),
    1 % for 20,000 contexts: 4.5 of them, and 2 % for what is of order 1/n.
    """
    mrp, n, errors, *_ = many_contexts(name)
    sigma = asymptotic_covariance(mrp)
    scale = np.sqrt(np.diag(sigma))
    assert (scale > 0.1).all()
    found = n * np.cov(errors.T)
    tolerance = 4.5 * np.sqrt(2 / len(errors)) + 0.02
    np.testing.assert_allclose(
        found / np.outer(scale, scale), sigma / np.outer(scale, scale), atol=tolerance
    )
    # Off by the reward's variance, a transpose or a forgotten mu, it would be off by far more.
    assert np.abs(sigma / np.outer(scale, scale)).min() < 0.95


@pytest.mark.parametrize("name", ["dense", "boyan"])
def test_sup_norm_over_many_contexts(name):
    mrp, n, errors, *_ = many_contexts(name)
    largest = np.sqrt(n) * np.abs(errors).max(axis=1)
    rng = np.random.default_rng(6)
    predicted = expected_sup_norm(asymptotic_covariance(mrp), rng, 40_000)
    error = np.hypot(predicted.standard_error, largest.std() / np.sqrt(len(largest)))
    assert error < 0.02 * predicted.mean
    assert abs(largest.mean() - predicted.mean) < 4.5 * error + 0.02 * predicted.mean


@pytest.mark.parametrize("name", ["dense", "boyan"])
def test_bias_over_many_contexts(name):
    """The mean error times n, with the part that has the mean 0 exactly taken out.

    That part is first order, (I - gamma P)^-1 of the noise added up over the visits and
    divided by n mu(s) instead of N(s): a martingale. What is left is of order 1/n, as is
    its standard deviation, so that 20,000 contexts show its mean.
    """
    many = many_contexts(name)
    mrp, n, mu = many.mrp, many.n, many.mrp.stationary()
    martingale = many.noise * many.visits / (n * mu)
    first = np.linalg.solve(
        np.eye(mrp.n_states) - mrp.discount * mrp.transition, martingale.T
    ).T
    rest = n * (many.errors - first)
    error = rest.std(axis=0) / np.sqrt(len(rest))
    predicted = asymptotic_bias(mrp)
    assert np.abs(predicted / error).max() > 10  # it is there to be seen
    gap = np.abs(rest.mean(axis=0) - predicted)
    assert (gap < 4.5 * error + 5 * np.abs(predicted).max() / n).all()


def test_sup_norm_in_closed_form():
    """One normal: sqrt(2/pi) sigma. Two independent ones of variance 1: 2/sqrt(pi)."""
    rng = np.random.default_rng(7)
    one = expected_sup_norm([[4.0]], rng, 50_000)
    assert one.mean == pytest.approx(2 * np.sqrt(2 / np.pi), abs=5 * one.standard_error)
    two = expected_sup_norm(np.eye(2), rng, 50_000)
    assert two.mean == pytest.approx(2 / np.sqrt(np.pi), abs=5 * two.standard_error)
    assert 0 < two.standard_error < 0.01
    same = expected_sup_norm(np.ones((3, 3)), rng, 50_000)  # one number, three times
    assert same.mean == pytest.approx(np.sqrt(2 / np.pi), abs=5 * same.standard_error)
    assert expected_sup_norm(np.zeros((2, 2)), rng) == (0, 0)
    again = [expected_sup_norm(np.eye(2), np.random.default_rng(8)) for _ in range(2)]
    assert again[0] == again[1]


# ---------------------------------------------------------------- the band


def test_band_against_a_loop():
    mrp = dense_chain()
    context = sample_context(mrp, 500, np.random.default_rng(9))
    span, n = np.array([1.0, 2.0, 0.5, 0.0]), 500
    noise = [
        0.8 * span[s] * np.sqrt(np.log(2 * 4 * n / 0.05) / (2 * context.counts()[s]))
        for s in range(4)
    ]
    # The Neumann series of the inverse.
    band, term = np.zeros(4), np.array(noise)
    for _ in range(300):
        band += term
        term = 0.8 * context.empirical_transition() @ term
    np.testing.assert_allclose(
        confidence_band(context, 0.8, span, 0.05), band, rtol=1e-12
    )


def test_band_holds_the_truth_as_often_as_it_says():
    """Of 1,000 contexts of random length, at most a share delta, and its sampling error, fail."""
    rng = np.random.default_rng(10)
    failure, failed, tried = 0.5, 0, 0
    widest = 0.0
    while tried < 1000:
        mrp = random_boyan_chain(3, rng, 0.5)
        context = sample_context(mrp, int(rng.integers(5, 60)), rng)
        if not context.covers():
            continue
        v = mrp.values()
        reached = np.where(mrp.transition > 0, v, np.nan)
        span = np.nanmax(reached, axis=1) - np.nanmin(reached, axis=1)
        error = np.abs(certainty_equivalence(context, 0.5) - v)
        band = confidence_band(context, 0.5, span, failure)
        tried += 1
        failed += (error > band + 1e-12).any()
        widest = max(widest, (error / np.maximum(band, 1e-12)).max())
    assert failed <= failure * tried + 4 * np.sqrt(tried / 4)
    assert widest > 0.5  # not so wide that nothing could fail


# ---------------------------------------------------------------- shared features


def test_classes_in_the_order_in_which_they_occur():
    x = np.array([[2.0, 1], [0, 0], [2, 1], [-1, 5], [0, 0], [-0.0, 0]])
    np.testing.assert_array_equal(feature_classes(x), [0, 1, 0, 2, 1, 1])


def test_a_lumped_context_keeps_the_transitions():
    context = Context([0, 2, 1, 2, 0], [1.0, 2, 3, 4], 3)
    lumped = lumped_context(context, [0, 1, 1])
    np.testing.assert_array_equal(lumped.states, [0, 1, 1, 1, 0])
    np.testing.assert_array_equal(lumped.rewards, context.rewards)
    assert lumped.n_states == 2
    # Mean rewards 1 and 3; from the second, two in three stay.
    gamma = 0.5
    expected = np.linalg.solve(
        np.eye(2) - gamma * np.array([[0, 1], [1 / 3, 2 / 3]]), [1, 3]
    )
    np.testing.assert_allclose(certainty_equivalence(lumped, gamma), expected)


# ---------------------------------------------------------------- what is refused

SEEN = Context([0, 1, 0], [1.0, 2.0], 2)
MISSED = Context([0, 0, 2], [1.0, 2.0], 4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: certainty_equivalence(MISSED, 0.5), "never left states 1, 2, 3, expected"),
        (lambda: certainty_equivalence(MISSED, 0.5, np.inf), "unvisited: got inf"),
        (lambda: certainty_equivalence(SEEN, 1.0), "discount: got 1.0"),
        (lambda: mean_td_errors(SEEN, [1.0], 0.5), "values: got shape"),
        (lambda: expected_sup_norm([[1, 2], [0, 1]], np.random.default_rng()), "expected a symmetric"),
        (lambda: expected_sup_norm(np.ones((2, 3)), np.random.default_rng()), r"covariance: got shape \(2, 3\)"),
        (lambda: expected_sup_norm(np.ones((0, 0)), np.random.default_rng()), r"covariance: got shape \(0, 0\)"),
        (lambda: expected_sup_norm([[np.nan]], np.random.default_rng()), "covariance: got entries up to nan"),
        (lambda: expected_sup_norm([[0, 1], [1, 0]], np.random.default_rng()), "got the eigenvalue -1"),
        (lambda: expected_sup_norm(np.eye(2), np.random.default_rng(), 1), "draws: got 1"),
        (lambda: confidence_band(MISSED, 0.5, 1, 0.1), "never left states 1, 2, 3"),
        (lambda: confidence_band(SEEN, 0.5, -1, 0.1), "span: got -1"),
        (lambda: confidence_band(SEEN, 0.5, [1, 2, 3], 0.1), "span: got"),
        (lambda: confidence_band(SEEN, 0.5, 1, 0), "failure: got 0"),
        (lambda: lumped_context(SEEN, [0]), "labels: got shape"),
        (lambda: lumped_context(SEEN, [0.0, 1.0]), "of dtype float64"),
        (lambda: lumped_context(SEEN, [0, -1]), "labels: got -1"),
    ],
)  # fmt: skip
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_rounding_errors_beside_large_entries_leave_a_covariance_symmetric():
    drawn = [
        expected_sup_norm([[1, a], [b, 1]], np.random.default_rng(0), 100).mean
        for a, b in ((0, 0), (1e-17, -2e-17))
    ]
    assert drawn[0] == pytest.approx(drawn[1], rel=0.2)


def test_many_missed_states_are_not_all_listed():
    context = Context([0, 0], [1.0], 40)
    with pytest.raises(ValueError, match=r"states 1, 2, .*, 10 and 29 more, expected"):
        certainty_equivalence(context, 0.5)


def test_an_estimate_beyond_floats_is_an_error():
    with pytest.raises(OverflowError, match="values: beyond the range of floats"):
        certainty_equivalence(Context([0, 0], [1.7e308], 1), 0.9)
