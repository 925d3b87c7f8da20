"""The affine map of a layer against loops, the transition-by-transition kernel, and runs."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import cycle, ergodic_chains, seeds

from ictd_lib import (
    Context,
    attention_matrix,
    context_kernel,
    empirical_kernel,
    infinity_norm,
    inner_product_scores,
    layer_offset,
    layer_operator,
    mean_td_errors,
    one_hot_features,
    population_kernel,
    residual_operator,
    sample_context,
    spectral_radius,
    weighted_softmax_td,
)

EPS = np.finfo(float).eps


def awkward_scores(n_states, rng):
    """Scores between 1e-3 and 1e3 in size, of no symmetry."""
    return 10 ** rng.uniform(-3, 3) * rng.standard_normal((n_states, n_states))


# ---------------------------------------------------------------- kernels


@given(ergodic_chains(), seeds)
def test_population_kernel_against_a_double_loop(mrp, seed):
    rng = np.random.default_rng(seed)
    n_states, mu = mrp.n_states, mrp.stationary()
    scores = awkward_scores(n_states, rng)
    found = population_kernel(scores, mu)
    for s in range(n_states):
        logs = [
            scores[s, u] + math.log(mu[u]) if mu[u] else -math.inf
            for u in range(n_states)
        ]
        powers = [math.exp(x - max(logs)) for x in logs]
        expected = np.array(powers) / math.fsum(powers)
        tolerance = 16 * EPS * (np.abs(scores[s]).max() + 40)
        np.testing.assert_allclose(found[s], expected, rtol=tolerance, atol=1e-300)


@given(ergodic_chains(), st.integers(1, 60), seeds)
def test_empirical_kernel_adds_up_the_weights_of_the_context(mrp, n, seed):
    rng = np.random.default_rng(seed)
    context = sample_context(mrp, n, rng)
    scores = awkward_scores(mrp.n_states, rng)
    expected = attention_matrix(context, context_kernel(context, scores))
    found = empirical_kernel(context, scores)
    np.testing.assert_allclose(
        found, expected, rtol=4e3 * EPS * np.log2(n + 2), atol=1e-300
    )
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=8 * EPS)
    np.testing.assert_array_equal(found[:, context.counts() == 0], 0)


def test_kernels_by_hand():
    scores = np.log([[1.0, 2.0], [3.0, 5.0]])
    expected = [[1 / 7, 6 / 7], [3 / 18, 15 / 18]]
    np.testing.assert_allclose(population_kernel(scores, [0.25, 0.75]), expected)
    np.testing.assert_allclose(population_kernel(scores, [1, 3]), expected)
    context = Context([1, 1, 0, 1, 0], np.zeros(4), 2)  # counts 1 and 3
    np.testing.assert_allclose(empirical_kernel(context, scores), expected)


def test_one_hot_kernel_in_closed_form():
    """M(s, s) = mu e^tau / (mu e^tau + 1 - mu), for tiny mu and large tau, too."""
    mu = np.array([1e-12, 0.3, 0.7 - 1e-12])
    for tau in (0.0, 3.0, 30.0, 700.0):
        x = one_hot_features(3, tau)
        diagonal = np.diag(population_kernel(inner_product_scores(x), mu))
        odds = np.log(mu) + tau - np.log1p(-mu)
        np.testing.assert_allclose(diagonal, 1 / (1 + np.exp(-odds)), rtol=1e-12)


def test_a_source_of_weight_zero_is_not_read():
    scores = np.array([[0.0, np.nan], [1.0, np.inf]])
    np.testing.assert_array_equal(population_kernel(scores, [1, 0]), [[1, 0], [1, 0]])
    context = Context([0, 0, 1], np.zeros(2), 2)
    np.testing.assert_array_equal(empirical_kernel(context, scores), [[1, 0], [1, 0]])


def test_stacks_are_done_one_by_one():
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((2, 3, 4, 4))
    mu = rng.dirichlet(np.ones(4), (2, 3))
    p = rng.dirichlet(np.ones(4), (2, 3, 4))
    r, alpha = rng.standard_normal((2, 3, 4)), rng.uniform(0, 1, (2, 3, 4))
    kernels = population_kernel(scores, mu)
    operators = layer_operator(kernels, p, 0.9, alpha)
    offsets = layer_offset(kernels, r, alpha)
    norms, radii = infinity_norm(operators), spectral_radius(operators)
    assert norms.shape == radii.shape == (2, 3)
    for i in np.ndindex(2, 3):
        kernel = population_kernel(scores[i], mu[i])
        np.testing.assert_allclose(kernels[i], kernel, rtol=1e-14)
        operator = np.eye(4) - np.diag(alpha[i]) @ kernel @ (np.eye(4) - 0.9 * p[i])
        np.testing.assert_allclose(operators[i], operator, atol=1e-14)
        np.testing.assert_allclose(offsets[i], alpha[i] * (kernel @ r[i]), atol=1e-14)
        assert norms[i] == pytest.approx(
            max(sum(abs(x) for x in row) for row in operator.tolist())
        )
        assert radii[i] == pytest.approx(max(abs(np.linalg.eigvals(operator))))
    one = population_kernel(scores[0, 0], mu[0, 0])
    assert isinstance(infinity_norm(one).item(), float)


# ---------------------------------------------------------------- the map


@given(ergodic_chains(), st.integers(1, 40), seeds, st.floats(0.05, 1.0))
def test_the_map_is_what_the_algorithm_does(mrp, n, seed, alpha):
    """Covered or not, from any start: v -> Tv + b, transition by transition."""
    rng = np.random.default_rng(seed)
    context = sample_context(mrp, n, rng)
    scores = awkward_scores(mrp.n_states, rng)
    initial = rng.standard_normal(mrp.n_states)
    run = weighted_softmax_td(
        context, scores, mrp.discount, 1, step_size=alpha, initial=initial
    )
    kernel = empirical_kernel(context, scores)
    p = context.empirical_transition()
    operator = layer_operator(kernel, p, mrp.discount, alpha)
    offset = layer_offset(kernel, context.mean_rewards(), alpha)
    np.testing.assert_allclose(run[1], operator @ initial + offset, atol=1e-9)


@given(ergodic_chains(), st.integers(1, 40), seeds)
def test_what_a_layer_does_to_the_mean_td_errors(mrp, n, seed):
    """And its eigenvalues are the layer's, but for a 1 of each state never left."""
    rng = np.random.default_rng(seed)
    context = sample_context(mrp, n, rng)
    scores = rng.standard_normal((mrp.n_states, mrp.n_states))
    alpha = rng.uniform(0.1, 1, mrp.n_states)
    kernel, p = empirical_kernel(context, scores), context.empirical_transition()
    seen = context.counts() > 0
    v = rng.standard_normal(mrp.n_states)
    arguments = kernel, p, mrp.discount, alpha
    after = layer_operator(*arguments) @ v + layer_offset(
        kernel, context.mean_rewards(), alpha
    )
    before_errors = mean_td_errors(context, v, mrp.discount)
    after_errors = mean_td_errors(context, after, mrp.discount)
    reduced = residual_operator(*arguments)
    np.testing.assert_allclose(
        after_errors[seen], reduced @ before_errors[seen], atol=1e-12
    )
    np.testing.assert_array_equal(after_errors[~seen], 0)
    # Characteristic polynomials, at points away from the spectrum: no sorting of pairs.
    for z in (2.5, -2.0, 1j + 2):
        whole = np.linalg.det(z * np.eye(mrp.n_states) - layer_operator(*arguments))
        part = np.linalg.det(z * np.eye(seen.sum()) - reduced)
        assert whole == pytest.approx(part * (z - 1) ** (~seen).sum(), rel=1e-9)


