"""Markov reward processes against exact arithmetic, closed forms and their own definition."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import ergodic_chains, ladder, seeds

from ictd_lib import (
    MarkovRewardProcess,
    closed_classes,
    random_boyan_chain,
    random_ergodic_chain,
    random_walk,
    stationary_distribution,
)
from ictd_lib.chain import ROW_SUM_TOLERANCE

EPS = np.finfo(float).eps
TWO_STATES = [[0.75, 0.25], [0.5, 0.5]]


# ---------------------------------------------------------------- true values


@given(ergodic_chains())
def test_values_are_the_fixed_point_of_the_bellman_operator(process):
    v = process.values()
    residual = np.abs(process.backup(v) - v).max()
    assert residual <= 50 * EPS * max(1, np.abs(v).max())


@given(ergodic_chains())
def test_values_equal_the_discounted_sum_of_expected_rewards(process):
    """Independent of any solve: sum_t gamma^t P^t r, cut where the tail is known."""
    horizon = 4000 if process.discount == 0.99 else 500
    total, reward = np.zeros(process.n_states), process.reward.copy()
    for _ in range(horizon):
        total += reward
        reward = process.discount * process.transition @ reward
    tail = (
        process.discount**horizon
        * np.abs(process.reward).max()
        / (1 - process.discount)
    )
    assert np.abs(total - process.values()).max() <= tail + 1e-11


def test_values_of_two_states_by_hand():
    # v0 = 1 + .5 (.75 v0 + .25 v1), v1 = .5 (.5 v0 + .5 v1) have the solution (12/7, 4/7).
    process = MarkovRewardProcess(TWO_STATES, [1, 0], 0.5)
    np.testing.assert_allclose(process.values(), [12 / 7, 4 / 7], rtol=1e-15)


def test_backup_by_hand():
    process = MarkovRewardProcess(TWO_STATES, [1, -1], 0.5)
    np.testing.assert_array_equal(process.backup([4, 8]), [1 + 2.5, -1 + 3])


# ---------------------------------------------------------------- stationary distribution


@given(ergodic_chains())
def test_stationary_distribution_is_stationary(process):
    mu = process.stationary()
    assert (mu > 0).all()
    assert abs(mu.sum() - 1) <= 8 * EPS
    np.testing.assert_allclose(mu @ process.transition, mu, rtol=0, atol=100 * EPS)


def exact_stationary(transition):
    """Gaussian elimination on mu (P - I) = 0 in rational arithmetic."""
    n = len(transition)
    rows = [[Fraction(float(x)) for x in row] for row in transition]
    rows = [[x / sum(row) for x in row] for row in rows]  # exactly stochastic
    system = [
        [rows[i][j] - (i == j) for i in range(n)] + [Fraction(0)] for j in range(n)
    ]
    system[-1] = [Fraction(1)] * (n + 1)
    for k in range(n):
        pivot = next(i for i in range(k, n) if system[i][k] != 0)
        system[k], system[pivot] = system[pivot], system[k]
        system[k] = [x / system[k][k] for x in system[k]]
        for i in range(n):
            if i != k and system[i][k] != 0:
                system[i] = [
                    a - system[i][k] * b
                    for a, b in zip(system[i], system[k], strict=True)
                ]
    return np.array([float(row[-1]) for row in system])


@given(ergodic_chains())
def test_stationary_distribution_is_accurate_entry_by_entry(process):
    """GTH keeps each entry to a few roundings of itself, however small it is.

    The rounding of the rows themselves is not GTH's: rows that sum to 1 within eps
    leave 1 - P(k, k) uncertain, which only chains that nearly never move can see.
    """
    exact = exact_stationary(process.transition)
    n_states = process.n_states
    np.testing.assert_allclose(process.stationary(), exact, rtol=40 * n_states**2 * EPS)


@pytest.mark.parametrize("e", [1e-3, 1e-8, 1e-12, 1e-15])
def test_stationary_distribution_of_a_nearly_decomposable_chain(e):
    """Case H1: a null-space routine returns noise here."""
    mu = stationary_distribution([[1 - e, e], [2 * e, 1 - 2 * e]])
    np.testing.assert_allclose(mu, [2 / 3, 1 / 3], rtol=1e-10)


def test_stationary_distribution_of_a_periodic_chain():
    """Case H1."""
    np.testing.assert_array_equal(stationary_distribution([[0, 1], [1, 0]]), [0.5, 0.5])


def test_two_closed_classes_are_an_error_that_names_them():
    """Case H1."""
    with pytest.raises(ValueError, match=r"got 2: \[0\] and \[1\]"):
        stationary_distribution(np.eye(2))
    with pytest.raises(ValueError, match=r"got 2: \[0, 3\] and \[2\]"):
        stationary_distribution(
            [[0, 0, 0, 1], [0.5, 0, 0.5, 0], [0, 0, 1, 0], [1, 0, 0, 0]]
        )


def test_transient_states_have_no_stationary_weight():
    mu = stationary_distribution([[0.5, 0.5, 0], [0, 0.25, 0.75], [0, 0.75, 0.25]])
    np.testing.assert_array_equal(mu, [0, 0.5, 0.5])


def test_ratios_beyond_the_range_of_floats():
    p = 1e-10
    mu = random_walk(60, 0.9, p_right=p).stationary()
    assert np.isfinite(mu).all()
    np.testing.assert_allclose(
        mu[:4], (p / (1 - p)) ** np.arange(4) * (1 - p / (1 - p)), rtol=1e-12
    )


@pytest.mark.parametrize(
    ("n_states", "e"), [(8, 0.3), (350, 0.1), (170, 0.01), (40, 1e-10), (3, 1e-200)]
)
def test_products_of_probabilities_below_the_range_of_floats(n_states, e):
    mu = stationary_distribution(ladder(n_states, e))
    powers = float(e) ** np.array([n_states - 1, *range(n_states - 1)])
    np.testing.assert_allclose(mu, powers / powers.sum(), rtol=1e-10, atol=1e-300)
    assert mu.sum() == pytest.approx(1, rel=1e-14)


def test_masses_beyond_a_state_too_rare_for_floats():
    """Two wells with a barrier of 1e-400 between them: each holds one half."""
    right = np.where(np.arange(80) < 40, 1e-10, 1 - 1e-10)
    transition = np.zeros((80, 80))
    for s, p in enumerate(right):
        transition[s, min(s + 1, 79)] += p
        transition[s, max(s - 1, 0)] += 1 - p
    mu = stationary_distribution(transition)
    np.testing.assert_allclose(mu[[0, 79]], 0.5, rtol=1e-5)  # as 1 - 1e-10 is rounded
    assert mu[40] < 1e-300


def brute_force_closed_classes(transition):
    """From reachability: s's class is closed if all that s reaches reaches s."""
    n = len(transition)
    reach = np.linalg.matrix_power((np.eye(n) + (transition > 0)).astype(bool), n)
    found = []
    for s in range(n):
        members = np.flatnonzero(reach[s])
        if all(reach[t, s] for t in members) and s == members[0]:
            found.append(members.tolist())
    return found


