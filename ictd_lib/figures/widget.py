"""A figure in a live notebook. Imported only when one is made: it needs anywidget."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from ictd_lib.figures.controls import Control, as_data, checked
from ictd_lib.figures.page import figure_html, module, stylesheet

#: Draws the still picture for a state: (SVG document, description in words).
Still = Callable[[Mapping[str, Any]], tuple[str, str]]


class _Place(traitlets.TraitType[Any, Any]):
    """Where a control stands: what the control itself accepts."""

    def __init__(self, control: Control, value: Any) -> None:
        self.control = control
        super().__init__(value)

    def validate(self, obj: Any, value: Any) -> Any:  # noqa: ARG002
        try:
            self.control.check(value)
        except ValueError as error:
            raise traitlets.TraitError(str(error)) from None
        return value


class Figure(anywidget.AnyWidget):
    """A figure that moves, each of its controls a trait that syncs both ways.

    Parameters
    ----------
    name : str
        Which script draws it.
    controls : sequence of controls
        What can be moved, and how far.
    state : mapping
        Where each control stands.
    data : mapping
        What else the script needs; JSON. Has at least a title.
    still : callable
        Draws the picture for readers without scripts.
    """

    _esm = module()
    _css = stylesheet()

    def __init__(
        self,
        name: str,
        controls: Sequence[Control],
        state: Mapping[str, Any],
        data: Mapping[str, Any],
        still: Still,
    ) -> None:
        state = checked(controls, state)
        self._keys = tuple(state)
        self._still = still
        traits: dict[str, Any] = {
            c.key: _Place(c, state[c.key]).tag(sync=True) for c in controls
        }
        traits["figure"] = traitlets.Unicode(name, read_only=True).tag(sync=True)
        everything = {**data, "controls": as_data(controls)}
        traits["data"] = traitlets.Dict(everything, read_only=True).tag(sync=True)
        self.add_traits(**traits)
        super().__init__()

    def __setattr__(self, name: str, value: Any) -> None:
        # As a plain attribute, a control's name that is misspelt would move nothing and say nothing.
        if not (name.startswith("_") or hasattr(type(self), name)):
            raise AttributeError(
                f"{name}: got {value!r}, but this figure has no such control; "
                f"it has {', '.join(self._keys)}"
            )
        super().__setattr__(name, value)

    @property
    def state(self) -> dict[str, Any]:
        """Where each control stands now."""
        return {key: getattr(self, key) for key in self._keys}

    def html(self) -> str:
        """The figure as it stands, for a static page."""
        still, alt = self._still(self.state)
        return figure_html(self.figure, self.data, self.state, still, alt)

    def __repr__(self) -> str:
        values = ", ".join(f"{key}={value!r}" for key, value in self.state.items())
        return f"<{self.figure}: {values}>"

    def _repr_mimebundle_(
        self, **kwargs: Any
    ) -> tuple[dict[str, Any], dict[str, Any]] | None:
        # A live front end prefers the widget's view; a page, and a notebook that hasn't been
        # run, get the HTML.
        bundle = super()._repr_mimebundle_(**kwargs)
        if bundle is None:
            return None
        data, metadata = bundle
        return {**data, "text/plain": repr(self), "text/html": self.html()}, metadata

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...
