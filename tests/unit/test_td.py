"""Weighted TD against a literal double loop, its special cases, and what doesn't change it."""

import math
import pickle
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import discounts, ergodic_chains, seeds

from ictd_lib import (
    Context,
    DivergenceError,
    attention_matrix,
    boyan_chain,
    boyan_features,
    context_kernel,
    differential_td,
    gaussian_features,
    inner_product_scores,
    kernel_smoothed_td,
    linear_td,
    lstd,
    momentum_td,
    one_hot_features,
    random_boyan_chain,
    sample_context,
    tabular_td,
    td_errors,
    trace_weights,
    unit_features,
    weighted_softmax_td,
    weighted_td,
)

EPS = np.finfo(float).eps


# ---------------------------------------------------------------- the literal double loop


def literal_td(context, scores, discount, steps, initial):
    """Equations 8 and 9, a loop for each sum, in Python floats.

    A query for each token j = 0..n, and one more for each state. The values of tokens are
    kept apart, as the columns of a prompt are: nothing here knows that equal states have
    equal values. Returns one list of values a layer, tokens first.
    """
    S, R = context.states.tolist(), [None, *context.rewards.tolist()]
    n, g = context.n, np.asarray(scores).tolist()
    queries = S + list(range(context.n_states))
    kernel = []
    for query in queries:
        top = max(g[query][S[k - 1]] for k in range(1, n + 1))
        powers = [math.exp(g[query][S[k - 1]] - top) for k in range(1, n + 1)]
        total = 0.0
        for power in powers:
            total += power
        kernel.append([None] + [power / total for power in powers])
    v = [float(initial[query]) for query in queries]
    layers = [v]
    for alpha in steps:
        old, v = v, []
        for j in range(len(queries)):
            change = 0.0
            for k in range(1, n + 1):
                change += (R[k] + discount * old[k] - old[k - 1]) * kernel[j][k]
            v.append(old[j] + float(alpha) * change)
        layers.append(v)
    return np.array(layers)


@dataclass
class Problem:
    """A context with scores, step sizes and a start."""

    context: Context
    scores: np.ndarray
    discount: float
    steps: np.ndarray
    initial: np.ndarray

    def literal(self):
        arguments = (self.scores, self.discount, self.steps, self.initial)
        return literal_td(self.context, *arguments)

    def iterates(self):
        """The library's, arranged as the literal loop's: tokens, then states."""
        v = weighted_softmax_td(
            self.context,
            self.scores,
            self.discount,
            len(self.steps),
            step_size=self.steps,
            initial=self.initial,
            bound=np.inf,
        )
        return np.hstack([v[:, self.context.states], v])

    def growth(self):
        """The largest norm of a product of the layers' linear parts, measured."""
        m = attention_matrix(self.context, context_kernel(self.context, self.scores))
        drift = m - self.discount * m @ self.context.empirical_transition()
        eye = np.eye(len(m))
        layers = [eye - alpha * drift for alpha in self.steps]
        largest = 1.0
        for first in range(len(layers)):
            product = eye
            for layer in layers[first:]:
                product = layer @ product
                largest = max(largest, np.abs(product).sum(axis=1).max())
        return largest


@st.composite
def problems(draw, largest_score, largest_step):
    process = draw(ergodic_chains())
    rng = np.random.default_rng(draw(seeds))
    size = process.n_states
    n = draw(st.integers(1, 40))
    context = sample_context(process, n, rng)
    context = Context(context.states, rng.normal(size=n), size)  # any reward at all
    kind = draw(st.sampled_from(["one-hot", "unit", "gaussian", "boyan", "any"]))
    if kind == "one-hot":
        scores = inner_product_scores(one_hot_features(size))
    elif kind == "unit":
        scores = inner_product_scores(unit_features(size, draw(st.integers(1, 8)), rng))
    elif kind == "gaussian":
        scores = inner_product_scores(gaussian_features(size, 3, rng))
    elif kind == "boyan":
        scores = inner_product_scores(boyan_features(size, min(size, 4)))
    else:
        scores = rng.uniform(-1, 1, (size, size))  # not symmetric
    scores = scores * draw(st.floats(0, largest_score)) / np.abs(scores).max()
    iterations = draw(st.integers(1, 12))
    if draw(st.booleans()):
        steps = rng.uniform(0, largest_step, iterations)
    else:
        steps = np.full(iterations, draw(st.floats(0.05, largest_step)))
    initial = rng.normal(size=size) if draw(st.booleans()) else np.zeros(size)
    return Problem(context, scores, draw(discounts), steps, initial)


