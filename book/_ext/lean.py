"""Leave out of every page what the theme would load and the book never uses; text comes first.

Jupyter Book always sets up thebe, whose pages name another server, declare a
constant twice and so log an error. FontAwesome's half megabyte of script is left
out by `_templates/static/webpack-macros.html`: its icon font draws the same icons.
"""

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx


def wanted(script: Any) -> bool:
    """Say whether a script of the page is anything but thebe's."""
    body = script.attributes.get("body") or ""
    return "thebe" not in f"{script.filename or ''} {body}".lower()


def leave_out_thebe(
    app: Sphinx,
    page: str,
    template: str,
    context: dict[str, Any],
    doctree: nodes.document | None,
) -> None:
    """Take thebe's scripts off a page (Sphinx's event html-page-context)."""
    context["script_files"][:] = filter(wanted, context["script_files"])


def text_first(
    app: Sphinx,
    page: str,
    template: str,
    context: dict[str, Any],
    doctree: nodes.document | None,
) -> None:
    """Let scripts wait until the text is there: on a slow phone they cost a second before it."""
    if page != "search":  # its own scripts call these as soon as they are read
        context["script_files"][:] = map(deferred, context["script_files"])


def deferred(script: Any) -> Any:
    """Return a script that runs after the page was read, in its turn."""
    at_once = "documentation_options" in str(
        script.filename
    )  # inline scripts add to it
    if not script.filename or at_once or {"async", "defer"} & set(script.attributes):
        return script
    # A new one: pages share the old.
    attributes = {**script.attributes, "defer": "defer"}
    return type(script)(script.filename, priority=script.priority, **attributes)


def leave_out_thebe_node(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Take thebe's inline configuration out of a document."""
    for node in list(doctree.findall(nodes.raw)):
        if "thebe" in node.astext() and "x-thebe-config" in node.astext():
            node.parent.remove(node)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("html-page-context", leave_out_thebe, priority=900)
    app.connect("html-page-context", text_first, priority=950)
    app.connect("doctree-resolved", leave_out_thebe_node, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
