"""Each theorem on more than 10,000 instances on which its hypothesis holds, and its identities."""

from fractions import Fraction
from itertools import pairwise
from math import comb, prod

import mpmath
import numpy as np
import pytest
import sympy
from convergence_cases import (
    operators,
    prepared,
    radius,
    sampled_counts,
    stacks,
    tolerance,
)

from ictd_lib.adversary import STATEMENTS, decode, search
from ictd_lib.convergence import (
    centred_radius,
    centred_rate,
    energy,
    kernel_spectrum,
    numerical_radius,
    predecessor_ratio,
    radius_rate,
    sharp_sink,
    sink_bound,
    spread_radius,
    universal_sink,
)
from ictd_lib.divergence import (
    drift_eigenvalues,
    equal_norms,
    unequal_norms,
    violation,
)
from ictd_lib.kernel import inner_product_scores
from ictd_lib.operators import population_kernel
from ictd_lib.preconditioning import (
    log_normaliser,
    rescaled_steps,
    reversing_weights,
    sink_steps,
)

ENOUGH = 10_000


@pytest.fixture(scope="module")
def many():
    """12,600 chains of the census, 2 to 8 states."""
    return stacks(7)


@pytest.fixture(scope="module")
def mild():
    """The same with flatter features, so that conditions hold more often."""
    return stacks(8, each=2600, scales=(0.05, 1.5))


class Tally:
    """Counts the instances on which a hypothesis held, and asserts the claim on them."""

    def __init__(self, name):
        self.name, self.count, self.worst = name, 0, -np.inf

    def add(self, holds, excess):
        """The claim is that ``excess`` is at most 0 wherever ``holds``."""
        holds = np.broadcast_to(holds, np.shape(excess))
        self.count += int(holds.sum())
        if holds.any():
            self.worst = max(self.worst, float(np.max(excess[holds])))

    def done(self):
        print(f"\n{self.name}: {self.count} instances, largest excess {self.worst:.3g}")
        assert self.count >= ENOUGH, (self.name, self.count)
        assert self.worst <= 0, (self.name, self.worst)


# ------------------------------------------------------------- the numerical radius


def test_numerical_radius_theorem(mild):
    """w < 1 and alpha lambda_max < 2/(1 + w): the spectral radius is at most the rate, below 1."""
    rng, tally = np.random.default_rng(1), Tally("numerical radius")
    for chains in mild:
        M, pi = prepared(chains)
        w = numerical_radius(chains.transition, pi, chains.discount)
        spectrum = kernel_spectrum(M, pi)
        longest = 2 / ((1 + w) * spectrum.largest)
        for alpha in (np.ones(len(w)), longest * rng.uniform(0, 1, len(w))):
            rho = radius(
                operators(M, chains.transition, chains.discount, alpha[:, None])
            )
            rate = radius_rate(w, spectrum, alpha)
            tally.add((w < 1) & (alpha < longest), rho - rate - tolerance(pi, M))
    tally.done()


def test_the_numerical_radius_is_what_it_is_called(many):
    """No function of the state, complex or not, gives a larger quotient; one gives it."""
    rng = np.random.default_rng(2)
    for chains in many:
        _, pi = prepared(chains)
        P, gamma = chains.transition, chains.discount
        w = numerical_radius(P, pi, gamma)
        v = rng.normal(size=pi.shape) + 1j * rng.normal(size=pi.shape)
        norm = (pi * np.abs(v) ** 2).sum(axis=-1)
        quotient = gamma * (pi * v.conj() * (P @ v[..., None])[..., 0]).sum(axis=-1)
        assert (np.abs(quotient) <= w * norm * (1 + 1e-9)).all()
        assert (w >= gamma * (1 - 1e-9)).all()
        root = np.sqrt(pi)
        B = gamma[:, None, None] * root[:, :, None] * P / root[:, None]
        values, vectors = np.linalg.eigh((B + B.mT) / 2)
        top = vectors[..., -1]
        reached = (top * (B @ top[..., None])[..., 0]).sum(axis=-1)
        np.testing.assert_allclose(reached, w, rtol=1e-9)
        np.testing.assert_allclose(values[:, -1], w, rtol=1e-9)


