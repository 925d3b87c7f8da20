"""The figure of chapter 4 in a real browser: its numbers are numpy's; what a reader can find out."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from browser import chromium, served
from figure_pages import (
    Floats,
    settle,
    status,
    write_pages,
)
from playwright.sync_api import Page
from scipy.linalg import eig

from ictd_lib import MarkovRewardProcess, random_boyan_chain, random_ergodic_chain
from ictd_lib.figures import contraction_figure
from ictd_lib.figures.sampling import sample

Opened = Callable[..., Page]
TASKS = ("one-hot", "arc", "slow", "loud")

pytestmark = pytest.mark.skipif(
    chromium() is None, reason="no Chromium on this machine"
)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("contraction")
    write_pages(folder, index=contraction_figure().html())
    with served(folder) as base:
        yield base


# ---- the mathematics ---------------------------------------------------------------------------


LOUD = [
    [0.0, 0.05, 0.95],
    [0.4, 0.6, 0.0],
    [1.0, 0.0, 0.0],
]  # diverges with these features


def random_configuration(rng: np.random.Generator) -> dict[str, Any]:
    size = int(rng.integers(2, 8))
    if rng.random() < 0.5:
        chain = random_boyan_chain(size, rng, 0.5)
    else:
        chain = random_ergodic_chain(
            size, rng, 0.5, concentration=rng.choice([0.1, 1, 10])
        )
    directions = rng.normal(size=(size, int(rng.integers(1, 7))))
    unit = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    features = np.eye(size) if rng.random() < 0.5 else unit
    if rng.random() < 0.1:
        chain = MarkovRewardProcess(LOUD, rng.normal(size=3), 0.5)
        features = np.array([[0.4], [2.4], [2.0]])
    return {
        "P": chain.transition.tolist(),
        "r": chain.reward.tolist(),
        "start": chain.initial.tolist(),
        "X": features.tolist(),
        "gamma": rng.uniform(0, 0.99),
        "sharpness": 10 ** rng.uniform(-1, 2),
        "n": int(10 ** rng.uniform(0.7, 3)),
        "layers": int(rng.integers(1, 120)),
        "seed": int(rng.integers(2**32)),
    }


def softmax(scores: Floats, weights: Floats) -> Floats:
    e = weights * np.exp(
        scores - scores[:, weights > 0].max(axis=1, keepdims=True, initial=-np.inf)
    )
    return np.asarray(e / e.sum(axis=1, keepdims=True))


def oracle(config: dict[str, Any]) -> dict[str, Any]:
    """The same once more, from the equations of chapter 4."""
    gamma, P, r = config["gamma"], np.array(config["P"]), np.array(config["r"])
    process = MarkovRewardProcess(P, r, gamma, config["start"])
    context = sample(process, config["n"], config["seed"])
    visits = context.counts()
    left = np.flatnonzero(visits)
    X = np.array(config["X"])
    scores = config["sharpness"] * X @ X.T
    M, truth = softmax(scores, visits.astype(float)), process.values()
    population = softmax(scores, process.stationary())
    transition, reward = context.empirical_transition(), context.mean_rewards()
    iterates = [np.zeros(len(r))]
    for _ in range(config["layers"]):
        v = iterates[-1]
        iterates.append(v + M @ (reward + gamma * transition @ v - v))
    found: dict[str, Any] = {
        "own": M.diagonal(),
        "population": population.diagonal(),
        "margin": M.diagonal()[left].min() - (1 + gamma) / 2,
        "toTruth": np.abs(np.array(iterates) - truth).max(axis=1),
        "radius": None,
        "floor": None,
        "toLimit": None,
        "blurred": False,
    }
    if visits[context.states[-1]]:
        among = np.ix_(left, left)
        residual = np.eye(len(left)) - gamma * transition[among]
        limit = np.linalg.solve(residual, reward[left])
        error = np.eye(len(left)) - M[among] @ residual
        eigenvalues, before, after = eig(error, left=True)
        found["radius"] = np.abs(eigenvalues).max()
        # Where eigenvalues nearly coincide, half of the 16 digits are all that can be had.
        overlap = np.abs((before.conj() * after).sum(axis=0))
        found["blurred"] = overlap.min() < 1e-3
        found["floor"] = np.abs(limit - truth[left]).max()
        found["toLimit"] = np.abs(np.array(iterates)[:, left] - limit).max(axis=1)
    return found


IN_THE_BROWSER = """(configs) => JSON.stringify(JSON.parse(configs).map(
    (config) => ictd.figures.contraction.mathematics.analyse(config)))"""


def test_the_browsers_numbers_are_numpys(opened: Opened, base: str) -> None:
    rng = np.random.default_rng(11)
    configs = [random_configuration(rng) for _ in range(1500)]
    page = opened(f"{base}/index.html")
    answers = json.loads(page.evaluate(IN_THE_BROWSER, json.dumps(configs)))
    worst: dict[str, float] = {}
    blurred = 0
    seen = {"radius": 0, "missing": 0, "holds": 0, "diverged": 0}
    for config, got in zip(configs, answers, strict=True):
        expected = oracle(config)
        steps, near = len(got["toTruth"]), expected.pop("blurred")
        seen["diverged"] += got["diverged"] is not None
        seen["radius"] += got["radius"] is not None
        seen["missing"] += got["missing"] > 0
        seen["holds"] += got["margin"] > 0
        for name, known in expected.items():
            assert (got[name] is None) == (known is None), name
            if known is None:
                continue
            numbers = known[:steps] if name in ("toTruth", "toLimit") else known
            # Relative to the largest number, to 1 where that is what weights sum to, and to the values where
            # it is a difference of them: the floor may be 0 but for rounding.
            least = {"radius": 1.0, "margin": 1.0, "floor": expected["toTruth"][0]}
            size = max(np.abs(numbers).max(), least.get(name, 0.0))
            error = np.abs(np.array(got[name]) - numbers).max() / size
            if name == "radius" and near:
                blurred += 1
                assert error < 1e-6
                continue
            worst[name] = max(worst.get(name, 0.0), float(error))
    print(
        f"{len(configs)} configurations, {seen}, {blurred} blurred; worst errors {worst}"
    )
    assert seen["radius"] > 1000 and seen["missing"] > 100 and seen["holds"] > 100
    assert seen["diverged"] > 5 and blurred < 0.03 * len(configs)
    assert max(worst.values()) < 1e-9, worst


@pytest.mark.parametrize(
    ("matrix", "radius"),
    [
        ([[0, 0], [0, 0]], 0.0),
        ([[0, 1], [0, 0]], 0.0),  # nilpotent
        ([[0, 2], [0.5, 0]], 1.0),  # a pair of opposite eigenvalues
        ([[0.6, -0.8], [0.8, 0.6]], 1.0),  # a rotation
        ([[1e-8, 1], [0, 1e-8]], 1e-8),  # defective, and far from normal
        ([[1e200]], 1e200),
    ],
)
def test_spectral_radius(
    opened: Opened, base: str, matrix: list[list[float]], radius: float
) -> None:
    page = opened(f"{base}/index.html")
    found = page.evaluate(
        "(A) => ictd.figures.contraction.mathematics.spectralRadius(A)", matrix
    )
    assert found == pytest.approx(radius, rel=1e-10, abs=0)


def test_a_figure_says_what_its_still_picture_says(opened: Opened, base: str) -> None:
    page = opened(f"{base}/index.html")
    for task in TASKS:
        page.select_option("[id$=-task]", task)
        settle(page)
        still = contraction_figure(task=task).html()
        if task == "loud":
            assert "Diverges" in status(page) and "it diverges" in still
            continue
        said, drawn = (
            re.search(r"the error is (\d+(?:\.\d+)?)", text)
            for text in (status(page), still)
        )
        assert said and drawn
        assert float(said[1]) == float(drawn[1]), task


# ---- what a reader can find out ----------------------------------------------------------------


def told(page: Page) -> dict[str, float]:
    """Return the numbers that the summary gives; a margin is negative where 5.1 fails."""
    text = status(page).replace("−", "-").replace("·10⁻", "e-")
    text = re.sub(
        r"e-([⁰¹²³⁴⁵⁶⁷⁸⁹]+)",
        lambda m: f"e-{''.join(str('⁰¹²³⁴⁵⁶⁷⁸⁹'.index(c)) for c in m[1])}",
        text,
    )
    number = r"(\d+(?:\.\d+)?(?:e-\d+)?)"
    patterns = {
        "error": rf"the error is {number}",
        "floor": rf"floor of this context is {number}",
        "factor": rf"multiplies the error by {number}",
    }
    found = {}
    for name, pattern in patterns.items():
        match = re.search(pattern, text)
        if match:
            found[name] = float(match[1])
    for name, where in (("C", "in the chain"), ("margin", "in this context")):
        match = re.search(rf"(margin|by) {number}[^\d]*? {where}", text)
        assert match, text
        found[name] = float(match[2]) * (1 if match[1] == "margin" else -1)
    return found


def test_depth_ends_at_the_floor_and_context_lowers_it(
    opened: Opened, base: str
) -> None:
    page = opened(f"{base}/index.html")
    page.get_by_role("slider", name="layers").press("End")
    settle(page)
    short = told(page)
    assert short["error"] == pytest.approx(short["floor"], rel=0.01)
    page.get_by_role("slider", name="sharpness").press("PageDown")
    settle(page)
    assert told(page)["floor"] == short["floor"]  # the kernel has no part in it
    page.get_by_role("slider", name="context length").press("End")
    settle(page)
    assert told(page)["floor"] < short["floor"] / 3


def test_below_the_threshold_it_may_converge_or_not(opened: Opened, base: str) -> None:
    page = opened(f"{base}/index.html")
    page.select_option("[id$=-task]", "arc")
    settle(page)
    arc = told(page)
    assert arc["C"] < -0.5 and arc["margin"] < -0.5
    assert arc["factor"] < 0.95
    page.select_option("[id$=-task]", "loud")
    settle(page)
    assert "Diverges at layer" in status(page)
    assert "ictd-alarm" in (page.get_attribute("figure", "class") or "")
    assert told(page)["factor"] > 1


def test_bounds_appear_where_the_margin_is_positive(opened: Opened, base: str) -> None:
    page = opened(f"{base}/index.html")
    for sharpness, count in (("End", 1), ("Home", 0)):
        page.get_by_role("slider", name="sharpness").press(sharpness)
        settle(page)
        for bound in (".ictd-bound", ".ictd-paper"):
            drawn = page.locator(f".ictd-panel > svg {bound}")
            assert drawn.count() == count


def test_short_contexts_say_what_they_miss(opened: Opened, base: str) -> None:
    page = opened(f"{base}/index.html")
    page.get_by_role("slider", name="context length").press("Home")
    settle(page)
    assert re.search(r"\d of 8 states were never left", status(page))
