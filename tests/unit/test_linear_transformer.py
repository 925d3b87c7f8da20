"""Linear attention runs batch linear TD(0)."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import ergodic_chains, seeds

from ictd_lib import Context, gaussian_features, linear_td, sample_context
from ictd_lib.transformer import LinearTDTransformer, linear_prompt, linear_theta_star


def test_the_prompt_and_the_matrices_by_hand():
    context = Context([0, 1, 1], [5, -2], 2)
    Z = linear_prompt(context, [[0.2, 0.4], [0.6, 0.8]], 0.5)
    expected = [
        [0.2, 0.6, 0.6],
        [0.4, 0.8, 0.8],
        [0.3, 0.3, 0],
        [0.4, 0.4, 0],
        [5, -2, 0],
    ]
    np.testing.assert_allclose(Z, expected, rtol=1e-15)
    model = linear_theta_star(2, 3, step_size=4)
    np.testing.assert_array_equal(model.P[0].detach(), np.diag([0, 0, 0, 0, 1]))
    Q = np.zeros((5, 5))
    Q[0, 0] = Q[1, 1] = -4
    Q[0, 2] = Q[1, 3] = 4
    np.testing.assert_array_equal(model.Q[0].detach(), Q)


@settings(max_examples=40)
@given(ergodic_chains(), seeds, st.integers(1, 40), st.integers(1, 6), st.booleans())
def test_every_layer_is_a_step_of_batch_linear_td(process, seed, n, d, per_layer):
    """Every query's value is <x, w_l>; every source's last row is its TD error."""
    rng = np.random.default_rng(seed)
    context = sample_context(process, n, rng)
    size = process.n_states
    x = gaussian_features(size, d, rng)
    x /= np.abs(x).max() * np.sqrt(d)
    step_size = rng.uniform(0, 1, 8).tolist() if per_layer else 0.5
    w = linear_td(context, x, process.discount, 8, step_size=step_size)
    Z = linear_prompt(context, x, process.discount, queries=range(size))
    scale = max(1.0, np.abs(context.rewards).max())
    for layers in (0, 1, 8):
        steps = step_size[:layers] if per_layer else step_size
        model = linear_theta_star(d, layers, step_size=steps)
        values = model.values(Z, size).detach().numpy()
        assert np.abs(values - x @ w[layers]).max() <= 1e-12 * scale
        v = x @ w[layers]
        delta = context.rewards + process.discount * v[context.successors]
        delta -= v[context.sources]
        last = model(Z, size).detach().numpy()[-1, :n]
        assert np.abs(last - delta).max() <= 1e-12 * scale


@settings(max_examples=20)
@given(seeds, st.integers(1, 6), st.integers(1, 4), st.integers(1, 3))
def test_layers_are_the_formula_of_the_paper(seed, n, d, queries):
    """Z + P Z M (Z^T Q Z) / n, in that order, with any P and Q, batched."""
    rng = np.random.default_rng(seed)
    r, columns = 2 * d + 1, n + queries
    P, Q = torch.tensor(rng.normal(size=(2, r, r)))
    Z = torch.tensor(rng.normal(size=(3, r, columns)))
    M = torch.diag((torch.arange(columns) < n).double())
    expected = Z + P @ Z @ M @ (Z.mT @ Q @ Z) / n
    found = LinearTDTransformer(P, Q, 1)(Z, queries).detach()
    assert (found - expected).abs().max() <= 1e-12 * expected.abs().max()


def test_gradcheck():
    rng = np.random.default_rng(0)
    Z = torch.tensor(rng.normal(size=(5, 4)), requires_grad=True)
    model = linear_theta_star(2, 2, step_size=0.3)

    def run(P, Q, Z):
        return torch.func.functional_call(model, {"P": P, "Q": Q}, (Z,))

    P, Q = (p.detach().clone().requires_grad_() for p in (model.P, model.Q))
    assert torch.autograd.gradcheck(run, (P, Q, Z))


def test_what_is_refused():
    context = Context([0, 1], [1], 2)
    model = linear_theta_star(2, 1)
    good = linear_prompt(context, np.eye(2), 0.9)
    with pytest.raises(ValueError, match="discount: got 1, expected 0 <= discount < 1"):
        linear_prompt(context, np.eye(2), 1)
    with pytest.raises(
        ValueError, match=r"queries: got \[\], expected at least one state"
    ):
        linear_prompt(context, np.eye(2), 0.9, queries=[])
    with pytest.raises(TypeError, match=r"dtype: got torch.int32"):
        linear_prompt(context, np.eye(2), 0.9, dtype=torch.int32)
    with pytest.raises(
        ValueError, match=r"Z: got shape \(4, 2\), expected \(..., 5, n \+ 1\)"
    ):
        model(good[:4])
    with pytest.raises(ValueError, match="queries: got 2 with 2 columns"):
        model(good, 2)
    with pytest.raises(
        TypeError, match=r"Z: got torch.float32 on cpu, expected torch.float64"
    ):
        model(good.float())
    with pytest.raises(ValueError, match=r"P: got shape \(4, 4\), expected \(2 d \+ 1"):
        LinearTDTransformer(torch.eye(4), torch.eye(4), 1)
    with pytest.raises(ValueError, match=r"Q: got shape \(3, 3\), expected \(2 d \+ 1"):
        LinearTDTransformer(torch.eye(5), torch.eye(3), 1)
    with pytest.raises(
        TypeError, match=r"Q: got torch.float64, expected torch.float32 or"
    ):
        LinearTDTransformer(torch.eye(5), torch.eye(5).double(), 1)
    with pytest.raises(
        ValueError, match=r"step_size: got \[1, 2\], expected a finite number or 3"
    ):
        linear_theta_star(2, 3, step_size=[1, 2])