def test_easy_bounds_of_the_numerical_radius(many):
    """w <= gamma (R + 1/R)/2 and w <= gamma sqrt(kappa): on every chain."""
    tallies = Tally("spread"), Tally("predecessors"), Tally("kappa <= R^2")
    for chains in many:
        g, mu, gamma = chains.scores, chains.stationary, chains.discount
        _, pi = prepared(chains)
        w = numerical_radius(chains.transition, pi, gamma)
        kappa = predecessor_ratio(chains.transition, pi)
        lam = log_normaliser(g, mu)
        squared = np.exp(lam.max(axis=-1) - lam.min(axis=-1))
        tallies[0].add(True, w / spread_radius(g, mu, gamma) - 1 - 1e-9)
        tallies[1].add(True, w / (gamma * np.sqrt(kappa)) - 1 - 1e-9)
        tallies[2].add(True, kappa / squared - 1 - 1e-9)
    for tally in tallies:
        tally.done()


def test_the_spread_bound_is_approached_by_long_cycles():
    """A cycle whose normaliser drops by R^2 at once and climbs back in small steps."""
    found = []
    for size in (20, 200, 800):
        drop = 4.0
        lam = drop ** (np.arange(size) / (size - 1))  # from 1 up to 4, and over
        P = np.roll(np.eye(size), 1, axis=1)
        found.append(numerical_radius(P, lam / lam.sum(), 0.9))
    limit = 0.9 * (2 + 0.5) / 2
    assert found == sorted(found)
    assert found[-1] < limit and found[-1] == pytest.approx(limit, rel=2e-3)


# ------------------------------------------------------------- constants factored out


def test_centred_theorem(many):
    rng, tally, beyond = np.random.default_rng(3), Tally("centred"), 0
    for chains in many:
        M, pi = prepared(chains)
        P, gamma = chains.transition, chains.discount
        spectrum = kernel_spectrum(M, pi)
        w = numerical_radius(P, pi, gamma)
        for alpha in (np.ones(len(w)), rng.uniform(0.05, 1.9, len(w))):
            pace = np.clip(alpha * spectrum.second, 1e-12, None)
            omega = centred_radius(P, pi, gamma, pace)
            rho = radius(operators(M, P, gamma, alpha[:, None]))
            rate = centred_rate(omega, spectrum, gamma, alpha)
            holds = omega < 1
            tally.add(holds, rho - rate - tolerance(pi, M))
            beyond += int((holds & (w >= 1)).sum())
    tally.done()
    print(f"of them {beyond} with w >= 1")
    assert beyond > 2000


def test_the_centred_radius_bounds_the_range_from_outside_and_closely(many):
    rng = np.random.default_rng(4)
    for chains in many[1:4]:
        _, pi = prepared(chains)
        P, gamma, a = chains.transition, chains.discount, 0.8
        omega = centred_radius(P, pi, gamma, a)
        plain = pi.min(axis=-1) > 1e-6  # else centring v is lost in rounding
        pi, P, gamma, omega = pi[plain], P[plain], gamma[plain], omega[plain]
        v = rng.normal(size=(20, *pi.shape)) + 1j * rng.normal(size=(20, *pi.shape))
        v -= (pi * v).sum(axis=-1, keepdims=True)
        norm = (pi * np.abs(v) ** 2).sum(axis=-1)
        c = gamma * (pi * v.conj() * (P @ v[..., None])[..., 0]).sum(axis=-1) / norm
        assert (np.abs(1 - a + a * c) <= omega * (1 + 1e-9)).all()
        # From inside: the same range in a thousand directions.
        root = np.sqrt(pi)
        B = gamma[:, None, None] * root[:, :, None] * P / root[:, None]
        C = B - root[:, :, None] * (root[:, None] @ B)
        # 0 on the constants, which is inside whatever else there is.
        A = (1 - a) * (np.eye(pi.shape[-1]) - root[:, :, None] * root[:, None]) + a * C
        inner = np.zeros(len(pi))
        for theta in np.linspace(0, np.pi, 120):
            H = np.exp(-1j * theta) * A
            top = np.linalg.eigvalsh((H + H.conj().mT) / 2)[:, -1]
            inner = np.maximum(inner, top)
        assert (inner <= omega * (1 + 1e-9)).all()
        assert (omega <= inner * 1.006).all()