@given(seeds, st.integers(1, 8), st.integers(1, 3))
def test_closed_classes_against_reachability(seed, n_states, out_degree):
    rng = np.random.default_rng(seed)
    transition = np.zeros((n_states, n_states))
    for row in transition:
        row[rng.choice(n_states, min(out_degree, n_states), replace=False)] = 1
    transition /= transition.sum(axis=1, keepdims=True)
    found = [members.tolist() for members in closed_classes(transition)]
    assert found == brute_force_closed_classes(transition)


# ---------------------------------------------------------------- sampling


def by_inversion(process, uniforms, first):
    """The definition, literally: the first state whose cumulative probability exceeds u."""
    path = [first]
    for u in uniforms:
        row, state, total = process.transition[path[-1]], 0, 0.0
        total = row[0]
        while total <= u:
            state += 1
            total += row[state]
        path.append(state)
    return path


@given(ergodic_chains(), seeds, st.integers(0, 40))
def test_sample_inverts_the_cumulative_rows(process, seed, steps):
    path = process.sample(steps, np.random.default_rng(seed), start=0)
    uniforms = np.random.default_rng(seed).random(steps)
    assert path.tolist() == by_inversion(process, uniforms, 0)


@given(ergodic_chains(), seeds)
def test_sampling_takes_possible_steps_only(process, seed):
    rng = np.random.default_rng(seed)
    one, many = process.sample(200, rng)[None], process.sample_many(20, 50, rng)
    for paths in (one, many):
        assert (process.transition[paths[:, :-1], paths[:, 1:]] > 0).all()


def test_an_impossible_state_is_never_entered_at_either_end():
    """Uniform numbers of 0 and just below 1 are where inversion goes wrong."""

    class Extremes:
        def random(self, size):
            return np.resize([0.0, 1 - 2.0**-53], size)

    process = MarkovRewardProcess(
        [[0, 1, 0], [0.3, 0.7, 0], [0.5, 0.5, 0]], [0, 0, 0], 0.5
    )
    assert process.sample(4, Extremes(), start=0).tolist() == [0, 1, 1, 0, 1]
    assert process.sample_many(2, 2, Extremes(), start=1).tolist() == [
        [1, 0, 1],
        [1, 1, 1],
    ]


