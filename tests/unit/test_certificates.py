"""A certificate from a context alone: what it says, and that it is never wrong."""

import numpy as np
import pytest

from ictd_lib import (
    Context,
    MarkovRewardProcess,
    gaussian_features,
    inner_product_scores,
    one_hot_features,
    random_boyan_chain,
    random_ergodic_chain,
    sample_context,
    unit_features,
    weighted_softmax_td,
)
from ictd_lib.certificates import certificate, population_certificate
from ictd_lib.divergence import equal_norms, unequal_norms


def contexts(count, seed):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        size = int(rng.integers(2, 7))
        gamma = float(rng.choice([0.5, 0.9, 0.99]))
        make = random_boyan_chain if rng.random() < 0.5 else random_ergodic_chain
        context = sample_context(make(size, rng, gamma), int(rng.integers(5, 200)), rng)
        x = gaussian_features(size, int(rng.integers(1, 5)), rng)
        scores = inner_product_scores(x, float(np.exp(rng.uniform(-4, 2))))
        yield context, scores, gamma, rng


def test_a_certificate_is_never_wrong():
    """If a condition holds, the radius is at most its rate; and the iterates do converge."""
    held = arrived = 0
    for context, scores, gamma, rng in contexts(400, 1):
        alpha = float(rng.uniform(0.1, 1.6))
        proof = certificate(context, scores, gamma, step_size=alpha)
        if not proof.holds:
            continue
        held += 1
        assert proof.radius <= 1 + 1e-9
        if proof.rate is not None:
            assert proof.radius <= proof.rate + 1e-9
            assert proof.rate <= 1
        seen = context.counts() > 0
        v = weighted_softmax_td(
            context, scores, gamma, 400, step_size=alpha, bound=np.inf
        )[:, seen]
        P = context.empirical_transition()[np.ix_(seen, seen)]
        limit = np.linalg.solve(
            np.eye(len(P)) - gamma * P, context.mean_rewards()[seen]
        )
        if proof.radius < 0.95:
            arrived += 1
            np.testing.assert_allclose(v[-1], limit, atol=1e-5 * np.abs(limit).max())
    assert held > 150 and arrived >= 30


def test_rewards_are_not_looked_at():
    context, scores, gamma, _ = next(contexts(1, 2))
    other = Context(context.states, 7 - context.rewards, context.n_states)
    assert certificate(context, scores, gamma) == certificate(other, scores, gamma)


def test_each_condition_can_hold():
    rng = np.random.default_rng(3)
    process = random_ergodic_chain(3, rng, 0.9)
    context = sample_context(process, 400, rng)
    names = set()
    x = unit_features(3, 3, rng)
    for scores in (
        inner_product_scores(one_hot_features(3), 9.0),
        inner_product_scores(x, 0.2),
    ):
        names |= set(certificate(context, scores, 0.9).held)
        names |= set(population_certificate(process, scores).held)
    two = sample_context(random_ergodic_chain(2, rng, 0.9), 30, rng)
    names |= set(certificate(two, [[2.0, 0.3], [0.3, 1.0]], 0.9).held)
    assert names == {
        "diagonal (Assumption 5.1)",
        "spread of the normaliser",
        "predecessors",
        "numerical radius",
        "numerical radius without the constants",
        "orthogonal features",
        "two states",
        "three states, equal norms",
    }


@pytest.mark.parametrize("example", [unequal_norms, equal_norms])
def test_divergence_is_no_condition_and_the_sink_mends_it(example):
    process, x = example()
    scores = inner_product_scores(x)
    proof = population_certificate(process, scores)
    assert not proof.holds and proof.rate is None and proof.radius > 1
    assert "diverges" in str(proof) and "an attention sink larger than" in str(proof)
    mended = population_certificate(process, scores, sink=1.01 * proof.sink)
    assert "numerical radius" in mended.held
    assert mended.radius < 1 + 1e-9
    assert population_certificate(process, scores, sink=0.99 * proof.sink).held == ()
    context = sample_context(process, 3000, np.random.default_rng(1), start=0)
    found = certificate(context, scores, process.discount)
    if example is unequal_norms:
        assert "diverges" in str(found)


def test_a_state_never_left():
    scores = inner_product_scores(2 * np.eye(3))
    last = certificate(Context([0, 1, 0, 2], [1, 1, 1], 3), scores, 0.9)
    assert not last.holds and last.radius == pytest.approx(1)
    assert "the last state, 2, was never left" in str(last)
    spare = certificate(Context([0, 1, 0, 1], [1, 1, 1], 3), scores, 0.5)
    assert spare.holds and "2 of 3 states left" in str(spare)


def test_why_not():
    context = Context([0, 1, 2, 0, 1, 2, 0], np.zeros(6), 3)
    shared = inner_product_scores([[1.0], [1.0], [2.0]])
    text = str(certificate(context, shared, 0.9))
    assert "states 0 and 1 (of those left) have the same scores" in text
    crooked = np.array([[1.0, 2, 3], [0, 1, 2], [0, 0, 1]])
    assert "aren't symmetric" in str(certificate(context, crooked, 0.9))
    sharp = certificate(context, 40 * np.eye(3) + crooked, 0.5)
    assert sharp.held == ("diagonal (Assumption 5.1)",)
    indefinite = np.array([[0.0, 5, 0], [5, 0, 0], [0, 0, 0]])
    assert "isn't positive definite" in str(certificate(context, indefinite, 0.9))
    large = certificate(context, 9 * np.eye(3), 0.5, step_size=1.9)
    assert not large.holds and "alpha lambda_max" in str(large)
    few = Context([0, 1, 0, 1, 2, 0, 1, 0, 2], np.zeros(8), 3)
    text = str(certificate(few, 3 * np.eye(3), 0.9))
    assert "the last state was left 1 times, needs 9.0" in text


def test_scores_beyond_the_exponential():
    context = Context([0, 1, 0, 0, 1, 1, 0], np.zeros(6), 2)
    for scores in (
        np.diag([1000.0, 900.0]),
        np.diag([1e300, 0.0]),
        np.array([[1000.0, 999], [999, 1000]]),
    ):
        for gamma in (0.0, 0.9):
            found = certificate(context, scores, gamma)
            assert "two states" in found.held
            assert found.radius <= found.rate + 1e-12
    for scores in (np.array([[0.0, 1000], [1000, 0]]), -np.diag([1000.0, 900.0])):
        found = certificate(context, scores, 0.9)
        assert "isn't positive definite" in str(found)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"scores": np.zeros((3, 3))},
            r"scores: got shape \(3, 3\), expected \(2, 2\)",
        ),
        ({"discount": 1.0}, "discount: got 1"),
        ({"step_size": 0.0}, "step_size: got 0"),
        ({"sink": -1.0}, "sink: got -1"),
    ],
)
def test_arguments_are_checked(arguments, message):
    given = {
        "context": Context([0, 1, 0], [1, 2], 2),
        "scores": np.eye(2),
        "discount": 0.5,
    }
    with pytest.raises(ValueError, match=message):
        certificate(**(given | arguments))


def test_population_needs_every_state():
    absorbing = MarkovRewardProcess([[1, 0], [0.5, 0.5]], [0, 1], 0.9)
    with pytest.raises(ValueError, match="state 1 has the stationary probability 0"):
        population_certificate(absorbing, np.eye(2))
    with pytest.raises(ValueError, match="scores: got shape"):
        population_certificate(absorbing, np.eye(3))
