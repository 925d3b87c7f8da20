"""The measured times that chapters quote: all there, within their bounds, and said where they come from."""

import json
from datetime import date

from book.tools.canonical import ROOT
from tests.bench.bench import QUOTED, STORED, Case, cases

TABLE = json.loads(STORED.read_text("utf-8"))
ROWS = {row["name"]: row for row in TABLE["rows"]}


def quoted() -> list[Case]:
    return list(cases(QUOTED))


def test_the_table_belongs_to_the_library() -> None:
    assert STORED.parent == ROOT / "ictd_lib"


def test_every_case_that_chapters_quote_is_stored_with_its_present_bound() -> None:
    chosen = quoted()
    assert [case.name for case in chosen] == list(ROWS)
    for case in chosen:
        row = ROWS[case.name]
        assert (row["unit"], row["bound"]) == (case.unit, case.bound)
        assert row["ok"] is True
        assert case.allows(row["value"])
        assert row["value"] > 0


def test_the_circumstances_are_said_and_name_no_machine() -> None:
    assert date.fromisoformat(TABLE["date"]) >= date(2026, 1, 1)
    assert {"platform", "python", "numpy", "torch", "threads"} < set(TABLE)
    system, machine = TABLE["platform"].split()
    assert system.isalpha()
    assert machine.replace("_", "").isalnum()


def test_longer_contexts_take_longer() -> None:
    for form in ("literal", "fused", "cached"):
        times = [ROWS[f"seconds_{form}_{n}"]["value"] for n in (256, 1024, 4096)]
        assert times == sorted(times)


def test_the_readme_shows_the_stored_figures() -> None:
    lines = (ROOT / "README.md").read_text("utf-8").splitlines()
    shown = [line.split("|") for line in lines if line.startswith("| `")]
    rows = {
        cells[1].strip(" `"): cells[3].strip() for cells in shown if len(cells) == 6
    }
    assert len(rows) == 7
    for name, text in rows.items():
        value = ROWS[name]["value"]
        assert text == (f"{value:,.0f}" if value >= 1000 else f"{value:,.3g}"), name
