"""Objectives against finite differences, huge samples and the other road; float64."""

import numpy as np
import pytest
import torch

from ictd_lib.pretraining import (
    Chains,
    UnmaskedTransformer,
    draw_batch,
    draw_chains,
    expected_errors,
    expected_update,
    literal_values,
    neu,
    neu_loss,
    population,
    regression_loss,
    share_outside,
    squared_neu,
    state_values,
    stream,
    td_loss,
    walk,
)
from ictd_lib.pretraining.forward import collapsed_values
from ictd_lib.transformer import (
    SoftmaxTDTransformer,
    collapsed_power,
    score_matrix,
    value_matrix,
)

S, D, GAMMA, LAYERS, DOUBLE = 5, 4, 0.8, 6, torch.float64


def draw_model(seed=0, layers=LAYERS, scale=0.5):
    generator = stream(seed, "parameters")
    w = torch.randn(3, generator=generator, dtype=DOUBLE)
    A = torch.randn(D, D, generator=generator, dtype=DOUBLE)
    return SoftmaxTDTransformer(A, scale * w, GAMMA, layers)


def draw(count=6, seed=0, n=30):
    generator = stream(seed, "tasks")
    chains = draw_chains("boyan", count, S, generator, DOUBLE)
    return draw_batch(
        chains, features="unit", dimension=D, n=n, held_out=9, generator=generator
    )


def unmasked(model):
    return UnmaskedTransformer(
        score_matrix(model.A[0].detach()),
        value_matrix(model.w[0].detach(), D),
        GAMMA,
        model.layers,
    )


@pytest.mark.parametrize("layers", [1, 2, 3, 7, 8, 15])
def test_doubling_is_a_power(layers):
    model, batch = draw_model(layers=layers), draw()
    torch.testing.assert_close(
        collapsed_values(model, batch.features, batch.summary),
        collapsed_power(model, batch.features, batch.summary),
        rtol=1e-11,
        atol=1e-12,
    )


@pytest.mark.parametrize("seed", range(5))
def test_tokens_and_states_give_the_same_gradients(seed):
    """Also the matrices without masks, at the entries that the masks leave free."""
    model, batch = draw_model(seed), draw(seed=seed)
    free = unmasked(model)
    found = []
    for values, parameters in (
        (state_values(model, batch), (model.w, model.A)),
        (literal_values(model, batch), (model.w, model.A)),
        (state_values(free, batch), (free.V, free.A)),
    ):
        loss = td_loss(values, batch.chains.reward, batch.held_out, GAMMA)
        w, A = torch.autograd.grad(loss, parameters)
        found.append(
            (
                values,
                w[-1, D:] if len(w) > 1 else w[0],
                A.reshape(-1, *A.shape[-2:])[0, :D, :D],
            )
        )
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-12)


def test_entries_outside_the_masks_have_gradients_too():
    """What the masks hold at 0 would move: the masks are a restriction, not a symmetry."""
    free, batch = unmasked(draw_model()), draw()
    assert share_outside(free) == (0, 0)
    loss = td_loss(
        state_values(free, batch), batch.chains.reward, batch.held_out, GAMMA
    )
    V, A = torch.autograd.grad(loss, (free.V, free.A))
    assert A[D:, :].abs().max() > 1e-6 and V[:-1].abs().max() > 1e-6
    with torch.no_grad():
        free.A[D, D] += 3.0
        free.V[0, 0] += 4.0
    w_norm, A_norm = draw_model().w.norm(), draw_model().A.norm()
    torch.testing.assert_close(
        torch.tensor(share_outside(free)).double(),
        torch.stack([4 / (16 + w_norm**2).sqrt(), 3 / (9 + A_norm**2).sqrt()]).detach(),
    )


