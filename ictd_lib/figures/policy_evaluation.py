"""The figure of chapter 0: what a backup takes away, and what a run of as many steps tells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ictd_lib.chain import MarkovRewardProcess
from ictd_lib.checks import Floats
from ictd_lib.families import random_boyan_chain, random_walk
from ictd_lib.figures.common import figure_class, still_style, svg
from ictd_lib.figures.controls import Again, Choice, Control, Slider
from ictd_lib.figures.sampling import draw, splitmix32
from ictd_lib.pictures import COLORS

if TYPE_CHECKING:
    from ictd_lib.figures.widget import Figure

TITLE = "Backups, and runs of as many steps"
STATES = 8
BACKUPS = 200
SMALLEST = 1e-6  #: Where the picture of the errors ends.
CHAINS = (
    ("boyan", "Boyan chain"),
    ("walk", "random walk"),
    ("tour", "round and round"),
    ("anywhere", "anywhere"),
)
STARTS = (
    ("zero", "0 everywhere"),
    ("shifted", "all 1 too high"),
    ("one", "s 1 too high"),
)


def policy_evaluation_figure(
    *,
    chain: str = "boyan",
    start: str = "zero",
    gamma: float = 0.9,
    backups: int = 10,
    origin: int = 0,
    runs: int = 20,
    seed: int = 1,
) -> Figure:
    """Backups :math:`v \\leftarrow r + \\gamma Pv`, beside runs of as many steps.

    The return of a run of ``k`` steps from state ``s`` is
    :math:`\\sum_{t<k}\\gamma^t R_{t+1} + \\gamma^k u(S_k)`, where ``u`` is the start of the
    backups. Its mean is what ``k`` backups give: :math:`(\\mathcal T^k u)(s)`.

    Parameters
    ----------
    chain : str
        ``"boyan"``, ``"walk"``, ``"tour"`` or ``"anywhere"``. All pay the same rewards.
    start : str
        ``u``: ``"zero"``, ``"shifted"`` or ``"one"``.
    gamma : float
        Discount, up to 0.99.
    backups : int
        ``k``, up to 200: backups, and steps of a run.
    origin : int
        ``s``, from 0 to 7: where the runs begin.
    runs : int
        ``m``, from 1 to 1,000: how many are averaged.
    seed : int
        Which runs. The same seed gives the same ones in Python and in the browser.

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
        Choice("chain", "how it moves", CHAINS),
        Choice("start", "backups start from", STARTS),
        Slider("gamma", "discount γ", 0, 0.99, 0.01),
        Slider("origin", "runs from state s", 0, STATES - 1, 1, whole=True),
        Slider("runs", "runs m", 1, 1000, 0.05, log=True, whole=True),
        Slider("backups", "backups k", 0, BACKUPS, 1, whole=True, play=True),
        Again("seed", "New runs"),
    )
    state = {
        "chain": chain,
        "start": start,
        "gamma": gamma,
        "backups": backups,
        "origin": origin,
        "runs": runs,
        "seed": seed,
    }
    data = {
        "title": TITLE,
        "chains": [
            {
                "name": name,
                "P": process.transition.tolist(),
                "r": process.reward.tolist(),
            }
            for name, process in chains().items()
        ],
    }
    return figure_class()("policy-evaluation", controls, state, data, _still)


def chains(discount: float = 0.9) -> dict[str, MarkovRewardProcess]:
    """The chains by name: four ways to move, one reward for each state."""
    boyan = random_boyan_chain(STATES, np.random.default_rng(2026), discount)
    moves = {
        "boyan": boyan.transition,
        "walk": random_walk(STATES, discount).transition,
        "tour": np.roll(np.eye(STATES), 1, axis=1),
        "anywhere": np.full((STATES, STATES), 1 / STATES),
    }
    return {
        name: MarkovRewardProcess(transition, boyan.reward, discount)
        for name, transition in moves.items()
    }


# ---- the mathematics, once more in js/policy_evaluation.js ---------------------------------