@given(problems(largest_score=30, largest_step=1))
def test_every_iterate_agrees_with_the_literal_double_loop(problem):
    """Scores up to +-30 and layers that amplify nothing tenfold: 1e-12 of max|v|."""
    assume(problem.growth() <= 10)
    expected = problem.literal()
    error = np.abs(problem.iterates() - expected).max()
    assert error <= 1e-12 * np.abs(expected).max()


@given(problems(largest_score=1000, largest_step=4))
def test_beyond_that_rounding_grows_as_the_layers_do(problem):
    """c eps L max|score| times the growth that the layers' own products show, c = 10."""
    expected = problem.literal()
    error = np.abs(problem.iterates() - expected).max()
    scale = max(1.0, np.abs(problem.scores).max()) * problem.growth()
    largest = max(np.abs(expected).max(), np.abs(problem.context.rewards).max())
    assert error <= 10 * EPS * len(problem.steps) * scale * largest


@given(problems(largest_score=30, largest_step=1))
def test_tokens_of_one_state_have_one_value(problem):
    """Why a value for each state is enough: a query's update depends on its state alone."""
    n = problem.context.n
    literal = problem.literal()
    for s in range(problem.context.n_states):
        same = literal[:, : n + 1][:, problem.context.states == s]
        assert (same == literal[:, n + 1 + s, None]).all()


def test_two_layers_by_hand():
    """Sources 0, 0, 1 weigh (1/4, 1/4, 1/2) for query 0, (1/10, 1/10, 8/10) for query 1,
    and (1/3, 1/3, 1/3) for query 2, which was never left; gamma = 1/2, alpha = 1.
    """
    context = Context([0, 0, 1, 2], [4, 8, -2], 3)
    scores = np.log([[1, 2, 7], [1, 8, 7], [5, 5, 7]])
    first = np.array([4 / 4 + 8 / 4 - 2 / 2, 4 / 10 + 8 / 10 - 16 / 10, 10 / 3])
    delta = [
        4 + first[0] / 2 - first[0],
        8 + first[1] / 2 - first[0],
        -2 + first[2] / 2 - first[1],
    ]
    kernel = np.array([[1 / 4, 1 / 4, 1 / 2], [0.1, 0.1, 0.8], [1 / 3] * 3])
    expected = [np.zeros(3), first, first + kernel @ delta]
    found = weighted_softmax_td(context, scores, 0.5, 2)
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    np.testing.assert_allclose(td_errors(context, first, 0.5), delta, rtol=1e-15)


def test_step_sizes_one_for_all_for_each_iteration_or_for_each_state():
    rng = np.random.default_rng(0)
    context = sample_context(random_boyan_chain(5, rng, 0.9), 30, rng)
    scores = rng.normal(size=(5, 5))

    def run(iterations, step_size, initial=None):
        return weighted_softmax_td(
            context, scores, 0.9, iterations, step_size=step_size, initial=initial
        )

    np.testing.assert_array_equal(run(4, 0.3), run(4, [0.3] * 4))
    np.testing.assert_array_equal(run(4, [0.3] * 4), run(4, np.full((4, 5), 0.3)))
    # Layer by layer, each from where the last one ended.
    steps = rng.uniform(0, 1, (4, 5))
    v = np.zeros(5)
    for alpha, expected in zip(steps, run(4, steps)[1:], strict=True):
        change = run(1, 1.0, initial=v)[1] - v
        v = v + alpha * change
        np.testing.assert_allclose(v, expected, rtol=1e-13)
    assert run(0, 1.0).shape == (1, 5)


@given(ergodic_chains(), seeds)
def test_the_iterates_of_a_shorter_run_are_the_first_of_a_longer_one(process, seed):
    rng = np.random.default_rng(seed)
    context = sample_context(process, 20, rng)
    scores = inner_product_scores(gaussian_features(process.n_states, 3, rng))
    long = weighted_softmax_td(context, scores, 0.5, 9, step_size=0.5)
    short = weighted_softmax_td(context, scores, 0.5, 4, step_size=0.5)
    np.testing.assert_array_equal(long[:5], short)


# ---------------------------------------------------------------- what changes nothing


@given(problems(largest_score=30, largest_step=1), seeds)
def test_a_constant_added_to_the_scores_of_a_query_changes_nothing(problem, seed):
    assume(problem.growth() <= 10)
    before = problem.iterates()
    shift = np.random.default_rng(seed).uniform(-100, 100, len(problem.scores))
    problem.scores = problem.scores + shift[:, None]
    scale = np.abs(before).max()
    assert np.abs(problem.iterates() - before).max() <= 1e-11 * scale


