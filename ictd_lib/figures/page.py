"""The scripts as one file, and a figure as a piece of a page."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

HERE = Path(__file__).parent
#: In the order in which they use each other; a new figure is added at the end.
SOURCES = (
    "core",
    "plot",
    "stage",
    "weighted_td",
    "dual_head",
    "shift",
    "contraction",
    "pretraining",
    "eigenvalues",
    "policy_evaluation",
)


def _sources() -> str:
    texts = [(HERE / "js" / f"{name}.js").read_text("utf-8") for name in SOURCES]
    return '"use strict";\n' + "\n".join(texts)


def stylesheet() -> str:
    """The style of every figure."""
    return (HERE / "figures.css").read_text("utf-8")


def module() -> str:
    """The scripts as an ES module, for anywidget."""
    return _sources() + "\nexport default { render: stage.render };\n"


def script() -> str:
    """The scripts as a classic script, which browsers also run from the file system.

    It puts every figure of the page in its place, and leaves the mathematics behind as
    ``ictd`` for tests and for whoever opens the console.
    """
    return (
        f"(() => {{\n{_sources()}\n"
        "globalThis.ictd = { core, plot, stage, figures };\n"
        "stage.mountAll();\n})();\n"
    )


def figure_html(
    name: str, data: Mapping[str, Any], state: Mapping[str, Any], still: str, alt: str
) -> str:
    """A figure for a static page: the still picture, and what the script needs.

    Parameters
    ----------
    name : str
        Which script draws it.
    data, state : mapping
        The numbers that never change, and what the controls stand at; JSON.
    still : str
        An SVG document, shown where no script runs.
    alt : str
        What the still picture shows, in words.
    """
    props = json.dumps({"data": data, "state": state}, separators=(",", ":"))
    # Quotation marks and ampersands become %22 and %26: nothing is left for HTML to escape.
    document = quote(" ".join(still.split()), safe=" '()*+,-./:;=@_~!$?")
    return (
        f'<figure class="ictd-figure" data-figure="{html.escape(name)}" '
        f'data-props="{html.escape(props)}">\n'
        f'<img src="data:image/svg+xml,{document}" alt="{html.escape(alt)}">\n'
        f"<figcaption>{html.escape(data['title'])}</figcaption>\n</figure>"
    )
