"""The figure of chapter 5 in a real browser: its numbers are numpy's; what a reader can find out."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from browser import chromium, served
from figure_pages import (
    FIGURES,
    settle,
    status,
    write_pages,
)
from playwright.sync_api import Page

from ictd_lib import MarkovRewardProcess, random_boyan_chain, random_ergodic_chain
from ictd_lib.figures.sampling import sample

Opened = Callable[..., Page]

pytestmark = pytest.mark.skipif(
    chromium() is None, reason="no Chromium on this machine"
)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("pretraining")
    write_pages(folder, index=FIGURES["pretraining"]().html())
    with served(folder) as base:
        yield base


# ---- the mathematics ---------------------------------------------------------------------------


def random_configuration(rng: np.random.Generator) -> dict[str, Any]:
    size, width = int(rng.integers(2, 9)), int(rng.integers(1, 8))
    if rng.random() < 0.5:
        chain = random_boyan_chain(size, rng, 0.5)
    else:
        chain = random_ergodic_chain(size, rng, 0.5)
    w = (
        rng.normal(size=3)
        if rng.random() < 0.5
        else rng.random() * np.array([1, 1, -1])
    )
    return {
        "P": chain.transition.tolist(),
        "r": chain.reward.tolist(),
        "start": chain.initial.tolist(),
        "X": rng.normal(size=(size, width)).tolist(),
        "A": (
            rng.normal(size=(width, width)) + 4 * rng.random() * np.eye(width)
        ).tolist(),
        "w": w.tolist(),
        "gamma": rng.uniform(0, 0.99),
        "n": int(10 ** rng.uniform(0.7, 3)),
        "layers": int(rng.integers(1, 60)),
        "seed": int(rng.integers(2**32)),
    }


def oracle(config: dict[str, Any]) -> dict[str, Any]:
    """The same once more: a weight for each transition, a layer as a loop over nothing but layers."""
    gamma, P, r = config["gamma"], np.array(config["P"]), np.array(config["r"])
    process = MarkovRewardProcess(P, r, gamma, config["start"])
    context = sample(process, config["n"], config["seed"])
    X, A, w = (np.array(config[name]) for name in "XAw")
    scores = np.array(
        [[X[u] @ A @ X[s] for u in context.sources] for s in range(len(r))]
    )
    K = np.exp(scores - scores.max(axis=1, keepdims=True))
    K /= K.sum(axis=1, keepdims=True)
    kernel = np.stack(
        [K[:, context.sources == u].sum(axis=1) for u in range(len(r))], 1
    )
    S, v, sizes = context.states, np.zeros(len(r)), []
    for _ in range(config["layers"]):
        read = w[0] * context.rewards + w[1] * gamma * v[S[1:]] + w[2] * v[S[:-1]]
        v = v + K @ read
        sizes.append(np.abs(v).max())
    truth, mu = process.values(), process.stationary()
    beyond = np.flatnonzero(np.array(sizes) > 1e3)
    return {
        "kernel": kernel,
        "diagonality": kernel.diagonal().mean(),
        "least": kernel.diagonal().min(),
        "stepSize": w @ [1, 1, -1] / 3,
        "sharpness": A.trace() / len(A),
        "values": v,
        "error": mu @ (v - truth) ** 2 / (mu @ truth**2),
        "diverged": int(beyond[0]) + 1 if len(beyond) else None,
        "close": any(abs(size / 1e3 - 1) < 1e-6 for size in sizes),
    }


IN_THE_BROWSER = """(configs) => JSON.stringify(JSON.parse(configs).map((config) => {
    const { task, analyse } = ictd.figures.pretraining.mathematics;
    return analyse(config, task(config), 1e3);
}))"""


def test_the_browsers_numbers_are_numpys(opened: Opened, base: str) -> None:
    rng = np.random.default_rng(12)
    configs = [random_configuration(rng) for _ in range(1200)]
    page = opened(f"{base}/index.html")
    answers = json.loads(page.evaluate(IN_THE_BROWSER, json.dumps(configs)))
    worst: dict[str, float] = {}
    diverged = 0
    for config, got in zip(configs, answers, strict=True):
        expected = oracle(config)
        assert not expected.pop("close")
        assert got["diverged"] == expected.pop("diverged")
        if got["diverged"]:
            diverged += 1
            assert got["values"] is None and got["error"] is None
            del expected["values"], expected["error"]
        for name, known in expected.items():
            size = max(np.abs(known).max(), 1.0)
            error = np.abs(np.array(got[name]) - known).max() / size
            worst[name] = max(worst.get(name, 0.0), float(error))
    print(f"{len(configs)} configurations, {diverged} diverge; worst errors {worst}")
    assert 50 < diverged < 600
    assert max(worst.values()) < 1e-9, worst


def told(page: Page) -> float:
    """Return the relative error that the summary gives."""
    match = re.search(
        r"Relative error (\d+(?:\.\d+)?)(?:·10⁻(\S+?))?[ .]", status(page)
    )
    assert match, status(page)
    return float(match[1]) / 10 ** "⁰¹²³⁴⁵⁶⁷⁸⁹".index(match[2] or "⁰")


def test_a_figure_says_what_its_still_picture_says(opened: Opened, base: str) -> None:
    page = opened(f"{base}/index.html")
    still = page.evaluate("() => fetch(location).then((answer) => answer.text())")
    drawn = re.search(r"relative error (\d+(?:\.\d+)?)", still)
    assert drawn and told(page) == float(drawn[1])


# ---- what a reader can find out ----------------------------------------------------------------


def test_training_lowers_the_error_and_raises_the_diagonal(
    opened: Opened, base: str
) -> None:
    page = opened(f"{base}/index.html")
    end = told(page)
    assert "Signs (+, +, −)" in status(page) and "α = 0.5, τ = 5" in status(page)
    page.get_by_role("slider", name="snapshot").press("Home")
    settle(page)
    assert "Step 0 of 400" in status(page)
    assert told(page) == 1 and end < 0.05


def test_more_layers_and_more_context_than_in_training_help(
    opened: Opened, base: str
) -> None:
    page = opened(f"{base}/index.html")
    trained = told(page)
    page.get_by_role("slider", name="context length").press("End")
    page.get_by_role("slider", name="layers").press("End")
    settle(page)
    assert told(page) < trained / 3


def test_a_trapped_run_answers_nothing(opened: Opened, base: str) -> None:
    page = opened(f"{base}/index.html")
    page.select_option("[id$=-run]", "trapped")
    settle(page)
    assert "Signs (−, −, −)" in status(page)
    assert told(page) > 0.8
    assert page.locator(".ictd-negative rect").count() == 100


def test_a_diverging_model_raises_the_alarm(opened: Opened, base: str) -> None:
    page = opened(f"{base}/index.html")
    page.select_option("[id$=-run]", "wild")
    settle(page)
    assert "Diverges at layer" in status(page)
    assert "ictd-alarm" in (page.get_attribute("figure", "class") or "")