@given(problems(largest_score=30, largest_step=1), seeds)
def test_the_order_of_the_transitions_changes_nothing(problem, seed):
    """Excursions between visits of one state, in another order: the same transitions."""
    context = problem.context
    assume(problem.growth() <= 10)
    hub = int(np.bincount(context.states).argmax())
    visits = np.flatnonzero(context.states == hub)
    assume(len(visits) >= 3)
    loops = [np.arange(a, b) for a, b in pairwise(visits)]
    order = np.random.default_rng(seed).permutation(len(loops))
    kept = np.concatenate(
        [
            np.arange(visits[0]),
            *(loops[i] for i in order),
            np.arange(visits[-1], context.n),
        ]
    )
    states = np.append(context.states[kept], context.states[-1])
    shuffled = Context(states, context.rewards[kept], context.n_states)
    pairs = context.transition_counts(), shuffled.transition_counts()
    np.testing.assert_array_equal(*pairs)
    size = context.n_states
    before = problem.iterates()[:, -size:]
    problem.context = shuffled
    after = problem.iterates()[:, -size:]
    assert np.abs(after - before).max() <= 1e-12 * np.abs(before).max()


@given(problems(largest_score=30, largest_step=1), seeds)
def test_the_names_of_the_states_change_nothing(problem, seed):
    assume(problem.growth() <= 10)
    context, size = problem.context, problem.context.n_states
    before = problem.iterates()[:, -size:]
    new_name = np.random.default_rng(seed).permutation(size)
    old_name = np.argsort(new_name)
    problem.context = Context(new_name[context.states], context.rewards, size)
    problem.scores = problem.scores[np.ix_(old_name, old_name)]
    problem.initial = problem.initial[old_name]
    after = problem.iterates()[:, -size:][:, new_name]
    assert np.abs(after - before).max() <= 1e-12 * np.abs(before).max()


@given(problems(largest_score=30, largest_step=1), st.floats(-100, 100))
def test_values_scale_with_the_rewards(problem, factor):
    """The update is linear in rewards and start together."""
    assume(problem.growth() <= 10)
    before, context = problem.iterates(), problem.context
    rewards = factor * context.rewards
    problem.context = Context(context.states, rewards, context.n_states)
    problem.initial = factor * problem.initial
    scale = max(1.0, abs(factor)) * np.abs(before).max()
    assert np.abs(problem.iterates() - factor * before).max() <= 1e-12 * scale


def test_inputs_are_not_changed():
    scores, initial, steps = np.eye(2), np.ones(2), np.ones(3)
    context = Context([0, 1, 0], [1, 2], 2)
    weighted_softmax_td(context, scores, 0.9, 3, step_size=steps, initial=initial)
    linear_td(context, scores, 0.9, 3, step_size=steps, initial=initial)
    np.testing.assert_array_equal(scores, np.eye(2))
    np.testing.assert_array_equal(initial, np.ones(2))
    np.testing.assert_array_equal(steps, np.ones(3))


# ---------------------------------------------------------------- special cases


@given(ergodic_chains(), seeds, st.integers(1, 60))
def test_tabular_td_against_a_loop_over_visits(process, seed, n):
    rng = np.random.default_rng(seed)
    context = sample_context(process, n, rng)
    start = rng.normal(size=process.n_states)
    found = tabular_td(context, process.discount, 6, step_size=0.7, initial=start)
    v = start.copy()
    for layer in found[1:]:
        new = v.copy()
        for s in range(process.n_states):
            errors = [
                R + process.discount * v[after] - v[s]
                for before, R, after in zip(
                    context.sources, context.rewards, context.successors, strict=True
                )
                if before == s
            ]
            if errors:
                new[s] += 0.7 * math.fsum(errors) / len(errors)
        v = new
        np.testing.assert_allclose(layer, v, rtol=0, atol=1e-13 * np.abs(found).max())


@given(ergodic_chains(), seeds, st.integers(5, 80), st.floats(0, 40))
def test_sharp_one_hot_features_are_tabular_up_to_the_leak(process, seed, n, tau):
    """Per layer, the values part by at most 2 alpha leak max|delta|, and contract.

    On the states that were left; the last state must be one of them, since an unseen
    query moves by the mean TD error and not by nothing.
    """
    context = sample_context(process, n, np.random.default_rng(seed))
    visits = context.counts()
    assume(visits[context.states[-1]] > 0)
    seen, alpha, gamma = visits > 0, 0.8, process.discount
    scores = inner_product_scores(one_hot_features(process.n_states, tau))
    soft = weighted_softmax_td(context, scores, gamma, 15, step_size=alpha)
    hard = tabular_td(context, gamma, 15, step_size=alpha)
    N = visits[seen]
    leak = ((n - N) / (N * math.exp(tau) + n - N)).max()
    bound = 0.0
    for t in range(15):
        delta = np.abs(td_errors(context, soft[t], gamma)).max()
        bound = (1 - alpha * (1 - gamma)) * bound + 2 * alpha * leak * delta
        apart = np.abs(soft[t + 1] - hard[t + 1])[seen].max()
        assert apart <= bound * (1 + 1e-9) + 1e-13 * np.abs(soft).max()


