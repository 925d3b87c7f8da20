"""The planning page and the numbers of the guides, out of the assignments themselves.

    ```{assignments-plan}
    ```

makes one table of all tasks. ``{plan}`minutes``` in a sentence is a sum over all assignments, and
``{plan}`points 03-tsm``` one of an assignment; so are ``tasks`` and ``hours``. Nothing is typed twice, and
a task that comes "after Theorem 1.6" links to it: if the chapters number their theorems otherwise by
now, the build says so.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective, SphinxRole

from book.tools.assignments.source import (
    TEXT,
    Assignment,
    assignment_names,
    read_assignment,
)
from book.tools.canonical import ROOT

logger = logging.getLogger(__name__)

CHAPTERS = ROOT / "book" / "chapters"
STATEMENT = re.compile(r"^:{3,}\{prf:(\w+)\}[^\n]*\n:label: (\S+)", re.M)
REFERENCE = re.compile(r"\b([A-Z][a-z]+) (\d+)\.(\d+)\b")
COLUMNS = (
    ("Task", 36),
    ("Points", 8),
    ("Minutes", 9),
    ("Difficulty", 12),
    ("Marked", 10),
    ("After", 25),
)


def statements() -> dict[str, str]:
    """Labels of all numbered statements: {"Theorem 1.6": "thm-...", ...}; they share one counter a chapter."""
    found = {}
    for path in sorted(CHAPTERS.glob("*.md")):
        numbered = (
            each
            for each in STATEMENT.findall(path.read_text("utf-8"))
            if each[0] != "proof"
        )
        for number, (kind, label) in enumerate(numbered, start=1):
            found[f"{kind.title()} {int(path.stem[:2])}.{number}"] = label
    return found


def linked(needs: str, labels: dict[str, str]) -> str:
    """What a task comes after, as Markdown, with each numbered statement a link.

    Raises
    ------
    ValueError
        If there is no such statement.
    """

    def link(match: re.Match[str]) -> str:
        if match[0] not in labels:
            raise ValueError(f"no chapter has a {match[0]}")
        return f"{{prf:ref}}`{labels[match[0]]}`"

    return REFERENCE.sub(link, needs)


def total(what: str, assignments: Sequence[Assignment]) -> str:
    """A sum over assignments, as text.

    Raises
    ------
    ValueError
        If it isn't one of those that can be asked for.
    """
    tasks = [task for each in assignments for task in each.tasks]
    sums = {
        "points": sum(task.points for task in tasks),
        "minutes": sum(task.minutes for task in tasks),
        "hours": round(sum(task.minutes for task in tasks) / 60),
        "tasks": len(tasks),
        "by-hand": sum(task.kind == "hand" for task in tasks),
        "assignments": len(assignments),
    }
    if what not in sums:
        raise ValueError(f"got {what!r}, expected one of {', '.join(sums)}")
    return str(sums[what])


def summary(assignment: Assignment) -> str:
    """An assignment in a line."""
    hard = Counter(task.difficulty for task in assignment.tasks)
    kinds = ", ".join(
        f"{hard[kind]} {kind}"
        for kind in ("easy", "medium", "hard", "open")
        if hard[kind]
    )
    return f"{assignment.points} points, {assignment.minutes} minutes: {kinds}"


class Plan(SphinxDirective):
    """A table of all tasks, a group of rows for each assignment."""

    def run(self) -> list[nodes.Node]:
        """Make the table, and let the page depend on the assignments."""
        table = nodes.table("", classes=["plan"])
        group = nodes.tgroup("", cols=len(COLUMNS))
        group += [nodes.colspec("", colwidth=width) for _, width in COLUMNS]
        head, body = nodes.thead(), nodes.tbody()
        head += self.row([name for name, _ in COLUMNS])
        group += [head, body]
        table += group
        labels = statements()
        for name in assignment_names():
            self.env.note_dependency(str(TEXT / f"{name}.md"))
            self.env.note_dependency(str(CHAPTERS / f"{name}.md"))
            body += self.rows(read_assignment(name), labels)
        return [table]

    def rows(
        self, assignment: Assignment, labels: dict[str, str]
    ) -> Iterator[nodes.row]:
        """A row for the assignment, then one a task."""
        entry = nodes.entry("", morecols=len(COLUMNS) - 1)
        said = nodes.paragraph()
        said += nodes.strong("", assignment.title)
        said += nodes.Text(f" ({summary(assignment)})")
        entry += said
        yield nodes.row("", entry, classes=["plan-assignment"])
        for number, task in enumerate(assignment.tasks, start=1):
            try:
                needs = linked(task.needs, labels)
            except ValueError as error:
                logger.warning("%s, task %d: %s", assignment.name, number, error)
                needs = task.needs
            row = self.row(
                [
                    f"{number}. {task.title}",
                    str(task.points),
                    str(task.minutes),
                    task.difficulty,
                    "by\N{NO-BREAK SPACE}hand"
                    if task.kind == "hand"
                    else "by\N{NO-BREAK SPACE}test",
                    needs,
                ]
            )
            row[-1]["plan_needs"] = f"{assignment.name}, task {number}: {task.needs}"
            yield row

    def row(self, cells: Sequence[str]) -> nodes.row:
        """A row, whose cells are Markdown."""
        row = nodes.row()
        for text in cells:
            parsed, _ = self.parse_inline(text, lineno=self.lineno)
            row += nodes.entry("", nodes.paragraph("", "", *parsed))
        return row


class Total(SphinxRole):
    """A number about all assignments, or about one."""

    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        """Make the number."""
        what, _, name = self.text.partition(" ")
        try:
            names = [name] if name else assignment_names()
            for each in names:
                self.env.note_dependency(str(TEXT / f"{each}.md"))
            text = total(what, [read_assignment(each) for each in names])
        except Exception as error:
            said = self.inliner.reporter.warning(f"plan: {error}", line=self.lineno)
            return [], [said]
        return [nodes.Text(text)], []


def compare_needs(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Warn where a link of the plan bears another number than its assignment says (event doctree-resolved)."""
    for entry in doctree.findall(nodes.entry):
        if "plan_needs" not in entry:
            continue
        where, _, needs = entry.attributes.pop("plan_needs").partition(": ")
        here, there = (
            [match[0] for match in REFERENCE.finditer(text)]
            for text in (entry.astext(), needs)
        )
        if here != there:
            logger.warning("%s: got 'after %s', the book has %s", where, needs, here)


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("assignments-plan", Plan)
    app.add_role("plan", Total())
    app.connect("doctree-resolved", compare_needs, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