def test_two_states_always_converge_and_their_spectrum_is_known(many):
    chains = many[0]
    M, pi = prepared(chains)
    P, gamma = chains.transition, chains.discount
    second = np.trace(M, axis1=-2, axis2=-1) - 1
    other = 1 - second * (1 - gamma * (np.trace(P, axis1=-2, axis2=-1) - 1))
    expected = np.sort(np.stack([gamma, other], axis=-1), axis=-1)
    found = np.sort(np.linalg.eigvals(operators(M, P, gamma)).real, axis=-1)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    assert (np.abs(expected) < 1).all()
    omega = centred_radius(P, pi, gamma, np.clip(second, 1e-12, None))
    np.testing.assert_allclose(omega, np.abs(other), atol=1e-7)


def test_a_discount_is_a_restart_for_functions_of_mean_0(many):
    """T differs from that of P' = gamma P + (1 - gamma) 1 mu^T, undiscounted, on constants only."""
    for chains in many:
        M, mu = prepared(chains)[0], chains.stationary
        gamma = chains.discount[:, None, None]
        restart = gamma * chains.transition + (1 - gamma) * mu[:, None]
        T = operators(M, chains.transition, chains.discount)
        without = operators(M, restart, np.ones(len(mu)))
        np.testing.assert_allclose(
            T,
            without - (1 - gamma) * np.ones_like(mu)[:, :, None] * mu[:, None],
            atol=1e-9,
        )


# ------------------------------------------------------------- sinks and steps


def test_sink_theorem(many):
    """Beyond b_0, at the universal size and beyond b_*: rho < 1, at any larger sink as well."""
    names = ("sink", "universal sink", "sharp sink", "ten times the sink")
    tallies = [Tally(name) for name in names]
    order, mended = Tally("b_* <= b_0 <= universal"), 0
    for chains in many:
        g, mu, P, gamma = (
            chains.scores,
            chains.stationary,
            chains.transition,
            chains.discount,
        )
        M = population_kernel(g, mu)
        easy, sharp = sink_bound(g, mu, gamma), sharp_sink(g, mu, P, gamma)
        all_chains = universal_sink(g.max(axis=(-1, -2)), gamma)
        order.add(True, sharp - easy * (1 + 1e-6))
        order.add(True, easy - all_chains * (1 + 1e-9))
        mended += int((radius(operators(M, P, gamma)) > 1 + 1e-9).sum())
        sizes = 1.001 * easy, all_chains, 1.001 * sharp, 10 * easy
        for tally, b in zip(tallies, sizes, strict=True):
            a = sink_steps(g, mu, b)
            pi = reversing_weights(g, mu, a)
            rho = radius(operators(M, P, gamma, a))
            w = numerical_radius(P, pi, gamma)
            assert (w < 1).all()
            rate = radius_rate(w, kernel_spectrum(a[..., None] * M, pi))
            tally.add(True, rho - rate - tolerance(pi, M))
    for tally in (*tallies, order):
        tally.done()
    print(f"{mended} of them diverged without")
    assert mended > 100


def test_the_sharp_sink_is_a_threshold_both_ways(many):
    """w < 1 just beyond b_*, w >= 1 just below: an equivalence."""
    count = 0
    for chains in many:
        g, mu, P, gamma = (
            chains.scores,
            chains.stationary,
            chains.transition,
            chains.discount,
        )
        b = sharp_sink(g, mu, P, gamma)
        plain = numerical_radius(P, reversing_weights(g, mu), gamma)
        needed = b > 1e-9 * np.exp(log_normaliser(g, mu).max(axis=-1))
        assert (plain[needed] >= 1 - 1e-9).all()
        assert (plain[b == 0] <= 1 + 1e-9).all()
        for factor, sign in ((1.001, 1), (0.999, -1)):
            pi = reversing_weights(g, mu, sink_steps(g, mu, factor * b))
            w = numerical_radius(P, pi, gamma)
            assert (sign * (1 - w[needed]) > -1e-12).all()
        count += int(needed.sum())
    print(f"\n{count} chains that need a sink for w < 1")
    assert count > 4000


