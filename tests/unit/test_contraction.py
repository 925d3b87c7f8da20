"""Every deterministic inequality about depth, on stacks of chains where its hypothesis holds."""

import functools
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from layer_cases import (
    CHAINS,
    chain,
    count_distinct,
    layers,
    stationary_stack,
    transition_counts,
)
from strategies import ergodic_chains, seeds

from ictd_lib import (
    Context,
    attention_matrix,
    certainty_equivalence,
    confidence_band,
    context_kernel,
    contraction_report,
    diagonality_margin,
    empirical_kernel,
    exact_margin,
    feature_classes,
    floor_bound,
    gaussian_features,
    infinity_norm,
    inner_product_scores,
    kept_margin,
    kernel_diagonality,
    layer_offset,
    layer_operator,
    lumped_context,
    mean_td_errors,
    one_hot_features,
    one_hot_sharpness,
    orthogonal_rate,
    paper_rate,
    population_kernel,
    random_boyan_chain,
    residual_operator,
    sample_context,
    sharp_rate,
    spectral_radius,
    stationary_distribution,
    weighted_softmax_td,
)

SIZES = (2, 3, 5, 8)
DISCOUNTS = (0.0, 0.3, 0.5, 0.9, 0.99)
PER_GROUP = 2000
#: A few roundings of numbers of size 1.
TINY = 1e-13


@functools.cache
def all_layers():
    """40,000 instances: one stack for each size and discount."""
    rng = np.random.default_rng(0)
    groups = itertools.product(SIZES, DISCOUNTS)
    return [layers(size, PER_GROUP, discount, rng) for size, discount in groups]


def operators(case):
    return layer_operator(
        case.kernel, case.transition, case.discount, case.step_size[:, None]
    )


def enough(distinct, capsys, what):
    """At least 10,000 instances on which the hypothesis holds; say how many."""
    with capsys.disabled():
        print(f"\n  {what}: {sum(distinct)} distinct instances", end="")
    assert sum(distinct) >= 10_000


# ---------------------------------------------------------------- what always holds


def test_the_stationary_distributions_of_the_stacks():
    """The oracle of these tests agrees with the library's, relative to each entry."""
    rng = np.random.default_rng(1)
    for kind in CHAINS:
        p = chain(kind, 6, rng)
        expected = stationary_distribution(p)
        np.testing.assert_allclose(stationary_stack(p[None])[0], expected, rtol=1e-9)


def test_rows_and_constants(capsys):
    """Rows of M and MP sum to 1; T 1 = (1 - alpha (1 - gamma)) 1; so rho is at least that."""
    distinct = []
    for case in all_layers():
        np.testing.assert_allclose(case.kernel.sum(axis=2), 1, rtol=TINY)
        both = case.kernel @ case.transition
        np.testing.assert_allclose(both.sum(axis=2), 1, rtol=TINY)
        t = operators(case)
        constant = 1 - case.step_size * (1 - case.discount)
        expected = np.broadcast_to(constant[:, None], t.shape[:2])
        np.testing.assert_allclose(t.sum(axis=2), expected, atol=TINY)
        assert (spectral_radius(t) >= constant - 1e-9).all()
        assert (infinity_norm(t) >= constant - TINY).all()
        distinct.append(count_distinct(case.kernel, case.transition))
    enough(distinct, capsys, "any layer")


def test_the_norm_is_exact_and_the_bounds_are_in_order(capsys):
    """||T|| = 1 - 2 alpha C* <= 1 - 2 alpha C, for any layer, Assumption 5.1 or not."""
    distinct, strict = [], []
    for case in all_layers():
        m, p, gamma, alpha = case.kernel, case.transition, case.discount, case.step_size
        t = operators(case)
        norm, c = infinity_norm(t), diagonality_margin(m, gamma)
        exact = exact_margin(m, p, gamma)
        np.testing.assert_allclose(norm, 1 - 2 * alpha * exact, atol=TINY)
        np.testing.assert_allclose(norm, sharp_rate(exact, alpha), atol=TINY)
        least = np.einsum("nss->ns", m).min(axis=1)
        assert (norm <= 1 - alpha * (2 * least - 1 - gamma) + TINY).all()
        assert (exact >= c - TINY).all()
        assert (exact <= (1 - gamma) / 2 + TINY).all()
        assert (spectral_radius(t) <= norm + 1e-9).all()
        # Strict as soon as another state is heard that own successors speak of as well.
        shared = np.minimum(m, gamma * m @ p) * ~np.eye(m.shape[-1], dtype=bool)
        clear = shared.sum(axis=2).min(axis=1) > 1e-9
        assert (norm[clear] < sharp_rate(c, alpha)[clear]).all()
        strict.append(clear.sum())
        distinct.append(count_distinct(m, p))
    enough(distinct, capsys, "exact norm")
    enough(strict, capsys, "strictly below 1 - 2 alpha C")