def first_beliefs(start: str, truth: Floats, origin: int) -> Floats:
    """``u``, which the backups start from."""
    if start == "zero":
        return np.zeros_like(truth)
    return truth + (1.0 if start == "shifted" else np.eye(len(truth))[origin])


def iterates(
    process: MarkovRewardProcess, first: Floats, backups: int
) -> tuple[Floats, Floats]:
    """Beliefs after each backup, and the standard deviation of a run's return, a row each.

    A return varies with the next state and with what follows it:
    :math:`\\sigma_k^2 = \\gamma^2(P\\sigma_{k-1}^2 + \\mathrm{Var}_{S'}\\,v_{k-1}(S'))`, a sum
    of what is never negative, so nothing cancels.
    """
    v, variance = first, np.zeros_like(first)
    beliefs, deviations = [v], [variance]
    for _ in range(backups):
        away = v - (process.transition @ v)[:, None]
        spread = (process.transition * away**2).sum(axis=1)
        variance = process.discount**2 * (process.transition @ variance + spread)
        v = process.backup(v)
        beliefs.append(v)
        deviations.append(np.sqrt(variance))
    return np.array(beliefs), np.array(deviations)


def returns(
    process: MarkovRewardProcess,
    first: Floats,
    steps: int,
    origin: int,
    *,
    runs: int,
    seed: int,
) -> Floats:
    """The return of each run. Each has numbers of its own, so that a longer one goes on."""
    rows, reward = process.transition.tolist(), process.reward.tolist()
    seeds = splitmix32(seed)
    found = []
    for _ in range(runs):
        uniform = splitmix32(int(next(seeds) * 2**32))
        s, weight, total = origin, 1.0, 0.0
        for _ in range(steps):
            total += weight * reward[s]
            weight *= process.discount
            s = draw(rows[s], next(uniform))
        found.append(total + weight * first[s])
    return np.array(found)


# ---- the still picture ---------------------------------------------------------------------


def _still(state: Mapping[str, Any]) -> tuple[str, str]:
    """The picture as an SVG document, and its description."""
    from matplotlib.figure import Figure as Picture

    process = chains(state["gamma"])[state["chain"]]
    k, s, m = state["backups"], state["origin"], state["runs"]
    truth = process.values()
    first = first_beliefs(state["start"], truth, s)
    beliefs, deviations = iterates(process, first, BACKUPS)
    errors = np.abs(beliefs - truth).max(axis=1)
    mean = returns(process, first, k, s, runs=m, seed=state["seed"]).mean()
    noise = deviations[k, s] / np.sqrt(m)
    alt = (
        f"How it moves: {dict(CHAINS)[state['chain']]}; discount {state['gamma']:g}. Left: the values and the "
        f"beliefs after {k} backups; the largest error is {errors[k]:.3g}. The average of {m} "
        f"runs of {k} steps from state {s} is {mean:.3g}, with a standard error of {noise:.3g}. "
        "Right: the largest error against the number of backups, beside the bound (dashed)."
    )
    with still_style():
        picture = Picture(figsize=(5.6, 3.1), layout="constrained")
        left, right = picture.subplots(1, 2)
        left.plot(truth, "_k", markersize=12, markeredgewidth=2, label="value")
        left.plot(beliefs[k], "o", color=COLORS["blue"], label=f"k = {k}")
        left.plot(s, mean, "D", color=COLORS["vermilion"], fillstyle="none")
        left.set(xlabel="state", xticks=range(STATES))
        left.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, frameon=False)
        bound = errors[0] * state["gamma"] ** np.arange(BACKUPS + 1)
        right.semilogy(np.maximum(errors, SMALLEST / 10), color=COLORS["blue"])
        right.semilogy(np.maximum(bound, SMALLEST / 10), "--", color=COLORS["green"])
        right.plot(k, max(errors[k], SMALLEST), "o", color=COLORS["blue"])
        right.set(xlabel="backups", title="largest error")
        right.set_ylim(bottom=SMALLEST)
        return svg(picture), alt
