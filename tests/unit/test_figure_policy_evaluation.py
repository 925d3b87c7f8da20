"""The Python side of the figure of chapter 0."""

import html
import json
import re
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import numpy as np
import pytest

from ictd_lib import random_boyan_chain
from ictd_lib.figures import policy_evaluation_figure
from ictd_lib.figures.policy_evaluation import (
    CHAINS,
    STARTS,
    chains,
    first_beliefs,
    iterates,
    returns,
)


def parts(text: str) -> tuple[dict[str, Any], ElementTree.Element, str]:
    """What the script reads, the still picture, and its description."""
    props = re.search(r'data-props="([^"]*)"', text)
    source = re.search(r'src="data:image/svg\+xml,([^"]*)"', text)
    alt = re.search(r'alt="([^"]*)"', text)
    assert props and source and alt
    picture = ElementTree.fromstring(unquote(source[1]))
    return json.loads(html.unescape(props[1])), picture, html.unescape(alt[1])


def test_html_holds_the_state_and_a_picture() -> None:
    figure = policy_evaluation_figure(chain="tour", gamma=0.5, seed=3)
    props, picture, alt = parts(figure.html())
    assert props["state"] == figure.state
    assert picture.tag == "{http://www.w3.org/2000/svg}svg"
    assert "round and round" in alt and "discount 0.5" in alt
    assert [chain["name"] for chain in props["data"]["chains"]] == [
        n for n, _ in CHAINS
    ]
    for chain in props["data"]["chains"]:
        assert np.array(chain["P"]).sum(axis=1) == pytest.approx(1, abs=1e-15)
    assert figure.html() == figure.html()


def test_the_first_chain_is_the_chapters_and_all_pay_the_same() -> None:
    chapters = random_boyan_chain(8, np.random.default_rng(2026), 0.9)
    assert np.array_equal(chains()["boyan"].transition, chapters.transition)
    for process in chains(0.7).values():
        assert np.array_equal(process.reward, chapters.reward)
        assert process.discount == 0.7


@pytest.mark.parametrize("start", [name for name, _ in STARTS])
@pytest.mark.parametrize("chain", [name for name, _ in CHAINS])
def test_the_still_picture_gives_the_error(chain: str, start: str) -> None:
    """From one matrix power, where the figure repeats backups."""
    figure = policy_evaluation_figure(chain=chain, start=start, backups=7, origin=2)
    alt = parts(figure.html())[2]
    process = chains(0.9)[chain]
    truth = np.linalg.solve(np.eye(8) - 0.9 * process.transition, process.reward)
    off = {"zero": -truth, "shifted": np.ones(8), "one": np.eye(8)[2]}[start]
    error = 0.9**7 * np.abs(np.linalg.matrix_power(process.transition, 7) @ off).max()
    said = re.search(r"largest error is ([\d.e+-]+\d)", alt)
    assert said
    assert float(said[1]) == pytest.approx(error, rel=0.006)


@pytest.mark.parametrize("chain", [name for name, _ in CHAINS])
def test_backups_are_the_mean_of_runs_and_the_deviation_theirs(chain: str) -> None:
    """Against every path of four steps, each with its probability."""
    process, steps = chains(0.8)[chain], 4
    first = np.linspace(-2, 1, 8)
    beliefs, deviations = iterates(process, first, steps)
    paths = np.indices((8,) * steps).reshape(steps, -1)
    for origin in (0, 3, 7):
        at = np.vstack([np.full(paths.shape[1], origin), paths])
        probability = process.transition[at[:-1], at[1:]].prod(axis=0)
        total = 0.8 ** np.arange(steps) @ process.reward[at[:-1]]
        total = total + 0.8**steps * first[at[-1]]
        mean = probability @ total
        assert beliefs[steps, origin] == pytest.approx(mean, abs=1e-13)
        variance = probability @ (total - mean) ** 2
        assert deviations[steps, origin] ** 2 == pytest.approx(variance, abs=1e-13)


