"""The scripts of the figures that move, on the pages that have one.

They live in `ictd_lib.figures`, since a live notebook needs them as well. Here they are
written as one script and one style sheet, beside the site's other static files.
"""

from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

from ictd_lib.figures import page as figures

SCRIPT, STYLE = "figures.js", "figures.css"


def write_files(app: Sphinx) -> None:
    """Write the two files to a folder that Sphinx copies to _static (event builder-inited)."""
    folder = Path(app.doctreedir).parent / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SCRIPT).write_text(figures.script(), "utf-8")
    (folder / STYLE).write_text(figures.stylesheet(), "utf-8")
    app.config.html_static_path.append(str(folder))


def add_files(
    app: Sphinx,
    page: str,
    template: str,
    context: dict[str, Any],
    doctree: nodes.document | None,
) -> None:
    """Let a page that holds a figure load them (event html-page-context)."""
    if 'class="ictd-figure"' in context.get("body", ""):
        app.add_js_file(SCRIPT, loading_method="defer")
        app.add_css_file(STYLE)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("builder-inited", write_files)
    app.connect("html-page-context", add_files)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
