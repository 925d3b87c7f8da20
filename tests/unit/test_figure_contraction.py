"""The Python side of the figure of chapter 4."""

import html
import json
import re
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import numpy as np
import pytest

from ictd_lib import MarkovRewardProcess, attention_matrix, context_kernel
from ictd_lib.figures import contraction_figure
from ictd_lib.figures.contraction import TASKS, cases
from ictd_lib.figures.sampling import sample


def parts(text: str) -> tuple[dict[str, Any], ElementTree.Element, str]:
    """What the script reads, the still picture, and its description."""
    props = re.search(r'data-props="([^"]*)"', text)
    source = re.search(r'src="data:image/svg\+xml,([^"]*)"', text)
    alt = re.search(r'alt="([^"]*)"', text)
    assert props and source and alt
    picture = ElementTree.fromstring(unquote(source[1]))
    return json.loads(html.unescape(props[1])), picture, html.unescape(alt[1])


def test_html_holds_the_state_and_a_picture() -> None:
    figure = contraction_figure(task="arc", gamma=0.5, seed=3)
    props, picture, alt = parts(figure.html())
    assert props["state"] == figure.state
    assert picture.tag == "{http://www.w3.org/2000/svg}svg"
    assert "neighbours alike" in alt and "threshold 0.75" in alt
    assert [case["name"] for case in props["data"]["cases"]] == [t for t, _ in TASKS]
    for case in props["data"]["cases"]:
        assert np.array(case["P"]).sum(axis=1) == pytest.approx(1, abs=1e-15)
        assert all(mu > 0 for mu in cases()[case["name"]][0].stationary())
    assert figure.html() == figure.html()


@pytest.mark.parametrize("task", ["one-hot", "arc", "slow"])
@pytest.mark.parametrize("layers", [0, 1, 200])
def test_the_still_picture_gives_the_error(task: str, layers: int) -> None:
    """From one matrix and its powers, where the figure runs the algorithm."""
    figure = contraction_figure(task=task, layers=layers)
    alt = parts(figure.html())[2]
    process, features = cases()[task]
    context = sample(process, figure.state["context_length"], figure.state["seed"])
    scores = figure.state["sharpness"] * features @ features.T
    M = attention_matrix(context, context_kernel(context, scores))
    gamma = figure.state["gamma"]
    T = np.eye(len(M)) - M @ (np.eye(len(M)) - gamma * context.empirical_transition())
    powers = sum(
        (np.linalg.matrix_power(T, k) for k in range(layers)), start=np.zeros_like(T)
    )
    truth = MarkovRewardProcess(process.transition, process.reward, gamma).values()
    error = np.abs(powers @ M @ context.mean_rewards() - truth).max()
    said = re.search(r"the error is ([\d.e+-]+\d)", alt)
    own = re.search(r"([\d.]+) to ([\d.]+), against", alt)
    assert said and own
    assert float(said[1]) == pytest.approx(error, rel=0.006)
    assert float(own[1]) == pytest.approx(M.diagonal().min(), rel=0.006)
    assert float(own[2]) == pytest.approx(M.diagonal().max(), rel=0.006)


def test_a_diverging_run_is_called_one() -> None:
    _, picture, alt = parts(contraction_figure(task="loud").html())
    assert "it diverges" in alt
    assert "nan" not in ElementTree.tostring(picture, "unicode").replace("nance", "")


def test_traits_move_the_picture() -> None:
    figure = contraction_figure()
    before = parts(figure.html())[2]
    figure.sharpness = 3.0
    assert parts(figure.html())[2] != before
    figure.set_state({"task": "slow"})  # what the browser sends
    assert "two states" in parts(figure.html())[2]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("task", "fast", r"task: got 'fast', expected one of \['one-hot'"),
        ("sharpness", 0.0, "sharpness: got 0.0, expected a number from 0.1 to 100"),
        ("gamma", 1.0, "gamma: got 1.0, expected a number from 0 to 0.99"),
        ("context_length", 5, "context_length: got 5, expected a whole number from 10"),
        ("layers", 201, "layers: got 201, expected a whole number from 0 to 200"),
        ("seed", -1, "seed: got -1, expected a whole number from 0 to"),
    ],
)
def test_an_argument_out_of_range_is_named(
    name: str, value: Any, expected: str
) -> None:
    with pytest.raises(ValueError, match=expected):
        contraction_figure(**{name: value})
