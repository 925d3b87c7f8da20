"""The Python side of the figure of chapter 6."""

import html
import json
import re
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import numpy as np
import pytest

from ictd_lib.figures import eigenvalues_figure
from ictd_lib.figures.eigenvalues import CHAINS, LAYERS, REMEDIES, cases


def parts(text: str) -> tuple[dict[str, Any], ElementTree.Element, str]:
    """What the script reads, the still picture, and its description."""
    props = re.search(r'data-props="([^"]*)"', text)
    source = re.search(r'src="data:image/svg\+xml,([^"]*)"', text)
    alt = re.search(r'alt="([^"]*)"', text)
    assert props and source and alt
    picture = ElementTree.fromstring(unquote(source[1]))
    return json.loads(html.unescape(props[1])), picture, html.unescape(alt[1])


def told(**state: Any) -> str:
    return parts(eigenvalues_figure(**state).html())[2]


def radius(alt: str) -> float:
    said = re.search(r"spectral radius is ([\d.]+\d)", alt)
    assert said
    return float(said[1])


def test_html_holds_the_state_and_a_picture() -> None:
    figure = eigenvalues_figure(chain="unequal", remedy="sink", sink=100.0)
    props, picture, alt = parts(figure.html())
    assert props["state"] == figure.state
    assert picture.tag == "{http://www.w3.org/2000/svg}svg"
    assert "three states, unequal norms" in alt and "an attention sink" in alt
    assert [case["name"] for case in props["data"]["cases"]] == [c for c, _ in CHAINS]
    for case in props["data"]["cases"]:
        assert np.array(case["P"]).sum(axis=1) == pytest.approx(1, abs=1e-15)
        assert all(mu > 0 for mu in cases()[case["name"]][0].stationary())
    assert figure.html() == figure.html()


@pytest.mark.parametrize(
    ("chain", "gamma", "expected"),
    [
        ("tour", 0.9, 1.0386),
        ("unequal", 0.5, 1.1625),
        ("equal", 0.9, 1.0028),
        ("one-hot", 0.9, 0.9),
    ],
)
def test_chains_of_the_chapter(chain: str, gamma: float, expected: float) -> None:
    assert radius(told(chain=chain, gamma=gamma)) == expected


@pytest.mark.parametrize("chain", [c for c, _ in CHAINS])
@pytest.mark.parametrize("remedy", [r for r, _ in REMEDIES])
def test_the_picture_tells_the_radius_of_the_layer(chain: str, remedy: str) -> None:
    """From attention as a double loop, not from the library's operators."""
    state = {"sink": 30.0, "sharpness": 0.7, "gamma": 0.8, "step_size": 0.6}
    process, x = cases()[chain]
    mu, P, size = process.stationary(), process.transition, len(process.reward)
    E = np.exp(0.7 * x @ x.T)
    normaliser = E @ mu
    divisor = {
        "none": normaliser,
        "sink": normaliser + 30.0,
        "rescaled": np.full(size, normaliser.max()),
    }[remedy]
    T = np.eye(size)
    for s in range(size):
        for u in range(size):
            weight = mu[u] * E[s, u] / divisor[s]
            T[s] -= 0.6 * weight * (np.eye(size)[u] - 0.8 * P[u])
    alt = told(chain=chain, remedy=remedy, **state)
    assert radius(alt) == pytest.approx(np.abs(np.linalg.eigvals(T)).max(), abs=6e-5)
    said = re.search(rf"([\d.e+-]+) after {LAYERS} layers", alt)
    worst = np.abs(np.linalg.matrix_power(T, LAYERS)).sum(axis=1).max()
    assert said and float(said[1]) == pytest.approx(worst, rel=0.006)


def test_a_sink_and_rescaled_steps_cure_the_tour() -> None:
    assert radius(told()) > 1
    assert radius(told(remedy="sink", sink=6.0)) < 0.97
    assert radius(told(remedy="rescaled")) <= 1


def test_traits_move_the_picture() -> None:
    figure = eigenvalues_figure()
    before = parts(figure.html())[2]
    figure.sharpness = 0.5
    assert parts(figure.html())[2] != before
    figure.set_state({"chain": "one-hot"})  # what the browser sends
    assert "one-hot features" in parts(figure.html())[2]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("chain", "long", r"chain: got 'long', expected one of \['tour'"),
        ("remedy", "hope", r"remedy: got 'hope', expected one of \['none'"),
        ("sink", 0.0, "sink: got 0.0, expected a number from 0.01 to 1e"),
        ("sharpness", 30.0, "sharpness: got 30.0, expected a number from 0.05 to 20"),
        ("gamma", 1.0, "gamma: got 1.0, expected a number from 0 to 0.99"),
        ("step_size", 0.0, "step_size: got 0.0, expected a number from 0.05 to 2.5"),
    ],
)
def test_an_argument_out_of_range_is_named(
    name: str, value: Any, expected: str
) -> None:
    with pytest.raises(ValueError, match=expected):
        eigenvalues_figure(**{name: value})