def test_value_of_a_query_does_not_depend_on_its_neighbours():
    generator = stream(3, "parameters")

    def noise():
        return 0.3 * torch.randn(D + 3, D + 3, generator=generator, dtype=DOUBLE)

    free, batch = UnmaskedTransformer(noise(), noise(), GAMMA, 3), draw()
    order = torch.tensor([3, 0, 4, 1, 2])
    inverse = order.argsort()
    moved = batch._replace(
        chains=Chains(
            batch.chains.transition[:, order][:, :, order],
            batch.chains.reward[:, order],
        ),
        features=batch.features[:, order],
        states=inverse[batch.states],
    )
    torch.testing.assert_close(
        literal_values(free, moved), literal_values(free, batch)[:, order]
    )


def test_the_target_is_not_differentiated():
    """Against finite differences of the loss with a target that is held."""
    model, batch = draw_model(), draw()
    here, then = batch.held_out[:, :-1], batch.held_out[:, 1:]
    r = batch.chains.reward.gather(1, here)
    target = (r + GAMMA * state_values(model, batch).gather(1, then)).detach()

    def held():
        return (
            0.5 * (target - state_values(model, batch).gather(1, here)).square().mean()
        )

    loss = td_loss(
        state_values(model, batch), batch.chains.reward, batch.held_out, GAMMA
    )
    torch.testing.assert_close(loss, held())
    gradient = torch.autograd.grad(loss, model.w)[0][0]
    for k in range(3):
        ends = []
        for sign in (1, -1):
            with torch.no_grad():
                model.w[0, k] += sign * 1e-6
                ends.append(held())
                model.w[0, k] -= sign * 1e-6
        torch.testing.assert_close(
            (ends[0] - ends[1]) / 2e-6, gradient[k], rtol=1e-6, atol=1e-9
        )


def test_td_loss_by_hand():
    """One transition 0 -> 1 with reward 2: the error is 2 + 0.5 * 10 - 3 = 4."""
    v = torch.tensor([[3.0, 10.0]], requires_grad=True)
    loss = td_loss(v, torch.tensor([[2.0, 7.0]]), torch.tensor([[0, 1]]), 0.5)
    assert loss.item() == 8
    assert torch.autograd.grad(loss, v)[0].tolist() == [[-4, 0]]


def test_true_values_are_where_no_objective_pulls():
    batch = draw()
    v = batch.chains.values(GAMMA).requires_grad_()
    mu = batch.chains.stationary()
    torch.testing.assert_close(
        expected_errors(v, batch.chains, GAMMA), torch.zeros_like(v), atol=1e-12, rtol=0
    )
    assert neu(expected_update(v, (v,), batch.chains, mu, GAMMA)) < 1e-12
    assert regression_loss(v, batch.chains.values(GAMMA), mu) == 0
    assert regression_loss(v + 2, v, mu).item() == pytest.approx(2)


@pytest.mark.parametrize("kind", ["population", "contexts"])
def test_expected_update_is_the_mean_over_a_huge_sample(kind):
    """Transitions from stationarity, 2 million, by the loss that training uses."""
    model, batch = draw_model(scale=0.3), draw(count=4)
    chains = batch.chains
    summary = population(chains) if kind == "population" else batch.summary
    v = collapsed_values(model, batch.features, summary)
    mu = chains.stationary()
    parameters = (model.w, model.A)
    exact = expected_update(v, parameters, chains, mu, GAMMA)
    steps = 500_000
    generator = stream(0, "measures")
    # Pairs (s, s'), s ~ mu and s' ~ P(s, .), counted.
    joint = mu[..., None] * chains.transition
    counts = torch.stack(
        [
            torch.multinomial(p.flatten(), steps, replacement=True, generator=generator)
            for p in joint
        ]
    )
    s, after = counts // S, counts % S
    error = chains.reward.gather(1, s) + GAMMA * v.gather(1, after) - v.gather(1, s)
    pull = torch.zeros_like(v).scatter_add(1, s, error.detach()) / steps / len(v)
    parts = torch.autograd.grad(v, parameters, pull)
    sampled = torch.cat([part.flatten() for part in parts])
    assert (sampled - exact).norm() < 0.01 * exact.norm()


