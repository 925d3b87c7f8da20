"""Tasks of pretraining, against the numpy side of the library and against counting."""

import numpy as np
import pytest
import torch

import ictd_lib
from ictd_lib import Context, MarkovRewardProcess
from ictd_lib.pretraining import (
    STANDARD,
    Chains,
    Recipe,
    chains_of,
    count_states,
    draw_batch,
    draw_block,
    draw_chains,
    draw_exam,
    draw_features,
    draw_pools,
    population,
    stream,
    walk,
)
from ictd_lib.pretraining.tasks import FAMILIES
from ictd_lib.transformer import summarise

DOUBLE = torch.float64
families = pytest.mark.parametrize("family", list(FAMILIES))


@families
def test_chains_are_valid_and_all_different(family):
    chains = draw_chains(family, 300, 7, stream(0, "chains"), DOUBLE)
    P, r = chains
    assert P.shape == (300, 7, 7) and r.shape == (300, 7)
    assert (P >= 0).all()
    torch.testing.assert_close(P.sum(-1), torch.ones(300, 7).double())
    assert (r.abs() <= 1).all()
    assert len(torch.unique(r, dim=0)) == len(torch.unique(P, dim=0)) == 300


@families
def test_stationary_distributions_and_values_are_those_of_numpy(family):
    chains = draw_chains(family, 20, 6, stream(1, "chains"), DOUBLE)
    mu, v = chains.stationary(), chains.values(0.9)
    for k in range(20):
        process = MarkovRewardProcess(
            chains.transition[k].numpy(), chains.reward[k].numpy(), 0.9
        )
        np.testing.assert_allclose(mu[k], process.stationary(), atol=1e-12)
        np.testing.assert_allclose(v[k], process.values(), atol=1e-12)


def test_boyan_chains_have_the_pattern_and_the_law_of_numpy():
    P, _ = draw_chains("boyan", 4000, 5, stream(2, "chains"), DOUBLE)
    rng = np.random.default_rng(0)
    others = [ictd_lib.random_boyan_chain(5, rng, 0.5) for _ in range(2000)]
    Q = np.stack([other.transition for other in others])
    np.testing.assert_array_equal((P > 0).all(0), (Q > 0).all(0))
    np.testing.assert_array_equal((P > 0).any(0), (Q > 0).any(0))
    # Means and deviations of 4,000 and of 2,000, within 5 standard errors.
    bound = 5 * 0.3 * (1 / 4000 + 1 / 2000) ** 0.5
    assert np.abs(P.mean(0).numpy() - Q.mean(0)).max() < bound
    assert np.abs(P.std(0).numpy() - Q.std(0)).max() < bound
    assert 0.01 <= P[:, 0, 1].min() < 0.02 and 0.98 < P[:, 0, 1].max() <= 0.99


def test_walks_are_those_of_numpy():
    P, _ = draw_chains("walk", 5, 4, stream(3, "chains"), DOUBLE)
    for k in range(5):
        same = ictd_lib.random_walk(4, 0.5, float(P[k, 0, 1]))
        np.testing.assert_allclose(P[k], same.transition, atol=1e-15)


def test_numpy_chains_become_a_batch():
    processes = [ictd_lib.random_walk(4, 0.5, p) for p in (0.3, 0.6)]
    chains = chains_of(processes, dtype=DOUBLE)
    for k, process in enumerate(processes):
        np.testing.assert_array_equal(chains.transition[k], process.transition)
        np.testing.assert_array_equal(chains.reward[k], process.reward)
    with pytest.raises(ValueError, match=r"sizes \[3, 4\]"):
        chains_of([ictd_lib.random_walk(k, 0.5) for k in (3, 4)])
    with pytest.raises(ValueError, match="at least one"):
        chains_of([])


def test_features():
    def draw(kind, size=3):
        return draw_features(
            kind, 4000, size, 3, generator=stream(0, "tasks"), dtype=DOUBLE
        )

    unit, gaussian = draw("unit"), draw("gaussian")
    torch.testing.assert_close(unit.norm(dim=-1), torch.ones(4000, 3).double())
    for x in (unit, gaussian):
        assert len(torch.unique(x, dim=0)) == 4000
        second = torch.einsum("bsi,bsj->ij", x, x) / (4000 * 3)
        assert (second - torch.eye(3) / 3).abs().max() < 0.02
    assert torch.equal(draw("one-hot")[7], torch.eye(3).double())
    with pytest.raises(ValueError, match="one-hot"):
        draw("one-hot", size=4)
    with pytest.raises(ValueError, match=r"'fourier', expected one of \['unit'"):
        draw("fourier")


@families
def test_walk_follows_the_chain(family):
    """Frequencies of transitions over many steps, within what chance allows."""
    chains = draw_chains(family, 1, 5, stream(4, "chains"), DOUBLE)
    many = Chains(*(part.expand(2000, *part.shape[1:]) for part in chains))
    path = walk(many, 60, stream(4, "tasks"))
    before, after = path[:, :-1].reshape(-1), path[:, 1:].reshape(-1)
    pairs = torch.bincount(before * 5 + after, minlength=25).reshape(5, 5).double()
    visits = pairs.sum(1, keepdim=True)
    P = chains.transition[0]
    assert (pairs[P == 0] == 0).all()
    # Departures are independent given the states: a z-score for each transition.
    z = (pairs - visits * P) / (visits * P * (1 - P)).sqrt().clamp(min=1)
    assert z.abs().max() < 5
    first = torch.bincount(path[:, 0], minlength=5) / 2000
    assert (first - 0.2).abs().max() < 5 * (0.2 * 0.8 / 2000) ** 0.5


