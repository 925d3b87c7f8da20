"""Names of the library in cells lead to the reference: sphinx-codeautolink, made to go with this book.

The statement of a theorem is a section without a title, which sphinx-codeautolink doesn't expect: it keeps
the titles above a cell, to list in the reference where a name is used. The book has no such lists.

It also knows which class a variable is of. That makes a link of ``process.values``; a variable alone is none,
or every line would be underlined.
"""

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx_codeautolink.extension.block import CodeBlockAnalyser


def ignore(self: CodeBlockAnalyser, node: nodes.Element) -> None:
    """Neither keep titles nor look for them."""


def leave_out_variables(app: Sphinx, env: BuildEnvironment) -> None:
    """Keep the names that are those of what they lead to (event env-updated)."""
    for blocks in getattr(env, "sphinx_codeautolink_transforms", {}).values():
        for block in blocks:
            block.names = [
                name
                for name in block.names
                if name.code_str.split(".")[-1] == name.resolved_location.split(".")[-1]
            ]


def setup(app: Sphinx) -> dict[str, Any]:
    for event in ("visit_title", "visit_section", "depart_section"):
        setattr(CodeBlockAnalyser, event, ignore)
    app.connect("env-updated", leave_out_variables, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
