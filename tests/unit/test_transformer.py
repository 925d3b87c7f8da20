"""Theorem 1 and Lemma 1 against numpy, the literal matrices, and prompts off the invariant."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from strategies import ergodic_chains, seeds
from transformer_cases import Case, cases, forms_of, random_case

from ictd_lib import (
    Context,
    attention_matrix,
    context_kernel,
    gaussian_features,
    inner_product_scores,
    one_hot_features,
    random_boyan_chain,
    sample_context,
    unit_features,
    weighted_softmax_td,
)
from ictd_lib.transformer import (
    DualHeadBlock,
    PromptRows,
    ShiftBlock,
    SoftmaxTDTransformer,
    assemble_prompt,
    attention_head,
    attention_weights,
    build_prompt,
    keep_matrix,
    mask_matrix,
    read_values,
    score_matrix,
    shift_matrix,
    target_matrix,
    temporal_shift,
    theta_star,
    value_matrix,
)

FORMS = ("shift", "dual")


# ---------------------------------------------------------------- the paper's matrices


def test_the_matrices_by_hand():
    """Two features; rows are features, reward, target, current."""
    model = theta_star(2, 3, 0.5, step_size=[1, 2, 3], sharpness=4)
    np.testing.assert_array_equal(
        model.score_matrix(2).detach(), np.diag([4, 4, 0, 0, 0])
    )
    V = np.zeros((5, 5))
    V[4] = 0, 0, 2, 2, -2
    np.testing.assert_array_equal(model.value_matrix(1).detach(), V)
    np.testing.assert_array_equal(keep_matrix(2), np.diag([1, 1, 1, 0, 1]))
    W = np.zeros((5, 5))
    W[3, 4] = 0.5
    np.testing.assert_array_equal(target_matrix(2, 0.5), W)
    Pi = [[0, 0, 0], [1, 0, 0], [0, 1, 0]]
    np.testing.assert_array_equal(shift_matrix(3), Pi)
    M = mask_matrix(3)
    np.testing.assert_array_equal(M[:2], np.zeros((2, 3)))
    assert (M[2] == -torch.inf).all()
    assert (mask_matrix(4, queries=2) == -torch.inf).sum(dim=1).tolist() == [0, 0, 4, 4]


def test_the_shift_moves_columns_back_in_time():
    Y = torch.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(temporal_shift(Y)[:, :3], Y[:, 1:])
    assert (temporal_shift(Y)[:, 3] == 0).all()
    np.testing.assert_array_equal(temporal_shift(Y), Y.double() @ shift_matrix(4))


@given(seeds, st.integers(1, 6), st.integers(1, 5), st.integers(1, 3))
def test_attention_is_the_softmax_over_sources_of_the_masked_scores(
    seed, n, d, queries
):
    """Equations 1 to 3 as they are written, with all rows and any A and V."""
    rng = np.random.default_rng(seed)
    Z = torch.tensor(rng.normal(size=(d + 3, n + queries)))
    A, V = torch.tensor(rng.normal(size=(2, d + 3, d + 3)))
    W = torch.softmax(Z.mT @ A @ Z + mask_matrix(n + queries, queries), dim=0)
    found = attention_weights(Z, A, queries)
    np.testing.assert_allclose(found, W[:n], atol=1e-14)
    np.testing.assert_allclose(found.sum(dim=0), 1, rtol=1e-14)
    assert (W[n:] == 0).all()
    head = attention_head(Z, A, V, queries)
    np.testing.assert_allclose(head, V @ Z @ W, atol=1e-12)


@given(seeds, st.integers(1, 6), st.integers(1, 5))
def test_blocks_are_the_formulas_of_the_paper(seed, n, d):
    """Equations 13 to 19 by matrix products, for any prompt, A and V."""
    rng = np.random.default_rng(seed)
    Z = torch.tensor(rng.normal(size=(d + 3, n + 1)))
    A, V = torch.tensor(rng.normal(size=(2, d + 3, d + 3)))
    W = torch.softmax(Z.mT @ A @ Z + mask_matrix(n + 1), dim=0)
    Pi, target = shift_matrix(n + 1), target_matrix(d, 0.7)
    dual = Z + V @ Z @ W + (target @ V) @ Z @ W @ Pi
    np.testing.assert_allclose(DualHeadBlock(d, 0.7)(Z, A, V), dual, atol=1e-12)
    Y = Z + V @ Z @ W
    shifted = keep_matrix(d) @ Y + target @ Y @ Pi
    np.testing.assert_allclose(ShiftBlock(d, 0.7)(Z, A, V), shifted, atol=1e-12)


def test_weights_are_stable_at_any_scale():
    Z = torch.tensor([[1e150, -1e150, 3e150], [0, 0, 0]], dtype=torch.float64)
    W = attention_weights(Z, torch.tensor([[1.0, 0], [0, 0]]).double())
    np.testing.assert_array_equal(W, [[1, 0, 1], [0, 1, 0]])


def test_two_layers_by_hand():
    """Sources 0, 0, 1 with rewards 4, 8, -2, then state 1; gamma = 1/2, features 0 and 1.

    At sharpness log 2 query 0 weighs them (1/3, 1/3, 1/3) and query 1 (1/4, 1/4, 1/2).
    """
    context = Context([0, 0, 1, 1], [4, 8, -2], 2)
    first = np.array([10 / 3, 4 / 4 + 8 / 4 - 2 / 2])
    delta = np.array(
        [
            4 + first[0] / 2 - first[0],
            8 + first[1] / 2 - first[0],
            -2 + first[1] / 2 - first[1],
        ]
    )
    kernel = np.array([[1 / 3] * 3, [1 / 4, 1 / 4, 1 / 2]])
    second = first + kernel @ delta
    Z = build_prompt(context, [[0.0], [1.0]])
    for form in FORMS:
        model = theta_star(1, 2, 0.5, sharpness=np.log(2), form=form)
        trace = model.trace(Z).detach()
        np.testing.assert_allclose(
            read_values(trace[1]), first[[0, 0, 1, 1]], rtol=1e-14
        )
        np.testing.assert_allclose(
            trace[1, 2], [first[0] / 2, first[1] / 2, first[1] / 2, 0], rtol=1e-14
        )
        np.testing.assert_allclose(
            read_values(trace[2]), second[[0, 0, 1, 1]], rtol=1e-14
        )


# ---------------------------------------------------------------- Theorem 1, Lemma 1


@settings(max_examples=60)
@given(cases())
def test_every_form_is_weighted_softmax_td(case):
    """Scores up to +-30 and layers that amplify nothing tenfold: 1e-12 of max|v|."""
    assume(case.growth() <= 10)
    expected = case.iterates()[-1][case.context.states]
    for name, found in forms_of(case).items():
        assert np.abs(found - expected).max() <= case.tolerance(), name


@settings(max_examples=40)
@given(cases(largest_score=1000, largest_step=4))
def test_beyond_that_rounding_grows_as_the_layers_do(case):
    expected = case.iterates()[-1][case.context.states]
    for name, found in forms_of(case).items():
        assert np.abs(found - expected).max() <= case.tolerance(), name


@settings(max_examples=40)
@given(cases())
def test_every_form_in_float32(case):
    assume(case.growth() <= 10)
    expected = case.iterates()[-1][case.context.states]
    for name, found in forms_of(case, torch.float32).items():
        assert np.abs(found - expected).max() <= case.tolerance(torch.float32), name


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(
    ("n", "d", "layers", "per_layer"),
    [
        (1, 1, 1, False),
        (1, 64, 100, True),
        (30, 1, 100, False),
        (300, 64, 50, True),
        (1000, 3, 100, False),
        (1000, 16, 10, True),
        (1000, 64, 10, False),
    ],
)
def test_from_one_layer_to_a_hundred_and_one_transition_to_a_thousand(
    n, d, layers, per_layer, dtype
):
    case = random_case(
        n + d, n, d, layers, per_layer=per_layer, kind="boyan" if d > 1 else "dense"
    )
    expected = case.iterates()[-1][case.context.states]
    for name, found in forms_of(case, dtype).items():
        assert np.abs(found - expected).max() <= case.tolerance(dtype), name


@settings(max_examples=60)
@given(cases(), st.sampled_from(FORMS))
def test_the_invariant_holds_after_every_layer(case, form):
    """Row d+3 of column j is v_l(S_j); row d+2 of column k-1 is gamma v_l(S_k)."""
    assume(case.growth() <= 10)
    rows = PromptRows(case.features.shape[1])
    Z0 = case.prompt()
    trace = case.model(form).trace(Z0).detach().numpy()
    values = case.iterates()[:, case.context.states]
    tolerance = case.tolerance()
    assert np.abs(trace[:, rows.current] - values).max() <= tolerance
    target = case.discount * values[:, 1:]
    assert np.abs(trace[:, rows.target, :-1] - target).max() <= tolerance
    assert (trace[:, rows.target, -1] == 0).all()
    seen = trace[:, : rows.target]
    np.testing.assert_array_equal(seen, np.broadcast_to(Z0[: rows.target], seen.shape))


@pytest.mark.parametrize("form", FORMS)
def test_batches_over_any_leading_dimensions(form):
    batch = [[random_case(3 * i + j, 20, 4, 6) for j in range(3)] for i in range(2)]
    Z = torch.stack([torch.stack([case.prompt() for case in row]) for row in batch])
    model = batch[0][0].model(form)
    found = model(Z).detach()
    assert found.shape == Z.shape
    assert model.trace(Z).shape == (7, *Z.shape)
    for i, row in enumerate(batch):
        for j, case in enumerate(row):
            single = model(Z[i, j]).detach()
            np.testing.assert_allclose(found[i, j], single, atol=1e-13)
            expected = case.iterates()[-1][case.context.states]
            np.testing.assert_allclose(read_values(single), expected, atol=1e-12)


@settings(max_examples=30)
@given(cases(), st.sampled_from(FORMS))
def test_further_queries_read_every_state_and_change_nothing(case, form):
    """One column more for each state, masked: all of v_L, seen or not."""
    assume(case.growth() <= 10)
    size, n = case.context.n_states, case.context.n
    Z = build_prompt(case.context, case.features, queries=range(size))
    model = case.model(form)
    found = read_values(model(Z, queries=1 + size)).detach().numpy()
    values = case.iterates()[-1]
    assert np.abs(found[n + 1 :] - values).max() <= case.tolerance()
    alone = read_values(model(case.prompt())).detach().numpy()
    assert np.abs(found[: n + 1] - alone).max() <= case.tolerance()


@pytest.mark.parametrize("form", FORMS)
def test_a_query_that_could_be_a_source_would_change_the_values(form):
    """Its column holds no transition: reward 0, target 0, and so a TD error of -v."""
    case = random_case(0, 20, 4, 6)
    Z = case.prompt()
    masked = read_values(case.model(form)(Z))
    extra = torch.cat([Z, Z[:, -1:]], dim=1)  # the query once more, as a source
    unmasked = read_values(case.model(form)(extra))[:-1]
    assert (masked - unmasked).abs().max() > 0.01 * masked.abs().max()


def test_weights_of_layers_shared_or_not_are_the_same_function():
    case = random_case(1, 30, 4, 5)
    Z = case.prompt()
    shared = case.model()
    apart = SoftmaxTDTransformer(
        shared.A.expand(5, -1, -1), shared.w.expand(5, -1), 0.9, 5
    )
    np.testing.assert_array_equal(shared(Z).detach(), apart(Z).detach())
    assert sum(p.numel() for p in shared.parameters()) == 4 * 4 + 3
    assert sum(p.numel() for p in apart.parameters()) == 5 * (4 * 4 + 3)


def test_layers_with_other_sharpness_are_iterations_with_other_scores():
    case = random_case(2, 30, 4, 3)
    sharpness, v = [1.0, 5.0, 9.0], np.zeros(10)
    for tau in sharpness:
        scores = inner_product_scores(case.features, tau)
        v = weighted_softmax_td(case.context, scores, 0.9, 1, initial=v)[1]
    for form in FORMS:
        model = theta_star(4, 3, 0.9, sharpness=sharpness, form=form)
        found = read_values(model(case.prompt())).detach()
        np.testing.assert_allclose(found, v[case.context.states], rtol=1e-12)


@settings(max_examples=20)
@given(seeds, st.floats(0, 0.95))
def test_any_a_is_a_score(seed, discount):
    """g(j, i) = x_i^T A x_j, and A need not be symmetric."""
    rng = np.random.default_rng(seed)
    context = sample_context(random_boyan_chain(5, rng, discount), 15, rng)
    x, A = gaussian_features(5, 3, rng), rng.normal(size=(3, 3))
    v = weighted_softmax_td(context, (x @ A @ x.T).T, discount, 4, step_size=0.5)
    w = 0.5 * torch.tensor([1.0, 1, -1]).double()
    for form in FORMS:
        model = SoftmaxTDTransformer(torch.tensor(A), w, discount, 4, form)
        found = read_values(model(build_prompt(context, x))).detach().numpy()
        scale = np.abs(v).max()
        assert np.abs(found - v[-1][context.states]).max() <= 1e-11 * scale


# ---------------------------------------------------------------- off the invariant


def off_invariant(seed, n=60, discount=0.8):
    """A prompt with any memory, of a context that covers, with a kernel that converges."""
    rng = np.random.default_rng(seed)
    context = sample_context(random_boyan_chain(4, rng, discount), n, rng)
    context = Context(context.states, rng.normal(size=n), 4)
    assume(context.covers())
    x = one_hot_features(4, sharpness=6)
    target, current = torch.tensor(rng.normal(size=(2, n + 1)))
    Z = assemble_prompt(
        torch.tensor(x[context.states]),
        torch.tensor(context.rewards),
        target=target,
        current=current,
    )
    return context, x, Z, target.numpy(), current.numpy()


@settings(max_examples=20)
@given(seeds)
def test_the_dual_head_keeps_the_offset_for_ever_and_the_shift_ends_it_in_one_layer(
    seed,
):
    _, _, Z, target, current = off_invariant(seed)
    offset = target[:-1] - 0.8 * current[1:]
    for form in FORMS:
        trace = theta_star(4, 8, 0.8, form=form).trace(Z).detach().numpy()
        found = trace[:, 5, :-1] - 0.8 * trace[:, 6, 1:]
        if form == "dual":
            np.testing.assert_allclose(found, np.tile(offset, (9, 1)), atol=1e-12)
        else:
            np.testing.assert_allclose(found[0], offset, atol=1e-15)
            assert np.abs(found[1:]).max() <= 1e-15


@settings(max_examples=20)
@given(seeds)
def test_the_offset_acts_as_a_reward(seed):
    """From c = 0 the dual head runs weighted softmax TD with R_k + e_{k-1}, exactly."""
    context, x, Z, target, _ = off_invariant(seed)
    Z[6] = 0
    rewards = context.rewards + target[:-1]
    scores = inner_product_scores(x)
    v = weighted_softmax_td(Context(context.states, rewards, 4), scores, 0.8, 12)
    trace = theta_star(4, 12, 0.8, form="dual").trace(Z).detach().numpy()
    np.testing.assert_allclose(trace[:, 6], v[:, context.states], atol=1e-12)
    # The shift: that reward in the first layer, and in no other.
    v = weighted_softmax_td(context, scores, 0.8, 11, initial=v[1])
    trace = theta_star(4, 12, 0.8, form="shift").trace(Z).detach().numpy()
    np.testing.assert_allclose(trace[1:, 6], v[:, context.states], atol=1e-12)


@settings(max_examples=8)
@given(seeds, st.sampled_from(FORMS))
def test_the_limits_off_the_invariant(seed, form):
    """c_j = c_j^0 + h(S_j), h = (I - gamma P)^-1 of the mean of R_k + gamma c_k^0 - c_{k-1}^0."""
    context, x, Z, target, current = off_invariant(seed)
    scores = inner_product_scores(x)
    m = attention_matrix(context, context_kernel(context, scores))
    linear = np.eye(4) - m @ (np.eye(4) - 0.8 * context.empirical_transition())
    assume(np.abs(np.linalg.eigvals(linear)).max() < 0.9)
    rewards = context.rewards + 0.8 * current[1:] - current[:-1]
    if form == "dual":
        rewards = rewards + target[:-1] - 0.8 * current[1:]
    mean = Context(context.states, rewards, 4).mean_rewards()
    h = np.linalg.solve(np.eye(4) - 0.8 * context.empirical_transition(), mean)
    trace = theta_star(4, 300, 0.8, form=form).trace(Z).detach().numpy()
    np.testing.assert_allclose(
        trace[-1, 6], current + h[context.states], atol=1e-9 * (1 + np.abs(h).max())
    )
    # At every layer, what was added is a function of the state.
    added = trace[:, 6] - current
    for s in range(4):
        same = added[:, context.states == s]
        assert np.ptp(same, axis=1).max() <= 1e-12 * (1 + np.abs(added).max())


@settings(max_examples=5)
@given(seeds)
def test_a_potential_in_the_current_row_shapes_the_rewards_and_keeps_the_limit(seed):
    """c_j^0 = phi(S_j): the shift converges to the right values, the dual head does not."""
    context, x, Z, _, _ = off_invariant(seed)
    phi = np.random.default_rng(seed).normal(size=4)
    Z[6] = torch.tensor(phi[context.states])
    P, scores = context.empirical_transition(), inner_product_scores(x)
    m = attention_matrix(context, context_kernel(context, scores))
    linear = np.eye(4) - m @ (np.eye(4) - 0.8 * P)
    assume(np.abs(np.linalg.eigvals(linear)).max() < 0.9)
    right = np.linalg.solve(np.eye(4) - 0.8 * P, context.mean_rewards())[context.states]
    found = {
        form: read_values(theta_star(4, 300, 0.8, form=form)(Z)).detach().numpy()
        for form in FORMS
    }
    np.testing.assert_allclose(found["shift"], right, atol=1e-9)
    assert np.abs(found["dual"] - right).max() > 1e-3


@settings(max_examples=20)
@given(seeds)
def test_after_one_layer_only_targets_differ_and_values_from_the_second_on(seed):
    context, _, Z, _, _ = off_invariant(seed)
    shift, dual = (
        theta_star(4, 2, 0.8, form=form).trace(Z).detach().numpy() for form in FORMS
    )
    others = [0, 1, 2, 3, 4, 6]
    np.testing.assert_array_equal(shift[1][others], dual[1][others])
    assert (shift[1][5] != dual[1][5]).all()
    assert np.abs(shift[2][6] - dual[2][6]).max() > 1e-6
    assert context.n == 60


def test_the_smallest_prompt_where_the_two_part():
    """One transition from s to t, and b_0 = 1: the values of layer 2 differ by 1.

    Both add R + 1 in the first layer; in the second the dual head adds b_0 again.
    """
    x, gamma = torch.tensor([[1.0], [2.0]]).double(), 0.5
    Z = assemble_prompt(
        x, torch.tensor([3.0]).double(), target=torch.tensor([1.0, 0]).double()
    )
    shift, dual = (
        read_values(theta_star(1, 2, gamma, form=form).trace(Z)).detach().tolist()
        for form in FORMS
    )
    assert shift[1] == dual[1] == [4, 4]
    assert shift[2] == [4 + 3 + 2 - 4] * 2
    assert dual[2] == [4 + 3 + 1 + 2 - 4] * 2


@pytest.mark.parametrize("form", FORMS)
def test_the_last_target_is_never_read(form):
    rng = np.random.default_rng(0)
    x, rewards = torch.tensor(rng.normal(size=(6, 3))), torch.ones(5).double()
    target = torch.tensor(rng.normal(size=6))
    model = theta_star(3, 4, 0.9, form=form)
    before = model(assemble_prompt(x, rewards, target=target)).detach()
    target[-1] += 100
    after = model(assemble_prompt(x, rewards, target=target)).detach()
    kept = torch.ones_like(before, dtype=torch.bool)
    kept[4, -1] = False
    np.testing.assert_array_equal(before[kept], after[kept])
    assert after[4, -1] - before[4, -1] == pytest.approx(100 if form == "dual" else 0)


# ---------------------------------------------------------------- degenerate contexts


def degenerate():
    two = np.array([[1.0, 0.5], [-0.3, 0.8]])
    return {
        "one transition": Case(Context([0, 1], [2.0], 2), two, 0.9, 20, 0.7),
        "one state": Case(Context([0, 0, 0], [1, 2], 1), two[:1], 0.9, 20, 0.7),
        "the same state throughout": Case(
            Context([1] * 6, [1, 2, 3, 4, 5], 2), two, 0.9, 20, 0.7
        ),
        "unseen query": Case(Context([0, 0, 1], [1, 2], 2), two, 0.9, 20, 0.7),
        "rewards of 1e8": Case(
            Context([0, 1, 0, 0], [1e8, -1e8, 3e8], 2), two, 0.9, 20, 0.7
        ),
        "zero features": Case(
            Context([0, 1, 0, 0], [1, 2, 3], 2), np.zeros((2, 3)), 0.9, 20, 0.7
        ),
        "no discount": Case(Context([0, 1, 0, 0], [1, 2, 3], 2), two, 0.0, 20, 0.7),
        "states that look the same": Case(
            Context([0, 1, 0, 0], [1, 2, 3], 2), np.ones((2, 2)), 0.9, 20, 0.7
        ),
        "no layer": Case(Context([0, 1, 0, 0], [1, 2, 3], 2), two, 0.9, 0, 0.7),
    }


@pytest.mark.parametrize("name", degenerate())
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_degenerate_contexts(name, dtype):
    case = degenerate()[name]
    expected = case.iterates()[-1][case.context.states]
    for form, found in forms_of(case, dtype).items():
        assert np.abs(found - expected).max() <= case.tolerance(dtype), form


@given(ergodic_chains(), seeds)
@settings(max_examples=20)
def test_scores_of_a_thousand_choose_and_do_not_overflow(process, seed):
    rng = np.random.default_rng(seed)
    context = sample_context(process, 20, rng)
    x = unit_features(process.n_states, 3, rng)
    case = Case(context, x, process.discount, 5, 0.5, sharpness=1e3)
    for found in forms_of(case, torch.float32).values():
        assert np.isfinite(found).all()


# ---------------------------------------------------------------- modules, and what is refused


def test_a_model_can_be_moved_saved_and_shown():
    model = theta_star(2, 3, 0.9, step_size=[1, 2, 3])
    assert {p.dtype for p in model.parameters()} == {torch.float64}
    assert {p.dtype for p in model.float().parameters()} == {torch.float32}
    other = theta_star(2, 3, 0.9, step_size=[0, 0, 0], dtype=torch.float32)
    other.load_state_dict(model.state_dict())
    np.testing.assert_array_equal(other.w.detach(), model.w.detach())
    assert "d=2, layers=3, discount=0.9, A shared, w per layer" in repr(model)


def test_parameters_are_copies():
    A = torch.eye(2)
    model = SoftmaxTDTransformer(A, torch.ones(3), 0.9, 1)
    A[0, 0] = 5
    assert model.A[0, 0, 0] == 1


@pytest.mark.parametrize("discount", [-0.1, 1.0, 2.0, float("nan")])
@pytest.mark.parametrize("form", FORMS)
def test_a_discount_outside_zero_to_one_is_refused(discount, form):
    with pytest.raises(
        ValueError, match=r"discount: got .*, expected 0 <= discount < 1"
    ):
        theta_star(2, 3, discount, form=form)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dimension": 0}, "dimension: got 0, expected a whole number >= 1"),
        ({"layers": -1}, "layers: got -1, expected a whole number >= 0"),
        (
            {"step_size": [1.0, 2.0]},
            r"step_size: got shape \(2,\), expected a number or \(3,\)",
        ),
        (
            {"sharpness": [[1.0]]},
            r"sharpness: got shape \(1, 1\), expected a number or \(3,\)",
        ),
        ({"step_size": float("inf")}, "step_size: got inf, expected finite numbers"),
        (
            {"form": "triple"},
            r"form: got 'triple', expected one of \['shift', 'dual'\]",
        ),
    ],
)
def test_arguments_of_the_construction_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        theta_star(**{"dimension": 2, "layers": 3, "discount": 0.9} | arguments)


def test_shapes_of_parameters_are_checked():
    eye, w = torch.eye(2), torch.ones(3)
    for A in (torch.ones(2, 3), torch.ones(4, 2, 2), torch.ones(2), torch.ones(0, 0)):
        with pytest.raises(
            ValueError, match=r"A: got shape .*, expected \('d', 'd'\) for all"
        ):
            SoftmaxTDTransformer(A, w, 0.9, 3)
    with pytest.raises(
        ValueError, match=r"w: got shape \(2, 3\), expected \(3,\) for all"
    ):
        SoftmaxTDTransformer(eye, torch.ones(2, 3), 0.9, 3)
    with pytest.raises(
        TypeError, match=r"w: got torch.float64, expected torch.float32, as A"
    ):
        SoftmaxTDTransformer(eye, w.double(), 0.9, 3)
    with pytest.raises(
        TypeError, match=r"A: got torch.int64, expected torch.float32 or"
    ):
        SoftmaxTDTransformer(eye.long(), w, 0.9, 3)
    with pytest.raises(TypeError, match=r"dtype: got torch.bfloat16"):
        theta_star(2, 3, 0.9, dtype=torch.bfloat16)
    with pytest.raises(ValueError, match=r"layer: got 3, expected 0 <= layer < 3"):
        theta_star(2, 3, 0.9).value_matrix(3)


@pytest.mark.parametrize("method", ["forward", "trace"])
def test_prompts_are_checked(method):
    run = getattr(theta_star(2, 3, 0.9), method)
    good = torch.zeros(5, 4).double()
    with pytest.raises(
        ValueError, match=r"Z: got shape \(6, 4\), expected \(..., 5, n \+ 1\)"
    ):
        run(torch.zeros(6, 4).double())
    with pytest.raises(ValueError, match=r"Z: got shape \(5,\), expected"):
        run(good[:, 0])
    with pytest.raises(
        ValueError, match=r"queries: got 1 with 1 columns, expected at least 1"
    ):
        run(good[:, :1])
    for queries in (0, 4):
        with pytest.raises(ValueError, match=f"queries: got {queries} with 4 columns"):
            run(good, queries)
    with pytest.raises(
        TypeError, match=r"Z: got torch.float32 on cpu, expected torch.float64"
    ):
        run(good.float())
    with pytest.raises(
        TypeError, match=r"Z: got torch.int64, expected torch.float32 or"
    ):
        run(good.long())


def test_matrices_of_many_layers_at_once():
    rng = np.random.default_rng(0)
    A, w = (
        torch.tensor(rng.normal(size=(4, 2, 2))),
        torch.tensor(rng.normal(size=(4, 3))),
    )
    for i in range(4):
        np.testing.assert_array_equal(score_matrix(A)[i], score_matrix(A[i]))
        np.testing.assert_array_equal(value_matrix(w, 2)[i], value_matrix(w[i], 2))