@given(ergodic_chains(), seeds, st.floats(0, 1000))
def test_an_unseen_query_moves_by_the_mean_td_error(process, seed, tau):
    """K = 1/n at every sharpness, so neither its features nor its neighbours matter."""
    context = sample_context(process, 3, np.random.default_rng(seed))
    assume(not context.covers())
    scores = inner_product_scores(one_hot_features(process.n_states, tau))
    v = weighted_softmax_td(context, scores, process.discount, 5, step_size=0.5)
    for before, after in pairwise(v):
        mean = td_errors(context, before, process.discount).mean()
        moved = (after - before)[context.counts() == 0]
        np.testing.assert_allclose(moved, mean / 2, atol=1e-14 * np.abs(v).max())


@given(ergodic_chains(), seeds)
def test_kernel_smoothed_td_against_its_own_normalisation(process, seed):
    rng = np.random.default_rng(seed)
    context = sample_context(process, 20, rng)
    kappa = rng.uniform(0.01, 5, (process.n_states,) * 2)
    v = kernel_smoothed_td(context, kappa, process.discount, 8, step_size=0.6)
    for before, after in pairwise(v):
        delta = td_errors(context, before, process.discount)
        for s in range(process.n_states):
            near = kappa[s, context.sources]
            expected = before[s] + 0.6 * math.fsum(near * delta) / math.fsum(near)
            assert abs(after[s] - expected) <= 1e-13 * np.abs(v).max()


@given(ergodic_chains(), seeds, st.integers(1, 40), st.integers(1, 5))
def test_linear_td_against_a_loop(process, seed, n, d):
    rng = np.random.default_rng(seed)
    context = sample_context(process, n, rng)
    x = gaussian_features(process.n_states, d, rng)
    steps, w = rng.uniform(0, 0.3, 6), rng.normal(size=d)
    found = linear_td(context, x, process.discount, 6, step_size=steps, initial=w)
    np.testing.assert_array_equal(found[0], w)
    for alpha, layer in zip(steps, found[1:], strict=True):
        total = np.zeros(d)
        for k in range(1, n + 1):
            before, after = context.states[k - 1], context.states[k]
            delta = (
                context.rewards[k - 1] + process.discount * x[after] @ w - x[before] @ w
            )
            total += delta * x[before]
        w = w + alpha / n * total
        np.testing.assert_allclose(layer, w, rtol=0, atol=1e-12 * np.abs(found).max())


@given(ergodic_chains(), seeds, st.booleans())
def test_linear_td_is_weighted_td_with_the_normaliser_in_the_step_size(
    process, seed, positive
):
    """kappa = <x, x'>, alpha(s) = alpha <x(s), mean x>: exact, of either sign.

    Through the softmax where kappa > 0 lets g = log kappa exist; else with the quotient
    kappa / sum kappa as weights, which may be negative. Rounding grows with the
    cancellation in that sum.
    """
    rng = np.random.default_rng(seed)
    context = sample_context(process, 25, rng)
    size, gamma, alpha = process.n_states, process.discount, 0.1
    x = rng.uniform(0.1, 1, (size, 3)) if positive else unit_features(size, 3, rng)
    start = rng.normal(size=3)
    seen = x[context.sources]
    step = np.tile(alpha * x @ seen.mean(axis=0), (10, 1))
    kappa = x @ seen.T
    cancellation = (np.abs(kappa).sum(axis=1) / np.abs(kappa.sum(axis=1))).max()
    assume(cancellation < 1e4)
    if positive:
        v = kernel_smoothed_td(
            context, x @ x.T, gamma, 10, step_size=step, initial=x @ start
        )
    else:
        weights = kappa / kappa.sum(axis=1, keepdims=True)
        v = weighted_td(context, weights, gamma, 10, step_size=step, initial=x @ start)
    linear = linear_td(context, x, gamma, 10, step_size=alpha, initial=start) @ x.T
    assert np.abs(v - linear).max() <= 1e-13 * cancellation * np.abs(linear).max()