class Constant:
    """A generator whose numbers are all the same."""

    def __init__(self, number):
        self.number = number

    def random(self, size):
        return np.full(size, self.number)


def test_a_first_state_of_probability_zero_is_never_drawn():
    process = MarkovRewardProcess(np.eye(2), [0, 0], 0.5, initial=[0, 1])
    assert process.sample(0, Constant(0.0)).tolist() == [1]


def test_rows_whose_cumulative_sum_ends_below_one():
    """Ten tenths add up to 1 - 2^-53, which is a uniform number too."""
    process = MarkovRewardProcess(np.full((10, 10), 0.1), np.zeros(10), 0.5)
    almost = Constant(1 - 2.0**-53)
    assert process.sample(2, almost).tolist() == [9, 9, 9]
    assert process.sample_many(1, 2, almost).tolist() == [[9, 9, 9]]


@pytest.mark.parametrize("draw", ["one", "many"])
def test_sampled_frequencies(draw):
    """Transition frequencies within 5 standard errors of the probabilities."""
    rng = np.random.default_rng(7)
    process = random_ergodic_chain(5, rng, 0.9)
    if draw == "one":
        paths = process.sample(200_000, rng)[None]
    else:
        paths = process.sample_many(2_000, 100, rng)
    pairs = np.zeros((5, 5))
    np.add.at(pairs, (paths[:, :-1], paths[:, 1:]), 1)
    visits = pairs.sum(axis=1, keepdims=True)
    p = process.transition
    assert (np.abs(pairs / visits - p) <= 5 * np.sqrt(p * (1 - p) / visits)).all()


def test_first_states_follow_the_initial_distribution():
    process = MarkovRewardProcess(np.eye(3), [0, 0, 0], 0.5, initial=[0.2, 0, 0.8])
    starts = process.sample_many(20_000, 0, np.random.default_rng(3))[:, 0]
    frequencies = np.bincount(starts, minlength=3) / len(starts)
    assert frequencies[1] == 0
    assert abs(frequencies[0] - 0.2) <= 5 * np.sqrt(0.2 * 0.8 / 20_000)


def test_float32_rows_are_accepted_and_a_million_steps_stay_in_range():
    """Case H2."""
    rng = np.random.default_rng(0)
    rows = rng.random((7, 7)).astype(np.float32)
    rows /= rows.sum(axis=1, keepdims=True)
    process = MarkovRewardProcess(rows, np.zeros(7), 0.9)
    np.testing.assert_allclose(process.transition.sum(axis=1), 1, rtol=0, atol=4 * EPS)
    path = process.sample(1_000_000, rng)
    assert path.shape == (1_000_001,)
    assert path.min() >= 0 and path.max() <= 6


def test_sampling_is_a_function_of_the_generator_alone():
    process = random_boyan_chain(6, np.random.default_rng(1), 0.9)
    first, second = (process.sample(100, np.random.default_rng(2)) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    first, second = (
        process.sample_many(3, 9, np.random.default_rng(2)) for _ in range(2)
    )
    np.testing.assert_array_equal(first, second)


# ---------------------------------------------------------------- validation (case H2)


@pytest.mark.parametrize(
    ("transition", "message"),
    [
        ([[0.5, 0.5], [0.9, 0.9]], r"transition, row 1: got the sum 1\.8, expected 1"),
        ([[1.5, -0.5], [0.5, 0.5]], r"transition, row 0: got the entry -0\.5, .*>= 0"),
        ([[1, 0], [1 + 1e-12, -1e-12]], r"transition, row 1: got the entry -1e-12"),
        (np.eye(2) * (1 + 0j), "transition: got complex numbers, expected real ones"),
        (
            [[1, 0], [1 - 1e-5, 0]],
            r"transition, row 1: got the sum 0\.99999, expected 1",
        ),
        ([[1, 0], [np.nan, 1]], r"transition, row 1: got .*nan.*expected finite"),
        ([[1, 0], [np.inf, 0]], r"transition, row 1: got .*inf.*expected finite"),
        ([[0.5, 0.5]], r"transition: got shape \(1, 2\), expected a square matrix"),
        ([1.0], r"transition: got shape \(1,\), expected a square matrix"),
        (np.zeros((0, 0)), r"transition: got shape \(0, 0\), expected a square matrix"),
    ],
)
def test_a_bad_transition_matrix_is_named(transition, message):
    reward = np.zeros(len(transition))
    with pytest.raises(ValueError, match=message):
        MarkovRewardProcess(transition, reward, 0.9)
    with pytest.raises(ValueError, match=message):
        stationary_distribution(transition)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"reward": [1, 2, 3]}, r"reward: got shape \(3,\), expected \(2,\)"),
        ({"reward": [1, np.nan]}, r"reward: got .*nan.*expected finite"),
        ({"reward": [1j, 0]}, "reward: got complex numbers, expected real ones"),
        ({"discount": 1}, "discount: got 1, expected 0 <= discount < 1"),
        ({"discount": -0.1}, "discount: got -0.1, expected 0 <= discount < 1"),
        ({"discount": np.nan}, "discount: got nan, expected 0 <= discount < 1"),
        ({"initial": [1, 1]}, "initial: got the sum 2, expected 1"),
        ({"initial": [1]}, r"initial: got shape \(1,\), expected \(2,\)"),
        (
            {"initial": [2, -1]},
            "initial: got the entry -1, expected probabilities >= 0",
        ),
    ],
)
def test_other_bad_arguments_are_named(changed, message):
    arguments = {"transition": TWO_STATES, "reward": [0, 1], "discount": 0.9} | changed
    with pytest.raises(ValueError, match=message):
        MarkovRewardProcess(**arguments)