def test_under_assumption_5_1(capsys):
    """||T|| <= 1 - 2 alpha C < 1 - alpha C < 1, and what the rates can't go below."""
    distinct, kinds = [], np.zeros(len(CHAINS), dtype=int)
    for case in all_layers():
        c = diagonality_margin(case.kernel, case.discount)
        holds = c > 0
        kinds += [holds[i :: len(CHAINS)].sum() for i in range(len(CHAINS))]
        t, alpha, c = operators(case)[holds], case.step_size[holds], c[holds]
        norm, sharp = infinity_norm(t), sharp_rate(c, alpha)
        assert (norm <= sharp + TINY).all()
        assert (sharp < 1 - alpha * c).all() and (1 - alpha * c <= 1).all()
        assert (spectral_radius(t) < 1).all()
        assert (c <= (1 - case.discount) / 2 + TINY).all()
        assert (sharp_rate(c) >= case.discount - TINY).all()
        assert (paper_rate(c) >= (1 + case.discount) / 2 - TINY).all()
        distinct.append(count_distinct(case.kernel[holds], case.transition[holds]))
    enough(distinct, capsys, "Assumption 5.1 holds")
    assert (kinds > 1000).all(), dict(zip(CHAINS, kinds, strict=True))


def test_errors_decay_geometrically(capsys):
    """Under 5.1, ||v_L - v_pi|| <= (1 - 2 alpha C)^L ||v_0 - v_pi||, layer by layer."""
    rng, distinct = np.random.default_rng(2), []
    for case in all_layers():
        c = diagonality_margin(case.kernel, case.discount)
        holds = c > 0
        m, p, alpha = case.kernel[holds], case.transition[holds], case.step_size[holds]
        size = m.shape[-1]
        r = rng.standard_normal((len(m), size))
        truth = np.linalg.solve(np.eye(size) - case.discount * p, r[..., None])[..., 0]
        t = operators(case)[holds]
        b = layer_offset(m, r, alpha[:, None])
        # The true values stand still.
        np.testing.assert_allclose(
            (t @ truth[..., None])[..., 0] + b, truth, atol=1e-12 / (1 - case.discount)
        )
        v = rng.standard_normal((len(m), size))
        start = np.abs(v - truth).max(axis=1)
        for depth in range(1, 31):
            v = (t @ v[..., None])[..., 0] + b
            error = np.abs(v - truth).max(axis=1)
            slack = 1e-12 / (1 - case.discount)
            assert (error <= sharp_rate(c[holds], alpha) ** depth * start + slack).all()
        distinct.append(count_distinct(m, p))
    enough(distinct, capsys, "geometric decay")


# ---------------------------------------------------------------- if and only if


def test_when_the_sharp_rate_is_attained():
    """C* = C in a row exactly if no other state is both heard and spoken of."""
    rng = np.random.default_rng(3)
    count, size, gamma = 20_000, 4, 0.7
    m = rng.dirichlet(np.ones(size), (count, size)) * (
        rng.random((count, size, size)) < 0.5
    )
    m[:, range(size), range(size)] += 0.1
    m /= m.sum(axis=2, keepdims=True)
    p = np.ones((count, size, size)) * (rng.random((count, 1, size)) < 0.5)
    p[p.sum(axis=2) == 0] = np.eye(size)[0]
    p /= p.sum(axis=2, keepdims=True)
    both = np.minimum(m, gamma * m @ p) * ~np.eye(size, dtype=bool)
    overlap = both.sum(axis=2)
    # Row by row: a chain of one listener, all others listening to themselves alone.
    others = np.broadcast_to(np.eye(size), m.shape).copy()
    others[:, 0] = m[:, 0]
    gap = exact_margin(others, p, gamma) - diagonality_margin(others, gamma)
    heard = others[:, 0, 0] < 1
    attained = overlap[:, 0] == 0
    assert (np.abs(gap[attained]) < TINY).all()
    assert (gap[~attained & heard] > 1e-9).all()
    assert attained[heard].sum() > 1000 and (~attained & heard).sum() > 1000


