"""The Python side of the figure of chapter 5."""

import html
import json
import re
from dataclasses import replace
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from ictd_lib import MarkovRewardProcess, random_boyan_chain
from ictd_lib.figures import pretraining_figure
from ictd_lib.figures.pretraining import SIZE, SNAPSHOTS, new_chain
from ictd_lib.figures.sampling import sample
from ictd_lib.pretraining import Recipe, Run, train


def run_of(w: Any, A: Any, step: Any, **recipe: Any) -> Run:
    """A run with these records, that nobody trained."""
    history: dict[str, NDArray[Any]] = {
        "step": np.array(step),
        "w": np.array(w),
        "A": np.array(A),
    }
    last = {"w": torch.tensor(w[-1:]), "A": torch.tensor(A[-1:])}
    return Run(Recipe(**recipe), 0, step[-1], last, history, np.zeros(step[-1]))


def ramp(**recipe: Any) -> Run:
    """Ten records on a straight way to the construction."""
    far = np.linspace(0, 1, 10)
    w = far[:, None] * [0.5, 0.5, -0.5]
    A = 5 * far[:, None, None] * np.eye(SIZE)
    return run_of(w, A, list(range(0, 100, 10)), **recipe)


def parts(text: str) -> tuple[dict[str, Any], ElementTree.Element, str]:
    """What the script reads, the still picture, and its description."""
    props = re.search(r'data-props="([^"]*)"', text)
    source = re.search(r'src="data:image/svg\+xml,([^"]*)"', text)
    alt = re.search(r'alt="([^"]*)"', text)
    assert props and source and alt
    picture = ElementTree.fromstring(unquote(source[1]))
    return json.loads(html.unescape(props[1])), picture, html.unescape(alt[1])


def test_html_holds_the_state_and_a_picture() -> None:
    figure = pretraining_figure({"a": ramp(), "b": ramp(discount=0.5)}, snapshot=3)
    props, picture, alt = parts(figure.html())
    assert props["state"] == figure.state and props["state"]["run"] == "a"
    assert picture.tag == "{http://www.w3.org/2000/svg}svg"
    assert "step 30 of 90" in alt
    assert [run["name"] for run in props["data"]["runs"]] == ["a", "b"]
    assert [run["gamma"] for run in props["data"]["runs"]] == [0.7, 0.5]
    assert figure.html() == figure.html()


def test_records_of_a_real_run_are_the_snapshots() -> None:
    recipe = Recipe(pool=8, test_pool=2, n=20, layers=2, batch=4, steps=12)
    run = train(recipe, 5, every=3)
    props, _, _ = parts(pretraining_figure({"short": run}).html())
    (replay,) = props["data"]["runs"]
    assert [shot["step"] for shot in replay["snapshots"]] == [0, 3, 6, 9, 12]
    for k, shot in enumerate(replay["snapshots"]):
        assert np.abs(np.array(shot["w"]) - run.history["w"][k]).max() <= 0.0005001
        assert np.abs(np.array(shot["A"]) - run.history["A"][k]).max() <= 0.0005001


def test_long_runs_keep_their_first_steps_and_the_last() -> None:
    count = 601
    run = run_of(
        np.zeros((count, 3)), np.zeros((count, SIZE, SIZE)), list(range(count))
    )
    props, _, _ = parts(pretraining_figure({"long": run}).html())
    steps = [shot["step"] for shot in props["data"]["runs"][0]["snapshots"]]
    assert steps[:6] == [0, 1, 2, 3, 4, 5] and steps[-1] == 600
    assert len(steps) <= SNAPSHOTS and steps == sorted(set(steps))
    assert max(np.diff(np.log1p(steps))) < 0.7


@pytest.mark.parametrize("snapshot", [1, 9])
@pytest.mark.parametrize("layers", [1, 15, 60])
def test_the_still_picture_gives_the_error(snapshot: int, layers: int) -> None:
    """From one matrix and its powers, where the figure runs the Transformer."""
    run = ramp()
    alt = parts(
        pretraining_figure({"a": run}, snapshot=snapshot, layers=layers).html()
    )[2]
    process, X = new_chain()
    context = sample(process, 500, 1)
    A, w = run.history["A"][snapshot].round(3), run.history["w"][snapshot].round(3)
    M = context.counts() * np.exp(X @ A.T @ X.T)
    M /= M.sum(axis=1, keepdims=True)
    P, r, eye = context.empirical_transition(), context.mean_rewards(), np.eye(SIZE)
    T = eye + M @ (w[1] * 0.7 * P + w[2] * eye)
    powers = sum(np.linalg.matrix_power(T, k) for k in range(layers))
    truth = MarkovRewardProcess(process.transition, process.reward, 0.7).values()
    mu = process.stationary()
    error = mu @ (powers @ M @ r * w[0] - truth) ** 2 / (mu @ truth**2)
    said = re.search(r"relative error ([\d.e+-]+\d)", alt)
    assert said and float(said[1]) == pytest.approx(error, rel=0.006)


def test_the_new_chain_is_a_chain() -> None:
    process, X = new_chain()
    raw = random_boyan_chain(SIZE, np.random.default_rng(2027), 0.9)
    assert process.transition.sum(axis=1) == pytest.approx(1, abs=1e-15)
    assert np.abs(process.transition - raw.transition).max() < 5e-4
    assert np.linalg.norm(X, axis=1) == pytest.approx(1, abs=2e-4)


def test_traits_move_the_picture() -> None:
    figure = pretraining_figure({"a": ramp(), "b": ramp(discount=0.5)})
    before = parts(figure.html())[2]
    figure.snapshot = 2
    assert parts(figure.html())[2] != before
    figure.set_state({"run": "b"})  # what the browser sends
    assert "starts with b" in parts(figure.html())[2]


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("run", "c", r"run: got 'c', expected one of \['a'\]"),
        ("snapshot", 10, "snapshot: got 10, expected a whole number from 0 to 9"),
        ("layers", 0, "layers: got 0, expected a whole number from 1 to 60"),
        ("context_length", 5, "context_length: got 5, expected a whole number from 50"),
        ("seed", -1, "seed: got -1, expected a whole number from 0 to"),
    ],
)
def test_an_argument_out_of_range_is_named(
    name: str, value: Any, expected: str
) -> None:
    with pytest.raises(ValueError, match=expected):
        pretraining_figure({"a": ramp()}, **{name: value})


def test_runs_that_cannot_be_shown_are_named() -> None:
    with pytest.raises(ValueError, match="runs: got none"):
        pretraining_figure({})
    with pytest.raises(ValueError, match="runs: got 'x' with dimension 4"):
        pretraining_figure({"x": ramp(dimension=4)})
    free = replace(ramp(), recipe=Recipe(masks=False))
    with pytest.raises(
        ValueError, match="runs: got 'y' with dimension 10 and masks False"
    ):
        pretraining_figure({"y": free})