def test_the_spread_condition_is_an_equivalence_in_r():
    gamma = np.linspace(0.05, 0.99, 50)
    edge = (1 + np.sqrt(1 - gamma**2)) / gamma
    for factor, below in ((0.999, True), (1.001, False)):
        r = edge * factor
        g = np.zeros((50, 2, 2))
        # Two states with normalisers in the ratio R^2: one score is the difference.
        g[:, 0, 0] = np.log(2 * r**2 - 1)
        found = spread_radius(g, np.full((50, 2), 0.5), gamma)
        np.testing.assert_allclose(found, gamma * (r + 1 / r) / 2, rtol=1e-12)
        assert ((found < 1) == below).all()


def test_a_sink_moves_the_spread_to_its_edge(many):
    for chains in many:
        g, mu, gamma = chains.scores, chains.stationary, chains.discount
        b = sink_bound(g, mu, gamma)
        at = spread_radius(g, mu, gamma, sink=b)
        needed = b > 0
        np.testing.assert_allclose(at[needed], 1, rtol=1e-7)
        assert (at[~needed] <= 1 + 1e-12).all()


def test_rescaled_steps_always_converge(many):
    """Theorem A, for alpha up to 2/(1 + gamma), at its rate."""
    rng, tally = np.random.default_rng(5), Tally("rescaled")
    for chains in many:
        g, mu, P, gamma = (
            chains.scores,
            chains.stationary,
            chains.transition,
            chains.discount,
        )
        a, M = rescaled_steps(g, mu), population_kernel(g, mu)
        pi = reversing_weights(g, mu, a)
        np.testing.assert_allclose(pi, mu, rtol=1e-8)
        np.testing.assert_allclose(numerical_radius(P, pi, gamma), gamma, rtol=1e-9)
        spectrum = kernel_spectrum(a[..., None] * M, pi)
        assert (spectrum.largest <= 1 + 1e-12).all()
        alpha = rng.uniform(0, 1, len(mu)) * 2 / (1 + gamma)
        rho = radius(operators(M, P, gamma, alpha[:, None] * a))
        tally.add(True, rho - radius_rate(gamma, spectrum, alpha) - tolerance(pi, M))
    tally.done()


def test_what_a_sink_costs():
    """Normalisers all equal: a sink only divides the step, and the gap, by 1 + b/Lambda."""
    rng = np.random.default_rng(6)
    x = np.eye(4) * 1.2
    mu = np.full(4, 0.25)
    P = 0.5 * np.roll(np.eye(4), 1, axis=1) + 0.5 * rng.permutation(np.eye(4))
    g = x @ x.T
    M, lam = population_kernel(g, mu), np.exp(log_normaliser(g, mu))
    np.testing.assert_allclose(lam, lam[0])
    plain = drift_eigenvalues(M, P, 0.9)
    b = universal_sink(g.max(), 0.9)
    slow = drift_eigenvalues(sink_steps(g, mu, b)[:, None] * M, P, 0.9)
    np.testing.assert_allclose(
        np.sort_complex(slow), np.sort_complex(plain) / (1 + b / lam[0]), atol=1e-12
    )


# ------------------------------------------------------------- features of special shape


@pytest.mark.parametrize("common", [0.0, 1.5, -0.4])
def test_orthogonal_features_always_converge(common):
    """Theorem C, for equal scores of different states too; with the spectrum that it names."""
    rng, tally = np.random.default_rng(7), Tally(f"orthogonal, off-diagonal {common}")
    for chains in stacks(9, each=1500):
        P, mu, gamma = chains.transition, chains.stationary, chains.discount
        size = mu.shape[-1]
        squares = np.exp(rng.uniform(-4, 3, mu.shape))
        g = common + squares[..., None] * np.eye(size)
        alpha = rng.uniform(0, 1, len(mu))
        h = np.expm1(squares) * mu
        a = h / (1 + h)
        M = population_kernel(g, mu)
        np.testing.assert_allclose(
            M,
            a[..., None] * np.eye(size) + (1 - a)[..., None] * mu[:, None],
            atol=1e-13,
        )
        restart = gamma[:, None, None] * P + (1 - gamma)[:, None, None] * mu[:, None]
        Q = np.eye(size) - (alpha[:, None] * a)[..., None] * (np.eye(size) - restart)
        T = operators(M, P, gamma, alpha[:, None])
        ones_mu = np.ones((size, 1)) * mu[:, None]
        np.testing.assert_allclose(
            T, Q - (alpha * (1 - gamma))[:, None, None] * ones_mu, atol=1e-12
        )
        rate = 1 - alpha * (1 - gamma) * a.min(axis=-1)
        tally.add(True, radius(T) - rate - 1e-9)
    tally.done()