def test_bad_sampling_arguments_are_named():
    process = MarkovRewardProcess(TWO_STATES, [0, 1], 0.9)
    rng = np.random.default_rng(0)
    with pytest.raises(ValueError, match="steps: got -1, expected a whole number >= 0"):
        process.sample(-1, rng)
    with pytest.raises(ValueError, match="count: got 0, expected a whole number >= 1"):
        process.sample_many(0, 5, rng)
    for steps in (None, np.inf, np.nan, "3", 2.5):
        with pytest.raises(ValueError, match=f"steps: got {steps!r}, expected a whole"):
            process.sample(steps, rng)
    for start in (2, -1, 0.5, "1", np.nan):
        expected = f"start: got {start!r}, expected a state from 0 to 1"
        with pytest.raises(ValueError, match=expected):
            process.sample(5, rng, start=start)
    with pytest.raises(ValueError, match="count: got -1, expected a whole number >= 1"):
        process.sample_many(-1, 5, rng)
    with pytest.raises(ValueError, match=r"values: got shape \(3,\), expected \(2,\)"):
        process.backup([1, 2, 3])
    # None of these calls has drawn a number.
    assert rng.random() == np.random.default_rng(0).random()


def test_a_whole_number_may_be_a_float():
    process = MarkovRewardProcess(TWO_STATES, [0, 1], 0.9)
    first, second = (
        process.sample(steps, np.random.default_rng(0), start)
        for steps, start in ((5, 1), (5.0, 1.0))
    )
    np.testing.assert_array_equal(first, second)
    paths = process.sample_many(np.int8(3), np.float32(2), np.random.default_rng(0))
    assert paths.shape == (3, 3)


def test_values_beyond_the_range_of_floats_are_an_error():
    process = MarkovRewardProcess(TWO_STATES, [1e308, 1e308], 0.99)
    with pytest.raises(OverflowError, match="values: beyond the range of floats"):
        process.values()


def test_the_tolerance_of_row_sums_is_a_float32_and_not_a_typing_error():
    """Between the rounding of float32 and an error in the fifth digit, both of case H2."""
    assert np.finfo(np.float32).eps < ROW_SUM_TOLERANCE < 1e-5
    for excess, accepted in (
        (0.9e-6, True),
        (-0.9e-6, True),
        (1.1e-6, False),
        (-1.1e-6, False),
    ):
        rows = [[0.5, 0.5 + excess], [0.5, 0.5]]
        if accepted:
            MarkovRewardProcess(rows, [0, 0], 0.5)
        else:
            with pytest.raises(ValueError, match="row 0"):
                MarkovRewardProcess(rows, [0, 0], 0.5)


def test_inputs_are_copied_and_fields_are_read_only():
    transition, reward = np.array(TWO_STATES), np.array([0.0, 1.0])
    process = MarkovRewardProcess(transition, reward, 0.9)
    transition[:], reward[:] = 0, 0
    np.testing.assert_array_equal(process.transition, TWO_STATES)
    np.testing.assert_array_equal(process.reward, [0, 1])
    np.testing.assert_array_equal(process.initial, [0.5, 0.5])
    for field in (process.transition, process.reward, process.initial):
        with pytest.raises(ValueError, match="read-only"):
            field[...] = 0
    process.stationary(), process.values(), process.sample(5, np.random.default_rng(0))
    np.testing.assert_array_equal(process.transition, TWO_STATES)
