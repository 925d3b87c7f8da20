"""Softmax weights and kernels against loops, closed forms and awkward numbers (case H3)."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from strategies import ergodic_chains, seeds

from ictd_lib import (
    Context,
    attention_matrix,
    context_kernel,
    gaussian_features,
    gaussian_scores,
    inner_product_scores,
    one_hot_features,
    sample_context,
    similarity_scores,
    softmax_weights,
    unit_features,
)

EPS = np.finfo(float).eps

score_rows = hnp.arrays(
    np.float64,
    hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=6),
    elements=st.floats(-1000, 1000),
)


# ---------------------------------------------------------------- softmax weights


@given(score_rows)
def test_softmax_against_a_loop(scores):
    weights = softmax_weights(scores)
    rows = scores.reshape(-1, scores.shape[-1])
    for row, found in zip(rows, weights.reshape(rows.shape), strict=True):
        top = max(row.tolist())
        powers = [math.exp(g - top) for g in row.tolist()]
        expected = np.array(powers) / math.fsum(powers)
        np.testing.assert_allclose(found, expected, rtol=8 * EPS)


def test_softmax_by_hand():
    weights = softmax_weights(np.log([[1, 2, 5], [3, 3, 2]]))
    np.testing.assert_allclose(weights, [[0.125, 0.25, 0.625], [3 / 8, 3 / 8, 1 / 4]])


def test_softmax_runs_over_the_last_axis():
    """A query with one loud source must not drown the other queries."""
    weights = softmax_weights([[0.0, 100.0], [0.0, 0.0]])
    np.testing.assert_allclose(weights, [[0, 1], [0.5, 0.5]], atol=1e-15)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
@pytest.mark.parametrize("temperature", [1, 1e-6, 1e6])
def test_scores_of_any_size(dtype, temperature):
    """Case H3: scores of +-1000, temperatures of 1e-6, narrow dtypes."""
    scores = np.array(
        [[1000, -1000, 0], [-1000, -1000, -1000], [999, 1000, 1000]], dtype
    )
    weights = softmax_weights(scores / temperature)
    assert weights.dtype == np.float64
    assert np.isfinite(weights).all()
    np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=4 * EPS)
    np.testing.assert_allclose(weights[1], 1 / 3, rtol=4 * EPS)
    if temperature <= 1:
        np.testing.assert_array_equal(weights[0], [1, 0, 0])


@given(score_rows, st.floats(-1000, 1000))
def test_a_constant_added_to_a_query_changes_nothing(scores, constant):
    np.testing.assert_allclose(
        softmax_weights(scores + constant),
        softmax_weights(scores),
        rtol=10 * 2000 * EPS,
        atol=1e-300,
    )


@given(score_rows, st.data())
def test_a_masked_source_weighs_nothing_and_is_not_read(scores, data):
    mask = data.draw(hnp.arrays(np.bool_, scores.shape[-1:]))
    if not mask.any():
        with pytest.raises(ValueError, match=r"every source .*is masked"):
            softmax_weights(scores, mask)
        return
    spoiled = np.where(mask, scores, np.nan)
    weights = softmax_weights(spoiled, mask)
    np.testing.assert_array_equal(weights[..., ~mask], 0)
    np.testing.assert_allclose(
        weights[..., mask], softmax_weights(scores[..., mask]), rtol=8 * EPS
    )
    additive = softmax_weights(scores + np.where(mask, 0, -np.inf))
    np.testing.assert_array_equal(weights, additive)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros((3, 0)),), r"scores: got shape \(3, 0\), expected .* sources >= 1"),
        (([],), r"scores: got shape \(0,\), expected .* sources >= 1"),
        ((1.0,), r"scores: got shape \(\), expected"),
        (
            ([[0, 0], [0, np.nan]],),
            r"scores\[1, 1\]: got nan, expected a number or -inf",
        ),
        (([[0, np.inf]],), r"scores\[0, 1\]: got inf, expected a number or -inf"),
        (([[0, 1], [-np.inf] * 2],), r"every source of query \[1\] has the score -inf"),
        (([[0, 1]], [[False, False]]), r"every source of query \[0\] is masked"),
        (([0, 1], [False, False]), "every source is masked"),
        (([[0, 1]], [[1, 0]]), "mask: got dtype int64, expected booleans"),
    ],
)
def test_bad_scores_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        softmax_weights(*arguments)


# ---------------------------------------------------------------- scores


@given(seeds, st.integers(1, 6), st.integers(1, 4), st.floats(-5, 5))
def test_inner_product_scores_against_a_loop(seed, n_states, dimension, sharpness):
    x = gaussian_features(n_states, dimension, np.random.default_rng(seed))
    scores = inner_product_scores(x, sharpness)
    for s in range(n_states):
        for u in range(n_states):
            expected = sharpness * math.fsum(x[s] * x[u])
            assert scores[s, u] == pytest.approx(expected, rel=1e-13, abs=1e-13)


@given(seeds, st.integers(1, 6), st.integers(1, 4), st.floats(0.05, 20))
def test_gaussian_scores_are_the_log_of_the_gaussian(seed, n_states, dimension, h):
    x = gaussian_features(n_states, dimension, np.random.default_rng(seed))
    scores = gaussian_scores(x, h)
    for s in range(n_states):
        for u in range(n_states):
            expected = -(math.dist(x[s], x[u]) ** 2) / (2 * h**2)
            assert scores[s, u] == pytest.approx(expected, rel=1e-13, abs=1e-13)
    near = scores > -700  # where the exponential has a logarithm
    similarity = np.where(near, np.exp(scores), 1)
    np.testing.assert_allclose(
        similarity_scores(similarity)[near], scores[near], rtol=1e-12, atol=1e-12
    )


def test_gaussian_scores_do_not_underflow():
    scores = gaussian_scores([[0.0], [1000.0]], 1.0)
    np.testing.assert_array_equal(scores, [[0, -5e5], [-5e5, 0]])


@given(ergodic_chains(), seeds, st.floats(0.1, 20))
def test_on_the_unit_sphere_inner_products_and_gaussians_weigh_alike(
    process, seed, tau
):
    """|x - y|^2 = 2 - 2<x, y>: the two scores differ by a constant, which cancels."""
    rng = np.random.default_rng(seed)
    context = sample_context(process, 30, rng)
    x = unit_features(process.n_states, 4, rng)
    np.testing.assert_allclose(
        context_kernel(context, inner_product_scores(x, tau)),
        context_kernel(context, gaussian_scores(x, 1 / math.sqrt(tau))),
        rtol=1e-12,
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: inner_product_scores([1, 2]),
            r"features: got shape \(2,\), expected \(S, d\)",
        ),
        (
            lambda: inner_product_scores([[np.nan]]),
            "features: got nan, expected finite",
        ),
        (
            lambda: inner_product_scores([[1]], np.inf),
            "sharpness: got inf, expected a finite",
        ),
        (
            lambda: gaussian_scores([[1]], 0),
            "bandwidth: got 0, expected a finite number > 0",
        ),
        (lambda: gaussian_scores([[1]], np.nan), "bandwidth: got nan"),
        (lambda: gaussian_scores([[1]], np.inf), "bandwidth: got inf"),
        (lambda: inner_product_scores([[1j]]), "features: got complex numbers"),
        (lambda: similarity_scores([[1, 2]]), r"similarity: got shape \(1, 2\)"),
        (
            lambda: similarity_scores([[1, 1], [0, 1]]),
            r"similarity\[1, 0\]: got 0, expected a finite number > 0",
        ),
        (lambda: similarity_scores([[1, -2], [1, 1]]), r"similarity\[0, 1\]: got -2"),
        (lambda: similarity_scores([[np.inf]]), r"similarity\[0, 0\]: got inf"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_scores_beyond_the_range_of_floats_are_an_error():
    far = [[1e200], [-1e200]]
    for scores in (lambda: inner_product_scores(far), lambda: gaussian_scores(far, 1)):
        with pytest.raises(OverflowError, match="scores: beyond the range of floats"):
            scores()


def test_scores_further_apart_than_the_largest_float():
    np.testing.assert_array_equal(softmax_weights([1.7e308, -1.7e308]), [1, 0])


# ---------------------------------------------------------------- the kernel of a context


@given(ergodic_chains(), seeds, st.integers(1, 40), st.floats(0.1, 30))
def test_kernel_against_the_definition(process, seed, n, scale):
    rng = np.random.default_rng(seed)
    context = sample_context(process, n, rng)
    size = process.n_states
    g = rng.uniform(-scale, scale, (size, size))  # no symmetry: query and source differ
    kernel = context_kernel(context, g)
    assert kernel.shape == (size, n)
    matrix = np.zeros((size, size))
    for s in range(size):
        total = math.fsum(
            math.exp(g[s, context.states[m - 1]]) for m in range(1, n + 1)
        )
        for k in range(1, n + 1):
            weight = math.exp(g[s, context.states[k - 1]]) / total
            assert kernel[s, k - 1] == pytest.approx(weight, rel=1e-13)
            matrix[s, context.states[k - 1]] += weight
    np.testing.assert_allclose(attention_matrix(context, kernel), matrix, rtol=1e-12)


@given(ergodic_chains(), seeds, st.integers(1, 60), st.floats(0, 30))
def test_the_leak_of_one_hot_features(process, seed, n, tau):
    """A query seen N times gives (n - N)/(N e^tau + n - N) to other states; unseen, K = 1/n."""
    context = sample_context(process, n, np.random.default_rng(seed))
    x = one_hot_features(process.n_states, tau)
    kernel = context_kernel(context, inner_product_scores(x))
    for s, visits in enumerate(context.counts().tolist()):
        if visits == 0:
            np.testing.assert_allclose(kernel[s], 1 / n, rtol=2 * EPS)
            continue
        others = context.sources != s
        leak = (n - visits) / (visits * math.exp(tau) + n - visits)
        np.testing.assert_allclose(
            kernel[s, others].sum(), leak, rtol=1e-13 * (1 + tau)
        )


@given(ergodic_chains(), seeds, st.floats(0.01, 1))
def test_the_high_temperature_remainder(process, seed, size):
    """|nK - 1 - eps a| <= 3/2 (eps A)^2, a = <x(s), x_k - mean>, A = max|a|, eps A <= 1."""
    rng = np.random.default_rng(seed)
    context = sample_context(process, 25, rng)
    x = gaussian_features(process.n_states, 3, rng)
    seen = x[context.sources]
    a = x @ (seen - seen.mean(axis=0)).T
    eps = size / max(np.abs(a).max(), 1e-9)
    kernel = context_kernel(context, inner_product_scores(x, eps))
    remainder = np.abs(context.n * kernel - 1 - eps * a).max()
    assert remainder <= 1.5 * size**2 + 100 * EPS


def test_the_kernel_counts_a_source_as_often_as_it_was_visited():
    context = Context([0, 1, 0, 0], [0, 0, 0], 3)  # sources 0, 1, 0
    kernel = context_kernel(context, np.log([[2, 6, 1], [1, 1, 1], [1, 2, 9]]))
    expected = [[2 / 10, 6 / 10, 2 / 10], [1 / 3] * 3, [1 / 4, 2 / 4, 1 / 4]]
    np.testing.assert_allclose(kernel, expected, rtol=4 * EPS)
    matrix = attention_matrix(context, kernel)
    expected = [[0.4, 0.6, 0], [2 / 3, 1 / 3, 0], [0.5, 0.5, 0]]
    np.testing.assert_allclose(matrix, expected, rtol=4 * EPS)


def test_a_state_may_be_hidden_from_some_queries():
    """A score of -inf, as long as the context holds something that the query may see."""
    g = np.array([[0.0, -np.inf], [0.0, 0.0]])
    np.testing.assert_array_equal(
        context_kernel(Context([0, 1, 0], [1, 1], 2), g), [[1, 0], [0.5, 0.5]]
    )
    with pytest.raises(ValueError, match=r"every source of query \[0\] has the score"):
        context_kernel(Context([1, 0], [1], 2), g)


def test_a_bad_score_is_named_by_its_states_and_read_only_where_there_is_a_source():
    scores = np.zeros((3, 3))
    scores[1, 2] = np.nan
    with pytest.raises(ValueError, match=r"scores\[1, 2\]: got nan, .*source state 2"):
        context_kernel(Context([0, 0, 2, 0], [1, 1, 1], 3), scores)
    assert np.isfinite(context_kernel(Context([0, 2], [1], 3), scores)).all()


def test_wrong_shapes_are_named():
    context = Context([0, 1, 0], [1, 1], 2)
    with pytest.raises(
        ValueError, match=r"scores: got shape \(2, 3\), expected \(2, 2\)"
    ):
        context_kernel(context, np.zeros((2, 3)))
    with pytest.raises(
        ValueError, match=r"weights: got shape \(2, 3\), expected \(2, 2\)"
    ):
        attention_matrix(context, np.zeros((2, 3)))
    with pytest.raises(ValueError, match="weights: got nan, expected finite numbers"):
        attention_matrix(context, np.full((2, 2), np.nan))


def test_inputs_are_not_changed():
    scores = np.array([[1.0, 2.0], [3.0, 4.0]])
    softmax_weights(scores, [True, False])
    similarity_scores(scores)
    context_kernel(Context([0, 1, 0], [1, 1], 2), scores)
    np.testing.assert_array_equal(scores, [[1, 2], [3, 4]])


def test_weights_of_simple_ratios_against_rational_arithmetic():
    """Powers of two as e^g, up to the rounding of the logarithm."""
    ratios = [Fraction(2) ** p for p in (-40, -1, 0, 3, 40)]
    expected = [float(r / sum(ratios)) for r in ratios]
    scores = [p * math.log(2) for p in (-40, -1, 0, 3, 40)]
    np.testing.assert_allclose(softmax_weights(scores), expected, rtol=100 * EPS)
