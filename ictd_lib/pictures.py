"""How the book's pictures look: one palette, one style.

Matplotlib is not imported here: `BOOK_STYLE` is a plain dictionary for
``matplotlib.rcParams.update``.
"""

from __future__ import annotations

from typing import Any

#: Okabe and Ito's palette, told apart by every common form of colour vision, in the
#: order in which the book uses it. Yellow is left out: it is too light on white.
COLORS = {
    "blue": "#0072B2",
    "vermilion": "#D55E00",
    "green": "#009E73",
    "purple": "#CC79A7",
    "orange": "#E69F00",
    "sky": "#56B4E9",
    "black": "#000000",
}

#: Style of every static figure, for ``matplotlib.rcParams.update(BOOK_STYLE)``.
BOOK_STYLE: dict[str, Any] = {
    "figure.figsize": (5.2, 3.0),  # on a phone, letters of 9 pixels
    "figure.dpi": 144,
    "figure.constrained_layout.use": True,
    "axes.prop_cycle": f"cycler('color', {list(COLORS.values())})",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": "medium",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.8,
    "legend.frameon": False,
    "image.cmap": "viridis",
    "font.size": 11,
}
