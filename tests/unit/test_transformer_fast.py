"""Fast forms are the same function: values, whole prompts, gradients; and what they need."""

import ast
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import seeds
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformer_cases import random_case

import ictd_lib
from ictd_lib import (
    Context,
    boyan_chain,
    gaussian_features,
    inner_product_scores,
    sample_context,
    weighted_softmax_td,
)
from ictd_lib.transformer import (
    SoftmaxTDTransformer,
    Summary,
    affine_layer,
    assemble_prompt,
    cached,
    collapsed,
    collapsed_power,
    fused,
    summarise,
    summarise_context,
    theta_star,
)

FORMS = ("shift", "dual")
FAST = (cached, fused)


class Through(torch.nn.Module):
    """A fast form as a module, so that parameters can be handed to it."""

    def __init__(self, model, function, *arguments):
        super().__init__()
        self.model, self.function, self.arguments = model, function, arguments

    def forward(self, *inputs):
        return self.function(self.model, *inputs, *self.arguments)


def literal(model, Z, queries=1):
    return model(Z, queries)


def random_model(rng, d, layers, form, per_layer):
    """Any parameters: not the constructed ones, and A not symmetric."""
    many = (layers,) if per_layer else ()
    A = torch.tensor(rng.normal(size=(*many, d, d)))
    w = torch.tensor(rng.normal(size=(*many, 3))) * 0.3
    return SoftmaxTDTransformer(A, w, 0.8, layers, form)


def random_prompt(rng, leading, columns, n, d):
    """Any prompt: memory that starts off the invariant too."""
    target, current = torch.tensor(rng.normal(size=(2, *leading, columns)))
    return assemble_prompt(
        torch.tensor(rng.normal(size=(*leading, columns, d))),
        torch.tensor(rng.normal(size=(*leading, n))),
        target=target,
        current=current,
    )


@settings(max_examples=60)
@given(
    seeds,
    st.sampled_from(FORMS),
    st.booleans(),
    st.sampled_from([(), (3,), (2, 1, 2)]),
    st.tuples(st.integers(1, 8), st.integers(1, 5), st.integers(1, 3)),
)
def test_any_parameters_any_prompt_any_batch(seed, form, per_layer, leading, sizes):
    """The whole matrix Z_L, to 1e-12 of its largest entry."""
    n, d, queries = sizes
    rng = np.random.default_rng(seed)
    model = random_model(rng, d, 3, form, per_layer)
    Z = random_prompt(rng, leading, n + queries, n, d)
    expected = model(Z, queries).detach()
    for fast in FAST:
        found = fast(model, Z, queries).detach()
        assert found.shape == Z.shape
        assert (found - expected).abs().max() <= 1e-12 * expected.abs().max(), fast


@settings(max_examples=15)
@given(seeds, st.sampled_from(FORMS), st.booleans(), st.integers(1, 5))
def test_gradients_are_the_literal_ones(seed, form, per_layer, d):
    rng = np.random.default_rng(seed)
    model = random_model(rng, d, 3, form, per_layer)
    Z = random_prompt(rng, (2,), 7, 6, d).requires_grad_()
    weight = torch.tensor(rng.normal(size=Z.shape))
    inputs = [model.A, model.w, Z]
    expected = torch.autograd.grad((weight * model(Z)).sum(), inputs)
    for fast in FAST:
        found = torch.autograd.grad((weight * fast(model, Z)).sum(), inputs)
        for mine, literals in zip(found, expected, strict=True):
            assert (mine - literals).abs().max() <= 1e-11 * literals.abs().max(), fast


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("function", [literal, cached, fused])
def test_gradcheck(form, function):
    rng = np.random.default_rng(0)
    model = random_model(rng, 2, 2, form, per_layer=False)
    Z = random_prompt(rng, (), 5, 4, 2).requires_grad_()
    module = Through(model, function)

    def run(A, w, Z):
        parameters = {"model.A": A, "model.w": w}
        return torch.func.functional_call(module, parameters, (Z,))

    A, w = (p.detach().clone().requires_grad_() for p in (model.A, model.w))
    assert torch.autograd.gradcheck(run, (A, w, Z))


