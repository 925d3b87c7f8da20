"""What the tests of all figures that move have in common."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from browser import ROOT
from numpy.typing import NDArray
from playwright.sync_api import Page

from ictd_lib import figures
from ictd_lib.figures.page import script, stylesheet
from ictd_lib.pretraining import Recipe, Run

AXE = ROOT / "tests" / "site" / "vendor" / "axe-core" / "axe.min.js"
PHONE_AND_WIDE = (360, 1440)
#: Contrast is a matter of the theme, the rest of the width: axe sees each of both once. (weighted-td: all.)
READERS = ((360, "dark"), (1440, "light"))
# The colours that the site's theme hands to a figure.
DARK = (
    "--pst-color-background: #14181e; --pst-color-text-base: #ced6dd;"
    "--pst-color-text-muted: #9ca4af; --pst-color-border: #48566b;"
)

# What anywidget does in the browser, with a model that records what it is told.
MOUNT_WIDGET = """async ([source, state]) => {
    const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    const widget = (await import(url)).default;
    const listeners = {};
    window.saved = [];
    window.model = {
        get: (key) => state[key],
        set: (key, value) => {
            state[key] = value;
            (listeners[`change:${key}`] || []).forEach((listener) => listener());
        },
        save_changes: () => saved.push({ ...state }),
        on: (event, listener) => (listeners[event] ||= []).push(listener),
        off: (event, listener) =>
            (listeners[event] = listeners[event].filter((other) => other !== listener)),
        waiting: () => Object.values(listeners).flat().length,
    };
    document.querySelector("main").replaceChildren();
    window.end = await widget.render({ model, el: document.querySelector("main") });
}"""

Floats = NDArray[np.float64]


def made_up(*, w: list[float], multiple: float) -> Run:
    """A run on a straight way from nothing to these parameters."""
    far = np.linspace(0, 1, 21)
    history: dict[str, Any] = {
        "step": np.arange(0, 420, 20),
        "w": far[:, None] * w,
        "A": far[:, None, None] * multiple * np.eye(10),
    }
    last = {"w": torch.tensor([w]), "A": torch.eye(10)[None]}
    return Run(Recipe(), 0, 400, last, history, np.zeros(400))


RUNS = {
    "found": made_up(w=[0.5, 0.5, -0.5], multiple=5),
    "trapped": made_up(w=[-0.2, -1.1, -0.3], multiple=-0.7),
    "wild": made_up(w=[1.0, 1.0, 1.0], multiple=1),  # values grow without bound
}
#: Every figure of the book, by the name that its script has.
FIGURES: dict[str, Callable[..., Any]] = {
    "weighted-td": figures.weighted_td_playground,
    "dual-head": figures.dual_head_steps,
    "shift": figures.shift_figure,
    "contraction": figures.contraction_figure,
    "pretraining": lambda **state: figures.pretraining_figure(RUNS, **state),
    "eigenvalues": figures.eigenvalues_figure,
    "policy-evaluation": figures.policy_evaluation_figure,
}


def write_pages(folder: Path, **bodies: str) -> None:
    """Write a page ``<name>.html`` for each figure, with its script and style as a site has them."""
    (folder / "figures.js").write_text(script(), "utf-8")
    (folder / "figures.css").write_text(stylesheet(), "utf-8")
    for name, body in bodies.items():
        (folder / f"{name}.html").write_text(
            '<!doctype html><html lang="en" data-theme="light"><head><meta charset="utf-8">'
            '<title>A figure</title><link rel="icon" href="data:,">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            '<link rel="stylesheet" href="figures.css"><script defer src="figures.js"></script>'
            "<style>body { margin: 0 auto; padding: 1rem; max-width: 46rem; font-family: sans-serif;"
            "background: var(--pst-color-background, #fff); color: var(--pst-color-text-base, #222) }"
            f"[data-theme=dark] {{ {DARK} }}</style></head>"
            f"<body><main><h1>A page</h1>{body}</main></body></html>",
            "utf-8",
        )


# In one call: each question to the browser costs more than a frame.
SETTLED = """() => new Promise((done, failed) => {
    const late = performance.now() + 10_000;
    const look = () => {
        const said = [...document.querySelectorAll(".ictd-status")].every((node) => node.textContent);
        if (said && !document.querySelector("[aria-busy=true]")) done();
        else if (performance.now() > late) failed(new Error("the figure doesn't come to rest"));
        else requestAnimationFrame(look);
    };
    // A figure hears of another width at the end of a frame: it is the next that knows.
    requestAnimationFrame(() => requestAnimationFrame(look));
})"""


def settle(page: Page) -> None:
    """Wait for the next drawing, and for what is said after it, the first one included."""
    page.evaluate(SETTLED)


def picture(page: Page) -> str:
    """All that is drawn, less the cursor on the kernel."""
    return str(
        page.evaluate(
            "() => [...document.querySelectorAll('.ictd-panel > svg')]"
            ".map((svg) => svg.outerHTML.replace(/<rect class=.ictd-cursor.[^>]*>/, '')).join('')"
        )
    )


def status(page: Page) -> str:
    return page.inner_text(".ictd-status")


def no_sideways_scroll(page: Page) -> bool:
    return bool(
        page.evaluate(
            "() => document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        )
    )
