"""The directive `{status}`: what executing each notebook took, from the record that execution wrote."""

import json
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

RECORD = Path(__file__).resolve().parents[1] / "status.json"


def lines(records: dict[str, dict[str, Any]]) -> list[str]:
    """Markdown: a table of seconds, memory and date, then with what all of it ran.

    A chapter is a page of the book and is linked; an assignment isn't, since it holds its solutions.
    """
    table = [
        "| notebook | seconds | peak MB | executed |",
        "| --- | ---: | ---: | --- |",
    ]
    settings: dict[str, list[str]] = {}
    for name, record in sorted(
        records.items(), key=lambda item: ("/" in item[0], item[0])
    ):
        title = name.replace("assignments/", "Assignment ")
        shown = title if "/" in name else f"[](notebooks/{name}.ipynb)"
        table.append(
            f"| {shown} | {record['seconds']:.0f} | {record['peak_megabytes']} | {record['date']} |"
        )
        packages = ", ".join(f"{p} {v}" for p, v in sorted(record["packages"].items()))
        threads = f"{record['threads']} thread{'s' * (record['threads'] > 1)}"
        setting = (
            f"Python {record['python']} on {record['platform']}, {threads}; {packages}"
        )
        settings.setdefault(setting, []).append(title)
    told = [
        f"{'All' if len(settings) == 1 else ', '.join(names)}: {setting}."
        for setting, names in settings.items()
    ]
    return [*table, "", *(line for each in told for line in (each, ""))]


class Status(SphinxDirective):
    """A table, made when the site is built."""

    def run(self) -> list[nodes.Node]:
        """Read the record, and have the table parsed as if it stood in the page."""
        self.env.note_dependency(str(RECORD))
        container = nodes.container()
        text = lines(json.loads(RECORD.read_text("utf-8")))
        self.state.nested_parse(
            StringList(text, str(RECORD)), self.content_offset, container
        )
        return [*container.children]


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("status", Status)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
