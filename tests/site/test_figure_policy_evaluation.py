"""The figure of chapter 0 in a real browser: its numbers are numpy's; what a reader can find out."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from browser import chromium, served
from figure_pages import (
    Floats,
    picture,
    settle,
    status,
    write_pages,
)
from playwright.sync_api import Page

from ictd_lib import random_boyan_chain, random_ergodic_chain, random_walk
from ictd_lib.figures import policy_evaluation_figure
from ictd_lib.figures.sampling import splitmix32

Opened = Callable[..., Page]
CHAINS = ("boyan", "walk", "tour", "anywhere")
STARTS = ("zero", "shifted", "one")

pytestmark = pytest.mark.skipif(
    chromium() is None, reason="no Chromium on this machine"
)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("policy-evaluation")
    write_pages(folder, index=policy_evaluation_figure().html())
    with served(folder) as base:
        yield base


# ---- the mathematics ---------------------------------------------------------------------------


def random_configuration(rng: np.random.Generator) -> dict[str, Any]:
    size = int(rng.integers(2, 11))
    chain = [
        lambda: random_boyan_chain(size, rng, 0.5),
        lambda: random_walk(size, 0.5, rng.uniform(0.1, 0.9)),
        lambda: random_ergodic_chain(size, rng, 0.5, rng.choice([0.1, 1, 10])),
    ][rng.integers(3)]()
    transition = chain.transition
    if rng.random() < 0.1:
        transition = np.eye(size)[rng.permutation(size)]  # no chance in it at all
    return {
        "P": transition.tolist(),
        "r": (chain.reward * 10 ** rng.uniform(-3, 3)).tolist(),
        "start": str(rng.choice(STARTS)),
        "gamma": float(rng.choice([0, rng.uniform(0, 0.99), 0.99])),
        "backups": int(rng.integers(0, 60)),
        "origin": int(rng.integers(size)),
        "runs": int(rng.integers(1, 20)),
        "seed": int(rng.integers(2**32)),
        "most": 60,
    }


def oracle(config: dict[str, Any]) -> dict[str, Any]:
    """The same once more, from the definitions of chapter 0."""
    gamma, P, r = config["gamma"], np.array(config["P"]), np.array(config["r"])
    s, k, most = config["origin"], config["backups"], config["most"]
    truth = np.linalg.inv(np.eye(len(r)) - gamma * P) @ r
    off = {"shifted": np.ones(len(r)), "one": np.eye(len(r))[s], "zero": -truth}
    # The error is multiplied by gamma P, the second moment follows a recursion of its own.
    errors = [off[config["start"]]]
    first = truth + errors[0]
    second = [first**2]
    for _ in range(most):
        ahead = P @ (truth + errors[-1])
        second.append(r**2 + 2 * gamma * r * ahead + gamma**2 * P @ second[-1])
        errors.append(gamma * P @ errors[-1])
    iterates = truth + np.array(errors)
    uniform = np.empty((config["runs"], k))
    for row, u in zip(uniform, splitmix32(config["seed"]), strict=False):
        own = splitmix32(int(u * 2**32))
        row[:] = [next(own) for _ in range(k)]
    at = np.full((config["runs"], k + 1), s)
    cumulative = np.cumsum(P, axis=1)
    for t in range(k):
        passed = (cumulative[at[:, t]] <= uniform[:, t, None]).sum(axis=1)
        at[:, t + 1] = np.minimum(passed, len(r) - 1)
    returns = r[at[:, :-1]] @ gamma ** np.arange(k) + gamma**k * first[at[:, -1]]
    distance = np.abs(np.array(errors)).max(axis=1)
    return {
        "truth": truth,
        "iterates": iterates,
        "errors": distance,
        "bound": distance[0] * gamma ** np.arange(most + 1),
        "variance": (np.array(second) - iterates**2)[:, s],
        "returns": returns,
        "mean": returns.mean(),
        "scale": np.abs(iterates).max() + np.abs(r).max(),
    }


IN_THE_BROWSER = """(configs) => JSON.stringify(JSON.parse(configs).map(
    (config) => ictd.figures["policy-evaluation"].mathematics.analyse(config)))"""


def test_the_browsers_numbers_are_numpys(opened: Opened, base: str) -> None:
    rng = np.random.default_rng(12)
    configs = [random_configuration(rng) for _ in range(1200)]
    page = opened(f"{base}/index.html")
    answers = json.loads(page.evaluate(IN_THE_BROWSER, json.dumps(configs)))
    worst: dict[str, float] = {}
    certain = 0
    for config, got in zip(configs, answers, strict=True):
        known = oracle(config)
        scale = known.pop("scale")
        got["variance"] = np.array(got["deviations"]) ** 2
        certain += max(got["deviations"]) == 0
        for name, numbers in known.items():
            size = scale**2 if name == "variance" else scale
            apart: Floats = np.abs(np.array(got[name]) - numbers) / size
            worst[name] = max(worst.get(name, 0.0), float(apart.max()))
    print(f"{len(configs)} configurations, {certain} without chance; worst {worst}")
    assert 50 < certain < 600
    assert set(worst) == {
        "truth",
        "iterates",
        "errors",
        "bound",
        "variance",
        "returns",
        "mean",
    }
    assert max(worst.values()) < 1e-9, worst


def test_a_figure_says_what_its_still_picture_says(opened: Opened, base: str) -> None:
    page = opened(f"{base}/index.html")
    for chain in CHAINS:
        page.select_option("[id$=-chain]", chain)
        settle(page)
        still = policy_evaluation_figure(chain=chain).html().replace("-", "−")
        for pattern in (
            r"largest error is (−?\d+(?:\.\d+)?)",
            r"standard error of (\d+(?:\.\d+)?)",
            r"(?:state 0 is|steps average) (−?\d+(?:\.\d+)?)",
        ):
            said, drawn = (re.search(pattern, text) for text in (status(page), still))
            assert said and drawn, pattern
            assert said[1] == drawn[1], (chain, pattern)


# ---- what a reader can find out ----------------------------------------------------------------


def told(page: Page) -> dict[str, float]:
    """Return the numbers that the summary gives."""
    settle(page)
    text = status(page).replace("−", "-")
    found = {}
    for name, before in {
        "error": "error is",
        "bound": "first one is",
        "value": "value is",
        "belief": "give",
        "mean": "average",
        "noise": "error of",
    }.items():
        match = re.search(rf"{before} (-?\d+(?:\.\d+)?)(·10⁻)?", text)
        assert match, (name, text)
        found[name] = 0.0 if match[2] else float(match[1])
    return found


def test_one_backup_from_zero_gives_the_rewards(opened: Opened, base: str) -> None:
    page = opened(f"{base}/index.html")
    chain = random_boyan_chain(8, np.random.default_rng(2026), 0.9)
    page.get_by_role("slider", name="backups").fill("1")
    for s in (3, 5):
        page.get_by_role("slider", name="state").fill(str(s))
        assert told(page)["belief"] == pytest.approx(chain.reward[s], rel=0.01)
        assert told(page)["noise"] == 0  # one step pays the same each time


def test_a_constant_error_is_on_the_bound_and_a_tour_keeps_every_error(
    opened: Opened, base: str
) -> None:
    page = opened(f"{base}/index.html")
    page.select_option("[id$=-start]", "shifted")
    for chain in CHAINS:
        page.select_option("[id$=-chain]", chain)
        now = told(page)
        assert now["error"] == now["bound"] == pytest.approx(0.9**10, rel=0.01)
    page.select_option("[id$=-start]", "one")
    assert told(page)["error"] < 0.2 * told(page)["bound"]
    page.select_option("[id$=-chain]", "tour")
    assert told(page)["error"] == told(page)["bound"] and told(page)["noise"] == 0


def test_runs_that_differ_by_rounding_alone_are_drawn(
    opened: Opened, base: str
) -> None:
    """On a tour all runs return the same; an axis from one rounding to the next has no end of ticks."""
    page = opened(f"{base}/index.html")
    page.select_option("[id$=-chain]", "tour")
    page.select_option("[id$=-start]", "shifted")
    page.get_by_role("slider", name="backups").press("End")
    page.get_by_role("slider", name="discount").fill("0.4")
    for s in (0, 2, 4, 5):
        page.get_by_role("slider", name="state").fill(str(s))
        assert told(page)["noise"] == 0
        assert page.locator(".ictd-panel > svg").nth(1).locator("text").count() < 30


def test_longer_runs_mend_the_bias_and_more_runs_the_noise(
    opened: Opened, base: str
) -> None:
    page = opened(f"{base}/index.html")
    start = told(page)
    page.get_by_role("slider", name="backups").press("End")
    long = told(page)
    assert long["error"] < 1e-3 and long["belief"] == long["value"]
    assert long["noise"] >= start["noise"]  # which no length lowers
    means = set()
    for _ in range(3):
        page.get_by_role("button", name="New runs").click()
        means.add(told(page)["mean"])
        assert told(page)["value"] == long["value"]
    assert len(means) == 3
    page.get_by_role("slider", name="runs m").press("End")
    many = told(page)
    assert many["noise"] == pytest.approx(long["noise"] * (20 / 1000) ** 0.5, rel=0.02)
    assert abs(many["mean"] - many["value"]) < 4 * many["noise"] + 0.01


def test_touch_moves_a_slider_and_draws_again(opened: Opened, base: str) -> None:
    page = opened(f"{base}/index.html", 360, has_touch=True)
    slider = page.get_by_role("slider", name="backups")
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    assert box and box["width"] > 250
    page.touchscreen.tap(box["x"] + 0.75 * box["width"], box["y"] + box["height"] / 2)
    settle(page)
    assert 130 < int(slider.input_value()) < 170
    before = picture(page)
    page.get_by_role("button", name="New runs").tap()
    settle(page)
    assert picture(page) != before
