"""The census: reproducible from its seed, its columns what they are called."""

import numpy as np
import pytest

from ictd_lib import (
    MarkovRewardProcess,
    inner_product_scores,
    random_boyan_chain,
    stationary_distribution,
)
from ictd_lib.census import CLOSE, FAMILIES, census, random_chains, stationary_stack
from ictd_lib.certificates import population_certificate
from ictd_lib.convergence import numerical_radius
from ictd_lib.operators import layer_operator, population_kernel, spectral_radius
from ictd_lib.preconditioning import reversing_weights, sink_steps


def test_the_same_seed_is_the_same_census():
    first, again = (census(30, np.random.default_rng(3)) for _ in range(2))
    other = census(30, np.random.default_rng(4))
    for name in first.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
    assert (first.radius != other.radius).any()
    assert first.count == 210
    assert np.bincount(first.states)[2:].tolist() == [30] * 7
    assert np.bincount(first.family).tolist() == [70] * 3


def test_columns_one_chain_at_a_time():
    chains = random_chains(24, 5, np.random.default_rng(1))
    row = census(24, np.random.default_rng(1), states=[5])
    for i in range(24):
        P, mu, gamma = chains.transition[i], chains.stationary[i], chains.discount[i]
        g = inner_product_scores(chains.features[i])
        np.testing.assert_allclose(mu, stationary_distribution(P), rtol=1e-10)
        M = population_kernel(g, mu)
        T = layer_operator(M, P, gamma)
        assert row.radius[i] == pytest.approx(spectral_radius(T), rel=1e-9)
        assert row.diagonal[i] == pytest.approx(2 * np.diag(M).min() - 1 - gamma)
        w = numerical_radius(P, reversing_weights(g, mu), gamma)
        assert row.numerical[i] == pytest.approx(w, rel=1e-9)
        steps = sink_steps(g, mu, 1.01 * row.bound[i])
        rho = spectral_radius(layer_operator(M, P, gamma, steps))
        assert row.with_sink[i] == pytest.approx(rho, rel=1e-9)
        proof = population_certificate(
            MarkovRewardProcess(P, np.zeros(5), float(gamma)), g
        )
        held = {c.name for c in proof.conditions if c.holds}
        verdict = {name: bool(v[i]) for name, v in row.verdicts().items()}
        assert verdict["5.1"] == ("diagonal (Assumption 5.1)" in held)
        assert verdict["spread"] == ("spread of the normaliser" in held)
        assert verdict["predecessors"] == ("predecessors" in held)
        assert verdict["numerical radius"] == ("numerical radius" in held)
        assert verdict["centred"] == ("numerical radius without the constants" in held)


def test_no_theorem_is_contradicted_and_some_chains_diverge():
    found = census(1500, np.random.default_rng(7))
    verdicts = found.verdicts()
    for name in ("5.1", "spread", "predecessors", "numerical radius", "centred"):
        assert not (verdicts[name] & verdicts["diverges"]).any(), name
    assert not verdicts["diverges with a sink"].any()
    assert not (verdicts["spread"] & ~verdicts["numerical radius"]).any()
    # w < 1 implies omega < 1; the bound of omega is up to half a per cent too large.
    assert not ((found.numerical < 0.99) & ~verdicts["centred"]).any()
    assert (verdicts["diverges at every step size"] <= verdicts["diverges"]).all()
    shares = found.shares()
    assert 0.01 < shares["diverges"] < 0.04
    assert shares["5.1"] < 0.1
    assert 0.5 < shares["numerical radius"] < shares["centred"]
    assert shares["any condition"] == pytest.approx(0.76, abs=0.03)
    assert not verdicts["diverges"][found.states == 2].any()
    assert (found.sharp <= found.bound * (1 + 1e-6)).all()
    assert CLOSE < 1e-6


def test_families_and_features():
    chains = random_chains(300, 4, np.random.default_rng(2), dimensions=3)
    P = chains.transition
    np.testing.assert_allclose(P.sum(axis=-1), 1, rtol=1e-12)
    assert (P >= 0).all()
    boyan = P[chains.family == FAMILIES.index("boyan")]
    pattern = random_boyan_chain(4, np.random.default_rng(0), 0.9).transition > 0
    assert ((boyan > 0) == pattern).all()
    cyclic = P[chains.family == FAMILIES.index("cyclic")]
    assert (cyclic[:, range(4), [1, 2, 3, 0]] >= 0.7).all()
    dense = P[chains.family == FAMILIES.index("dirichlet")]
    assert (dense >= 0.05 / 4 * (1 - 1e-9)).all()
    used = (chains.features != 0).any(axis=1).sum(axis=-1)
    assert np.unique(used).tolist() == [1, 2, 3]
    assert set(chains.discount) == {0.5, 0.9, 0.99}


def test_stationary_distributions_of_a_stack():
    P = random_chains(60, 6, np.random.default_rng(5)).transition
    expected = [stationary_distribution(p) for p in P]
    np.testing.assert_allclose(stationary_stack(P), expected, rtol=1e-10)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"count": 0}, "count: got 0"),
        ({"n_states": 1}, "n_states: got 1"),
        ({"dimensions": 0}, "dimensions: got 0"),
        ({"scales": (0, 1)}, r"scales: got \(0, 1\)"),
        ({"discounts": [1.0]}, "discount: got 1"),
        ({"discounts": []}, r"discounts: got \[\]"),
    ],
)
def test_arguments_are_checked(arguments, message):
    given = {"count": 3, "n_states": 3, "rng": np.random.default_rng(0)} | arguments
    with pytest.raises(ValueError, match=message):
        random_chains(**given)


def test_a_census_of_no_size():
    with pytest.raises(ValueError, match=r"states: got \(\)"):
        census(3, np.random.default_rng(0), states=())