def test_contraction_is_the_same_question_for_all_steps(capsys):
    """C* > 0: every step below 2 / (1 + gamma) contracts. C* <= 0: no positive step does."""
    rng, yes, no = np.random.default_rng(4), [], []
    for case in all_layers():
        gamma, m, p = case.discount, case.kernel, case.transition
        exact = exact_margin(m, p, gamma)
        for fraction in (0.01, 0.5, 0.999, rng.random()):
            t = layer_operator(m, p, gamma, fraction * 2 / (1 + gamma))
            norm = infinity_norm(t)
            assert (norm[exact > 1e-9] < 1).all()
            assert (norm[exact <= 0] >= 1 - TINY).all()
        yes.append(count_distinct(m[exact > 1e-9], p[exact > 1e-9]))
        no.append(count_distinct(m[exact <= 0], p[exact <= 0]))
        # Diagonal dominance of M (I - gamma P), row by row.
        a = m - gamma * m @ p
        diagonal = np.einsum("nss->ns", a)
        dominance = (diagonal - (np.abs(a).sum(axis=2) - np.abs(diagonal))).min(axis=1)
        np.testing.assert_allclose(dominance, 2 * exact, atol=TINY)
    enough(yes, capsys, "C* > 0")
    enough(no, capsys, "C* <= 0")


def test_a_step_of_two_over_one_plus_gamma_is_too_long():
    """Tabular TD on two states that alternate: an eigenvalue of exactly -1."""
    swap = np.array([[0.0, 1.0], [1.0, 0.0]])
    for gamma in (0.0, 0.5, 0.9):
        assert exact_margin(np.eye(2), swap, gamma) == pytest.approx((1 - gamma) / 2)
        t = layer_operator(np.eye(2), swap, gamma, 2 / (1 + gamma))
        assert spectral_radius(t) == pytest.approx(1, abs=1e-12)


def test_sharpness_that_one_hot_features_need(capsys):
    """Just above, Assumption 5.1 holds with the margin; just below it doesn't."""
    rng, total = np.random.default_rng(5), []
    for size, gamma in itertools.product((2, 3, 6), DISCOUNTS):
        mu = rng.dirichlet(np.full(size, 0.2), 1200) + 1e-12
        mu /= mu.sum(axis=1, keepdims=True)
        for margin in (0.0, 0.3 * (1 - gamma), 0.49 * (1 - gamma)):
            tau = one_hot_sharpness(mu, gamma, margin)
            assert (tau >= 0).all()
            for shift, holds in ((1e-6, True), (-1e-6, False)):
                scores = (tau + shift)[:, None, None] * np.eye(size)
                c = diagonality_margin(population_kernel(scores, mu), gamma)
                assert ((c > margin) == holds).all()
        total.append(count_distinct(mu))
    enough(total, capsys, "one-hot sharpness")


def test_half_is_enough_for_orthogonal_features(capsys):
    """Chains of every kind, features of any lengths; and contexts, with their boundary."""
    rng, distinct, contexts = np.random.default_rng(17), [], []
    for case in all_layers():
        gamma, size = case.discount, case.transition.shape[-1]
        lengths = rng.uniform(0, 8, (len(case.stationary), size))
        scores = lengths[:, :, None] * np.eye(size)
        kernel = population_kernel(scores, case.stationary)
        t = layer_operator(kernel, case.transition, gamma, case.step_size[:, None])
        bound = orthogonal_rate(kernel, gamma, case.step_size)
        assert (infinity_norm(t) <= bound + 1e-9).all()
        half = kernel_diagonality(kernel).minimum > 0.5
        assert (bound[half] < 1).all()
        distinct.append(count_distinct(kernel[half], case.transition[half]))

        counts, _ = transition_counts(case.transition, 60, rng)
        visits, arrivals = counts.sum(axis=2), counts.sum(axis=1)
        covers = (visits > 0).all(axis=1)
        returned = (visits == arrivals).all(axis=1)[covers]
        visits, counts = visits[covers], counts[covers]
        kernel = population_kernel(scores[covers], visits)
        t = layer_operator(kernel, counts / visits[:, :, None], gamma)
        bound = orthogonal_rate(kernel, gamma) + np.where(returned, 0, 2 * gamma / 60)
        assert (infinity_norm(t) <= bound + 1e-12).all()
        contexts.append(covers.sum())
    enough(distinct, capsys, "half is enough")
    enough(contexts, capsys, "half is enough, on contexts")
    # The bound is attained: two states, one of them always next.
    kernel = population_kernel(5 * np.eye(2), [0.5, 0.5])
    norm = infinity_norm(layer_operator(kernel, [[0, 1], [1, 0]], 0.0))
    assert norm == pytest.approx(orthogonal_rate(kernel, 0.0), abs=TINY)


