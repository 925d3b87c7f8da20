"""Features against their formulas."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import seeds

from ictd_lib import (
    boyan_features,
    gaussian_features,
    one_hot_features,
    unit_features,
)

EPS = np.finfo(float).eps


@given(st.integers(1, 12), st.floats(0, 1e6))
def test_one_hot_inner_products_are_the_sharpness_or_zero(n_states, sharpness):
    x = one_hot_features(n_states, sharpness)
    np.testing.assert_allclose(
        x @ x.T, sharpness * np.eye(n_states), rtol=2 * EPS, atol=0
    )


def test_one_hot_features_are_the_identity_unless_sharpened():
    np.testing.assert_array_equal(one_hot_features(3), np.eye(3))
    np.testing.assert_array_equal(one_hot_features(2, 9), [[3, 0], [0, 3]])


@given(seeds, st.integers(1, 12), st.integers(1, 12))
def test_unit_features_have_norm_one(seed, n_states, dimension):
    x = unit_features(n_states, dimension, np.random.default_rng(seed))
    assert x.shape == (n_states, dimension)
    np.testing.assert_allclose(np.linalg.norm(x, axis=1), 1, rtol=4 * EPS)


def test_unit_features_prefer_no_direction():
    """The second moment of a uniform direction is I/d; 20,000 rows, 5 standard errors."""
    x = unit_features(20_000, 3, np.random.default_rng(0))
    # A square of a coordinate has variance 4/45 in three dimensions, a product less.
    assert np.abs(x.T @ x / 20_000 - np.eye(3) / 3).max() <= 5 * np.sqrt(
        4 / 45 / 20_000
    )
    assert np.abs(x.mean(axis=0)).max() <= 5 * np.sqrt(1 / 3 / 20_000)


@given(seeds, st.floats(0, 1e3))
def test_gaussian_features_scale(seed, scale):
    one = gaussian_features(5, 3, np.random.default_rng(seed))
    scaled = gaussian_features(5, 3, np.random.default_rng(seed), scale)
    np.testing.assert_allclose(scaled, scale * one, rtol=2 * EPS)


def test_gaussian_features_have_the_standard_deviation_asked_for():
    x = gaussian_features(5_000, 4, np.random.default_rng(1), scale=3)
    assert abs(x.std() - 3) <= 5 * 3 / np.sqrt(2 * x.size)
    assert abs(x.mean()) <= 5 * 3 / np.sqrt(x.size)


def test_boyan_features_of_the_original_chain():
    """The table of Boyan (2002), figure 2, from state 12 down to state 0."""
    expected = [
        [1, 0, 0, 0],
        [0.75, 0.25, 0, 0],
        [0.5, 0.5, 0, 0],
        [0.25, 0.75, 0, 0],
        [0, 1, 0, 0],
        [0, 0.75, 0.25, 0],
        [0, 0.5, 0.5, 0],
        [0, 0.25, 0.75, 0],
        [0, 0, 1, 0],
        [0, 0, 0.75, 0.25],
        [0, 0, 0.5, 0.5],
        [0, 0, 0.25, 0.75],
        [0, 0, 0, 1],
    ]
    np.testing.assert_array_equal(boyan_features()[::-1], expected)


@given(st.integers(2, 20), st.data())
def test_boyan_features_interpolate(n_states, data):
    """Linear functions of the state are represented exactly; d anchors give rank d."""
    dimension = data.draw(st.integers(2, n_states))
    x = boyan_features(n_states, dimension)
    assert x.shape == (n_states, dimension)
    assert (x >= 0).all()
    assert ((x > 0).sum(axis=1) <= 2).all()
    np.testing.assert_allclose(x.sum(axis=1), 1, rtol=0, atol=16 * EPS)
    anchors = [
        float(Fraction(n_states - 1) * (1 - Fraction(i, dimension - 1)))
        for i in range(dimension)
    ]
    np.testing.assert_allclose(
        x @ anchors, np.arange(n_states), rtol=0, atol=16 * EPS * n_states
    )
    assert np.linalg.matrix_rank(x) == dimension


def test_features_are_a_function_of_the_generator_alone():
    for make in (unit_features, gaussian_features):
        first, second = (make(4, 3, np.random.default_rng(5)) for _ in range(2))
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda _: one_hot_features(0),
            "n_states: got 0, expected a whole number >= 1",
        ),
        (
            lambda _: one_hot_features(3, -1),
            "sharpness: got -1, expected a finite .* >= 0",
        ),
        (
            lambda _: one_hot_features(3, np.inf),
            "sharpness: got inf, expected a finite",
        ),
        (
            lambda _: one_hot_features(3, np.nan),
            "sharpness: got nan, expected a finite",
        ),
        (
            lambda rng: unit_features(3, 0, rng),
            "dimension: got 0, expected a whole number",
        ),
        (
            lambda rng: unit_features(0, 3, rng),
            "n_states: got 0, expected a whole number",
        ),
        (lambda rng: gaussian_features(3, 2, rng, -1), "scale: got -1, expected"),
        (lambda _: boyan_features(5, 6), "dimension: got 6, expected 2 <= dimension"),
        (
            lambda _: boyan_features(5, 1),
            "dimension: got 1, expected a whole number >= 2",
        ),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call(np.random.default_rng(0))
