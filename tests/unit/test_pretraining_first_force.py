"""The first force against the exact expected update, by autograd."""

import pytest
import torch

from ictd_lib.pretraining import (
    Chains,
    boyan_chains,
    draw_features,
    expected_update,
    first_force,
    first_multiple,
    kernels,
    population,
    self_attention,
    self_attention_gradient,
    stream,
)
from ictd_lib.transformer import SoftmaxTDTransformer, collapsed_power

S, D, GAMMA, LAYERS, VARIANCE = 6, 5, 0.7, 7, 1 / 3
DOUBLE = torch.float64


@pytest.fixture
def tasks():
    generator = stream(0, "tasks")
    chains = boyan_chains(20, S, generator, DOUBLE)
    x = draw_features("unit", 20, S, D, generator=generator, dtype=DOUBLE)
    return chains, x


def exact_update(chains, x, w, A):
    """Mean over rewards of the expected update, exactly.

    It is a quadratic form of the rewards, so its mean under the covariance sigma^2 I is the sum
    over the unit vectors times sigma^2: a task for each, on the same chain.
    """
    P = chains.transition.repeat_interleave(S, 0)
    r = (VARIANCE * S) ** 0.5 * torch.eye(S, dtype=DOUBLE).repeat(len(x), 1)
    all_chains = Chains(P, r)
    model = SoftmaxTDTransformer(A, w, GAMMA, LAYERS)
    summary = population(all_chains)
    v = collapsed_power(model, x.repeat_interleave(S, 0), summary)
    u = expected_update(v, (model.w, model.A), all_chains, summary.counts, GAMMA)
    return u[:3], u[3:].reshape(D, D)


@pytest.mark.parametrize("multiple", [0.0, 1.0, -2.0, 4.0])
@pytest.mark.parametrize("sign", [1, -1])
def test_formulas_are_the_limit_of_the_exact_update(tasks, multiple, sign):
    chains, x = tasks
    A = multiple * torch.eye(D, dtype=DOUBLE)
    A = A + 0.1 * torch.randn(D, D, generator=stream(1, "tasks"), dtype=DOUBLE)
    mu = chains.stationary()
    gaps = []
    for size in (1e-3, 1e-4, 1e-5):
        w = size * torch.tensor([sign, 0.7, -0.4], dtype=DOUBLE)
        force = first_force(
            float(w[0]),
            A,
            x,
            chains.transition,
            mu,
            discount=GAMMA,
            layers=LAYERS,
            variance=VARIANCE,
        )
        u_w, u_A = exact_update(chains, x, w, A)
        gaps.append(
            [
                *((force.w - u_w).abs() / force.w.abs()).tolist(),
                float((force.A - u_A).norm() / force.A.norm()),
            ]
        )
    gaps = torch.tensor(gaps)
    # What is left out is one order higher: ten times smaller w, ten times smaller gap.
    assert (gaps[0] < 0.1).all()
    torch.testing.assert_close(
        gaps[:2] / gaps[1:], torch.full((2, 4), 10.0), rtol=0.1, atol=0
    )


def test_the_wrong_way_first(tasks):
    """With a positive reward weight, the current-value weight is pushed up too."""
    chains, x = tasks
    u_w, _ = exact_update(
        chains, x, torch.tensor([0.01, 0, 0]).double(), torch.zeros(D, D).double()
    )
    assert (u_w > 0).all()


def test_gradient_of_self_attention_is_that_of_autograd(tasks):
    chains, x = tasks
    mu = chains.stationary()
    A = torch.randn(
        D, D, generator=stream(2, "tasks"), dtype=DOUBLE, requires_grad=True
    )
    (expected,) = torch.autograd.grad(self_attention(kernels(A, x, mu), mu), A)
    torch.testing.assert_close(
        self_attention_gradient(A.detach(), x, mu), expected, rtol=1e-10, atol=1e-14
    )


def test_first_force_on_A_is_a_multiple_of_the_identity():
    generator = stream(3, "tasks")
    count = 20_000
    one = boyan_chains(1, S, generator, DOUBLE)
    mu = one.stationary().expand(count, S)
    x = draw_features("unit", count, S, D, generator=generator, dtype=DOUBLE)
    force = first_force(
        0.01,
        torch.zeros(D, D, dtype=DOUBLE),
        x,
        one.transition,
        mu,
        discount=GAMMA,
        layers=LAYERS,
        variance=VARIANCE,
    )
    multiple = first_multiple(0.01, mu, D, layers=LAYERS, variance=VARIANCE)
    gap = force.A / multiple - torch.eye(D)
    assert gap.abs().max() < 5 / count**0.5  # each entry has a deviation below 1