@pytest.mark.parametrize("function", [collapsed, collapsed_power])
def test_gradcheck_of_the_collapse(function):
    """Also with respect to rewards and features; an unseen state is among them."""
    rng = np.random.default_rng(0)
    model = random_model(rng, 2, 3, "shift", per_layer=False)
    states = torch.tensor([0, 1, 1, 0, 2])
    module = Through(
        model, lambda model, x, R: function(model, x, summarise(states, R, 3))
    )

    def run(A, w, x, R):
        parameters = {"model.A": A, "model.w": w}
        return torch.func.functional_call(module, parameters, (x, R))

    A, w = (p.detach().clone().requires_grad_() for p in (model.A, model.w))
    x = torch.tensor(rng.normal(size=(3, 2)), requires_grad=True)
    R = torch.tensor(rng.normal(size=4), requires_grad=True)
    assert torch.autograd.gradcheck(run, (A, w, x, R))


@pytest.mark.parametrize("form", FORMS)
def test_gradients_of_the_collapse_are_the_literal_ones(form):
    case = random_case(3, 40, 4, 6, discount=0.7)
    model, Z = case.model(form), case.prompt()
    x, summary = torch.tensor(case.features), summarise_context(case.context)
    states = torch.tensor(case.context.states)
    weight = torch.tensor(np.random.default_rng(0).normal(size=len(states)))
    parameters = [model.A, model.w]
    expected = torch.autograd.grad((weight * model(Z)[-1]).sum(), parameters)
    for values in (
        collapsed(model, x, summary)[-1],
        collapsed_power(model, x, summary),
    ):
        found = torch.autograd.grad((weight * values[states]).sum(), parameters)
        for mine, literals in zip(found, expected, strict=True):
            torch.testing.assert_close(mine, literals, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("d", [1, 3, 16, 64])
def test_fused_attention_runs_on_the_kernel_of_linear_memory(dtype, d):
    """With the fallback forbidden, it still runs, forwards and backwards."""
    rng = np.random.default_rng(0)
    Z = random_prompt(rng, (2,), 11, 10, d).to(dtype).requires_grad_()
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        fused(theta_star(d, 2, 0.9, dtype=dtype), Z).sum().backward()
    assert Z.grad.isfinite().all()


def test_attention_is_computed_once_for_each_a(monkeypatch):
    from ictd_lib.transformer import fast

    calls = []

    def counting(*arguments):
        calls.append(1)
        return weights(*arguments)

    weights = fast.attention_weights
    monkeypatch.setattr(fast, "attention_weights", counting)
    case = random_case(0, 10, 3, 7)
    cached(case.model(), case.prompt())
    assert len(calls) == 1
    calls.clear()
    cached(theta_star(3, 7, 0.9, step_size=[0.1] * 7), case.prompt())
    assert len(calls) == 1  # other steps, the same attention
    calls.clear()
    cached(theta_star(3, 7, 0.9, sharpness=[1.0] * 7), case.prompt())
    assert len(calls) == 7


def test_nothing_is_left_on_another_device():
    """On the device that computes shapes only: a tensor left on the CPU would be an error."""
    states = torch.tensor([0, 1, 1, 0])
    summary = summarise(states, torch.ones(3).double(), 2)
    meta = Summary(*(part.to("meta") for part in summary))
    x = torch.zeros(2, 2, dtype=torch.float64, device="meta")
    Z = torch.zeros(5, 4, dtype=torch.float64, device="meta")
    for form in FORMS:
        model = theta_star(2, 3, 0.9, form=form).to("meta")
        for run in (literal, cached, fused):
            assert run(model, Z).device.type == "meta"
        assert collapsed(model, x, meta).shape == (4, 2)
        assert collapsed_power(model, x, meta).shape == (2,)
    with pytest.raises(
        TypeError, match=r"Z: got torch.float64 on meta, expected .* cpu"
    ):
        theta_star(2, 3, 0.9)(Z)


def test_the_algorithm_and_the_transformer_know_nothing_of_each_other():
    """Two roads to one number: agreement means something."""
    package = Path(ictd_lib.__file__).parent
    for path in (package / "transformer").glob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        names = {
            node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)
        }
        assert "ictd_lib.td" not in names and "ictd_lib" not in names, path
    for path in set(package.glob("*.py")) - {package / "__main__.py"}:
        assert "torch" not in path.read_text("utf-8").split(), path


