"""The figures that move, in a real browser: their mathematics, their controls, their manners.

They are mounted on a small page of our own, so these tests need no built site.
"""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import chromium, served
from figure_pages import (
    MOUNT_WIDGET,
    Floats,
    no_sideways_scroll,
    picture,
    settle,
    status,
    write_pages,
)
from playwright.sync_api import Browser, Page

from ictd_lib import MarkovRewardProcess, random_ergodic_chain
from ictd_lib.figures import weighted_td_playground
from ictd_lib.figures.page import figure_html, module
from ictd_lib.figures.sampling import sample

Opened = Callable[..., Page]

pytestmark = pytest.mark.skipif(
    chromium() is None, reason="no Chromium on this machine"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with the figure, and one that asks for a figure that there isn't."""
    folder = tmp_path_factory.mktemp("figures")
    broken = figure_html(
        "no-such-figure", {"title": "Broken", "controls": []}, {}, "<svg/>", "x"
    )
    write_pages(folder, index=weighted_td_playground().html(), broken=broken)
    return folder


@pytest.fixture(scope="module")
def base(folder: Path) -> Iterator[str]:
    with served(folder) as base:
        yield base


# ---- the mathematics ---------------------------------------------------------------------------


def oracle_weights(scores: Floats) -> Floats:
    weights = np.exp(scores - scores.max())
    return np.asarray(weights / weights.sum())


def oracle(config: dict[str, Any]) -> dict[str, Any]:
    """Everything once more from the equations of chapter 1, source by source."""
    transition, states = np.array(config["P"]), config["states"]
    rewards, features = np.array(config["rewards"]), np.array(config["X"])
    gamma, alpha = config["gamma"], config["alpha"]
    size, n = len(transition), len(rewards)
    process = MarkovRewardProcess(transition, config["r"], gamma)
    scores = config["sharpness"] * features @ features.T
    weights = np.array([oracle_weights(scores[s, states[:-1]]) for s in range(size)])
    kernel = np.zeros((size, size))
    for k in range(n):
        kernel[:, states[k]] += weights[:, k]
    v, iterates = np.zeros(size), [np.zeros(size)]
    for _ in range(config["steps"]):
        step = np.zeros(size)
        for k in range(n):
            delta = rewards[k] + gamma * v[states[k + 1]] - v[states[k]]
            step += delta * weights[:, k]
        v = v + alpha * step
        iterates.append(v)
    counts = np.zeros((size, size))
    np.add.at(counts, (states[:-1], states[1:]), 1)
    visits = counts.sum(axis=1)
    limit = None
    if visits.min() > 0:
        mean_reward = np.bincount(states[:-1], rewards, size) / visits
        limit = np.linalg.solve(
            np.eye(size) - gamma * counts / visits[:, None], mean_reward
        )
    mu = process.stationary()
    population = np.array([mu * np.exp(g - g.max()) for g in scores])
    return {
        "values": process.values(),
        "stationary": mu,
        "kernel": kernel,
        "population": population / population.sum(axis=1, keepdims=True),
        "iterates": np.array(iterates),
        "literal": np.array(iterates),
        "limit": limit,
        "sampled": sample(process, n, config["seed"]).states,
    }


# JSON there and back: a string is one thing to hand over, a million numbers are not.
IN_THE_BROWSER = """(configs) => JSON.stringify(JSON.parse(configs).map((c) => {
    const { core } = ictd, size = c.r.length;
    const context = { states: c.states, rewards: c.rewards };
    const seen = core.summarise(context, size);
    const G = core.scores(c.X, c.sharpness);
    const model = { ...seen, kernel: core.empiricalKernel(G, seen.visits) };
    const start = new Array(size).fill(1 / size);
    const mu = core.stationary(c.P);
    const limit = core.certaintyEquivalence(seen, c.gamma);
    return {
        values: core.values(c.P, c.r, c.gamma),
        stationary: mu,
        kernel: model.kernel,
        population: core.populationKernel(G, mu),
        iterates: core.iterate(model, c.gamma, c.alpha, c.steps).iterates,
        literal: core.iterateLiteral(context, G, c.gamma, c.alpha, c.steps),
        limit: limit.includes(null) ? null : limit,
        sampled: core.sampleContext(c.P, c.r, start, c.rewards.length, c.seed).states,
    };
}))"""


def random_configuration(rng: np.random.Generator) -> dict[str, Any]:
    size, n = int(rng.integers(2, 10)), int(rng.integers(1, 40))
    chain = random_ergodic_chain(
        size, rng, 0.5, concentration=rng.choice([0.1, 1.0, 10.0])
    )
    dimension = int(rng.integers(1, 7))
    directions = rng.normal(size=(size, dimension))
    unit = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    return {
        "P": chain.transition.tolist(),
        "r": chain.reward.tolist(),
        "X": (np.eye(size) if rng.random() < 0.4 else unit).tolist(),
        "states": chain.sample(n, rng).tolist(),
        # Not a function of the state: the observed rewards are what counts.
        "rewards": rng.normal(size=n).tolist(),
        "sharpness": 10 ** rng.uniform(-3, 3),
        "gamma": rng.uniform(0, 0.99),
        "alpha": rng.uniform(0.05, 2.0),
        "steps": int(rng.integers(1, 15)),
        "seed": int(rng.integers(2**32)),
    }


def test_the_browsers_mathematics_is_pythons(opened: Opened, base: str) -> None:
    rng = np.random.default_rng(3)
    configs = [random_configuration(rng) for _ in range(1200)]
    page = opened(f"{base}/index.html")
    found = json.loads(page.evaluate(IN_THE_BROWSER, json.dumps(configs)))
    worst: dict[str, float] = {}
    limits = 0
    for config, got in zip(configs, found, strict=True):
        for name, expected in oracle(config).items():
            if name == "sampled":
                assert got[name] == expected.tolist(), (
                    "another trajectory from the same seed"
                )
                continue
            assert (got[name] is None) <= (expected is None) or name != "limit"
            if expected is None:
                continue
            limits += name == "limit"
            # Relative to the largest number there is; for an iteration, that it ever reached.
            error = (
                np.abs(np.array(got[name]) - expected).max() / np.abs(expected).max()
            )
            worst[name] = max(worst.get(name, 0.0), float(error))
    print(f"{len(configs)} configurations, {limits} with a limit; worst errors {worst}")
    assert limits > 200
    assert max(worst.values()) < 1e-9, worst


def test_weights_stay_finite_at_any_scale(opened: Opened, base: str) -> None:
    page = opened(f"{base}/index.html")
    for scores in (
        [1000.0, -1000.0, 0.0],
        [1e6, 1e6, -1e6],
        [0.0, 0.0, 0.0],
        [-1e300, 1e300, 0],
    ):
        weights = page.evaluate("(z) => ictd.core.softmax(z)", scores)
        assert np.isfinite(weights).all()
        assert sum(weights) == pytest.approx(1, abs=1e-15)
    # A large score that has no source behind it must not swallow the others.
    assert page.evaluate("() => ictd.core.softmax([2000, 0], [0, 3])") == [0, 1]


def test_stationary_distribution_of_a_nearly_decomposable_chain(
    opened: Opened, base: str
) -> None:
    page = opened(f"{base}/index.html")
    e = 1e-8
    mu = page.evaluate(
        "(P) => ictd.core.stationary(P)", [[1 - e, e], [2 * e, 1 - 2 * e]]
    )
    assert mu == pytest.approx([2 / 3, 1 / 3], rel=1e-10)


def test_an_axis_has_few_ticks_however_short_it_is(opened: Opened, base: str) -> None:
    page = opened(f"{base}/index.html")
    call = "([low, high]) => ictd.plot.ticks(low, high, 5)"
    ulp = float(np.spacing(0.1))
    for low, high in (
        (0.1, 0.1 + ulp),
        (-7, -7 + 1e-15),
        (1e9, 1e9 + 1e-6),
        (0.1, 0.1),
    ):
        assert len(page.evaluate(call, [low, high])) <= 1
    for low, high in ((0, 1e-300), (1, 1 + 1e-9), (-3e8, 5e8)):
        assert 3 <= len(page.evaluate(call, [low, high])) <= 7


def test_a_figure_says_what_its_still_picture_says(opened: Opened, base: str) -> None:
    page = opened(f"{base}/index.html")
    for chain, features in (
        ("random-boyan", "one-hot"),
        ("boyan", "arc"),
        ("walk", "random"),
        ("ergodic", "arc"),
    ):
        page.select_option("[id$=-chain]", chain)
        page.select_option("[id$=-features]", features)
        settle(page)
        figure = weighted_td_playground(chain=chain, features=features)
        said, drawn = (
            re.search(r"largest error is (\d+(?:\.\d+)?)", text)
            for text in (status(page), figure.html())
        )
        assert said and drawn
        assert float(said[1]) == float(drawn[1]), (chain, features)


# ---- controls ----------------------------------------------------------------------------------


def test_sharper_kernels_converge_to_the_limit_of_the_context(
    opened: Opened, base: str
) -> None:
    page = opened(f"{base}/index.html")

    def own_weight() -> float:
        name = page.get_attribute(".ictd-kernel > svg", "aria-label") or ""
        found = re.search(r"weight of ([\d.]+)", name)
        assert found, name
        return float(found[1])

    blunt = own_weight()
    page.get_by_label("sharpness").press("End")
    settle(page)
    assert own_weight() == 1 > blunt  # every state its own: tabular TD


def test_a_diverging_run_says_so_in_finite_numbers(opened: Opened, base: str) -> None:
    page = opened(f"{base}/index.html")
    page.get_by_label("step size").press("End")
    settle(page)
    assert re.search(
        r"Diverges: with step size 3 .*reaches [\d.]+ at iteration \d+", status(page)
    )
    assert "ictd-alarm" in (page.get_attribute("figure", "class") or "")
    page.get_by_label("step size").press("Home")
    settle(page)
    assert "Diverges" not in status(page)


def test_touch_reads_a_weight(opened: Opened, base: str) -> None:
    page = opened(f"{base}/index.html", 360, has_touch=True)
    cell = page.locator(".ictd-heat rect").nth(2 * 10 + 2)
    cell.scroll_into_view_if_needed()
    box = cell.bounding_box()
    assert box
    page.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    settle(page)
    assert page.inner_text(".ictd-readout").startswith("State 2 takes ")
    assert "its own visits" in page.inner_text(".ictd-readout")


def test_play_runs_and_less_motion_offers_only_steps(opened: Opened, base: str) -> None:
    page = opened(f"{base}/index.html")
    page.get_by_role("button", name="Play").click()
    page.wait_for_timeout(1000)
    assert page.get_attribute(".ictd-status", "aria-live") == "off"
    page.get_by_role("button", name="Pause").click()
    settle(page)
    assert page.get_attribute(".ictd-status", "aria-live") == "polite"
    shown = int(page.inner_text("output[for$=-iterations]"))
    assert shown > 21
    assert status(page).startswith(f"After {shown} iterations")

    page.get_by_role("button", name="Play").click()
    page.wait_for_timeout(500)
    page.get_by_role("button", name="Reset").click()
    settle(page)
    assert page.get_by_role("button", name="Play").is_visible()
    assert status(page).startswith("After 20 iterations")

    calm = opened(f"{base}/index.html", reduced_motion="reduce")
    assert not calm.get_by_role("button", name="Play").is_visible()
    calm.get_by_role("button", name="One step").click()
    settle(calm)
    assert status(calm).startswith("After 21 iterations")


# ---- manners -----------------------------------------------------------------------------------


def test_follows_the_theme_while_it_is_open(opened: Opened, base: str) -> None:
    page = opened(f"{base}/index.html")
    colours = (
        "() => ['.ictd-axes text', '.ictd-now', '.ictd-heat rect'].map((part) => "
        "getComputedStyle(document.querySelector(part)).fill)"
    )
    light = page.evaluate(colours)
    page.evaluate("() => { document.documentElement.dataset.theme = 'dark' }")
    dark = page.evaluate(colours)
    assert all(a != b for a, b in zip(light, dark, strict=True))


def test_from_the_file_system(opened: Opened, folder: Path) -> None:
    page = opened((folder / "index.html").as_uri(), 360)
    assert page.locator(".ictd-figure img").count() == 0
    before = picture(page)
    page.get_by_label("discount").press("Home")
    settle(page)
    assert picture(page) != before


def test_a_figure_that_fails_keeps_its_still_picture(
    browser: Browser, base: str
) -> None:
    page = browser.new_page()
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text))
    page.goto(f"{base}/broken.html")
    assert page.locator("figure.ictd-figure > img").count() == 1
    assert page.locator("figure button").count() == 0
    assert errors


