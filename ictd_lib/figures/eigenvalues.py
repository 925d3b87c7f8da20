"""The figure of chapter 6: the eigenvalues of a layer, which a sink or a smaller step moves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ictd_lib.chain import MarkovRewardProcess
from ictd_lib.checks import Floats
from ictd_lib.divergence import equal_norms, unequal_norms
from ictd_lib.figures.common import figure_class, still_style, svg
from ictd_lib.figures.controls import Choice, Control, Slider
from ictd_lib.kernel import inner_product_scores
from ictd_lib.operators import layer_operator, population_kernel
from ictd_lib.pictures import COLORS
from ictd_lib.preconditioning import rescaled_steps, sink_steps

if TYPE_CHECKING:
    from ictd_lib.figures.widget import Figure

TITLE = "Eigenvalues of a layer"
LAYERS = 200
CHAINS = (
    ("tour", "a tour of three states"),
    ("unequal", "three states, unequal norms"),
    ("equal", "four states, equal norms"),
    ("one-hot", "four states, one-hot features"),
)
REMEDIES = (
    ("none", "none"),
    ("sink", "an attention sink"),
    ("rescaled", "rescaled steps"),
)


def eigenvalues_figure(
    *,
    chain: str = "tour",
    remedy: str = "none",
    sink: float = 1.0,
    sharpness: float = 1.0,
    gamma: float = 0.9,
    step_size: float = 1.0,
) -> Figure:
    """Eigenvalues of :math:`T = I - \\alpha\\,\\mathrm{diag}(a) M (I - \\gamma P)` in the plane.

    Parameters
    ----------
    chain : str
        Chain and features: ``"tour"``, ``"unequal"``, ``"equal"`` or ``"one-hot"``.
    remedy : str
        What makes the steps :math:`a(s)`: ``"none"`` (all 1), ``"sink"`` or ``"rescaled"``.
    sink : float
        ``b``, from 0.01 to 1e16; without effect unless the remedy is a sink.
    sharpness : float
        :math:`\\tau`, from 0.05 to 20, by which inner products are multiplied.
    gamma : float
        Discount, up to 0.99.
    step_size : float
        :math:`\\alpha`, from 0.05 to 2.5.

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
        Choice("chain", "chain and features", CHAINS),
        Choice("remedy", "remedy", REMEDIES),
        Slider("sink", "sink b", 0.01, 1e16, 0.1, log=True),
        Slider("sharpness", "sharpness τ", 0.05, 20, 0.02, log=True),
        Slider("gamma", "discount γ", 0, 0.99, 0.01),
        Slider("step_size", "step size α", 0.05, 2.5, 0.05),
    )
    state = {
        "chain": chain,
        "remedy": remedy,
        "sink": sink,
        "sharpness": sharpness,
        "gamma": gamma,
        "step_size": step_size,
    }
    data = {
        "title": TITLE,
        "layers": LAYERS,
        "cases": [
            {"name": name, "P": process.transition.tolist(), "X": features.tolist()}
            for name, (process, features) in cases().items()
        ],
    }
    return figure_class()("eigenvalues", controls, state, data, _still)


def cases() -> dict[str, tuple[MarkovRewardProcess, Floats]]:
    """The chains and features by name."""
    tour = MarkovRewardProcess(np.roll(np.eye(3), 1, axis=1), [0, 0, 1], 0.9)
    boyan = MarkovRewardProcess(
        np.array(
            [
                [0.0, 0.5, 0.5, 0.0],
                [0.0, 0.0, 0.5, 0.5],
                [0.0, 0.0, 0.0, 1.0],
                [0.4, 0.3, 0.2, 0.1],
            ]
        ),
        [0, 0, 0, 1],
        0.9,
    )
    equal, circle = equal_norms()
    return {
        "tour": (tour, np.array([[0.75], [3.5], [3.0]])),
        "unequal": unequal_norms(),
        "equal": (equal, circle.round(6)),
        "one-hot": (boyan, 2 * np.eye(4)),
    }


# ---- the still picture ---------------------------------------------------------------------


def _layer(state: Mapping[str, Any]) -> Floats:
    """The layer as a matrix."""
    process, features = cases()[state["chain"]]
    mu = process.stationary()
    scores = inner_product_scores(features, state["sharpness"])
    steps = np.ones(len(mu))
    if state["remedy"] == "sink":
        steps = sink_steps(scores, mu, state["sink"])
    elif state["remedy"] == "rescaled":
        steps = rescaled_steps(scores, mu)
    kernel = steps[:, None] * population_kernel(scores, mu)
    return layer_operator(
        kernel, process.transition, state["gamma"], state["step_size"]
    )


def _still(state: Mapping[str, Any]) -> tuple[str, str]:
    """The picture as an SVG document, and its description."""
    from matplotlib.figure import Figure as Picture

    T = _layer(state)
    values = np.linalg.eigvals(T)
    radius = float(np.abs(values).max())
    power, norms = np.eye(len(T)), []
    for _ in range(LAYERS + 1):
        norms.append(np.abs(power).sum(axis=1).max())
        power = power @ T
    with_ = dict(REMEDIES)[state["remedy"]]
    alt = (
        f"{dict(CHAINS)[state['chain']]}, remedy: {with_}. Left: the eigenvalues of a layer "
        f"beside the unit circle; the spectral radius is {radius:.4f}. "
        f"Right: the worst factor of an error, {norms[-1]:.3g} after {LAYERS} layers."
    )
    turn = np.linspace(0, 2 * np.pi, 200)
    with still_style():
        picture = Picture(figsize=(5.6, 2.8), layout="constrained")
        left, right = picture.subplots(1, 2)
        left.plot(np.cos(turn), np.sin(turn), color="gray")
        left.plot(values.real, values.imag, "o", color=COLORS["blue"])
        left.set_aspect("equal")
        left.set(title="eigenvalues")
        right.semilogy(np.maximum(norms, 1e-12), color=COLORS["blue"])
        right.set(xlabel="layers", title="worst factor of an error")
        return svg(picture), alt