def test_expected_update_is_the_gradient_of_long_held_out_walks():
    """State and successor are not mixed up: minus the gradient of the TD loss, in the long run."""
    model, batch = draw_model(scale=0.3), draw(count=4)
    v = state_values(model, batch)
    mu = batch.chains.stationary()
    exact = expected_update(v, (model.w,), batch.chains, mu, GAMMA)
    path = walk(batch.chains, 6_000, stream(1, "tasks"))
    loss = td_loss(v, batch.chains.reward, path, GAMMA)
    (gradient,) = torch.autograd.grad(loss, model.w)
    assert (gradient.flatten() + exact).norm() < 0.1 * exact.norm()


def test_two_batches_are_unbiased_and_one_is_not():
    """Batches from a population of 40 tasks, whose expected update is a finite mean."""
    model, batch = draw_model(scale=0.2), draw(count=40, n=20)
    mu = batch.chains.stationary()

    def update(tasks):
        v = state_values(model, batch.take(tasks))
        chains = batch.chains.take(tasks)
        return expected_update(v, (model.w, model.A), chains, mu[tasks], GAMMA)

    each = torch.stack([update(slice(k, k + 1)) for k in range(40)])
    exact = neu(each.mean(0)) ** 2
    size, count = 4, 50_000
    drawn = torch.randint(40, (2, count, size), generator=stream(0, "measures"))
    torch.testing.assert_close(update(drawn[0, 0]), each[drawn[0, 0]].mean(0))
    first, second = each[drawn].mean(2)
    two = torch.stack([squared_neu(a, b) for a, b in zip(first, second, strict=True)])
    one = first.square().sum(-1)
    variance = each.var(0, correction=0).sum() / size
    error = [estimate.std() / count**0.5 for estimate in (two, one)]
    assert abs(two.mean() - exact) < 4 * error[0]
    assert abs(one.mean() - exact - variance) < 4 * error[1]
    assert variance > 20 * max(error)  # which the test would see


def test_neu_loss_is_of_two_halves_and_differentiates_through_the_error():
    model, batch = draw_model(), draw(count=6)
    mu = batch.chains.stationary()
    parameters = (model.w, model.A)

    def halves():
        both = []
        for part in (slice(0, 3), slice(3, 6)):
            v = state_values(model, batch.take(part))
            both.append(
                expected_update(v, parameters, batch.chains.take(part), mu[part], GAMMA)
            )
        return 0.5 * squared_neu(*both)

    loss = neu_loss(state_values(model, batch), parameters, batch.chains, mu, GAMMA)
    torch.testing.assert_close(loss.detach(), halves())
    gradient = torch.autograd.grad(loss, model.w)[0][0]
    for k in range(3):
        ends = []
        for sign in (1, -1):
            with torch.no_grad():
                model.w[0, k] += sign * 1e-6
            ends.append(halves())
            with torch.no_grad():
                model.w[0, k] -= sign * 1e-6
        np.testing.assert_allclose(
            ((ends[0] - ends[1]) / 2e-6).item(), gradient[k].item(), rtol=1e-5
        )


def test_unmasked_parameters_are_checked():
    with pytest.raises(ValueError, match=r"V: got shape \(3, 3\)"):
        UnmaskedTransformer(torch.eye(5), torch.eye(3), 0.5, 1)
    with pytest.raises(ValueError, match=r"A: got shape \(3, 3\)"):
        UnmaskedTransformer(torch.eye(3), torch.eye(3), 0.5, 1)
    many = SoftmaxTDTransformer(torch.zeros(2, D, D), torch.zeros(2, 3), GAMMA, 2)
    with pytest.raises(ValueError, match="2 A and 2 w"):
        collapsed_values(many, torch.zeros(1, S, D), population(draw(1).chains))