def test_sharpness_by_hand():
    """Two states, mu = (1/4, 3/4), gamma = 1/2: kappa = 3/4, odds 3, and 3 * 3 = 9."""
    assert one_hot_sharpness([0.25, 0.75], 0.5) == pytest.approx(np.log(9), rel=1e-14)
    assert one_hot_sharpness([1, 3], 0.5) == pytest.approx(np.log(9), rel=1e-14)
    assert one_hot_sharpness([1.0], 0.5) == 0
    tiny = one_hot_sharpness([1e-300, 1.0], 0.5)
    assert tiny == pytest.approx(np.log(3) + 300 * np.log(10), rel=1e-14)


def test_sharpness_of_the_last_margin_before_the_largest():
    """Near the end of the interval :math:`\\kappa` rounds to 1, but the sharpness is finite."""
    margin = float(np.nextafter(0.35, 0))
    assert (1 + 0.3) / 2 + margin == 1
    left = (1 - 0.3) / 2 - margin
    assert one_hot_sharpness([1, 1], 0.3, margin) == pytest.approx(-np.log(left))


def test_the_margin_that_a_context_keeps(capsys):
    """Visit frequencies within a factor 1 +- eps: no less than `kept_margin`, and attained."""
    rng, distinct = np.random.default_rng(6), []
    for case in all_layers():
        gamma = case.discount
        c = diagonality_margin(case.kernel, gamma)
        holds = (c > 0) & (c <= (1 - gamma) / 2)
        c, mu, scores = c[holds], case.stationary[holds], case.scores[holds]
        worst = rng.random(len(mu)) < 0.5
        sides = np.where(
            worst[:, None],
            1 - 2 * rng.integers(2, size=mu.shape),
            rng.uniform(-1, 1, mu.shape),
        )
        error = np.where(worst, rng.random(len(mu)), 10 ** rng.uniform(-6, 0, len(mu)))
        moved = mu * (1 + error[:, None] * sides)
        possible = (moved > 0).all(axis=1)
        c, scores, moved, error = (
            c[possible],
            scores[possible],
            moved[possible],
            error[possible],
        )
        kept = kept_margin(c, gamma, error)
        found = diagonality_margin(population_kernel(scores, moved), gamma)
        assert (found >= kept - TINY).all()
        assert (kept <= c + TINY).all()
        half = c / (1 - gamma**2 + c)
        assert (kept_margin(c, gamma, half) >= c / 2 - TINY).all()
        distinct.append(count_distinct(scores, moved))
    enough(distinct, capsys, "kept margin")
    mu, error, tau = np.array([0.2, 0.8]), 0.1, 6.0
    scores = inner_product_scores(one_hot_features(2, tau))
    c = diagonality_margin(population_kernel(scores, mu), 0.5)
    moved = mu * [1 - error, 1 + error]
    found = diagonality_margin(population_kernel(scores, moved), 0.5)
    assert kept_margin(c, 0.5, error) == pytest.approx(found, abs=TINY)


# ---------------------------------------------------------------- one context