@pytest.mark.parametrize("fast", FAST)
def test_prompts_are_checked_as_the_model_checks_them(fast):
    model, good = theta_star(2, 3, 0.9), torch.zeros(5, 4).double()
    with pytest.raises(
        ValueError, match=r"Z: got shape \(6, 4\), expected \(..., 5, n \+ 1\)"
    ):
        fast(model, torch.zeros(6, 4).double())
    with pytest.raises(ValueError, match="queries: got 4 with 4 columns"):
        fast(model, good, 4)
    with pytest.raises(
        TypeError, match=r"Z: got torch.float32 on cpu, expected torch.float64"
    ):
        fast(model, good.float())


# ---------------------------------------------------------------- the collapse


@settings(max_examples=40)
@given(seeds, st.integers(1, 6), st.integers(1, 30))
def test_a_summary_counts_what_the_context_counts(seed, size, n):
    rng = np.random.default_rng(seed)
    context = Context(rng.integers(0, size, n + 1), rng.normal(size=n), size)
    summary = summarise_context(context)
    np.testing.assert_array_equal(summary.counts, context.counts())
    np.testing.assert_allclose(summary.mean_rewards, context.mean_rewards(), atol=1e-14)
    np.testing.assert_allclose(summary.transition, context.empirical_transition())


def test_summaries_of_batches():
    rng = np.random.default_rng(0)
    states = torch.tensor(rng.integers(0, 4, (2, 3, 9)))
    rewards = torch.tensor(rng.normal(size=(2, 3, 8)))
    together = summarise(states, rewards, 4)
    for i, j in np.ndindex(2, 3):
        for mine, single in zip(
            together, summarise(states[i, j], rewards[i, j], 4), strict=True
        ):
            np.testing.assert_array_equal(mine[i, j], single)


@settings(max_examples=30)
@given(seeds, st.booleans(), st.sampled_from(FORMS))
def test_the_collapse_holds_for_any_parameters_and_any_start_on_the_invariant(
    seed, per_layer, form
):
    rng = np.random.default_rng(seed)
    model = random_model(rng, 3, 4, form, per_layer)
    context = Context(rng.integers(0, 5, 21), rng.normal(size=20), 5)
    x, v0 = torch.tensor(rng.normal(size=(5, 3))), torch.tensor(rng.normal(size=5))
    states = torch.tensor(context.states)
    Z = assemble_prompt(
        x[states],
        torch.tensor(context.rewards),
        target=0.8 * torch.nn.functional.pad(v0[states][1:], (0, 1)),
        current=v0[states],
    )
    trace = model.trace(Z).detach()[:, -1]
    found = collapsed(model, x, summarise_context(context), v0).detach()
    scale = trace.abs().max()
    assert (found[:, states] - trace).abs().max() <= 1e-12 * scale
    if not per_layer:
        power = collapsed_power(model, x, summarise_context(context), v0).detach()
        assert (power[states] - trace[-1]).abs().max() <= 1e-12 * scale


def test_the_collapse_gives_every_state_its_iterates_seen_or_not():
    rng = np.random.default_rng(4)
    context = Context([0, 2, 2, 0, 2], [1, 2, 3, 4], 4)  # 1 and 3 are never seen
    x = gaussian_features(4, 3, rng)
    v = weighted_softmax_td(context, inner_product_scores(x), 0.9, 9, step_size=0.5)
    model = theta_star(3, 9, 0.9, step_size=0.5)
    found = collapsed(model, torch.tensor(x), summarise_context(context))
    np.testing.assert_allclose(found.detach(), v, rtol=1e-12, atol=1e-13)


