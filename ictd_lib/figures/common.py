"""What every figure that moves needs: the widget, loaded late, and features in the plane."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ictd_lib.checks import Floats

if TYPE_CHECKING:
    from ictd_lib.figures.widget import Figure


def figure_class() -> type[Figure]:
    """The class of all figures, or an `ImportError` that says what to install."""
    try:
        from ictd_lib.figures.widget import Figure
    except ImportError as missing:
        raise ImportError(
            f"a figure that moves needs {missing.name}: pip install 'ictd-lib[run]'"
        ) from missing
    return Figure


def planar_features(name: str, n_states: int) -> Floats:
    """Feature vectors of norm 1, one a row."""
    if name == "one-hot":
        return np.eye(n_states)
    if name == "arc":
        angle = np.linspace(0, np.pi, n_states)
    else:
        angle = np.random.default_rng(2).uniform(0, 2 * np.pi, n_states)
    return np.column_stack([np.cos(angle), np.sin(angle)]).round(6)