def test_three_states_with_equal_norms_converge():
    rng, tally = np.random.default_rng(8), Tally("three states, equal norms")
    (chains,) = [c for c in stacks(10, each=12_000) if c.stationary.shape[-1] == 3]
    P, mu, gamma = chains.transition, chains.stationary, chains.discount
    x = rng.normal(size=(len(mu), 3, 3))
    x *= (
        np.exp(rng.uniform(-1, 2, (len(mu), 1, 1)))
        / np.linalg.norm(x, axis=-1)[..., None]
    )
    M = population_kernel(x @ x.mT, mu)
    nu = drift_eigenvalues(M, P, gamma)
    large = np.abs(nu) > 1e-9
    tally.add(True, np.where(large, np.abs(1 - nu) - 1, -1.0).max(axis=-1))
    tally.done()


def test_equal_norms_keep_the_trace_positive(many):
    """tr(MP) <= tr(M), for any number of states; so tr(M(I - gamma P)) >= (1 - gamma) tr(M)."""
    rng, tally = np.random.default_rng(9), Tally("trace")
    for chains in many:
        x = chains.features + 1e-3 * rng.normal(size=chains.features.shape)
        x *= (
            np.exp(rng.uniform(-1, 2, (len(x), 1, 1)))
            / np.linalg.norm(x, axis=-1)[..., None]
        )
        M = population_kernel(x @ x.mT, chains.stationary)
        traces = np.einsum("nij,nji->n", M, chains.transition)
        tally.add(True, traces - np.trace(M, axis1=-2, axis2=-1) - 1e-12)
    tally.done()


def three_state_polynomial():
    """R - kappa det(K) (m1 + m2 + m3) of the proof, as {monomial in a..l3: {monomial in p, q, r: int}}."""
    a, b, c, f, l1, l2, l3, p, q, r = sympy.symbols("a b c f l1 l2 l3 p q r")
    m1, m2, m3 = a + b + f + l1, a + c + f + l2, b + c + f + l3
    n1, n2, n3 = m1 + p * m2 + q * m3, p * m1 + m2 + r * m3, q * m1 + r * m2 + m3
    flows = {
        (1, 2): a + f,
        (2, 1): a,
        (2, 3): c + f,
        (3, 2): c,
        (3, 1): b + f,
        (1, 3): b,
    }
    alike = {frozenset((1, 2)): p, frozenset((1, 3)): q, frozenset((2, 3)): r}
    others = {1: n2 * n3, 2: n1 * n3, 3: n1 * n2}
    right = sum(
        (1 - alike[frozenset(edge)]) * flow * others[edge[1]]
        for edge, flow in flows.items()
    )
    kappa = a * b + a * c + b * c + f * (a + b + c) + f**2
    det = 1 - p**2 - q**2 - r**2 + 2 * p * q * r
    whole = sympy.Poly(
        sympy.expand(right - kappa * det * (m1 + m2 + m3)), a, b, c, f, l1, l2, l3
    )
    return {
        monomial: {m: int(k) for m, k in sympy.Poly(term, p, q, r).terms()}
        for monomial, term in whole.terms()
    }


def bernstein(term):
    """Coefficients of a polynomial in Bernstein's basis of the unit cube, exactly.

    The polynomial is a mean of them, so it is at least 0 on the cube if they are.
    """
    degree = [max(m[i] for m in term) for i in range(3)]
    for index in np.ndindex(*(d + 1 for d in degree)):
        yield sum(
            Fraction(k)
            * prod(
                Fraction(comb(j, e), comb(d, e))
                for j, e, d in zip(index, m, degree, strict=True)
            )
            for m, k in term.items()
            if all(e <= j for e, j in zip(m, index, strict=True))
        )