@functools.cache
def all_contexts():
    """Kernels, transition matrices, rewards and truths of contexts that cover."""
    rng = np.random.default_rng(7)
    found = []
    for size, gamma in itertools.product((2, 3, 5), (0.0, 0.5, 0.9)):
        case = layers(size, 3000, gamma, rng)
        counts, _ = transition_counts(case.transition, 150, rng)
        visits = counts.sum(axis=2)
        covers = visits.all(axis=1)
        p, counts, visits = case.transition[covers], counts[covers], visits[covers]
        kernel = population_kernel(case.scores[covers], visits)
        empirical = counts / visits[..., None]
        r = rng.standard_normal(visits.shape)
        truth = np.linalg.solve(np.eye(size) - gamma * p, r[..., None])[..., 0]
        found.append((gamma, kernel, empirical, r, truth, case.step_size[covers]))
    return found


def test_depth_and_floor_of_one_context(capsys):
    """Theorem 2 with its constants, both ways, for every depth, on contexts that contract."""
    rng, distinct = np.random.default_rng(8), []
    for gamma, *arrays in all_contexts():
        exact = exact_margin(arrays[0], arrays[1], gamma)
        on = exact > 0
        m, p, r, truth, alpha = (array[on] for array in arrays)
        q = sharp_rate(exact[on], alpha)
        size = m.shape[-1]
        noise = r + gamma * (p @ truth[..., None])[..., 0] - truth
        bound = floor_bound(m, p, gamma, noise)
        identity = np.eye(size)
        limit = np.linalg.solve(identity - gamma * p, r[..., None])[..., 0]
        floor = np.abs(limit - truth).max(axis=1)
        slack = 1e-11
        # (I - gamma P) (limit - truth) = noise, and what follows from it.
        back = ((identity - gamma * p) @ (limit - truth)[..., None])[..., 0]
        np.testing.assert_allclose(back, noise, atol=slack)
        largest = np.abs(noise).max(axis=1)
        assert (floor <= largest / (1 - gamma) + slack).all()
        assert (floor <= bound + slack).all()
        v = rng.standard_normal(truth.shape) * 3
        start, away = np.abs(v - truth).max(axis=1), np.abs(v - limit).max(axis=1)
        t = layer_operator(m, p, gamma, alpha[:, None])
        b = layer_offset(m, r, alpha[:, None])
        for depth in range(1, 41):
            v = (t @ v[..., None])[..., 0] + b
            error = np.abs(v - truth).max(axis=1)
            shrunk = q**depth
            assert (error <= shrunk * start + (1 - shrunk) * bound + slack).all()
            assert (error <= shrunk * start + (1 + shrunk) * floor + slack).all()
            assert (np.abs(error - floor) <= shrunk * away + slack).all()
        distinct.append(count_distinct(m, p))
    enough(distinct, capsys, "one context, depth and floor")


def test_depth_converges_to_certainty_equivalence(capsys):
    """Whatever the kernel: wherever rho < 1, though no state need listen to itself most."""
    distinct = []
    for gamma, *arrays in all_contexts():
        every = layer_operator(arrays[0], arrays[1], gamma, arrays[-1][:, None])
        on = spectral_radius(every) < 0.98
        t = every[on]
        m, p, r, _, alpha = (array[on] for array in arrays)
        b = layer_offset(m, r, alpha[:, None])
        limit = np.linalg.solve(np.eye(m.shape[-1]) - gamma * p, r[..., None])[..., 0]
        far = np.linalg.matrix_power(t, 2**12)
        fixed = np.linalg.solve(np.eye(m.shape[-1]) - t, b[..., None])
        assert np.abs(far).max() < 1e-20
        np.testing.assert_allclose(fixed[..., 0], limit, atol=1e-7)
        distinct.append(count_distinct(m, p))
    enough(distinct, capsys, "certainty equivalence is the limit")


@given(ergodic_chains(), st.integers(1, 60), seeds)
def test_attention_to_successors_is_the_kernel_times_the_counts(mrp, n, seed):
    """P_hat = M_hat P_tilde: added up transition by transition, covered or not."""
    rng = np.random.default_rng(seed)
    context = sample_context(mrp, n, rng)
    scores = rng.standard_normal((mrp.n_states, mrp.n_states))
    weights = context_kernel(context, scores)
    ahead = np.zeros((mrp.n_states, mrp.n_states))
    for k, successor in enumerate(context.successors):
        ahead[:, successor] += weights[:, k]
    product = attention_matrix(context, weights) @ context.empirical_transition()
    np.testing.assert_allclose(ahead, product, atol=1e-14 * n)