def test_impossible_transitions_are_never_taken():
    """Uniform numbers of float32 reach 0, and sums of float32 stay below 1."""
    P = torch.tensor([[0.0, 0.1, 0.2, 0.7 - 1e-6, 0.0]] * 5)
    chains = Chains(P.expand(20_000, 5, 5), torch.zeros(20_000, 5))
    path = walk(chains, 100, stream(0, "tasks"))
    assert not ((path[:, 1:] == 0) | (path[:, 1:] == 4)).any()


def test_counts_are_those_of_summarise_and_of_a_context():
    chains = draw_chains("boyan", 9, 6, stream(5, "chains"), DOUBLE)
    states = walk(chains, 12, stream(5, "tasks"))  # too short to visit everything
    rewards = chains.reward.gather(1, states[:, :-1])
    found = count_states(states, chains.reward)
    assert (found.counts == 0).any()
    for one, other in zip(found, summarise(states, rewards, 6), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-15)
    context = Context(states[3].numpy(), rewards[3].numpy(), 6)
    np.testing.assert_allclose(found.counts[3], context.counts())
    np.testing.assert_allclose(found.transition[3], context.empirical_transition())
    np.testing.assert_allclose(found.mean_rewards[3], context.mean_rewards())


def test_held_out_transitions_continue_the_context():
    chains = draw_chains("boyan", 5, 6, stream(6, "chains"), DOUBLE)
    whole = draw_batch(
        chains,
        features="unit",
        dimension=3,
        n=20,
        held_out=7,
        generator=stream(6, "tasks"),
    )
    assert whole.states.shape == (5, 21) and whole.held_out.shape == (5, 8)
    torch.testing.assert_close(whole.states[:, -1], whole.held_out[:, 0])
    # None of them was counted.
    assert (whole.summary.counts.sum(-1) == 20).all()
    moves = chains.transition[
        torch.arange(5)[:, None], whole.held_out[:, :-1], whole.held_out[:, 1:]
    ]
    assert (moves > 0).all()


def test_population_is_the_limit_of_contexts():
    chains = draw_chains("ergodic", 3, 4, stream(7, "chains"), DOUBLE)
    found = count_states(walk(chains, 40_000, stream(7, "tasks")), chains.reward)
    limit = population(chains)
    assert (found.counts / 40_000 - limit.counts).abs().max() < 0.02
    assert (found.transition - limit.transition).abs().max() < 0.03
    torch.testing.assert_close(found.mean_rewards, limit.mean_rewards)


SMALL = Recipe(n=30, held_out=5, pool=40, test_pool=12, batch=8, steps=30, layers=3)


@pytest.mark.parametrize("recipe", [SMALL, STANDARD])
def test_no_test_chain_is_trained_on(recipe):
    training, test = draw_pools(recipe, 1)
    assert len(training.reward) == recipe.pool and len(test.reward) == recipe.test_pool
    for part in range(2):
        both = torch.cat([training[part], test[part]]).flatten(1)
        assert len(torch.unique(both, dim=0)) == len(both)
    seen = {tuple(row) for row in test.reward.tolist()}
    met = set()
    for number in range(3):
        met |= {
            tuple(row)
            for row in draw_block(recipe, training, 1, number).chains.reward.tolist()
        }
    assert met and not met & seen
    assert {
        tuple(row) for row in draw_exam(recipe, test, 1).batch.chains.reward.tolist()
    } == seen


def test_blocks_are_functions_of_seed_and_number():
    training, _ = draw_pools(SMALL, 1)

    def block(seed, number):
        return draw_block(SMALL, training, seed, number)

    later, earlier = block(1, 5), block(1, 4)
    again = block(1, 5)
    assert torch.equal(later.states, again.states)
    assert torch.equal(later.features, again.features)
    for other in (earlier, block(2, 5)):
        assert not torch.equal(later.states, other.states)
        assert not torch.equal(later.features, other.features)


def test_streams_differ():
    names = ("parameters", "chains", "tasks", "measures")
    draws = {
        torch.rand(1, generator=stream(seed, name, number)).item()
        for seed in range(5)
        for name in names
        for number in range(5)
    }
    assert len(draws) == 100
    with pytest.raises(ValueError, match="name: got 'noise'"):
        stream(0, "noise")
    with pytest.raises(ValueError, match="seed: got -1"):
        stream(-1, "tasks")


def test_everything_runs_without_a_host():
    """On the device of shapes alone, any copy to the host is an error."""
    chains = Chains(
        torch.empty(4, 5, 5, device="meta"), torch.empty(4, 5, device="meta")
    )
    assert chains.take(slice(0, 2)).stationary().device.type == "meta"
    assert chains.values(0.5).device.type == "meta"
    states = torch.empty(4, 11, dtype=torch.int64, device="meta")
    assert count_states(states, chains.reward).transition.shape == (4, 5, 5)