def affine_iterates(context, x, eps, *, alpha, gamma, iterations):
    """b <- b + alpha mean(delta), w <- w + alpha eps mean(delta (x - mean x)); v = b + <x, w>."""
    seen = x[context.sources]
    b, w = 0.0, np.zeros(x.shape[1])
    layers = [b + x @ w]
    for _ in range(iterations):
        delta = td_errors(context, b + x @ w, gamma)
        b = b + alpha * delta.mean()
        w = w + alpha * eps * (seen - seen.mean(axis=0)).T @ delta / context.n
        layers.append(b + x @ w)
    return np.array(layers)


def test_at_high_temperature_softmax_td_is_affine_td_up_to_the_square():
    """Two values of eps a factor of 10 apart: errors a factor of 100 apart, within 5 %."""
    rng = np.random.default_rng(3)
    context = sample_context(random_boyan_chain(8, rng, 0.9), 60, rng)
    x = gaussian_features(8, 3, rng)
    errors = []
    for eps in (1e-3, 1e-4):
        scores = inner_product_scores(x, eps)
        soft = weighted_softmax_td(context, scores, 0.9, 30)
        affine = affine_iterates(context, x, eps, alpha=1, gamma=0.9, iterations=30)
        errors.append(np.abs(soft - affine).max())
    assert errors[0] / errors[1] == pytest.approx(100, rel=0.05)


@given(ergodic_chains(), seeds, st.floats(0.01, 1))
def test_affine_td_is_weighted_td_with_the_linearised_kernel(process, seed, eps):
    """The same weights, read as an update of values: exact algebra (c - mean c over visits)."""
    rng = np.random.default_rng(seed)
    context = sample_context(process, 25, rng)
    x = unit_features(process.n_states, 3, rng)
    seen = x[context.sources]
    weights = (1 + eps * x @ (seen - seen.mean(axis=0)).T) / context.n
    found = weighted_td(context, weights, process.discount, 10, step_size=0.5)
    affine = affine_iterates(
        context, x, eps, alpha=0.5, gamma=process.discount, iterations=10
    )
    assert np.abs(found - affine).max() <= 1e-12 * np.abs(affine).max()


@given(ergodic_chains(), seeds, st.floats(0.01, 1))
def test_the_fixed_point_of_affine_td_is_lstd_with_a_constant_feature(
    process, seed, eps
):
    rng = np.random.default_rng(seed)
    context = sample_context(process, 60, rng)
    x = gaussian_features(process.n_states, 2, rng)
    extended = np.hstack([np.ones((process.n_states, 1)), x])
    v = extended @ lstd(context, extended, process.discount)
    seen = x[context.sources]
    weights = (1 + eps * x @ (seen - seen.mean(axis=0)).T) / context.n
    delta = td_errors(context, v, process.discount)
    scale = (np.abs(weights) @ np.abs(delta)).max() + np.abs(v).max()
    assert np.abs(weights @ delta).max() <= 1e-9 * scale


@given(ergodic_chains(), seeds)
def test_lstd_is_where_linear_td_stands_still(process, seed):
    rng = np.random.default_rng(seed)
    context = sample_context(process, 60, rng)
    x = gaussian_features(process.n_states, 2, rng)
    w = lstd(context, x, process.discount)
    after = linear_td(context, x, process.discount, 1, step_size=1, initial=w)[1]
    assert np.abs(after - w).max() <= 1e-9 * max(1, np.abs(w).max())


def test_lstd_with_one_hot_features_solves_the_empirical_chain():
    rng = np.random.default_rng(4)
    process = random_boyan_chain(6, rng, 0.9)
    context = sample_context(process, 400, rng)
    estimate = np.linalg.solve(
        np.eye(6) - 0.9 * context.empirical_transition(), context.mean_rewards()
    )
    np.testing.assert_allclose(lstd(context, np.eye(6), 0.9), estimate, rtol=1e-10)


@given(seeds, st.floats(-300, 300), st.floats(-300, 300))
def test_lstd_whatever_the_units(seed, first, second):
    """The values are those of the empirical chain in any basis of the features."""
    rng = np.random.default_rng(seed)
    context = Context([0, 1, 1, 0, 0], rng.uniform(1, 2, 4), 2)
    estimate = np.linalg.solve(
        np.eye(2) - 0.9 * context.empirical_transition(), context.mean_rewards()
    )
    unit = 10.0 ** np.array([first, second])
    x = np.array([[1, 1], [1, 2]]) * unit
    np.testing.assert_allclose(x @ lstd(context, x, 0.9), estimate, rtol=1e-10)


def test_lstd_tells_nearly_dependent_features_apart():
    context = Context([0, 1, 1, 0, 0], [1, 5, 2, 4], 2)
    estimate = np.linalg.solve(
        np.eye(2) - 0.9 * context.empirical_transition(), context.mean_rewards()
    )
    x = np.array([[1, 1], [1, 1 + 1e-4]])
    np.testing.assert_allclose(x @ lstd(context, x, 0.9), estimate, rtol=1e-6)


