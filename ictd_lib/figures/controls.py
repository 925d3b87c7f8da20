"""What a reader can move: a range, a choice, another random draw.

The controls of a figure are written down here once; the script builds its sliders and
menus from them, the widget its traits, and Python checks its arguments against them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Slider:
    """A number from ``low`` to ``high``.

    ``log`` spaces the slider by powers of ten, and its ``step`` is then one of these (0.05:
    twenty to a factor of ten). ``whole`` keeps it to whole numbers, and ``play`` gives the
    figure buttons that run through it.
    """

    key: str
    label: str
    low: float
    high: float
    step: float
    log: bool = False
    whole: bool = False
    play: bool = False
    kind: str = "slider"

    def check(self, value: object) -> None:
        """A `ValueError` for a value that the control can't stand at."""
        number = isinstance(value, int) or (isinstance(value, float) and not self.whole)
        if not number or not self.low <= value <= self.high:  # type: ignore[operator]
            sort = "a whole number" if self.whole else "a number"
            raise ValueError(
                f"{self.key}: got {value!r}, expected {sort} from {self.low:g} to {self.high:g}"
            )


@dataclass(frozen=True)
class Choice:
    """One of several names; ``options`` are pairs of a name and what the reader sees."""

    key: str
    label: str
    options: tuple[tuple[str, str], ...]
    kind: str = "choice"

    def check(self, value: object) -> None:
        """A `ValueError` for a value that the control can't stand at."""
        names = [name for name, _ in self.options]
        if value not in names:
            raise ValueError(f"{self.key}: got {value!r}, expected one of {names}")


@dataclass(frozen=True)
class Again:
    """A button that draws again: it adds 1 to a seed."""

    key: str
    label: str
    kind: str = "again"

    def check(self, value: object) -> None:
        """A `ValueError` for a value that the control can't stand at."""
        if not isinstance(value, int) or not 0 <= value < 2**32:
            raise ValueError(
                f"{self.key}: got {value!r}, expected a whole number from 0 to 2**32 - 1"
            )


Control = Slider | Choice | Again


def checked(controls: Sequence[Control], state: Mapping[str, Any]) -> dict[str, Any]:
    """``state`` as a dictionary, or a `ValueError` that names the control it doesn't fit."""
    for control in controls:
        control.check(state[control.key])
    return dict(state)


def as_data(controls: Sequence[Control]) -> list[dict[str, Any]]:
    """The controls as the scripts read them."""
    return [asdict(control) for control in controls]
