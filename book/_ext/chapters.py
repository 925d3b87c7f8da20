"""Number the chapters from 0, and all that they number with them.

Sphinx starts a numbered table of contents at 1. The book's first chapter is
chapter 0, as its file name says, so every section number's first part is lowered
by one before Sphinx derives the numbers of figures, equations and theorems.
"""

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.environment.collectors.toctree import TocTreeCollector

Number = tuple[int, ...]


def lowered(number: Number) -> Number:
    """Return a section number counted from 0 where Sphinx counted from 1."""
    return (number[0] - 1, *number[1:])


def number_from_zero(env: BuildEnvironment) -> None:
    """Lower the numbers that Sphinx just gave to chapters and their sections."""
    for docname, numbers in env.toc_secnumbers.items():
        env.toc_secnumbers[docname] = {
            anchor: lowered(number) if number else number
            for anchor, number in numbers.items()
        }
        # The sidebar and the previous/next links keep copies of their own.
        title = env.titles[docname]
        for node in (title, *env.tocs[docname].findall(nodes.reference)):
            if node.get("secnumber"):
                node["secnumber"] = list(lowered(tuple(node["secnumber"])))


def setup(app: Sphinx) -> dict[str, Any]:
    # There is no event between the numbering of sections and that of figures, theorems
    # and exercises, which reads it: hence the step in front of the latter.
    original = TocTreeCollector.assign_figure_numbers

    def assign_figure_numbers(
        self: TocTreeCollector, env: BuildEnvironment
    ) -> list[str]:
        number_from_zero(env)
        return original(self, env)

    TocTreeCollector.assign_figure_numbers = assign_figure_numbers  # type: ignore[method-assign]
    return {"parallel_read_safe": True, "parallel_write_safe": True}
