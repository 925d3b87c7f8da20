"""Step sizes across layers: the polynomial they are, its bounds, and the layers that run it."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import seeds

from ictd_lib import (
    context_kernel,
    inner_product_scores,
    random_boyan_chain,
    random_walk,
    sample_context,
    unit_features,
    weighted_td,
)
from ictd_lib.acceleration import (
    best_constant_step,
    best_polynomial,
    chebyshev_factor,
    chebyshev_step_sizes,
    deflated_schedule,
    fewest_layers,
    layers_to,
    residual_matrix,
    residual_polynomial,
    span_contraction,
    stable_order,
    without_constants,
)
from ictd_lib.kernel import attention_matrix
from ictd_lib.momentum import (
    best_momentum,
    momentum_matrix,
    momentum_rate,
    momentum_td,
    paired_momenta,
)
from ictd_lib.transformer import (
    attention_weights,
    build_prompt,
    read_values,
    temporal_shift,
    theta_star,
)

MANY = 10_000


def stack_of_chains(count, n_states, rng, concentration=0.3):
    """Many chains at once, (count, S, S), from nearly deterministic to nearly uniform."""
    weights = rng.gamma(concentration, size=(count, n_states, n_states)) + 1e-6
    return weights / weights.sum(axis=-1, keepdims=True)


def stationary(P):
    """Of a stack, by solving; an oracle that shares nothing with the library's elimination."""
    count, size, _ = P.shape
    equations = np.swapaxes(P, -1, -2) - np.eye(size)
    equations[:, -1] = 1
    right = np.zeros((count, size, 1))
    right[:, -1] = 1
    return np.linalg.solve(equations, right)[..., 0]


def kernels(scores, mu):
    weights = mu[:, None, :] * np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def a_context(seed=0, n=60, n_states=6, discount=0.8, sharpness=4.0):
    rng = np.random.default_rng(seed)
    process = random_boyan_chain(n_states, rng, discount)
    x = unit_features(n_states, n_states, rng)
    context = sample_context(process, n, rng, start=n_states - 1)
    weights = context_kernel(context, inner_product_scores(x, sharpness))
    m = attention_matrix(context, weights)
    P = context.empirical_transition()
    drift = m @ (np.eye(n_states) - discount * P)
    target = np.linalg.solve(np.eye(n_states) - discount * P, context.mean_rewards())
    return context, x, weights, drift, target


# ------------------------------------------------------------------- layers are polynomials


