"""Chapter 2's figure in a real browser: its mathematics against torch, its controls, its manners."""

import json
import re

import numpy as np
import pytest
import torch
from browser import THEMES, chromium, served
from figure_pages import settle, status, write_pages

from ictd_lib import Context, random_ergodic_chain, sample_context
from ictd_lib.figures import dual_head_steps
from ictd_lib.transformer import (
    attention_weights,
    build_prompt,
    score_matrix,
    shift_matrix,
    target_matrix,
    theta_star,
    value_matrix,
)

pytestmark = pytest.mark.skipif(
    chromium() is None, reason="no Chromium on this machine"
)


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dual-head")
    write_pages(folder, index=dual_head_steps().html())
    with served(folder) as base:
        yield f"{base}/index.html"


# ---- the mathematics ---------------------------------------------------------------------------

IN_THE_BROWSER = """(configs) => JSON.stringify(JSON.parse(configs).map((c) => {
    const { prompt, run } = figures["dual-head"].mathematics;
    const Z = prompt({ states: c.states, rewards: c.rewards }, c.X);
    return run(Z, c, c.layers);
}))"""


def random_configuration(rng):
    size, n = int(rng.integers(2, 9)), int(rng.integers(1, 13))
    chain = random_ergodic_chain(size, rng, 0.5)
    context = sample_context(chain, n, rng)
    return {
        "states": context.states.tolist(),
        # Not a function of the state: the observed rewards are what counts.
        "rewards": rng.normal(size=n).tolist(),
        "X": rng.normal(size=(size, int(rng.integers(1, 5)))).tolist(),
        "sharpness": 10 ** rng.uniform(-2, 2),
        "gamma": rng.uniform(0, 0.99),
        "alpha": rng.uniform(0.05, 1.5),
        "queryIsSource": bool(rng.random() < 0.5),
        "layers": int(rng.integers(1, 7)),
    }


def matrices(config):
    d = len(config["X"][0])
    A = score_matrix(config["sharpness"] * torch.eye(d, dtype=torch.float64))
    w = config["alpha"] * torch.tensor([1.0, 1.0, -1.0], dtype=torch.float64)
    return A, value_matrix(w, d), target_matrix(d, config["gamma"])


def oracle(config):
    """The library's trace; for an unmasked query, which it refuses, the paper's matrices."""
    context = Context(config["states"], config["rewards"], len(config["X"]))
    Z = build_prompt(context, config["X"])
    A, V, W = matrices(config)
    if not config["queryIsSource"]:
        model = theta_star(
            len(config["X"][0]),
            config["layers"],
            config["gamma"],
            step_size=config["alpha"],
            sharpness=config["sharpness"],
            form="dual",
        )
        return model.trace(Z).detach(), attention_weights(Z, A)
    weights = torch.softmax(Z.T @ A @ Z, dim=0)
    trace = [Z]
    for _ in range(config["layers"]):
        head = V @ trace[-1] @ weights
        trace.append(trace[-1] + head + W @ head @ shift_matrix(context.n + 1))
    return torch.stack(trace), weights


def test_the_browsers_transformer_is_pythons(opened, base):
    rng = np.random.default_rng(5)
    configs = [random_configuration(rng) for _ in range(1200)]
    page = opened(base)
    page.evaluate("() => { globalThis.figures = ictd.figures }")
    found = json.loads(page.evaluate(IN_THE_BROWSER, json.dumps(configs)))
    worst = 0.0
    for config, layers in zip(configs, found, strict=True):
        trace, weights = oracle(config)
        scale = float(trace.abs().max())
        assert len(layers) == config["layers"]
        _, V, W = matrices(config)
        shift = shift_matrix(trace.shape[-1])
        for layer, got in enumerate(layers):
            seen = np.array(got["weights"])
            if not config["queryIsSource"]:
                assert not seen[-1].any()
                seen = seen[:-1]
            Z = trace[layer]
            written = V @ Z[:, : len(seen)] @ weights
            assert np.abs(seen - weights.numpy()).max() < 1e-9
            pairs = {
                "Z": (got["Z"], Z),
                "next": (got["next"], trace[layer + 1]),
                "read": (got["read"], (V @ Z)[-1]),
                "current": (got["current"], written[-1]),
                "unshifted": (got["unshifted"], (W @ written)[-2]),
                "target": (got["target"], (W @ written @ shift)[-2]),
            }
            for name, (a, b) in pairs.items():
                error = float(np.abs(np.array(a) - b.numpy()).max()) / scale
                assert error < 1e-9, (name, layer, config)
                worst = max(worst, error)
    print(f"{len(configs)} configurations, worst error {worst:.1e}")


def cells(page, panel, row):
    """The numbers of one row of a panel, as the reader sees them."""
    texts = page.locator(f".{panel} .ictd-cells").nth(row).locator("text")
    found = [text.replace("−", "-") for text in texts.all_text_contents()]
    return found[1:]


