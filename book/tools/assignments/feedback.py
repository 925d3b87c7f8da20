"""Pages: what a student gets back, and what a person reads who marks by hand.

A page is one file that needs nothing else: it opens without a network, on a phone, in light and dark.
Everything that a student wrote is escaped. A student's page holds no value, no hidden input and no
solution: `marking` gives it sentences only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from book.tools.assignments.source import SOLUTION, Assignment, Task
from book.tools.assignments.tables import BY_HAND, PENDING, Graded, Row, number

# Nothing is fetched, and no script runs, whatever a student has written.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

STYLE = """
:root { color-scheme: light dark; --text: #1d2126; --soft: #565e68; --ground: #fff; --line: #d5dae0;
  --code: #f4f6f8; --right: #1a6b3a; --wrong: #a32a20; --open: #775500; }
@media (prefers-color-scheme: dark) { :root { --text: #e4e7ea; --soft: #a6afb9; --ground: #15181c;
  --line: #394049; --code: #20252b; --right: #74cf95; --wrong: #ff9d91; --open: #e6bd5c; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 3rem; max-width: 44rem; background: var(--ground);
  color: var(--text); font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
  overflow-wrap: anywhere; }
h1 { font-size: 1.45rem; line-height: 1.25; margin: 0 0 .3rem; }
h2 { font-size: 1.1rem; line-height: 1.3; margin: 0; }
main > h2 { margin-top: 2rem; }
p { margin: .4rem 0 0; }
.soft { color: var(--soft); }
.total { font-size: 1.25rem; margin: 1rem 0; }
article { border-top: 1px solid var(--line); padding: .9rem 0; }
header { display: flex; gap: 1rem; justify-content: space-between; align-items: baseline; }
.points { white-space: nowrap; font-variant-numeric: tabular-nums; }
.right strong { color: var(--right); } .wrong strong { color: var(--wrong); }
.open strong { color: var(--open); }
pre { background: var(--code); border: 1px solid var(--line); border-radius: .3rem; padding: .6rem;
  margin: .5rem 0 0; white-space: pre-wrap; font: .85rem/1.5 ui-monospace, Menlo, Consolas, monospace; }
img { max-width: 100%; height: auto; background: #fff; margin-top: .5rem; }
details { margin-top: .6rem; } summary { cursor: pointer; }
ul { margin: .4rem 0 0; padding-left: 1.2rem; }
@media print { article { break-inside: avoid; } }
"""

#: Verdicts in a word or two, where the kind alone says too little.
WORDS = {
    "missing": "not found",
    "value": "not right",
    "error": "error",
    "edge case": "an edge case fails",
    "axis": "axis",
    "unreadable": "can't be read",
}


def page(title: str, body: Iterable[str]) -> str:
    """A whole page."""
    return "\n".join(
        (
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
            f"<title>{escape(title)}</title>",
            f"<style>{STYLE}</style></head><body>",
            *body,
            "</body></html>",
            "",
        )
    )


def student_page(assignment: Assignment, record: Graded) -> str:
    """What a student gets back."""
    total = f"{number(record.points)} of {record.out_of} points"
    left = record.pending
    if left:
        total += f" so far; {left} {'task' if left == 1 else 'tasks'} to be marked"
    body = [
        "<main>",
        f"<h1>{escape(assignment.title)}</h1>",
        f'<p class="soft">{escape(record.student)}</p>',
        f'<p class="total">{total}</p>',
        *(_result(place, row) for place, row in enumerate(record.rows, start=1)),
    ]
    if record.told:
        body += ["<article><h2>About the notebook</h2><ul>"]
        body += [f"<li>{escape(note)}</li>" for note in record.told]
        body += ["</ul></article>"]
    body += [
        '<p class="soft">A task in code gets its points if it is right on every hidden input, and none '
        "if it isn't. The cell below your function tries it on other inputs: if it is content and "
        "the marks are not, think of inputs that it doesn't try.</p>",
        "</main>",
    ]
    return page(assignment.title, body)


def _result(place: int, row: Row) -> str:
    kind = (
        "wrong" if row.points == 0 else "right" if row.points == row.out_of else "open"
    )
    points = "–" if row.points is None else number(row.points)
    verdict = WORDS.get(row.verdict, row.verdict)
    lines = row.message.splitlines()
    if not row.message.lower().startswith(verdict.lower()):
        lines.insert(0, verdict[:1].upper() + verdict[1:])
    first, *others = map(escape, lines)
    return (
        f'<article class="{kind}"><header><h2>Task {place}. {escape(row.title)}</h2>'
        f'<span class="points">{points} of {row.out_of}</span></header>'
        f"<p><strong>{first}</strong></p>{''.join(f'<p>{line}</p>' for line in others)}</article>"
    )


def hand_page(assignment: Assignment, records: Sequence[Graded]) -> str:
    """What a person reads who marks by hand: what was asked, the model answer with its rubric, each answer."""
    body = [
        "<main>",
        f"<h1>{escape(assignment.title)}: to be marked by hand</h1>",
        f'<p class="soft">Points go into hand/{escape(assignment.name)}.csv. '
        "This page holds model answers: it isn't for students.</p>",
    ]
    for task in assignment.tasks:
        if task.kind == "hand":
            body += _answers(task, records)
    return page(f"{assignment.title}: by hand", [*body, "</main>"])


def _answers(task: Task, records: Sequence[Graded]) -> list[str]:
    match = SOLUTION.search(task.solution + "\n")
    model = match[1].strip() if match else ""
    found = [
        f"<h2>{escape(task.title)} ({task.points} points)</h2>",
        "<details><summary>What was asked</summary>",
        f"<pre>{escape(task.statement)}</pre></details>",
        "<details open><summary>Model answer and rubric</summary>",
        f"<pre>{escape(model)}</pre></details>",
    ]
    for record in records:
        row = next((row for row in record.rows if row.task == task.name), None)
        if row is None or row.verdict not in {PENDING, BY_HAND}:
            continue
        given = (
            "not marked yet" if row.points is None else f"{number(row.points)} points"
        )
        detail = f"; {row.detail}" if row.detail else ""
        found.append(
            f"<article><h2>{escape(record.student)}</h2>"
            f'<p class="soft">{escape(given + detail)}</p>'
            f"<pre>{escape(record.answers.get(task.name, ''))}</pre>"
            + "".join(
                f'<img alt="A picture of the answer" src="data:image/png;base64,{escape(picture)}">'
                for picture in record.pictures.get(task.name, ())
            )
            + "</article>"
        )
    return found
