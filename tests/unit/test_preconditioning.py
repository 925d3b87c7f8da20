"""Three kinds of TD as preconditioners, and the weights for which attention is self-adjoint."""

import numpy as np
import pytest
from convergence_cases import prepared, stacks

from ictd_lib import (
    attention_matrix,
    context_kernel,
    gaussian_features,
    inner_product_scores,
    linear_td,
    random_ergodic_chain,
    sample_context,
)
from ictd_lib.operators import population_kernel
from ictd_lib.preconditioning import (
    key_weights,
    linear_preconditioner,
    log_normaliser,
    rescaled_steps,
    reversing_weights,
    sink_steps,
)


def test_the_kernel_is_reversible_with_its_spectrum_between_0_and_1():
    count = 0
    for chains in stacks(1):
        M, pi = prepared(chains)
        flow = pi[..., None] * M
        np.testing.assert_allclose(flow, flow.mT, rtol=1e-9, atol=1e-15)
        np.testing.assert_allclose(pi.sum(axis=-1), 1)
        np.testing.assert_allclose((pi[:, None] @ M)[:, 0], pi, rtol=1e-9)
        nu = np.linalg.eigvals(M)
        assert nu.real.min() > -1e-9 and nu.real.max() < 1 + 1e-9
        count += len(M)
    assert count >= 10_000


def test_the_normaliser_is_a_sum_over_sources():
    (chains, *_) = stacks(2, each=50)
    mu, g = chains.stationary, chains.scores
    plain = (np.exp(g) * mu[:, None]).sum(axis=-1)
    np.testing.assert_allclose(np.exp(log_normaliser(g, mu)), plain, rtol=1e-12)
    np.testing.assert_allclose(log_normaliser(g, 7 * mu), np.log(plain), rtol=1e-12)


def test_scores_of_a_thousand_do_not_overflow():
    x = 40 * np.eye(3)
    g, mu = x @ x.T, np.array([0.5, 0.3, 0.2])
    np.testing.assert_allclose(log_normaliser(g, mu), 1600 + np.log(mu), rtol=1e-15)
    pi = reversing_weights(g, mu)
    np.testing.assert_allclose(pi, mu**2 / (mu**2).sum(), rtol=1e-10)
    assert (sink_steps(g, mu, 1.0) == 1).all()
    np.testing.assert_allclose(rescaled_steps(g, mu), mu / mu.max(), rtol=1e-10)


def test_a_sink_scales_the_rows_and_moves_the_weights():
    for chains in stacks(3, each=300):
        mu, g = chains.stationary, chains.scores
        lam = np.exp(log_normaliser(g, mu))
        b = np.random.default_rng(0).uniform(0, 10, len(mu))
        a = sink_steps(g, mu, b)
        np.testing.assert_allclose(a, lam / (lam + b[:, None]), rtol=1e-12)
        pi = reversing_weights(g, mu, a)
        raw = mu * (lam + b[:, None])
        np.testing.assert_allclose(pi, raw / raw.sum(axis=-1, keepdims=True))
        flow = pi[..., None] * a[..., None] * population_kernel(g, mu)
        np.testing.assert_allclose(flow, flow.mT, rtol=1e-9, atol=1e-15)
        assert (sink_steps(g, mu, 0.0) == 1).all()
        np.testing.assert_allclose(
            rescaled_steps(g, mu), lam / lam.max(axis=-1, keepdims=True), rtol=1e-12
        )
        far = sink_steps(g, mu, 1e13 * lam.max(axis=-1))
        np.testing.assert_allclose(
            far / far.max(axis=-1, keepdims=True), rescaled_steps(g, mu), rtol=1e-9
        )


def test_the_norm_of_a_key_is_an_importance_weight():
    for chains in stacks(4, each=300):
        x, mu = chains.features, chains.stationary
        nu = key_weights(x, mu)
        squares = ((x[:, :, None] - x[:, None]) ** 2).sum(axis=-1)
        smooth = np.exp(-squares / 2) * nu[:, None]
        smooth /= smooth.sum(axis=-1, keepdims=True)
        np.testing.assert_allclose(prepared(chains)[0], smooth, rtol=1e-8, atol=1e-12)


def test_linear_td_is_preconditioned_by_the_gram_matrix():
    rng = np.random.default_rng(5)
    process = random_ergodic_chain(6, rng, 0.9)
    context = sample_context(process, 200, rng)
    x = gaussian_features(6, 2, rng)
    P, r = context.empirical_transition(), context.mean_rewards()
    G = 0.1 * linear_preconditioner(x, context.counts())
    v = np.zeros(6)
    for _ in range(5):
        v = v + G @ (r - v + 0.9 * P @ v)
    expected = x @ linear_td(context, x, 0.9, 5, step_size=0.1)[-1]
    np.testing.assert_allclose(v, expected, rtol=1e-10)
    assert np.linalg.matrix_rank(G) == 2


def test_counts_do_for_the_stationary_distribution():
    rng = np.random.default_rng(6)
    context = sample_context(random_ergodic_chain(5, rng, 0.9), 80, rng)
    g = inner_product_scores(gaussian_features(5, 3, rng))
    M = attention_matrix(context, context_kernel(context, g))
    flow = reversing_weights(g, context.counts())[:, None] * M
    np.testing.assert_allclose(flow, flow.T, rtol=1e-12)


def test_features_too_large_for_floats():
    with pytest.raises(OverflowError, match="linear preconditioner"):
        linear_preconditioner([[1e200], [1.0]], [1, 1])
    with pytest.raises(OverflowError, match="squared norms"):
        key_weights([[1e200], [1.0]], [1, 1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: log_normaliser(np.zeros((2, 3)), [1, 1]), "scores: got shape"),
        (lambda: log_normaliser(np.zeros((2, 2)), [1, 1, 1]), "stationary: got shape"),
        (lambda: log_normaliser(np.zeros((2, 2)), [-1, 1]), "stationary: expected"),
        (lambda: log_normaliser(np.zeros((2, 2)), [0, 0]), "stationary: expected"),
        (lambda: sink_steps(np.zeros((2, 2)), [1, 1], -1), "sink: got -1"),
        (lambda: reversing_weights(np.zeros((2, 2)), [1, 1], 0), "step_size: got 0"),
        (lambda: linear_preconditioner([1.0], [1]), "features: got shape"),
        (lambda: key_weights([[np.inf]], [1]), "features: got shape"),
    ],
)
def test_arguments_are_checked(call, message):
    with pytest.raises(ValueError, match=message):
        call()
