"""The playground of chapter 1: weighted softmax TD, moved by hand."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ictd_lib.chain import MarkovRewardProcess
from ictd_lib.checks import Floats
from ictd_lib.context import Context
from ictd_lib.families import (
    boyan_chain,
    random_boyan_chain,
    random_ergodic_chain,
    random_walk,
)
from ictd_lib.figures.common import (
    checked_process,
    figure_class,
    planar_features,
    still_style,
    svg,
)
from ictd_lib.figures.controls import Again, Choice, Control, Slider
from ictd_lib.figures.sampling import sample
from ictd_lib.kernel import attention_matrix, context_kernel, inner_product_scores
from ictd_lib.pictures import COLORS
from ictd_lib.td import DivergenceError, weighted_softmax_td

if TYPE_CHECKING:
    from ictd_lib.figures.widget import Figure

FEATURES = (
    ("one-hot", "one-hot"),
    ("arc", "neighbours alike"),
    ("random", "random directions"),
)
TITLE = "Weighted softmax TD on one context"


def weighted_td_playground(
    *,
    chain: str = "random-boyan",
    features: str = "one-hot",
    sharpness: float = 3.0,
    gamma: float | None = None,
    alpha: float = 1.0,
    iterations: int = 20,
    context_length: int = 300,
    seed: int = 1,
    process: MarkovRewardProcess | None = None,
) -> Figure:
    """Weighted softmax TD as a figure that moves: values, kernel and error.

    Parameters
    ----------
    chain : str
        ``"random-boyan"``, ``"boyan"``, ``"walk"``, ``"ergodic"``, or ``"given"`` with a
        ``process``.
    features : str
        ``"one-hot"``, ``"arc"`` or ``"random"``; all of norm 1.
    sharpness : float
        :math:`\\tau` in the score :math:`g(s, s') = \\tau\\,\\langle x(s), x(s')\\rangle`,
        from 0.1 to 100.
    gamma : float, optional
        Discount, up to 0.99: that of the process unless given, 0.9 where none is.
    alpha : float
        Step size, up to 3.
    iterations : int
        ``t``, up to 200: which iterate is shown.
    context_length : int
        ``n``, from 5 to 5000.
    seed : int
        Which context. The same seed gives the same context in Python and in the browser.
    process : MarkovRewardProcess, optional
        A chain of your own, offered beside the others and shown first, as it is (the
        built-in ones are rounded to six decimals).

    Returns
    -------
    Figure
        A widget with one trait per argument (except ``process``).

    Raises
    ------
    ValueError
        If an argument is out of its range; the message names it.
    TypeError
        If the process is something else.
    ImportError
        If anywidget isn't installed.
    """
    chains = {name: (text, _rounded(mrp)) for name, (text, mrp) in _chains().items()}
    if process is not None:
        given = checked_process(process)
        chains = {"given": ("the given one", given), **chains}
        gamma = given.discount if gamma is None else gamma
        chain = "given" if chain == "random-boyan" else chain
    controls: tuple[Control, ...] = (
        Choice(
            "chain", "chain", tuple((name, text) for name, (text, _) in chains.items())
        ),
        Choice("features", "features x(s)", FEATURES),
        Slider("sharpness", "sharpness τ", 0.1, 100, 0.05, log=True),
        Slider("gamma", "discount γ", 0, 0.99, 0.01),
        Slider("alpha", "step size α", 0.05, 3, 0.05),
        Slider(
            "context_length", "context length n", 5, 5000, 0.05, log=True, whole=True
        ),
        Slider("iterations", "iterations t", 0, 200, 1, whole=True, play=True),
        Again("seed", "New context"),
    )
    state = {
        "chain": chain,
        "features": features,
        "sharpness": sharpness,
        "gamma": 0.9 if gamma is None else gamma,
        "alpha": alpha,
        "context_length": context_length,
        "iterations": iterations,
        "seed": seed,
    }
    data = {
        "title": TITLE,
        "chains": [
            {
                "name": name,
                "P": mrp.transition.tolist(),
                "r": mrp.reward.tolist(),
                "start": mrp.initial.tolist(),
                # One-hot features are the script's own.
                "features": {
                    f: planar_features(f, mrp.n_states).tolist()
                    for f in ("arc", "random")
                },
            }
            for name, (_, mrp) in chains.items()
        ],
    }
    Figure = figure_class()
    return Figure(
        "weighted-td",
        controls,
        state,
        data,
        lambda now: _still(chains[now["chain"]][1], now),
    )


def _chains() -> dict[str, tuple[str, MarkovRewardProcess]]:
    rng = np.random.default_rng(1)
    return {
        "random-boyan": ("random Boyan", random_boyan_chain(10, rng, 0.9)),
        "boyan": ("Boyan’s own", boyan_chain(0.9)),
        "walk": ("random walk", random_walk(9, 0.9)),
        "ergodic": ("any state to any", random_ergodic_chain(8, rng, 0.9)),
    }


def _rounded(process: MarkovRewardProcess) -> MarkovRewardProcess:
    """The process with probabilities of six decimals whose rows still sum to 1.

    So the numbers in a page are short, and the same on every machine.
    """
    millionths = np.rint(process.transition * 1e6)
    rows = np.arange(process.n_states)
    millionths[rows, millionths.argmax(axis=1)] += 1e6 - millionths.sum(axis=1)
    return MarkovRewardProcess(
        millionths / 1e6, process.reward.round(6), process.discount, process.initial
    )


# ---- the still picture ---------------------------------------------------------------------


def _shown(
    process: MarkovRewardProcess,
    context: Context,
    scores: Floats,
    state: Mapping[str, Any],
) -> tuple[Floats, int]:
    """Iterate ``t``, or the last before a divergence; and its number."""
    # A hundred times the largest value that the chain can have, as in the script.
    bound = 100 * np.abs(process.reward).max() / (1 - state["gamma"])
    done = state["iterations"]
    run = partial(
        weighted_softmax_td,
        context,
        scores,
        state["gamma"],
        step_size=state["alpha"],
        bound=bound,
    )
    try:
        return run(done)[-1], done
    except DivergenceError as error:
        return run(error.iteration - 1)[-1], error.iteration - 1


def _still(process: MarkovRewardProcess, state: Mapping[str, Any]) -> tuple[str, str]:
    """The picture as an SVG document, and its description."""
    from matplotlib.figure import Figure as Picture

    context = sample(process, state["context_length"], state["seed"])
    x = planar_features(state["features"], process.n_states)
    scores = inner_product_scores(x, state["sharpness"])
    kernel = attention_matrix(context, context_kernel(context, scores))
    v, done = _shown(process, context, scores, state)
    truth = MarkovRewardProcess(
        process.transition, process.reward, state["gamma"]
    ).values()
    outcome = (
        f"after {done} iterations the largest error is {np.abs(v - truth).max():.3g}"
        if done == state["iterations"]
        else f"the iteration diverges, shown after {done} steps"
    )
    alt = (
        f"Left: estimated and true values of {process.n_states} states; {outcome}. "
        f"Right: the kernel at sharpness {state['sharpness']:g} as a heat map; a state gives its "
        f"own visits a weight of {kernel.diagonal().min():.2f} to {kernel.diagonal().max():.2f}."
    )
    with still_style():
        picture = Picture(figsize=(5.6, 3.1), layout="constrained")
        left, right = picture.subplots(1, 2)
        left.plot(truth, "_k", markersize=12, markeredgewidth=2, label="true value")
        left.plot(v, "o", color=COLORS["blue"], label=f"v, t = {done}")
        left.set(xlabel="state", xticks=range(process.n_states))
        left.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, frameon=False)
        right.pcolormesh(kernel, cmap="Blues", vmin=0, vmax=1, edgecolors="#d1d5da")
        right.set(title="kernel", xlabel="source state s′", ylabel="query state s")
        right.set_aspect("equal")
        for axis in (right.xaxis, right.yaxis):
            axis.set_ticks(
                np.arange(process.n_states) + 0.5, labels=range(process.n_states)
            )
        right.invert_yaxis()
        return svg(picture), alt