def test_lstd_of_dependent_features_has_least_norm():
    context = Context([0, 1, 1, 0, 0], [1, 5, 2, 4], 2)
    w = lstd(context, [[1, 0, 1], [0, 1, 0]], 0.9)
    assert w[0] == pytest.approx(w[2], rel=1e-12)


def test_lstd_without_a_solution_is_an_error():
    """x(0) (1 + x(1) w / 2 - x(0) w) = x(0), whatever the weight."""
    with pytest.raises(ValueError, match="features: got equations without a solution"):
        lstd(Context([0, 1], [1.0], 2), [[0.5], [1.0]], 0.5)
    with pytest.raises(ValueError, match="discount: got 1, expected"):
        lstd(Context([0, 1], [1.0], 2), [[0.5], [1.0]], 1)
    with pytest.raises(OverflowError, match="weights: beyond the range of floats"):
        lstd(Context([0, 0], [1e300], 1), [[1e-300]], 0.5)
    extreme = lstd(Context([0, 0], [1e308], 1), [[1e200]], 0.5)
    np.testing.assert_allclose(extreme, [2e108], rtol=1e-14)


def test_depth_ends_at_the_values_of_the_empirical_chain():
    """Whatever the kernel: what more layers cannot remove is what the context doesn't say."""
    rng = np.random.default_rng(5)
    process = random_boyan_chain(6, rng, 0.9)
    context = sample_context(process, 300, rng)
    estimate = np.linalg.solve(
        np.eye(6) - 0.9 * context.empirical_transition(), context.mean_rewards()
    )
    for tau in (2, 6):
        scores = inner_product_scores(one_hot_features(6, tau))
        v = weighted_softmax_td(context, scores, 0.9, 4000)
        np.testing.assert_allclose(v[-1], estimate, rtol=1e-10)


@pytest.mark.parametrize(
    "call",
    [
        lambda c: td_errors(c, [0.0, 0.0], 0.9),
        lambda c: weighted_td(c, np.ones((2, 1)), 0.9, 1),
        lambda c: weighted_softmax_td(c, np.eye(2), 0.9, 1),
        lambda c: kernel_smoothed_td(c, np.ones((2, 2)), 0.9, 1),
        lambda c: tabular_td(c, 0.9, 1),
        lambda c: linear_td(c, np.eye(2), 0.9, 1),
        lambda c: lstd(c, np.eye(2), 0.9),
        lambda c: momentum_td(c, np.ones((2, 1)), 0.9, [1.0], [0.0]),
        lambda c: differential_td(c, np.ones((2, 1)), 1),
        lambda c: trace_weights(c, np.ones((2, 1)), 0.9, 0.5),
    ],
)
def test_what_is_no_context_is_named(call):
    with pytest.raises(TypeError, match=r"context: got list, expected a Context \("):
        call([0, 1])


# ---------------------------------------------------------------- divergence (case H4)


def overstepping():
    """A chain, a context and scores on which a step size of 3 diverges."""
    rng = np.random.default_rng(0)
    context = sample_context(boyan_chain(0.9), 200, rng)
    return context, inner_product_scores(one_hot_features(13, 6.0))


def test_a_diverging_run_says_where_how_large_and_why():
    context, scores = overstepping()
    bound = 1e6 * 3 / (1 - 0.9)
    with pytest.raises(DivergenceError) as caught:
        weighted_softmax_td(context, scores, 0.9, 10_000, step_size=3)
    error = caught.value
    sizes = np.abs(
        literal_td(context, scores, 0.9, [3] * error.iteration, np.zeros(13))
    ).max(axis=1)
    assert (sizes[:-1] <= bound).all()
    assert sizes[-1] > bound
    assert error.size == pytest.approx(sizes[-1], rel=1e-9)
    assert error.bound == pytest.approx(bound, rel=1e-12)
    # The radius from its definition: the linear part of a layer, column by column.
    steps = weighted_softmax_td_of_units(context, scores, 3)
    assert error.radius == pytest.approx(
        np.abs(np.linalg.eigvals(steps)).max(), rel=1e-9
    )
    assert error.radius > 1
    for part in (
        f"iteration {error.iteration}: |v| reached {error.size:.3g}",
        f"expected at most {error.bound:.3g}",
        f"spectral radius of the update must be below 1; .* it is {error.radius:.4g}",
    ):
        with pytest.raises(
            DivergenceError, match=part.replace("|", r"\|").replace("+", r"\+")
        ):
            raise error
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def weighted_softmax_td_of_units(context, scores, alpha):
    silent = Context(context.states, np.zeros(context.n), context.n_states)
    columns = [
        weighted_softmax_td(silent, scores, 0.9, 1, step_size=alpha, initial=unit)[1]
        for unit in np.eye(context.n_states)
    ]
    return np.array(columns).T


