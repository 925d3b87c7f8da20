"""The prompt: what stands where, reading it back, and what is refused."""

import numpy as np
import pytest
import torch

from ictd_lib import Context, gaussian_features, random_boyan_chain, sample_context
from ictd_lib.transformer import (
    PromptRows,
    assemble_prompt,
    build_prompt,
    read_values,
    theta_star,
)


def test_the_prompt_by_hand():
    """Three transitions of two states with two features each."""
    context = Context([0, 1, 1, 0], [5, -2, 7], 2)
    Z = build_prompt(context, [[0.1, 0.2], [0.3, 0.4]])
    expected = [
        [0.1, 0.3, 0.3, 0.1],
        [0.2, 0.4, 0.4, 0.2],
        [5, -2, 7, 0],
        [0, 0, 0, 0],
        [0, 0, 0, 0],
    ]
    assert Z.dtype == torch.float64
    np.testing.assert_array_equal(Z, expected)


def test_rows_have_names():
    rows = PromptRows(4)
    Z = torch.arange(7.0)[:, None].expand(7, 3)
    assert Z[rows.features, 0].tolist() == [0, 1, 2, 3]
    named = rows.reward, rows.target, rows.current, rows.count
    assert named == (4, 5, 6, 7)
    assert PromptRows.of(Z) == rows


def test_further_queries_have_features_and_nothing_else():
    context = Context([0, 1, 0], [5, -2], 3)
    Z = build_prompt(context, np.eye(3), queries=[2, 1])
    assert Z.shape == (6, 5)
    np.testing.assert_array_equal(Z[:, :3], build_prompt(context, np.eye(3)))
    np.testing.assert_array_equal(Z[:3, 3:], np.eye(3)[:, [2, 1]])
    assert (Z[3:, 3:] == 0).all()


def test_batches_are_prompts_side_by_side():
    rng = np.random.default_rng(0)
    features = torch.tensor(rng.normal(size=(2, 3, 6, 4)))
    rewards = torch.tensor(rng.normal(size=(2, 3, 5)))
    memory = torch.tensor(rng.normal(size=(2, 2, 3, 6)))
    Z = assemble_prompt(features, rewards, target=memory[0], current=memory[1])
    assert Z.shape == (2, 3, 7, 6)
    for i, j in np.ndindex(2, 3):
        single = assemble_prompt(
            features[i, j],
            rewards[i, j],
            target=memory[0, i, j],
            current=memory[1, i, j],
        )
        np.testing.assert_array_equal(Z[i, j], single)
    np.testing.assert_array_equal(Z[..., 5, :], memory[0])
    np.testing.assert_array_equal(read_values(Z), memory[1])


def test_values_are_read_from_any_column():
    Z = torch.arange(2 * 5 * 4.0).reshape(2, 5, 4)
    np.testing.assert_array_equal(read_values(Z), Z[:, 4])
    np.testing.assert_array_equal(read_values(Z, 1), Z[:, 4, 1])
    np.testing.assert_array_equal(read_values(Z, -1), Z[:, 4, 3])
    for column in (4, -5):
        with pytest.raises(
            ValueError, match=f"column: got {column}, expected -4 <= column < 4"
        ):
            read_values(Z, column)


def test_inputs_are_not_changed():
    rng = np.random.default_rng(0)
    context = sample_context(random_boyan_chain(4, rng, 0.9), 10, rng)
    features = gaussian_features(4, 3, rng)
    kept = features.copy()
    Z = build_prompt(context, features)
    before = Z.clone()
    theta_star(3, 4, 0.9)(Z)
    np.testing.assert_array_equal(Z, before)
    np.testing.assert_array_equal(features, kept)


@pytest.mark.parametrize(
    ("features", "rewards", "message"),
    [
        ((3,), (2,), r"features: got shape \(3,\), expected \(\.\.\., n \+ 1, d\)"),
        ((3, 0), (2,), r"features: got shape \(3, 0\)"),
        (
            (3, 2),
            (3,),
            r"rewards: got shape \(3,\), expected \('n',\) with 1 <= n <= 2",
        ),
        ((3, 2), (0,), r"rewards: got shape \(0,\)"),
        ((4, 3, 2), (2,), r"rewards: got shape \(2,\), expected \(4, 'n'\)"),
    ],
)
def test_shapes_that_do_not_fit_are_named(features, rewards, message):
    with pytest.raises(ValueError, match=message):
        assemble_prompt(torch.zeros(features), torch.zeros(rewards))


def test_memory_of_another_shape_is_named():
    x, rewards = torch.zeros(3, 2), torch.zeros(2)
    with pytest.raises(ValueError, match=r"current: got shape \(2,\), expected \(3,\)"):
        assemble_prompt(x, rewards, current=torch.zeros(2))


def test_dtypes_are_named():
    with pytest.raises(
        TypeError, match=r"features: got torch.int64, expected torch.fl"
    ):
        assemble_prompt(torch.zeros(3, 2, dtype=torch.int64), torch.zeros(2))
    with pytest.raises(
        TypeError, match=r"rewards: got torch.float64, expected torch.float32"
    ):
        assemble_prompt(torch.zeros(3, 2), torch.zeros(2).double())
    context = Context([0, 1], [1], 2)
    with pytest.raises(TypeError, match=r"dtype: got torch.float16, expected"):
        build_prompt(context, np.eye(2), dtype=torch.float16)


def test_features_and_queries_that_do_not_fit_the_context():
    context = Context([0, 1], [1], 2)
    with pytest.raises(ValueError, match=r"features: got shape \(3, 3\), expected \(2"):
        build_prompt(context, np.eye(3))
    with pytest.raises(
        ValueError, match=r"queries: got \[2\], expected states from 0 to 1"
    ):
        build_prompt(context, np.eye(2), queries=[2])