def test_the_proof_for_three_states():
    """All 74 coefficients are at least 0 on the unit cube: so are their Bernstein coefficients."""
    polynomial = three_state_polynomial()
    assert len(polynomial) == 74
    assert min(c for term in polynomial.values() for c in bernstein(term)) >= 0
    # a^3 has the coefficient 2 (1 - p^2)(q + r), more than 0: the inequality is strict.
    assert polynomial[3, 0, 0, 0, 0, 0, 0] == {
        (0, 1, 0): 2,
        (0, 0, 1): 2,
        (2, 1, 0): -2,
        (2, 0, 1): -2,
    }


# ------------------------------------------------------------- energy, eigenvalues


def test_energy_identity_and_monotone_contraction():
    rng, tally = np.random.default_rng(10), Tally("monotone energy")
    for chains in stacks(20, each=3000, scales=(0.1, 0.8), discounts=(0.5, 0.9)):
        M, pi = prepared(chains)
        P, gamma = chains.transition, chains.discount[:, None]
        kappa = predecessor_ratio(P, pi)
        good = kernel_spectrum(M, pi).smallest > 1e-6
        M, pi, P, gamma = M[good], pi[good], P[good], gamma[good]
        e = rng.normal(size=pi.shape)

        def after(A, v):
            return (A @ v[..., None])[..., 0]

        def inner(u, v, pi=pi):
            return (pi * u * v).sum(axis=-1)

        f = e - gamma * after(P, e)
        Te = e - after(M, f)
        change = energy(Te, M, pi) - energy(e, M, pi)
        Pe = after(P, e)
        expected = -(inner(e, e) - gamma[:, 0] ** 2 * inner(Pe, Pe)) - inner(
            f, f - after(M, f)
        )
        np.testing.assert_allclose(
            change, expected, rtol=1e-6, atol=1e-9 * energy(e, M, pi).max()
        )
        holds = gamma[:, 0] * np.sqrt(kappa[good]) < 1
        tally.add(holds, change - 1e-9)
    tally.done()


def test_eigenvalues_are_at_most_1_plus_gamma_and_real_positive_ones_never_hurt(many):
    tally = Tally("|nu| <= 1 + gamma")
    for chains in many:
        M, _ = prepared(chains)
        nu = drift_eigenvalues(M, chains.transition, chains.discount)
        bound = 1 + chains.discount[:, None]
        tally.add(True, (np.abs(nu) - bound).max(axis=-1) - 1e-9)
    tally.done()


def test_a_violation_is_divergence_and_nothing_else(many):
    rng = np.random.default_rng(11)
    for chains in many:
        M, _ = prepared(chains)
        nu = drift_eigenvalues(M, chains.transition, chains.discount)
        alpha = rng.uniform(0.1, 2.5, len(nu))
        rho = radius(operators(M, chains.transition, chains.discount, alpha[:, None]))
        value = violation(nu, alpha)
        clear = np.abs(rho - 1) > 1e-7
        assert ((value > 0) == (rho > 1))[clear].all()


# ------------------------------------------------------------- chains that diverge


def precise_eigenvalues(process, features, digits=60):
    with mpmath.workdps(digits):
        size = process.n_states
        P = mpmath.matrix(process.transition.tolist())
        for s in range(size):  # rows that sum to 1 in these digits too
            total = mpmath.fsum(P[s, :])
            for u in range(size):
                P[s, u] /= total
        A = P.T - mpmath.eye(size)
        for u in range(size):
            A[size - 1, u] = 1
        mu = mpmath.lu_solve(A, mpmath.matrix([0] * (size - 1) + [1]))
        x = mpmath.matrix(np.asarray(features).tolist())
        g = x * x.T
        M = mpmath.matrix(size, size)
        for s in range(size):
            row = [mu[u] * mpmath.exp(g[s, u]) for u in range(size)]
            for u in range(size):
                M[s, u] = row[u] / mpmath.fsum(row)
        gamma = mpmath.mpf(process.discount)
        found = mpmath.eig(M * (mpmath.eye(size) - gamma * P), left=False, right=False)
        return np.array([complex(value) for value in found])