def test_redraws_at_another_width(opened: Opened, base: str) -> None:
    page = opened(f"{base}/index.html")
    for width in (360, 700, 1440):
        page.set_viewport_size({"width": width, "height": 800})
        settle(page)
        assert no_sideways_scroll(page)
        sizes = page.evaluate(
            "() => [...document.querySelectorAll('.ictd-panel > svg')]"
            ".map((svg) => svg.getBoundingClientRect().width / svg.viewBox.baseVal.width)"
        )
        assert sizes == pytest.approx([1, 1, 1], abs=0.01)  # so text keeps its size


# ---- in a live notebook ------------------------------------------------------------------------


def test_the_widget_moves_with_python_and_python_with_it(
    opened: Opened, base: str
) -> None:
    page = opened(f"{base}/index.html")
    figure = weighted_td_playground(sharpness=5.0)
    state = {**figure.state, "figure": figure.figure, "data": figure.data}
    page.evaluate(MOUNT_WIDGET, [module(), state])
    settle(page)
    assert page.inner_text("output[for$=-sharpness]") == "5"

    # Python sets a trait: the model changes, and so does the picture.
    before = picture(page)
    page.evaluate("() => model.set('sharpness', 20)")
    settle(page)
    assert page.inner_text("output[for$=-sharpness]") == "20"
    assert picture(page) != before

    # The reader moves a slider: what reaches Python is a value that its trait takes.
    page.get_by_label("context length").press("End")
    page.get_by_label("step size").press("ArrowRight")
    saved = page.evaluate("() => saved.at(-1)")
    figure.set_state({key: saved[key] for key in figure.state})
    assert figure.context_length == 5000
    assert figure.alpha == 1.05

    page.evaluate("() => end()")
    assert page.evaluate("() => model.waiting()") == 0


def test_two_figures_on_one_page_are_apart(
    opened: Opened, folder: Path, base: str
) -> None:
    text = (folder / "index.html").read_text("utf-8")
    figure = text[text.index("<figure") : text.index("</figure>") + len("</figure>")]
    (folder / "two.html").write_text(text.replace(figure, figure + figure), "utf-8")
    page = opened(f"{base}/two.html")
    page.get_by_label("discount").first.press("Home")
    settle(page)
    said = page.locator(".ictd-status").all_inner_texts()
    assert len(said) == 2 and said[0] != said[1]
    ids = page.evaluate(
        "() => [...document.querySelectorAll('[id]')].map((node) => node.id)"
    )
    assert len(ids) == len(set(ids))