def test_a_batch_of_tasks_each_with_its_own_features():
    """As pretraining needs it: features (B, S, d), summaries (B, ...)."""
    rng = np.random.default_rng(0)
    x = torch.tensor(rng.normal(size=(6, 5, 3)))
    states = torch.tensor(rng.integers(0, 5, (6, 31)))
    rewards = torch.tensor(rng.normal(size=(6, 30)))
    model = random_model(rng, 3, 4, "shift", per_layer=False)
    summary = summarise(states, rewards, 5)
    found, power = collapsed(model, x, summary), collapsed_power(model, x, summary)
    assert found.shape == (5, 6, 5)
    torch.testing.assert_close(power, found[-1], rtol=1e-11, atol=1e-12)
    for b in range(6):
        single = collapsed(model, x[b], summarise(states[b], rewards[b], 5))
        torch.testing.assert_close(found[:, b], single, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("layers", [0, 1, 2, 3, 7, 64, 100])
def test_powers_of_one_layer(layers):
    rng = np.random.default_rng(0)
    process = boyan_chain(0.9)
    context = sample_context(process, 200, rng)
    x = torch.tensor(gaussian_features(13, 4, rng))
    model, summary = (
        theta_star(4, layers, 0.9, step_size=0.7),
        summarise_context(context),
    )
    steps = collapsed(model, x, summary)[-1].detach()
    power = collapsed_power(model, x, summary).detach()
    assert (power - steps).abs().max() <= 1e-12 * steps.abs().max()


def test_one_layer_is_an_affine_map():
    case = random_case(5, 50, 4, 3, per_layer=True)
    model, x = case.model(), torch.tensor(case.features)
    summary, v = summarise_context(case.context), torch.zeros(10).double()
    for layer, expected in enumerate(collapsed(model, x, summary)[1:]):
        T, rho = affine_layer(model, x, summary, layer)
        v = T @ v + rho
        torch.testing.assert_close(v, expected, rtol=1e-12, atol=1e-13)


def test_a_power_needs_layers_that_are_the_same():
    x, summary = torch.eye(2).double(), summarise_context(Context([0, 1, 0], [1, 2], 2))
    model = theta_star(2, 3, 0.9, step_size=[1, 1, 1])
    with pytest.raises(
        ValueError, match="model: got 1 A and 3 w, expected one of each"
    ):
        collapsed_power(model, x, summary)


def test_arguments_of_the_collapse_are_checked():
    model, summary = theta_star(2, 3, 0.9), summarise_context(Context([0, 1], [1], 3))
    x = torch.zeros(3, 2).double()
    with pytest.raises(
        ValueError, match=r"features: got shape \(2, 2\), expected \(..., 3, 2\)"
    ):
        collapsed(model, x[:2], summary)
    with pytest.raises(
        TypeError, match=r"features: got torch.float32 on cpu, expected torch.float64"
    ):
        affine_layer(model, x.float(), summary)
    with pytest.raises(TypeError, match=r"summary: got torch.float32"):
        collapsed_power(
            model, x, summarise_context(Context([0, 1], [1], 3), dtype=torch.float32)
        )
    with pytest.raises(
        ValueError, match=r"initial: got shape \(2,\), expected \(..., 3\)"
    ):
        collapsed(model, x, summary, torch.zeros(2).double())
    for states, rewards, message in (
        ([0], [], r"states: got shape \(1,\), expected \(..., n \+ 1\) with n >= 1"),
        ([0, 1], [1.0, 2], r"rewards: got shape \(2,\), expected \(1,\)"),
        ([0, 3], [1.0], "states: got values from 0 to 3, expected 0 to 2"),
    ):
        with pytest.raises(ValueError, match=message):
            summarise(torch.tensor(states), torch.tensor(rewards), 3)
    with pytest.raises(
        TypeError, match=r"states: got torch.float32, expected torch.int64"
    ):
        summarise(torch.zeros(2), torch.zeros(1), 3)
    with pytest.raises(
        TypeError, match=r"rewards: got torch.int64, expected torch.float32"
    ):
        summarise(torch.tensor([0, 1]), torch.tensor([1]), 3)