def test_returns_scatter_as_they_should() -> None:
    process = chains(0.9)["boyan"]
    first = np.linspace(-1, 2, 8)
    beliefs, deviations = iterates(process, first, 12)
    found = returns(process, first, 12, 4, runs=4000, seed=2)
    error = found.mean() - beliefs[12, 4]
    assert abs(error) < 4 * deviations[12, 4] / np.sqrt(4000)
    assert found.std() == pytest.approx(deviations[12, 4], rel=0.05)


def test_a_longer_run_goes_on_where_the_shorter_ended() -> None:
    process, nothing = chains(0.9)["walk"], np.zeros(8)
    short, long = (returns(process, nothing, k, 3, runs=50, seed=5) for k in (10, 11))
    last = (long - short) / 0.9**10
    assert np.abs(last[:, None] - process.reward).min(axis=1) == pytest.approx(0)
    assert np.array_equal(returns(process, nothing, 10, 3, runs=20, seed=5), short[:20])


def test_no_step_returns_the_belief_and_a_tour_has_no_noise() -> None:
    process = chains(0.9)["tour"]
    truth = process.values()
    first = first_beliefs("one", truth, 6)
    assert np.array_equal(returns(process, first, 0, 6, runs=3, seed=1), [first[6]] * 3)
    beliefs, deviations = iterates(process, first, 30)
    assert (deviations == 0).all()
    assert np.ptp(returns(process, first, 30, 6, runs=5, seed=1)) == 0
    # Nothing is averaged, so that even a single wrong state fades no faster than the bound.
    assert np.abs(beliefs - truth).max(axis=1) == pytest.approx(0.9 ** np.arange(31))


def test_a_constant_error_attains_the_bound_in_every_chain() -> None:
    for process in chains(0.95).values():
        truth = process.values()
        beliefs, _ = iterates(process, first_beliefs("shifted", truth, 0), 100)
        errors = np.abs(beliefs - truth).max(axis=1)
        assert errors == pytest.approx(0.95 ** np.arange(101), rel=1e-9)


def test_what_chapter_0_asks() -> None:
    """Which state is worst, and how long a constant error lasts."""
    beliefs, _ = iterates(chains(0.9)["boyan"], np.zeros(8), 200)
    assert beliefs[1].argmin() == 5 and (beliefs[2:].argmin(axis=1) == 3).all()
    worst = [chains(g / 100)["boyan"].values().argmin() for g in range(100)]
    assert worst == [5] * 49 + [3] * 51


def test_traits_move_the_picture() -> None:
    figure = policy_evaluation_figure()
    before = parts(figure.html())[2]
    figure.backups = 40
    assert parts(figure.html())[2] != before
    figure.set_state({"chain": "walk"})  # what the browser sends
    assert "random walk" in parts(figure.html())[2]


@pytest.mark.parametrize("state", [{"gamma": 0.0}, {"backups": 0, "runs": 1}])
def test_extremes_draw_a_picture(state: dict[str, Any]) -> None:
    _, picture, alt = parts(policy_evaluation_figure(**state).html())
    text = ElementTree.tostring(picture, "unicode").replace("nance", "") + alt
    assert "nan" not in text and "inf" not in text.replace("info", "")


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("chain", "ring", r"chain: got 'ring', expected one of \['boyan'"),
        ("start", "none", r"start: got 'none', expected one of \['zero'"),
        ("gamma", 1.0, "gamma: got 1.0, expected a number from 0 to 0.99"),
        ("backups", 201, "backups: got 201, expected a whole number from 0 to 200"),
        ("origin", 8, "origin: got 8, expected a whole number from 0 to 7"),
        ("runs", 0, "runs: got 0, expected a whole number from 1 to 1000"),
        ("seed", -1, "seed: got -1, expected a whole number from 0 to"),
    ],
)
def test_an_argument_out_of_range_is_named(
    name: str, value: Any, expected: str
) -> None:
    with pytest.raises(ValueError, match=expected):
        policy_evaluation_figure(**{name: value})