@pytest.mark.parametrize(
    ("example", "rho", "worst"),
    [
        (unequal_norms, 1.1625, -0.1625),
        (equal_norms, 1.00276, -0.00274 + 0.00664j),
    ],
)
def test_divergent_chains_in_60_digits(example, rho, worst):
    process, x = example()
    nu = precise_eigenvalues(process, x)
    assert np.abs(1 - nu).max() == pytest.approx(rho, abs=5e-5 if rho > 1.1 else 5e-6)
    lowest = nu[np.argmin(nu.real)]
    assert abs(lowest.real - worst.real) < 6e-5
    assert abs(abs(lowest.imag) - abs(complex(worst).imag)) < 6e-6
    assert nu.real.min() < 0  # so no step size helps
    kernel = population_kernel(inner_product_scores(x), process.stationary())
    plain = drift_eigenvalues(kernel, process.transition, process.discount)
    assert np.abs(1 - plain).max() == pytest.approx(np.abs(1 - nu).max(), rel=1e-6)
    for step in (1e-3, 0.1, 1.0):
        assert violation(plain, step) > 0
    norms = np.linalg.norm(x, axis=1)
    assert (np.ptp(norms) < 1e-12) == (example is equal_norms)


# ------------------------------------------------------------- on contexts


def test_theorems_on_contexts():
    """Counts for mu, empirical transitions for P: the same, with the boundary factor."""
    rng = np.random.default_rng(12)
    names = ("norm", "spread", "numerical", "centred", "sink", "sharp", "orthogonal")
    tallies = {name: Tally(f"contexts, {name}") for name in names}
    for seed in (13, 14):
        for chains in stacks(seed, each=1300, scales=(0.05, 1.5)):
            counts, P, first, last = sampled_counts(
                chains, 60 if seed == 13 else 200, rng
            )
            covered = (counts > 0).all(axis=-1)
            counts, P, first, last = (a[covered] for a in (counts, P, first, last))
            g, gamma = chains.scores[covered], chains.discount[covered]
            rows = np.arange(len(g))
            ends = counts[rows, last]
            excess = np.where(first == last, 0.0, 1 / ends)
            mu = counts / counts.sum(axis=-1, keepdims=True)
            M, pi = population_kernel(g, counts), reversing_weights(g, counts)
            flow = (mu[:, None] @ P)[:, 0] / mu
            tallies["norm"].add(True, flow.max(axis=-1) - (1 + excess) - 1e-12)
            w = numerical_radius(P, pi, gamma)
            bound = spread_radius(g, counts, gamma, excess=excess)
            tallies["spread"].add(True, w - bound * (1 + 1e-12))
            spectrum = kernel_spectrum(M, pi)
            rho = radius(operators(M, P, gamma))
            slack = tolerance(pi, M)
            rate = radius_rate(w, spectrum)
            tallies["numerical"].add(w < 1, rho - rate - slack)
            pace = np.clip(spectrum.second, 1e-12, None)
            omega = centred_radius(P, pi, gamma, pace)
            rate = centred_rate(omega, spectrum, gamma)
            tallies["centred"].add(omega < 1, rho - rate - slack)
            for name, size in (
                ("sink", sink_bound(g, counts, gamma, excess)),
                ("sharp", sharp_sink(g, counts, P, gamma)),
            ):
                exists = np.isfinite(size)
                b = np.where(exists, 1.001 * size, 0.0)
                rho = radius(operators(M, P, gamma, sink_steps(g, counts, b)))
                tallies[name].add(exists, rho - 1 - slack)
            one_hot = np.exp(rng.uniform(-2, 2, mu.shape))[..., None] * np.eye(
                mu.shape[1]
            )
            T = operators(population_kernel(one_hot, counts), P, gamma)
            h = np.expm1(np.diagonal(one_hot, axis1=-2, axis2=-1)) * mu
            rate = 1 - (1 - gamma) * (h / (1 + h)).min(axis=-1)
            holds = excess * gamma <= 1 - gamma
            tallies["orthogonal"].add(holds, radius(T) - rate - 1e-9)
    for tally in tallies.values():
        tally.done()


# ------------------------------------------------------------- an optimiser tries to break them


@pytest.mark.parametrize("statement", [*STATEMENTS])
def test_adversary(statement):
    """A short search: nothing where there is a theorem, something where there is none."""
    n_states = {"equal norms": 3}.get(statement, 4)
    reached = search(
        statement, n_states, np.random.default_rng(1), generations=6, polish=120
    )
    print(f"\n{statement}: {reached.value:.3g} after {reached.evaluations} chains")
    if statement == "no condition":
        assert reached.value > 0.5
    else:
        assert reached.value <= 1e-9


