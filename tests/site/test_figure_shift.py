"""The figure of chapter 3 in a real browser: its numbers are the Transformer's; its manners."""

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from browser import chromium, served
from figure_pages import (
    PHONE_AND_WIDE,
    Floats,
    settle,
    status,
    write_pages,
)
from playwright.sync_api import Page

from ictd_lib.figures import shift_figure
from ictd_lib.transformer import (
    DualHeadBlock,
    ShiftBlock,
    assemble_prompt,
    attention_head,
    theta_star,
)

Opened = Callable[..., Page]
BLOCKS = {"shift": ShiftBlock, "dual": DualHeadBlock}

pytestmark = pytest.mark.skipif(
    chromium() is None, reason="no Chromium on this machine"
)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("shift")
    write_pages(folder, index=shift_figure().html())
    with served(folder) as base:
        yield base


@pytest.fixture
def page(opened: Opened, base: str) -> Page:
    """The figure on a wide page."""
    return opened(f"{base}/index.html")


# ---- the mathematics ---------------------------------------------------------------------------


def random_prompt(rng: np.random.Generator) -> dict[str, Any]:
    """Any features, rewards and memory, on the invariant or off it, with any queries."""
    n, queries, d = (int(rng.integers(1, k)) for k in (12, 4, 5))
    columns = n + queries
    empty = rng.random(2) < 0.25
    memory = np.where(empty[:, None], 0, rng.normal(size=(2, columns)))
    return {
        "X": rng.normal(size=(columns, d)).tolist(),
        "rewards": rng.normal(size=n).tolist(),
        "target": memory[0].tolist(),
        "current": memory[1].tolist(),
        "gamma": rng.uniform(0, 0.99),
        "alpha": rng.uniform(0.05, 1.5),
        "sharpness": 10 ** rng.uniform(-2, 2),
        "layers": int(rng.integers(1, 9)),
    }


def by_the_transformer(prompt: dict[str, Any], form: str) -> dict[str, Floats]:
    """The same from `ictd_lib.transformer`, by the paper's matrices."""
    x, rewards, target, current = (
        torch.tensor(prompt[key], dtype=torch.float64)
        for key in ("X", "rewards", "target", "current")
    )
    n, (columns, d) = len(rewards), x.shape
    model = theta_star(
        d,
        prompt["layers"],
        prompt["gamma"],
        step_size=prompt["alpha"],
        sharpness=prompt["sharpness"],
        form="shift" if form == "shift" else "dual",
    )
    Z = assemble_prompt(x, rewards, target=target, current=current)
    with torch.no_grad():
        trace = model.trace(Z, queries=columns - n)
        added = [
            attention_head(
                before, model.score_matrix(), model.value_matrix(), columns - n
            )[-1]
            for before in trace[:-1]
        ]
        b, c = trace[:, -2, :n], trace[:, -1, 1 : n + 1]
    return {
        "target": trace[:, -2].numpy(),
        "current": trace[:, -1].numpy(),
        "gain": torch.stack(added).numpy(),
        "offset": (b - prompt["gamma"] * c).numpy(),
    }


IN_THE_BROWSER = """(prompts) => JSON.stringify(JSON.parse(prompts).map((prompt) => {
    const { trace, offsets } = ictd.figures.shift.mathematics;
    return Object.fromEntries(["shift", "dual"].map((form) => {
        const run = trace(prompt, form);
        const n = prompt.rewards.length;
        return [form, {
            target: run.map(({ target }) => target),
            current: run.map(({ current }) => current),
            gain: run.slice(1).map(({ gain }) => gain),
            offset: run.map(({ target, current }) => offsets(target, current, prompt.gamma, n)),
        }];
    }));
}))"""


def test_the_browsers_layers_are_the_transformers(page: Page) -> None:
    rng = np.random.default_rng(5)
    prompts = [random_prompt(rng) for _ in range(1200)]
    found = json.loads(page.evaluate(IN_THE_BROWSER, json.dumps(prompts)))
    worst, apart = 0.0, 0
    for prompt, got in zip(prompts, found, strict=True):
        for form in BLOCKS:
            expected = by_the_transformer(prompt, form)
            largest = max(np.abs(row).max() for row in expected.values())
            for name, rows in expected.items():
                error = np.abs(np.array(got[form][name]) - rows).max() / largest
                worst = max(worst, float(error))
        apart += got["shift"]["current"] != got["dual"]["current"]
    print(f"{len(prompts)} prompts, {apart} with values that part; worst error {worst}")
    assert 500 < apart < 1200
    assert worst < 1e-9