def test_the_reader_sees_the_numbers_of_the_library(opened, base):
    """After three layers and the attention of the fourth."""
    page = opened(base)
    page.get_by_label("step, four to a layer").fill("15")
    settle(page)
    figure = dual_head_steps(step=15)
    context = figure.data["context"]
    config = {
        "states": context["states"],
        "rewards": context["rewards"],
        "X": figure.data["features"],
        "sharpness": 4.0,
        "gamma": 0.9,
        "alpha": 1.0,
        "queryIsSource": False,
        "layers": 6,
    }
    trace, weights = oracle(config)
    for row in range(5):
        shown = [float(text) for text in cells(page, "ictd-grid", row)]
        assert shown == pytest.approx(trace[3][row].tolist(), abs=0.00501)
    shown = cells(page, "ictd-attend", 0)
    assert shown[-1] == "–"  # masked
    expected = weights[:, 0].tolist()
    assert [float(text) for text in shown[:-1]] == pytest.approx(expected, abs=0.00501)
    written = (trace[4] - trace[3]).tolist()
    for row, expected in ((0, written[4]), (2, written[3])):
        shown = [float(text) for text in cells(page, "ictd-heads", row)]
        assert shown == pytest.approx(expected, abs=0.00501)


# ---- controls ----------------------------------------------------------------------------------


def test_a_pass_through_the_layers_step_by_step(opened, base):
    page = opened(base)
    said = [status(page)]
    for _ in range(24):
        page.get_by_role("button", name="One step").click()
        settle(page)
        said.append(status(page))
    assert all("⚠" not in text for text in said)
    for step, text in enumerate(said[:-1]):
        assert text.startswith(f"Layer {step // 4 + 1} of 6")
        assert f"The value row is iterate {step // 4} of weighted softmax TD" in text
    assert said[-1].startswith("After all 6 layers")
    # Attention appears before what the heads write, and that head by head.
    for step, (attend, first, second) in {
        4: (0, 0, 0),
        5: (8, 0, 0),
        6: (8, 8, 0),
        7: (8, 8, 8),
    }.items():
        page.get_by_label("step, four to a layer").fill(str(step))
        settle(page)
        assert len(cells(page, "ictd-attend", 0)) == attend
        assert len(cells(page, "ictd-heads", 0)) == first
        assert len(cells(page, "ictd-heads", 2)) == second


def test_a_query_that_is_a_source_raises_an_alarm(opened, base):
    page = opened(base)
    page.get_by_label("step, four to a layer").fill("24")
    page.get_by_label("the last column is").select_option("source")
    settle(page)
    assert re.search(r"⚠ .* [\d.]+ away from iterate 6", status(page))
    assert "ictd-alarm" in page.get_attribute("figure", "class")
    page.get_by_role("button", name="Reset").click()
    settle(page)
    assert "⚠" not in status(page)


def test_touch_picks_the_column_that_attends(opened, base):
    page = opened(base, 360, has_touch=True)
    page.get_by_label("step, four to a layer").fill("1")
    settle(page)
    cell = page.locator(".ictd-grid .ictd-cells").nth(2).locator("rect").nth(5)
    cell.scroll_into_view_if_needed()
    box = cell.bounding_box()
    page.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    settle(page)
    assert page.inner_text(".ictd-grid .ictd-readout").startswith("Column 5. R₆ = ")
    assert page.inner_text(".ictd-attend .ictd-title") == "Attention of column 5 (S₅)"


# ---- manners -----------------------------------------------------------------------------------


@pytest.mark.parametrize("theme", THEMES)
def test_numbers_can_be_read_on_their_colours(opened, base, theme):
    """4.5:1 for each number against its cell; axe doesn't look inside pictures."""
    page = opened(base)
    page.evaluate(
        "(theme) => { document.documentElement.dataset.theme = theme }", theme
    )
    page.get_by_label("step, four to a layer").fill("23")
    settle(page)
    worst = page.evaluate(
        """() => {
            const rgb = (text) => text.match(/[\\d.]+/g).slice(0, 3).map(Number);
            const light = (c) => c.map((x) => x / 255)
                .map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4))
                .reduce((sum, x, i) => sum + x * [0.2126, 0.7152, 0.0722][i], 0);
            const back = rgb(getComputedStyle(document.body).backgroundColor);
            return Math.min(...[...document.querySelectorAll(".ictd-cells rect")].map((cell) => {
                const fill = rgb(getComputedStyle(cell).fill);
                const share = Number(cell.getAttribute("fill-opacity"));
                const mixed = light(fill.map((x, i) => share * x + (1 - share) * back[i]));
                const text = cell.parentNode.querySelector("text");
                const ink = light(rgb(getComputedStyle(text).fill));
                return (Math.max(ink, mixed) + 0.05) / (Math.min(ink, mixed) + 0.05);
            }));
        }"""
    )
    assert worst > 4.5


def test_numbers_stay_in_their_cells_on_a_phone(opened, base):
    page = opened(base, 360)
    page.get_by_label("step, four to a layer").fill("23")
    page.get_by_label("discount γ").press("End")
    settle(page)
    widest = page.evaluate(
        "() => Math.max(...[...document.querySelectorAll("
        "'.ictd-cells text[text-anchor=middle]')].map((text) => text.getBBox().width))"
    )
    cell = page.evaluate(
        "() => document.querySelector('.ictd-cells rect').getBBox().width"
    )
    assert widest <= cell
