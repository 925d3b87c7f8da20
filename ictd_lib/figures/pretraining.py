"""The figure of chapter 5: a replay of training, and what each snapshot does on a new chain."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from ictd_lib.chain import MarkovRewardProcess
from ictd_lib.checks import Floats
from ictd_lib.families import random_boyan_chain
from ictd_lib.features import unit_features
from ictd_lib.figures.common import figure_class, still_style, svg
from ictd_lib.figures.controls import Again, Choice, Control, Slider
from ictd_lib.figures.sampling import sample
from ictd_lib.pictures import COLORS

if TYPE_CHECKING:
    from ictd_lib.figures.widget import Figure
    from ictd_lib.pretraining import Run

TITLE = "A replay of training"
SIZE = 10
#: About as many snapshots as a slider can show; each costs the page a kilobyte.
SNAPSHOTS = 40


def pretraining_figure(
    runs: Mapping[str, Run],
    *,
    run: str | None = None,
    snapshot: int | None = None,
    layers: int = 15,
    context_length: int = 500,
    seed: int = 1,
) -> Figure:
    """Snapshots of training runs, and a chain on which the reader tries them.

    Parameters
    ----------
    runs : mapping of str to Run
        What the reader chooses from, by the names that the reader sees. Each of 10 features,
        with masks, and with records of ``w`` and ``A``; about 40 of these are kept, close
        together at first.
    run : str, optional
        Which one is shown; the first unless given.
    snapshot : int
        Which record of it, from 0; the last unless given.
    layers : int
        ``L`` on the new chain, from 1 to 60; the runs need not have been trained with it.
    context_length : int
        ``n`` on the new chain, from 50 to 10,000.
    seed : int
        Which trajectory of it. The same seed gives the same context in Python and in the browser.

    Returns
    -------
    Figure
        A widget with one trait per argument, ``runs`` excepted.

    Raises
    ------
    ValueError
        If an argument is out of its range, or a run can't be shown; the message names it.
    ImportError
        If anywidget isn't installed.
    """
    if not runs:
        raise ValueError("runs: got none, expected at least one")
    shown = [_replay(name, trained) for name, trained in runs.items()]
    most = max(len(replay["snapshots"]) for replay in shown) - 1
    controls: tuple[Control, ...] = (
        Choice("run", "a run that starts with", tuple((name, name) for name in runs)),
        Slider("layers", "layers L", 1, 60, 1, whole=True),
        Slider(
            "context_length", "context length n", 50, 10_000, 0.05, log=True, whole=True
        ),
        Slider("snapshot", "snapshot", 0, most, 1, whole=True, play=True),
        Again("seed", "New context"),
    )
    state = {
        "run": next(iter(runs)) if run is None else run,
        "layers": layers,
        "context_length": context_length,
        "snapshot": most if snapshot is None else snapshot,
        "seed": seed,
    }
    process, features = new_chain()
    data = {
        "title": TITLE,
        "pace": 350,
        "runs": shown,
        "chain": {
            "P": process.transition.tolist(),
            "r": process.reward.tolist(),
            "start": process.initial.tolist(),
            "X": features.tolist(),
        },
    }
    replays = {replay["name"]: replay for replay in shown}
    return figure_class()(
        "pretraining", controls, state, data, lambda at: _still(replays, at)
    )


@cache
def new_chain() -> tuple[MarkovRewardProcess, Floats]:
    """A Boyan chain and unit features that no run was trained on; its discount isn't used.

    Every number has few digits, so that the page and the library start from equal ones.
    """
    rng = np.random.default_rng(2027)
    chain = random_boyan_chain(SIZE, rng, 0.9)
    counts = np.rint(chain.transition * 1e4)
    counts[np.arange(SIZE), counts.argmax(axis=1)] += 1e4 - counts.sum(axis=1)
    process = MarkovRewardProcess(counts / 1e4, chain.reward.round(4), 0.9)
    return process, unit_features(SIZE, SIZE, rng).round(4)


def _replay(name: str, run: Run) -> dict[str, Any]:
    """What the script needs of a run."""
    if not run.recipe.masks or run.recipe.dimension != SIZE:
        raise ValueError(
            f"runs: got {name!r} with dimension {run.recipe.dimension} and masks "
            f"{run.recipe.masks}, expected dimension {SIZE} and masks"
        )
    step = run.history["step"].astype(int)
    # Evenly spaced in log(1 + step): the first steps do most.
    wanted = np.expm1(np.linspace(0, np.log1p(step[-1]), SNAPSHOTS))
    kept = np.unique([np.abs(step - at).argmin() for at in wanted])
    return {
        "name": name,
        "gamma": run.recipe.discount,
        "steps": int(step[-1]),
        "snapshots": [
            {
                "step": int(step[k]),
                "w": _short(run.history["w"][k]),
                "A": _short(run.history["A"][k]),
            }
            for k in kept
        ],
    }


def _short(numbers: Floats) -> list[Any]:
    short: list[Any] = (np.asarray(numbers, dtype=float).round(3) + 0.0).tolist()
    return short


# ---- the still picture ---------------------------------------------------------------------


def _values(
    snapshot: Mapping[str, Any], gamma: float, state: Mapping[str, Any]
) -> tuple[Floats, Floats, Floats]:
    """Values by the Transformer, true values, and the relative error."""
    import torch

    from ictd_lib.transformer import (
        SoftmaxTDTransformer,
        collapsed,
        summarise_context,
    )

    process, features = new_chain()
    context = sample(process, state["context_length"], state["seed"])
    A, w = (torch.tensor(snapshot[name], dtype=torch.float64) for name in "Aw")
    with torch.no_grad():
        model = SoftmaxTDTransformer(A, w, gamma, state["layers"])
        found = collapsed(model, torch.tensor(features), summarise_context(context))
    values = found[-1].numpy()
    truth = MarkovRewardProcess(process.transition, process.reward, gamma).values()
    mu = process.stationary()
    return values, truth, mu @ (values - truth) ** 2 / (mu @ truth**2)


def _still(
    replays: Mapping[str, Mapping[str, Any]], state: Mapping[str, Any]
) -> tuple[str, str]:
    """The picture as an SVG document, and its description."""
    from matplotlib.figure import Figure as Picture

    replay = replays[state["run"]]
    snapshots = replay["snapshots"]
    snapshot = snapshots[min(state["snapshot"], len(snapshots) - 1)]
    values, truth, error = _values(snapshot, replay["gamma"], state)
    A, w = np.array(snapshot["A"]), snapshot["w"]
    listed = ", ".join(f"{x:.3f}" for x in w)
    alt = (
        f"A run that starts with {state['run']}, step {snapshot['step']} of {replay['steps']}. "
        f"Left: A as a heat map; the mean of its diagonal is {A.trace() / SIZE:.3g}. "
        f"Right: the values of a new chain, true and by the model; relative error {error:.3g}. "
        f"The weights of reward, target and current value are {listed}."
    )
    with still_style():
        picture = Picture(figsize=(5.6, 2.8), layout="constrained")
        left, right = picture.subplots(1, 2)
        most = np.abs(A).max()
        left.imshow(A, cmap="RdBu", vmin=-most, vmax=most)
        left.set(title="A", xlabel="column", ylabel="row")
        most = 2 * np.abs(truth).max()
        right.plot(truth, "_", color=COLORS["black"], markersize=14, label="true")
        right.plot(values.clip(-most, most), "o", color=COLORS["blue"], label="model")
        right.set(title=f"values, step {snapshot['step']}", xlabel="state")
        right.set_xticks(range(SIZE))
        right.legend()
        return svg(picture), alt