def test_what_is_shown_is_what_the_transformer_computes(page: Page) -> None:
    """Every entry of the two memory rows, at every half-layer, off the invariant."""
    figure = shift_figure()
    page.get_by_label("starts at").fill("1")
    for form in ("shift", "dual"):
        page.select_option("[id$=-form]", form)
        for step in (0, 1, 2, 3, 8, 16):
            page.get_by_label("half-layers").fill(str(step))
            settle(page)
            figure.set_state({"form": form, "value": 1.0, "step": step})
            alt = re.search(r'alt="([^"]*)"', figure.html())
            said = page.get_attribute(".ictd-prompt > svg", "aria-label") or ""
            assert alt
            for row in ("Target", "Current"):
                drawn = re.search(rf"{row} row:? (.*?)\.(?: |$)", said)
                still = re.search(rf"{row} row (.*?)\.(?: |$)", alt[1])
                assert drawn and still
                shown = drawn[1].replace("−", "-").split(", ")
                expected = list(map(float, still[1].split(", ")))
                assert list(map(float, shown)) == pytest.approx(expected, abs=0.0101)


# ---- what a reader can do ----------------------------------------------------------------------


def test_an_entry_off_the_invariant_parts_the_two(page: Page) -> None:
    assert "agree in all layers" in status(page)
    page.get_by_label("starts at").fill("1")
    settle(page)
    assert "Largest offset: 1." in status(page)
    assert "differ from layer 2 on" in status(page)
    page.get_by_label("half-layers").fill("2")
    settle(page)
    assert "Largest offset: 0." in status(page)  # the shift has ended it
    page.select_option("[id$=-form]", "dual")
    settle(page)
    assert "Largest offset: 1." in status(page)  # two heads have not
    page.get_by_label("in column").fill("5")
    settle(page)
    assert "agree in all layers" in status(page)  # b_n is never read


def test_touch_reads_an_entry(opened: Opened, base: str) -> None:
    address = f"{base}/index.html"
    page = opened(address, 360, has_touch=True)
    cell = page.locator(".ictd-cell").nth(2 * 6 + 3)  # the current row, column 3
    cell.scroll_into_view_if_needed()
    box = cell.bounding_box()
    assert box and box["width"] > 40
    page.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    settle(page)
    assert page.inner_text(".ictd-readout").startswith("c₃ = 0: ")


@pytest.mark.parametrize("width", PHONE_AND_WIDE)
def test_no_two_labels_of_the_grid_run_into_each_other(
    opened: Opened, base: str, width: int
) -> None:
    page = opened(f"{base}/index.html", width, reduced_motion="reduce")
    page.get_by_label("starts at").fill("1")
    page.select_option("[id$=-form]", "dual")
    page.get_by_label("half-layers").fill("4")
    settle(page)
    overlaps = page.evaluate(
        """() => {
            const boxes = [...document.querySelectorAll(".ictd-prompt > svg text")]
                .filter((node) => node.textContent)
                .map((node) => node.getBoundingClientRect());
            return boxes.filter((a, i) => boxes.some((b, j) => i < j && a.left < b.right
                && b.left < a.right && a.top + 2 < b.bottom && b.top + 2 < a.bottom)).length;
        }"""
    )
    assert overlaps == 0


def test_rows_move_once_and_only_for_who_wants_motion(
    opened: Opened, base: str
) -> None:
    for motion, moving in (("no-preference", "ictd-travel"), ("reduce", "none")):
        address = f"{base}/index.html"
        page = opened(address, reduced_motion=motion)
        for _ in range(2):
            page.get_by_role("button", name="One step").click()
            settle(page)
        names = page.evaluate(
            "() => [...document.querySelectorAll('.ictd-travel')]"
            ".map((token) => getComputedStyle(token).animationName)"
        )
        assert names == [moving] * 5
        page.get_by_label("discount").press("ArrowLeft")  # nothing moves for this
        settle(page)
        assert page.locator(".ictd-travel").count() == 0
