"""The Python side of chapter 2's figure: its arguments, its still picture, its numbers."""

import html
import json
import re
from urllib.parse import unquote
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import ergodic_chains, seeds

from ictd_lib import Context, gaussian_features, sample_context
from ictd_lib.figures import dual_head_steps
from ictd_lib.figures.dual_head import prompts
from ictd_lib.transformer import build_prompt, theta_star


def parts(text):
    props = re.search(r'data-props="([^"]*)"', text)
    source = re.search(r'src="data:image/svg\+xml,([^"]*)"', text)
    alt = re.search(r'alt="([^"]*)"', text)
    picture = ElementTree.fromstring(unquote(source[1]))
    return json.loads(html.unescape(props[1])), picture, html.unescape(alt[1])


@settings(max_examples=30)
@given(ergodic_chains(), seeds, st.integers(1, 8), st.integers(1, 4))
def test_the_picture_shows_the_transformers_numbers(process, seed, n, d):
    rng = np.random.default_rng(seed)
    context = sample_context(process, n, rng)
    x = gaussian_features(process.n_states, d, rng)
    knobs = {"sharpness": rng.uniform(0, 5), "gamma": process.discount}
    passed, W = prompts(context, x, alpha=0.7, layers=4, **knobs)
    model = theta_star(
        d,
        4,
        process.discount,
        step_size=0.7,
        sharpness=knobs["sharpness"],
        form="dual",
    )
    expected = model.trace(build_prompt(context, x)).detach().numpy()
    assert np.abs(passed - expected).max() <= 1e-12 * np.abs(expected).max()
    assert not W[n].any()
    np.testing.assert_allclose(W.sum(axis=0), 1, rtol=1e-14)


def test_an_unmasked_query_by_hand():
    """Two columns of equal features: half of every sum is the query's own, 0 - v."""
    context = Context([0, 0], [1.0], 1)
    passed, W = prompts(
        context,
        np.array([[1.0]]),
        sharpness=3.0,
        gamma=0.5,
        alpha=1.0,
        query_is_source=True,
        layers=2,
    )
    np.testing.assert_allclose(W, 0.5)
    np.testing.assert_allclose(passed[1, -1], 0.5)
    # (1 + .5 * .5 - .5) / 2 + (0 + 0 - .5) / 2 = .125
    np.testing.assert_allclose(passed[2, -1], 0.625)


def test_the_given_context_is_shown_first_and_others_are_drawn():
    context = Context([0, 1, 0], [2.5, -1.0], 2)
    process_like = [[0.5, 0.5], [0.5, 0.5]]
    from ictd_lib import MarkovRewardProcess

    process = MarkovRewardProcess(process_like, [2.5, -1.0], 0.5)
    figure = dual_head_steps(context, np.eye(2), process)
    props, _, alt = parts(figure.html())
    assert props["state"]["seed"] == 0
    assert props["state"]["gamma"] == process.discount
    assert dual_head_steps(process=process, gamma=0.7).gamma == 0.7
    assert props["data"]["context"] == {"states": [0, 1, 0], "rewards": [2.5, -1.0]}
    assert props["data"]["n"] == 2
    assert "states 0, 1, 0" in alt
    figure.seed = 3
    assert "never" not in parts(figure.html())[2]
    assert figure.html() == figure.html()


def test_the_picture_of_a_layer():
    figure = dual_head_steps(step=9, last_column="source")
    _, picture, alt = parts(figure.html())
    assert picture.tag == "{http://www.w3.org/2000/svg}svg"
    assert "after 2 of 6 layers" in alt and "is a source, too" in alt
    assert "nan" not in alt
    assert figure.html() == dual_head_steps(step=9, last_column="source").html()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"step": 25}, "step: got 25, expected a whole number from 0 to 24"),
        ({"alpha": 2.0}, "alpha: got 2.0, expected a number from 0.05 to 1.5"),
        ({"last_column": "open"}, "last_column: got 'open', expected one of"),
        ({"features": np.ones((8, 5))}, "features: got 5 columns, expected at most 4"),
        (
            {"context": Context([0] * 10, [0.0] * 9, 8)},
            "context: got 9 transitions over 8 states, expected at most 8 over 8",
        ),
        (
            {"context": Context([0, 1], [0.0], 3)},
            "context: got 1 transitions over 3 states, expected at most 8 over 8",
        ),
    ],
)
def test_an_argument_out_of_range_is_named(arguments, expected):
    with pytest.raises(ValueError, match=expected):
        dual_head_steps(**arguments)


@pytest.mark.parametrize("name", ["context", "process"])
def test_an_argument_of_another_type_is_named(name):
    with pytest.raises(TypeError, match=f"{name}: got list, expected a "):
        dual_head_steps(**{name: [0, 1]})