def test_the_floor_of_a_context_that_misses_a_state_is_not_bounded():
    kernel = empirical_kernel(Context([0, 1, 0], [1.0, 2.0], 3), np.eye(3))
    p = Context([0, 1, 0], [1.0, 2.0], 3).empirical_transition()
    assert exact_margin(kernel, p, 0.5) < 0
    assert floor_bound(kernel, p, 0.5, np.ones(3)) == np.inf
    assert spectral_radius(layer_operator(kernel, p, 0.5)) == pytest.approx(1)


def test_states_that_share_features_converge_to_the_lumped_chain():
    rng, done = np.random.default_rng(9), 0
    while done < 20:
        context = sample_context(random_boyan_chain(6, rng, 0.8), 300, rng)
        x = 2 * gaussian_features(6, 6, rng)[[0, 1, 2, 2, 4, 1]]
        scores = inner_product_scores(x)
        kernel = empirical_kernel(context, scores)
        assert np.linalg.matrix_rank(kernel) == 4
        start = rng.standard_normal(6)
        run = weighted_softmax_td(context, scores, 0.8, 30, initial=start, bound=np.inf)
        twins = run[:, [2, 1]] - run[:, [3, 5]]
        np.testing.assert_allclose(twins, np.tile(twins[0], (31, 1)), atol=1e-9)
        labels = feature_classes(x)
        lumped = lumped_context(context, labels)
        first = [0, 1, 2, 4]
        merged = empirical_kernel(lumped, scores[np.ix_(first, first)])
        t = layer_operator(merged, lumped.empirical_transition(), 0.8)
        if spectral_radius(t) > 0.98:
            continue
        done += 1
        run = weighted_softmax_td(context, scores, 0.8, 2000)
        expected = certainty_equivalence(lumped, 0.8)[labels]
        np.testing.assert_allclose(run[-1], expected, atol=1e-8)


def test_a_last_state_that_was_never_left():
    """An eigenvalue of 1 exactly, inert from 0; the limit interpolates the values seen."""
    rng, done = np.random.default_rng(10), 0
    while done < 20:
        path = np.append(rng.integers(4, size=80), 4)
        context = Context(path, rng.standard_normal(80), 5)
        scores = inner_product_scores(1.5 * gaussian_features(5, 3, rng))
        kernel, p = empirical_kernel(context, scores), context.empirical_transition()
        eigenvalues = np.linalg.eigvals(layer_operator(kernel, p, 0.6))
        assert np.abs(eigenvalues - 1).min() < 1e-9
        if spectral_radius(residual_operator(kernel, p, 0.6)) > 0.99:
            continue
        done += 1
        run = weighted_softmax_td(context, scores, 0.6, 5000, bound=np.inf)
        e = np.exp(scores)
        counts = context.counts()[:4]
        weight_sums = e[:, :4] @ counts
        interpolation = np.linalg.solve(e[:4, :4].T, e[4, :4] / weight_sums[4])
        interpolation *= weight_sums[:4]
        assert interpolation.sum() == pytest.approx(1, abs=1e-8)
        v = run[-1]
        assert v[4] == pytest.approx(interpolation @ v[:4], rel=1e-6, abs=1e-8)
        np.testing.assert_allclose(mean_td_errors(context, v, 0.6), 0, atol=1e-8)


# ---------------------------------------------------------------- numbers


def test_two_states_that_mix_slowly():
    """The spectral radius is above gamma, and equal to the exact rate."""
    stay = 0.9995
    p = np.array([[stay, 1 - stay], [1 - stay, stay]])
    kernel = population_kernel(
        inner_product_scores(one_hot_features(2, 3.06)), [0.5, 0.5]
    )
    report = contraction_report(kernel, p, 0.9)
    assert report.diagonality.minimum == pytest.approx(0.955, abs=5e-4)
    assert report.radius == pytest.approx(0.908, abs=5e-4)
    by_hand = 1 - (2 * report.diagonality.minimum - 1) * (1 - 0.9 * (2 * stay - 1))
    assert report.radius == pytest.approx(by_hand, abs=1e-12)
    assert report.norm == pytest.approx(report.radius, abs=1e-12)
    assert report.holds
    assert report.sharp_rate == pytest.approx(0.9896, abs=5e-5)
    assert report.paper_rate == pytest.approx(0.9948, abs=5e-5)