def test_a_bound_that_is_too_low_is_not_called_an_instability():
    context, scores = overstepping()
    with pytest.raises(DivergenceError, match=r"does not diverge by itself.*the bound"):
        weighted_softmax_td(context, scores, 0.9, 100, bound=1.0)
    assert np.isfinite(weighted_softmax_td(context, scores, 0.9, 100)).all()


@pytest.mark.parametrize("bound", [np.inf, 1e308])
def test_an_overflow_is_never_returned(bound):
    context, scores = overstepping()
    with pytest.raises(DivergenceError) as caught:
        weighted_softmax_td(context, scores, 0.9, 10_000, step_size=3, bound=bound)
    assert caught.value.size > 1e308
    with pytest.raises(DivergenceError, match="reached inf"):
        weighted_softmax_td(context, scores, 0.9, 3, step_size=1e308)


@given(problems(largest_score=30, largest_step=50), st.floats(1e-3, 1e6))
def test_a_run_is_stopped_at_the_first_iterate_over_the_bound(problem, bound):
    def run(bound):
        return weighted_softmax_td(
            problem.context,
            problem.scores,
            problem.discount,
            len(problem.steps),
            step_size=problem.steps,
            initial=problem.initial,
            bound=bound,
        )

    whole = run(np.inf)
    sizes = np.abs(whole).max(axis=1)
    over = np.flatnonzero(sizes > bound)
    if len(over) == 0:
        np.testing.assert_array_equal(run(bound), whole)
        return
    with pytest.raises(DivergenceError) as caught:
        run(bound)
    assert caught.value.iteration == over[0]
    assert caught.value.size == sizes[over[0]]
    assert caught.value.bound == bound


def test_linear_and_tabular_runs_diverge_by_name_too():
    context, _ = overstepping()
    x = boyan_features()
    with pytest.raises(DivergenceError, match="spectral radius of the update must be"):
        linear_td(context, x, 0.9, 10_000, step_size=50)
    with pytest.raises(DivergenceError, match="spectral radius of the update must be"):
        tabular_td(context, 0.9, 10_000, step_size=3)
    with pytest.raises(DivergenceError):
        kernel_smoothed_td(context, np.ones((13, 13)), 0.9, 10_000, step_size=30)


def test_the_initial_values_are_tested_too():
    context = Context([0, 1, 0], [1, 2], 2)
    for run in (weighted_softmax_td, linear_td):
        with pytest.raises(DivergenceError, match="initial values must be") as caught:
            run(context, np.eye(2), 0.9, 0, initial=[3, -4], bound=3.5)
        assert (caught.value.iteration, caught.value.size) == (0, 4)


@pytest.mark.parametrize(
    ("radius", "words"),
    [
        (1.5, "the spectral radius of the update must be below 1"),
        (1 + 1e-12, "is 1 up to rounding"),
        (1.0, "is 1 up to rounding"),
        (1 - 1e-12, "is 1 up to rounding"),
        (0.99, "is 0.99, so this iteration does not diverge by itself"),
    ],
)
def test_what_a_radius_is_said_to_mean(radius, words):
    assert words in str(DivergenceError(5, 2.0, 1.0, radius))


def linear_part(context, weights, discount, step):
    """Column by column: one update of each unit vector, without rewards."""
    silent = Context(context.states, np.zeros(context.n), context.n_states)
    columns = [
        weighted_td(silent, weights, discount, 1, step_size=step, initial=unit)[1]
        for unit in np.eye(context.n_states)
    ]
    return np.array(columns).T


def test_the_radius_is_that_of_the_step_that_failed():
    """Neither the first step's, nor with the step sizes of states along the wrong axis."""
    rng = np.random.default_rng(1)
    context = sample_context(random_boyan_chain(4, rng, 0.9), 40, rng)
    weights = context_kernel(context, rng.normal(size=(4, 4)))
    steps = np.vstack([np.full((5, 4), 0.1), rng.uniform(50, 500, (1, 4))])
    with pytest.raises(DivergenceError) as caught:
        weighted_td(context, weights, 0.9, 6, step_size=steps, bound=20)
    assert caught.value.iteration == 6
    part = linear_part(context, weights, 0.9, steps[5:])
    expected = np.abs(np.linalg.eigvals(part)).max()
    assert caught.value.radius == pytest.approx(expected, rel=1e-9)


