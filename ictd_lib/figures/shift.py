"""The figure of chapter 3: how the rows of a prompt move, in a layer of either form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ictd_lib.chain import MarkovRewardProcess
from ictd_lib.checks import Floats
from ictd_lib.figures.common import figure_class, planar_features, still_style, svg
from ictd_lib.figures.controls import Again, Choice, Control, Slider
from ictd_lib.figures.sampling import sample
from ictd_lib.pictures import COLORS

if TYPE_CHECKING:
    from ictd_lib.figures.widget import Figure

TITLE = "Rows of a prompt on their way through the layers"
COLUMNS, LAYERS, SHARPNESS = 6, 8, 3.0
FORMS = (("shift", "one head + shift"), ("dual", "two heads"))
ROWS = (("target", "target b"), ("current", "current c"))
# Two decimals everywhere: the page, the still picture and the library start from equal numbers.
CHAIN = MarkovRewardProcess(
    [
        [0.0, 0.6, 0.4, 0.0],
        [0.0, 0.0, 0.7, 0.3],
        [0.0, 0.0, 0.0, 1.0],
        [0.4, 0.3, 0.2, 0.1],
    ],
    [1.0, -0.5, 0.25, -1.0],
    0.9,
)


def shift_figure(
    *,
    form: str = "shift",
    row: str = "target",
    column: int = 2,
    value: float = 0.0,
    gamma: float = 0.9,
    step: int = 0,
    seed: int = 3,
) -> Figure:
    """A prompt that the reader takes through the layers, in one form or the other.

    Parameters
    ----------
    form : str
        ``"shift"``, one head and the temporal shift, or ``"dual"``, two heads.
    row : str
        Which row of the memory has an entry that isn't 0: ``"target"`` or ``"current"``.
    column : int
        Where, from 0 to 5.
    value : float
        What it holds before the first layer, from -2 to 2. With 0 the memory is empty.
    gamma : float
        Discount, up to 0.99.
    step : int
        Two for each of eight layers: attention writes, then the targets move.
    seed : int
        Which context. The same seed gives the same context in Python and in the browser.

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
        Choice("form", "a layer is", FORMS),
        Slider("gamma", "discount γ", 0, 0.99, 0.01),
        Choice("row", "entry set in", ROWS),
        Slider("column", "in column", 0, COLUMNS - 1, 1, whole=True),
        Slider("value", "starts at", -2, 2, 0.1),
        Slider("step", "half-layers done", 0, 2 * LAYERS, 1, whole=True, play=True),
        Again("seed", "New context"),
    )
    state = {
        "form": form,
        "gamma": gamma,
        "row": row,
        "column": column,
        "value": value,
        "step": step,
        "seed": seed,
    }
    data = {
        "title": TITLE,
        "pace": 900,
        "columns": COLUMNS,
        "layers": LAYERS,
        "sharpness": SHARPNESS,
        "chain": {
            "P": CHAIN.transition.tolist(),
            "r": CHAIN.reward.tolist(),
            "start": CHAIN.initial.tolist(),
            "features": planar_features("arc", CHAIN.n_states).tolist(),
        },
    }
    return figure_class()("shift", controls, state, data, _still)


def _memory(state: Mapping[str, Any]) -> tuple[list[int], Floats]:
    """States, and the prompt's lower three rows at a step, computed by the Transformer."""
    import torch

    from ictd_lib.transformer import assemble_prompt, theta_star

    context = sample(CHAIN, COLUMNS - 1, state["seed"])
    x = torch.tensor(planar_features("arc", CHAIN.n_states)[context.states])
    memory = {name: torch.zeros(COLUMNS, dtype=x.dtype) for name, _ in ROWS}
    memory[state["row"]][state["column"]] = state["value"]
    Z = assemble_prompt(x, torch.tensor(context.rewards), **memory)
    done, halfway = divmod(state["step"], 2)
    model = theta_star(
        x.shape[1],
        done + halfway,
        state["gamma"],
        sharpness=SHARPNESS,
        form=state["form"],
    )
    with torch.no_grad():
        trace = model.trace(Z)[..., -3:, :].numpy()
    shown = trace[-1].copy()
    if halfway:
        shown[1] = trace[-2, 1]
    return context.states.tolist(), shown


def _still(state: Mapping[str, Any]) -> tuple[str, str]:
    """The picture as an SVG document, and its description."""
    from matplotlib.figure import Figure as Picture
    from matplotlib.patches import Rectangle

    states, rows = _memory(state)
    rows = rows.round(2) + 0.0  # no minus zero
    done, halfway = divmod(state["step"], 2)
    if halfway:
        now = f"after attention in layer {done + 1}"
    else:
        now = f"after layer {done}" if done else "before layer 1"
    listed = [", ".join(f"{x:.2f}" for x in row) for row in rows]
    alt = (
        f"A prompt of {COLUMNS} columns, {dict(FORMS)[state['form']]}, {now}. States "
        f"{', '.join(map(str, states))}. Rewards {listed[0]}. Target row {listed[1]}. "
        f"Current row {listed[2]}."
    )
    with still_style():
        picture = Picture(figsize=(5.6, 2.2), layout="constrained")
        axes = picture.subplots()
        axes.set(xlim=(-1.2, COLUMNS - 0.4), ylim=(3.6, -0.6), title=now)
        axes.set_axis_off()
        for i, name in enumerate(("state", "reward", "target", "current")):
            axes.text(-1.2, i, name, va="center")
        for j in range(COLUMNS):
            axes.text(j, 0, str(states[j]), ha="center", va="center")
            for i, row in enumerate(rows, 1):
                # The last column is the query: no reward.
                text = "" if i == 1 and j == COLUMNS - 1 else f"{row[j]:.2f}"
                axes.text(j, i, text.replace("-", "−"), ha="center", va="center")
                axes.add_patch(
                    Rectangle(
                        (j - 0.46, i - 0.42), 0.92, 0.84, fc="none", ec=COLORS["blue"]
                    )
                )
        return svg(picture), alt