def test_report_puts_together_what_the_functions_say():
    case = all_layers()[7]
    report = contraction_report(case.kernel, case.transition, case.discount, 0.3)
    t = layer_operator(case.kernel, case.transition, case.discount, 0.3)
    c = diagonality_margin(case.kernel, case.discount)
    least, mean = kernel_diagonality(case.kernel)
    diagonal = np.einsum("nss->ns", case.kernel)
    np.testing.assert_array_equal(least, diagonal.min(axis=1))
    np.testing.assert_allclose(mean, diagonal.mean(axis=1), rtol=1e-14)
    np.testing.assert_array_equal(report.diagonality.minimum, least)
    np.testing.assert_array_equal(report.margin, c)
    np.testing.assert_array_equal(report.holds, c > 0)
    np.testing.assert_allclose(report.norm, infinity_norm(t))
    np.testing.assert_allclose(report.norm, 1 - 0.6 * report.exact_margin, atol=TINY)
    np.testing.assert_allclose(report.radius, spectral_radius(t))
    np.testing.assert_allclose(report.sharp_rate, 1 - 0.6 * c)
    np.testing.assert_allclose(report.paper_rate, 1 - 0.3 * c)
    np.testing.assert_allclose(paper_rate(c), 1 - c)


def test_the_identity_has_the_largest_margin():
    """Tabular TD: the end of the paper's interval, reached by it alone."""
    p = np.full((3, 3), 1 / 3)
    report = contraction_report(np.eye(3), p, 0.8)
    assert report.margin == pytest.approx(0.1, abs=1e-15)
    assert report.norm == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: kernel_diagonality([1, 2]), r"kernel: got shape \(2,\)"),
        (lambda: diagonality_margin([[0.5, 0.6], [0, 1]], 0.5), "kernel: got entries from 0 and row sums from 1 to 1.1"),
        (lambda: diagonality_margin([[1.5, -0.5], [0, 1]], 0.5), "kernel: got entries from -0.5"),
        (lambda: diagonality_margin(np.eye(2), 1.0), "discount: got 1.0"),
        (lambda: exact_margin(np.eye(2), np.eye(3), 0.5), "transition: got shape"),
        (lambda: exact_margin(np.eye(2), np.zeros((2, 2)), 0.5), "transition: got entries"),
        (lambda: one_hot_sharpness([0.0, 1.0], 0.5), "stationary: got .* no sharpness"),
        (lambda: one_hot_sharpness([0.5, 0.5], 0.5, 0.25), "margin: got 0.25"),
        (lambda: one_hot_sharpness([0.5, 0.5], 0.5, -0.1), "margin: got -0.1"),
        (lambda: sharp_rate(0.1, 1.1), "step_size: got 1.1"),
        (lambda: sharp_rate(0.1, 0.0), "step_size: got 0"),
        (lambda: kept_margin(0.3, 0.5, 0.1), "margin: got 0.3"),
        (lambda: kept_margin(0.1, 0.5, 1.1), "frequency_error: got 1.1"),
        (lambda: floor_bound(np.eye(2), np.eye(2), 0.5, [1.0]), "noise: got shape"),
        (lambda: contraction_report(np.eye(2), np.eye(2), 0.5, 2.0), "step_size: got 2"),
    ],
)  # fmt: skip
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_thousands_of_states_without_anything_larger():
    """A chain of 1,500 states and a context of 200,000 transitions, in S x S matrices."""
    rng = np.random.default_rng(11)
    size, n = 1500, 200_000
    context = Context(rng.integers(size, size=n + 1), np.zeros(n), size)
    tau = float(one_hot_sharpness(context.counts(), 0.9)) + 0.5
    kernel = empirical_kernel(
        context, inner_product_scores(one_hot_features(size, tau))
    )
    report = contraction_report(kernel, context.empirical_transition(), 0.9)
    assert report.holds
    assert 0.9 - 1e-9 <= report.radius <= report.norm <= report.sharp_rate < 1
    band = confidence_band(context, 0.9, 1.0, 0.1)
    assert band.shape == (size,)
