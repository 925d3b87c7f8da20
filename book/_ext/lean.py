"""Leave out of every page what the theme would load and the book never uses; text comes first.

Jupyter Book always sets up thebe, whose pages name another server, declare a
constant twice and so log an error. FontAwesome's half megabyte of script is left
out by `_templates/static/webpack-macros.html`: its icon font draws the same icons.
A dozen style sheets become one: before they are all there, no text shows, and a
browser that asks for them in turns, on a slow connection, waits a second for that.
"""

import hashlib
import re
from pathlib import Path
from posixpath import relpath
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


SHEET = Path("_static", "all.css")
LINK = re.compile(r'<link rel="stylesheet"[^>]*? href="([^"]+)"[^>]*>\s*')
IMPORT = re.compile(r'@import "([^"]+)";')
ADDRESS = re.compile(r"""url\((["']?)(?!data:|#|\w+:)([^"')]+)\1\)""")


def sheets(page: Path) -> list[Path]:
    """Return the style sheets that a page asks for, in its order."""
    links = LINK.findall(page.read_text("utf-8"))
    return [(page.parent / link.partition("?")[0]).resolve() for link in links]


def gathered(sheet: Path, target: Path) -> str:
    """Return a style sheet, with those that it imports, as it reads from the target's place."""

    def imported(match: re.Match[str]) -> str:
        return gathered((sheet.parent / match[1]).resolve(), target)

    def moved(match: re.Match[str]) -> str:
        path = (sheet.parent / match[2]).resolve()
        return f"url({match[1]}{relpath(path.as_posix(), target.parent.as_posix())}{match[1]})"

    text = IMPORT.sub(imported, ADDRESS.sub(moved, sheet.read_text("utf-8")))
    return text.replace('@charset "UTF-8";', "")


def one_sheet(app: Sphinx, exception: Exception | None) -> None:
    """Put all style sheets of the site into one (Sphinx's event build-finished)."""
    if exception or app.builder.format != "html":
        return
    out = Path(app.outdir).resolve()
    pages = [page for page in out.rglob("*.html") if "_static" not in page.parts]
    # The page that asks for most of them has them all in order.
    wanted = sorted(map(sheets, pages), key=len, reverse=True)
    found = list(dict.fromkeys(sheet for each in wanted for sheet in each))
    target = out / SHEET
    text = "\n".join(gathered(sheet, target) for sheet in found)
    target.write_text(text, "utf-8")
    version = hashlib.sha256(text.encode()).hexdigest()[:8]
    for page in pages:
        address = f"{relpath(target.as_posix(), page.parent.as_posix())}?v={version}"
        one = f'<link rel="stylesheet" href="{address}" />\n'
        html = page.read_text("utf-8")
        if first := LINK.search(html):
            rest = LINK.sub("", html[first.end() :])
            page.write_text(html[: first.start()] + one + rest, "utf-8")
    for sheet in found:
        sheet.unlink()


#: What comes along with the theme, and no page asks for: a quarter of all the site's bytes.
UNUSED = (
    "basic.css",
    "copybutton_funcs.js",
    "sphinx-thebe.js",
    "*webpack-macros.html",
    "scripts/fontawesome.js*",
    "scripts/*.map",
    "styles/*.map",
)


def leave_out_files(app: Sphinx, exception: Exception | None) -> None:
    """Leave out files that no page asks for (Sphinx's event build-finished)."""
    static = Path(app.outdir, "_static")
    for pattern in UNUSED:
        for file in list(static.glob(pattern)):
            file.unlink()


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("html-page-context", leave_out_thebe, priority=900)
    app.connect("html-page-context", text_first, priority=950)
    app.connect("doctree-resolved", leave_out_thebe_node, priority=900)
    app.connect("build-finished", one_sheet, priority=900)
    app.connect("build-finished", leave_out_files, priority=950)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