# ---------------------------------------------------------------- norm and radius


def test_the_norm_is_attained_by_signs():
    """The largest of |Te| over e of largest entry 1, by trying all signs."""
    rng = np.random.default_rng(1)
    signs = np.array(list(np.ndindex(*[2] * 6))) * 2 - 1
    for _ in range(50):
        matrix = rng.standard_normal((6, 6))
        assert infinity_norm(matrix) == pytest.approx(
            np.abs(signs @ matrix.T).max(), rel=1e-14
        )


def test_the_radius_of_layers_whose_eigenvalues_are_known():
    """M = I and a cycle: 1 - alpha (1 - gamma z) over the roots of unity z."""
    for size, gamma, alpha in ((2, 0.9, 1.0), (7, 0.5, 0.3), (200, 0.9, 1.0)):
        roots = np.exp(2j * np.pi * np.arange(size) / size)
        expected = np.abs(1 - alpha * (1 - gamma * roots)).max()
        t = layer_operator(np.eye(size), cycle(size, 0.0), gamma, alpha)
        assert spectral_radius(t) == pytest.approx(expected, rel=1e-12)


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: population_kernel(np.zeros((2, 3)), [1, 1]), r"scores: got shape \(2, 3\)"),
        (lambda: population_kernel(np.zeros((2, 2)), [1, 1, 1]), r"stationary: got shape \(3,\)"),
        (lambda: population_kernel(np.zeros((2, 2)), [1, -1]), "stationary: got the entry -1"),
        (lambda: population_kernel(np.zeros((2, 2)), [1, np.nan]), "got the entry nan"),
        (lambda: population_kernel(np.zeros((2, 2)), [0, 0]), "stationary: got zeros only"),
        (lambda: population_kernel([[0, np.nan], [0, 0]], [1, 1]), r"scores\[0, 1\]: got nan"),
        (lambda: layer_operator(np.eye(2), np.eye(3), 0.9), "transition: got shape"),
        (lambda: layer_operator(np.eye(2), np.eye(2), 1.0), "discount: got 1.0"),
        (lambda: layer_operator(np.eye(2), np.eye(2), 0.5, np.nan), "step_size: got nan"),
        (lambda: layer_operator(np.eye(2), np.eye(2), 0.5, [1, 1, 1]), r"step_size: got shape \(3,\)"),
        (lambda: residual_operator(np.eye(2), np.eye(2), 0.5, [1, 1, 1]), r"step_size: got shape \(3,\)"),
        (lambda: residual_operator(np.eye(2), np.eye(2), 0.5, np.ones((2, 2))), r"step_size: got shape \(2, 2\)"),
        (lambda: layer_offset(np.eye(2), [1, 2], [1, 1, 1]), r"step_size: got shape \(3,\)"),
        (lambda: layer_offset(np.eye(2), [1, 2, 3]), "reward: got shape"),
        (lambda: infinity_norm([1, 2]), "matrix: got shape"),
        (lambda: spectral_radius([[np.inf]]), "matrix: got inf"),
        (lambda: residual_operator(np.ones((2, 2, 2)), np.eye(2), 0.5), "kernel, transition"),
    ],
)  # fmt: skip
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_empirical_kernel_says_which_scores():
    context = Context([0, 1, 0], [0.0, 0.0], 2)
    with pytest.raises(
        ValueError, match=r"scores: got shape \(3, 3\), expected \(2, 2\)"
    ):
        empirical_kernel(context, np.zeros((3, 3)))
    with pytest.raises(ValueError, match=r"scores\[1, 0\]: got nan"):
        empirical_kernel(context, [[0, 0], [np.nan, 0]])


def test_arguments_are_not_changed():
    arrays = [np.eye(3), np.full((3, 3), 1 / 3), np.ones(3) / 3]
    copies = [a.copy() for a in arrays]
    kernel, p, mu = arrays
    population_kernel(kernel, mu)
    layer_operator(kernel, p, 0.9, mu)
    layer_offset(kernel, mu, mu)
    residual_operator(kernel, p, 0.9)
    infinity_norm(kernel), spectral_radius(kernel)
    for array, copy in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(array, copy)
