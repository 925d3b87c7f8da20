"""Other signals: traces, average reward, noisy rewards on transitions, states of an interval."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import ergodic_chains, seeds

from ictd_lib import (
    MarkovRewardProcess,
    asymptotic_covariance,
    attention_matrix,
    context_kernel,
    gaussian_scores,
    inner_product_scores,
    random_ergodic_chain,
    residual_operator,
    sample_context,
    softmax_weights,
    tabular_td,
    td_errors,
    unit_features,
    weighted_td,
)
from ictd_lib.average_reward import differential_td, poisson_solution, up_to_constant
from ictd_lib.interval import (
    cosine_reward,
    path_context,
    reflecting_walk,
    walk_values,
)
from ictd_lib.rewards import noisy_covariance, target_variance, transition_context
from ictd_lib.traces import (
    lambda_discount,
    lambda_equations,
    lambda_errors,
    lambda_transition,
    sufficient_trace,
    trace_weights,
)

MANY = 10_000

#: A chain on which plain softmax TD diverges: scalar features (1, 6, 5), discount 1/2.
WILD = np.array([[0, 0.05, 0.95], [0.4, 0.6, 0], [1, 0, 0]])
WILD_FEATURES = np.array([[1.0], [6.0], [5.0]])


def stack_of_chains(count, n_states, rng, concentration=0.3):
    weights = rng.gamma(concentration, size=(count, n_states, n_states)) + 1e-6
    return weights / weights.sum(axis=-1, keepdims=True)


def stationary(P):
    count, size, _ = P.shape
    equations = np.swapaxes(P, -1, -2) - np.eye(size)
    equations[:, -1] = 1
    right = np.zeros((count, size, 1))
    right[:, -1] = 1
    return np.linalg.solve(equations, right)[..., 0]


def kernels(scores, mu):
    weights = mu[:, None, :] * np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def radius(operators):
    return np.abs(np.linalg.eigvals(operators)).max(axis=-1)


def a_context(seed, n=80, n_states=5, sharpness=4.0, discount=0.8):
    rng = np.random.default_rng(seed)
    process = random_ergodic_chain(n_states, rng, discount)
    context = sample_context(process, n, rng)
    x = unit_features(n_states, n_states, rng)
    weights = context_kernel(context, inner_product_scores(x, sharpness))
    return process, context, weights


# ------------------------------------------------------------------------------- TD(lambda)


def literal_td_lambda(context, weights, discount, trace, iterations):
    """Both views by loops: traces that accumulate, and returns that look ahead."""
    S, R, n = context.states.tolist(), context.rewards.tolist(), context.n
    views = []
    for forward in (False, True):
        v = [0.0] * context.n_states
        for _ in range(iterations):
            delta = [R[k] + discount * v[S[k + 1]] - v[S[k]] for k in range(n)]
            new = []
            for s in range(context.n_states):
                change = 0.0
                for a in range(n):
                    for b in range(n):
                        first, later = (a, b) if forward else (b, a)
                        if first <= later:  # transition `later`, credited to `first`
                            decay = (discount * trace) ** (later - first)
                            change += delta[later] * decay * weights[s, first]
                new.append(v[s] + 0.3 * change)
            v = new
        views.append(v)
    return np.array(views)


@pytest.mark.parametrize("trace", [0.0, 0.4, 1.0])
def test_td_lambda_against_both_views_by_loops(trace):
    _, context, weights = a_context(1, n=15)
    expected = literal_td_lambda(context, weights, 0.8, trace, 4)
    z = trace_weights(context, weights, 0.8, trace)
    v = weighted_td(context, z, 0.8, 4, step_size=0.3)[-1]
    np.testing.assert_allclose(expected, [v, v], rtol=1e-12)
    ahead = weights @ lambda_errors(td_errors(context, v, 0.8), 0.8, trace)
    np.testing.assert_allclose(
        ahead, z @ td_errors(context, v, 0.8), rtol=1e-11, atol=1e-12
    )
    if trace == 0:
        np.testing.assert_array_equal(z, weights)
        assert z is not weights


@given(ergodic_chains(), seeds, st.floats(0, 1), st.integers(1, 40))
def test_an_iteration_preconditions_the_lambda_equations(process, seed, trace, n):
    rng = np.random.default_rng(seed)
    context = sample_context(process, n, rng)
    size, gamma = process.n_states, process.discount
    scores = inner_product_scores(rng.standard_normal((size, 2)))
    weights = context_kernel(context, scores)
    v0 = rng.standard_normal(size)
    z = trace_weights(context, weights, gamma, trace)
    after = weighted_td(context, z, gamma, 1, step_size=0.7, initial=v0, bound=np.inf)
    A, b = lambda_equations(context, gamma, trace)
    m = attention_matrix(context, weights)
    expected = v0 + 0.7 * m @ (b - A @ v0)
    np.testing.assert_allclose(after[-1], expected, atol=1e-11 * (1 + n))


def test_what_td_lambda_converges_to_does_not_depend_on_the_kernel():
    gamma = 0.8
    for trace in (0.0, 0.5, 0.9, 1.0):
        for seed in range(2):
            _, context, sharp = a_context(seed, sharpness=6.0)
            flat = a_context(seed, sharpness=3.0)[2]
            assert context.covers()
            A, b = lambda_equations(context, gamma, trace)
            solved = np.linalg.solve(A, b)
            for weights in (sharp, flat):
                z = trace_weights(context, weights, gamma, trace)
                v = weighted_td(
                    context, z, gamma, 4000, step_size=0.5 * (1 - gamma * trace)
                )[-1]
                np.testing.assert_allclose(v, solved, atol=1e-8)
    A, b = lambda_equations(context, gamma, 0.0)
    np.testing.assert_allclose(A, np.eye(5) - gamma * context.empirical_transition())
    np.testing.assert_allclose(b, context.mean_rewards())


def test_with_lambda_one_the_values_are_mean_returns():
    _, context, _ = a_context(3)
    gamma, n = 0.8, context.n
    A, b = lambda_equations(context, gamma, 1.0)
    v = np.linalg.solve(A, b)
    for s in range(5):
        returns = [
            sum(gamma ** (k - j) * context.rewards[k] for k in range(j, n))
            + gamma ** (n - j) * v[context.states[-1]]
            for j in range(n)
            if context.states[j] == s
        ]
        assert v[s] == pytest.approx(np.mean(returns), rel=1e-10)


def test_td_lambda_is_td_zero_on_another_chain():
    """(I - gamma lambda P)^-1 (I - gamma P) = I - gamma_lambda P_lambda; T has the root 1 - (...)."""
    rng = np.random.default_rng(4)
    count = 0
    for size in (2, 4, 6):
        P = stack_of_chains(3400, size, rng)
        mu = stationary(P)
        gamma = rng.choice([0.5, 0.9, 0.99], (3400, 1, 1))
        lam = rng.uniform(0, 1, (3400, 1, 1))
        lam[:50] = 1
        decay = gamma * lam
        left = np.linalg.solve(np.eye(size) - decay * P, np.eye(size) - gamma * P)
        P_lam = (1 - decay) * P @ np.linalg.inv(np.eye(size) - decay * P)
        g_lam = gamma * (1 - lam) / (1 - decay)
        np.testing.assert_allclose(left, np.eye(size) - g_lam * P_lam, atol=1e-10)
        assert P_lam.min() > -1e-13
        np.testing.assert_allclose(P_lam.sum(axis=-1), 1, atol=1e-11)
        np.testing.assert_allclose((mu[:, None] @ P_lam)[:, 0], mu, atol=1e-11)
        for i in range(0, 3400, 170):
            g, r = float(gamma[i, 0, 0]), float(lam[i, 0, 0])
            np.testing.assert_allclose(
                lambda_transition(P[i], g, r), P_lam[i], atol=1e-11
            )
            assert lambda_discount(g, r) == pytest.approx(g_lam[i, 0, 0])
        count += len(P)
    print("chains:", count)
    assert count >= MANY


def test_the_empirical_equations_tend_to_those_of_the_other_chain():
    rng = np.random.default_rng(5)
    process = random_ergodic_chain(3, rng, 0.8)
    context = sample_context(process, 100_000, rng)
    A, b = lambda_equations(context, 0.8, 0.6)
    expected = np.eye(3) - lambda_discount(0.8, 0.6) * lambda_transition(
        process.transition, 0.8, 0.6
    )
    np.testing.assert_allclose(A, expected, atol=0.02)
    np.testing.assert_allclose(np.linalg.solve(A, b), process.values(), atol=0.05)


def test_enough_lambda_makes_every_chain_converge():
    """gamma_lambda sqrt(max Lambda / min Lambda) < 1 implies a radius below 1, with its rate."""
    rng = np.random.default_rng(6)
    count, wild, largest = 0, 0, 0.0
    for size in (2, 3, 5):
        P = stack_of_chains(4000, size, rng, concentration=0.1)
        mu = stationary(P)
        x = rng.standard_normal((4000, size, 2)) * rng.choice([0.5, 1, 2], (4000, 1, 1))
        E = np.exp(x @ np.swapaxes(x, -1, -2))
        L = (E @ mu[..., None])[..., 0]
        ratio = L.min(axis=-1) / L.max(axis=-1)
        gamma = rng.choice([0.5, 0.9, 0.99], 4000)
        need = np.array(
            [sufficient_trace(g, q) for g, q in zip(gamma, ratio, strict=True)]
        )
        lam = need + (1 - need) * rng.uniform(1e-3, 1, 4000)
        decay = (gamma * lam)[:, None, None]
        A = np.linalg.solve(
            np.eye(size) - decay * P, np.eye(size) - gamma[:, None, None] * P
        )
        M = kernels(x @ np.swapaxes(x, -1, -2), mu)
        alpha = rng.uniform(0.1, 1, (4000, 1, 1))
        # M is similar to a symmetric matrix: its eigenvalues are real
        half = np.sqrt(mu / L)
        slowest = np.linalg.eigvalsh(half[:, :, None] * E * half[:, None, :])[:, 0]
        usable = slowest > 1e-10
        rho = radius(np.eye(size) - alpha * M @ A)[usable]
        g_lam = gamma * (1 - lam) / (1 - gamma * lam)
        assert (g_lam < np.sqrt(ratio) * (1 + 1e-12)).all()
        rate = 1 - alpha[:, 0, 0] * (1 - g_lam / np.sqrt(ratio)) * slowest
        assert (rho <= rate[usable] + 1e-9).all()
        largest = max(largest, rho.max())
        plain = np.eye(size) - M @ (np.eye(size) - gamma[:, None, None] * P)
        wild += (radius(plain)[usable] > 1).sum()
        count += usable.sum()
    print(
        f"chains: {count}, of which {wild} diverge with lambda = 0; radius {largest:.6f}"
    )
    assert count >= MANY and wild > 10


def test_the_wild_chain_is_tamed_by_lambda():
    mu = stationary(WILD[None])
    M = kernels((WILD_FEATURES @ WILD_FEATURES.T)[None], mu)[0]

    def rho(trace):
        A = np.eye(3) - lambda_discount(0.5, trace) * lambda_transition(
            WILD, 0.5, trace
        )
        return float(radius(np.eye(3) - M @ A))

    assert rho(0.0) == pytest.approx(1.1625, abs=1e-4)
    assert rho(1.0) < 1
    L = np.exp(WILD_FEATURES @ WILD_FEATURES.T) @ mu[0]
    assert 0 < sufficient_trace(0.5, L.min() / L.max()) < 1
    assert sufficient_trace(0.5, 0.3) == 0


def test_two_heads_one_with_a_decay_run_td_lambda():
    """A causal head with linear position scores and a sink collects lambda-errors; then softmax."""
    gamma, trace = 0.8, 0.7
    _, context, weights = a_context(7)
    v = np.random.default_rng(7).standard_normal(5)
    n, decay = context.n, gamma * trace
    j, k = np.arange(n)[:, None], np.arange(n)[None, :]
    positions = np.where(k >= j, (k - j) * np.log(decay), -np.inf)
    sink = (n - np.arange(n)) * np.log(decay) - np.log1p(-decay)
    head = softmax_weights(np.column_stack([positions, sink]))[:, :-1]
    delta = td_errors(context, v, gamma)
    collected = head @ delta / (1 - decay)
    np.testing.assert_allclose(
        collected, lambda_errors(delta, gamma, trace), atol=1e-12
    )
    z = trace_weights(context, weights, gamma, trace)
    np.testing.assert_allclose(weights @ collected, z @ delta, atol=1e-12)


# --------------------------------------------------------------------------- average reward


def test_differential_td_against_a_loop():
    _, context, weights = a_context(8, n=20)
    S, R = context.states.tolist(), context.rewards.tolist()
    v, gain = [0.1 * s for s in range(5)], 0.3
    expected = [(list(v), gain)]
    for _ in range(6):
        delta = [R[k] - gain + v[S[k + 1]] - v[S[k]] for k in range(20)]
        v = [
            v[s] + 0.5 * sum(weights[s, k] * delta[k] for k in range(20))
            for s in range(5)
        ]
        gain += 0.2 * sum(delta) / 20
        expected.append((v, gain))
    found = differential_td(
        context,
        weights,
        6,
        step_size=0.5,
        average_step=0.2,
        initial=expected[0][0],
        average=0.3,
    )
    np.testing.assert_allclose(found.values, [e[0] for e in expected], atol=1e-13)
    np.testing.assert_allclose(found.average, [e[1] for e in expected], atol=1e-13)


@given(ergodic_chains())
def test_the_poisson_equation(process):
    P, r = process.transition, process.reward
    if np.linalg.svd(np.eye(len(P)) - P, compute_uv=False)[-2] < 1e-6:
        return  # nearly two chains: values of the size of the inverse
    h, gain = poisson_solution(P, r)
    assert gain == pytest.approx(process.stationary() @ r, abs=1e-12)
    size = 1 + np.abs(h).max()
    np.testing.assert_allclose(h - P @ h, r - gain, atol=1e-11 * size)
    assert process.stationary() @ h == pytest.approx(0, abs=1e-10 * size)
    if np.abs(h).max() < 100:
        # Laurent's series: v = gain / (1 - gamma) + h + ...
        near = MarkovRewardProcess(P, r, 1 - 2.0**-20)
        np.testing.assert_allclose(near.values() - gain * 2.0**20, h, atol=2e-2)


def test_a_wrong_average_is_a_drift_and_nothing_else():
    """v_L = h + T^L (v_0 - h) + L alpha (r* - r) 1, exactly."""
    for seed in range(6):
        _, context, weights = a_context(seed)
        assert context.covers()
        P, r = context.empirical_transition(), context.mean_rewards()
        h, gain = poisson_solution(P, r)
        m = attention_matrix(context, weights)
        T = np.eye(5) - 0.6 * m @ (np.eye(5) - P)
        v = differential_td(context, weights, 50, step_size=0.6, average=gain - 0.1)
        left = h + np.linalg.matrix_power(T, 50) @ (0 - h) + 50 * 0.6 * 0.1
        np.testing.assert_allclose(v.values[-1], left, atol=1e-10)


def test_values_and_average_converge_if_and_only_if_the_quotient_does():
    """Eigenvalues of the joint iteration: those of T, and 1 - eta."""
    rng = np.random.default_rng(9)
    count = 0
    for size in (2, 3, 5):
        P = stack_of_chains(3400, size, rng)
        x = rng.standard_normal((3400, size, 2)) * rng.choice([0.3, 1, 2], (3400, 1, 1))
        M = kernels(x @ np.swapaxes(x, -1, -2), stationary(P))
        nu = rng.dirichlet(
            np.ones(size), 3400
        )  # visits; not the stationary distribution
        alpha, eta = rng.uniform(0.1, 1, (2, 3400, 1, 1))
        T = np.eye(size) - alpha * M @ (np.eye(size) - P)
        joint = np.zeros((3400, size + 1, size + 1))
        joint[:, :size, :size] = T
        joint[:, :size, size:] = -alpha
        joint[:, size:, :size] = -eta * nu[:, None, :] @ (np.eye(size) - P)
        joint[:, size, size] = 1 - eta[:, 0, 0]
        z = rng.uniform(1.5, 3, (3400, 1, 1)) * np.exp(
            2j * np.pi * rng.random((3400, 1, 1))
        )
        left = np.linalg.det(z * np.eye(size + 1) - joint)
        right = np.linalg.det(z * np.eye(size) - T) * (z - 1 + eta)[:, 0, 0]
        np.testing.assert_allclose(left, right, rtol=1e-7, atol=1e-9)
        count += len(P)
    print("joint iterations:", count)
    assert count >= MANY


def test_the_learned_average_is_that_of_the_context_and_the_drift_ends():
    for seed in range(6):
        _, context, weights = a_context(seed)
        h, gain = poisson_solution(
            context.empirical_transition(), context.mean_rewards()
        )
        found = differential_td(
            context, weights, 3000, step_size=0.5, average_step=0.2, average=0.0
        )
        assert found.average[-1] == pytest.approx(gain, abs=1e-9)
        assert up_to_constant(found.values[-1] - h) < 1e-8
        assert np.abs(found.values[-1] - found.values[-2]).max() < 1e-9


def test_orthogonal_features_make_differential_td_a_lazy_chain():
    """T = I - alpha A + alpha A P is a transition matrix: convergence for every alpha in (0, 1]."""
    rng = np.random.default_rng(10)
    count, largest = 0, 0.0
    for size in (2, 3, 5):
        P = stack_of_chains(3400, size, rng)
        mu = stationary(P)
        own = rng.uniform(0.1, 6, (3400, size))
        M = kernels(own[..., None] * np.eye(size), mu)
        alpha = rng.uniform(0.1, 1, (3400, 1))
        alpha[:100] = 1
        h = np.expm1(own) * mu
        lazy = alpha * h / (1 + h)
        T = np.eye(size) - alpha[..., None] * M @ (np.eye(size) - P)
        expected = np.eye(size) * (1 - lazy)[..., None] + lazy[..., None] * P
        np.testing.assert_allclose(T, expected, atol=1e-9)
        nu = np.sort(np.abs(np.linalg.eigvals(T)), axis=-1)
        np.testing.assert_allclose(nu[:, -1], 1, atol=1e-7)
        assert (nu[:, -2] < 1).all()
        largest = max(largest, nu[:, -2].max())
        count += len(P)
    print(f"chains: {count}, second eigenvalue up to {largest:.6f}")
    assert count >= MANY


def test_the_rescaled_step_converges_up_to_constants():
    """alpha(s) = alpha Lambda(s) / max Lambda, 0 < alpha < 1, any distinct features."""
    rng = np.random.default_rng(11)
    count, largest = 0, 0.0
    for size in (2, 3, 5):
        P = stack_of_chains(3800, size, rng)
        mu = stationary(P)
        x = rng.standard_normal((3800, size, 2)) * rng.choice(
            [0.5, 1, 1.5], (3800, 1, 1)
        )
        E = np.exp(x @ np.swapaxes(x, -1, -2))
        usable = np.linalg.eigvalsh(E)[:, 0] > 1e-7 * E.max(axis=(1, 2))
        B = E * mu[:, None, :]
        B = B / B.sum(axis=-1).max(axis=-1)[:, None, None]
        alpha = rng.uniform(0.3, 0.99, (3800, 1, 1))
        T = np.eye(size) - alpha * B @ (np.eye(size) - P)
        nu = np.linalg.eigvals(T[usable])
        rest = np.sort(np.abs(nu), axis=-1)[:, :-1]
        assert (np.abs(nu - 1).min(axis=-1) < 1e-9).all()
        assert (rest < 1).all()
        largest = max(largest, rest.max())
        count += usable.sum()
    print(f"chains: {count}, the others up to {largest:.9f}")
    assert count >= MANY


# ------------------------------------------------------- rewards on transitions, and noise


def noisy_problem(seed=12):
    rng = np.random.default_rng(seed)
    process = random_ergodic_chain(4, rng, 0.8, concentration=0.5)
    rewards = rng.uniform(-1, 1, (4, 4))
    noise = rng.uniform(0, 1, (4, 4))
    return process, rewards, noise, rng


def test_the_limit_reads_rewards_only_through_their_means():
    process, rewards, noise, rng = noisy_problem()
    states = process.sample(500, rng)
    context = transition_context(states, rewards, noise=noise, rng=rng)
    assert context.rewards.std() > 0.3
    v = tabular_td(context, 0.8, 400)[-1]
    P, r = context.empirical_transition(), np.zeros(4)
    for s in range(4):
        r[s] = context.rewards[context.sources == s].mean()
    np.testing.assert_allclose(v, np.linalg.solve(np.eye(4) - 0.8 * P, r), atol=1e-10)
    plain = transition_context(states, rewards)
    np.testing.assert_array_equal(plain.rewards, rewards[states[:-1], states[1:]])
    with pytest.raises(ValueError, match="rng"):
        transition_context(states, rewards, noise=1.0)


def test_the_variance_of_the_target_in_its_three_parts():
    process, rewards, noise, _ = noisy_problem()
    P = process.transition
    v = np.linalg.solve(np.eye(4) - 0.8 * P, (P * rewards).sum(axis=1))
    for s in range(4):
        mean = P[s] @ rewards[s]
        var_r = P[s] @ (rewards[s] ** 2 + noise[s] ** 2) - mean**2
        cov = P[s] @ (rewards[s] * v) - mean * (P[s] @ v)
        var_v = P[s] @ v**2 - (P[s] @ v) ** 2
        expected = var_r + 2 * 0.8 * cov + 0.64 * var_v
        found = target_variance(P, rewards, 0.8, noise)[s]
        assert found == pytest.approx(expected, rel=1e-10)
    state_only = np.repeat(process.reward[:, None], 4, axis=1)
    v = process.values()
    plain = 0.64 * (P @ v**2 - (P @ v) ** 2)
    np.testing.assert_allclose(target_variance(P, state_only, 0.8), plain, rtol=1e-9)
    with pytest.raises(ValueError, match="rewards"):
        target_variance(P, np.ones(3), 0.8)


def test_the_covariance_against_simulation():
    process, rewards, noise, rng = noisy_problem()
    P, n, runs = process.transition, 2000, 3000
    v = np.linalg.solve(np.eye(4) - 0.8 * P, (P * rewards).sum(axis=1))
    paths = process.sample_many(runs, n, rng)
    received = rewards[paths[:, :-1], paths[:, 1:]]
    received = received + noise[paths[:, :-1], paths[:, 1:]] * rng.standard_normal(
        received.shape
    )
    eye = np.eye(4)
    counts = np.stack([(paths[:, :-1] == s).sum(axis=1) for s in range(4)], axis=1)
    sums = np.stack(
        [(received * (paths[:, :-1] == s)).sum(axis=1) for s in range(4)], 1
    )
    pairs = (paths[:, :-1] * 4 + paths[:, 1:]) + 16 * np.arange(runs)[:, None]
    moves = np.bincount(pairs.ravel(), minlength=16 * runs).reshape(runs, 4, 4)
    estimates = np.linalg.solve(
        eye - 0.8 * moves / counts[..., None], (sums / counts)[..., None]
    )[..., 0]
    found = n * np.cov((estimates - v).T)
    expected = noisy_covariance(P, rewards, 0.8, noise)
    scale = np.sqrt(np.outer(np.diag(expected), np.diag(expected)))
    # 3,000 runs: a standard error of sqrt(2/3000) = 2.6 %
    assert np.abs((found - expected) / scale).max() < 0.1
    without = noisy_covariance(P, rewards, 0.8)
    assert (np.diag(without) < 0.95 * np.diag(expected)).all()


def test_the_covariance_with_rewards_of_the_state_is_the_plain_one():
    process, *_ = noisy_problem()
    rewards = np.repeat(process.reward[:, None], 4, axis=1)
    np.testing.assert_allclose(
        noisy_covariance(process.transition, rewards, 0.8),
        asymptotic_covariance(process),
        rtol=1e-9,
    )
    with pytest.raises(ValueError, match="stationary probability 0"):
        noisy_covariance([[0.5, 0.5], [0, 1]], np.ones((2, 2)), 0.8)


# ------------------------------------------------------------------------------ an interval


def test_values_of_the_walk_against_a_fine_chain():
    cells, width, gamma, c = 800, 0.15, 0.9, [0.2, 1.0, 0.0, -0.7]
    x = (np.arange(cells) + 0.5) / cells
    images = [x + 2 * m for m in (-1, 0, 1)] + [-x + 2 * m for m in (-1, 0, 1)]
    density = sum(np.exp(-((x[:, None] - y) ** 2) / (2 * width**2)) for y in images)
    P = density / density.sum(axis=1, keepdims=True)
    solved = np.linalg.solve(np.eye(cells) - gamma * P, cosine_reward(x, c))
    np.testing.assert_allclose(walk_values(x, c, width, gamma), solved, atol=1e-10)


def test_the_walk_reflects_and_is_uniform():
    rng = np.random.default_rng(13)
    x = reflecting_walk(50_000, 0.3, rng)
    assert 0 <= x.min() <= x.max() <= 1 and len(x) == 50_001
    np.testing.assert_allclose(np.histogram(x, 5, (0, 1))[0] / 50_001, 0.2, atol=0.02)
    y = np.cos(np.pi * x)
    slope = (y[1:] @ y[:-1]) / (y[:-1] @ y[:-1])
    assert slope == pytest.approx(np.exp(-((np.pi * 0.3) ** 2) / 2), abs=0.02)
    again = reflecting_walk(50_000, 0.3, np.random.default_rng(13))
    np.testing.assert_array_equal(x, again)
    with pytest.raises(ValueError, match="width"):
        reflecting_walk(3, 0.0, rng)


def walk_problem(seed, n, width=0.1, gamma=0.9, coefficients=(0.0, 1.0, 0.0, 0.5)):
    rng = np.random.default_rng(seed)
    x = reflecting_walk(n, width, rng)
    grid = np.linspace(0, 1, 41)
    context = path_context(cosine_reward(x[:-1], coefficients), queries=41)
    points = np.append(x, grid)[:, None]
    return x, context, points, walk_values(grid, coefficients, width, gamma)


def test_every_column_its_own_state_and_queries_are_new_points():
    x, context, points, _ = walk_problem(14, 50)
    assert context.n_states == len(points) == 50 + 1 + 41
    assert context.counts().max() == 1 and not context.covers()
    weights = context_kernel(context, gaussian_scores(points, 0.1))
    v = weighted_td(context, weights, 0.9, 30)
    # at a new point the value is what the kernel says about the TD errors, all layers' summed
    kappa = np.exp(-((points - x[:-1]) ** 2) / (2 * 0.1**2))
    kappa /= kappa.sum(axis=1, keepdims=True)
    by_hand = np.zeros(len(points))
    for _ in range(30):
        delta = context.rewards + 0.9 * by_hand[1:51] - by_hand[:50]
        by_hand = by_hand + kappa @ delta
    np.testing.assert_allclose(v[-1], by_hand, atol=1e-12)


def test_depth_without_end_fits_the_single_path():
    """The limit is one return a state, with no averaging: Monte Carlo on one sample."""
    rng = np.random.default_rng(15)
    x = np.sort(
        reflecting_walk(8, 0.5, rng)
    )  # well apart, so that the limit is reached
    x = np.linspace(0, 1, 9) + 0.01 * x
    rewards = rng.standard_normal(8)
    context = path_context(rewards)
    v = weighted_td(
        context, context_kernel(context, gaussian_scores(x[:, None], 0.06)), 0.9, 4000
    )[-1]
    for k in range(8):
        path = sum(0.9 ** (m - k) * rewards[m] for m in range(k, 8))
        assert v[k] == pytest.approx(path + 0.9 ** (8 - k) * v[8], rel=1e-9)


def test_a_closed_path_is_a_permutation_and_carries_the_certificates():
    """Every state left and entered once: P is unitary for frequencies 1/n."""
    x, *_ = walk_problem(16, 200)
    rewards = cosine_reward(x[:-1], [0.0, 1.0])
    context = path_context(rewards, closed=True)
    P = context.empirical_transition()
    np.testing.assert_array_equal(P.sum(axis=0), 1)
    np.testing.assert_array_equal(P.sum(axis=1), 1)
    kappa = np.exp(-((x[:-1, None] - x[:-1]) ** 2) / (2 * 0.2**2))
    density = kappa.mean(axis=1)
    B = kappa / len(density) / density.max()  # rescaled step: no condition
    assert radius(np.eye(200) - B @ (np.eye(200) - 0.9 * P)) <= 1 + 1e-12
    ratio = density.max() / density.min()
    M = kappa / kappa.sum(axis=1, keepdims=True)
    gamma = 0.99 / np.sqrt(ratio)
    assert radius(np.eye(200) - M @ (np.eye(200) - gamma * P)) <= 1 + 1e-12
    wide = path_context(rewards, queries=3, closed=True)
    assert wide.n_states == 203 and wide.counts()[-3:].max() == 0


def test_the_kernel_generalises_and_a_depth_is_best():
    errors = {}
    for layers in (0, 10, 40, 2000):
        errors[layers] = 0.0
        for seed in range(6):
            _, context, points, truth = walk_problem(seed, 300)
            weights = context_kernel(context, gaussian_scores(points, 0.1))
            v = weighted_td(context, weights, 0.9, layers)[-1, -41:]
            errors[layers] += np.sqrt(np.mean((v - truth) ** 2)) / 6
    print("error at new points by depth:", {k: round(e, 3) for k, e in errors.items()})
    assert errors[40] < 0.4 * errors[0]
    assert errors[2000] > errors[40]


def test_arguments():
    _, context, weights = a_context(0)
    for call, name in (
        (lambda: trace_weights(context, weights, 0.9, 1.5), "trace"),
        (lambda: trace_weights(context, weights, 1.0, 0.5), "discount"),
        (lambda: sufficient_trace(0.9, 0.0), "ratio"),
        (lambda: differential_td(context, weights, -1), "iterations"),
        (lambda: differential_td(context, weights, 1, step_size=np.nan), "step_size"),
        (
            lambda: differential_td(context, weights, 1, average=np.nan),
            "average: got nan",
        ),
        (lambda: lambda_errors([1j], 0.9, 0.5), "errors: got complex"),
        (lambda: lambda_errors(1.0, 0.9, 0.5), "errors: got a number"),
        (lambda: transition_context([0, 2, 1], WILD[:2, :2]), "states: got values"),
        (lambda: transition_context([0.0, 1.0], WILD), "states: got dtype"),
        (lambda: transition_context([0, 1], WILD[:2]), "rewards: got shape"),
        (lambda: transition_context([0, 1], WILD, noise=1.0), "rng: got None"),
        (lambda: transition_context([0, 1], WILD, noise=-1.0), "noise: got -1"),
        (lambda: transition_context([0, 1], WILD, noise=[1, 2, 3]), "noise: got"),
        (lambda: target_variance(WILD, WILD, 0.5, np.nan), "noise: got nan"),
        (lambda: target_variance(WILD, np.nan * WILD, 0.5), "rewards: got"),
        (lambda: path_context([], closed=True), r"rewards: got shape \(0,\)"),
        (lambda: path_context(1.0), r"rewards: got shape \(\)"),
        (lambda: cosine_reward([0.5], 1.0), "coefficients: got shape"),
        (lambda: walk_values([0.5], 1.0, 0.1, 0.9), "coefficients: got shape"),
        (lambda: reflecting_walk(-1, 0.1, np.random.default_rng(0)), "steps"),
    ):
        with pytest.raises(ValueError, match=name):
            call()


def test_differential_td_that_overflows_says_so():
    _, context, weights = a_context(0)
    with pytest.raises(OverflowError, match="values: beyond"):
        differential_td(context, 50 * weights, 400)


def test_the_poisson_equation_is_that_of_the_chain_whose_rows_sum_to_1():
    P = np.array([[0.5, 0.5000004], [0.3, 0.7]])
    found = poisson_solution(P, [1, 0])
    exact = poisson_solution(P / P.sum(axis=1, keepdims=True), [1, 0])
    np.testing.assert_allclose(found[0], exact[0], rtol=1e-12)
    assert found[1] == pytest.approx(exact[1], rel=1e-12)


def test_the_chain_of_lambda_is_a_chain_near_discount_1():
    rng = np.random.default_rng(0)
    for _ in range(200):
        size = int(rng.integers(2, 8))
        kept = np.where(rng.random((size, size)) < 0.6, 0, rng.random((size, size)))
        kept += 0.01 * np.roll(np.eye(size), 1, axis=1)
        P = kept / kept.sum(axis=1, keepdims=True)
        found = lambda_transition(P, 1 - 1e-11, 1.0)
        assert (found >= 0).all()
        np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-12)
        # At the limit every row is the stationary distribution.
        mu = stationary(P[None])[0]
        np.testing.assert_allclose(found, np.tile(mu, (size, 1)), atol=1e-6)


def test_an_open_path_may_have_a_growing_mode_and_a_closed_one_has_none():
    """The last state is never left: no certificate. Also seen in 60-digit arithmetic: 1.09e-5."""
    x = reflecting_walk(30, 0.1, np.random.default_rng(0))
    radii = {}
    for closed in (False, True):
        context = path_context(np.zeros(30), closed=closed)
        scores = gaussian_scores(x[: context.n_states, None], 0.02)
        m = attention_matrix(context, context_kernel(context, scores))
        operator = residual_operator(m, context.empirical_transition(), 0.9)
        radii[closed] = radius(operator)
    assert radii[False] - 1 == pytest.approx(1.09e-5, rel=0.01)
    assert radii[True] < 1 - 1e-7