def test_layers_with_their_own_steps_are_the_residual_polynomial():
    rng = np.random.default_rng(1)
    context, _, weights, drift, target = a_context()
    assert context.covers()
    steps = rng.uniform(-0.5, 2, 12)
    v = weighted_td(context, weights, 0.8, 12, step_size=steps)
    expected = target - residual_matrix(drift, steps) @ target
    np.testing.assert_allclose(v[-1], expected, rtol=1e-11, atol=1e-11)
    nu, vectors = np.linalg.eig(drift)
    spectral = (vectors * residual_polynomial(steps, nu)) @ np.linalg.inv(vectors)
    np.testing.assert_allclose(
        spectral, residual_matrix(drift, steps), rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize("form", ["shift", "dual"])
def test_the_transformer_runs_any_step_sizes(form):
    context, x, weights, *_ = a_context(sharpness=4.0)
    steps = deflated_schedule(0.8, chebyshev_step_sizes(0.3, 1.4, 9))
    model = theta_star(6, 10, 0.8, step_size=steps.tolist(), sharpness=4.0, form=form)
    with torch.no_grad():
        seen = read_values(model.trace(build_prompt(context, x))).numpy()
    v = weighted_td(context, weights, 0.8, 10, step_size=steps, bound=np.inf)
    np.testing.assert_allclose(
        seen, v[:, context.states], rtol=1e-12, atol=1e-12 * np.abs(v).max()
    )


# ---------------------------------------------------------------------- Chebyshev's interval


def test_chebyshev_steps_reach_their_factor_and_nothing_on_the_interval_exceeds_it():
    rng = np.random.default_rng(0)
    for layers in range(1, 41):
        low, ratio = rng.uniform(0.01, 1), 100 ** rng.random()
        high = low * ratio
        steps = chebyshev_step_sizes(low, high, layers)
        z = np.linspace(low, high, 2001)
        largest = np.abs(residual_polynomial(steps, z)).max()
        factor = chebyshev_factor(low, high, layers)
        assert largest <= factor * (1 + 1e-9) + 1e-13 * layers
        assert abs(residual_polynomial(steps, high)) == pytest.approx(
            factor, rel=1e-8, abs=1e-12
        )
        root = ratio**0.5
        assert factor <= 2 * ((root - 1) / (root + 1)) ** layers * (1 + 1e-12)
    assert chebyshev_factor(0.5, 0.5, 3) == 0


def test_no_real_rooted_polynomial_beats_chebyshev_on_its_interval():
    """Equioscillation says so; here by many random polynomials and small changes of the best."""
    rng = np.random.default_rng(2)
    tried = 0
    for layers in range(1, 9):
        low, high = 0.2, 1.7
        z = np.linspace(low, high, 801)
        best = chebyshev_step_sizes(low, high, layers)
        scale = rng.choice([1e-3, 1e-2, 1e-1, 1], size=(1500, 1))
        other = best * np.exp(scale * rng.standard_normal((1500, layers)))
        values = np.abs((1 - z[:, None, None] * other).prod(axis=-1)).max(axis=0)
        assert (values >= chebyshev_factor(low, high, layers) * (1 - 1e-4)).all()
        tried += len(other)
    print("step sizes tried against Chebyshev's:", tried)
    assert tried >= MANY


def test_the_order_matters_on_the_way():
    low, high, layers = 0.05, 2.0, 48
    steps = chebyshev_step_sizes(low, high, layers)
    z = np.linspace(low, high, 1001)

    def growth(order):
        return np.abs(np.cumprod(1 - z[:, None] * order, axis=1)).max()

    assert sorted(steps) == sorted(stable_order(np.sort(steps)))
    assert growth(steps) < 25
    assert growth(np.sort(steps)[::-1]) > 1e12
    with pytest.raises(ValueError, match="step_sizes"):
        stable_order([1.0, 0.0])
    assert stable_order([]).shape == (0,)
    np.testing.assert_array_equal(stable_order([2.0, 2.0, 2.0]), [2, 2, 2])


# ------------------------------------------------------------------------ the best constant


def test_the_best_constant_step_against_a_fine_search():
    rng = np.random.default_rng(3)
    grid = np.linspace(-3, 6, 90_001)
    for size in (1, 2, 3, 6):
        for _ in range(20):
            nu = rng.normal(0.8, 0.6, size) + 1j * rng.normal(0, 0.7, size)
            found = best_constant_step(nu)
            if abs(found.step_size) < 5:
                searched = np.abs(1 - grid[:, None] * nu).max(axis=1).min()
                assert found.rate <= searched + 1e-12
                assert found.rate >= searched - 2e-4 * np.abs(nu).max()
    assert best_constant_step([0.5, 1.5]) == pytest.approx((1.0, 0.5))
    assert best_constant_step([0.5, -0.5]).rate >= 1  # nothing converges
    with pytest.raises(ValueError, match="eigenvalues"):
        best_constant_step([0.0, 1.0])


# --------------------------------------------------------------------- the best polynomial


def test_the_best_polynomial_on_an_interval_is_chebyshevs():
    z = np.linspace(0.3, 1.9, 150)
    for layers in (1, 2, 6):
        found = best_polynomial(z, layers)
        assert found.upper == pytest.approx(
            chebyshev_factor(0.3, 1.9, layers), rel=2e-3
        )
        expected = np.sort(chebyshev_step_sizes(0.3, 1.9, layers))
        np.testing.assert_allclose(np.sort(found.step_sizes.real), expected, rtol=2e-2)


def test_the_bounds_enclose_and_the_step_sizes_attain():
    rng = np.random.default_rng(4)
    for layers in (1, 2, 4, 7):
        nu = 1 + 0.8 * np.sqrt(rng.random(20)) * np.exp(2j * np.pi * rng.random(20))
        found = best_polynomial(nu, layers, directions=32)
        assert found.lower <= found.upper <= found.lower / np.cos(np.pi / 32) + 1e-9
        attained = np.abs(residual_polynomial(found.step_sizes, nu)).max()
        assert attained == pytest.approx(found.upper, rel=1e-6)
        assert best_constant_step(nu).rate ** layers >= found.lower - 1e-9
    assert best_polynomial(nu, 0).upper == 1
    exact = best_polynomial([0.5, 1.0, 1 + 0.5j, 1 - 0.5j], 4)
    assert exact.upper < 1e-8


def test_no_polynomial_is_fast_on_a_cycle():
    """For less layers than states: at least gamma^L sqrt((1 - gamma^2)/(1 - gamma^(2L+2)))."""
    for size in (3, 5, 8, 12):
        for gamma in (0.5, 0.9, 0.99):
            nu = 1 - gamma * np.exp(2j * np.pi * np.arange(size) / size)
            for layers in range(1, size):
                bound = gamma**layers * np.sqrt(
                    (1 - gamma**2) / (1 - gamma ** (2 * layers + 2))
                )
                found = best_polynomial(nu, layers)
                assert bound <= found.upper * (1 + 1e-9)
                assert found.lower <= gamma**layers * (1 + 1e-7)
            assert best_polynomial(nu, size).upper < 1e-7


def test_any_polynomial_on_a_cycle_many_times():
    rng = np.random.default_rng(5)
    count = 0
    for gamma in (0.5, 0.9, 0.99):
        for size in (4, 7, 12):
            nu = 1 - gamma * np.exp(2j * np.pi * np.arange(size) / size)
            for layers in range(1, size):
                # near the powers of 1 - z, which are the smallest, and far from them
                scale = rng.choice([0.01, 0.1, 1], size=(200, 1))
                steps = 1 + scale * (
                    rng.standard_normal((200, layers))
                    + 1j * rng.standard_normal((200, layers))
                )
                size_on_it = np.abs((1 - nu[:, None, None] * steps).prod(axis=-1)).max(
                    axis=0
                )
                bound = gamma**layers * np.sqrt(
                    (1 - gamma**2) / (1 - gamma ** (2 * layers + 2))
                )
                assert (size_on_it >= bound * (1 - 1e-9)).all()
                count += len(steps)
    print("polynomials tried on cycles:", count)
    assert count >= MANY


# ------------------------------------------------------------------- the constant direction


def test_one_layer_removes_the_constants():
    rng = np.random.default_rng(6)
    count = 0
    for size, gamma in ((2, 0.5), (4, 0.9), (7, 0.99), (5, 0.0)):
        P = stack_of_chains(2600, size, rng)
        x = rng.standard_normal((2600, size, 3)) * rng.choice([0.3, 1, 3], (2600, 1, 1))
        M = kernels(x @ np.swapaxes(x, -1, -2), stationary(P))
        drift = M @ (np.eye(size) - gamma * P)
        steps = deflated_schedule(gamma, rng.uniform(0.2, 1.5, 3))
        assert steps[0] * (1 - gamma) == 1
        e = rng.standard_normal((2600, size, 1))
        for order in (steps, steps[::-1]):  # first or last
            ends = []
            for constant in (0.0, 100.0):
                error = e + constant
                for alpha in order:
                    error = error - alpha * (drift @ error)
                ends.append(error)
            np.testing.assert_allclose(*ends, atol=1e-11 / (1 - gamma))
        one = np.ones((size, 1)) - steps[1] * (drift @ np.ones((size, 1)))
        np.testing.assert_allclose(one, 1 - steps[1] * (1 - gamma), rtol=1e-12)
        count += len(P)
    print("chains on which one layer removed the constants:", count)
    assert count >= MANY


def test_the_last_layer_makes_good_whatever_constants_are_left():
    """|e_L| <= |T_last| prod tau(T_l) spread(e_0)/2, also if every layer has another kernel."""
    rng = np.random.default_rng(7)
    count, smallest = 0, np.inf
    for size, gamma in ((2, 0.5), (3, 0.9), (5, 0.99), (6, 0.8)):
        P = stack_of_chains(2600, size, rng)
        mu = stationary(P)
        e = rng.standard_normal((2600, size)) + 10 * rng.standard_normal((2600, 1))
        bound = (e.max(axis=1) - e.min(axis=1)) / 2
        for alpha in (0.7, 1.0, 1.3, 1 / (1 - gamma)):
            x = rng.standard_normal((2600, size, size)) * rng.choice(
                [1, 3], (2600, 1, 1)
            )
            M = kernels(x @ np.swapaxes(x, -1, -2), mu)
            T = np.eye(size) - alpha * M @ (np.eye(size) - gamma * P)
            e = (T @ e[..., None])[..., 0]
            last = np.abs(T).sum(axis=-1).max(axis=-1)
            if alpha < 1 / (1 - gamma):
                bound = bound * span_contraction(T)
        bound = bound * last
        error = np.abs(e).max(axis=1)
        assert (error <= bound * (1 + 1e-9) + 1e-12 / (1 - gamma)).all()
        smallest = min(smallest, (bound / np.maximum(error, 1e-300)).min())
        count += len(P)
    print(f"instances: {count}; the bound is at least {smallest:.3f} times the error")
    assert count >= MANY


def test_the_spread_contracts_by_at_most_the_coefficient_and_it_is_reached():
    rng = np.random.default_rng(8)
    T = rng.standard_normal((12_000, 4, 4))
    T += (1 - T.sum(axis=-1, keepdims=True)) / 4
    tau = span_contraction(T)
    v = rng.choice([-1.0, 1.0], size=(12_000, 4))
    out = (T @ v[..., None])[..., 0]
    spread = np.ptp(out, axis=1), np.ptp(v, axis=1)
    assert (spread[0] <= tau * spread[1] + 1e-12).all()
    corners = 2 * ((np.arange(16)[:, None] >> np.arange(4)) & 1) - 1.0
    reached = np.ptp(T @ corners.T, axis=1).max(axis=-1) / 2
    np.testing.assert_allclose(reached, tau, rtol=1e-12)


def test_deflation_makes_depth_independent_of_the_discount():
    """The tabular limit of a lazy walk: others die at gamma |lambda_2|, constants at once."""
    layers = []
    for gamma in (0.9, 0.99, 0.999):
        P = random_walk(5, gamma).transition
        drift = np.eye(5) - gamma * P
        nu = np.linalg.eigvals(drift)
        rest = without_constants(nu, gamma)
        assert len(rest) == 4
        assert np.abs(rest - (1 - gamma)).min() > 0.05
        alpha, rate = best_constant_step(rest)
        assert rate < 0.95
        plain = layers_to(1e-3, drift, np.ones, at_most=20_000)
        quick = layers_to(
            1e-3,
            drift,
            lambda k, a=alpha, g=gamma: deflated_schedule(g, np.full(max(k - 1, 0), a))[
                :k
            ],
        )
        layers.append((plain, quick))
    print("layers to 1e-3, plain and deflated:", layers)
    assert layers[0][0] == 66 and layers[2][0] == 6905
    assert layers[2][1] < 200
    assert layers[2][0] > 40 * layers[2][1]


# ------------------------------------------------------------------------- a real spectrum


def test_orthogonal_features_and_a_reversible_chain_have_a_real_positive_spectrum():
    rng = np.random.default_rng(9)
    count, largest = 0, 0.0
    for size in (2, 3, 5, 8):
        flows = rng.gamma(0.3, size=(2600, size, size)) + 1e-4
        flows = flows + np.swapaxes(flows, -1, -2)
        mass = flows.sum(axis=-1)
        P, mu = flows / mass[..., None], mass / mass.sum(axis=-1, keepdims=True)
        gamma = rng.uniform(0, 0.99, (2600, 1, 1))
        own = rng.uniform(0, 8, (2600, size))  # squared norms, all different
        M = kernels(own[..., None] * np.eye(size), mu)
        nu = np.linalg.eigvals(M @ (np.eye(size) - gamma * P))
        assert nu.real.min() > 0
        largest = max(largest, np.abs(nu.imag).max())
        count += len(P)
        # with the step rescaled by Lambda, any features do
        x = rng.standard_normal((2600, size, 3))
        E = np.exp(x @ np.swapaxes(x, -1, -2))
        E = E / E.max(axis=(1, 2), keepdims=True)
        rescaled = np.linalg.eigvals(E * mu[:, None, :] @ (np.eye(size) - gamma * P))
        assert rescaled.real.min() > -1e-10
        assert np.abs(rescaled.imag).max() < 1e-7
        # and it is 1 - gamma with the spectrum of A (I - gamma P - (1 - gamma) 1 mu^T)
        h = np.expm1(own) * mu
        a = (h / (1 + h))[..., None]
        inner = a * (np.eye(size) - gamma * P - (1 - gamma) * mu[:, None, :])
        small = np.sort(np.linalg.eigvals(inner).real, axis=-1)[:, 1:]
        both = np.sort(np.concatenate([small, 1 - gamma[..., 0]], axis=-1), axis=-1)
        np.testing.assert_allclose(np.sort(nu.real, axis=-1), both, atol=1e-7)
    print(f"reversible chains: {count}, largest imaginary part {largest:.1e}")
    assert count >= MANY
    assert largest < 1e-6


# ------------------------------------------------------------------------------- momentum


@given(seeds, st.integers(0, 4), st.integers(0, 4))
def test_pairs_become_momenta_with_the_same_polynomial(seed, singles, pairs):
    rng = np.random.default_rng(seed)
    complex_ones = rng.uniform(0.3, 1.5, pairs) * np.exp(
        1j * rng.uniform(0.1, 3, pairs)
    )
    steps = np.concatenate(
        [rng.uniform(0.2, 2, singles), complex_ones, complex_ones.conj()]
    )
    rng.shuffle(steps)
    alphas, momenta = paired_momenta(steps)
    assert len(alphas) == len(steps)
    drift = rng.standard_normal((4, 4)) / 2 + np.eye(4)
    expected = np.eye(4, dtype=complex)
    for alpha in steps:
        expected = expected - alpha * drift @ expected
    found = momentum_matrix(drift, alphas, momenta)
    size = max(1, np.abs(expected).max())
    np.testing.assert_allclose(found, expected, atol=1e-8 * size * 4 ** len(steps))
    if pairs:
        with pytest.raises(ValueError, match="conjugate"):
            paired_momenta(steps[steps.imag <= 0])


def test_momentum_td_is_its_matrix_and_without_momentum_plain():
    rng = np.random.default_rng(10)
    context, _, weights, drift, target = a_context()
    steps, momenta = rng.uniform(0.2, 1.5, 9), rng.uniform(-1, 1, 9)
    v = momentum_td(context, weights, 0.8, steps, momenta)
    expected = target - momentum_matrix(drift, steps, momenta) @ target
    np.testing.assert_allclose(v[-1], expected, rtol=1e-10, atol=1e-10)
    plain = momentum_td(context, weights, 0.8, steps, np.zeros(9))
    again = weighted_td(context, weights, 0.8, 9, step_size=steps)
    np.testing.assert_allclose(plain, again, rtol=1e-12, atol=1e-13)
    with pytest.raises(ValueError, match="momenta"):
        momentum_td(context, weights, 0.8, steps, momenta[:3])


def test_the_best_momentum_has_its_rate_and_no_neighbour_is_better():
    for low, high in ((0.1, 1.9), (0.5, 1.5), (0.01, 1.0)):
        z = np.linspace(low, high, 301)
        best = best_momentum(low, high)
        assert momentum_rate(z, best.step_size, best.momentum) == pytest.approx(
            best.rate, rel=1e-6
        )
        for up in (0.95, 1, 1.05):
            for across in (0.9, 1, 1.1):
                other = momentum_rate(z, best.step_size * up, best.momentum * across)
                assert other >= best.rate * (1 - 1e-9)
    companion = np.linalg.eigvals([[1 + 0.3 - 0.7 * 0.4, -0.3], [1, 0]])
    assert momentum_rate([0.4], 0.7, 0.3) == pytest.approx(np.abs(companion).max())


def velocity_layer(Z, A, alpha, omega, discount):
    """A layer with one more row, the velocity, by matrices; rows are x, r, b, c, velocity."""
    d = Z.shape[0] - 4
    reward, target, current, velocity = d, d + 1, d + 2, d + 3
    full = torch.zeros(d + 4, d + 4, dtype=Z.dtype)
    full[:d, :d] = A
    V = torch.zeros_like(full)
    for row in (current, velocity):  # the same gain to both
        V[row, [reward, target, current]] = (
            alpha * torch.tensor([1.0, 1.0, -1.0]).double()
        )
    carry = torch.eye(d + 4, dtype=Z.dtype)  # every token by itself
    carry[current, velocity] = carry[velocity, velocity] = omega
    Y = carry @ Z + (V @ Z[:, :-1]) @ attention_weights(Z, full)
    Y[target] = discount * temporal_shift(Y[current])
    return Y


def test_a_layer_with_a_velocity_row_runs_momentum():
    context, x, weights, drift, _ = a_context()
    found = best_polynomial(np.linalg.eigvals(drift), 4)
    assert np.abs(found.step_sizes.imag).max() > 0.01
    steps, momenta = paired_momenta(found.step_sizes)
    reached = np.abs(np.linalg.eigvals(momentum_matrix(drift, steps, momenta))).max()
    assert reached == pytest.approx(found.upper, rel=1e-6)
    expected = momentum_td(context, weights, 0.8, steps, momenta)
    Z = build_prompt(context, x)
    Z = torch.cat([Z, torch.zeros_like(Z[:1])])
    for layer, (alpha, omega) in enumerate(zip(steps, momenta, strict=True)):
        Z = velocity_layer(Z, 4.0 * torch.eye(6).double(), alpha, omega, 0.8)
        np.testing.assert_allclose(
            Z[-2].numpy(), expected[layer + 1][context.states], rtol=1e-11, atol=1e-12
        )


# ------------------------------------------------------------------------ layers to an accuracy


def test_layers_to_counts_and_the_polynomial_needs_fewest():
    *_, drift, _ = a_context()
    nu = np.linalg.eigvals(drift)
    alpha, _ = best_constant_step(nu)
    found = layers_to(1e-2, drift, lambda k: np.full(k, alpha))
    norms = [
        np.abs(np.linalg.matrix_power(np.eye(6) - alpha * drift, k)).sum(axis=1).max()
        for k in range(found + 1)
    ]
    assert norms[-1] <= 1e-2 < min(norms[:-1])
    assert fewest_layers(1e-2, nu) <= found
    least = fewest_layers(1e-2, nu)
    assert best_polynomial(nu, least).lower <= 1e-2
    assert least == 1 or best_polynomial(nu, least - 1).lower > 1e-2
    assert (
        layers_to(1e-2, drift, lambda k: np.full(k, alpha), at_most=found - 1) is None
    )
    changing = layers_to(1e-2, drift, lambda k: chebyshev_step_sizes(0.1, 1.5, k))
    norm = np.abs(residual_matrix(drift, chebyshev_step_sizes(0.1, 1.5, changing)))
    assert norm.sum(axis=1).max() <= 1e-2
    with pytest.raises(ValueError, match="accuracy"):
        layers_to(1.5, drift, np.ones)
    with pytest.raises(ValueError, match="schedule"):
        layers_to(0.5, drift, lambda k: np.ones(k + 1))
    with pytest.raises(ValueError, match="accuracy"):
        fewest_layers(1e-9, nu)


def test_as_many_layers_as_states_are_exact_where_the_spectrum_is_real():
    process = random_walk(5, 0.9, p_right=0.4)
    mu = process.stationary()
    M = kernels(3 * np.eye(5)[None], mu[None])[0]
    drift = M @ (np.eye(5) - 0.9 * process.transition)
    steps = stable_order(1 / np.linalg.eigvals(drift).real)
    assert np.abs(residual_matrix(drift, steps)).max() < 1e-9


def test_conjugates_may_be_left_out():
    """A real polynomial that vanishes at one of a pair has the degree 2."""
    for nu in ([0.5 + 0.5j], [0.5 + 0.5j, 0.5 - 0.5j], [0.5 + 0.5j] * 3):
        assert fewest_layers(1e-3, nu) == 2
    assert fewest_layers(1e-3, [0.5, 0.5]) == 1


def test_pairs_are_found_whatever_rounding_does_to_their_order():
    tiny = np.spacing(1.0)
    steps = np.array([1 + 2j, 1 + tiny + 3j, 1 + tiny - 2j, 1 - 3j])
    alphas, omega = paired_momenta(steps)
    z = np.linspace(-1, 1, 7)
    for at in z:
        found = momentum_matrix([[at]], alphas, omega)[0, 0]
        assert found == pytest.approx(residual_polynomial(steps, at).real, rel=1e-12)
    with pytest.raises(ValueError, match="conjugate pairs"):
        paired_momenta([1 + 2j, 1 + 2j, 1 - 2j, 1 - 3j])


def test_divergence_beyond_floats():
    assert layers_to(0.1, 9 * np.eye(2), np.ones) is None
    assert best_constant_step([1e-200, 1.0]).rate == 1
    context, _, weights, *_ = a_context()
    with pytest.raises(OverflowError, match="values: beyond"):
        momentum_td(context, 50 * weights, 0.5, np.ones(400), np.zeros(400))
    with pytest.raises(ValueError, match="expected finite"):
        momentum_td(context, weights, 0.5, [np.nan], [0.0])


def test_arguments():
    for call in (
        lambda: chebyshev_step_sizes(0.0, 1.0, 3),
        lambda: chebyshev_factor(2.0, 1.0, 3),
        lambda: best_momentum(-1.0, 1.0),
    ):
        with pytest.raises(ValueError, match="low, high"):
            call()
    with pytest.raises(ValueError, match="layers"):
        chebyshev_step_sizes(0.5, 1.0, -1)
    with pytest.raises(ValueError, match="drift"):
        residual_matrix(np.ones((2, 3)), [1.0])
    with pytest.raises(ValueError, match="step_sizes: got shape"):
        residual_matrix(np.eye(2), 1.0)
    with pytest.raises(ValueError, match="directions"):
        best_polynomial([1.0], 2, directions=2)
    assert chebyshev_step_sizes(0.5, 1.0, 0).shape == (0,)
