"""What every figure that moves needs: the widget, loaded late; its still picture; features."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from typing import TYPE_CHECKING

import numpy as np

from ictd_lib.chain import MarkovRewardProcess
from ictd_lib.checks import Floats

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

    from ictd_lib.figures.widget import Figure


def figure_class() -> type[Figure]:
    """The class of all figures, or an `ImportError` that says what to install."""
    try:
        from ictd_lib.figures.widget import Figure
    except ImportError as missing:
        raise ImportError(
            f"a figure that moves needs {missing.name}: "
            "pip install '.[run]' in the book's repository"
        ) from missing
    return Figure


def checked_process(process: object) -> MarkovRewardProcess:
    """A Markov reward process as it is, or a `TypeError` for anything else."""
    if not isinstance(process, MarkovRewardProcess):
        raise TypeError(
            f"process: got {type(process).__name__}, expected a MarkovRewardProcess"
        )
    return process


@contextmanager
def still_style() -> Iterator[None]:
    """The default style and a fixed salt: the same bytes whatever the notebook has set."""
    import matplotlib as mpl
    from matplotlib.style import context

    with (
        context("default"),
        mpl.rc_context({"svg.hashsalt": "ictd", "svg.fonttype": "none"}),
        mpl.rc_context({"font.sans-serif": ["DejaVu Sans"]}),
    ):
        yield


def svg(picture: Picture) -> str:
    """A picture as SVG, with nothing in it that changes from run to run."""
    page = StringIO()
    undated = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    picture.savefig(page, format="svg", metadata=undated)
    return page.getvalue()


def planar_features(name: str, n_states: int) -> Floats:
    """Feature vectors of norm 1, one a row."""
    if name == "one-hot":
        return np.eye(n_states)
    if name == "arc":
        angle = np.linspace(0, np.pi, n_states)
    else:
        angle = np.random.default_rng(2).uniform(0, 2 * np.pi, n_states)
    return np.column_stack([np.cos(angle), np.sin(angle)]).round(6)
