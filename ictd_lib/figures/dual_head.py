"""The prompt of chapter 2: two heads at work, layer by layer, moved by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ictd_lib.chain import MarkovRewardProcess
from ictd_lib.checks import Floats
from ictd_lib.context import Context
from ictd_lib.families import random_boyan_chain
from ictd_lib.figures.common import (
    checked_process,
    figure_class,
    planar_features,
    still_style,
    svg,
)
from ictd_lib.figures.controls import Again, Choice, Control, Slider
from ictd_lib.figures.sampling import sample
from ictd_lib.kernel import checked_features
from ictd_lib.pictures import COLORS

if TYPE_CHECKING:
    from ictd_lib.figures.widget import Figure

LAYERS = 6
#: Of a layer: its prompt, attention, the current-value head, the target-value head.
PHASES = 4
TITLE = "A prompt on its way through the layers"


def dual_head_steps(
    context: Context | None = None,
    features: ArrayLike | None = None,
    process: MarkovRewardProcess | None = None,
    *,
    step: int = 0,
    sharpness: float = 4.0,
    gamma: float | None = None,
    alpha: float = 1.0,
    last_column: str = "masked",
    seed: int | None = None,
) -> Figure:
    """The dual-head Transformer as a figure that moves: a prompt and what each head does to it.

    Parameters
    ----------
    context : Context, optional
        A short one: its ``n + 1`` columns must fit on a phone, so ``n`` is at most 8. Drawn
        from the process unless given.
    features : (S, d) array, optional
        One state a row, ``d`` at most 4. A half circle unless given.
    process : MarkovRewardProcess, optional
        Where further contexts are drawn from, of the same length.
    step : int
        4 for each layer: its prompt, attention, first head, second head. Up to 24.
    sharpness, alpha : float
        From 0.1 to 100, and up to 1.5.
    gamma : float, optional
        Discount, up to 0.99: that of the process unless given.
    last_column : {"masked", "source"}
        Whether the query's column may be a source. It may not, in a correct Transformer.
    seed : int, optional
        Which context; 0 is the given one. The same seed gives the same context in Python
        and in the browser.

    Returns
    -------
    Figure
        A widget with one trait for each keyword argument.

    Raises
    ------
    ValueError
        If an argument is out of its range; the message names it.
    TypeError
        If the context or the process is something else.
    ImportError
        If anywidget isn't installed.
    """
    if process is None:
        process = random_boyan_chain(8, np.random.default_rng(2026), 0.9)
    process = checked_process(process)
    if context is not None and not isinstance(context, Context):
        raise TypeError(f"context: got {type(context).__name__}, expected a Context")
    size = process.n_states
    if features is None:
        features = planar_features("arc", size)
    x = checked_features(features, size)
    if x.shape[1] > 4:
        raise ValueError(f"features: got {x.shape[1]} columns, expected at most 4")
    if context is not None and (context.n > 8 or context.n_states != size):
        raise ValueError(
            f"context: got {context.n} transitions over {context.n_states} states, "
            f"expected at most 8 over {size}"
        )
    if seed is None:
        seed = 1 if context is None else 0
    first = context or sample(process, 7, seed)
    controls: tuple[Control, ...] = (
        Slider(
            "step",
            "step, four to a layer",
            0,
            PHASES * LAYERS,
            1,
            whole=True,
            play=True,
        ),
        Slider("sharpness", "sharpness τ", 0.1, 100, 0.05, log=True),
        Slider("gamma", "discount γ", 0, 0.99, 0.01),
        Slider("alpha", "step size α", 0.05, 1.5, 0.05),
        Choice(
            "last_column",
            "the last column is",
            (("masked", "never a source"), ("source", "a source, too")),
        ),
        Again("seed", "New context"),
    )
    state = {
        "step": step,
        "sharpness": sharpness,
        "gamma": process.discount if gamma is None else gamma,
        "alpha": alpha,
        "last_column": last_column,
        "seed": seed,
    }
    data = {
        "title": TITLE,
        "layers": LAYERS,
        "pace": 1500,
        "n": first.n,
        "P": process.transition.tolist(),
        "r": process.reward.tolist(),
        "start": process.initial.tolist(),
        "features": x.tolist(),
        "context": {
            "states": first.states.tolist(),
            "rewards": first.rewards.tolist(),
        },
    }

    def still(now: Mapping[str, Any]) -> tuple[str, str]:
        drawn = first if now["seed"] == 0 else sample(process, first.n, now["seed"])
        return _still(drawn, x, now)

    return figure_class()("dual-head", controls, state, data, still)


def prompts(
    context: Context,
    features: Floats,
    *,
    sharpness: float,
    gamma: float,
    alpha: float,
    query_is_source: bool = False,
    layers: int = LAYERS,
) -> tuple[Floats, Floats]:
    """Every prompt of the pass, and the weights, which are the same in all layers.

    Returns
    -------
    (layers + 1, d + 3, n + 1) and (n + 1, n + 1) arrays
        :math:`Z_0, \\dots, Z_L`, and :math:`W` with sources as rows.
    """
    x, n = features[context.states], context.n
    Z = np.vstack([x.T, np.append(context.rewards, 0), np.zeros((2, n + 1))])
    scores = sharpness * x @ x.T
    if not query_is_source:
        scores[n] = -np.inf
    W = np.exp(scores - scores.max(axis=0))
    W /= W.sum(axis=0)
    passed = [Z]
    for _ in range(layers):
        written = alpha * (Z[-3] + Z[-2] - Z[-1]) @ W
        Z = Z.copy()
        Z[-1] += written
        Z[-2, :-1] += gamma * written[1:]
        passed.append(Z)
    return np.array(passed), W


def _still(
    context: Context, features: Floats, state: Mapping[str, Any]
) -> tuple[str, str]:
    """The picture as an SVG document, and its description."""
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure as Picture

    passed, W = prompts(
        context,
        features,
        sharpness=state["sharpness"],
        gamma=state["gamma"],
        alpha=state["alpha"],
        query_is_source=state["last_column"] == "source",
    )
    layer = state["step"] // PHASES
    Z, d, columns = passed[layer], features.shape[1], context.n + 1
    names = [*(f"feature {i + 1}" for i in range(d)), "reward", "target", "value"]
    states = ", ".join(map(str, context.states))
    values = ", ".join(f"{v + 0.0:.2f}" for v in Z[-1].round(2))
    alt = (
        f"Left: the prompt after {layer} of {LAYERS} layers as a grid of numbers; its columns "
        f"are the states {states}, its rows {', '.join(names)}. The value row is {values}. "
        "Right: the attention weights of all columns as a heat map; the last column "
        + ("is no source." if state["last_column"] == "masked" else "is a source, too.")
    )
    # Features have a scale of their own; the other rows share one, over all layers.
    scale = np.abs(passed[:, d:]).max() or 1.0
    shade = np.vstack([Z[:d], Z[d:] / scale])
    colours = LinearSegmentedColormap.from_list(
        "signs", [COLORS["vermilion"], "white", COLORS["blue"]]
    )
    with still_style():
        picture = Picture(figsize=(5.6, 3.1), layout="constrained")
        left, right = picture.subplots(1, 2, width_ratios=[1.7, 1])
        left.pcolormesh(shade, cmap=colours, vmin=-2, vmax=2, edgecolors="#d1d5da")
        for (i, j), value in np.ndenumerate(Z):
            text = f"{value:.2f}".replace("-0.00", "0").replace("0.00", "0")
            left.text(j + 0.5, i + 0.5, text, ha="center", va="center", fontsize=6)
        left.set(title=f"prompt after {layer} layers", xlabel="state of the column")
        left.set_yticks(np.arange(d + 3) + 0.5, labels=names)
        left.set_xticks(np.arange(columns) + 0.5, labels=context.states)
        right.pcolormesh(W, cmap="Blues", vmin=0, vmax=1, edgecolors="#d1d5da")
        right.set(title="attention", xlabel="query column", ylabel="source column")
        right.set_aspect("equal")
        for axis in (right.xaxis, right.yaxis):
            axis.set_ticks(np.arange(columns) + 0.5, labels=range(columns))
        for ax in (left, right):
            ax.invert_yaxis()
        return svg(picture), alt