def test_the_adversary_checks_its_arguments():
    with pytest.raises(ValueError, match="statement: got 'none'"):
        search("none", 3, np.random.default_rng(0))


def test_the_adversary_knows_three_shapes():
    with pytest.raises(ValueError, match="shape: got 'cube'"):
        decode(np.zeros((1, 8)), 2, 0.9, "cube")


@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.99])
@pytest.mark.parametrize("low", [0.0, 800.0, 999.0, 1e300])
def test_scores_beyond_the_exponential(low, gamma):
    """A sink is 0, a float or infinite, but never NaN; without a discount none is needed."""
    g, mu, P = np.diag([1000.0, low]), [0.375, 0.625], [[0.5, 0.5], [0.3, 0.7]]
    bounds = [
        sharp_sink(g, mu, P, gamma),
        sink_bound(g, mu, gamma),
        universal_sink(g.max(), gamma),
    ]
    assert not np.isnan(bounds).any()
    assert all(a <= b for a, b in pairwise(bounds))
    spread = spread_radius(g, mu, gamma)
    if gamma == 0:
        assert bounds == [0, 0, 0] and spread == 0
    else:
        assert bounds[-1] == np.inf and spread > gamma


def test_a_sink_is_a_float_as_long_as_it_can_be():
    """Adding a constant to all scores multiplies every sink by its exponential."""
    g, mu, P = np.diag([6.0, 0.0]), [0.05, 0.95], [[0.05, 0.95], [0.05, 0.95]]
    for constant in (10.0, 300.0, 690.0):
        for sink in (
            lambda g: sink_bound(g, mu, 0.9),
            lambda g: sharp_sink(g, mu, P, 0.999),
            lambda g: universal_sink(g.max(), 0.9),
        ):
            assert sink(g) > 0
            expected = np.log(sink(g)) + constant
            assert np.log(sink(g + constant)) == pytest.approx(expected, rel=1e-12)


def test_one_state_and_arguments():
    one = np.ones((1, 1))
    assert numerical_radius(one, [1.0], 0.9) == pytest.approx(0.9)
    spectrum = kernel_spectrum(one, [1.0])
    assert spectrum.smallest == spectrum.second == spectrum.largest == 1
    assert np.isinf(numerical_radius(np.eye(2), [1.0, 0.0], 0.9))
    assert np.isinf(predecessor_ratio(np.eye(2), [1.0, 0.0]))
    assert np.isinf(centred_radius(np.eye(2), [1.0, 0.0], 0.9))
    assert np.isinf(predecessor_ratio([[0.5, 0.5], [0.5, 0.5]], [1.0, 1e-310]))
    assert numerical_radius(np.ones((0, 2, 2)), np.ones((0, 2)), []).shape == (0,)
    assert sink_bound(np.zeros((2, 2)), [1, 1], 0.0) == 0
    assert np.isinf(sink_bound(np.zeros((2, 2)), [1, 1], 0.9, excess=1.0))
    for call, message in (
        (lambda: numerical_radius([[-1.0]], [1], 0.9), "transition: got the entry -1"),
        (lambda: numerical_radius(one, [-1.0], 0.9), "weights: got"),
        (lambda: numerical_radius(one, [1.0], 1.0), "discount: got 1"),
        (lambda: numerical_radius(one, [np.inf], 0.9), "weights: got"),
        (lambda: sharp_sink(one, [0.0], one, 0.9), "stationary: "),
        (lambda: spread_radius(one, [1.0], 0.9, sink=-1), "sink: got -1"),
        (lambda: spread_radius(one, [1.0], 0.9, excess=-2), "excess: got -2"),
        (lambda: energy([1.0, 2.0], one, [1.0]), "errors: got shape"),
        (lambda: energy([1.0], one, [1.0, 2.0]), "weights: got"),
        (lambda: energy([1.0], 0 * one, [1.0]), "kernel: got a singular matrix"),
        (lambda: drift_eigenvalues(one, np.eye(2), 0.9), "transition: got shape"),
        (
            lambda: kernel_spectrum([[0.9, 0.1], [0.5, 0.5]], [1, 1]),
            r"kernel, weights: got flows .* differ by up to 0\.44 of the largest",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            call()
