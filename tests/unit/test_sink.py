"""The attention sink of the Transformer: one more source, whose value is 0."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import seeds

from ictd_lib import (
    Context,
    context_kernel,
    inner_product_scores,
    random_ergodic_chain,
    sample_context,
    td_errors,
    unit_features,
)
from ictd_lib.transformer import (
    SoftmaxTDTransformer,
    affine_layer,
    attention_weights,
    build_prompt,
    cached,
    collapsed,
    collapsed_power,
    fused,
    read_values,
    summarise_context,
    theta_star,
)

DISCOUNT = 0.9


def case(seed, n=40, size=5, d=3):
    rng = np.random.default_rng(seed)
    context = sample_context(random_ergodic_chain(size, rng, DISCOUNT), n, rng)
    return context, 1.5 * unit_features(size, d, rng)


def shrunk_td(context, features, sinks, alpha=1.0):
    """Weighted TD by its definition, each update times what the sink leaves of the weights."""
    g = inner_product_scores(features)
    total = np.exp(g[:, context.sources]).sum(axis=1)
    K = context_kernel(context, g)
    v = np.zeros(context.n_states)
    for sink in sinks:
        left = total / (total + np.exp(sink))
        v = v + alpha * left * (K @ td_errors(context, v, DISCOUNT))
    return v


def test_a_sink_adds_a_constant_to_each_denominator():
    Z = torch.tensor([[1.0, 2.0, 0.5]]).double()
    W = attention_weights(
        Z, torch.eye(1).double(), sink=torch.tensor(0.3, dtype=torch.float64)
    )
    e = np.exp(np.outer([1.0, 2.0], [1.0, 2.0, 0.5]))
    np.testing.assert_allclose(W, e / (e.sum(axis=0) + np.exp(0.3)), rtol=1e-14)


@settings(max_examples=25)
@given(seeds, st.sampled_from(["shift", "dual"]), st.booleans(), st.floats(-6, 8))
def test_every_form_is_td_with_smaller_steps(seed, form, per_layer, logit):
    context, x = case(seed)
    layers = 6
    sinks = logit + (np.arange(layers) / 2 if per_layer else np.zeros(layers))
    expected = shrunk_td(context, x, sinks)
    model = theta_star(
        x.shape[1],
        layers,
        DISCOUNT,
        sink=sinks.tolist() if per_layer else logit,
        form=form,
    )
    Z, table = build_prompt(context, x), torch.tensor(x)
    summary = summarise_context(context)
    with torch.no_grad():
        for run in (model, lambda Z: cached(model, Z), lambda Z: fused(model, Z)):
            np.testing.assert_allclose(
                read_values(run(Z)), expected[context.states], rtol=1e-9, atol=1e-12
            )
        on_states = collapsed(model, table, summary)[-1]
        np.testing.assert_allclose(on_states, expected, rtol=1e-9, atol=1e-12)
        if not per_layer:
            power = collapsed_power(model, table, summary)
            np.testing.assert_allclose(power, expected, rtol=1e-9, atol=1e-12)


def test_without_one_nothing_changes_and_a_deep_sink_is_none():
    context, x = case(1)
    Z = build_prompt(context, x)
    plain = theta_star(3, 5, DISCOUNT)
    assert plain.sink is None and plain.sink_of(0) is None
    assert sorted(plain.state_dict()) == ["A", "w"]
    none = theta_star(3, 5, DISCOUNT, sink=-1e4)
    np.testing.assert_allclose(plain(Z).detach(), none(Z).detach(), atol=1e-13)


def test_the_limit_is_the_same_and_a_larger_sink_is_slower():
    context, x = case(2, n=400)
    P, r = context.empirical_transition(), context.mean_rewards()
    limit = np.linalg.solve(np.eye(len(P)) - DISCOUNT * P, r)
    summary, table = summarise_context(context), torch.tensor(x)
    radii = []
    for b in (0.0, 1.0, 30.0):
        sink = np.log(context.n * b) if b else None
        model = theta_star(3, 20_000, DISCOUNT, sink=sink)
        with torch.no_grad():
            np.testing.assert_allclose(
                collapsed_power(model, table, summary), limit, rtol=1e-8
            )
            T = affine_layer(model, table, summary)[0]
        radii.append(np.abs(np.linalg.eigvals(T.numpy())).max())
    assert radii == sorted(radii) and radii[0] < radii[1] < radii[2] < 1


@pytest.mark.parametrize("shape", [(), (2,)])
@pytest.mark.parametrize("run", [lambda m, Z: m(Z), cached, fused])
def test_a_sink_can_be_learned(shape, run):
    context, x = case(3, n=8)
    Z, table = build_prompt(context, x), torch.tensor(x)
    A, w = torch.eye(3).double(), torch.tensor([0.5, 0.6, -0.7]).double()

    def value(sink):
        model = SoftmaxTDTransformer(A, w, DISCOUNT, 2, sink=sink)
        return model, read_values(run(model, Z), -1)

    sink = torch.full(shape, 0.7, dtype=torch.float64)
    model, v = value(sink)
    v.backward()
    step = 1e-6
    for i in range(max(1, sink.numel())):
        e = torch.zeros_like(sink).reshape(-1)
        e[i] = step
        e = e.reshape(shape)
        slope = (value(sink + e)[1] - value(sink - e)[1]) / (2 * step)
        assert model.sink.grad[i] == pytest.approx(slope.item(), rel=1e-6)
    on_states = SoftmaxTDTransformer(A, w, DISCOUNT, 2, sink=sink)
    v = collapsed(on_states, table, summarise_context(context))[-1]
    v[context.states[-1]].backward()
    np.testing.assert_allclose(on_states.sink.grad, model.sink.grad, rtol=1e-9)
    assert "sink" in repr(model)


def test_a_sink_for_each_layer_makes_weights_for_each_layer():
    assert theta_star(2, 4, 0.9, sink=[1, 2, 3, 4]).kernels == 4
    assert theta_star(2, 4, 0.9, sink=1).kernels == 1
    context = Context([0, 1, 0], [1, 2], 2)
    model = theta_star(2, 2, 0.9, sink=[1, 2])
    with pytest.raises(ValueError, match="1 A and 1 w and 2 sinks, expected one"):
        collapsed_power(model, torch.eye(2).double(), summarise_context(context))


@pytest.mark.parametrize(
    ("sink", "message"),
    [
        ([1.0, 2.0], r"sink: got shape \(2,\)"),
        (np.inf, "sink: got inf, expected finite"),
    ],
)
def test_arguments_are_checked(sink, message):
    with pytest.raises(ValueError, match=message):
        theta_star(2, 3, 0.9, sink=sink)


def test_shape_and_dtype_of_the_parameter_are_checked():
    A, w = torch.eye(2), torch.tensor([1.0, 1, -1])
    with pytest.raises(ValueError, match=r"sink: got shape \(2,\), expected \(\)"):
        SoftmaxTDTransformer(A, w, 0.9, 3, sink=torch.zeros(2))
    with pytest.raises(TypeError, match=r"sink: got torch.float64, expected torch"):
        SoftmaxTDTransformer(A, w, 0.9, 3, sink=torch.zeros(3).double())
    with pytest.raises(ValueError, match="layer: got 3"):
        SoftmaxTDTransformer(A, w, 0.9, 3).sink_of(3)
