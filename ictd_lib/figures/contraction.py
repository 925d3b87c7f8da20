"""The figure of chapter 4: what depth buys, what context buys, and when 5.1 says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ictd_lib.chain import MarkovRewardProcess
from ictd_lib.checks import Floats
from ictd_lib.families import random_boyan_chain
from ictd_lib.figures.common import figure_class, planar_features, still_style, svg
from ictd_lib.figures.controls import Again, Choice, Control, Slider
from ictd_lib.figures.sampling import sample
from ictd_lib.kernel import attention_matrix, context_kernel, inner_product_scores
from ictd_lib.pictures import COLORS
from ictd_lib.td import DivergenceError, weighted_softmax_td

if TYPE_CHECKING:
    from ictd_lib.figures.widget import Figure

TITLE = "Depth and context"
LAYERS = 200
TASKS = (
    ("one-hot", "Boyan chain, one-hot features"),
    ("arc", "Boyan chain, neighbours alike"),
    ("slow", "two states that stay (.999)"),
    ("loud", "three states, one drowned out"),
)


def contraction_figure(
    *,
    task: str = "one-hot",
    sharpness: float = 7.5,
    gamma: float = 0.9,
    context_length: int = 500,
    layers: int = 40,
    seed: int = 1,
) -> Figure:
    """Error against depth, beside the diagonal that governs it and the map of 5.1.

    Parameters
    ----------
    task : str
        Chain and features: ``"one-hot"``, ``"arc"``, ``"slow"`` or ``"loud"``.
    sharpness : float
        :math:`\\tau`, from 0.1 to 100.
    gamma : float
        Discount, up to 0.99.
    context_length : int
        ``n``, from 10 to 30,000.
    layers : int
        ``L``, up to 200: which depth the summary speaks of.
    seed : int
        Which trajectory; a context is its first ``n`` transitions. The same seed gives the
        same context in Python and in the browser.

    Returns
    -------
    Figure
        A widget with one trait per argument.

    Raises
    ------
    ValueError
        If an argument is out of its range; the message names it.
    ImportError
        If anywidget isn't installed.
    """
    controls: tuple[Control, ...] = (
        Choice("task", "chain and features", TASKS),
        Slider("sharpness", "sharpness τ", 0.1, 100, 0.02, log=True),
        Slider("gamma", "discount γ", 0, 0.99, 0.01),
        Slider(
            "context_length", "context length n", 10, 30_000, 0.05, log=True, whole=True
        ),
        Slider("layers", "layers L", 0, LAYERS, 1, whole=True, play=True),
        Again("seed", "New context"),
    )
    state = {
        "task": task,
        "sharpness": sharpness,
        "gamma": gamma,
        "context_length": context_length,
        "layers": layers,
        "seed": seed,
    }
    data = {
        "title": TITLE,
        "cases": [
            {
                "name": name,
                "P": process.transition.tolist(),
                "r": process.reward.tolist(),
                "start": process.initial.tolist(),
                "X": features.tolist(),
            }
            for name, (process, features) in cases().items()
        ],
    }
    return figure_class()("contraction", controls, state, data, _still)


def cases() -> dict[str, tuple[MarkovRewardProcess, Floats]]:
    """The chains and features by name; every number has few digits, as in the page."""
    boyan = random_boyan_chain(8, np.random.default_rng(2026), 0.9)
    # Whole ten-thousandths, the largest of a row taking up what rounding left.
    counts = np.rint(boyan.transition * 1e4)
    counts[np.arange(8), counts.argmax(axis=1)] += 1e4 - counts.sum(axis=1)
    boyan = MarkovRewardProcess(counts / 1e4, boyan.reward.round(4), 0.9)
    slow = MarkovRewardProcess([[0.999, 0.001], [0.001, 0.999]], [1, -1], 0.9)
    loud = MarkovRewardProcess(
        [[0.0, 0.05, 0.95], [0.4, 0.6, 0.0], [1.0, 0.0, 0.0]], [1, -1, 0], 0.9
    )
    return {
        "one-hot": (boyan, np.eye(8)),
        "arc": (boyan, planar_features("arc", 8)),
        "slow": (slow, np.eye(2)),
        "loud": (loud, np.array([[0.4], [2.4], [2.0]])),
    }


# ---- the still picture ---------------------------------------------------------------------


def _errors(state: Mapping[str, Any]) -> tuple[Floats, Floats, bool]:
    """Error at each depth, the diagonal of the context's kernel, whether the run diverged."""
    process, features = cases()[state["task"]]
    gamma = state["gamma"]
    context = sample(process, state["context_length"], state["seed"])
    scores = inner_product_scores(features, state["sharpness"])
    own = attention_matrix(context, context_kernel(context, scores)).diagonal()
    truth = MarkovRewardProcess(process.transition, process.reward, gamma).values()
    # A hundred times the largest value that the chain can have, as in the script.
    bound = 100 * np.abs(process.reward).max() / (1 - gamma)
    try:
        run, diverged = (
            weighted_softmax_td(context, scores, gamma, LAYERS, bound=bound),
            False,
        )
    except DivergenceError as error:
        before = error.iteration - 1
        run = weighted_softmax_td(context, scores, gamma, before, bound=bound)
        diverged = True
    return np.abs(run - truth).max(axis=1), own, diverged


def _still(state: Mapping[str, Any]) -> tuple[str, str]:
    """The picture as an SVG document, and its description."""
    from matplotlib.figure import Figure as Picture

    errors, own, diverged = _errors(state)
    threshold = (1 + state["gamma"]) / 2
    depth = min(state["layers"], len(errors) - 1)
    outcome = "it diverges" if diverged else f"the error is {errors[depth]:.3g}"
    alt = (
        f"{dict(TASKS)[state['task']]}. Left: error against depth; after {depth} layers {outcome}. "
        f"Right: the weight that each state gives itself at sharpness {state['sharpness']:g}, "
        f"{own.min():.3g} to {own.max():.3g}, against the threshold {threshold:.3g}."
    )
    with still_style():
        picture = Picture(figsize=(5.6, 2.8), layout="constrained")
        left, right = picture.subplots(1, 2)
        left.semilogy(np.maximum(errors, 1e-12), color=COLORS["blue"])
        left.plot(depth, max(errors[depth], 1e-12), "o", color=COLORS["blue"])
        left.set(xlabel="layers", title="largest error")
        right.axhline(threshold, color=COLORS["vermilion"], linestyle="--")
        right.plot(own, "o", color=COLORS["blue"])
        right.set(xlabel="state", title="weight on itself", ylim=(-0.04, 1.04))
        right.set_xticks(range(len(own)))
        return svg(picture), alt