def test_the_radius_of_a_linear_run():
    context, _ = overstepping()
    x = boyan_features()
    with pytest.raises(DivergenceError) as caught:
        linear_td(context, x, 0.9, 10_000, step_size=50)
    before, after = x[context.sources], x[context.successors]
    part = np.eye(4) - 50 / context.n * before.T @ (before - 0.9 * after)
    expected = np.abs(np.linalg.eigvals(part)).max()
    assert caught.value.radius == pytest.approx(expected, rel=1e-9)


def test_the_bound_of_a_linear_run_is_on_values():
    context = Context([0, 1, 0], [1, 2], 2)
    small, start = np.eye(2) / 1000, [4000, 0]  # the values are 4 and 0
    w = linear_td(context, small, 0.9, 5, initial=start, bound=10)
    assert np.abs(w).max() > 10 >= np.abs(w @ small.T).max()
    with pytest.raises(DivergenceError) as caught:
        linear_td(context, small, 0.9, 5, initial=[40_000, 0], step_size=1e20)
    assert caught.value.bound == pytest.approx(1e6 * 40, rel=1e-12)


@pytest.mark.parametrize("size", [1e155, 1e308])
def test_features_and_weights_that_overflow_are_a_divergence(size):
    context = Context([0, 1, 0, 1, 0], [1, 2, 3, 4], 2)
    with pytest.raises(DivergenceError) as caught:
        linear_td(context, size * np.eye(2), 0.9, 3, initial=[0, 1 / size])
    assert caught.value.radius > 1e300
    weights = np.full((2, 4), size)
    with pytest.raises(DivergenceError) as caught:
        weighted_td(context, weights, 0.9, 3, step_size=1e200)
    assert caught.value.radius == np.inf
    with pytest.raises(DivergenceError, match=r"iteration 0: .v. reached inf"):
        linear_td(context, 1e200 * np.eye(2), 0.9, 3, initial=[1e200, 0])


def test_zero_rewards_and_a_zero_start_stay_zero():
    context = Context([0, 1, 0], [0, 0], 2)
    assert (weighted_softmax_td(context, np.eye(2), 0.9, 50, step_size=9) == 0).all()


# ---------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"discount": 1}, "discount: got 1, expected 0 <= discount < 1"),
        ({"iterations": -1}, "iterations: got -1, expected a whole number >= 0"),
        ({"iterations": 2.5}, "iterations: got 2.5, expected a whole number >= 0"),
        (
            {"step_size": [1, 1]},
            r"step_size: got shape \(2,\), expected a number or \(3,\)",
        ),
        ({"step_size": np.nan}, "step_size: got nan, expected finite numbers"),
        ({"initial": [0, 0, 0]}, r"initial: got shape \(3,\), expected \(2,\)"),
        ({"initial": [0, np.inf]}, "initial: got .*inf.*, expected finite numbers"),
        ({"bound": 0}, "bound: got 0, expected a number > 0"),
        ({"bound": np.nan}, "bound: got nan, expected a number > 0"),
    ],
)
def test_bad_arguments_are_named(changed, message):
    context = Context([0, 1, 0], [1, 2], 2)
    arguments = {"discount": 0.9, "iterations": 3} | changed
    with pytest.raises(ValueError, match=message):
        weighted_softmax_td(context, np.eye(2), **arguments)
    if "initial" not in changed:  # there it has one number a feature
        with pytest.raises(ValueError, match=message):
            linear_td(context, np.eye(2), **arguments)


def test_wrong_shapes_are_named():
    context = Context([0, 1, 0], [1, 2], 2)
    with pytest.raises(
        ValueError, match=r"weights: got shape \(3, 2\), expected \(2, 2\)"
    ):
        weighted_td(context, np.ones((3, 2)), 0.9, 1)
    with pytest.raises(
        ValueError, match=r"features: got shape \(3, 1\), expected \(2, d\)"
    ):
        linear_td(context, np.ones((3, 1)), 0.9, 1)
    with pytest.raises(
        ValueError, match=r"initial: got \[1\.\], expected 2 finite numbers"
    ):
        linear_td(context, np.eye(2), 0.9, 1, initial=[1])
    with pytest.raises(ValueError, match=r"step_size: got shape \(3, 2\), expected"):
        linear_td(context, np.eye(2), 0.9, 3, step_size=np.ones((3, 2)))
    with pytest.raises(
        ValueError, match=r"features: got shape \(1, 2\), expected \(2, d\)"
    ):
        lstd(context, np.ones((1, 2)), 0.9)
    with pytest.raises(ValueError, match=r"values: got shape \(3,\), expected \(2,\)"):
        td_errors(context, [1, 2, 3], 0.9)
